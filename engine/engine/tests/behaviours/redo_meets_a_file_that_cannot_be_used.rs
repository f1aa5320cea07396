//! The log has records of a table whose file cannot be opened, whose header cannot be read or is
//! damaged, or which a newer version has written. The first two kept the database shut; the last
//! two lost the records with the next checkpoint. Such a file disables its table alone, and what
//! was committed is there when the file can be used again, or in a salvage.

use std::sync::Arc;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, Error, TableDefinition, VerifyOptions};
use holdfast_base::codec::get_u64;
use holdfast_base::page;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::redo::{self, COUNT, OTHER, after};
use crate::common::{self, ROWS, tight_on};

const PAGE: usize = 4096;

/// What a kill leaves of a database whose log has records of both tables, one of them unfinished;
/// and the file of `rows`. If `written`, the pages with them have been written too.
fn killed(written: bool) -> (MemoryDisk, String) {
    let (disk, db, _open, file) = redo::with_records_in_the_log();
    let checkpoint = bytes_of(&disk, "checkpoint");
    if written {
        db.checkpoint().unwrap();
    }
    let left = common::copy(&disk);
    // As if the power had been cut just before the checkpoint.
    write(&left, "checkpoint", 0, &checkpoint);
    if !written {
        // It would repair the pages that were written last.
        left.remove("doublewrite").unwrap();
    }
    (left, file)
}

fn bytes_of(disk: &dyn Disk, file: &str) -> Vec<u8> {
    let file = disk.open(file, OpenOptions::new(FileKind::Meta)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn write(disk: &dyn Disk, file: &str, at: u64, bytes: &[u8]) {
    disk.open(file, OpenOptions::new(FileKind::Meta)).unwrap().write_at(at, bytes).unwrap();
}

/// Changes the header of a file, and seals it again.
fn change_header(disk: &dyn Disk, file: &str, change: impl Fn(&mut [u8])) {
    let mut header = bytes_of(disk, file);
    header.truncate(PAGE);
    change(&mut header);
    page::seal(&mut header);
    write(disk, file, 0, &header);
}

fn other_is_whole(db: &Database) {
    let txn = db.begin_read().unwrap();
    let other = txn.open_table(&OTHER).unwrap();
    assert_eq!([0, 1].map(|i| other.get(i).unwrap().unwrap()), ["after", "behind it"]);
}

fn rows_are_whole(db: &Database) {
    // It rolls back what is unfinished.
    db.create_table(&TableDefinition::<u64, u64>::new("third")).unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    (0..COUNT).for_each(|i| assert_eq!(rows.get(i).unwrap(), Some(after(i)), "row {i}"));
    common::assert_sound(db);
}

/// The other table is read, written, and written back, so that slots of the double-write file are
/// used again. `rows` is an error. Nothing else is wrong.
fn one_table_is_disabled(db: &Database) -> Error {
    other_is_whole(db);
    let error = db.begin_read().unwrap().open_table(&ROWS).and_then(|rows| rows.get(1)).unwrap_err();
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let found = report.findings.iter().chain(&report.refused).collect::<Vec<_>>();
    assert!(!found.is_empty() && found.iter().all(|found| found.table == "rows"), "{found:?}");
    for round in 0..10 {
        db.transact(|txn| {
            let other = txn.open_table(&OTHER)?;
            (10..50).try_for_each(|i| other.upsert(i, &format!("{round} {}", "x".repeat(900))).map(drop))
        })
        .unwrap();
        db.checkpoint().unwrap();
    }
    error
}

#[test]
fn and_disables_one_table_until_it_can_be_opened() {
    let faults = [(FaultOp::Open, FaultKind::Eio), (FaultOp::Open, FaultKind::Eacces), (FaultOp::Read, FaultKind::Eio)];
    for ((op, kind), written) in faults.into_iter().flat_map(|fault| [(fault, false), (fault, true)]) {
        let (left, file) = killed(written);
        let faults = FaultDisk::new(Arc::new(left));
        faults.schedule(Fault::nth(op, 1).kind(kind).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        let error = one_table_is_disabled(&db);
        assert!(error.is_unread() && error.to_string().contains(&file), "{error}");
        assert_eq!(error.is_refusal(), kind == FaultKind::Eacces);
        db.close().unwrap();
        faults.clear();
        rows_are_whole(&tight_on(&faults).open("test").unwrap());
    }
}

/// The header alone is not returned, once.
#[test]
fn and_disables_one_table_until_its_header_can_be_read() {
    for nth in 1..4 {
        let (left, file) = killed(false);
        let faults = FaultDisk::new(Arc::new(left));
        faults.schedule(Fault::nth(FaultOp::Read, nth).on(&file));
        let db = tight_on(&faults).open("test").unwrap();
        other_is_whole(&db);
        db.close().unwrap();
        rows_are_whole(&tight_on(&faults).open("test").unwrap());
    }
}

/// The images of pages that a power cut has torn were in the slots that the next life used first. A
/// sync of what had replaced the pages that failed kept the database shut.
#[test]
fn and_the_images_of_its_torn_pages_are_kept() {
    let (left, file) = killed(true);
    let whole = bytes_of(&left, &file);
    let pages = whole.len() / PAGE;
    let images = bytes_of(&left, "doublewrite");
    // The field of both slots.
    let checkpoint = bytes_of(&left, "checkpoint").chunks_exact(PAGE).map(|slot| get_u64(slot, 40)).max().flatten();
    let has_image = |no: &usize| {
        let page = &whole[no * PAGE..][..PAGE];
        images.chunks_exact(PAGE).any(|image| image == page) && Some(page::lsn(page).0) > checkpoint
    };
    let torn: Vec<usize> = (0..pages).filter(has_image).collect();
    assert!(torn.len() > 3, "{} pages are torn", torn.len());
    let tear = |disk: &dyn Disk| {
        torn.iter().for_each(|no| write(disk, &file, (no * PAGE + PAGE / 2) as u64, &[0xa5; PAGE / 2]));
    };
    tear(&left);
    for op in [FaultOp::Open, FaultOp::Write, FaultOp::Sync] {
        let faults = FaultDisk::new(Arc::new(common::copy(&left)));
        faults.schedule(Fault::nth(op, 1).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        one_table_is_disabled(&db);
        let _ = db.close();
        faults.clear();
        // Nothing that was written there has become durable.
        tear(&faults);
        rows_are_whole(&tight_on(&faults).open("test").unwrap());
    }
}

#[test]
fn and_a_newer_version_finds_what_the_log_had() {
    let (left, file) = killed(false);
    let set = |to: u8| move |header: &mut [u8]| header[107] = to;
    change_header(&left, &file, set(0x80));
    let db = tight_on(&left).open("test").unwrap();
    let error = one_table_is_disabled(&db);
    assert!(matches!(error, Error::Incompatible(_)), "{error}");
    db.close().unwrap();
    change_header(&left, &file, set(0));
    rows_are_whole(&tight_on(&left).open("test").unwrap());
}

/// Writes to the other table until the log has gone round, or is full.
fn fill_log(db: &Database) -> Result<(), Error> {
    (0..200u64).try_for_each(|n| {
        db.transact(|txn| {
            let other = txn.open_table(&OTHER)?;
            (0..50).try_for_each(|i| other.upsert(10 + i, &format!("{n} {}", "x".repeat(900))).map(drop))
        })
    })
}

#[test]
fn and_the_table_can_be_dropped_when_the_log_is_full() {
    let (left, file) = killed(true);
    let faults = FaultDisk::new(Arc::new(left.clone()));
    faults.schedule(Fault::nth(FaultOp::Open, 1).on(&file).sticky());
    let db = tight_on(&faults).open("test").unwrap();
    let error = fill_log(&db).unwrap_err();
    assert!(error.is_unread() && error.to_string().contains(&file), "{error}");
    db.drop_table("rows").unwrap();
    fill_log(&db).unwrap();
    other_is_whole(&db);
    db.close().unwrap();
    let db = tight_on(&left).open("test").unwrap();
    assert!(!left.exists(&file).unwrap());
    other_is_whole(&db);
    common::assert_sound(&db);
}

/// The log was kept for a file that no table has, for as long as the database was open.
#[test]
fn and_the_log_is_not_kept_for_one_of_no_table() {
    let (left, file) = killed(false);
    let gone = bytes_of(&left, &file);
    let db = tight_on(&left).open("test").unwrap();
    db.drop_table("rows").unwrap();
    let left = common::copy(&left);
    drop(db);
    left.open(&file, OpenOptions::new(FileKind::Meta).create(holdfast::io::Create::New)).unwrap();
    write(&left, &file, 0, &gone);
    for (op, nth) in [(FaultOp::Open, 1), (FaultOp::Read, 1), (FaultOp::Read, 3)] {
        let faults = FaultDisk::new(Arc::new(common::copy(&left)));
        faults.schedule(Fault::nth(op, nth).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        fill_log(&db).unwrap();
        other_is_whole(&db);
        assert!(faults.fired() > 0);
    }
}

/// The rows of a table whose header is damaged were saved as they were before the log's records.
#[test]
fn and_a_salvage_has_what_was_committed() {
    for read_only in [true, false] {
        for closed in [false, true] {
            let (left, file) = killed(false);
            write(&left, &file, 70, &[0xee; 200]);
            let open = || {
                let settings = tight_on(&left);
                if read_only { settings.open_read_only("test").unwrap() } else { settings.open("test").unwrap() }
            };
            let mut db = open();
            other_is_whole(&db);
            if closed {
                db.close().unwrap();
                db = open();
            }
            let into = Database::builder().page_size(PAGE).in_memory().unwrap();
            into.create_table(&ROWS).unwrap();
            if closed && !read_only {
                // The log is not there any more; its records are in the pages.
                assert!(db.salvage_table("rows", &into).unwrap_err().is_damage());
                continue;
            }
            let report = db.salvage_table("rows", &into).unwrap();
            assert_eq!((report.rows, report.lost_values, report.refused_rows), (COUNT, 0, 0), "{report:?}");
            let txn = into.begin_read().unwrap();
            let rows = txn.open_table(&ROWS).unwrap();
            (0..COUNT).for_each(|i| assert_eq!(rows.get(i).unwrap(), Some(after(i)), "row {i}"));
        }
    }
}

/// Nothing of a page that redo could not read, and that lacks its records, even if it can be read
/// by then.
#[test]
fn and_a_salvage_has_nothing_of_a_page_that_lacks_records() {
    let mut lost = 0;
    for nth in 2..8 {
        let (left, file) = killed(false);
        let faults = FaultDisk::new(Arc::new(left));
        faults.schedule(Fault::nth(FaultOp::Read, nth).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        faults.clear();
        let into = Database::builder().page_size(PAGE).in_memory().unwrap();
        into.create_table(&ROWS).unwrap();
        let report = db.salvage_table("rows", &into).unwrap();
        lost += report.lost_pages;
        let txn = into.begin_read().unwrap();
        for row in txn.open_table(&ROWS).unwrap().iter().unwrap() {
            let (key, value) = row.unwrap();
            assert_eq!(value, after(key), "row {key}, read {nth}");
        }
    }
    assert!(lost > 0);
}

/// It is another database's by now: it stays, and the log was kept for it all the same.
#[test]
fn and_the_log_is_not_kept_for_a_file_that_stays_behind_a_drop() {
    let (other, theirs) = killed(true);
    for log_is_full in [false, true] {
        let (left, file) = killed(true);
        let faults = FaultDisk::new(Arc::new(left.clone()));
        faults.schedule(Fault::nth(FaultOp::Open, 1).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        write(&left, &file, 0, &bytes_of(&other, &theirs));
        faults.clear();
        assert!(!log_is_full || fill_log(&db).is_err());
        db.drop_table("rows").unwrap();
        assert!(left.exists(&file).unwrap(), "the file of another database has gone");
        fill_log(&db).unwrap();
        other_is_whole(&db);
    }
}

/// The second read of the header fails, that asks whether the file is another one's.
#[test]
fn and_what_the_log_has_of_a_damaged_header_waits_for_a_read() {
    for nth in 1..5 {
        let (left, file) = killed(false);
        write(&left, &file, 70, &[0xee; 200]);
        let faults = FaultDisk::new(Arc::new(left));
        faults.schedule(Fault::nth(FaultOp::Read, nth).on(&file));
        let db = tight_on(&faults).open("test").unwrap();
        other_is_whole(&db);
        let save = |db: &Database| {
            let into = Database::builder().page_size(PAGE).in_memory().unwrap();
            into.create_table(&ROWS).unwrap();
            db.salvage_table("rows", &into).map(|_| into)
        };
        let into = save(&db).or_else(|_| {
            drop(db);
            faults.clear();
            save(&tight_on(&faults).open("test").unwrap())
        });
        let into = into.unwrap();
        let txn = into.begin_read().unwrap();
        let rows = txn.open_table(&ROWS).unwrap();
        (0..COUNT).for_each(|i| assert_eq!(rows.get(i).unwrap(), Some(after(i)), "row {i}, read {nth}"));
    }
}

/// The log is full because of the file, and the database is opened again, so that the table can be
/// dropped.
#[test]
fn and_a_full_log_keeps_no_database_shut() {
    for closed in [true, false] {
        let (left, file) = killed(true);
        let faults = FaultDisk::new(Arc::new(left.clone()));
        faults.schedule(Fault::nth(FaultOp::Open, 1).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        fill_log(&db).unwrap_err();
        let db = if closed {
            let _ = db.close();
            tight_on(&faults).open("test").unwrap()
        } else {
            let copy = FaultDisk::new(Arc::new(common::copy(&left)));
            copy.schedule(Fault::nth(FaultOp::Open, 1).on(&file).sticky());
            tight_on(&copy).open("test").unwrap()
        };
        other_is_whole(&db);
        fill_log(&db).unwrap_err();
        db.drop_table("rows").unwrap();
        fill_log(&db).unwrap();
        other_is_whole(&db);
        common::assert_sound(&db);
    }
}

/// A reader that began before keeps the definitions of then.
#[test]
fn and_a_reader_does_not_keep_the_log_behind_a_drop() {
    for op in [FaultOp::Open, FaultOp::Read] {
        let (left, file) = killed(true);
        let faults = FaultDisk::new(Arc::new(left.clone()));
        faults.schedule(Fault::nth(op, 2).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        let reader = db.begin_read().unwrap();
        assert!(reader.open_table(&ROWS).and_then(|rows| rows.get(1)).is_err());
        db.drop_table("rows").unwrap();
        fill_log(&db).unwrap();
        assert_eq!(reader.open_table(&OTHER).unwrap().get(1).unwrap().unwrap(), "behind it");
        drop(reader);
        assert!(!left.exists(&file).unwrap());
        other_is_whole(&db);
    }
}
