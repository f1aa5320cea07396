//! Rows of a table were deleted, and the device does not return the page that they are on. Purge
//! came back to the same undo record for ever: the deleted rows and large values of all other
//! tables stayed, also behind the next open, and old versions grew beyond their limit.

use std::sync::Arc;

use holdfast_base::Error;
use holdfast_base::page::PageHeader;
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::*;

const FILE: &str = "t16.hf";
const ROWS: u32 = 100;
const DELETED: u32 = 10;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A database with rows on several pages, and a second table of one page. `pages`: of the pool.
fn filled(disk: &FaultDisk, pages: usize) -> Db {
    let mut setup = Setup { frames: pages, ..Setup::default() };
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
    db.commit(|txn| {
        for n in 0..ROWS {
            txn.insert(&db.rows, &key(n), &[b'x'; 400]).unwrap();
            txn.insert(&db.other, &key(n), b"old").unwrap();
        }
    });
    while db.purge() > 0 {}
    db
}

fn delete(db: &Db, index: &Arc<holdfast_txn::TableIndex>, n: std::ops::Range<u32>) {
    db.commit(|txn| n.for_each(|n| assert!(txn.delete(index, &key(n), None).unwrap())));
}

/// Pushes the rows out of a small pool.
fn push_out(db: &Db) {
    db.commit(|txn| (0..200).for_each(|n| txn.insert(&db.entries, &key(n), &[b'y'; 1_500]).unwrap()));
    let leaves = db.pages_where(1, |page| {
        let header = PageHeader::decode(page);
        header.is_some_and(|header| header.index == db.rows.id() && header.level == 0)
    });
    assert!(!leaves.is_empty());
    db.push_out(1, &leaves, (0..150).map(key));
}

/// Purges as the thread does, as long as a page of the table is not returned. Returns the errors.
fn purge_beside_errors(db: &Db) -> Vec<Error> {
    (0..8).filter_map(|_| db.sys.purge(usize::MAX).err()).collect()
}

fn assert_reported(errors: &[Error]) {
    assert!((1..=2).contains(&errors.len()) && errors.iter().all(Error::is_unread), "{errors:?}");
}

#[test]
fn of_other_tables() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk, 512);
    // One transaction has changed both tables.
    db.commit(|txn| {
        assert!(txn.delete(&db.other, &key(0), None).unwrap());
        (0..DELETED).for_each(|n| assert!(txn.delete(&db.rows, &key(n), None).unwrap()));
        assert!(txn.delete(&db.other, &key(1), None).unwrap());
    });
    let db = db.reopen();
    delete(&db, &db.other, 2..DELETED);
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE).sticky());
    assert_reported(&purge_beside_errors(&db));
    assert_eq!(db.sys.history_length(), 0);
    assert_eq!(db.physical(&db.other), (ROWS - DELETED) as usize);
    // What is committed from here on is purged as ever.
    delete(&db, &db.other, DELETED..2 * DELETED);
    while db.purge() > 0 {}
    assert_eq!(db.physical(&db.other), (ROWS - 2 * DELETED) as usize);
    db.sys.purge_up_to(db.sys.last_commit()).unwrap();
    assert!(!db.sys.keeps_nothing_old().unwrap(), "the marks are remembered");
    assert_eq!(db.sys.versions_stored(), 0, "those of an earlier run are not counted, whenever they are put");
    disk.clear();
    // The next open removes them.
    let db = db.reopen();
    assert_eq!(db.physical(&db.rows), ROWS as usize);
    while db.purge() > 0 {}
    assert_eq!(db.physical(&db.rows), (ROWS - DELETED) as usize);
    assert!(db.sys.keeps_nothing_old().unwrap());
    db.verify_clean();
}

/// The page is returned the next time, as after an error of a cable.
#[test]
fn and_is_removed_when_it_can_be_read() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk, 512);
    delete(&db, &db.rows, 0..DELETED);
    let db = db.reopen();
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE));
    while db.purge() > 0 {}
    assert_eq!(disk.fired(), 1);
    assert_eq!(db.physical(&db.rows), (ROWS - DELETED) as usize);
    assert!(db.sys.keeps_nothing_old().unwrap());
    db.verify_clean();
}

/// The versions that a long view needs are copied, of this table and of others.
#[test]
fn and_costs_no_view_a_version() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk, 64);
    let mut old = db.snapshot();
    delete(&db, &db.rows, 0..DELETED);
    push_out(&db);
    (0..DELETED).for_each(|n| delete(&db, &db.other, n..n + 1));
    db.commit(|txn| txn.insert(&db.other, b"later", b"new").unwrap());
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE).sticky());
    let _ = purge_beside_errors(&db);
    assert!(disk.fired() > 0, "the leaf is in the pool");
    assert_eq!(db.sys.history_length(), 0);
    let mut value = Vec::new();
    (0..DELETED).for_each(|n| assert!(old.get(&db.other, &key(n), &mut value).unwrap() && value == b"old"));
    assert!(!old.get(&db.other, b"later", &mut value).unwrap());
    disk.clear();
    (0..DELETED).for_each(|n| assert!(old.get(&db.rows, &key(n), &mut value).unwrap() && value == [b'x'; 400]));
    drop(old);
    while db.purge() > 0 {}
    assert_eq!(db.physical(&db.rows), (ROWS - DELETED) as usize);
    assert_eq!(db.physical(&db.other), (ROWS - DELETED + 1) as usize);
    assert!(db.sys.keeps_nothing_old().unwrap());
    db.verify_clean();
}

/// The view ends while the page is not returned. What was kept for it goes: it would count among
/// old versions.
#[test]
fn and_keeps_no_version_when_the_view_has_ended() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk, 64);
    let old = db.snapshot();
    delete(&db, &db.rows, 0..DELETED);
    push_out(&db);
    (0..DELETED).for_each(|n| delete(&db, &db.other, n..n + 1));
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE).sticky());
    let _ = purge_beside_errors(&db);
    let before = db.sys.stats().old_version_bytes;
    drop(old);
    assert_reported(&purge_beside_errors(&db));
    assert!(disk.fired() > 0, "the leaf is in the pool");
    let after = db.sys.stats().old_version_bytes;
    assert!(after + u64::from(DELETED) * 400 <= before, "{before} bytes, then {after}");
    assert!(db.sys.versions_stored() > 0, "the marks are remembered");
    disk.clear();
    let db = db.reopen();
    while db.purge() > 0 {}
    assert_eq!(db.physical(&db.rows), (ROWS - DELETED) as usize);
    db.verify_clean();
}
