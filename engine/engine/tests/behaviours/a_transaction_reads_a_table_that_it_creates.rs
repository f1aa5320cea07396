//! A table that comes to be after the snapshot of a transaction does not exist for it. That was so
//! for the table that the transaction itself had created, too: a program that read one table and
//! opened another one for the first time failed. And `transact` did not try again where the table
//! was another transaction's.

use std::cell::Cell;

use holdfast::{Database, Error, IndexDefinition, Isolation, TableDefinition, WaitMode, WriteOptions};

use crate::common::{self, ROWS};

const BY_VALUE: IndexDefinition<u64, u64, u64> =
    IndexDefinition::new("by_value", |_: &u64, value: &u64, keys| keys.push(*value));

fn second() -> TableDefinition<u64, u64> {
    TableDefinition::new("second").index(&BY_VALUE)
}

#[test]
fn after_it_has_read_another_one() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let db = Database::in_memory().unwrap();
        let options = WriteOptions::new().isolation(isolation);
        db.transact_with(&options, |txn| {
            assert_eq!(txn.open_table(&ROWS)?.get(1)?, None);
            let table = txn.open_table(&second())?;
            assert_eq!((table.get(1)?, table.iter()?.count()), (None, 0));
            assert_eq!(table.get_for_update(1, WaitMode::Wait)?, None);
            table.insert(1, 7)?;
            assert_eq!(table.index(&BY_VALUE)?.get(7)?, Some((1, 7)));
            // It is the same when it is opened again.
            assert_eq!(txn.open_table(&second())?.range(..5)?.rev().count(), 1);
            Ok(())
        })
        .unwrap();
        common::assert_sound(&db);
    }
}

/// What others have put there is younger than the snapshot.
#[test]
fn and_sees_there_what_its_snapshot_has() {
    let db = Database::in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(&ROWS).unwrap().get(1).unwrap();
    let table = txn.open_table(&second()).unwrap();
    db.transact(|other| other.open_table(&second())?.insert(1, 1)).unwrap();
    assert_eq!((table.get(1).unwrap(), table.iter().unwrap().count()), (None, 0));
    assert!(matches!(table.update(1, 2), Err(Error::Conflict)));
}

#[test]
fn a_transaction_that_another_ones_table_is_too_young_for_is_done_again() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 10);
    let attempts = Cell::new(0);
    let created = Cell::new(false);
    let found = db.transact(|txn| {
        attempts.set(attempts.get() + 1);
        txn.open_table(&ROWS)?.get(1)?;
        if !created.replace(true) {
            db.transact(|other| other.open_table(&second())?.insert(1, 1))?;
        }
        txn.open_table(&second())?.get(1)
    });
    assert_eq!((found.unwrap(), attempts.get()), (Some(1), 2));

    // An error of a snapshot that is none of the transaction's own is the program's.
    attempts.set(0);
    let failed: Result<(), Error> = db.transact(|_| {
        attempts.set(attempts.get() + 1);
        Err(Error::SnapshotTooOld)
    });
    assert!(matches!(failed, Err(Error::SnapshotTooOld)) && attempts.get() == 1);
}
