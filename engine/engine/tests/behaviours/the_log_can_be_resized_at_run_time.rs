//! The capacity of the log changes beside writers: the files follow, and nothing is lost.

use std::sync::atomic::{AtomicBool, Ordering};

use holdfast::{Error, FlushAtCommit, WriteOptions};

use crate::common::{self, ROWS, fill};

fn log_bytes(dir: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let log = files.filter(|file| file.file_name().to_string_lossy().starts_with("wal."));
    log.map(|file| file.metadata().unwrap().len()).sum()
}

fn row(i: u64, round: u64) -> String {
    format!("{i} {round} {}", "p".repeat(300))
}

#[test]
fn while_rows_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = common::small().log_capacity_bytes(4 << 20).log_buffer_bytes(256 << 10).create_or_open(&path).unwrap();
    fill(&db, 0, 1_000);
    let done = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let lazily = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                db.transact_with(&lazily, |txn| {
                    let rows = txn.open_table(&ROWS)?;
                    (0..1_000).try_for_each(|i| rows.update(i, &*row(i, round)).map(|_| ()))
                })
                .unwrap();
            }
            round
        });
        // Each until it has been filled.
        for megabytes in [8, 5, 12, 4] {
            let capacity = megabytes << 20;
            db.set_log_capacity_bytes(capacity).unwrap();
            assert_eq!(db.stats().log.capacity_bytes, capacity);
            let begin = db.stats().log.lsn;
            while db.stats().log.lsn < begin + 2 * capacity {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    for too_small in [1, 3 << 20] {
        let error = db.set_log_capacity_bytes(too_small).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(m) if m.contains("log_capacity_bytes")), "{error}");
    }
    db.checkpoint().unwrap();
    assert!(log_bytes(&path) <= 4 << 20, "the files are as large as they may be");
    drop(db);
    let db = common::small().log_capacity_bytes(4 << 20).open(&path).unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    for i in 0..1_000 {
        assert_eq!(rows.get(i).unwrap().unwrap(), row(i, rounds));
    }
}

#[test]
fn not_below_what_the_buffer_needs() {
    let db = common::small().log_capacity_bytes(64 << 20).log_buffer_bytes(16 << 20).in_memory().unwrap();
    let message = db.set_log_capacity_bytes(8 << 20).unwrap_err().to_string();
    assert!(message.contains("too small for the log buffer"), "{message}");
    assert_eq!(db.stats().log.capacity_bytes, 64 << 20);
}
