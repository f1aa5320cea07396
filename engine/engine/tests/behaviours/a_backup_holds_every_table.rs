//! A backup that is reported as done holds every table with all its pages. A table whose file is
//! missing, cut off, another database's or of a newer version fails it, or is listed if the caller
//! wants the others.

use std::path::Path;
use std::sync::Arc;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{BackupOptions, Database, Error, TableDefinition};
use holdfast_base::page;

use crate::common;

const OTHER: TableDefinition<u64, u64> = TableDefinition::new("other");

const PAGE: usize = 4096;
/// Of the incompatible features in the header of a file.
const OFF_INCOMPATIBLE: usize = 104;

/// A closed database with the tables `rows` and `other`, and the file of `rows`.
fn closed() -> (MemoryDisk, String) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 2_000);
    db.transact(|txn| txn.open_table(&OTHER)?.insert(1, 1)).unwrap();
    let file = db.list_tables().iter().find(|table| table.name == "rows").unwrap().file.clone();
    db.close().unwrap();
    (disk, file)
}

fn set_len(disk: &MemoryDisk, name: &str, change: impl FnOnce(u64) -> u64) {
    let file = disk.open(name, OpenOptions::new(FileKind::Data)).unwrap();
    file.set_len(change(file.len().unwrap())).unwrap();
}

/// Changes the first page of a file, which stays sound.
fn change_header(disk: &MemoryDisk, name: &str, offset: usize, byte: u8) {
    let file = disk.open(name, OpenOptions::new(FileKind::Data)).unwrap();
    let mut first = [0; PAGE];
    file.read_at(0, &mut first).unwrap();
    first[offset] = byte;
    page::seal(&mut first);
    file.write_at(0, &first).unwrap();
}

fn assert_incomplete(disk: &MemoryDisk, dir: &Path, what: &str) {
    let db = common::open_on(disk);
    let target = dir.join(what);
    let error = db.backup(&target, &BackupOptions::new()).unwrap_err();
    assert!(error.is_damage() || matches!(error, Error::Incompatible(_)), "{what}: {error}");
    assert!(error.to_string().contains("table `rows`"), "{what}: {error}");
    assert!(!target.exists(), "{what}: nothing was begun");
    let compacted = db.compact().unwrap();

    let report = db.backup(&target, &BackupOptions::new().leave_out_damaged(true)).unwrap();
    for left_out in [report.left_out, compacted.left_out] {
        assert!(left_out.len() == 1 && left_out[0].table == "rows", "{what}: {left_out:?}");
    }
    let copy = Database::open(&target).unwrap();
    let txn = copy.begin_read().unwrap();
    assert_eq!(txn.open_table(&OTHER).unwrap().get(1).unwrap(), Some(1));
    let rows = txn.open_table(&common::ROWS).unwrap().get(1);
    assert!(rows.unwrap_err().is_damage(), "{what}");
}

#[test]
fn or_it_fails_and_names_the_table() {
    let dir = tempfile::tempdir().unwrap();
    type Damage<'a> = (&'a str, &'a dyn Fn(&MemoryDisk, &str));
    let damages: [Damage<'_>; 5] = [
        ("missing", &|disk, file| disk.remove(file).unwrap()),
        ("empty", &|disk, file| set_len(disk, file, |_| 0)),
        ("cut", &|disk, file| set_len(disk, file, |len| len / 2 / PAGE as u64 * PAGE as u64)),
        ("newer", &|disk, file| change_header(disk, file, OFF_INCOMPATIBLE + 3, 0x40)),
        ("another database's", &|disk, file| change_header(disk, file, 72, 0xee)),
    ];
    for (what, damage) in damages {
        let (disk, file) = closed();
        damage(&disk, &file);
        assert_incomplete(&disk, dir.path(), what);
    }
}

#[test]
fn what_lies_behind_the_last_page_is_not_copied() {
    let (disk, file) = closed();
    let len = disk.open(&file, OpenOptions::new(FileKind::Data)).unwrap().len().unwrap();
    set_len(&disk, &file, |len| len + 64 * PAGE as u64);
    let dir = tempfile::tempdir().unwrap();
    let db = common::open_on(&disk);
    db.backup(dir.path().join("copy"), &BackupOptions::new()).unwrap();
    assert_eq!(std::fs::metadata(dir.path().join("copy").join(&file)).unwrap().len(), len);
    assert!(Database::restore(dir.path().join("copy")).unwrap().is_clean());
}

#[test]
fn a_rate_of_nothing_is_refused() {
    let db = Database::in_memory().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let error = db.backup(dir.path().join("copy"), &BackupOptions::new().rate_limit_bytes_per_second(0)).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)) && error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn a_read_only_open_can_be_backed_up() {
    let disk = holdfast_testkit::CrashDisk::new();
    let db = common::create_on(&disk);
    common::fill(&db, 0, 2_000);
    let after = disk.reboot(3);
    let operations = after.operations();
    let db = common::small().disk(Arc::new(after.clone())).open_read_only("test").unwrap();
    let dir = tempfile::tempdir().unwrap();
    db.backup(dir.path().join("copy"), &BackupOptions::new()).unwrap();
    db.close().unwrap();
    assert_eq!(after.operations(), operations, "the source is left as it is");
    assert!(Database::restore(dir.path().join("copy")).unwrap().is_clean());
    common::assert_filled(&common::small().open(dir.path().join("copy")).unwrap(), 0, 2_000);
}
