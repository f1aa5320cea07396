//! A table is dropped while its file can neither be marked as one that may go nor be removed. Its
//! pages were discarded all the same, with the header that says it, and the log was not kept for
//! them: after a crash the file was that of a stranger, to be moved away by hand.

use std::sync::Arc;

use holdfast::Database;
use holdfast::io::Disk;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common;

fn file_of_rows(db: &Database) -> String {
    db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file
}

fn drop_meanwhile(faults: &[FaultOp]) {
    let crash = CrashDisk::new();
    let disk = FaultDisk::new(Arc::new(crash.clone()));
    let db = common::create_on(&disk);
    common::fill(&db, 0, 100);
    db.checkpoint().unwrap();
    let name = file_of_rows(&db);
    for &op in faults {
        disk.schedule(Fault::nth(op, 1).sticky().on(&name));
    }
    db.drop_table("rows").unwrap();
    disk.clear();
    common::fill(&db, 0, 100);
    db.checkpoint().unwrap();
    let left = crash.reboot(0);
    drop(db);
    let db = common::open_on(&left);
    common::assert_sound(&db);
    common::assert_filled(&db, 0, 100);
    assert!(file_of_rows(&db) != name && !left.list().unwrap().contains(&name));
}

#[test]
fn after_a_crash() {
    drop_meanwhile(&[FaultOp::Write]);
    drop_meanwhile(&[FaultOp::Remove]);
    drop_meanwhile(&[FaultOp::Write, FaultOp::Remove]);
}
