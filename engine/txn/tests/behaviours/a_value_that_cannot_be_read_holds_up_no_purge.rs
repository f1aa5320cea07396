//! The pages of a large value that no version needs are not returned by the device. What leads to a
//! long value goes only when most of it has been freed, so purge came back to the same undo record,
//! or to the same entry of the version tree, for ever: old versions piled up behind the record, and
//! no compaction gave lost pages back.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::{Db, Setup};

const KEY: &[u8] = b"key";

fn create(disk: &FaultDisk) -> Db {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
    db.commit(|txn| txn.insert(&db.rows, KEY, &vec![b'x'; 1 << 20]).unwrap());
    while db.purge() > 0 {}
    db
}

fn update(db: &Db, value: u8) {
    db.commit(|txn| assert!(txn.update(&db.rows, KEY, &[value], None).unwrap()));
}

/// An undo record leads to the value.
fn replaced(disk: &FaultDisk) -> Db {
    let db = create(disk);
    update(&db, 0);
    db
}

/// An entry of the version tree leads to it, which a view needed that has ended.
fn of_a_view(disk: &FaultDisk) -> Db {
    let db = create(disk);
    let old = db.snapshot();
    (0..20).for_each(|value| update(&db, value));
    while db.purge() > 0 {}
    assert_eq!(db.sys.versions_stored(), 1);
    drop(old);
    db
}

fn assert_purge_goes_on(begin: fn(&FaultDisk) -> Db) {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    // The pages of the value are not in the pool then.
    let db = begin(&disk).reopen();
    assert!(!db.sys.keeps_nothing_old().unwrap());
    disk.schedule(Fault::nth(FaultOp::Read, 1).on("t16.hf").sticky());
    let errors = (0..8).filter_map(|_| db.sys.purge(usize::MAX).err()).collect::<Vec<_>>();
    assert!(matches!(&errors[..], [error] if error.is_unread()), "it is reported once: {errors:?}");
    assert!(db.sys.keeps_nothing_old().unwrap());
    disk.clear();
    db.verify_undamaged();
}

#[test]
fn when_it_was_replaced() {
    assert_purge_goes_on(replaced);
}

#[test]
fn when_its_view_has_ended() {
    assert_purge_goes_on(of_a_view);
}
