//! A drop says in the file of the table that it may go, and then takes the table out of the
//! catalog. If that failed the file went on saying so: had the table's record been damaged before
//! the next open, the open would have removed the file.

use std::sync::Arc;
use std::time::Duration;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::metrics::Gauge;
use holdfast::{Database, Error, TableDefinition, WriteTransaction};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::{self, ROWS};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

/// Where the mark is in the header of a file.
const MAY_GO: u64 = 128 + 15 * 8;

/// Begins transactions until there is no room for the undo log of another one.
fn without_room(db: &Database) -> Vec<WriteTransaction> {
    let mut open = Vec::new();
    loop {
        let txn = db.begin_write().unwrap();
        let inserted = txn.open_table(&OTHER).unwrap().insert(open.len() as u64, "value");
        if let Err(error) = inserted {
            assert!(matches!(error, Error::DiskFull(_)), "{error}");
            return open;
        }
        open.push(txn);
        assert!(open.len() < 10_000, "the disk is full");
    }
}

#[test]
fn of_a_table() {
    let memory = MemoryDisk::new();
    let disk = FaultDisk::new(Arc::new(memory.clone()));
    let db = common::create_on(&disk);
    common::fill(&db, 0, 100);
    db.create_table(&OTHER).unwrap();
    let file = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    // What purge frees of the undo logs so far would be room for the drop.
    while db.metrics_snapshot().gauge(Gauge::HistoryListLength) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).on("undo.hf").kind(FaultKind::Enospc).sticky());
    let open = without_room(&db);
    let error = db.drop_table("rows").unwrap_err();
    assert!(matches!(error, Error::DiskFull(_)), "{error}");
    drop(open);
    disk.clear();
    common::assert_filled(&db, 0, 100);
    db.checkpoint().unwrap();
    let mut mark = [1; 8];
    memory.open(&file, OpenOptions::new(FileKind::Data)).unwrap().read_at(MAY_GO, &mut mark).unwrap();
    assert_eq!(u64::from_le_bytes(mark), 0, "the file may not go");
    db.transact(|txn| txn.open_table(&ROWS)?.delete(1).map(drop)).unwrap();
    db.drop_table("rows").unwrap();
    assert!(!memory.exists(&file).unwrap());
    common::assert_sound(&db);
}
