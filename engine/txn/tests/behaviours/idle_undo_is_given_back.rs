//! A crowd of transactions, each with an undo log of its own, has gone: after a while their pages
//! are free for other use, a crash at any point loses none and frees none twice, and no transaction
//! id comes back with them.

use std::sync::Arc;

use holdfast_base::{PageNo, TxnId};
use holdfast_pool::AccessKind;
use holdfast_testkit::CrashDisk;
use holdfast_txn::*;

use crate::common::*;

/// Logs that are kept, however long no transaction needs them.
const KEPT: usize = 64;

/// `n` transactions that are open at the same time and have changed a row each.
fn open_crowd(db: &Db, n: usize, value: &[u8]) -> Vec<Txn> {
    let mut open: Vec<Txn> = (0..n).map(|_| db.begin()).collect();
    for (i, txn) in open.iter_mut().enumerate() {
        txn.upsert(&db.rows, format!("row{i:04}").as_bytes(), value, None).unwrap();
    }
    open
}

/// `n` transactions that are open at the same time change a row each, and commit, the youngest
/// first: so its log is the first to be free, and the first to be given back. Returns its id, the
/// largest.
fn crowd(db: &Db, n: usize) -> TxnId {
    open_crowd(db, n, b"value").into_iter().rev().for_each(|mut txn| txn.commit(FlushAtCommit::Lazy).unwrap());
    TxnId(db.sys.stats().next_txn.0 - 1)
}

/// Pages of the undo space that are allocated.
fn undo_pages(db: &Db) -> usize {
    let acc = db.store.pool().access(AccessKind::Point);
    let pages = db.files[0].header(&acc).unwrap().pages;
    (0..pages).filter(|no| db.files[0].is_allocated(PageNo(*no), &acc).unwrap()).count()
}

fn give_all_back(db: &Db) {
    while db.sys.give_back_idle_undo().unwrap() {}
}

#[test]
fn pages_that_nobody_needs_are_free_again() {
    let db = Db::new();
    let empty = undo_pages(&db);
    crowd(&db, 400);
    db.purge();
    assert_eq!(undo_pages(&db), empty + 400);
    db.sys.give_back_idle_undo().unwrap();
    assert_eq!(undo_pages(&db), empty + 400, "they were needed a moment ago");
    db.sys.give_back_idle_undo().unwrap();
    assert_eq!(undo_pages(&db), empty + 400 - (400 - KEPT) / 2);
    db.verify_clean();
    give_all_back(&db);
    assert_eq!(undo_pages(&db), empty + KEPT);
    db.verify_clean();

    crowd(&db, 100);
    db.purge();
    give_all_back(&db);
    assert_eq!(undo_pages(&db), empty + KEPT);
    let db = db.reopen();
    assert_eq!(scan(&mut db.snapshot(), &db.rows).len(), 400);
    db.purge();
    give_all_back(&db);
    assert_eq!(undo_pages(&db), empty + KEPT);
    db.verify_clean();
}

#[test]
fn logs_in_use_stay_where_they_are() {
    let db = Db::new();
    let empty = undo_pages(&db);
    crowd(&db, 300);
    db.purge();
    db.sys.give_back_idle_undo().unwrap();
    let open = open_crowd(&db, 200, b"other");
    give_all_back(&db);
    assert_eq!(undo_pages(&db), empty + 200 + KEPT, "200 in use, and the few");
    open.into_iter().for_each(|mut txn| txn.rollback().unwrap());
    assert!(scan(&mut db.snapshot(), &db.rows).iter().all(|(_, value)| value == "value"));
    db.purge();
    give_all_back(&db);
    db.verify_clean();
}

#[test]
fn more_logs_than_a_directory_page_lists_come_and_go() {
    let db = Db::with(Setup { frames: 4_096, ..Setup::default() });
    for n in [1_200, 300, 1_500] {
        crowd(&db, n);
        db.purge();
        db.verify_clean();
        give_all_back(&db);
        db.verify_clean();
    }
    let before = undo_pages(&db);
    let db = db.reopen();
    assert_eq!(undo_pages(&db), before);
    db.verify_clean();
}

#[test]
fn a_crash_while_they_are_given_back() {
    let mut given_back = 0;
    for seed in 0..50 {
        let disk = CrashDisk::new();
        let (largest, removed) = {
            let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
            let largest = crowd(&db, 200);
            db.purge();
            db.store.wal().flush_to(db.store.wal().next_lsn()).unwrap();
            let before = undo_pages(&db);
            for _ in 0..1 + seed % 4 {
                db.sys.give_back_idle_undo().unwrap();
            }
            if seed % 3 == 0 {
                db.store.pool().flush_all().unwrap();
            }
            // Handed to the system, not synced: a part of it survives.
            db.store.wal().write_to(db.store.wal().next_lsn()).unwrap();
            (largest, before - undo_pages(&db))
        };
        let db = Db::open(Arc::new(disk.reboot(seed)), Setup::default()).unwrap();
        given_back += removed;
        assert_eq!(db.sys.stats().next_txn.0, largest.0 + 1, "seed {seed}");
        db.verify_clean();
        assert_eq!(scan(&mut db.snapshot(), &db.rows).len(), 200);
        crowd(&db, 200);
        db.purge();
        give_all_back(&db);
        db.verify_clean();
    }
    assert!(given_back > 1_000, "{given_back}");
}
