//! A leaf of a table was damaged, on a page with the right checksum. A compaction looked at the
//! table for lost pages, found it to be unsound, gave nothing back, and moved its pages all the
//! same.

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{TableDefinition, VerifyOptions};
use holdfast_base::page::{PageHeader, PageType, seal};

use crate::common::{self, ROWS};

const PAGE: usize = 4096;
const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");
/// The first bytes of a slot's key, as a number.
const HEAD: usize = 84;

/// Damages the first leaf of a file; returns its number.
fn damage(disk: &MemoryDisk, name: &str) -> usize {
    let file = disk.open(name, OpenOptions::new(FileKind::Data)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    let is_leaf = |page: &[u8]| PageHeader::decode(page).is_some_and(|h| h.page_type == PageType::Tree && h.level == 0);
    let no = bytes.chunks_exact(PAGE).position(is_leaf).unwrap();
    let leaf = &mut bytes[no * PAGE..(no + 1) * PAGE];
    leaf[HEAD] ^= 1;
    seal(leaf);
    file.write_at((no * PAGE) as u64, leaf).unwrap();
    no
}

#[test]
fn and_names_the_page() {
    let (disk, db) = common::on_memory_disk();
    db.transact(|txn| (0..2_000).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "for a while"))).unwrap();
    common::fill(&db, 0, 8_000);
    // Each leaves free pages in front of the last ones.
    db.transact(|txn| (100..6_000).try_for_each(|i| txn.open_table(&ROWS)?.delete(i).map(drop))).unwrap();
    db.transact(|txn| (100..1_900).try_for_each(|i| txn.open_table(&OTHER)?.delete(i).map(drop))).unwrap();
    let file = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    db.close().unwrap();
    disk.remove("doublewrite").unwrap();
    let no = damage(&disk, &file);

    let db = common::open_on(&disk);
    let pages =
        |db: &holdfast::Database| db.stats().tables.iter().map(|t| (t.name.clone(), t.file_bytes)).collect::<Vec<_>>();
    let before = pages(&db);
    let report = db.compact().unwrap();
    let is_named = |what: &str| what.contains(&format!("page {no}")) && what.contains("the head of slot 0");
    assert!(matches!(&report.left_out[..], [f] if f.table == "rows" && is_named(&f.what)), "{report:?}");
    // The other table is compacted, and that is all.
    let now = pages(&db);
    let of = |all: &[(String, u64)], name: &str| all.iter().find(|(table, _)| table == name).unwrap().1;
    assert_eq!(of(&now, "rows"), of(&before, "rows"));
    assert!(of(&now, "other") < of(&before, "other"));
    let found = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap().findings;
    assert!(!found.is_empty() && found.iter().all(|f| f.table == "rows" && is_named(&f.what)), "{found:?}");
}
