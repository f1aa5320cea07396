//! A salvage of files needs nothing but the files of tables. It opened the double-write file, and
//! where the system refused that, it saved no row.

use std::sync::Arc;

use holdfast::Database;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common;

#[test]
fn that_can_be_opened() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 100);
    db.close().unwrap();
    let disk = FaultDisk::new(Arc::new(disk));
    disk.schedule(Fault::nth(FaultOp::Open, 1).on("doublewrite"));
    let saved = Database::in_memory().unwrap().salvage_files_on(Arc::new(disk.clone())).unwrap();
    assert_eq!(saved[0].1.rows, 100);
}
