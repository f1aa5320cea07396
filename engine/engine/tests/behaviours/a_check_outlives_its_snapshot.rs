//! Others change so much while a check compares the entries of a table with its rows that its
//! snapshot is given up. The check of all tables ended with that, and its report was lost; now it
//! takes another snapshot, and names the table if that is given up as well.

use std::cell::{Cell, RefCell};

use holdfast::metrics::Counter;
use holdfast::{Database, IndexDefinition, TableDefinition, VerifyOptions, VerifyReport};

use crate::common;

const CHECKED_ROWS: u64 = 1_000;
const CHANGED_ROWS: u64 = 2_000;
const VALUE_BYTES: usize = 1_000;

thread_local! {
    /// The database that this thread checks.
    static CHECKED: RefCell<Option<Database>> = const { RefCell::new(None) };
    /// How many snapshots of the check are still to be given up.
    static TO_GIVE_UP: Cell<u32> = const { Cell::new(0) };
}

/// A check asks which entries a row has; in the middle of the table everything else changes.
const BY: IndexDefinition<u64, &'static str, u64> = IndexDefinition::new("by", |id: &u64, text: &String, keys| {
    if *id == CHECKED_ROWS / 2 {
        change_everything();
    }
    keys.push(text.len() as u64);
});
const CHANGED: TableDefinition<u64, &'static str> = TableDefinition::new("changed");

fn change_everything() {
    let Some(db) = CHECKED.take() else { return };
    if let Some(left) = TO_GIVE_UP.get().checked_sub(1) {
        TO_GIVE_UP.set(left);
        let given_up = || db.metrics().get(Counter::TrxSnapshotTooOld);
        let before = given_up();
        while given_up() == before {
            fill(&db, &CHANGED, CHANGED_ROWS);
        }
    }
    CHECKED.set(Some(db));
}

fn fill(db: &Database, table: &TableDefinition<u64, &'static str>, rows: u64) {
    let value = "x".repeat(VALUE_BYTES);
    let write = |id| db.transact(|txn| txn.open_table(table)?.upsert(id, &value).map(drop));
    (0..rows).try_for_each(write).unwrap();
}

/// What a check finds, so many of whose snapshots are given up.
fn check(given_up: u32) -> VerifyReport {
    let db = common::small().version_limit_bytes(1 << 20).in_memory().unwrap();
    fill(&db, &TableDefinition::new("t").index(&BY), CHECKED_ROWS);
    fill(&db, &CHANGED, CHANGED_ROWS);
    CHECKED.set(Some(db.clone()));
    TO_GIVE_UP.set(given_up);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    CHECKED.set(None);
    assert_eq!(report.findings, []);
    report
}

#[test]
fn another_snapshot_takes_its_place() {
    let report = check(1);
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_table_whose_entries_were_not_compared_is_named() {
    let report = check(u32::MAX);
    let named: Vec<_> = report.not_compared.iter().map(|one| one.table.as_str()).collect();
    assert_eq!(named, ["t"]);
    assert!(!report.is_clean());
}
