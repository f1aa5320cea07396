//! Damage of a table's record in the catalog disables that table alone, and never costs a file: a
//! table that the catalog has forgotten keeps its rows, and a record that names another table's
//! numbers does not take them away.

use std::sync::Arc;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, Error, TableDefinition, VerifyOptions};
use holdfast_base::IndexId;
use holdfast_base::page;
use holdfast_tree::node::NodeRef;

use crate::common::{self, ROWS};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");
/// Bytes of a version header, behind which a record of the catalog begins.
const VERSION_HEADER: usize = 17;

fn read(disk: &MemoryDisk, file: &str) -> Vec<u8> {
    let file = disk.open(file, OpenOptions::new(FileKind::Data)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn write(disk: &MemoryDisk, file: &str, bytes: &[u8]) {
    disk.open(file, OpenOptions::new(FileKind::Data)).unwrap().write_at(0, bytes).unwrap();
}

/// The file of `rows`: numbers that a database has granted and not used are lost when it is opened
/// again.
const FILE: &str = "t32.hf";

/// A closed database with `other`, and then `rows`; what `system.hf` held before the second one.
fn closed() -> (MemoryDisk, Vec<u8>) {
    let (disk, db) = common::on_memory_disk();
    db.transact(|txn| (0..100).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "fine"))).unwrap();
    db.close().unwrap();
    let before = read(&disk, "system.hf");
    let db = common::open_on(&disk);
    common::fill(&db, 0, 1_000);
    db.close().unwrap();
    disk.remove("doublewrite").unwrap();
    (disk, before)
}

/// Changes the record of table `rows`, from its format on, or the next numbers, if that is the key;
/// the page gets a right checksum.
fn change_record(disk: &MemoryDisk, key: &[u8], change: impl FnOnce(&mut [u8])) {
    let mut system = read(disk, "system.hf");
    let leaf = system.chunks_exact_mut(4096).find(|page| page[12] == 3 && page[13] == 0 && page[24] == 1).unwrap();
    let node = NodeRef::new(&*leaf, IndexId(1)).unwrap();
    let slot = (0..node.count().unwrap()).find(|&slot| node.key(slot).unwrap() == key).unwrap();
    let payload = node.payload(slot).unwrap();
    let at = payload.as_ptr() as usize - leaf.as_ptr() as usize;
    let len = payload.len();
    change(&mut leaf[at + VERSION_HEADER..at + len]);
    page::seal(leaf);
    write(disk, "system.hf", &system);
}

fn count(db: &Database, table: &TableDefinition<u64, &'static str>) -> Result<usize, Error> {
    let txn = db.begin_read()?;
    txn.open_table(table)?.iter()?.try_fold(0, |n, row| row.map(|_| n + 1))
}

#[test]
fn a_table_that_was_forgotten_keeps_its_file() {
    let (disk, before) = closed();
    let now = read(&disk, "system.hf");
    write(&disk, "system.hf", &before);
    let db = common::open_on(&disk);
    assert!(matches!(count(&db, &ROWS), Err(Error::TableNotFound(_))));
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.findings.iter().any(|f| f.table == FILE), "{:?}", report.findings);
    db.close().unwrap();
    write(&disk, "system.hf", &now);
    let db = common::open_on(&disk);
    assert_eq!(count(&db, &ROWS).unwrap(), 1_000);
    common::assert_sound(&db);
}

#[test]
fn a_record_that_is_none_disables_its_table() {
    let (disk, _) = closed();
    change_record(&disk, b"trows", |record| record[0] = 9);
    let db = common::open_on(&disk);
    let error = count(&db, &ROWS).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("`rows`"), "{error}");
    assert_eq!(count(&db, &OTHER).unwrap(), 100);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.findings.iter().any(|f| f.table == "rows"), "{:?}", report.findings);
    // What it was is not known, so nothing is written in its place.
    assert!(db.rename_table("rows", "renamed").unwrap_err().is_damage());
    db.compact().unwrap();
    db.drop_table("rows").unwrap();
    common::fill(&db, 0, 10);
    assert!(disk.exists(FILE).unwrap());
    db.close().unwrap();
    assert_eq!(count(&common::open_on(&disk), &ROWS).unwrap(), 10);
}

#[test]
fn a_record_that_names_numbers_of_another_table_disables_its_own() {
    let other = u32::to_le_bytes(16);
    // The space; the index of its rows, and their root. `other` has the first of each.
    for (at, number) in [(1, other), (30, other), (26, [1, 0, 0, 0])] {
        let (disk, _) = closed();
        change_record(&disk, b"trows", |record| record[at..at + 4].copy_from_slice(&number));
        let db = common::open_on(&disk);
        assert!(count(&db, &ROWS).unwrap_err().is_damage(), "at {at}");
        assert_eq!(count(&db, &OTHER).unwrap(), 100);
        db.transact(|txn| txn.open_table(&OTHER)?.insert(1_000, "still works")).unwrap();
        db.close().unwrap();
        assert!(disk.exists(FILE).unwrap(), "at {at}");
        assert_eq!(count(&common::open_on(&disk), &OTHER).unwrap(), 101);
    }
}

/// A byte of 1 behind a record makes a temporary table of a lasting one. The open, which drops what
/// an earlier run has left of such tables, removed its file.
#[test]
fn a_record_that_calls_a_lasting_table_temporary_costs_no_file() {
    let (disk, _) = closed();
    change_record(&disk, b"trows", |record| {
        // The name of the value's type is a byte shorter, and the record ends a byte earlier.
        let (name, end) = (21, record.len());
        assert_eq!(&record[name..name + 4], b"\x03str");
        record[name] -= 1;
        record.copy_within(name + 4..end, name + 3);
        record[end - 1] = 1;
    });
    let db = common::open_on(&disk);
    assert!(count(&db, &ROWS).unwrap_err().is_damage());
    assert_eq!(count(&db, &OTHER).unwrap(), 100);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.findings.iter().any(|f| f.table == "rows"), "{:?}", report.findings);
    db.close().unwrap();
    assert!(disk.exists(FILE).unwrap());
}

/// True if a page is the leaf with the first row.
fn is_first_leaf(page: &[u8]) -> bool {
    let node = NodeRef::assume(page);
    let is_leaf = page[12] == 3 && page[13] == 0 && node.count() > Some(0);
    is_leaf && node.key(0).is_some_and(|key| key == 0u64.to_be_bytes())
}

/// The first leaf has no bounds that the root has not. So a check called a table sound of which the
/// record names that leaf as the root, and a compaction gave the pages of all other rows away.
#[test]
fn a_leaf_in_the_place_of_the_root_costs_no_rows() {
    let (disk, _) = closed();
    let bytes = read(&disk, FILE);
    let leaf = bytes.chunks_exact(4096).position(is_first_leaf).unwrap() as u32;
    let mut root = Vec::new();
    change_record(&disk, b"trows", |record| {
        root.extend_from_slice(&record[26..30]);
        record[26..30].copy_from_slice(&leaf.to_le_bytes());
    });
    assert_ne!(root, leaf.to_le_bytes());
    let db = common::open_on(&disk);
    assert!(count(&db, &ROWS).unwrap() < 1_000);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let is_found = |f: &holdfast::Finding| f.table == "rows" && f.what.contains("taken for the root");
    assert!(report.findings.iter().any(is_found), "{:?}", report.findings);
    db.compact().unwrap();
    db.close().unwrap();
    change_record(&disk, b"trows", |record| record[26..30].copy_from_slice(&root));
    let db = common::open_on(&disk);
    assert_eq!(count(&db, &ROWS).unwrap(), 1_000);
    common::assert_sound(&db);
}

#[test]
fn next_numbers_that_tables_have_are_refused() {
    for at in [1, 5] {
        let (disk, _) = closed();
        change_record(&disk, b"n", |record| record[at..at + 4].copy_from_slice(&16u32.to_le_bytes()));
        let error = common::small().disk(Arc::new(disk.clone())).open("test").unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("catalog"), "{error}");
    }
}

#[test]
fn numbers_at_their_end_are_not_given_out() {
    for at in [1, 5, 9] {
        let (disk, _) = closed();
        change_record(&disk, b"n", |record| record[at..at + 4].fill(0xff));
        let db = common::open_on(&disk);
        let created = db.create_table(&TableDefinition::<u64, &str>::new("new"));
        assert!(matches!(created, Err(Error::LimitReached(_))), "{created:?}");
        assert_eq!(count(&db, &ROWS).unwrap(), 1_000);
    }
}

/// To count on from it ended the program where overflow is checked.
#[test]
fn the_last_version_of_a_definition_is_followed_by_the_first() {
    let (disk, _) = closed();
    change_record(&disk, b"trows", |record| record[9..17].fill(0xff));
    let db = common::open_on(&disk);
    db.rename_table("rows", "renamed").unwrap();
    assert_eq!(count(&db, &TableDefinition::new("renamed")).unwrap(), 1_000);
    db.close().unwrap();
    assert_eq!(count(&common::open_on(&disk), &TableDefinition::new("renamed")).unwrap(), 1_000);
}
