//! A range reads one moment from both ends, and ends after an error: a program that passes over
//! errors once got a range that lacked a row, and a cursor that went on behind it.

use std::time::Duration;

use holdfast::raw::RawDatabase;
use holdfast::{
    Database, Error, FlushAtCommit, IndexDefinition, Isolation, ReadOptions, Result, TableDefinition, WriteOptions,
};

use crate::common::{self, ROWS};

const BY_VALUE: IndexDefinition<u64, u64, u64> =
    IndexDefinition::new("by_value", |_: &u64, value: &u64, keys| keys.push(*value));

fn numbers() -> TableDefinition<u64, u64> {
    TableDefinition::new("numbers").index(&BY_VALUE)
}

/// Numbers 1 to 3.
fn database() -> Database {
    let db = Database::in_memory().unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&numbers())?;
        (1..4).try_for_each(|n| rows.insert(n, n))
    })
    .unwrap();
    db
}

/// At READ COMMITTED each statement reads what is committed when it begins: the ends of a range are
/// of one statement.
#[test]
fn both_ends_see_one_moment() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let db = database();
        let txn = db.begin_write_with(&WriteOptions::new().isolation(isolation)).unwrap();
        let table = txn.open_table(&numbers()).unwrap();
        let (mut rows, mut entries) = (table.iter().unwrap(), table.index(&BY_VALUE).unwrap().range(..).unwrap());
        assert_eq!(rows.next().unwrap().unwrap(), (1, 1));
        assert_eq!(entries.next_back().unwrap().unwrap(), (3, 3, 3));
        // The first row and its entry move to the other end.
        db.transact(|other| {
            let table = other.open_table(&numbers())?;
            table.delete(1)?;
            table.insert(9, 0)
        })
        .unwrap();
        let rest: Vec<_> = rows.rev().map(Result::unwrap).collect();
        assert_eq!(rest, [(3, 3), (2, 2)], "{isolation:?}");
        let rest: Vec<_> = entries.map(Result::unwrap).collect();
        assert_eq!(rest, [(1, 1, 1), (2, 2, 2)], "{isolation:?}");
    }
}

/// Own changes are seen from both ends, whichever was asked first.
#[test]
fn both_ends_see_own_changes() {
    let db = database();
    let txn = db.begin_write().unwrap();
    let table = txn.open_table(&numbers()).unwrap();
    let mut rows = table.iter().unwrap();
    assert_eq!(rows.next().unwrap().unwrap(), (1, 1));
    table.update(3, 33).unwrap();
    let place = txn.savepoint().unwrap();
    table.insert(4, 44).unwrap();
    table.delete(2).unwrap();
    assert_eq!(rows.next_back().unwrap().unwrap(), (4, 44));
    txn.rollback_to(&place).unwrap();
    assert_eq!(rows.next_back().unwrap().unwrap(), (3, 33));
    assert_eq!(rows.next().unwrap().unwrap(), (2, 2));
    assert!(rows.next().is_none() && rows.next_back().is_none());
}

#[test]
fn bytes_that_are_no_row_end_it() {
    let db = database();
    let raw = RawDatabase::new(db.clone());
    let (table, mut txn) = (raw.open_table("numbers").unwrap(), common::rows::begin(&raw));
    txn.update(&table, 0, &2u64.to_be_bytes(), &b"no u64"[..]).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&numbers()).unwrap();
    let is_mismatch = |error: Error| matches!(error, Error::TableMismatch { .. });
    let mut range = rows.iter().unwrap();
    assert!(range.next().unwrap().is_ok() && is_mismatch(range.next().unwrap().unwrap_err()));
    assert!(range.next().is_none() && range.next_back().is_none());
    let mut range = rows.index(&BY_VALUE).unwrap().range(..).unwrap();
    assert!(range.next_back().unwrap().is_ok() && is_mismatch(range.next_back().unwrap().unwrap_err()));
    assert!(range.next().is_none() && range.next_back().is_none());
    // Its entry is one.
    assert_eq!(rows.index(&BY_VALUE).unwrap().keys(..).unwrap().filter_map(Result::ok).count(), 3);
}

#[test]
fn a_row_that_is_locked_ends_it_and_is_not_passed_over() {
    let db = database();
    let writer = db.begin_write().unwrap();
    writer.open_table(&numbers()).unwrap().update(2, 2).unwrap();
    let options = WriteOptions::new().isolation(Isolation::Serializable).lock_wait_timeout(Duration::from_millis(10));
    let reader = db.begin_write_with(&options).unwrap();
    let rows = reader.open_table(&numbers()).unwrap();
    let mut range = rows.iter().unwrap();
    assert_eq!(range.next().unwrap().unwrap(), (1, 1));
    assert!(matches!(range.next(), Some(Err(Error::LockTimeout))));
    assert!(range.next().is_none());

    let (mut cursor, mut key, mut value) = (rows.cursor(&ReadOptions::new()), Vec::new(), Vec::new());
    cursor.seek(..).unwrap();
    assert!(cursor.next_into(&mut key, &mut value).unwrap());
    assert!(matches!(cursor.next_into(&mut key, &mut value), Err(Error::LockTimeout)));
    assert!(matches!(cursor.next_into(&mut key, &mut value), Err(Error::InvalidArgument(_))));
    writer.rollback().unwrap();
    // It is sought again behind the last row.
    cursor.seek(2..).unwrap();
    assert!(cursor.next_into(&mut key, &mut value).unwrap());
    assert_eq!(key, 2u64.to_be_bytes());
}

#[test]
fn whatever_its_bounds_are() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 100);
    let txn = db.begin_write_with(&WriteOptions::new().isolation(Isolation::Serializable)).unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    let keys: Vec<u64> = (0..100).collect();
    for from in [Unbounded, Included(0), Excluded(0), Included(50), Excluded(50), Excluded(u64::MAX)] {
        for to in [Unbounded, Included(u64::MAX), Excluded(0), Included(0), Included(49), Excluded(51), Included(99)] {
            let is_in = |key: &&u64| std::ops::RangeBounds::contains(&(from, to), *key);
            let expected: Vec<u64> = keys.iter().filter(is_in).copied().collect();
            let forward: Vec<u64> = rows.range((from, to)).unwrap().map(|row| row.unwrap().0).collect();
            let mut backward: Vec<u64> = rows.range((from, to)).unwrap().rev().map(|row| row.unwrap().0).collect();
            backward.reverse();
            let mut by_cursor = Vec::new();
            let (mut cursor, mut key, mut value) = (rows.cursor(&ReadOptions::new()), Vec::new(), Vec::new());
            cursor.seek((from, to)).unwrap();
            while cursor.next_into(&mut key, &mut value).unwrap() {
                by_cursor.push(u64::from_be_bytes(key.as_slice().try_into().unwrap()));
            }
            assert_eq!((&forward, &backward, &by_cursor), (&expected, &expected, &expected), "{from:?} {to:?}");
            assert_eq!(rows.estimate((from, to)).unwrap() == 0, expected.is_empty(), "{from:?} {to:?}");
        }
    }
}
