//! The device does not return an extension of the undo log of a committed transaction. No open
//! succeeded any more, where one with a damaged page there did.

use std::sync::Arc;

use holdfast_io::{Disk, MemoryDisk};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::*;

const FILE: &str = "undo.hf";
const ROWS: u32 = 200;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// What a stop leaves of a database one of whose logs is long and not purged.
fn stopped(disk: &FaultDisk) -> (Arc<dyn Disk>, Setup) {
    let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    db.commit(|txn| {
        for n in 0..ROWS {
            txn.insert(&db.rows, &key(n), &[b'x'; 150]).unwrap();
            txn.insert(&db.other, &key(n), b"old").unwrap();
        }
    });
    while db.purge() > 0 {}
    db.commit(|txn| (0..ROWS).for_each(|n| assert!(txn.delete(&db.rows, &key(n), None).unwrap())));
    db.close()
}

/// Opens while all reads from some one on fail: the first one without which an open succeeds, since
/// those before it are of what all tables share. Returns its number, too.
fn open_beside_errors(disk: &FaultDisk, (on, setup): &(Arc<dyn Disk>, Setup)) -> (u64, Db) {
    for nth in 1.. {
        disk.schedule(Fault::nth(FaultOp::Read, nth).on(FILE).sticky());
        let before = disk.fired();
        let opened = Db::open(Arc::clone(on), setup.clone());
        assert!(disk.fired() > before, "each open that meets an error is refused");
        disk.clear();
        match opened {
            Ok(db) => return (nth, db),
            Err(error) => assert!(error.is_unread(), "{error}"),
        }
    }
    unreachable!()
}

#[test]
fn and_the_log_is_purged_by_the_next_open() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let left = stopped(&disk);
    let (_, db) = open_beside_errors(&disk, &left);
    assert_eq!(db.sys.history_length(), 0, "it is set aside");
    assert!(db.sys.background_error().is_some());
    db.commit(|txn| assert!(txn.delete(&db.other, &key(0), None).unwrap()));
    while db.purge() > 0 {}
    assert_eq!((db.physical(&db.rows), db.physical(&db.other)), (ROWS as usize, ROWS as usize - 1));
    assert!(!db.sys.keeps_nothing_old().unwrap(), "the log is kept");
    let db = db.reopen();
    while db.purge() > 0 {}
    assert_eq!(db.physical(&db.rows), 0);
    assert!(db.sys.keeps_nothing_old().unwrap());
    db.verify_clean();
}

/// A read that fails once costs nothing.
#[test]
fn and_is_asked_for_once_more() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let left = stopped(&disk);
    let (first, _) = open_beside_errors(&disk, &left);
    for nth in first.. {
        let before = disk.fired();
        disk.schedule(Fault::nth(FaultOp::Read, nth).on(FILE));
        let db = Db::open(Arc::clone(&left.0), left.1.clone()).unwrap();
        disk.clear();
        assert_eq!(db.sys.history_length(), 1);
        if disk.fired() == before {
            assert!(nth > first);
            break;
        }
    }
}
