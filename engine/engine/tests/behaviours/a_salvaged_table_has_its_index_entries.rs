//! A table that is salvaged has the index entries of the rows that were saved: made from the rows
//! if the program has said how, else copied from those indexes that are intact. A damaged index is
//! left out and named, never left short of entries.

use std::sync::Arc;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, Error, IndexDefinition, TableDefinition, VerifyOptions};

use crate::common;

type By = IndexDefinition<u64, &'static str, &'static str>;

const BY_WORD: By = By::new("by_word", |_: &u64, text: &String, keys| text.split(' ').for_each(|word| keys.push(word)));
const BY_TEXT: By = By::unique("by_text", |_: &u64, text: &String, keys| keys.push(text));

fn texts() -> TableDefinition<u64, &'static str> {
    TableDefinition::new("texts").index(&BY_WORD).index(&BY_TEXT)
}

fn text(i: u64) -> String {
    format!("all w{} {i} {}", i % 7, "x".repeat(100))
}

/// A database that was opened anew, with 1,000 rows, where a leaf of this index of `texts` is
/// damaged (0: of the rows).
fn damaged(index: usize) -> Database {
    let (disk, db) = common::on_memory_disk();
    db.transact(|txn| {
        let table = txn.open_table(&texts())?;
        (0..1_000).try_for_each(|i| table.insert(i, &text(i)))
    })
    .unwrap();
    let info = db.list_tables().remove(0);
    let id = if index == 0 { info.indexes[0].index_id - 1 } else { info.indexes[index - 1].index_id };
    db.close().unwrap();
    let disk: MemoryDisk = common::copy(&disk);
    disk.remove("doublewrite").unwrap();
    let data = disk.open(&info.file, OpenOptions::new(FileKind::Data)).unwrap();
    let is_leaf = |page: &u64| {
        let mut header = [0; 64];
        data.read_at(page * 4096, &mut header).unwrap();
        let header = holdfast_base::page::PageHeader::decode(&header).unwrap();
        header.page_type == holdfast_base::page::PageType::Tree && header.level == 0 && header.index.0 == id
    };
    let leaf = (1..data.len().unwrap() / 4096).filter(is_leaf).nth(2).unwrap();
    let mut byte = [0];
    data.read_at(leaf * 4096 + 2_000, &mut byte).unwrap();
    data.write_at(leaf * 4096 + 2_000, &[byte[0] ^ 0x10]).unwrap();
    common::open_on(&disk)
}

/// Checks that every row is found by its text, and the rows in all by a word.
fn assert_indexed(db: &Database, rows: u64) {
    db.transact(|txn| txn.open_table(&texts()).map(drop)).unwrap();
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.is_clean() && report.half_checked.is_empty(), "{report:?}");
    let txn = db.begin_read().unwrap();
    let table = txn.open_table(&texts()).unwrap();
    assert_eq!(table.index(&BY_WORD).unwrap().range("all"..="all").unwrap().count() as u64, rows);
    let found = table.iter().unwrap().map(|row| row.unwrap()).filter(|(key, text)| {
        let by_text = table.index(&BY_TEXT).unwrap().get(text).unwrap();
        by_text.is_some_and(|(row, _)| row == *key)
    });
    assert_eq!(found.count() as u64, rows);
}

#[test]
fn entries_are_made_if_the_program_has_created_the_table() {
    for index in 0..3 {
        let rescued = Database::in_memory().unwrap();
        rescued.create_table(&texts()).unwrap();
        let report = damaged(index).salvage_table("texts", &rescued).unwrap();
        assert_eq!((report.rows == 1_000, report.lost_pages), (index != 0, 1), "{report:?}");
        assert_eq!((report.refused_rows, report.lost_indexes.len()), (0, 0));
        assert_indexed(&rescued, report.rows);
    }
}

#[test]
fn entries_of_intact_indexes_are_copied() {
    let rescued = Database::in_memory().unwrap();
    let report = damaged(0).salvage_table("texts", &rescued).unwrap();
    assert!(report.rows > 800 && report.rows < 1_000 && report.lost_indexes.is_empty(), "{report:?}");
    assert_indexed(&rescued, report.rows);
}

#[test]
fn a_damaged_index_is_left_out_and_named() {
    let rescued = Database::in_memory().unwrap();
    let report = damaged(1).salvage_table("texts", &rescued).unwrap();
    assert_eq!((report.rows, report.lost_indexes), (1_000, vec!["by_word".to_string()]));
    let mismatch = rescued.transact(|txn| txn.open_table(&texts()).map(drop)).unwrap_err();
    assert!(mismatch.to_string().contains("by_word"), "{mismatch}");
    // Where the program says how entries are made it has all indexes again.
    let whole = Database::in_memory().unwrap();
    whole.create_table(&texts()).unwrap();
    rescued.salvage_table("texts", &whole).unwrap();
    assert_indexed(&whole, 1_000);
}

#[test]
fn a_table_that_does_not_fit_is_refused() {
    let other = Database::in_memory().unwrap();
    other.create_table(&TableDefinition::<u64, u64>::new("texts")).unwrap();
    let error = damaged(0).salvage_table("texts", &other).unwrap_err();
    assert!(matches!(&error, Error::TableMismatch { what, .. } if what.contains("types")), "{error}");
    let disk = MemoryDisk::new();
    common::create_on(&disk).create_table(&texts()).unwrap();
    let unknown = common::small().disk(Arc::new(disk)).open("test").unwrap();
    let error = damaged(0).salvage_table("texts", &unknown).unwrap_err();
    assert!(matches!(&error, Error::TableMismatch { what, .. } if what.contains("indexes")), "{error}");
}

#[test]
fn a_check_names_the_indexes_that_it_cannot_compare_with_rows() {
    let (disk, db) = common::on_memory_disk();
    db.create_table(&texts()).unwrap();
    assert!(db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap().half_checked.is_empty());
    drop(db);
    let report = common::open_on(&disk).verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let named: Vec<&str> = report.half_checked.iter().map(|(_, index)| index.as_str()).collect();
    assert_eq!(named, ["by_word", "by_text"]);
}
