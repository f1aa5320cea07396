//! The pages of the target of a salvage may be smaller. A row whose key is too long for them is
//! counted as refused; one that had been deleted, and not purged yet, ended the salvage.

use std::sync::Arc;

use holdfast::TableDefinition;
use holdfast::io::MemoryDisk;

use crate::common;

const TEXTS: TableDefinition<&str, &str> = TableDefinition::new("texts");

#[test]
fn whether_their_rows_are_there_or_not() {
    let disk = MemoryDisk::new();
    let db = common::small().page_size(8192).disk(Arc::new(disk.clone())).create("test").unwrap();
    let [deleted, there] = ["d", "t"].map(|letter| letter.repeat(1_500));
    for key in [deleted.as_str(), there.as_str(), "short"] {
        db.transact(|txn| txn.open_table(&TEXTS)?.insert(key, "text")).unwrap();
    }
    // It keeps purge from the deleted row.
    let view = db.begin_read().unwrap();
    assert!(db.transact(|txn| txn.open_table(&TEXTS)?.delete(&deleted)).unwrap());
    db.checkpoint().unwrap();
    let files = common::copy(&disk);
    drop(view);

    let rescued = common::small().in_memory().unwrap();
    let saved = rescued.salvage_files_on(Arc::new(files)).unwrap();
    let (name, report) = &saved[0];
    assert_eq!((name.as_str(), report.rows, report.refused_rows), ("texts", 1, 1));
    let short = rescued.begin_read().unwrap().open_table(&TEXTS).unwrap().get("short").unwrap();
    assert_eq!(short.as_deref(), Some("text"));
}
