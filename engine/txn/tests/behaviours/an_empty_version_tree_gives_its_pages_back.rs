//! When the last entries of the version tree were dropped, pages of neighbours could not be read,
//! so leaves without an entry were not merged. No other entry was dropped after them: the pages
//! stayed in use until versions were kept again, and the undo space has no compaction.

use std::sync::Arc;

use holdfast_base::PageNo;
use holdfast_io::MemoryDisk;
use holdfast_pool::AccessKind;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::{Db, Setup};

const ROWS: u16 = 150;

/// Pages of the undo space without a version: the directory, the first pages that are kept for the
/// next transactions, the bitmap, and the root of the tree.
const EMPTY: usize = 12;

fn key(n: u16) -> Vec<u8> {
    [&n.to_be_bytes()[..], &[b'k'; 700]].concat()
}

/// A database with a version of each row that a view needs.
fn filled(disk: &FaultDisk) -> Db {
    let mut setup = Setup { frames: 64, ..Setup::default() };
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
    (0..ROWS).for_each(|n| db.commit(|txn| txn.insert(&db.rows, &key(n), &[b'x'; 300]).unwrap()));
    while db.purge() > 0 {}
    let old = db.snapshot();
    for value in 0..2 {
        (0..ROWS).for_each(|n| db.commit(|txn| assert!(txn.update(&db.rows, &key(n), &[value], None).unwrap())));
        while db.purge() > 0 {}
    }
    assert_eq!(db.sys.versions_stored(), u64::from(ROWS));
    drop(old);
    db
}

/// Pages of the undo space that are allocated.
fn undo_pages(db: &Db) -> usize {
    while db.sys.give_back_idle_undo().unwrap() {}
    let acc = db.store.pool().access(AccessKind::Point);
    let pages = db.files[0].header(&acc).unwrap().pages;
    (0..pages).filter(|no| db.files[0].is_allocated(PageNo(*no), &acc).unwrap()).count()
}

/// A database whose versions were all dropped while one of so many reads of the undo space failed.
fn emptied(every: u64) -> Db {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = filled(&disk);
    assert!(undo_pages(&db) > 80);
    (1..400).for_each(|n| disk.schedule(Fault::nth(FaultOp::Read, every * n).on("undo.hf")));
    while db.sys.purge(usize::MAX).unwrap_or(1) > 0 {}
    disk.clear();
    assert!(db.sys.keeps_nothing_old().unwrap());
    db
}

fn assert_given_back(db: &Db, every: u64) {
    let left = undo_pages(db);
    assert!(left <= EMPTY, "one of {every} reads failed: {left} pages are left");
    db.verify_clean();
}

#[test]
fn when_its_last_entry_has_gone() {
    (12..20).for_each(|every| assert_given_back(&emptied(every), every));
}

/// What could not be given back before: some page of the tree was not returned, twice.
#[test]
fn or_behind_the_next_open() {
    let db = emptied(3);
    assert!(undo_pages(&db) > EMPTY, "they were returned");
    let db = db.reopen();
    while db.purge() > 0 {}
    assert_given_back(&db, 3);
}
