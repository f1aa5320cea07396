//! The log has records of a page that the device does not return. The open was refused, and with it
//! all other tables. It disables the table of the page, and the log is kept: when the device
//! returns the page at a later open, nothing is lost.

use std::sync::Arc;

use holdfast::io::{Disk, MemoryDisk};
use holdfast::{Database, Error, TableDefinition, VerifyOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::redo::{self, COUNT, OTHER, after};
use crate::common::{self, ROWS, tight_on};

/// What a kill leaves of a database whose log has records of both tables, one of them unfinished;
/// and the file of `rows`.
fn killed() -> (MemoryDisk, String) {
    let (disk, _db, _open, file) = redo::with_records_in_the_log();
    let left = common::copy(&disk);
    // It would repair the pages that were written last.
    left.remove("doublewrite").unwrap();
    (left, file)
}

fn other_is_whole(db: &Database) {
    let txn = db.begin_read().unwrap();
    let other = txn.open_table(&OTHER).unwrap();
    assert_eq!([0, 1].map(|i| other.get(i).unwrap().unwrap()), ["after", "behind it"]);
}

/// Opens the database while the reads of `file` fail from the `nth` on.
fn open_with_bad_sectors(left: &MemoryDisk, file: &str, nth: u64) -> (FaultDisk, Database) {
    let faults = FaultDisk::new(Arc::new(left.clone()));
    faults.schedule(Fault::nth(FaultOp::Read, nth).on(file).sticky());
    let db = tight_on(&faults).open("test").unwrap();
    assert!(faults.fired() > 0);
    (faults, db)
}

#[test]
fn and_disables_one_table_until_the_page_can_be_read() {
    for nth in 2..7 {
        let (left, file) = killed();
        let (faults, db) = open_with_bad_sectors(&left, &file, nth);
        other_is_whole(&db);
        let read = db.begin_read().unwrap().open_table(&ROWS).and_then(|rows| rows.get(1));
        assert!(matches!(&read, Err(Error::Io { file: at, .. }) if at.starts_with(&file)), "{read:?}");
        let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(report.findings.iter().all(|found| found.table == "rows") && !report.is_clean(), "{report:?}");
        db.transact(|txn| txn.open_table(&OTHER)?.insert(2, "it is written")).unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
        faults.clear();
        let db = tight_on(&faults).open("test").unwrap();
        // It rolls back what is unfinished.
        db.create_table(&TableDefinition::<u64, u64>::new("third")).unwrap();
        db.drop_table("third").unwrap();
        other_is_whole(&db);
        let rows_of = |i| db.begin_read().unwrap().open_table(&ROWS).unwrap().get(i).unwrap();
        (0..COUNT).for_each(|i| assert_eq!(rows_of(i), Some(after(i))));
        common::assert_sound(&db);
    }
}

/// The log is kept for the page, until there is no room in it. Then the statements get the error of
/// the page, and to drop the table ends that.
#[test]
fn and_the_table_can_be_dropped_when_the_log_is_full() {
    let (left, file) = killed();
    let (faults, db) = open_with_bad_sectors(&left, &file, 3);
    let insert = |from: u64| {
        db.transact(|txn| {
            let other = txn.open_table(&OTHER)?;
            (from..from + 50).try_for_each(|i| other.insert(i, &"x".repeat(900)))
        })
    };
    let mut at = 10;
    let error = loop {
        match insert(at) {
            Ok(()) => at += 50,
            Err(error) => break error,
        }
        assert!(at < 1_000_000, "the checkpoint is held");
    };
    assert!(matches!(&error, Error::Io { file: at, .. } if at.starts_with(&file)), "{error}");
    db.drop_table("rows").unwrap();
    (0..100).for_each(|n| insert(at + 50 * n).unwrap());
    other_is_whole(&db);
    faults.clear();
    db.close().unwrap();
    let db = tight_on(&left).open("test").unwrap();
    assert!(!left.exists(&file).unwrap());
    assert_eq!(db.begin_read().unwrap().open_table(&OTHER).unwrap().iter().unwrap().count() as u64, at - 8 + 5_000);
    common::assert_sound(&db);
}

/// Nothing of it is changed by an open that only reads.
#[test]
fn and_a_check_names_the_table() {
    let (left, file) = killed();
    let faults = FaultDisk::new(Arc::new(left));
    faults.schedule(Fault::nth(FaultOp::Read, 3).on(&file).sticky());
    let db = tight_on(&faults).open_read_only("test").unwrap();
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(matches!(&report.findings[..], [found] if found.table == "rows"), "{report:?}");
    other_is_whole(&db);
}
