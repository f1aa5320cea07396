//! The device does not return a page of the undo log of a committed transaction. All logs behind it
//! waited for it, also behind the next open.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_pool::AccessKind;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::*;

const FILE: &str = "undo.hf";
const ROWS: u32 = 200;
const DELETED: u32 = 10;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn filled(disk: &FaultDisk, shelf_bytes: u64) -> Db {
    let mut setup = Setup { frames: 64, ..Setup::default() };
    setup.txn.shelf_bytes = shelf_bytes;
    let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
    db.commit(|txn| {
        for n in 0..ROWS {
            txn.insert(&db.rows, &key(n), &[b'x'; 150]).unwrap();
            txn.insert(&db.other, &key(n), b"old").unwrap();
        }
    });
    while db.purge() > 0 {}
    db
}

/// Pushes what was not used since out of the pool.
fn push_out(db: &Db) {
    db.commit(|txn| (0..200).for_each(|n| txn.insert(&db.entries, &key(n), &[b'y'; 1_500]).unwrap()));
}

fn delete(db: &Db, n: std::ops::Range<u32>) {
    n.for_each(|n| db.commit(|txn| assert!(txn.delete(&db.other, &key(n), None).unwrap())));
}

/// A database whose oldest log has pages that are not in the pool; deletes of another table come
/// behind it.
fn log_out_of_pool(disk: &FaultDisk) -> Db {
    let db = filled(disk, 0);
    db.commit(|txn| (0..ROWS).for_each(|n| assert!(txn.delete(&db.rows, &key(n), None).unwrap())));
    push_out(&db);
    delete(&db, 0..DELETED);
    db
}

fn assert_others_go_on(db: &Db, disk: &FaultDisk) {
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE).sticky());
    let errors: Vec<_> = (0..8).filter_map(|_| db.sys.purge(usize::MAX).err()).collect();
    // Behind an open, the sweep meets another page.
    assert!((1..=2).contains(&errors.len()) && errors.iter().all(|error| error.is_unread()), "{errors:?}");
    assert_eq!(db.sys.history_length(), 0);
    assert_eq!(db.physical(&db.other), (ROWS - DELETED) as usize);
    assert!(db.sys.background_error().is_some_and(|error| error.is_unread()));
    disk.clear();
    assert!(!db.sys.keeps_nothing_old().unwrap(), "the log is kept");
}

#[test]
fn and_purged_by_the_next_open() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = log_out_of_pool(&disk);
    assert_others_go_on(&db, &disk);
    let db = db.reopen();
    while db.purge() > 0 {}
    assert_eq!((db.physical(&db.rows), db.physical(&db.other)), (0, (ROWS - DELETED) as usize));
    assert!(db.sys.keeps_nothing_old().unwrap());
    db.verify_clean();
}

/// The log is one of an earlier run, and its pages are read again when it is purged.
#[test]
fn behind_an_open() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk, 0);
    db.commit(|txn| (0..ROWS).for_each(|n| assert!(txn.delete(&db.rows, &key(n), None).unwrap())));
    let db = db.reopen();
    push_out(&db);
    delete(&db, 0..DELETED);
    assert_others_go_on(&db, &disk);
    // The next look at the version tree is not delayed by it.
    let old = db.snapshot();
    db.commit(|txn| assert!(txn.update(&db.other, &key(DELETED), b"new", None).unwrap()));
    for n in 0..ROWS {
        db.commit(|txn| assert!(txn.update(&db.entries, &key(n % 200), b"new", None).unwrap()));
    }
    while db.purge() > 0 {}
    drop(old);
    while db.purge() > 0 {}
    assert_eq!(db.sys.versions_stored(), 0);
}

/// Compaction waits for what has committed before it, of all tables.
#[test]
fn and_a_wait_for_purge_does_not_fail() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = log_out_of_pool(&disk);
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE).sticky());
    db.sys.purge_up_to(db.sys.last_commit()).unwrap();
    assert!(disk.fired() > 0, "the log is in the pool");
    assert_eq!(db.physical(&db.other), (ROWS - DELETED) as usize);
}

/// A stopped database sets nothing aside: a wait for purge read the page without end.
#[test]
fn and_a_wait_for_purge_ends_in_a_stopped_database() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = log_out_of_pool(&disk);
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE).sticky());
    db.store.wal().poison("a test");
    let waited = db.sys.purge_up_to(db.sys.last_commit());
    assert!(disk.fired() > 0, "the log is in the pool");
    assert!(waited.as_ref().is_err_and(|error| error.is_unread()), "{waited:?}");
}

/// What was kept for a view that has ended goes, though the first log cannot be purged.
#[test]
fn and_old_versions_keep_to_their_limit() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk, 0);
    let old = db.snapshot();
    for n in 0..20 {
        db.commit(|txn| assert!(txn.update(&db.other, &key(n), b"new", None).unwrap()));
    }
    while db.purge() > 0 {}
    assert!(db.sys.versions_stored() > 0);
    drop(old);
    db.commit(|txn| (0..ROWS).for_each(|n| assert!(txn.delete(&db.rows, &key(n), None).unwrap())));
    push_out(&db);
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE));
    let first = db.sys.purge(usize::MAX);
    assert!(first.as_ref().is_err_and(|error| error.is_unread()), "{first:?}");
    assert_eq!(db.sys.versions_stored(), 0);
}

/// A small log that an older view needs goes on the shelf.
#[test]
fn and_does_not_keep_others_from_the_shelf() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk, 64 << 10);
    push_out(&db);
    let db = db.reopen();
    while db.purge() > 0 {}
    let mut old = db.snapshot();
    db.commit(|txn| assert!(txn.update(&db.rows, &key(0), &[2; 150], None).unwrap()));
    db.store.pool().flush_all().unwrap();
    for n in (0..200).cycle().take(4_000) {
        assert!(db.begin().get(&db.entries, &key(n), &mut Vec::new()).unwrap());
    }
    // So few that no committer shelves them.
    (0..4).for_each(|n| db.commit(|txn| assert!(txn.update(&db.other, &key(n), b"new", None).unwrap())));
    // The version tree is in the pool.
    let acc = db.store.pool().access(AccessKind::Point);
    assert!(!db.sys.version_tree().get(b"none", &acc, &mut Vec::new()).unwrap());
    drop(acc);
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(FILE).sticky());
    let errors = (0..8).filter_map(|_| db.sys.purge(usize::MAX).err()).count();
    assert!(disk.fired() > 0 && errors <= 2, "{errors}");
    assert_eq!(db.sys.history_length(), 0);
    disk.clear();
    let mut value = Vec::new();
    (0..4).for_each(|n| assert!(old.get(&db.other, &key(n), &mut value).unwrap() && value == b"old"));
    assert!(old.get(&db.rows, &key(0), &mut value).unwrap() && value == [b'x'; 150], "its page says so");
}
