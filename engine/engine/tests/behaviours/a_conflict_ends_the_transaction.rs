//! After a conflict the transaction cannot go on: everything is undone, and later calls say so, the
//! commit too. It could take savepoints and be committed, with what it had done before the
//! statement that failed.

use holdfast::{Database, Error, Result, TableDefinition, WaitMode, WriteTransaction};

use crate::common::{self, ROWS};

const NEW: TableDefinition<u64, u64> = TableDefinition::new("new");

fn set(db: &Database, key: u64, value: &str) {
    db.transact(|txn| txn.open_table(&ROWS)?.upsert(key, value)).unwrap();
}

/// A transaction that has changed row 1 and reads a snapshot in which row 2 is as it is not any
/// more.
fn behind(db: &Database) -> WriteTransaction {
    common::fill(db, 0, 10);
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    rows.update(1, "mine").unwrap();
    assert!(rows.get(2).unwrap().is_some());
    set(db, 2, "theirs");
    txn
}

fn is_conflict<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Conflict))
}

fn check(db: &Database, fail: impl FnOnce(&WriteTransaction) -> Result<()>) {
    let txn = behind(db);
    let rows = txn.open_table(&ROWS).unwrap();
    let before = txn.savepoint().unwrap();
    assert!(is_conflict(fail(&txn)));
    // Its rows are free again.
    set(db, 1, "free");
    assert!(is_conflict(txn.open_table(&ROWS)) && is_conflict(txn.open_table(&NEW)));
    assert!(db.list_tables().iter().all(|table| table.name != "new"));
    assert!(is_conflict(rows.get(1)) && is_conflict(rows.contains(1)) && is_conflict(rows.estimate(1..2)));
    assert!(is_conflict(rows.update(5, "more")));
    assert!(is_conflict(txn.savepoint()));
    assert!(is_conflict(txn.rollback_to(&before)));
    assert!(is_conflict(txn.commit()));
    let rows = db.begin_read().unwrap();
    assert_eq!(rows.open_table(&ROWS).unwrap().get(1).unwrap().as_deref(), Some("free"));
}

#[test]
fn of_a_change() {
    check(&Database::in_memory().unwrap(), |txn| txn.open_table(&ROWS)?.update(2, "mine").map(drop));
}

#[test]
fn of_a_locking_read() {
    check(&Database::in_memory().unwrap(), |txn| txn.open_table(&ROWS)?.get_for_update(2, WaitMode::Wait).map(drop));
}

#[test]
fn of_a_locking_range() {
    check(&Database::in_memory().unwrap(), |txn| {
        txn.open_table(&ROWS)?.range_for_update(2..5, WaitMode::Wait)?.try_for_each(|row| row.map(drop))
    });
}
