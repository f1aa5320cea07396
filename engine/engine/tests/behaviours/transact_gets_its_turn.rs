//! `transact` ran a transaction again after a conflict just as before, 100 times, and so gave up
//! now and then where four threads read and changed one row. It locks what it conflicted on before
//! it reads anything, and so conflicts on each row once at most.

use std::cell::Cell;

use holdfast::metrics::Counter;
use holdfast::{Database, Error, IndexDefinition, TableDefinition, WaitMode, WriteOptions};

const COUNTERS: TableDefinition<u64, u64> = TableDefinition::new("counters");

fn increase(db: &Database) {
    db.transact(|txn| {
        let counters = txn.open_table(&COUNTERS)?;
        let count = counters.get(1)?.unwrap_or(0);
        counters.upsert(1, count + 1)
    })
    .unwrap();
}

#[test]
fn the_attempt_after_a_conflict_has_the_row_locked() {
    let db = Database::in_memory().unwrap();
    increase(&db);
    let attempts = Cell::new(0);
    db.transact(|txn| {
        attempts.set(attempts.get() + 1);
        let counters = txn.open_table(&COUNTERS)?;
        if attempts.get() > 1 {
            let other = db.begin_write()?;
            let locked = other.open_table(&COUNTERS)?.get_for_update(1, WaitMode::NoWait);
            assert!(matches!(locked, Err(Error::WouldBlock)));
        }
        let count = counters.get(1)?.unwrap();
        if attempts.get() == 1 {
            increase(&db);
        }
        counters.update(1, count + 10)
    })
    .unwrap();
    assert_eq!(attempts.get(), 2);
    assert_eq!(db.begin_read().unwrap().open_table(&COUNTERS).unwrap().get(1).unwrap(), Some(12));
}

#[test]
fn many_threads_that_read_and_change_one_row_conflict_once_each_time() {
    const THREADS: u64 = 8;
    const TIMES: u64 = 100;
    let db = Database::in_memory().unwrap();
    increase(&db);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    let attempts = Cell::new(0);
                    db.transact(|txn| {
                        attempts.set(attempts.get() + 1);
                        let counters = txn.open_table(&COUNTERS)?;
                        let count = counters.get(1)?.unwrap();
                        counters.upsert(1, count + 1)
                    })
                    .unwrap();
                    assert!(attempts.get() <= 2, "{} attempts", attempts.get());
                }
            });
        }
    });
    let count = db.begin_read().unwrap().open_table(&COUNTERS).unwrap().get(1).unwrap();
    assert_eq!(count, Some(1 + THREADS * TIMES));
}

/// Changes without a read before have no snapshot that could be too old.
#[test]
fn many_threads_that_change_one_row_never_conflict() {
    let db = Database::in_memory().unwrap();
    increase(&db);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..200 {
                    let txn = db.begin_write().unwrap();
                    assert!(txn.open_table(&COUNTERS).unwrap().update(1, n).unwrap());
                    txn.commit().unwrap();
                }
            });
        }
    });
}

/// A unique key that another transaction gave to a row and took away again is an entry of its
/// index.
#[test]
fn a_conflict_may_be_on_an_entry_of_an_index() {
    const BY_VALUE: IndexDefinition<u64, u64, u64> =
        IndexDefinition::unique("by_value", |_: &u64, value: &u64, keys| keys.push(*value));
    let table = || TableDefinition::<u64, u64>::new("unique").index(&BY_VALUE);
    let db = Database::in_memory().unwrap();
    db.transact(|txn| txn.open_table(&table())?.insert(1, 10)).unwrap();
    let attempts = Cell::new(0);
    db.transact(|txn| {
        attempts.set(attempts.get() + 1);
        let rows = txn.open_table(&table())?;
        assert_eq!(rows.get(1)?, Some(10));
        if attempts.get() == 1 {
            db.transact(|txn| txn.open_table(&table())?.upsert(1, 20))?;
            db.transact(|txn| txn.open_table(&table())?.upsert(1, 10))?;
        }
        rows.upsert(1, 30)
    })
    .unwrap();
    assert_eq!(attempts.get(), 2);
}

/// A body that took longer than the limit of old versions allows was run a thousand times, where it
/// noticed that by a look for a row.
#[test]
fn a_snapshot_that_was_given_up_is_no_reason_to_run_again() {
    const TEXTS: TableDefinition<u64, &str> = TableDefinition::new("texts");
    let db = Database::builder().cache_size_bytes(8 << 20).version_limit_bytes(1 << 20).in_memory().unwrap();
    let value = "x".repeat(1_000);
    let write = |id| db.transact(|txn| txn.open_table(&TEXTS)?.upsert(id, &value).map(drop));
    (0..2_000).try_for_each(write).unwrap();
    let given_up = || db.metrics().get(Counter::TrxSnapshotTooOld);
    let attempts = Cell::new(0);
    let result = db.transact_with(&WriteOptions::new().snapshot_isolation(false), |txn| {
        attempts.set(attempts.get() + 1);
        let texts = txn.open_table(&TEXTS)?;
        texts.get(1)?;
        while given_up() == 0 {
            (0..2_000).try_for_each(write)?;
        }
        texts.get(1).map(drop)
    });
    assert!(matches!(result, Err(Error::SnapshotTooOld)), "{result:?}");
    assert_eq!(attempts.get(), 1);
}
