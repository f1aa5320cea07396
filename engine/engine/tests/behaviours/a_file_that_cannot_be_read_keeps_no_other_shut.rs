//! A bad sector in the file of one table, or in one that is no table's any more, disables at most
//! that table. The open read the header and the last written pages of each file, and refused the
//! whole database when the disk did not return them.

use std::sync::Arc;

use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{Database, Error, FlushAtCommit, TableDefinition, VerifyOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::rows::begin;
use crate::common::{self, ROWS, copy, tight_on};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

fn file_of(db: &Database, table: &str) -> String {
    db.list_tables().into_iter().find(|info| info.name == table).unwrap().file
}

/// A database with two tables that was closed, on a disk that may fail; the file of `rows`.
fn closed() -> (FaultDisk, String) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 100);
    db.transact(|txn| (0..100).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "fine"))).unwrap();
    let file = file_of(&db, "rows");
    db.close().unwrap();
    (FaultDisk::new(Arc::new(copy(&disk))), file)
}

fn other_is_whole(db: &Database) {
    let txn = db.begin_read().unwrap();
    assert_eq!(txn.open_table(&OTHER).unwrap().iter().unwrap().count(), 100);
}

#[test]
fn that_of_a_table() {
    let (faults, file) = closed();
    faults.schedule(Fault::nth(FaultOp::Read, 1).on(&file).sticky());
    let db = common::open_on(&faults);
    other_is_whole(&db);
    assert!(db.begin_read().unwrap().open_table(&ROWS).and_then(|rows| rows.get(1)).is_err());
    db.close().unwrap();
    faults.clear();
    let db = common::open_on(&faults);
    common::assert_filled(&db, 0, 100);
    common::assert_sound(&db);
}

#[test]
fn that_of_a_table_that_is_gone() {
    for op in [FaultOp::Open, FaultOp::Read, FaultOp::Remove] {
        let (faults, _) = closed();
        let db = common::open_on(&faults);
        db.create_table(&TableDefinition::<u64, &str>::new("gone")).unwrap();
        let file = file_of(&db, "gone");
        db.drop_table("gone").unwrap();
        db.close().unwrap();
        // As a crash in the middle of a creation leaves it.
        faults.open(&file, OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
        faults.schedule(Fault::nth(op, 1).on(&file).sticky());
        let db = common::open_on(&faults);
        other_is_whole(&db);
        let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(report.findings.iter().any(|finding| finding.table == file), "{:?}", report.findings);
        db.close().unwrap();
        faults.clear();
        common::assert_sound(&common::open_on(&faults));
        assert!(!faults.exists(&file).unwrap());
    }
}

/// The counters of all tables are saved at a close, so that they go on without a gap. The first one
/// that could not be saved kept the others from being saved.
#[test]
fn that_of_a_table_at_a_close() {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let small = || RawDatabase::new(tight_on(&faults).cache_size_max_bytes(16 << 20).open("test").unwrap());
    tight_on(&faults).create("test").unwrap().close().unwrap();
    let db = small();
    let create = |name: &str| {
        db.create_table(name, &[], b"", Lifetime::Lasting).unwrap();
        db.open_table(name).unwrap()
    };
    let sound = ["a", "b", "c", "d", "e"];
    sound.iter().for_each(|name| assert_eq!(create(name).take_mark(0, 7).unwrap(), 1));
    // The cache is full, and grows: the pages of the last table lie in the new frames.
    let table = create("large");
    for rows in 0..40u32 {
        let mut txn = begin(&db);
        (0..50).for_each(|row| txn.insert(&table, 0, &(rows * 50 + row).to_be_bytes(), &[7; 3_000]).unwrap());
        txn.commit(FlushAtCommit::Lazy).unwrap();
    }
    db.database().set_cache_size_bytes(16 << 20).unwrap();
    create("bad").take_mark(0, 7).unwrap();
    db.database().checkpoint().unwrap();
    db.database().set_cache_size_bytes(5 << 20).unwrap();
    faults.schedule(Fault::nth(FaultOp::Read, 1).on(file_of(db.database(), "bad")).sticky());
    drop(table);
    assert!(matches!(db.close(), Err(Error::Io { .. })));
    faults.clear();
    let db = small();
    for name in sound {
        assert_eq!(db.open_table(name).unwrap().mark(0), 8, "{name}");
    }
    assert!(db.open_table("bad").unwrap().mark(0) >= 8);
}
