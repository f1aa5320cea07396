//! A database with records in its log that redo has to apply, to a table that meets a fault.

use holdfast::io::MemoryDisk;
use holdfast::{Database, TableDefinition, WriteTransaction};

use super::{ROWS, fill, tight_on, value};

/// The other table, which has nothing to do with the fault.
pub const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

/// Rows of `rows`.
pub const COUNT: u64 = 300;

/// A database whose log has records of both tables since its checkpoint, those of a transaction
/// that has not ended among them; and the file of `rows`.
pub fn with_records_in_the_log() -> (MemoryDisk, Database, WriteTransaction, String) {
    let disk = MemoryDisk::new();
    let db = tight_on(&disk).create("test").unwrap();
    fill(&db, 0, COUNT);
    db.transact(|txn| txn.open_table(&OTHER)?.insert(0, "before")).unwrap();
    db.checkpoint().unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&ROWS)?;
        (0..COUNT).try_for_each(|i| rows.update(i, &after(i)).map(drop))
    })
    .unwrap();
    db.transact(|txn| txn.open_table(&OTHER)?.update(0, "after").map(drop)).unwrap();
    let open = db.begin_write().unwrap();
    open.open_table(&ROWS).unwrap().update(7, "never committed").unwrap();
    db.transact(|txn| txn.open_table(&OTHER)?.insert(1, "behind it")).unwrap();
    let file = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    (disk, db, open, file)
}

/// What row `i` of `rows` is committed as.
pub fn after(i: u64) -> String {
    format!("{} after", value(i))
}
