//! The pages of a large value that was replaced were freed in one hold of the purge mutex, and so
//! were those of an old version when its view had ended: hundreds of MiB, each page of which is
//! read. Committers waited for the mutex meanwhile, and old versions piled up. And a crash in
//! between lost all the pages, up to the next compaction.

use std::sync::Arc;

use holdfast_pool::AccessKind;
use holdfast_testkit::CrashDisk;
use holdfast_txn::NewValue;

use crate::common::{Db, Setup};

/// Pages that are given back at once, at most.
const PART: u32 = 32;
const VALUE: usize = 1 << 20;
/// Slices of purge that freeing the value takes, at least.
const SLICES: usize = VALUE / 4096 / PART as usize;
/// With a head of the value, the image of the row fits beside the first key into an entry of the
/// version tree, and not beside the second one.
const KEYS: [&[u8]; 2] = [b"key", &[b'k'; 700]];

/// A database with a value that is to be freed.
type Begun = fn(&CrashDisk, &[u8]) -> Db;

fn create(disk: &CrashDisk, key: &[u8]) -> Db {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
    db.commit(|txn| txn.insert(&db.rows, key, NewValue::with_head(&vec![b'x'; VALUE], 880)).unwrap());
    while db.purge() > 0 {}
    db
}

fn update(db: &Db, key: &[u8], value: u8) {
    db.commit(|txn| assert!(txn.update(&db.rows, key, &[value], None).unwrap()));
}

/// An undo record leads to the value.
fn replaced(disk: &CrashDisk, key: &[u8]) -> Db {
    let db = create(disk, key);
    update(&db, key, 0);
    db
}

/// An entry of the version tree leads to it, which a view needed that has ended.
fn of_a_view(disk: &CrashDisk, key: &[u8]) -> Db {
    let db = create(disk, key);
    let mut old = db.snapshot();
    (0..20).for_each(|value| update(&db, key, value));
    while db.purge() > 0 {}
    assert_eq!(db.sys.versions_stored(), 1);
    let mut value = Vec::new();
    assert!(old.get(&db.rows, key, &mut value).unwrap() && value.len() == VALUE);
    db
}

fn used(db: &Db) -> u32 {
    let info = db.files[1].info(&db.store.pool().access(AccessKind::Maintenance)).unwrap();
    info.pages - info.free_pages
}

/// Purges up to `slices` slices. Returns how many there were.
fn purge(db: &Db, slices: usize) -> usize {
    let mut before = used(db);
    for slice in 0..slices {
        if db.sys.purge(1).unwrap() == 0 {
            return slice;
        }
        let now = used(db);
        assert!(now <= before && before - now <= PART, "from {before} to {now} pages in one slice");
        before = now;
    }
    slices
}

fn assert_freed_in_parts(begin: Begun) {
    for key in KEYS {
        let db = begin(&CrashDisk::new(), key);
        let slices = purge(&db, usize::MAX);
        assert!(slices >= SLICES, "{slices}");
        assert_eq!((db.sys.history_length(), db.sys.versions_stored()), (0, 0));
        db.verify_clean();
    }
}

/// What is left after a crash is freed by the next run.
fn assert_freed_after_a_crash(begin: Begun) {
    for key in KEYS {
        for slices in 1..SLICES {
            let disk = CrashDisk::new();
            let db = begin(&disk, key);
            assert_eq!(purge(&db, slices), slices);
            db.store.wal().flush_to(db.store.wal().next_lsn()).unwrap();
            let (disk, setup) = (disk.reboot(slices as u64), db.setup.clone());
            drop(db);
            let db = Db::open(Arc::new(disk), setup).unwrap();
            while db.purge() > 0 {}
            assert!(db.sys.keeps_nothing_old().unwrap());
            db.verify_clean();
        }
    }
}

#[test]
fn when_it_was_replaced() {
    assert_freed_in_parts(replaced);
}

#[test]
fn when_its_view_has_ended() {
    assert_freed_in_parts(of_a_view);
}

#[test]
fn also_behind_a_crash() {
    assert_freed_after_a_crash(replaced);
}

#[test]
fn of_an_old_version_also_behind_a_crash() {
    assert_freed_after_a_crash(of_a_view);
}
