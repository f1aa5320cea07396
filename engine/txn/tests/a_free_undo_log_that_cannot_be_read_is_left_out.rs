//! The first page of a free undo log is damaged on the disk. A free log is used again at once by
//! the next transaction of its group of threads: each of them failed.
#![cfg(not(shuttle))]

mod common;

use std::sync::Arc;

use common::*;
use holdfast_base::codec::get_u64;
use holdfast_base::{PageNo, TxnId};
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_pool::AccessKind;
use holdfast_testkit::FaultDisk;
use holdfast_txn::FlushAtCommit;

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
fn page_of(db: &Db, disk: &FaultDisk, txn: TxnId) -> PageNo {
    db.store.pool().flush_all().unwrap();
    let file = disk.open(FILE, OpenOptions::new(FileKind::Data).read_only(true)).unwrap();
    let mut page = vec![0; db.store.page_size()];
    let mut owner = |no: u32| {
        file.read_at(u64::from(no) * db.store.page_size() as u64, &mut page).unwrap();
        get_u64(&page, OWNER)
    };
    (1..).map(PageNo).find(|no| owner(no.0) == Some(txn.0)).expect("its log is there")
}

/// Pushes a page out of the pool and damages it.
fn damage(db: &Db, disk: &FaultDisk, no: PageNo) {
    let mut rows = (0..ROWS / 4).cycle();
    while db.store.pool().is_resident(db.files[0].space(), no) {
        assert!(db.begin().get(&db.entries, &key(rows.next().unwrap()), &mut Vec::new()).unwrap());
    }
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
    damage(&db, &disk, page_of(&db, &disk, id));
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
    damage(&db, &disk, page_of(&db, &disk, youngest));
    let pages = || {
        let acc = db.store.pool().access(AccessKind::Point);
        let pages = db.files[0].header(&acc).unwrap().pages;
        (0..pages).filter(|no| db.files[0].is_allocated(PageNo(*no), &acc).unwrap()).count()
    };
    let before = pages();
    while db.sys.give_back_idle_undo().unwrap() {}
    assert!(pages() < before - 100, "{before}, then {}", pages());
}
