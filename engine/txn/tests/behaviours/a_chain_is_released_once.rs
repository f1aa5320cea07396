//! A change with a large value fails behind its undo record, and the record cannot be cut. The
//! chain of the value once was freed all the same, and once more after a crash, by the rollback of
//! the record that was still there: from under a value that had been committed in its pages
//! meanwhile. Without a crash the rollback passed the record over, and the chain stayed.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use holdfast_base::Error;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};
use holdfast_txn::*;

use crate::common::*;

const ROWS: u32 = 300;
/// Records of two changes of a row of this size find room in an undo page.
const ROW_BYTES: usize = 1_500;
const LARGE: usize = 20_000;
/// What a cache can be made smaller to.
const FRAMES_LEFT: u64 = 40;

fn key(n: u32) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

/// Has `txn` change a row to a large value, whose undo record begins a page, and which fails when
/// that was logged, together with the cut of the record.
fn fail_behind_the_record(db: &Db, disk: &FaultDisk, txn: &mut Txn) {
    let changed = key(ROWS / 2);
    assert!(txn.get_locked(&db.rows, &changed, LockMode::Exclusive, None, &mut Vec::new()).unwrap());
    let (latched, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|s| {
        s.spawn(|| db.latch_root(1, &latched, &done));
        latched.wait();
        // It knows where the row is, and needs the root only when its record is written.
        let change = s.spawn(|| txn.update(&db.rows, &changed, &[b'a'; LARGE], None));
        std::thread::sleep(Duration::from_millis(200));
        // All pages leave the cache, but for the first of the file, which are in the first frames.
        s.spawn(|| db.store.pool().resize(FRAMES_LEFT * db.setup.page_size as u64).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        disk.schedule(Fault::nth(FaultOp::Read, 1).sticky().on("undo.hf"));
        disk.schedule(Fault::nth(FaultOp::Read, 1).on("t16.hf"));
        done.wait();
        assert!(change.join().unwrap().is_err());
    });
    disk.clear();
    assert!(is(txn.commit(FlushAtCommit::Sync), |e| matches!(e, Error::HalfUndone)), "the record is there");
}

/// A transaction that has changed two rows, and has failed behind the record of a third change, and
/// one that is open beside it.
fn failed(crash: &CrashDisk) -> (Db, [Txn; 2]) {
    let disk = FaultDisk::new(Arc::new(crash.clone()));
    let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    db.commit(|txn| {
        for n in 0..ROWS {
            txn.insert(&db.rows, &key(n), &[b'x'; ROW_BYTES]).unwrap();
            txn.insert(&db.other, &key(n), &[b'x'; ROW_BYTES]).unwrap();
        }
    });
    while db.purge() > 0 {}
    // The undo page that the load used is in one of the first frames: this one takes it.
    let mut earlier = db.begin();
    assert!(earlier.update(&db.other, &key(0), b"new", None).unwrap());
    let mut txn = db.begin();
    for n in 0..2 {
        assert!(txn.update(&db.rows, &key(n), b"new", None).unwrap());
    }
    fail_behind_the_record(&db, &disk, &mut txn);
    (db, [txn, earlier])
}

#[test]
fn by_the_rollback() {
    let (db, txns) = failed(&CrashDisk::new());
    for mut txn in txns {
        txn.rollback().unwrap();
    }
    while db.purge() > 0 {}
    db.verify_clean();
}

#[test]
fn not_again_after_a_crash() {
    let crash = CrashDisk::new();
    let (db, txns) = failed(&crash);
    let mut next = db.begin();
    for n in 0..3 {
        next.insert(&db.rows, &key(ROWS + n), &[b'b'; LARGE]).unwrap();
    }
    next.commit(FlushAtCommit::Sync).unwrap();
    let left = crash.reboot(0);
    std::mem::forget(txns);
    drop(db);
    let db = Db::open(Arc::new(left), Setup::default()).unwrap();
    db.sys.roll_back_losers().unwrap();
    while db.purge() > 0 {}
    let mut value = Vec::new();
    for n in 0..3 {
        assert!(db.begin().get(&db.rows, &key(ROWS + n), &mut value).unwrap());
        assert_eq!(value, [b'b'; LARGE]);
    }
    db.verify_undamaged();
}
