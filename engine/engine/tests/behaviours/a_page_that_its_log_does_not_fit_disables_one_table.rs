//! A crash, and a page of one table with a right checksum and a wrong content: the log behind the
//! checkpoint does not fit it. The database opens, all other tables have what was committed, and
//! the damage stays known when the log is gone.

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, Error, TableDefinition, VerifyOptions};
use holdfast_base::page;

use crate::common::{self, ROWS};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");
const PAGE: u64 = 4096;

/// Both tables have rows from before a checkpoint that were changed behind it. As a crash leaves
/// the files, with the name of that of `rows`.
fn crashed() -> (MemoryDisk, String) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 2_000);
    db.transact(|txn| (0..200).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "before"))).unwrap();
    db.checkpoint().unwrap();
    let file = db.list_tables().iter().find(|t| t.name == "rows").unwrap().file.clone();
    db.transact(|txn| (0..2_000).try_for_each(|i| txn.open_table(&ROWS)?.update(i, "behind").map(drop))).unwrap();
    db.transact(|txn| (0..200).try_for_each(|i| txn.open_table(&OTHER)?.update(i, "behind").map(drop))).unwrap();
    (common::copy(&disk), file)
}

/// Takes the entries of a leaf from it, as an error in memory before the page is sealed does.
fn empty_a_leaf(disk: &MemoryDisk, file: &str) {
    let file = disk.open(file, OpenOptions::new(FileKind::Data)).unwrap();
    let mut bytes = vec![0; PAGE as usize];
    let leaf = (10..file.len().unwrap() / PAGE).find(|no| {
        file.read_at(no * PAGE, &mut bytes).unwrap();
        bytes[page::OFF_TYPE] == 3 && bytes[page::OFF_LEVEL] == 0 && bytes[64] > 10
    });
    bytes[64..66].fill(0);
    page::seal(&mut bytes);
    file.write_at(leaf.expect("the table has leaves") * PAGE, &bytes).unwrap();
}

fn scan(db: &Database, table: &TableDefinition<u64, &'static str>) -> Result<usize, Error> {
    let txn = db.begin_read()?;
    txn.open_table(table)?.iter()?.try_fold(0, |n, row| row.map(|(_, value)| n + usize::from(value == "behind")))
}

fn assert_one_table_is_damaged(db: &Database) {
    assert_eq!(scan(db, &OTHER).unwrap(), 200);
    let error = scan(db, &ROWS).unwrap_err();
    assert!(matches!(error, Error::DamagedPage { .. }), "{error}");
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(!report.is_clean() && report.findings.iter().all(|f| f.table == "rows"), "{:?}", report.findings);
}

#[test]
fn a_page_that_its_log_does_not_fit_disables_one_table() {
    let (disk, file) = crashed();
    empty_a_leaf(&disk, &file);
    let _ = disk.remove("doublewrite");
    let db = common::open_on(&disk);
    assert_one_table_is_damaged(&db);
    db.transact(|txn| txn.open_table(&OTHER)?.insert(1_000, "still works")).unwrap();
    db.close().unwrap();
    let db = common::open_on(&disk);
    assert_one_table_is_damaged(&db);
}
