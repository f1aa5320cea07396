//! No room: statements fail with a clear error, nothing is lost, and work goes on once there is
//! room.

use std::sync::Arc;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{BackupOptions, Error, VerifyOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::{self, ROWS};

#[test]
fn and_goes_on_once_there_is_room() {
    let memory = MemoryDisk::new();
    let disk = FaultDisk::new(Arc::new(memory.clone()));
    let db = common::create_on(&disk);
    common::fill(&db, 0, 500);
    for op in [FaultOp::SetLen, FaultOp::Open] {
        disk.schedule(Fault::nth(op, 1).kind(FaultKind::Enospc).sticky());
    }
    let mut at = 500;
    let error = loop {
        match db.transact(|txn| txn.open_table(&ROWS)?.insert(at, &common::value(at))) {
            Ok(()) => at += 1,
            Err(error) => break error,
        }
        assert!(at < 200_000, "the disk is full");
    };
    assert!(matches!(error, Error::DiskFull(_)), "{error}");
    // What is there can be read.
    common::assert_filled(&db, 0, at);
    disk.clear();
    common::fill(&db, at, at + 500);
    common::assert_filled(&db, 0, at + 500);
    db.close().unwrap();
    let db = common::open_on(&memory);
    common::assert_filled(&db, 0, at + 500);
    common::assert_sound(&db);
}

/// A power cut has undone that the file of a table grew, and the disk is full: the open was
/// refused.
#[test]
fn and_a_database_can_be_opened() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 10);
    db.checkpoint().unwrap();
    let file = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    let len = |disk: &MemoryDisk| disk.open(&file, OpenOptions::new(FileKind::Data)).unwrap().len().unwrap();
    let before = len(&disk);
    common::fill(&db, 10, 1_000);
    let left = common::copy(&disk);
    drop(db);
    assert!(len(&left) > before);
    left.open(&file, OpenOptions::new(FileKind::Data)).unwrap().set_len(before).unwrap();
    let faults = FaultDisk::new(Arc::new(left.clone()));
    faults.schedule(Fault::nth(FaultOp::SetLen, 1).on(&file).kind(FaultKind::Enospc).sticky());
    let db = common::open_on(&faults);
    common::assert_filled(&db, 0, 1_000);
    db.transact(|txn| txn.open_table(&ROWS)?.update(5, &common::value(5)).map(drop)).unwrap();
    // That there is no room is no damage.
    let checked = db.verify(&VerifyOptions::new(), &mut |_| {});
    assert!(matches!(checked, Err(Error::DiskFull(_))), "{checked:?}");
    let dir = tempfile::tempdir().unwrap();
    let copied = db.backup(dir.path().join("copy"), &BackupOptions::new());
    assert!(matches!(copied, Err(Error::DiskFull(_))), "{copied:?}");
    faults.clear();
    common::assert_sound(&db);
    db.backup(dir.path().join("later"), &BackupOptions::new()).unwrap();
    common::fill(&db, 1_000, 2_000);
    db.close().unwrap();
    let db = common::open_on(&left);
    common::assert_filled(&db, 0, 2_000);
    common::assert_sound(&db);
}

/// The database was closed, or ended in a crash behind a checkpoint, before the disk had room
/// again. From the next open on the table was called damaged, and no backup could be made.
#[test]
fn and_what_it_has_kept_from_a_file_is_added_by_a_later_open() {
    for cut_short in [false, true] {
        let (disk, db) = common::on_memory_disk();
        common::fill(&db, 0, 10);
        db.checkpoint().unwrap();
        let file = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
        let open = |disk: &MemoryDisk| disk.open(&file, OpenOptions::new(FileKind::Data)).unwrap();
        let before = open(&disk).len().unwrap();
        common::fill(&db, 10, 3_000);
        let left = common::copy(&disk);
        drop(db);
        open(&left).set_len(before).unwrap();
        let faults = FaultDisk::new(Arc::new(left.clone()));
        faults.schedule(Fault::nth(FaultOp::SetLen, 1).on(&file).kind(FaultKind::Enospc).sticky());
        let db = common::open_on(&faults);
        db.checkpoint().unwrap();
        let left = if cut_short { common::copy(&left) } else { left };
        db.close().unwrap();
        let db = common::open_on(&left);
        common::assert_filled(&db, 0, 3_000);
        common::assert_sound(&db);
        let dir = tempfile::tempdir().unwrap();
        db.backup(dir.path().join("copy"), &BackupOptions::new()).unwrap();
        db.close().unwrap();
        // A file that lacks more than that is damaged, and stays as short as it is.
        let len = open(&left).len().unwrap();
        open(&left).set_len(len / 2).unwrap();
        let db = common::open_on(&left);
        assert!(!db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap().is_clean());
        assert!(db.backup(dir.path().join("later"), &BackupOptions::new()).is_err());
        drop(db);
        assert_eq!(open(&left).len().unwrap(), len / 2);
    }
}
