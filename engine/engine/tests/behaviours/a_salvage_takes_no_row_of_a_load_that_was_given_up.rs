//! A load that is given up, or that a crash cuts short, leaves leaves behind to which nothing
//! leads. A salvage, which takes each leaf that it finds, gave their rows out, in the place of
//! those that were committed since: rows that never were.

use std::sync::Arc;

use holdfast::raw::{Lifetime, RawDatabase, RawLoad, RawTable};
use holdfast::{Builder, Database, FlushAtCommit};
use holdfast_testkit::CrashDisk;

use crate::common;
use crate::common::rows;

fn builder(disk: &CrashDisk) -> Builder {
    common::small().disk(Arc::new(disk.clone()))
}

/// A load of a thousand rows in ascending order, which go straight into leaves.
fn load(table: &RawTable) -> RawLoad {
    let mut load = RawLoad::new(table).unwrap();
    for key in 0..1_000u32 {
        load.push(0, &key.to_be_bytes(), 4, &[b'n'; 50]).unwrap();
    }
    load
}

fn create(disk: &CrashDisk) -> RawDatabase {
    let db = RawDatabase::new(builder(disk).create("test").unwrap());
    db.create_table("t", &[("tag", true)], b"", Lifetime::Lasting).unwrap();
    db
}

/// Commits a row, and asserts that it is what a salvage finds, in the database and in its files.
fn assert_salvaged(db: RawDatabase, disk: &CrashDisk) {
    let mut txn = rows::begin(&db);
    rows::insert(&mut txn, &db.open_table("t").unwrap(), 5, b"committed", 50).unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
    assert_salvages(1, |target| db.database().salvage_table("t", target).unwrap().rows);
    db.close().unwrap();
    let of_files = |target: &Database| {
        let reports = target.salvage_files_on(Arc::new(disk.clone())).unwrap();
        reports.into_iter().map(|(_, report)| report.rows).sum()
    };
    assert_salvages(1, of_files);
}

fn assert_salvages(expected: u64, salvage: impl FnOnce(&Database) -> u64) {
    let target = common::small().in_memory().unwrap();
    assert_eq!(salvage(&target), expected);
    let target = RawDatabase::new(target);
    let rows = rows::read(&mut rows::begin(&target), &target.open_table("t").unwrap(), 0).unwrap();
    assert!(rows.iter().all(|(_, value)| value.ends_with(b"committed")), "{} rows, or another value", rows.len());
}

#[test]
fn because_it_failed() {
    let disk = CrashDisk::new();
    let db = create(&disk);
    drop(load(&db.open_table("t").unwrap()));
    assert_salvaged(db, &disk);
}

#[test]
fn because_of_a_crash() {
    let disk = CrashDisk::new();
    let db = create(&disk);
    let load = load(&db.open_table("t").unwrap());
    db.database().checkpoint().unwrap();
    let left = disk.reboot(0);
    drop((load, db));
    assert_salvaged(RawDatabase::new(builder(&left).open("test").unwrap()), &left);
}

/// Before a load is done there are no rows, for a salvage as for a reader.
#[test]
fn nor_of_one_that_is_under_way() {
    let db = create(&CrashDisk::new());
    let _load = load(&db.open_table("t").unwrap());
    assert_salvages(0, |target| db.database().salvage_table("t", target).unwrap().rows);
}
