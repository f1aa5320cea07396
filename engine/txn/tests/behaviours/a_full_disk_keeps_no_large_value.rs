//! An old version that is too long for its place in the version tree is written anew for each part
//! of its large value that is freed. On a full disk, with no free page in the file of the undo
//! logs, that failed again and again, and the pages of the value stayed: to give room back took
//! room.

use std::sync::Arc;

use holdfast_base::{Error, IndexId, PageNo};
use holdfast_io::MemoryDisk;
use holdfast_pool::AccessKind;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_tree::overflow;
use holdfast_txn::NewValue;
use holdfast_wal::SpaceClass;

use crate::common::{Db, Setup};

/// So long that the image of the row, with this key beside it, does not fit.
const KEY: [u8; 700] = [b'k'; 700];
/// That of the version tree.
const INDEX: IndexId = IndexId(u32::MAX);

#[test]
fn of_a_view_that_has_ended() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
    db.commit(|txn| txn.insert(&db.rows, &KEY, NewValue::with_head(&vec![b'x'; 1 << 20], 880)).unwrap());
    let old = db.snapshot();
    for value in 0..20u8 {
        db.commit(|txn| assert!(txn.update(&db.rows, &KEY, &[value], None).unwrap()));
    }
    while db.purge() > 0 {}
    assert_eq!(db.sys.versions_stored(), 1);
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).on("undo.hf").sticky());
    let acc = db.store.pool().access(AccessKind::Purge);
    let (undo, mut taken) = (&db.files[0], Vec::new());
    let error = loop {
        match overflow::write_chain(undo, INDEX, b"takes a page", PageNo(0), &acc) {
            Ok(chain) => taken.push(chain),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull(_)), "{error}");
    drop(old);
    while db.purge() > 0 {}
    assert!(db.sys.keeps_nothing_old().unwrap());
    disk.clear();
    for chain in taken {
        overflow::release_chain(undo, INDEX, chain, &acc, SpaceClass::Rollback).unwrap();
    }
    db.verify_clean();
}
