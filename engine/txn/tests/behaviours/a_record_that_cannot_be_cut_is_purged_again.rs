//! Purge takes a record off its log, cuts the log, and then frees the large value that the record
//! names. If the cut failed, the record was off the log in memory alone: the next attempt passed it
//! over, so that the large value stayed allocated. A log without other records was then retired
//! with this one on its page. A compaction took the pages of the large value for lost and gave them
//! back; and if a crash came before another transaction used the undo page, the next run purged the
//! record after all, and freed what had come into these pages.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::{Db, Setup};

const ROWS: usize = 40;

fn key(n: usize) -> Vec<u8> {
    format!("row{n:03}").into_bytes()
}

/// Each row has a large value, and is deleted by a transaction of its own: the only record of its
/// log puts a delete mark and names the chain. The rows between them push undo pages out of a small
/// pool while purge looks for the mark.
fn deleted() -> (FaultDisk, Db) {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = Db::create(Arc::new(faults.clone()), Setup { frames: 40, ..Setup::default() }).unwrap();
    for n in 0..ROWS {
        db.commit(|txn| {
            txn.insert(&db.rows, &key(n), &[b'x'; 10_000]).unwrap();
            (0..3).for_each(|i| txn.insert(&db.rows, &[&key(n)[..], &[i]].concat(), &[b'y'; 1_500]).unwrap());
        });
    }
    while db.purge() > 0 {}
    (0..ROWS).for_each(|n| db.commit(|txn| assert!(txn.delete(&db.rows, &key(n), None).unwrap())));
    (faults, db)
}

#[test]
fn no_chain_is_left_behind() {
    for n in 1.. {
        let (faults, db) = deleted();
        faults.schedule(Fault::nth(FaultOp::Read, n).on("undo.hf"));
        let before = faults.fired();
        while db.sys.purge(usize::MAX).unwrap_or(1) > 0 {}
        let fired = faults.fired() > before;
        faults.clear();
        while db.purge() > 0 {}
        assert_eq!(db.physical(&db.rows), 3 * ROWS, "read {n}");
        db.verify_clean();
        if !fired {
            assert!(n > 1, "all undo pages were in the pool");
            break;
        }
    }
}
