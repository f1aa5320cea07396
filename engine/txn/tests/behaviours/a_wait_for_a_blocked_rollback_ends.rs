//! Sessions wait for rows of an unfinished transaction while an error stops its rollback. They
//! waited for their whole lock wait limit: for a row that damage keeps from being undone, although
//! the end of the transaction was not in sight, and for a row that had been undone.

use std::sync::Arc;

use holdfast_base::{Error, PageId, Result};
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::{LockMode, LockWait, TableIndex, TxnOptions};

use crate::common::session::{Pending, Session};
use crate::common::{undo, *};

const ROWS: u64 = 600;

fn key(n: u64) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

fn fill(db: &Db) {
    db.commit(|txn| {
        (0..ROWS).for_each(|n| txn.insert(&db.rows, &key(n), &[b'x'; 400]).unwrap());
        txn.insert(&db.other, b"one", b"old").unwrap();
    });
}

/// Begins a transaction that changes the row of the other table, and then all rows, which stay as
/// long: the table is larger than the cache.
fn change_all(db: &Db) -> holdfast_txn::Txn {
    let mut txn = db.begin();
    assert!(txn.update(&db.other, b"one", b"never", None).unwrap());
    (0..ROWS).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[b'n'; 400], None).unwrap()));
    txn
}

/// What a crash and damage leave of such a transaction: a page in the middle of its undo log cannot
/// be read.
fn damaged() -> Db {
    let db = Db::new();
    fill(&db);
    std::mem::forget(change_all(&db));
    undo::reopen_damaged(db)
}

fn is_of_undo<T>(result: Result<T>) -> bool {
    is(
        result,
        |error| matches!(error, Error::DamagedPage { page: PageId { space: UNDO, .. }, what } if what.contains("rolled back")),
    )
}

/// The update of an entry, which waits for a lock.
fn waiting(session: &Session, index: &Arc<TableIndex>, key: Vec<u8>) -> Pending<bool> {
    let index = Arc::clone(index);
    session.run(move |txn| txn.update(&index, &key, b"new", None)).blocked()
}

#[test]
fn with_the_damage_that_blocks_it() {
    let db = damaged();
    let [unknown, undone, other] = [(); 3].map(|()| Session::new(&db, TxnOptions::default()));
    let of_unknown = waiting(&unknown, &db.rows, key(ROWS / 3));
    let of_undone = waiting(&undone, &db.rows, key(ROWS - 1));
    let of_other = waiting(&other, &db.other, b"one".to_vec());
    assert_eq!(db.sys.roll_back_losers().unwrap(), 0);
    assert!(is_of_undo(of_unknown.result()));
    assert!(of_undone.result().unwrap() && of_other.result().unwrap());
    for session in [unknown, undone, other] {
        session.commit().unwrap();
    }
    // A session that comes later does not wait, either.
    let mut txn = db.begin();
    assert!(is_of_undo(txn.update(&db.rows, &key(ROWS / 3), b"new", None)));
    assert!(is_of_undo(txn.get_locked(&db.rows, &key(ROWS / 3), LockMode::Shared, None, &mut Vec::new())));
    assert!(is_of_undo(txn.upsert(&db.rows, &key(ROWS / 3 + 1), b"new", None)));
    let at_once = txn.get_locked(&db.rows, &key(ROWS / 3), LockMode::Shared, Some(LockWait::NoWait), &mut Vec::new());
    assert!(is(at_once, |error| matches!(error, Error::WouldBlock)));
    assert!(txn.update(&db.rows, &key(ROWS - 1), b"newer", None).unwrap());
    txn.rollback().unwrap();
    assert!(db.sys.locks().locks().is_empty());
}

#[test]
fn when_the_row_is_undone() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = Db::create(Arc::new(disk.clone()), Setup { frames: 48, ..Setup::default() }).unwrap();
    fill(&db);
    let mut txn = change_all(&db);
    let session = Session::new(&db, TxnOptions::default());
    let of_other = waiting(&session, &db.other, b"one".to_vec());
    disk.schedule(Fault::nth(FaultOp::Read, 10));
    assert!(txn.rollback().is_err());
    disk.clear();
    assert!(of_other.result().unwrap());
    session.commit().unwrap();
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    assert_eq!(get(&mut db.snapshot(), &db.other, "one").as_deref(), Some("new"));
    db.purge();
    db.verify_clean();
}

/// Only the first rollback that failed told those that waited for what it had undone.
#[test]
fn when_a_later_attempt_undoes_the_row() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = Db::create(Arc::new(disk.clone()), Setup { frames: 48, ..Setup::default() }).unwrap();
    fill(&db);
    let mut txn = change_all(&db);
    disk.schedule(Fault::nth(FaultOp::Read, 1).on("t16.hf").sticky());
    assert!(txn.rollback().is_err());
    disk.clear();
    let mut other = db.begin();
    let mut is_held = |n: &u64| {
        let wait = Some(LockWait::NoWait);
        let locked = other.get_locked(&db.rows, &key(*n), LockMode::Shared, wait, &mut Vec::new());
        matches!(locked, Err(Error::WouldBlock))
    };
    let held = (0..ROWS).rev().find(|n| is_held(n)).unwrap();
    assert!(held > ROWS / 6, "row {held}");
    other.rollback().unwrap();
    let session = Session::new(&db, TxnOptions::default());
    let of_held = waiting(&session, &db.rows, key(held));
    disk.schedule(Fault::nth(FaultOp::Read, 5).on("t16.hf"));
    assert!(db.sys.roll_back_losers().is_err());
    disk.clear();
    assert!(of_held.result().unwrap());
    session.commit().unwrap();
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    assert_eq!(get(&mut db.snapshot(), &db.rows, &format!("row{held:04}")).as_deref(), Some("new"));
    db.purge();
    db.verify_clean();
}
