//! The xid of a prepared transaction was free before its rollback was done; two could have the
//! same, and after a crash one of them was dropped from the list: its rows were locked, and nothing
//! could end it. A transaction that was prepared without changes freed the empty xid, whose ever it
//! was. One whose prepare failed was active in memory and prepared on its page.

use std::sync::Arc;

use holdfast_base::{Error, PageNo};
use holdfast_pool::AccessKind;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_tree::op::PageOp;
use holdfast_txn::{FlushAtCommit, LockWait, Txn, TxnOptions, VersionHeader};
use holdfast_wal::SpaceClass;

use crate::common::{Db, Setup, UNDO, get};

const ROWS: u32 = 600;

fn key(n: u32) -> String {
    format!("row{n:04}")
}

fn database() -> (CrashDisk, FaultDisk, Db) {
    let crash = CrashDisk::new();
    let disk = FaultDisk::new(Arc::new(crash.clone()));
    let db = Db::create(Arc::new(disk.clone()), setup()).unwrap();
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, key(n).as_bytes(), &[b'x'; 400]).unwrap()));
    (crash, disk, db)
}

fn setup() -> Setup {
    Setup { frames: 48, ..Setup::default() }
}

fn changed(db: &Db, rows: std::ops::Range<u32>) -> Txn {
    let mut txn = db.begin();
    rows.for_each(|n| assert!(txn.update(&db.rows, key(n).as_bytes(), b"new", None).unwrap()));
    txn
}

fn assert_nothing_is_locked(db: &Db) {
    let mut txn = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::default() });
    for n in 0..ROWS {
        txn.update(&db.rows, key(n).as_bytes(), b"later", None).unwrap();
    }
}

fn is_invalid<T>(result: holdfast_base::Result<T>) -> bool {
    matches!(result, Err(Error::InvalidArgument(_)))
}

#[test]
fn also_while_its_rollback_fails() {
    let (crash, disk, db) = database();
    let mut first = changed(&db, 0..500);
    first.prepare(b"x", FlushAtCommit::Sync).unwrap();
    disk.schedule(Fault::nth(FaultOp::Read, 3).sticky());
    assert!(first.rollback().is_err());
    disk.clear();
    // Its log does not say the xid any more.
    let mut second = changed(&db, 550..551);
    second.prepare(b"x", FlushAtCommit::Sync).unwrap();
    drop((first, second, db));
    let db = Db::open(Arc::new(crash.reboot(1)), setup()).unwrap();
    db.sys.roll_back_losers().unwrap();
    assert_eq!(db.sys.prepared().len(), 1);
    db.sys.adopt(b"x").unwrap().commit(FlushAtCommit::Sync).unwrap();
    let mut snapshot = db.snapshot();
    assert_eq!(get(&mut snapshot, &db.rows, &key(550)).unwrap(), "new");
    assert_ne!(get(&mut snapshot, &db.rows, &key(5)).unwrap(), "new");
    assert_nothing_is_locked(&db);
}

/// As long as the log says the xid it is taken, whatever has become of the transaction.
#[test]
fn also_while_its_rollback_cannot_begin() {
    let (_, disk, db) = database();
    let mut first = changed(&db, 0..3);
    first.prepare(b"x", FlushAtCommit::Sync).unwrap();
    // Pushes the undo page out of the pool.
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.other, key(n).as_bytes(), &[7; 800]).unwrap()));
    let mut second = changed(&db, 20..21);
    disk.schedule(Fault::nth(FaultOp::Read, 1).on("undo.hf").sticky());
    assert!(first.rollback().is_err());
    disk.clear();
    assert!(is_invalid(second.prepare(b"x", FlushAtCommit::Sync)));
    db.sys.roll_back_losers().unwrap();
    second.prepare(b"x", FlushAtCommit::Sync).unwrap();
}

#[test]
fn a_transaction_without_changes_names_none() {
    let (_, _, db) = database();
    let mut real = changed(&db, 0..1);
    real.prepare(b"", FlushAtCommit::Sync).unwrap();
    let mut empty = db.begin();
    empty.prepare(b"", FlushAtCommit::Sync).unwrap();
    empty.commit(FlushAtCommit::Sync).unwrap();
    assert!(is_invalid(changed(&db, 1..2).prepare(b"", FlushAtCommit::Sync)), "it is the xid of another one");
    real.rollback().unwrap();
    changed(&db, 1..2).prepare(b"", FlushAtCommit::Sync).unwrap();
}

/// Two prepared transactions with one xid, as earlier versions could leave them: both are listed,
/// and both can be ended.
#[test]
fn two_that_are_found_with_one_xid_are_both_listed() {
    let (crash, _, db) = database();
    let (mut first, mut second) = (changed(&db, 0..3), changed(&db, 10..13));
    first.prepare(b"xa", FlushAtCommit::Sync).unwrap();
    second.prepare(b"xb", FlushAtCommit::Sync).unwrap();
    overwrite_xid(&db, 10, b"xa");
    drop((first, second, db));
    let db = Db::open(Arc::new(crash.reboot(1)), setup()).unwrap();
    assert_eq!(db.sys.prepared().iter().filter(|found| found.xid == b"xa").count(), 2);
    assert!(is_invalid(changed(&db, 20..21).prepare(b"xa", FlushAtCommit::Sync)));
    db.sys.adopt(b"xa").unwrap().commit(FlushAtCommit::Sync).unwrap();
    assert!(is_invalid(changed(&db, 20..21).prepare(b"xa", FlushAtCommit::Sync)), "the other one has it still");
    db.sys.adopt(b"xa").unwrap().rollback().unwrap();
    assert!(is_invalid(db.sys.adopt(b"xa")));
    assert_nothing_is_locked(&db);
}

/// Writes another xid of the same length to the undo log of the transaction that has changed row
/// `n`.
fn overwrite_xid(db: &Db, n: u32, xid: &[u8]) {
    let acc = db.store.pool().access(AccessKind::Point);
    let mut payload = Vec::new();
    assert!(db.rows.tree().get(key(n).as_bytes(), &acc, &mut payload).unwrap());
    let page: PageNo = VersionHeader::decode(&payload).unwrap().0.roll.page();
    assert_eq!(db.files[0].id(), UNDO);
    let mut mtr = db.store.begin(db.store.reserve(256, SpaceClass::User).unwrap(), &acc);
    let first = mtr.fix(db.files[0].space(), page).unwrap();
    mtr.apply(first, &PageOp::WriteBytes { offset: 96, bytes: xid }).unwrap();
    let lsn = mtr.commit().unwrap();
    db.store.wal().flush_to(lsn).unwrap();
}

#[test]
fn a_prepare_that_was_not_made_durable_is_taken_back() {
    let (crash, disk, db) = database();
    let mut txn = changed(&db, 0..3);
    disk.schedule(Fault::nth(FaultOp::Write, 1).on("wal.000001").kind(FaultKind::Enospc));
    assert!(txn.prepare(b"x", FlushAtCommit::Sync).is_err());
    disk.clear();
    // It goes on, and the xid is free.
    changed(&db, 10..11).prepare(b"x", FlushAtCommit::Sync).unwrap();
    txn.update(&db.rows, key(4).as_bytes(), b"new", None).unwrap();
    db.store.wal().flush_to(db.store.wal().next_lsn()).unwrap();
    std::mem::forget(txn);
    let db = Db::open(Arc::new(crash.reboot(1)), setup()).unwrap();
    assert_eq!((db.sys.prepared().len(), db.sys.stats().losers), (1, 1));
}

/// What had been prepared without success was no more prepared when its rollback began, so that did
/// not wait for the log. The prepare may be in the log's file, and the word that it was taken back
/// not: after a crash the transaction was prepared, though its rollback had been acknowledged.
#[test]
fn the_rollback_behind_a_prepare_that_failed_is_durable() {
    let (_, disk, db) = database();
    let mut txn = changed(&db, 0..3);
    disk.schedule(Fault::nth(FaultOp::Write, 1).on("wal.000001").kind(FaultKind::Enospc));
    assert!(txn.prepare(b"x", FlushAtCommit::Sync).is_err());
    disk.clear();
    let taken_back = db.store.wal().next_lsn();
    txn.rollback().unwrap();
    assert!(db.store.wal().durable_lsn() >= taken_back);
}

#[test]
fn a_prepare_that_cannot_be_taken_back_leaves_nothing_but_a_rollback() {
    let (crash, disk, db) = database();
    let mut txn = changed(&db, 0..3);
    disk.schedule(Fault::nth(FaultOp::Sync, 1).sticky());
    assert!(txn.prepare(b"x", FlushAtCommit::Sync).is_err());
    assert!(matches!(txn.commit(FlushAtCommit::Sync), Err(Error::HalfUndone)));
    assert!(matches!(txn.prepare(b"y", FlushAtCommit::Sync), Err(Error::HalfUndone)));
    assert!(txn.rollback().is_err(), "the database has stopped");
    drop((txn, db));
    let db = Db::open(Arc::new(crash.reboot(1)), setup()).unwrap();
    db.sys.roll_back_losers().unwrap();
    if !db.sys.prepared().is_empty() {
        db.sys.adopt(b"x").unwrap().rollback().unwrap();
    }
    assert_nothing_is_locked(&db);
}
