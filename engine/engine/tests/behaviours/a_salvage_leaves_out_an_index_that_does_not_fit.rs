//! The pages of the target of a salvage may be smaller. An index with an entry that is too long for
//! them is left out and named, and all rows are saved. The salvage ended at such an entry where the
//! indexes are copied; where their entries are made from the rows, it refused the row.

use std::sync::Arc;

use holdfast::io::MemoryDisk;
use holdfast::{Database, IndexDefinition, TableDefinition};

use crate::common;

type By = IndexDefinition<&'static str, &'static str, &'static str>;

const BY_INITIAL: By = By::new("by_initial", |_: &String, text: &String, keys| keys.push(&text[..1]));
const BY_TEXT: By = By::new("by_text", |_: &String, text: &String, keys| keys.push(text));

fn with_initials() -> TableDefinition<&'static str, &'static str> {
    TableDefinition::new("texts").index(&BY_INITIAL)
}

fn texts() -> TableDefinition<&'static str, &'static str> {
    with_initials().index(&BY_TEXT)
}

/// A database with 300 rows, one of them with a text of 1,500 bytes and one with such a key; opened
/// anew, so that it is not known how entries are made, or not.
fn source(is_opened_anew: bool) -> Database {
    let disk = MemoryDisk::new();
    let settings = common::small().page_size(8192).disk(Arc::new(disk));
    let db = settings.create("test").unwrap();
    db.transact(|txn| {
        let table = txn.open_table(&texts())?;
        (0..298).try_for_each(|i| table.insert(&format!("key {i}"), &format!("text {i}")))?;
        table.insert("long text", &"t".repeat(1_500))?;
        table.insert(&"k".repeat(1_500), "long key")
    })
    .unwrap();
    if !is_opened_anew {
        return db;
    }
    db.close().unwrap();
    settings.open("test").unwrap()
}

#[test]
fn and_saves_all_rows_that_fit() {
    for is_opened_anew in [false, true] {
        let rescued = common::small().in_memory().unwrap();
        let report = source(is_opened_anew).salvage_table("texts", &rescued).unwrap();
        assert_eq!((report.rows, report.refused_rows), (299, 1), "{report:?}");
        assert_eq!(report.lost_indexes, ["by_text"]);
        // The other one has an entry for each row, although one of a row that was refused was too
        // long.
        rescued.transact(|txn| txn.open_table(&with_initials()).map(drop)).unwrap();
        common::assert_sound(&rescued);
        let txn = rescued.begin_read().unwrap();
        let table = txn.open_table(&with_initials()).unwrap();
        assert_eq!(table.index(&BY_INITIAL).unwrap().range("t"..="t").unwrap().count(), 299);
        assert_eq!(table.get("long text").unwrap().map(|text| text.len()), Some(1_500));
    }
}

#[test]
fn in_pages_of_the_same_size_nothing_is_left_out() {
    let rescued = common::small().page_size(8192).in_memory().unwrap();
    let report = source(true).salvage_table("texts", &rescued).unwrap();
    assert_eq!((report.rows, report.refused_rows, report.lost_indexes.len()), (300, 0, 0), "{report:?}");
}
