//! A flipped bit is found by `verify` and by reading, disables its table and no other, and salvage
//! saves the rest.

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, Error, TableDefinition, VerifyOptions};

use crate::common::{self, ROWS};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

fn flip(disk: &MemoryDisk, file: &str, offset: u64) {
    let file = disk.open(file, OpenOptions::new(FileKind::Data)).unwrap();
    let mut byte = [0];
    file.read_at(offset, &mut byte).unwrap();
    file.write_at(offset, &[byte[0] ^ 0x10]).unwrap();
}

/// A database with two tables, closed; the file of `rows` and its number of pages.
fn closed() -> (MemoryDisk, String, u64) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 4_000);
    db.transact(|txn| (0..100).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "fine"))).unwrap();
    let file = db.list_tables().iter().find(|t| t.name == "rows").unwrap().file.clone();
    db.close().unwrap();
    // It would repair the pages that were written last.
    disk.remove("doublewrite").unwrap();
    let len = disk.open(&file, OpenOptions::new(FileKind::Data)).unwrap().len().unwrap();
    (disk, file, len / 4096)
}

/// A page of the middle of the file that holds rows.
fn a_leaf(disk: &MemoryDisk, file: &str, pages: u64) -> u64 {
    let data = disk.open(file, OpenOptions::new(FileKind::Data)).unwrap();
    let is_leaf = |page: &u64| {
        let mut header = [0; 64];
        data.read_at(page * 4096, &mut header).unwrap();
        header[12] == 3 && header[13] == 0
    };
    (10..pages).filter(is_leaf).nth(20).expect("the table has leaves")
}

fn scan(db: &Database, table: &TableDefinition<u64, &'static str>) -> Result<usize, Error> {
    let txn = db.begin_read()?;
    txn.open_table(table)?.iter()?.try_fold(0, |n, row| row.map(|_| n + 1))
}

#[test]
fn one_bad_page_disables_one_table() {
    let (disk, file, pages) = closed();
    flip(&disk, &file, a_leaf(&disk, &file, pages) * 4096 + 2_000);
    let db = common::open_on(&disk);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.findings.iter().all(|f| f.table == "rows") && !report.is_clean(), "{:?}", report.findings);
    let error = scan(&db, &ROWS).unwrap_err();
    assert!(matches!(error, Error::DamagedPage { .. }) && error.to_string().contains("salvage"), "{error}");
    assert_eq!(scan(&db, &OTHER).unwrap(), 100);
    db.transact(|txn| txn.open_table(&OTHER)?.insert(1_000, "still works")).unwrap();

    let rescued = Database::in_memory().unwrap();
    let report = db.salvage_table("rows", &rescued).unwrap();
    assert!(report.lost_pages >= 1 && report.rows > 3_800 && report.rows < 4_000, "{report:?}");
    assert_eq!(scan(&rescued, &ROWS).unwrap() as u64, report.rows);
    // The damaged table can be dropped, and the name used again.
    db.drop_table("rows").unwrap();
    common::fill(&db, 0, 10);
    common::assert_sound(&db);
}

/// A damaged table is named; the others are compacted.
#[test]
fn a_compaction_passes_over_a_damaged_table() {
    let (disk, file, pages) = closed();
    flip(&disk, &file, a_leaf(&disk, &file, pages) * 4096 + 2_000);
    let db = common::open_on(&disk);
    db.transact(|txn| (100..4_000).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "for a while"))).unwrap();
    db.transact(|txn| (100..4_000).try_for_each(|i| txn.open_table(&OTHER)?.delete(i).map(drop))).unwrap();
    scan(&db, &ROWS).unwrap_err();
    let report = db.compact().unwrap();
    assert!(matches!(&report.left_out[..], [f] if f.table == "rows" && f.what.contains("checksum")), "{report:?}");
    assert!(report.bytes_after < report.bytes_before, "{report:?}");
    assert_eq!(scan(&db, &OTHER).unwrap(), 100);
}

#[test]
fn a_flipped_bit_in_any_page_is_found() {
    let (disk, file, pages) = closed();
    for page in 0..pages.min(40) {
        flip(&disk, &file, page * 4096 + 100);
        let db = common::open_on(&disk);
        let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(!report.is_clean(), "page {page}");
        assert_eq!(scan(&db, &OTHER).unwrap(), 100);
        drop(db);
        disk.remove("doublewrite").unwrap();
        flip(&disk, &file, page * 4096 + 100);
    }
    common::assert_sound(&common::open_on(&disk));
}

#[test]
fn a_damaged_log_or_meta_file_is_refused() {
    let (disk, _, _) = closed();
    flip(&disk, "holdfast.meta", 20);
    let open = || common::small().disk(std::sync::Arc::new(disk.clone())).open("test");
    assert!(open().unwrap_err().is_damage());
    flip(&disk, "holdfast.meta", 20);
    open().unwrap();
}

/// It would have put rows as they were when the salvage began over newer ones.
#[test]
fn a_table_is_not_saved_into_its_own_database() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 10);
    assert!(matches!(db.salvage_table("rows", &db.clone()), Err(Error::InvalidArgument(_))));
    common::assert_filled(&db, 0, 10);
}

/// It called a damaged database sound.
#[test]
fn a_check_that_is_to_find_nothing_is_refused() {
    let db = Database::in_memory().unwrap();
    let mut options = VerifyOptions::new();
    options.max_findings = 0;
    assert!(matches!(db.verify(&options, &mut |_| {}), Err(Error::InvalidArgument(_))));
}
