//! A row that was changed since a savepoint, and that a rollback to the savepoint puts back, stays
//! locked exclusively: also if it was locked since the savepoint, when the id in the row had taken
//! the place of the lock. The view stays as well.

use std::ops::Bound;

use holdfast_base::Error;
use holdfast_metrics::Counter;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

fn is_locked(db: &Db, key: &str) -> bool {
    let mut other = db.at(Isolation::ReadCommitted);
    let got = other.get_locked(&db.rows, key.as_bytes(), LockMode::Shared, Some(LockWait::NoWait), &mut Vec::new());
    is(got, |e| matches!(e, Error::WouldBlock))
}

#[test]
fn rows_that_are_put_back_are_locked() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let db = Db::new();
        db.put(&[("changed", "1"), ("deleted", "1"), ("locked", "1"), ("shared", "1"), ("untouched", "1")]);
        let mut txn = db.at(isolation);
        let savepoint = txn.savepoint();
        let mut value = Vec::new();
        assert!(txn.get_locked(&db.rows, b"locked", LockMode::Exclusive, None, &mut value).unwrap());
        assert!(txn.get_locked(&db.rows, b"shared", LockMode::Shared, None, &mut value).unwrap());
        for key in [&b"changed"[..], b"locked", b"shared"] {
            assert!(txn.update(&db.rows, key, b"2", None).unwrap());
        }
        assert!(txn.delete(&db.rows, b"deleted", None).unwrap());
        txn.insert(&db.rows, b"inserted", b"2").unwrap();
        assert!(txn.update(&db.rows, b"inserted", b"3", None).unwrap());
        txn.rollback_to(savepoint).unwrap();
        for key in ["changed", "deleted", "locked", "shared"] {
            assert!(is_locked(&db, key), "{key} at {isolation:?}");
        }
        assert!(!is_locked(&db, "untouched"));
        assert!(!is_locked(&db, "inserted"), "there is no such row");
        txn.commit(FlushAtCommit::Lazy).unwrap();
        assert!(!is_locked(&db, "changed"));
        assert_eq!(db.sys.locks().memory(), 0);
    }
}

/// Neither the one that its insert has, nor one of a locking read.
#[test]
fn a_row_that_is_gone_leaves_no_lock() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let db = Db::new();
        db.put(&[("before", "1")]);
        let mut txn = db.at(isolation);
        let savepoint = txn.savepoint();
        for key in [&b"entry"[..], b"read", b"cursor"] {
            txn.insert(&db.rows, key, b"2").unwrap();
        }
        assert!(txn.lock_entry(&db.rows, b"entry", LockMode::Shared).unwrap());
        assert!(txn.get_locked(&db.rows, b"read", LockMode::Exclusive, None, &mut Vec::new()).unwrap());
        let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
        let mut cursor = txn.cursor(&db.rows, Bound::Included(b"cursor"), Bound::Included(b"cursor"), options).unwrap();
        assert!(cursor.next().unwrap().is_some());
        drop(cursor);
        assert!(["entry", "read", "cursor"].iter().all(|key| is_locked(&db, key)), "the id in the row is a lock");
        txn.rollback_to(savepoint).unwrap();
        for key in ["entry", "read", "cursor"] {
            assert!(!is_locked(&db, key), "{key} at {isolation:?}");
        }
        assert!(!is_locked(&db, "before"));
    }
}

/// The lock went when the transaction had inserted a row there and read that with a lock, or
/// changed it: another one could insert what this one had found absent.
#[test]
fn a_key_that_was_found_absent_stays_locked() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        for reads in [true, false] {
            let db = Db::new();
            let mut txn = db.at(isolation);
            let lock = |txn: &mut Txn, mode| txn.get_locked(&db.rows, b"absent", mode, None, &mut Vec::new()).unwrap();
            assert!(!lock(&mut txn, LockMode::Shared));
            let savepoint = txn.savepoint();
            txn.insert(&db.rows, b"absent", b"2").unwrap();
            if reads {
                assert!(lock(&mut txn, LockMode::Exclusive));
            } else {
                assert!(txn.update(&db.rows, b"absent", b"3", None).unwrap());
            }
            txn.rollback_to(savepoint).unwrap();
            let mut other = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::default() });
            let inserted = other.insert(&db.rows, b"absent", b"x");
            assert!(is(inserted, |e| matches!(e, Error::WouldBlock)), "{isolation:?} {reads}");
            assert!(!lock(&mut txn, LockMode::Shared));
            txn.commit(FlushAtCommit::Lazy).unwrap();
            other.insert(&db.rows, b"absent", b"x").unwrap();
            assert_eq!(db.sys.locks().memory(), 0);
        }
    }
}

#[test]
fn another_transaction_waits_for_the_end() {
    let db = Db::new();
    db.put(&[("1", "a")]);
    let mut txn = db.begin();
    let savepoint = txn.savepoint();
    assert!(txn.update(&db.rows, b"1", b"b", None).unwrap());
    txn.rollback_to(savepoint).unwrap();
    let waiting = Session::new(&db, TxnOptions::default());
    let waiting = waiting.update("1", "c").blocked();
    assert!(txn.update(&db.rows, b"1", b"d", None).unwrap(), "the row is still this one's");
    txn.commit(FlushAtCommit::Lazy).unwrap();
    assert!(waiting.result().unwrap());
}

#[test]
fn the_view_stays() {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "a")]);
    let mut txn = db.at(Isolation::RepeatableRead);
    let savepoint = txn.savepoint();
    assert_eq!(get(&mut txn, &db.rows, "1"), Some("a".into()));
    assert!(txn.update(&db.rows, b"2", b"b", None).unwrap());
    db.put(&[("1", "c")]);
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(get(&mut txn, &db.rows, "1"), Some("a".into()));
}

/// Changes 2,000 rows, with a cursor or one by one, goes back, and returns how often locks had
/// become a table lock.
fn change_many_and_go_back(by_cursor: bool) -> u64 {
    let mut setup = Setup::default();
    setup.txn.lock_memory = 64 << 10;
    let db = Db::with(setup);
    let keys: Vec<String> = (0..2_000).map(|i| format!("{i:05}")).collect();
    db.put(&keys.iter().map(|key| (key.as_str(), "old")).collect::<Vec<_>>());
    let mut txn = db.at(Isolation::RepeatableRead);
    let savepoint = txn.savepoint();
    if by_cursor {
        let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
        let mut cursor = txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
        while let Some((key, _)) = cursor.next().unwrap() {
            let key = key.to_vec();
            assert!(txn.update(&db.rows, &key, b"new", None).unwrap());
        }
    } else {
        for key in &keys {
            assert!(txn.update(&db.rows, key.as_bytes(), b"new", None).unwrap());
        }
    }
    txn.rollback_to(savepoint).unwrap();
    assert!(db.sys.locks().memory() < 96 << 10, "{} bytes of locks", db.sys.locks().memory());
    for key in keys.iter().step_by(99) {
        assert!(is_locked(&db, key), "{key}");
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    assert!(keys.iter().step_by(99).all(|key| !is_locked(&db, key)));
    assert_eq!(db.sys.locks().memory(), 0);
    db.store.metrics().get(Counter::LockEscalations)
}

#[test]
fn many_rows_become_a_table_lock() {
    assert_eq!(change_many_and_go_back(false), 1);
}

#[test]
fn what_a_scan_has_locked_as_one_needs_no_locks_of_its_own() {
    assert_eq!(change_many_and_go_back(true), 0);
}
