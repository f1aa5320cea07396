//! A database is closed while threads change it. A change that the closed log refused after it had
//! changed pages poisoned the database: `close` failed, the commits that had not waited for a sync
//! were lost with the log buffer, and the next open had the log to recover.

use std::sync::atomic::{AtomicU64, Ordering};

use holdfast::io::MemoryDisk;
use holdfast::{Database, Error, FlushAtCommit, WriteOptions};

use crate::common::{self, ROWS};

const WRITERS: u64 = 4;
const ROUNDS: u64 = 60;

/// Inserts rows `first`, `first + WRITERS`, and so on, until the database is closed. Counts them
/// once they are committed, and returns the key of the first one that was not.
fn insert_until_closed(db: &Database, first: u64, committed: &AtomicU64) -> u64 {
    // Nothing waits for a sync but the close.
    let lazily = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
    for key in (first..).step_by(WRITERS as usize) {
        match db.transact_with(&lazily, |txn| txn.open_table(&ROWS)?.insert(key, &common::value(key))) {
            Ok(()) => committed.fetch_add(1, Ordering::Relaxed),
            Err(Error::Closed(_)) => return key,
            Err(error) => panic!("{error}"),
        };
    }
    unreachable!("the range has no end")
}

#[test]
fn no_commit_is_lost_and_nothing_is_left_to_recover() {
    for round in 0..ROUNDS {
        let disk = MemoryDisk::new();
        let db = common::create_on(&disk);
        db.create_table(&ROWS).unwrap();
        let committed = AtomicU64::new(0);
        let ends: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|first| {
                    let (db, committed) = (db.clone(), &committed);
                    scope.spawn(move || insert_until_closed(&db, first, committed))
                })
                .collect();
            while committed.load(Ordering::Relaxed) < 20 * (round + 1) {
                std::thread::yield_now();
            }
            db.clone().close().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let db = common::open_on(&disk);
        let txn = db.begin_read().unwrap();
        let rows = txn.open_table(&ROWS).unwrap();
        for (first, end) in (0..).zip(ends) {
            for key in (first..end).step_by(WRITERS as usize) {
                assert_eq!(rows.get(key).unwrap(), Some(common::value(key)), "round {round}");
            }
        }
        drop(txn);
        common::assert_sound(&db);
    }
}
