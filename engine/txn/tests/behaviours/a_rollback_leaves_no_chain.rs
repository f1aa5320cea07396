//! A rollback takes a record off its log, cuts the log, and then frees the large value that the
//! change has written. If the cut failed, the next attempt passed the record over, and the large
//! value stayed allocated.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::{Db, Setup};

const ROWS: u32 = 60;

#[test]
fn whatever_read_of_the_log_fails() {
    for n in 1.. {
        let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let db = Db::create(Arc::new(faults.clone()), Setup { frames: 40, ..Setup::default() }).unwrap();
        let mut txn = db.begin();
        for row in 0..ROWS {
            txn.insert(&db.rows, &row.to_be_bytes(), &[b'x'; 10_000]).unwrap();
            // Its record fills the log.
            assert!(txn.update(&db.rows, &row.to_be_bytes(), &[b'y'; 1_000], None).unwrap());
            assert!(txn.update(&db.rows, &row.to_be_bytes(), &[b'z'; 9_000], None).unwrap());
        }
        faults.schedule(Fault::nth(FaultOp::Read, n).on("undo.hf"));
        let before = faults.fired();
        let undone = txn.rollback();
        let fired = faults.fired() > before;
        faults.clear();
        assert!(undone.is_ok() || fired, "{undone:?}");
        while db.sys.roll_back_losers().unwrap() > 0 {}
        while db.purge() > 0 {}
        assert_eq!(db.physical(&db.rows), 0, "read {n}");
        db.verify_clean();
        if !fired {
            assert!(n > 1, "the whole log was in the pool");
            break;
        }
    }
}
