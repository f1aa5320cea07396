//! The first page of a free undo log is damaged on the disk. A free log is used again at once by
//! the next transaction of its group of threads: each of them failed.

use std::sync::Arc;

use holdfast_base::codec::get_u64;
use holdfast_base::{PageNo, TxnId};
use holdfast_io::MemoryDisk;
use holdfast_pool::AccessKind;
use holdfast_testkit::FaultDisk;
use holdfast_txn::FlushAtCommit;

use crate::common::*;

const FILE: &str = "undo.hf";
const ROWS: u32 = 600;
/// Where a page of the undo space names its transaction.
const OWNER: usize = 64;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A database with a table that is larger than the pool.
fn filled(disk: &FaultDisk) -> Db {
    let db = Db::create(Arc::new(disk.clone()), Setup { frames: 64, ..Setup::default() }).unwrap();
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.entries, &key(n), &[b'y'; 1_500]).unwrap()));
    while db.purge() > 0 {}
    db
}

/// The first page of the log that belonged to `txn`.
fn page_of(db: &Db, txn: TxnId) -> PageNo {
    *db.pages_where(0, |page| get_u64(page, OWNER) == Some(txn.0)).first().expect("its log is there")
}

/// Pushes a page out of the pool and damages it, or mends it if that was done before.
fn damage(db: &Db, disk: &FaultDisk, no: PageNo) {
    db.push_out(0, &[no], (0..ROWS / 4).map(key));
    disk.flip_bit(FILE, u64::from(no.0) * db.store.page_size() as u64 + 1_000, 0).unwrap();
}

#[test]
fn behind_an_error_of_one_transaction() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk);
    let mut txn = db.begin();
    txn.insert(&db.rows, b"one", b"value").unwrap();
    let id = TxnId(db.sys.stats().next_txn.0 - 1);
    txn.commit(FlushAtCommit::Lazy).unwrap();
    while db.purge() > 0 {}
    damage(&db, &disk, page_of(&db, id));
    let mut txn = db.begin();
    let met = txn.insert(&db.rows, b"two", b"value");
    assert!(met.as_ref().is_err_and(|error| error.is_damage()), "{met:?}");
    txn.rollback().unwrap();
    let in_use = db.sys.stats().undo_pages;
    for n in 0..10 {
        db.commit(|txn| txn.insert(&db.rows, &key(n), b"value").unwrap());
        while db.purge() > 0 {}
    }
    assert_eq!(db.sys.stats().undo_pages, in_use, "what is left out is not in use");
    assert!(db.sys.keeps_nothing_old().unwrap(), "the rollback is not done");
}

/// The read that failed succeeds later.
#[test]
fn until_it_can_be_read() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk);
    db.commit(|txn| txn.insert(&db.rows, b"one", b"value").unwrap());
    let id = TxnId(db.sys.stats().next_txn.0 - 1);
    while db.purge() > 0 {}
    let no = page_of(&db, id);
    damage(&db, &disk, no);
    assert!(db.begin().insert(&db.rows, b"two", b"value").is_err());
    damage(&db, &disk, no);
    let is_taken_by = |crowd: u64| {
        let mut open: Vec<_> = (0..crowd).map(|_| db.begin()).collect();
        for (n, txn) in (0..).zip(&mut open) {
            txn.insert(&db.rows, &key(n), b"value").unwrap();
        }
        let last = db.sys.stats().next_txn.0;
        let is_taken = (last - crowd..last).any(|id| page_of(&db, TxnId(id)) == no);
        open.iter_mut().for_each(|txn| txn.rollback().unwrap());
        is_taken
    };
    assert!(!is_taken_by(8), "it is not left out");
    db.sys.give_back_idle_undo().unwrap();
    assert!(is_taken_by(16), "it is not free again");
}

/// A crowd has gone; the log of one of its transactions is damaged.
#[test]
fn and_others_are_given_back() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk);
    let mut crowd: Vec<_> = (0..200).map(|_| db.begin()).collect();
    for (n, txn) in (0..).zip(&mut crowd) {
        txn.insert(&db.rows, &key(n), b"value").unwrap();
    }
    let youngest = TxnId(db.sys.stats().next_txn.0 - 1);
    // Its log is the first to be free, and the first to be given back.
    crowd.into_iter().rev().for_each(|mut txn| txn.commit(FlushAtCommit::Lazy).unwrap());
    while db.purge() > 0 {}
    damage(&db, &disk, page_of(&db, youngest));
    let pages = || {
        let acc = db.store.pool().access(AccessKind::Point);
        let pages = db.files[0].header(&acc).unwrap().pages;
        (0..pages).filter(|no| db.files[0].is_allocated(PageNo(*no), &acc).unwrap()).count()
    };
    let before = pages();
    while db.sys.give_back_idle_undo().unwrap() {}
    assert!(pages() < before - 100, "{before}, then {}", pages());
}
