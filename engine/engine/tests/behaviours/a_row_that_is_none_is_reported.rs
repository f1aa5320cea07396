//! Bytes that are no row of the table's types: a check that makes entries from rows reports them,
//! and goes on. And a salvage into a database with smaller pages counts the rows that have no room
//! there, and saves the others.

use holdfast::raw::RawDatabase;
use holdfast::{Database, FlushAtCommit, IndexDefinition, TableDefinition, VerifyOptions};

use crate::common;

const BY_LEN: IndexDefinition<u64, &str, u64> =
    IndexDefinition::new("by_len", |_: &u64, text: &String, keys| keys.push(text.len() as u64));

#[test]
fn a_check_reports_it() {
    let (_disk, db) = common::on_memory_disk();
    let table = TableDefinition::<u64, &str>::new("rows").index(&BY_LEN);
    db.transact(|txn| txn.open_table(&table)?.insert(1, "one")).unwrap();
    let raw = RawDatabase::new(db.clone());
    let mut txn = common::rows::begin(&raw);
    txn.insert(&raw.open_table("rows").unwrap(), 0, b"no u64", b"two").unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let is_it = |what: &str| what.contains("by_len") && what.contains("does not decode");
    assert!(report.findings.iter().any(|f| f.table == "rows" && is_it(&f.what)), "{:?}", report.findings);
}

#[test]
fn a_salvage_counts_rows_that_are_too_long_for_the_target() {
    let table = TableDefinition::<&str, &str>::new("rows");
    let db = Database::builder().page_size(65_536).in_memory().unwrap();
    let long = "k".repeat(5_000);
    db.transact(|txn| {
        let rows = txn.open_table(&table)?;
        rows.insert("short", "value")?;
        rows.insert(&long, "value")
    })
    .unwrap();
    let target = Database::builder().page_size(4_096).in_memory().unwrap();
    let report = db.salvage_table("rows", &target).unwrap();
    assert_eq!((report.rows, report.refused_rows), (1, 1), "{report:?}");
}
