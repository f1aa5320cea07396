//! Two transactions change the same row: the first one wins, the second one gets an error.

use std::time::Duration;

use holdfast::{Database, Error, Isolation, WaitMode, WriteOptions};

use crate::common::{self, ROWS};

fn database() -> Database {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 10);
    db
}

#[test]
fn first_updater_wins() {
    let db = database();
    let (a, b) = (db.begin_write().unwrap(), db.begin_write().unwrap());
    let (rows_a, rows_b) = (a.open_table(&ROWS).unwrap(), b.open_table(&ROWS).unwrap());
    // Both take their snapshots.
    assert!(rows_a.get(1).unwrap().is_some() && rows_b.get(1).unwrap().is_some());
    rows_a.update(1, "a").unwrap();
    a.commit().unwrap();
    let error = rows_b.update(1, "b").unwrap_err();
    assert!(matches!(error, Error::Conflict), "{error}");
    drop(b);
    assert_eq!(db.begin_read().unwrap().open_table(&ROWS).unwrap().get(1).unwrap().as_deref(), Some("a"));
}

#[test]
fn without_snapshot_isolation_the_second_updates_what_the_first_left() {
    let db = database();
    let options = WriteOptions::new().snapshot_isolation(false);
    let (a, b) = (db.begin_write().unwrap(), db.begin_write_with(&options).unwrap());
    let rows_b = b.open_table(&ROWS).unwrap();
    assert!(rows_b.get(1).unwrap().is_some());
    a.open_table(&ROWS).unwrap().update(1, "a").unwrap();
    a.commit().unwrap();
    assert_eq!(rows_b.get_for_update(1, WaitMode::Wait).unwrap().as_deref(), Some("a"));
    rows_b.update(1, "b").unwrap();
    b.commit().unwrap();
    assert_eq!(db.begin_read().unwrap().open_table(&ROWS).unwrap().get(1).unwrap().as_deref(), Some("b"));
}

#[test]
fn a_locked_row_can_be_waited_for_refused_or_passed_over() {
    let db = database();
    let holder = db.begin_write().unwrap();
    assert!(holder.open_table(&ROWS).unwrap().get_for_update(3, WaitMode::Wait).unwrap().is_some());

    let options = WriteOptions::new().lock_wait_timeout(Duration::from_millis(20)).isolation(Isolation::ReadCommitted);
    let txn = db.begin_write_with(&options).unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    assert!(matches!(rows.get_for_update(3, WaitMode::Wait), Err(Error::LockTimeout)));
    assert!(matches!(rows.get_for_update(3, WaitMode::NoWait), Err(Error::WouldBlock)));
    assert_eq!(rows.get_for_update(3, WaitMode::SkipLocked).unwrap(), None);
    let free = rows.range_for_update(2..5, WaitMode::SkipLocked).unwrap().map(|r| r.unwrap().0).collect::<Vec<_>>();
    assert_eq!(free, [2, 4]);
    // The transaction goes on after a statement that failed.
    rows.update(5, "done").unwrap();
    txn.commit().unwrap();
}

#[test]
fn shared_locks_are_shared() {
    let db = database();
    let (a, b) = (db.begin_write().unwrap(), db.begin_write().unwrap());
    let (rows_a, rows_b) = (a.open_table(&ROWS).unwrap(), b.open_table(&ROWS).unwrap());
    assert!(rows_a.get_for_share(1, WaitMode::NoWait).unwrap().is_some());
    assert!(rows_b.get_for_share(1, WaitMode::NoWait).unwrap().is_some());
    assert!(matches!(rows_b.get_for_update(1, WaitMode::NoWait), Err(Error::WouldBlock)));
}

#[test]
fn a_deadlock_is_found_and_one_of_the_two_goes_on() {
    let db = database();
    let barrier = std::sync::Barrier::new(2);
    let outcomes = std::thread::scope(|scope| {
        let one = |first: u64, second: u64| {
            let (db, barrier) = (db.clone(), &barrier);
            scope.spawn(move || {
                let txn = db.begin_write().unwrap();
                let rows = txn.open_table(&ROWS).unwrap();
                rows.update(first, "locked").unwrap();
                barrier.wait();
                let second = rows.update(second, "wanted");
                match second {
                    Ok(_) => txn.commit(),
                    Err(error) => Err(error),
                }
            })
        };
        let (a, b) = (one(1, 2), one(2, 1));
        [a.join().unwrap(), b.join().unwrap()]
    });
    let failed = outcomes.iter().filter_map(|r| r.as_ref().err()).collect::<Vec<_>>();
    assert!(matches!(failed.as_slice(), [Error::Deadlock]), "{outcomes:?}");
}

#[test]
fn counters_add_up_with_retries() {
    let db = database();
    let counter = holdfast::TableDefinition::<&str, u64>::new("counter");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    db.transact(|txn| {
                        let table = txn.open_table(&counter)?;
                        let n = table.get_for_update("n", WaitMode::Wait)?.unwrap_or(0);
                        table.upsert("n", n + 1)
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(db.begin_read().unwrap().open_table(&counter).unwrap().get("n").unwrap(), Some(400));
}
