//! An entry of the version tree that no view needs may lead to two chains: one of the undo space,
//! which it was spilled to, and one of its table, which its image has. When the first could not be
//! freed, the entry was gone, and the second stayed. Later the second went and the first stayed,
//! for good: no compaction gives pages of the file of the undo logs back.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::NewValue;

use crate::common::{Db, Setup};

/// So long that the image of the row, with this key beside it, does not fit.
const KEY: [u8; 700] = [b'k'; 700];

#[test]
fn whatever_read_of_the_undo_space_fails() {
    for n in 1.. {
        let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let mut setup = Setup::default();
        setup.txn.shelf_bytes = 0;
        let db = Db::create(Arc::new(faults.clone()), setup).unwrap();
        db.commit(|txn| txn.insert(&db.rows, &KEY, NewValue::with_head(&[b'x'; 10_000], 880)).unwrap());
        let old = db.snapshot();
        for value in 0..20u8 {
            db.commit(|txn| assert!(txn.update(&db.rows, &KEY, &[value], None).unwrap()));
        }
        while db.purge() > 0 {}
        assert_eq!(db.sys.versions_stored(), 1);
        // It is open still when the database is closed; the pages of the version are not in the
        // pool when it is dropped.
        std::mem::forget(old);
        let db = db.reopen();
        faults.schedule(Fault::nth(FaultOp::Read, n).on("undo.hf"));
        let before = faults.fired();
        while db.sys.purge(usize::MAX).unwrap_or(1) > 0 {}
        let fired = faults.fired() > before;
        faults.clear();
        // What could not be looked at is looked at after the next open.
        let db = db.reopen();
        while db.purge() > 0 {}
        assert!(db.sys.keeps_nothing_old().unwrap());
        let lost = db.verify();
        assert!(lost.is_empty(), "read {n}: {lost:#?}");
        if !fired {
            assert!(n > 1, "everything was in the pool");
            break;
        }
    }
}
