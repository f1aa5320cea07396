//! The numbers that a table counts up hold its file. A drop by another layer than the one that had
//! used them, or by the crate's own interface, left the file there until the database was closed.

use holdfast::io::Disk;
use holdfast::raw::{Lifetime, RawDatabase};

use crate::common;

#[test]
fn whichever_layer_drops_it() {
    let (disk, db) = common::on_memory_disk();
    let raw = RawDatabase::new(db.clone());
    raw.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
    let file = db.list_tables()[0].file.clone();
    assert_eq!(raw.open_table("t").unwrap().take_mark(0, 1).unwrap(), 1);
    db.drop_table("t").unwrap();
    assert!(!disk.exists(&file).unwrap());
}
