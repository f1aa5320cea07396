//! A waiter for something that cannot come any more is told so at once, not when a timeout has
//! passed: for a row lock of a transaction that cannot commit because the database has stopped, for
//! log space that no checkpoint can free because pages cannot be written.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use holdfast::io::MemoryDisk;
use holdfast::{Database, Error, FlushAtCommit, WriteOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::{self, ROWS};

/// Longer than any test run: a wait that ends did not end by its timeout.
const NEVER: Duration = Duration::from_secs(1 << 20);

fn on_faults() -> (FaultDisk, Database) {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let settings = common::small().log_capacity_bytes(4 << 20).log_buffer_bytes(64 << 10).lock_wait_timeout(NEVER);
    let db = settings.disk(Arc::new(faults.clone())).create("test").unwrap();
    (faults, db)
}

/// Threads that waited for a row when a sync failed woke at their lock wait timeout, 50 seconds
/// later by default.
#[test]
fn row_locks_when_the_database_stops() {
    let (faults, db) = on_faults();
    common::fill(&db, 0, 10);
    let holder = db.begin_write().unwrap();
    holder.open_table(&ROWS).unwrap().update(1, "held").unwrap();
    std::thread::scope(|scope| {
        let (waits, is_waiting) = mpsc::channel();
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let (db, waits) = (db.clone(), waits.clone());
                scope.spawn(move || {
                    let txn = db.begin_write()?;
                    let rows = txn.open_table(&ROWS)?;
                    waits.send(()).unwrap();
                    rows.update(1, "late").map(drop)
                })
            })
            .collect();
        waiters.iter().for_each(|_| is_waiting.recv().unwrap());
        // One that is not yet waiting when the database stops finds out when it begins to.
        faults.schedule(Fault::nth(FaultOp::Sync, 1));
        assert!(db.transact(|txn| txn.open_table(&ROWS)?.update(2, "x").map(drop)).is_err());
        for waiter in waiters {
            let result = waiter.join().unwrap();
            assert!(matches!(result, Err(Error::Poisoned(_))), "{result:?}");
        }
    });
    assert!(matches!(holder.commit(), Err(Error::Poisoned(_))));
}

/// The checkpointer counted its failures and told no waiter: writers waited for log space for good.
#[test]
fn log_space_when_pages_cannot_be_written() {
    let (faults, db) = on_faults();
    common::fill(&db, 0, 2_000);
    let lazily = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
    let rewrite = |round: u64| {
        db.transact_with(&lazily, |txn| {
            let rows = txn.open_table(&ROWS)?;
            (0..200).try_for_each(|i| rows.update((round * 200 + i) % 2_000, &common::value(i)).map(drop))
        })
    };
    let file = db.list_tables()[0].file.clone();
    for kind in [FaultKind::Enospc, FaultKind::Eio] {
        faults.schedule(Fault::nth(FaultOp::Write, 1).kind(kind).on(&*file).sticky());
        // Several at a time, so that some stand in the queue behind others.
        let errors: Vec<Error> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|thread| scope.spawn(move || (0..10_000).find_map(|n| rewrite(n * 3 + thread).err())))
                .collect();
            writers.into_iter().map(|w| w.join().unwrap().expect("the log is full at some time")).collect()
        });
        for error in &errors {
            assert!(matches!(error, Error::DiskFull(_) | Error::Io { .. }), "{error}");
        }
        faults.clear();
        (0..20).for_each(|round| rewrite(round).unwrap());
    }
    common::assert_sound(&db);
    db.close().unwrap();
}
