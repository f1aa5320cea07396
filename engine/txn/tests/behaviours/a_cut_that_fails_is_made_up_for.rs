//! Rollback and purge consume undo logs from their ends, page by page. The cut behind a page may
//! fail: the page before cannot be read, or there is no room. The next attempt goes on where the
//! cut failed, and does not take the log for empty.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::{FlushAtCommit, Txn};

use crate::common::{Db, Setup, scan};

const KEYS: usize = 100;

fn key(i: usize) -> String {
    format!("key{i:03}")
}

/// A small pool, so that undo pages have to be read again, and a transaction with some dozen of
/// them.
fn changed() -> (FaultDisk, Db, Txn) {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let setup = Setup { frames: 40, ..Setup::default() };
    let db = Db::create(Arc::new(faults.clone()), setup).unwrap();
    let mut txn = db.begin();
    for i in 0..KEYS {
        txn.insert(&db.rows, key(i).as_bytes(), b"before").unwrap();
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    while db.purge() > 0 {}
    let mut txn = db.begin();
    for round in 0..4 {
        for i in 0..KEYS {
            let value = format!("{round} {}", "x".repeat(400));
            txn.update(&db.rows, key(i).as_bytes(), value.as_bytes(), None).unwrap();
        }
    }
    for i in (0..KEYS).step_by(2) {
        txn.delete(&db.rows, key(i).as_bytes(), None).unwrap();
    }
    (faults, db, txn)
}

/// Does `work` with the n-th read of the undo space failing, for every n.
fn fail_each(work: impl Fn(&FaultDisk, &Db, Txn), check: impl Fn(&Db)) {
    for n in 1.. {
        let (faults, db, txn) = changed();
        faults.schedule(Fault::nth(FaultOp::Read, n).on("undo.hf"));
        let before = faults.fired();
        work(&faults, &db, txn);
        let fired = faults.fired() > before;
        // One that is still to come is not for the reads of the check.
        faults.clear();
        check(&db);
        db.verify_clean();
        if !fired {
            assert!(n > 10, "the undo log was in the pool all the time");
            break;
        }
    }
}

#[test]
fn by_a_rollback() {
    fail_each(
        |faults, db, mut txn| {
            if txn.rollback().is_err() {
                faults.clear();
                db.sys.roll_back_losers().unwrap();
            }
            drop(txn);
            while db.purge() > 0 {}
        },
        |db| {
            let rows = scan(&mut db.begin(), &db.rows);
            assert_eq!(rows.len(), KEYS);
            assert!(rows.iter().all(|(_, value)| value == "before"), "a change was left behind");
        },
    );
}

#[test]
fn by_purge() {
    fail_each(
        |faults, db, mut txn| {
            txn.commit(FlushAtCommit::Lazy).unwrap();
            while db.sys.purge(usize::MAX).unwrap_or_else(|_| {
                faults.clear();
                1
            }) > 0
            {}
        },
        |db| {
            assert_eq!(scan(&mut db.begin(), &db.rows).len(), KEYS / 2);
            assert_eq!(db.physical(&db.rows), KEYS / 2, "delete marks were left behind");
        },
    );
}
