//! A page of the undo log of a prepared transaction is damaged. A table was made empty, or dropped,
//! though records about it were on that page: the transaction was committed without that part.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::{Error, IndexId};
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::FlushAtCommit;

use crate::common::undo::reopen_damaged;
use crate::common::*;

const XID: &[u8] = b"x";

fn key(n: u64) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

fn filled(disk: &FaultDisk, frames: usize) -> Db {
    let db = Db::create(Arc::new(disk.clone()), Setup { frames, ..Setup::default() }).unwrap();
    db.commit(|txn| {
        for n in 0..200 {
            txn.insert(&db.rows, &key(n), &[1; 150]).unwrap();
            txn.insert(&db.other, &key(n), b"old").unwrap();
        }
    });
    while db.purge() > 0 {}
    db
}

/// Prepares a transaction that has changed one table, then the other, and the first one again.
fn prepare(db: &Db) {
    let mut txn = db.begin();
    (0..30).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[2; 150], None).unwrap()));
    (0..5).for_each(|n| assert!(txn.update(&db.other, &key(n), b"new", None).unwrap()));
    (30..200).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[2; 150], None).unwrap()));
    txn.prepare(XID, FlushAtCommit::Sync).unwrap();
}

fn has_changed(db: &Db, index: IndexId) -> Result<bool, Error> {
    db.sys.prepared_has_changed(&[index], &db.sys.wait(Duration::ZERO))
}

#[test]
fn until_it_has_ended() {
    let db = filled(&FaultDisk::new(Arc::new(MemoryDisk::new())), 512);
    prepare(&db);
    let tables = [db.rows.id(), db.other.id()];
    let db = reopen_damaged(db);
    for index in tables {
        assert!(has_changed(&db, index).unwrap(), "{index:?}");
    }
    let mut adopted = db.sys.adopt(XID).unwrap();
    for index in tables {
        let result = has_changed(&db, index);
        assert!(matches!(result, Err(Error::LockTimeout)), "{index:?}: {result:?}");
    }
    adopted.commit(FlushAtCommit::Sync).unwrap();
    for index in tables {
        assert!(!has_changed(&db, index).unwrap(), "{index:?}");
    }
}

/// With a whole log the others are free.
#[test]
fn but_no_other_than_its_own_if_all_are_known() {
    let db = filled(&FaultDisk::new(Arc::new(MemoryDisk::new())), 512);
    prepare(&db);
    let db = db.reopen();
    assert!(has_changed(&db, db.other.id()).unwrap());
    assert!(!has_changed(&db, db.entries.id()).unwrap());
}

/// XA COMMIT and XA ROLLBACK failed as long as a page of the log was not returned.
#[test]
fn and_can_be_ended_though_a_page_is_not_returned() {
    for nth in 1..=5 {
        let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let db = filled(&disk, 64);
        prepare(&db);
        let db = db.reopen();
        db.commit(|txn| (0..200).for_each(|n| txn.insert(&db.entries, &key(n), &[b'y'; 1_500]).unwrap()));
        disk.schedule(Fault::nth(FaultOp::Read, nth).on("undo.hf"));
        let mut adopted = db.sys.adopt(XID).unwrap();
        assert_eq!(disk.fired(), 1, "the log is in the pool");
        assert!(matches!(has_changed(&db, db.entries.id()), Err(Error::LockTimeout)));
        adopted.commit(FlushAtCommit::Sync).unwrap();
        while db.purge() > 0 {}
        assert_eq!(get(&mut db.snapshot(), &db.other, "row0004").as_deref(), Some("new"));
    }
}
