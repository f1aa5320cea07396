//! A large value is written before the row that refers to it. A crash in between leaves pages that
//! nothing leads to. Compaction frees them, when no transaction can be using them.

use holdfast::io::{Disk, FileKind, OpenOptions};
use holdfast::{Database, TableDefinition, VerifyOptions};
use holdfast_base::page::{PageHeader, PageType};
use holdfast_testkit::CrashDisk;

use crate::common::{self, ROWS, value};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

fn unreached(db: &Database) -> u64 {
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    report.unreached_pages
}

/// A database in which a power cut in the middle of an insert has left pages behind.
fn with_lost_pages() -> (CrashDisk, Database) {
    let large = "v".repeat(400_000);
    for n in 1..200 {
        let disk = CrashDisk::new();
        // A log buffer that is smaller than the value, so that a part of the insert reaches the
        // disk.
        let settings =
            |disk: &CrashDisk| common::small().log_buffer_bytes(64 << 10).disk(std::sync::Arc::new(disk.clone()));
        let db = settings(&disk).create("test").unwrap();
        common::fill(&db, 0, 50);
        disk.crash_after(n);
        let _ = db.transact(|txn| txn.open_table(&ROWS)?.insert(1_000, &large));
        let after = disk.reboot(1);
        let db = settings(&after).open("test").unwrap();
        if unreached(&db) > 0 {
            return (after, db);
        }
    }
    panic!("no power cut left anything behind");
}

#[test]
fn when_nobody_is_writing() {
    let (_disk, db) = with_lost_pages();
    // A large value that an old snapshot still sees is reached by no tree either, and stays.
    let long = "long".repeat(3_000);
    db.transact(|txn| txn.open_table(&ROWS)?.upsert(3, &long).map(drop)).unwrap();
    let snapshot = db.begin_read().unwrap();
    let old = snapshot.open_table(&ROWS).unwrap();
    assert_eq!(old.get(3).unwrap().as_deref(), Some(&*long));
    db.transact(|txn| txn.open_table(&ROWS)?.upsert(3, &value(3)).map(drop)).unwrap();
    let before = unreached(&db);
    assert_eq!(db.compact().unwrap().pages_reclaimed, 0);
    assert_eq!(unreached(&db), before);
    assert_eq!(old.get(3).unwrap().as_deref(), Some(&*long));
    drop(old);
    drop(snapshot);
    // Nor while a transaction is writing: it may have stored a value and not yet its row.
    let writing = db.begin_write().unwrap();
    writing.open_table(&ROWS).unwrap().upsert(4, &long).unwrap();
    assert_eq!(db.compact().unwrap().pages_reclaimed, 0);
    writing.rollback().unwrap();

    assert!(db.compact().unwrap().pages_reclaimed > 0);
    assert_eq!(unreached(&db), 0);
    common::assert_filled(&db, 0, 50);
}

/// An old version may stay for long: a snapshot needs it, or it cannot be read. It kept the lost
/// pages of all tables.
#[test]
fn while_an_old_version_of_another_table_is_kept() {
    let (disk, db) = with_lost_pages();
    db.close().unwrap();
    // So small that the version does not wait in the undo log for the end of the snapshot.
    let db = common::small().version_limit_bytes(8 << 20).disk(std::sync::Arc::new(disk)).open("test").unwrap();
    let long = "long".repeat(700_000);
    db.transact(|txn| txn.open_table(&OTHER)?.insert(1, &long)).unwrap();
    let snapshot = db.begin_read().unwrap();
    let old = snapshot.open_table(&OTHER).unwrap();
    db.transact(|txn| txn.open_table(&OTHER)?.upsert(1, "new").map(drop)).unwrap();
    assert!(db.compact().unwrap().pages_reclaimed > 0);
    common::assert_filled(&db, 0, 50);
    let pages = unreached(&db);
    assert!(pages > 0, "those of the old version");
    assert_eq!(db.compact().unwrap().pages_reclaimed, 0);
    assert_eq!(old.get(1).unwrap().as_deref(), Some(&*long));
}

/// Spoils every page of a file that is one of a large value, or free.
fn spoil_large_values(disk: &CrashDisk, name: &str) {
    let file = disk.open(name, OpenOptions::new(FileKind::Data)).unwrap();
    let mut page = vec![0; 4096];
    for at in (0..file.len().unwrap()).step_by(page.len()) {
        file.read_at(at, &mut page).unwrap();
        let kind = PageHeader::decode(&page).map(|header| header.page_type);
        if kind.is_none_or(|kind| matches!(kind, PageType::Overflow | PageType::Free)) {
            file.write_at(at, &[7; 4096]).unwrap();
        }
    }
}

/// A check and a compaction read such pages into the cache, which disabled the table.
#[test]
fn be_it_damaged_or_not() {
    let (disk, db) = with_lost_pages();
    let file = db.list_tables().remove(0).file;
    db.close().unwrap();
    spoil_large_values(&disk, &file);
    let db = common::open_on(&disk);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(!report.is_clean() && report.unreached_pages > 0, "{report:?}");
    common::assert_filled(&db, 0, 50);
    assert!(db.compact().unwrap().pages_reclaimed > 0);
    common::assert_filled(&db, 0, 50);
    common::assert_sound(&db);
}
