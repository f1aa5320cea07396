//! The file of one table takes no writes. Its changed pages hold the checkpoint until the log is
//! full, and then no statement gets room in the log. Neither did the drop of that table, which
//! would have ended it: the database was stuck, after each restart too.

use std::sync::Arc;

use holdfast::io::{Disk, MemoryDisk};
use holdfast::{BackupOptions, Database, Error, TableDefinition, VerifyOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common;

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");
const THIRD: TableDefinition<u64, &str> = TableDefinition::new("third");

fn insert(db: &Database, from: u64) -> Result<(), Error> {
    let rows = |txn: &holdfast::WriteTransaction| {
        let other = txn.open_table(&OTHER)?;
        (from..from + 50).try_for_each(|i| other.insert(i, &"x".repeat(900)))
    };
    db.transact(rows)
}

/// Inserts until there is no room in the log; how many rows there are then.
fn fill_log(db: &Database, file: &str) -> u64 {
    let mut rows = 0;
    loop {
        match insert(db, rows) {
            Ok(()) => rows += 50,
            Err(Error::Io { file: refused, .. }) if refused.starts_with(file) => return rows,
            Err(error) => panic!("{error}"),
        }
        assert!(rows < 1_000_000, "the checkpoint is held");
    }
}

/// What comes before the drop.
#[derive(PartialEq)]
enum Before {
    Nothing,
    Restart,
    /// A drop that fails when the file is removed, but not yet for good.
    Drop,
}

fn is_dropped(before: Before) {
    let memory = MemoryDisk::new();
    let disk = FaultDisk::new(Arc::new(memory.clone()));
    let mut db = common::tight_on(&disk).create("test").unwrap();
    common::fill(&db, 0, 100);
    db.create_table(&OTHER).unwrap();
    db.checkpoint().unwrap();
    let file = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    disk.schedule(Fault::nth(FaultOp::Write, 1).on(&file).sticky());
    common::fill(&db, 100, 101);
    let rows = fill_log(&db, &file);
    if before == Before::Restart {
        assert!(db.close().is_err());
        db = common::tight_on(&disk).open("test").unwrap();
    }
    if before == Before::Drop {
        disk.schedule(Fault::nth(FaultOp::SyncDir, 1));
        let error = db.drop_table("rows").unwrap_err();
        assert!(matches!(error, Error::Io { operation: "sync", .. }) && !memory.exists(&file).unwrap(), "{error}");
    }
    db.drop_table("rows").unwrap();
    (0..100).for_each(|n| insert(&db, rows + n * 50).unwrap());
    disk.clear();
    db.close().unwrap();
    let db = common::tight_on(&memory).open("test").unwrap();
    assert_eq!(db.begin_read().unwrap().open_table(&OTHER).unwrap().iter().unwrap().count() as u64, rows + 5_000);
    assert!(!memory.exists(&file).unwrap());
    common::assert_sound(&db);
}

/// The file is gone, and the table cannot be taken out of the catalog yet, since another one keeps
/// the log from going on. A check, a backup and a compaction of the whole database ended at it.
#[test]
fn though_another_one_keeps_the_log_full() {
    let memory = MemoryDisk::new();
    let disk = FaultDisk::new(Arc::new(memory.clone()));
    let db = common::tight_on(&disk).create("test").unwrap();
    common::fill(&db, 0, 100);
    db.create_table(&OTHER).unwrap();
    insert(&db, 0).unwrap();
    db.create_table(&THIRD).unwrap();
    db.transact(|txn| txn.open_table(&THIRD)?.insert(1, "sound")).unwrap();
    db.checkpoint().unwrap();
    for table in db.list_tables().into_iter().filter(|table| table.name != "third") {
        disk.schedule(Fault::nth(FaultOp::Write, 1).on(&table.file).sticky());
    }
    common::fill(&db, 100, 101);
    let mut rows = 50;
    while insert(&db, rows).is_ok() {
        rows += 50;
        assert!(rows < 1_000_000, "the checkpoint is held");
    }
    db.drop_table("rows").unwrap_err();
    disk.clear();

    let mut found = Vec::new();
    db.verify(&VerifyOptions::default(), &mut |_| {})
        .unwrap()
        .findings
        .iter()
        .for_each(|f| found.push(f.table.clone()));
    assert_eq!(found, ["rows"]);
    let copy = MemoryDisk::new();
    let options = BackupOptions::new().disk(Arc::new(copy.clone())).leave_out_damaged(true);
    let left_out = db.backup("copy", &options).unwrap().left_out;
    assert_eq!(left_out.iter().map(|f| f.table.as_str()).collect::<Vec<_>>(), ["rows"]);
    let left_out = db.compact().unwrap().left_out;
    assert_eq!(left_out.iter().map(|f| f.table.as_str()).collect::<Vec<_>>(), ["rows"]);
    db.drop_table("rows").unwrap();
    common::assert_sound(&db);
    let third = db.begin_read().unwrap().open_table(&THIRD).unwrap().get(1).unwrap();
    assert_eq!(third.as_deref(), Some("sound"));
}

#[test]
fn when_the_log_is_full() {
    is_dropped(Before::Nothing);
}

#[test]
fn after_a_restart() {
    is_dropped(Before::Restart);
}

/// The file was removed by then, and each later drop failed since it was not there.
#[test]
fn after_the_directory_could_not_be_synced() {
    is_dropped(Before::Drop);
}
