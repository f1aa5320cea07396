//! Old versions that are too long for the version tree go on in pages of the undo space. The device
//! does not return one of those pages when the versions are dropped, nor at the second attempt. The
//! others go, and lost pages of other tables can be given back: that one version kept them all.

use std::sync::Arc;

use holdfast_base::SpaceId;
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::NewValue;

use crate::common::{Db, Setup, TABLE};

const FILE: &str = "undo.hf";
const KEYS: u8 = 4;
const PAGES_OF_A_VALUE: usize = 3;

/// So long that the image of the row, with the key beside it, does not fit.
fn key(n: u8) -> [u8; 700] {
    [n; 700]
}

/// A database with old versions that no view needs, whose pages are not in the pool.
fn with_old_versions(disk: &FaultDisk) -> Db {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
    db.commit(|txn| {
        (0..KEYS).for_each(|n| txn.insert(&db.rows, &key(n), NewValue::with_head(&[b'x'; 10_000], 880)).unwrap());
    });
    let old = db.snapshot();
    for value in 0..20u8 {
        db.commit(|txn| (0..KEYS).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[value], None).unwrap())));
    }
    while db.purge() > 0 {}
    assert_eq!(db.sys.versions_stored(), u64::from(KEYS));
    // It is open still when the database is closed.
    std::mem::forget(old);
    db.reopen()
}

#[test]
fn whichever_it_is() {
    for n in 1.. {
        let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let db = with_old_versions(&disk);
        disk.schedule(Fault::nth(FaultOp::Read, n).on(FILE));
        let mut errors = 0;
        loop {
            match db.sys.purge(usize::MAX) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    assert!(error.is_unread() && errors < 3, "read {n}: {error}");
                    errors += 1;
                    if errors == 1 {
                        // The same page once more.
                        disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE));
                    }
                }
            }
        }
        disk.clear();
        let is_kept = !db.sys.keeps_nothing_old().unwrap();
        assert_eq!(db.sys.keeps_nothing_old_of(TABLE).unwrap(), !is_kept);
        assert!(db.sys.keeps_nothing_old_of(SpaceId(TABLE.0 + 1)).unwrap());
        let lost = db.verify();
        if errors == 2 {
            assert!(is_kept && lost.len() == PAGES_OF_A_VALUE, "read {n}: {lost:?}");
        }
        // The next run comes to it.
        let db = db.reopen();
        while db.purge() > 0 {}
        db.verify_clean();
        if errors == 0 {
            assert!(n > usize::from(KEYS) as u64, "the pages were in the pool");
            break;
        }
    }
}
