//! A check finds the entries that rows lack, and those that no row gives.

use holdfast::io::MemoryDisk;
use holdfast::{IndexDefinition, TableDefinition, VerifyOptions};

use crate::common;

type By = IndexDefinition<u64, &'static str, u64>;

const BY_LENGTH: By = By::new("by", |_: &u64, text: &String, keys| keys.push(text.len() as u64));
/// A program that has changed its mind about every tenth row.
const BY_OTHER: By =
    By::new("by", |id: &u64, text: &String, keys| keys.push(text.len() as u64 + u64::from(id.is_multiple_of(10))));

/// What is found once the program has said how the entries are made.
fn findings(disk: &MemoryDisk, by: &'static By) -> Vec<String> {
    let db = common::open_on(disk);
    let table = TableDefinition::<u64, &str>::new("t").index(by);
    db.transact(|txn| txn.open_table(&table).map(drop)).unwrap();
    let report = db.verify(&VerifyOptions::new().table("t"), &mut |_| {}).unwrap();
    assert_eq!((report.rows, report.entries), (100, 100));
    report.findings.into_iter().map(|finding| finding.what).collect()
}

#[test]
fn entries_that_no_row_gives_and_rows_without_theirs_are_found() {
    let (disk, db) = common::on_memory_disk();
    let table = TableDefinition::<u64, &str>::new("t").index(&BY_LENGTH);
    db.transact(|txn| {
        let rows = txn.open_table(&table)?;
        (0..100).try_for_each(|id| rows.insert(id, "four"))
    })
    .unwrap();
    drop(db);
    assert_eq!(findings(&disk, &BY_LENGTH), [""; 0]);
    let found = findings(&disk, &BY_OTHER);
    let count = |what: &str| found.iter().filter(|finding| finding.contains(what)).count();
    assert_eq!((count("has an entry that the row"), count("lacks an entry of the row")), (10, 10), "{found:?}");
}
