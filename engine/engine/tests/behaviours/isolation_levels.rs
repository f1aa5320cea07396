//! What each level promises, in short; the lock and version rules have their own tests below this
//! floor.

use holdfast::{Database, Error, Isolation, WaitMode, WriteOptions};

use crate::common::ROWS;

fn begin(db: &Database, isolation: Isolation) -> holdfast::WriteTransaction {
    let timeout = std::time::Duration::from_millis(20);
    db.begin_write_with(&WriteOptions::new().isolation(isolation).lock_wait_timeout(timeout)).unwrap()
}

fn set(db: &Database, key: u64, value: &str) {
    db.transact(|txn| txn.open_table(&ROWS)?.upsert(key, value)).unwrap();
}

#[test]
fn nobody_reads_uncommitted_rows() {
    let db = Database::in_memory().unwrap();
    set(&db, 1, "old");
    let writer = db.begin_write().unwrap();
    writer.open_table(&ROWS).unwrap().update(1, "new").unwrap();
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let reader = begin(&db, isolation);
        assert_eq!(reader.open_table(&ROWS).unwrap().get(1).unwrap().as_deref(), Some("old"));
    }
}

#[test]
fn read_committed_moves_with_each_statement_and_a_snapshot_does_not() {
    let db = Database::in_memory().unwrap();
    set(&db, 1, "old");
    let (committed, repeatable) = (begin(&db, Isolation::ReadCommitted), begin(&db, Isolation::RepeatableRead));
    let (a, b) = (committed.open_table(&ROWS).unwrap(), repeatable.open_table(&ROWS).unwrap());
    assert_eq!((a.get(1).unwrap(), b.get(1).unwrap()), (Some("old".into()), Some("old".into())));
    set(&db, 1, "new");
    set(&db, 2, "more");
    assert_eq!((a.get(1).unwrap(), b.get(1).unwrap()), (Some("new".into()), Some("old".into())));
    assert_eq!((a.iter().unwrap().count(), b.iter().unwrap().count()), (2, 1));
}

#[test]
fn a_snapshot_allows_write_skew_and_serializable_does_not() {
    for (isolation, both) in [(Isolation::RepeatableRead, true), (Isolation::Serializable, false)] {
        let db = Database::in_memory().unwrap();
        set(&db, 1, "on call");
        set(&db, 2, "on call");
        let (a, b) = (begin(&db, isolation), begin(&db, isolation));
        let (rows_a, rows_b) = (a.open_table(&ROWS).unwrap(), b.open_table(&ROWS).unwrap());
        assert_eq!((rows_a.iter().unwrap().count(), rows_b.iter().unwrap().count()), (2, 2));
        let first = rows_a.update(1, "off");
        let second = rows_b.update(2, "off");
        assert_eq!(first.is_ok() && second.is_ok(), both, "{isolation:?}: {first:?} {second:?}");
    }
}

#[test]
fn serializable_admits_no_phantoms() {
    let db = Database::in_memory().unwrap();
    (1..5).for_each(|i| set(&db, i * 10, "row"));
    let reader = begin(&db, Isolation::Serializable);
    assert_eq!(reader.open_table(&ROWS).unwrap().range(10..=30).unwrap().count(), 3);
    let writer = begin(&db, Isolation::ReadCommitted);
    let rows = writer.open_table(&ROWS).unwrap();
    assert!(matches!(rows.insert(25, "phantom"), Err(Error::LockTimeout | Error::WouldBlock)));
    rows.insert(45, "elsewhere").unwrap();
}

#[test]
fn a_locking_range_admits_no_phantoms_at_repeatable_read() {
    let db = Database::in_memory().unwrap();
    (1..5).for_each(|i| set(&db, i * 10, "row"));
    let reader = begin(&db, Isolation::RepeatableRead);
    let rows = reader.open_table(&ROWS).unwrap();
    assert_eq!(rows.range_for_update(10..=30, WaitMode::Wait).unwrap().count(), 3);
    let writer = begin(&db, Isolation::ReadCommitted);
    assert!(matches!(writer.open_table(&ROWS).unwrap().insert(25, "phantom"), Err(Error::LockTimeout)));
}
