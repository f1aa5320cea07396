//! The text of the monitor is made of what is in memory. It read every bitmap of every file and
//! showed nothing of that: with a hundred thousand tables a SHOW ENGINE STATUS was as many reads.

use holdfast::{Database, TableDefinition};

const TABLES: u64 = 300;
const CACHE_BYTES: u64 = 5 << 20;
const PAGE: u64 = 16 << 10;

fn table(n: u64) -> TableDefinition<u64, u64> {
    TableDefinition::named(format!("table {n:03}"))
}

#[test]
fn however_many_tables_there_are() {
    let settings = Database::builder().cache_size_bytes(CACHE_BYTES).log_capacity_bytes(8 << 20);
    let db = settings.page_size(PAGE as usize).in_memory().unwrap();
    for n in 0..TABLES {
        db.transact(|txn| txn.open_table(&table(n))?.insert(n, n)).unwrap();
    }
    // The first two pages of each file do not fit into the cache.
    const { assert!(2 * TABLES * PAGE > CACHE_BYTES + TABLES / 2 * PAGE) };
    db.checkpoint().unwrap();
    let read = || db.cache_stats().0.pages_read;
    let before = read();
    let text = db.status_text();
    assert!(text.contains("table 007.PRIMARY: ") && text.contains(&format!("{TABLES} tables open")), "{text}");
    assert!(read() < before + TABLES / 2, "{} pages", read() - before);
    let stats = db.stats();
    assert_eq!(stats.spaces.len() as u64, TABLES + 2, "the statistics have the files");
    let rows = &stats.tables[7].indexes[0];
    assert_eq!((rows.name.as_str(), rows.rows), ("PRIMARY", 1));
    assert!(stats.tables.iter().any(|table| table.resident_bytes() > 0));
    assert!(stats.tables.iter().map(|table| table.resident_bytes()).sum::<u64>() <= CACHE_BYTES);
}
