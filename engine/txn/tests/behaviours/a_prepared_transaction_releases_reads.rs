//! A prepared transaction releases what it has only read, and keeps what it has changed, or locked
//! to change it. A lock of a row that is deleted is one of a row that is not there: it once stayed
//! until purge had removed the row.

use std::ops::Bound;

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::*;

fn lock(db: &Db, txn: &mut Txn, key: &str, mode: LockMode) -> holdfast_base::Result<bool> {
    txn.get_locked(&db.rows, key.as_bytes(), mode, Some(LockWait::NoWait), &mut Vec::new())
}

fn is_locked(db: &Db, key: &str) -> bool {
    let mut other = db.at(Isolation::RepeatableRead);
    is(lock(db, &mut other, key, LockMode::Exclusive), |e| matches!(e, Error::WouldBlock))
}

fn can_insert(db: &Db, key: &str) -> bool {
    let wait = Some(LockWait::NoWait);
    let mut other = db.sys.begin(TxnOptions { wait, ..TxnOptions::at(Isolation::ReadCommitted) });
    !is(other.insert(&db.rows, key.as_bytes(), b"x"), |e| matches!(e, Error::WouldBlock))
}

#[test]
fn and_keeps_what_it_has_changed_or_is_to_change() {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "a"), ("3", "a"), ("4", "a"), ("5", "a"), ("6", "a")]);
    db.commit(|txn| assert!(txn.delete(&db.rows, b"5", None).unwrap()));
    let mut txn = db.at(Isolation::RepeatableRead);
    assert!(txn.update(&db.rows, b"1", b"b", None).unwrap());
    assert!(lock(&db, &mut txn, "2", LockMode::Exclusive).unwrap());
    assert!(lock(&db, &mut txn, "3", LockMode::Shared).unwrap());
    let savepoint = txn.savepoint();
    assert!(txn.update(&db.rows, b"4", b"b", None).unwrap());
    txn.rollback_to(savepoint).unwrap();
    for absent in ["5", "absent"] {
        assert!(!lock(&db, &mut txn, absent, LockMode::Exclusive).unwrap());
        assert!(!can_insert(&db, absent));
    }
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let read = scan_with(&mut txn, &db.rows, Bound::Included(b"6"), Bound::Excluded(b"8"), options).unwrap();
    assert!(read.len() == 1 && !can_insert(&db, "7"));
    txn.prepare(b"xid", FlushAtCommit::Sync).unwrap();
    txn.release_reads().unwrap();
    for (key, stays) in [("1", true), ("2", true), ("3", false), ("4", true), ("5", false), ("6", true)] {
        assert_eq!(is_locked(&db, key), stays, "{key}");
    }
    assert!(["5", "7", "absent"].iter().all(|key| can_insert(&db, key)));
    txn.commit(FlushAtCommit::Sync).unwrap();
    assert!(["1", "2", "4", "6"].iter().all(|key| !is_locked(&db, key)));
    assert_eq!(db.sys.locks().memory(), 0);
}

/// Rows behind the 64th of a scan are locked as one, and so were the keys between them, until the
/// end.
#[test]
fn and_the_keys_between_the_rows_of_a_scan() {
    let db = Db::new();
    let keys: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    db.commit(|txn| keys.iter().for_each(|key| txn.insert(&db.rows, key.as_bytes(), b"a").unwrap()));
    db.commit(|txn| assert!(txn.delete(&db.rows, b"150", None).unwrap()));
    let mut txn = db.at(Isolation::RepeatableRead);
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let read = scan_with(&mut txn, &db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
    assert_eq!(read.len(), keys.len() - 1);
    assert!(txn.update(&db.rows, b"120", b"b", None).unwrap());
    let between = ["001x", "100x", "150", "198x"];
    assert!(!between.iter().any(|key| can_insert(&db, key)));
    txn.prepare(b"xid", FlushAtCommit::Sync).unwrap();
    txn.release_reads().unwrap();
    assert!(between.iter().all(|key| can_insert(&db, key)));
    for key in &keys {
        assert_eq!(is_locked(&db, key), key != "150", "{key}");
    }
    txn.commit(FlushAtCommit::Sync).unwrap();
    assert!(!keys.iter().any(|key| is_locked(&db, key)));
    assert_eq!(db.sys.locks().memory(), 0);
}

/// Its view stayed open until its end, and could not be given up, since the transaction had changed
/// a row.
#[test]
fn and_its_view() {
    let db = Db::new();
    db.put(&[("1", "a")]);
    let mut txn = db.begin();
    txn.take_snapshot();
    assert!(txn.update(&db.rows, b"1", b"b", None).unwrap());
    assert_eq!(db.sys.stats().views, 1);
    txn.prepare(b"xid", FlushAtCommit::Sync).unwrap();
    assert_eq!(db.sys.stats().views, 0);
    txn.rollback().unwrap();
    assert_eq!(get(&mut db.snapshot(), &db.rows, "1").as_deref(), Some("a"));
}
