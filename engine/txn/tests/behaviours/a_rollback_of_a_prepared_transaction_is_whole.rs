//! The rollback of a prepared transaction first marks its undo log as active. A crash during the
//! rollback leaves a loser, not a prepared transaction with a part of its changes.

use std::sync::Arc;

use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};
use holdfast_txn::FlushAtCommit;

use crate::common::{Db, Setup, get};

const ROWS: u32 = 60;

fn key(n: u32) -> String {
    format!("row{n:04}")
}

fn set_all(db: &Db, value: &str) {
    let pairs: Vec<String> = (0..ROWS).map(key).collect();
    db.put(&pairs.iter().map(|key| (key.as_str(), value)).collect::<Vec<_>>());
}

/// How many rows have the value "new".
fn new_rows(db: &Db) -> usize {
    let mut snapshot = db.snapshot();
    (0..ROWS).filter(|n| get(&mut snapshot, &db.rows, &key(*n)).unwrap() == "new").count()
}

#[test]
fn a_crash_leaves_all_of_it_or_nothing() {
    let mut prepared = 0;
    for seed in 0..40 {
        let disk = CrashDisk::new();
        {
            let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
            set_all(&db, "old");
            let mut txn = db.begin();
            for n in 0..ROWS {
                assert!(txn.update(&db.rows, key(n).as_bytes(), b"new", None).unwrap());
            }
            // Not synced, so that a part of what follows survives.
            txn.prepare(b"x", FlushAtCommit::Write).unwrap();
            db.store.wal().flush_to(db.store.wal().next_lsn()).unwrap();
            txn.rollback().unwrap();
            db.store.wal().write_to(db.store.wal().next_lsn()).unwrap();
        }
        let db = Db::open(Arc::new(disk.reboot(seed)), Setup::default()).unwrap();
        db.sys.roll_back_losers().unwrap();
        if db.sys.prepared().is_empty() {
            assert_eq!(new_rows(&db), 0, "seed {seed}");
        } else {
            prepared += 1;
            db.sys.adopt(b"x").unwrap().commit(FlushAtCommit::Sync).unwrap();
            assert_eq!(new_rows(&db), ROWS as usize, "seed {seed}");
        }
        db.verify_undamaged();
    }
    assert!((1..40).contains(&prepared), "crashes come before and after the beginning of the rollback: {prepared}");
}

#[test]
fn an_acknowledged_one_lasts() {
    for seed in 0..10 {
        let disk = CrashDisk::new();
        {
            let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
            set_all(&db, "old");
            let mut txn = db.begin();
            txn.update(&db.rows, key(3).as_bytes(), b"new", None).unwrap();
            txn.prepare(b"x", FlushAtCommit::Sync).unwrap();
            txn.rollback().unwrap();
        }
        let db = Db::open(Arc::new(disk.reboot(seed)), Setup::default()).unwrap();
        db.sys.roll_back_losers().unwrap();
        assert!(db.sys.prepared().is_empty(), "seed {seed}");
        assert_eq!(new_rows(&db), 0);
    }
}

/// Every read on the way fails once: the transaction is prepared with everything, or it is rolled
/// back later.
#[test]
fn a_failing_disk_leaves_no_half_of_it() {
    for n in 1.. {
        let crash = CrashDisk::new();
        let disk = FaultDisk::new(Arc::new(crash.clone()));
        let setup = Setup { frames: 40, ..Setup::default() };
        let fired = {
            let db = Db::create(Arc::new(disk.clone()), setup.clone()).unwrap();
            set_all(&db, &"old".repeat(150));
            let mut txn = db.begin();
            for n in 0..ROWS {
                txn.update(&db.rows, key(n).as_bytes(), b"new", None).unwrap();
            }
            txn.prepare(b"x", FlushAtCommit::Sync).unwrap();
            db.commit(|txn| {
                (0..150).for_each(|n| txn.insert(&db.other, key(n).as_bytes(), &[7; 800]).unwrap());
            });
            disk.schedule(Fault::nth(FaultOp::Read, n));
            let before = disk.fired();
            let rolled_back = txn.rollback();
            let fired = disk.fired() > before;
            disk.clear();
            assert_eq!(rolled_back.is_err(), fired);
            db.store.wal().flush_to(db.store.wal().next_lsn()).unwrap();
            fired
        };
        let db = Db::open(Arc::new(crash.reboot(1)), setup).unwrap();
        db.sys.roll_back_losers().unwrap();
        match db.sys.adopt(b"x") {
            Ok(mut txn) => {
                txn.commit(FlushAtCommit::Sync).unwrap();
                assert_eq!(new_rows(&db), ROWS as usize, "read {n}");
            }
            Err(_) => assert_eq!(new_rows(&db), 0, "read {n}"),
        }
        db.verify_undamaged();
        if !fired {
            assert!(n > 1, "everything was in the pool");
            break;
        }
    }
}
