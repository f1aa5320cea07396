//! Threads that share a transaction take turns, also with the steps of its ranges. A step of a
//! range and a statement once waited for locks at the same time: one of the two was told that it
//! had the lock for which the other one waited, and the other one that its time was over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast::metrics::Gauge;
use holdfast::{
    BackupOptions, Builder, Cursor, Database, Error, Index, IndexDefinition, IndexEntries, IndexRange, Isolation,
    Range, ReadTable, ReadTransaction, Savepoint, Table, TableDefinition, WaitMode, WriteOptions, WriteTransaction,
};

use crate::common::{self, ROWS};

/// Waits until a transaction waits for a lock, and a moment longer.
fn wait_for_a_wait(db: &Database) {
    while db.metrics_snapshot().gauge(Gauge::RowLockCurrentWaits) == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn each_gets_the_lock_that_it_waits_for() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 10);
    let [first, second, shared] = [(); 3].map(|()| db.begin_write().unwrap());
    first.open_table(&ROWS).unwrap().get_for_update(1, WaitMode::Wait).unwrap();
    second.open_table(&ROWS).unwrap().get_for_update(2, WaitMode::Wait).unwrap();
    let rows = shared.open_table(&ROWS).unwrap();
    let first_is_over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let range = s.spawn(|| {
            let row = rows.range_for_update(1..=1, WaitMode::Wait).unwrap().next().unwrap().unwrap();
            assert!(first_is_over.load(Ordering::SeqCst), "another transaction has the row");
            row.0
        });
        wait_for_a_wait(&db);
        let row = s.spawn(|| rows.get_for_update(2, WaitMode::Wait).unwrap().is_some());
        std::thread::sleep(Duration::from_millis(50));
        second.rollback().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        first_is_over.store(true, Ordering::SeqCst);
        first.rollback().unwrap();
        assert_eq!((range.join().unwrap(), row.join().unwrap()), (1, true));
    });
    let other = db.begin_write().unwrap();
    for key in [1, 2] {
        let got = other.open_table(&ROWS).unwrap().get_for_update(key, WaitMode::NoWait);
        assert!(matches!(got, Err(Error::WouldBlock)), "{key}: {got:?}");
    }
}

const BY_VALUE: IndexDefinition<u64, u64, u64> =
    IndexDefinition::new("by_value", |_: &u64, value: &u64, keys| keys.push(*value));

/// Through an index: the row and its entry are of one statement.
#[test]
fn a_range_sees_no_half_of_a_statement() {
    let table = TableDefinition::<u64, u64>::new("t").index(&BY_VALUE);
    let db = Database::in_memory().unwrap();
    // The entry of row 0 is the last one, and moves on.
    db.transact(|txn| {
        let rows = txn.open_table(&table)?;
        (0..100).try_for_each(|key| rows.insert(key, if key == 0 { 100 } else { key }))
    })
    .unwrap();
    let options = WriteOptions::new().isolation(Isolation::ReadCommitted);
    let txn = db.begin_write_with(&options).unwrap();
    let (rows, done) = (txn.open_table(&table).unwrap(), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            (101..5_000).for_each(|value| assert!(rows.update(0, value).unwrap()));
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let mut entries = rows.index(&BY_VALUE).unwrap().keys(..).unwrap();
            assert!(entries.any(|entry| entry.unwrap().1 == 0), "the row has no entry");
        }
    });
}

/// A range over rows by an index once took one turn for the entry and another one for the row.
#[test]
fn a_row_is_the_one_that_its_entry_leads_to() {
    let table = TableDefinition::<u64, u64>::new("t").index(&BY_VALUE);
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let db = Database::in_memory().unwrap();
        db.transact(|txn| txn.open_table(&table)?.insert(0, 0)).unwrap();
        let txn = db.begin_write_with(&WriteOptions::new().isolation(isolation)).unwrap();
        let (rows, done) = (txn.open_table(&table).unwrap(), AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                (1..5_000).for_each(|value| assert!(rows.update(0, value).unwrap()));
                done.store(true, Ordering::SeqCst);
            });
            while !done.load(Ordering::SeqCst) {
                for row in rows.index(&BY_VALUE).unwrap().range(..).unwrap() {
                    let (entry, _, value) = row.unwrap();
                    assert_eq!(entry, value, "{isolation:?}");
                }
            }
        });
    }
}

/// What the documentation promises of types.
#[test]
fn all_of_it_may_be_shared() {
    fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<(Database, Builder, BackupOptions, Error)>();
    may_be_shared::<(ReadTransaction, WriteTransaction, Savepoint)>();
    may_be_shared::<(TableDefinition<u64, &str>, IndexDefinition<u64, &str, u64>)>();
    may_be_shared::<(ReadTable<'_, u64, &str>, Table<'_, u64, &str>, Range<'_, u64, &str>, Cursor<'_, u64, &str>)>();
    may_be_shared::<(Index<'_, u64, &str, u64>, IndexEntries<'_, u64, u64>, IndexRange<'_, u64, &str, u64>)>();
}
