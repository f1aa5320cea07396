//! A read-only open recovers what a crash left, in memory, and changes no byte of the directory.

use std::sync::Arc;

use holdfast::io::{Disk, FileKind, OpenOptions};
use holdfast::raw::{Lifetime, RawDatabase, RawLoad};
use holdfast::{Error, FlushAtCommit};
use holdfast_testkit::CrashDisk;

use crate::common::{self, ROWS, rows};

fn bytes(disk: &dyn Disk) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let file = disk.open(&name, OpenOptions::new(FileKind::Meta).read_only(true)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}

#[test]
fn after_a_power_cut() {
    let disk = CrashDisk::new();
    let db = common::create_on(&disk);
    common::fill(&db, 0, 1_000);
    let unfinished = db.begin_write().unwrap();
    unfinished.open_table(&ROWS).unwrap().delete(5).unwrap();
    common::fill(&db, 1_000, 1_001);
    let after = disk.reboot(1);
    let before = bytes(&after);

    let operations = after.operations();
    let db = common::small().disk(Arc::new(after.clone())).open_read_only("test").unwrap();
    common::assert_filled(&db, 0, 1_001);
    assert!(matches!(db.begin_write(), Err(Error::ReadOnly(_))));
    assert!(matches!(db.create_table(&ROWS), Err(Error::ReadOnly(_))));
    assert!(matches!(db.drop_table("rows"), Err(Error::ReadOnly(_))));
    assert!(matches!(db.rename_table("rows", "r"), Err(Error::ReadOnly(_))));
    assert!(matches!(db.compact(), Err(Error::ReadOnly(_))));
    common::assert_sound(&db);
    db.close().unwrap();
    assert_eq!(after.operations(), operations);
    assert!(bytes(&after) == before);
    common::assert_filled(&common::open_on(&after), 0, 1_001);
}

/// A load, and numbers that were taken, were acknowledged, and gone with the next open.
#[test]
fn nor_takes_rows_or_numbers() {
    let disk = CrashDisk::new();
    let db = RawDatabase::new(common::small().disk(Arc::new(disk.clone())).create("test").unwrap());
    db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
    db.open_table("t").unwrap().take_mark(0, 9).unwrap();
    db.close().unwrap();
    let db = RawDatabase::new(common::small().disk(Arc::new(disk.clone())).open_read_only("test").unwrap());
    let table = db.open_table("t").unwrap();
    assert_eq!(table.mark(0), 10);
    assert!(matches!(RawLoad::new(&table), Err(Error::ReadOnly(_))));
    assert!(matches!(table.take_mark(0, 1), Err(Error::ReadOnly(_))));
    assert!(matches!(table.raise_mark(0, 11, 0), Err(Error::ReadOnly(_))));
    assert!(matches!(table.set_mark(0, 1), Err(Error::ReadOnly(_))));
    table.raise_mark(0, 10, 0).unwrap();
    assert_eq!(table.mark(0), 10);
}

/// The commit of a prepared transaction was acknowledged, and the next open had it as prepared.
#[test]
fn nor_ends_prepared_transactions() {
    let disk = CrashDisk::new();
    let db = RawDatabase::new(common::small().disk(Arc::new(disk.clone())).create("test").unwrap());
    db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
    let mut txn = rows::begin(&db);
    txn.insert(&db.open_table("t").unwrap(), 0, b"row", b"value").unwrap();
    txn.prepare(b"x", FlushAtCommit::Sync).unwrap();
    drop(txn);
    db.close().unwrap();
    let db = RawDatabase::new(common::small().disk(Arc::new(disk.clone())).open_read_only("test").unwrap());
    assert_eq!(db.prepared(), [b"x"]);
    assert!(matches!(db.adopt(b"x"), Err(Error::ReadOnly(_))));
}

#[test]
fn of_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path()).unwrap();
    common::fill(&db, 0, 1_000);
    db.close().unwrap();
    let snapshot = || {
        let mut files: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let data = entry.metadata().unwrap();
                (entry.file_name(), data.len(), data.modified().unwrap())
            })
            .collect();
        files.sort();
        files
    };
    let before = snapshot();
    let db = common::small().open_read_only(dir.path()).unwrap();
    common::assert_filled(&db, 0, 1_000);
    drop(db);
    assert_eq!(snapshot(), before);
}
