//! A leaf leads to as many large values as it has rows: to more than fit into memory. A salvage
//! writes them to its target as it reads them; it held those of a leaf at once, and counted one.

use std::sync::Arc;

use holdfast::Database;
use holdfast::io::MemoryDisk;
use holdfast_metrics::Counter;

use crate::common::{self, ROWS};

const COUNT: u64 = 40;

/// The disk of a closed database whose rows are in one leaf, and 12 MB in all.
fn disk() -> MemoryDisk {
    let (disk, db) = common::on_memory_disk();
    for i in 0..COUNT {
        let value = i.to_string().repeat(300_000 / i.to_string().len());
        db.transact(|txn| txn.open_table(&ROWS)?.insert(i, &value)).unwrap();
    }
    db.close().unwrap();
    disk
}

/// All rows are there, and were written by many transactions.
fn assert_saved(rescued: &Database) {
    let txn = rescued.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    assert_eq!(rows.iter().unwrap().map(|row| row.unwrap().1.len() / 299_990).sum::<usize>(), COUNT as usize);
    let commits = rescued.metrics_snapshot().get(Counter::TrxCommits);
    assert!(commits >= COUNT / 4, "{commits} commits");
}

#[test]
fn of_an_open_database() {
    let rescued = Database::in_memory().unwrap();
    let report = common::open_on(&disk()).salvage_table("rows", &rescued).unwrap();
    assert_eq!((report.rows, report.lost_values), (COUNT, 0));
    assert_saved(&rescued);
}

#[test]
fn of_files() {
    let rescued = Database::in_memory().unwrap();
    let saved = rescued.salvage_files_on(Arc::new(disk())).unwrap();
    assert_eq!((saved[0].1.rows, saved[0].1.lost_values), (COUNT, 0));
    assert_saved(&rescued);
}
