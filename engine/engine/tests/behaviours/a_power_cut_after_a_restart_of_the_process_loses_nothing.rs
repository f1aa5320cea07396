//! A process ends and the system lives on. The database is opened again and takes a checkpoint.
//! Then the power goes. What the first process wrote to its files without a sync was in the
//! system's cache only. Recovery read it there, took it for what the disk holds, and its checkpoint
//! passed it: after the power cut pages were what they had been before, or torn.

use std::sync::Arc;

use holdfast::io::Disk;
use holdfast::metrics::Counter;
use holdfast::{Builder, Database, TableDefinition};
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common::{self, ROWS, tight_on};

/// More than the cache holds.
const ROWS_OF_ALL: u64 = 12_000;
/// What takes the place of the pages that have changed.
const OTHERS: TableDefinition<u64, &str> = TableDefinition::new("others");

fn on(disk: &(impl Disk + Clone + 'static)) -> Builder {
    tight_on(disk).log_capacity_bytes(64 << 20)
}

fn value(key: u64, version: u8) -> String {
    format!("{key} {version} {}", "x".repeat(700))
}

/// Gives rows a value of this version.
fn write(db: &Database, table: &TableDefinition<u64, &'static str>, keys: impl Iterator<Item = u64>, version: u8) {
    let keys: Vec<u64> = keys.collect();
    for keys in keys.chunks(500) {
        db.transact(|txn| {
            let rows = txn.open_table(table)?;
            keys.iter().try_for_each(|&key| rows.upsert(key, &value(key, version)).map(drop))
        })
        .unwrap();
    }
}

/// Every third row has the newer version.
fn assert_all_there(db: &Database) {
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    let mut found = 0;
    for row in rows.iter().unwrap() {
        let (key, there) = row.unwrap();
        assert!(there == value(key, u8::from(key % 3 == 0)), "row {key} is {}", &there[..10]);
        found += 1;
    }
    assert_eq!(found, ROWS_OF_ALL);
}

/// What a process has written, and not synced, when it ends; what it wrote is in the system's
/// cache.
fn ended_process() -> CrashDisk {
    let crash = CrashDisk::new();
    let db = on(&crash).create("test").unwrap();
    write(&db, &ROWS, 0..ROWS_OF_ALL, 0);
    db.close().unwrap();
    let faults = FaultDisk::new(Arc::new(crash.clone()));
    let db = on(&faults).open("test").unwrap();
    write(&db, &ROWS, (0..ROWS_OF_ALL).step_by(3), 1);
    write(&db, &OTHERS, 0..ROWS_OF_ALL, 0);
    assert!(db.metrics_snapshot().get(Counter::PagesWritten) > 100);
    for op in [FaultOp::Write, FaultOp::Sync, FaultOp::SetLen, FaultOp::Remove, FaultOp::Rename, FaultOp::SyncDir] {
        faults.schedule(Fault::nth(op, 1).sticky());
    }
    drop(db);
    crash
}

/// The next process recovers, and its checkpoint gives up the log. Then the power goes.
fn recovered_and_cut(crash: &CrashDisk) {
    let db = on(crash).open("test").unwrap();
    assert!(db.metrics_snapshot().get(Counter::RecoveryPagesSkipped) > 100, "pages have what the log says");
    db.checkpoint().unwrap();
    for seed in 0..12 {
        let db = on(&crash.reboot(seed)).open("test").unwrap();
        assert_all_there(&db);
        common::assert_sound(&db);
    }
}

#[test]
fn a_process_that_was_killed() {
    recovered_and_cut(&ended_process());
}

/// The next process uses the slots of the double-write file again while pages that they repair may
/// still be torn.
#[test]
fn a_power_cut_while_the_next_process_recovers() {
    for operations in [100, 300, 1_000, 3_000] {
        let crash = ended_process();
        crash.crash_after(operations);
        let db = on(&crash).log_capacity_bytes(16 << 20).open("test");
        if let Ok(db) = &db {
            let _ = db.transact(|txn| txn.open_table(&OTHERS)?.delete(0).map(drop));
        }
        drop(db);
        for seed in 0..4 {
            let db = on(&crash.reboot(seed)).open("test").unwrap();
            assert_all_there(&db);
            common::assert_sound(&db);
        }
    }
}

/// The system takes for clean what the failed sync was to write.
#[test]
fn a_process_whose_sync_failed() {
    let crash = ended_process();
    crash.list().unwrap().iter().for_each(|name| crash.lose_unsynced(name));
    recovered_and_cut(&crash);
}
