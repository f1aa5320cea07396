//! A check that does not know how entries are made, as after a restore, reads every page a few
//! times. It looked for the row of every entry in the order of the index, and with a table larger
//! than the cache each look read a page.

use std::sync::Arc;

use holdfast::io::MemoryDisk;
use holdfast::raw::{Lifetime, RawDatabase, RawLoad};
use holdfast::{Database, IndexDefinition, TableDefinition, VerifyOptions};

const CACHE_BYTES: u64 = 5 << 20;
const COUNT: u64 = 60_000;
/// Times that a page may be read: by the check of the pages, of the trees, and of the entries.
const TIMES: u64 = 5;

const SHUFFLED: IndexDefinition<u64, &[u8], u64> =
    IndexDefinition::new("shuffled", |id: &u64, _, keys| keys.push(id.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

#[test]
fn the_pages_that_a_check_reads_are_in_proportion_to_the_table() {
    let disk = MemoryDisk::new();
    let builder = Database::builder().disk(Arc::new(disk)).cache_size_bytes(CACHE_BYTES).warm_up(false);
    let table = ROWS.index(&SHUFFLED);
    let db = builder.create("db").unwrap();
    let row = [7; 200];
    db.create_table_with(&table, |loader| (0..COUNT).try_for_each(|id| loader.push(id, row.as_slice()))).unwrap();
    db.close().unwrap();
    let db = builder.open("db").unwrap();
    let read = || db.cache_stats().0.pages_read;
    let before = read();
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let (read, pages) = (read() - before, report.pages);
    assert!(report.is_clean() && report.half_checked.len() == 1, "{report:?}");
    assert_eq!((report.rows, report.entries), (COUNT, COUNT));
    assert!(pages * 16_384 > 2 * CACHE_BYTES, "the table is larger than the cache");
    assert!(read < TIMES * pages, "{read} reads of {pages} pages");
}

/// Fills a table with ten rows and an entry for each of `to`, and checks it.
fn found(to: impl Iterator<Item = u8>) -> Vec<String> {
    let db = RawDatabase::new(Database::in_memory().unwrap());
    db.create_table("t", &[("i", false)], b"", Lifetime::Lasting).unwrap();
    let mut load = RawLoad::new(&db.open_table("t").unwrap()).unwrap();
    (0..10u8).for_each(|id| load.push(0, &[id], 1, &[1, 2, 3]).unwrap());
    for (no, id) in to.enumerate() {
        load.push(1, &[no as u8, id], 2, &[1]).unwrap();
    }
    load.finish().unwrap();
    let report = db.database().verify(&VerifyOptions::new().table("t"), &mut |_| {}).unwrap();
    report.findings.into_iter().map(|finding| finding.what).collect()
}

#[test]
fn an_entry_without_its_row_is_found() {
    assert_eq!(found((0..10).rev()), [""; 0]);
    // Rows may have no entry, or several.
    assert_eq!(found(0..9), [""; 0]);
    assert_eq!(found([3, 3, 3, 4].into_iter()), [""; 0]);
    let lost = found(1..11);
    assert!(lost.len() == 1 && lost[0].contains("an entry for the row 0a, which is not there"), "{lost:?}");
}
