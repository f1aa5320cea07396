//! The file of one table takes no writes. Its changed pages hold the checkpoint until the log is
//! full, and then no statement gets room in the log. Neither did the drop of that table, which
//! would have ended it: the database was stuck, after each restart too.

use std::sync::Arc;

use holdfast::io::{Disk, MemoryDisk};
use holdfast::{Database, Error, TableDefinition};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common;

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

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
