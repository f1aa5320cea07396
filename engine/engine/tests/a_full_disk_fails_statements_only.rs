//! No room: statements fail with a clear error, nothing is lost, and work goes on once there is
//! room.

mod common;

use std::sync::Arc;

use common::ROWS;
use holdfast::Error;
use holdfast::io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

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
