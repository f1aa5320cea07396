//! The file of a dropped table is cut piece by piece before it is removed. One that could not be
//! cut, as on a full disk whose file system copies on write, was not removed either: it kept its
//! room until the next open.

use std::sync::Arc;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common;

#[test]
fn on_a_full_disk() {
    let memory = MemoryDisk::new();
    let disk = FaultDisk::new(Arc::new(memory.clone()));
    let db = common::create_on(&disk);
    common::fill(&db, 0, 100);
    let name = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    // Longer than a piece. That a file is longer than its page count says does no harm.
    memory.open(&name, OpenOptions::new(FileKind::Data)).unwrap().set_len(3 << 30).unwrap();
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).on(&name).sticky());
    db.drop_table("rows").unwrap();
    assert!(disk.fired() > 0, "it was to be cut");
    assert!(!memory.exists(&name).unwrap());
    disk.clear();
    common::fill(&db, 0, 100);
    common::assert_filled(&db, 0, 100);
    common::assert_sound(&db);
}
