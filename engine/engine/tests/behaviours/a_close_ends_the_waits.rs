//! A thread that waits for another transaction when the database is closed is told so at once. It
//! waited on until its lock wait timeout, though what keeps the row may never end by then, and got
//! an error that says that its transaction can go on.

use std::sync::Arc;
use std::thread;

use holdfast::io::MemoryDisk;
use holdfast::{Database, Error, Isolation, Listing, Result, WriteOptions};

use crate::common::{self, ROWS, WAIT};

const WAITERS: usize = 2;

fn insert(db: &Database, key: u64) -> Result<()> {
    let txn = db.begin_write()?;
    txn.open_table(&ROWS)?.insert(key, "late")
}

fn is_gate_closed(db: &Database) -> bool {
    let txn = db.begin_write_with(&WriteOptions::new().lock_wait_timeout(std::time::Duration::ZERO)).unwrap();
    matches!(txn.open_table(&ROWS), Err(Error::LockTimeout))
}

fn lock_waits(db: &Database) -> usize {
    let mut count = 0;
    db.list(Listing::LockWaits, &mut |_| {
        count += 1;
        true
    });
    count
}

/// Returns when `holds` does.
fn until(holds: impl Fn() -> bool) {
    while !holds() {
        thread::yield_now();
    }
}

#[test]
fn rows_ranges_and_tables_are_waited_for_no_longer() {
    let settings = common::small().lock_wait_timeout(WAIT).disk(Arc::new(MemoryDisk::new()));
    let db = settings.create("test").unwrap();
    common::fill(&db, 0, 10);
    let holder = db.begin_write_with(&WriteOptions::new().isolation(Isolation::Serializable)).unwrap();
    let rows = holder.open_table(&ROWS).unwrap();
    rows.update(1, "held").unwrap();
    assert_eq!(rows.range(100..200).unwrap().count(), 0);
    thread::scope(|scope| {
        let wait = |work: fn(&Database) -> Result<()>| {
            let db = db.clone();
            scope.spawn(move || work(&db))
        };
        let mut waiters = vec![wait(|db| insert(db, 1)), wait(|db| insert(db, 150))];
        until(|| lock_waits(&db) == WAITERS);
        waiters.push(wait(|db| db.drop_table("rows")));
        until(|| is_gate_closed(&db));
        // One more at the gate, and one before it.
        waiters.push(wait(|db| db.drop_table("rows")));
        waiters.push(wait(|db| insert(db, 300)));
        db.clone().close().unwrap();
        for waiter in waiters {
            let result = waiter.join().unwrap();
            assert!(matches!(result, Err(Error::Closed(_))), "{result:?}");
        }
    });
    assert!(matches!(rows.get(1), Err(Error::Closed(_))));
}
