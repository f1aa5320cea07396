//! The lock that a statement enters for a row which it then changes is released again: the row
//! carries the transaction's id. What that must not cost: locks that are older than a savepoint,
//! and waiters.

use std::ops::Bound;

use holdfast_base::Error;
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

fn lock(txn: &mut Txn, db: &Db, key: &str, wait: LockWait) -> holdfast_base::Result<String> {
    let mut value = Vec::new();
    assert!(txn.get_locked(&db.rows, key.as_bytes(), LockMode::Exclusive, Some(wait), &mut value)?);
    Ok(String::from_utf8(value).unwrap())
}

fn is_locked(db: &Db, key: &str) -> bool {
    let mut other = db.at(Isolation::ReadCommitted);
    is(lock(&mut other, db, key, LockWait::NoWait), |e| matches!(e, Error::WouldBlock))
}

/// An UPDATE of all rows enters no lock for each of them, so its locks do not grow into one on the
/// whole table.
#[test]
fn a_statement_that_changes_many_rows_holds_few_locks() {
    let mut setup = Setup::default();
    setup.txn.lock_memory = 64 << 10;
    let db = Db::with(setup);
    let keys: Vec<String> = (0..2_000).map(|i| format!("{i:05}")).collect();
    db.put(&keys.iter().map(|key| (key.as_str(), "old")).collect::<Vec<_>>());
    let mut txn = db.at(Isolation::RepeatableRead);
    txn.statement_begin().unwrap();
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let mut cursor = txn.cursor(&db.rows, Bound::Unbounded, Bound::Excluded(b"01500"), options).unwrap();
    let mut at = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        at.clear();
        at.extend_from_slice(key);
        if at.ends_with(b"9") {
            assert!(txn.delete(&db.rows, &at, None).unwrap());
        } else {
            assert!(txn.update(&db.rows, &at, b"new", None).unwrap());
        }
        assert!(db.sys.locks().memory() < 2_000, "{} bytes of locks", db.sys.locks().memory());
    }
    drop(cursor);
    assert_eq!(db.store.metrics().get(Counter::LockEscalations), 0);
    let mut other = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::default() });
    for key in ["00000", "00009", "01499"] {
        assert!(is_locked(&db, key));
        assert!(is(other.upsert(&db.rows, key.as_bytes(), b"x", None), |e| matches!(e, Error::WouldBlock)));
    }
    assert!(!is_locked(&db, "01500"), "no other row is");
    txn.commit(FlushAtCommit::Lazy).unwrap();
    assert!(!is_locked(&db, "01498"));
    assert_eq!(db.sys.locks().memory(), 0);
}

#[test]
fn a_lock_that_is_older_than_a_savepoint_outlives_the_way_back_to_it() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1")]);
    let mut txn = db.at(Isolation::RepeatableRead);
    lock(&mut txn, &db, "a", LockWait::NoWait).unwrap();
    let savepoint = txn.savepoint();
    lock(&mut txn, &db, "b", LockWait::NoWait).unwrap();
    for key in [b"a", b"b"] {
        assert!(txn.update(&db.rows, key, b"2", None).unwrap());
    }
    txn.rollback_to(savepoint).unwrap();
    assert!(is_locked(&db, "a"));
    txn.rollback().unwrap();
    assert!(!is_locked(&db, "a") && !is_locked(&db, "b"));
    assert_eq!(db.sys.locks().memory(), 0);
}

/// Entries that were loaded, and a transaction that has changed nothing, have no id: it is not the
/// id of both.
#[test]
fn a_loaded_row_is_locked_by_a_transaction_without_changes() {
    let db = Db::new();
    let acc = db.store.pool().access(AccessKind::Point);
    db.rows.load_entry(b"a", 1, &b"1"[..], &acc).unwrap();
    drop(acc);
    let mut txn = db.at(Isolation::RepeatableRead);
    lock(&mut txn, &db, "a", LockWait::NoWait).unwrap();
    assert!(is_locked(&db, "a"));
}

#[test]
fn who_waits_for_the_entered_lock_gets_the_row_in_the_end() {
    let db = Db::new();
    db.put(&[("a", "1")]);
    let (holder, waiter) = (Session::new(&db, TxnOptions::default()), Session::new(&db, TxnOptions::default()));
    let rows = db.rows.clone();
    let waiting = {
        // Between the two steps of one statement of the holder another transaction begins to wait.
        let (locked, proceed) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let statement = holder.run(move |txn| {
            let mut value = Vec::new();
            assert!(txn.get_locked(&rows, b"a", LockMode::Exclusive, None, &mut value)?);
            locked.0.send(()).unwrap();
            proceed.1.recv().unwrap();
            txn.update(&rows, b"a", b"2", None)
        });
        locked.1.recv().unwrap();
        let rows = db.rows.clone();
        let waiting = waiter.run(move |txn| {
            let mut value = Vec::new();
            txn.get_locked(&rows, b"a", LockMode::Shared, None, &mut value)?;
            Ok(value)
        });
        let waiting = waiting.blocked();
        proceed.0.send(()).unwrap();
        assert!(statement.result().unwrap());
        waiting.blocked()
    };
    holder.run(|txn| txn.commit(FlushAtCommit::Lazy).map(drop)).result().unwrap();
    assert_eq!(waiting.result().unwrap(), b"2");
}
