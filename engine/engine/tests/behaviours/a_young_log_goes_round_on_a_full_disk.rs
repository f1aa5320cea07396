//! The disk has no room for the segments that the log may have. Statements failed as soon as the
//! first ones were full, though a checkpoint would have made room: nothing took one before the log
//! was older, which it could not become. Not even a table could be dropped.

use std::sync::Arc;

use holdfast::WriteTransaction;
use holdfast::io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::{self, ROWS};

#[test]
fn and_statements_go_on() {
    let memory = MemoryDisk::new();
    let disk = FaultDisk::new(Arc::new(memory.clone()));
    let db = common::small().log_capacity_bytes(64 << 20).disk(Arc::new(disk.clone())).create("test").unwrap();
    common::fill(&db, 0, 100);
    db.checkpoint().unwrap();
    for no in 1..200 {
        let growth = Fault::nth(FaultOp::SetLen, 1).on(format!("wal.{no:06}"));
        disk.schedule(growth.kind(FaultKind::Enospc).sticky());
    }
    let value = "v".repeat(900);
    for round in 0..300 {
        let update = |txn: &WriteTransaction| {
            let rows = txn.open_table(&ROWS)?;
            (0..100).try_for_each(|row| rows.upsert(row, &value).map(drop))
        };
        db.transact(update).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    assert!(disk.fired() > 0, "the log had room");
    db.drop_table("rows").unwrap();
    disk.clear();
    common::assert_sound(&db);
}
