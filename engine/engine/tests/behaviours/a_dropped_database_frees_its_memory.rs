//! The pool kept the provider of the checkpoint's payload, which held the pool: a database that was
//! dropped stayed in memory, all frames and all. The crash simulation found it by using 20 GiB.

use std::sync::{Arc, Weak};

use holdfast::io::MemoryDisk;
use holdfast::{Database, TableDefinition};

const TABLE: TableDefinition<u64, u64> = TableDefinition::new("t");

#[test]
fn nothing_holds_the_disk_of_a_dropped_database() {
    let disk = Arc::new(MemoryDisk::new());
    let watch: Weak<MemoryDisk> = Arc::downgrade(&disk);
    let db = Database::builder().cache_size_bytes(5 << 20).disk(disk).create("t").unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(&TABLE).unwrap().insert(1, 1).unwrap();
    txn.commit().unwrap();
    drop(db);
    assert!(watch.upgrade().is_none(), "something still holds the disk, and with it the database");
}
