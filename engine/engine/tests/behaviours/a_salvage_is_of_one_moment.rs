//! Others change so much while a table is salvaged that the snapshot of the salvage is given up. It
//! took the newest versions then, of transactions in progress too, and lacked rows that were
//! removed meanwhile, and called that a success.

use std::cell::Cell;

use holdfast::metrics::Counter;
use holdfast::raw::RawDatabase;
use holdfast::{Database, Error, FlushAtCommit, SalvageReport, TableDefinition};

use crate::common::{self, ROWS};

const COUNT: u64 = 2_000;
const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

fn fill(db: &Database, table: &TableDefinition<u64, &'static str>) {
    let value = "x".repeat(1_000);
    let write = |id| db.transact(|txn| txn.open_table(table)?.upsert(id, &value).map(drop));
    (0..COUNT).try_for_each(write).unwrap();
}

fn filled() -> Database {
    let db = common::small().version_limit_bytes(1 << 20).in_memory().unwrap();
    fill(&db, &ROWS);
    fill(&db, &OTHER);
    db
}

/// What a salvage says whose snapshot is given up as it begins, since another table or this one is
/// changed.
fn salvage(db: &Database, changed: &TableDefinition<u64, &'static str>) -> Result<SalvageReport, Error> {
    let target = common::small().in_memory().unwrap();
    let has_begun = Cell::new(false);
    db.salvage_table_with("rows", &target, &|_| {
        let given_up = || db.metrics().get(Counter::TrxSnapshotTooOld);
        let before = given_up();
        while !has_begun.get() && given_up() == before {
            fill(db, changed);
        }
        has_begun.set(true);
    })
}

#[test]
fn or_it_fails() {
    let salvaged = salvage(&filled(), &ROWS);
    assert!(matches!(salvaged, Err(Error::SnapshotTooOld)), "{salvaged:?}");
}

#[test]
fn if_nothing_writes_to_the_table_the_newest_rows_are_those_of_that_moment() {
    let report = salvage(&filled(), &OTHER).unwrap();
    assert_eq!((report.rows, report.lost_pages, report.lost_values), (COUNT, 0, 0));
}

/// A transaction that no session has is in no count of those that write to the table: what it had
/// removed was left out.
#[test]
fn nor_is_it_if_a_prepared_transaction_has_changed_the_table() {
    let db = filled();
    let raw = RawDatabase::new(db.clone());
    let (table, mut prepared) = (raw.open_table("rows").unwrap(), common::rows::begin(&raw));
    assert!(prepared.delete(&table, 0, &7u64.to_be_bytes()).unwrap());
    prepared.prepare(b"x", FlushAtCommit::Sync).unwrap();
    drop(prepared);
    let salvaged = salvage(&db, &OTHER);
    assert!(matches!(salvaged, Err(Error::SnapshotTooOld)), "{salvaged:?}");
    raw.adopt(b"x").unwrap().txn().rollback().unwrap();
}
