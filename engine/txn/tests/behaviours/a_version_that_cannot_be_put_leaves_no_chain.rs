//! What does not fit into an entry of the version tree is written to a chain before the entry is
//! put. If the entry could not be put, the chain stayed. Purge tries that again a few times a
//! second as long as the page of the tree cannot be read, and the file of the undo logs grew until
//! the disk was full. No compaction gives pages of that file back.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::FlushAtCommit;

use crate::common::{Db, Setup};

const ROWS: usize = 60;

/// So long that the image of the row, with this key beside it, does not fit.
fn key(n: usize) -> Vec<u8> {
    [format!("row{n:03}").as_bytes(), &[b'k'; 700]].concat()
}

#[test]
fn whatever_read_fails() {
    for n in 1.. {
        let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let mut setup = Setup { frames: 40, ..Setup::default() };
        setup.txn.shelf_bytes = 0;
        let db = Db::create(Arc::new(faults.clone()), setup).unwrap();
        (0..ROWS).for_each(|n| db.commit(|txn| txn.insert(&db.rows, &key(n), &[b'x'; 900]).unwrap()));
        while db.purge() > 0 {}
        let old = db.snapshot();
        faults.schedule(Fault::nth(FaultOp::Read, n).on("undo.hf"));
        let before = faults.fired();
        // Committers purge, too.
        for n in 0..ROWS {
            let mut txn = db.begin();
            if txn.update(&db.rows, &key(n), b"new", None).is_ok() {
                txn.commit(FlushAtCommit::Lazy).unwrap();
            }
        }
        while db.sys.purge(usize::MAX).unwrap_or(1) > 0 {}
        let fired = faults.fired() > before;
        faults.clear();
        while db.purge() > 0 {}
        assert!(db.sys.versions_stored() > 0);
        // Undo and version tree lead to all that is allocated.
        db.verify_clean();
        drop(old);
        if !fired {
            assert!(n > 1, "everything was in the pool");
            break;
        }
    }
}
