//! The first page of a chain says how many versions refer to it. Where that number was too small,
//! on a page with a right checksum, the chain was freed with an old version, from under the row:
//! and no check had found that more versions refer to it than were counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::PageNo;
use holdfast_base::codec::get_u32;
use holdfast_base::page::{HEADER_LEN, OFF_TYPE, PageType};
use holdfast_io::MemoryDisk;
use holdfast_pool::AccessKind;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_tree::op::PageOp;
use holdfast_tree::{PageSet, Severity};
use holdfast_txn::*;
use holdfast_wal::SpaceClass;

use crate::common::*;

const OFF_SHARED: usize = HEADER_LEN + 8;
const KEY: &[u8] = b"k";

fn value(head: usize) -> Vec<u8> {
    let mut value = format!("{head:HEAD$}").into_bytes();
    value.resize(HEAD + 10_000, b'a');
    value
}

/// Changes the head, as often as asked.
fn change(db: &Db, times: usize) {
    (0..times).for_each(|n| db.commit(|txn| change_in(txn, db, KEY, n)));
}

fn change_in(txn: &mut Txn, db: &Db, key: &[u8], head: usize) {
    assert!(txn.get_locked(&db.rows, key, LockMode::Exclusive, None, &mut Vec::new()).unwrap());
    assert!(txn.update(&db.rows, key, headed(&value(head)), None).unwrap());
}

fn filled() -> Db {
    let db = Db::new();
    db.commit(|txn| txn.insert(&db.rows, KEY, headed(&value(0))).unwrap());
    while db.purge() > 0 {}
    db
}

/// The first page of the chain that versions share, and how many are counted beside one.
fn shared(db: &Db) -> (PageNo, u32) {
    let count = |page: &[u8]| get_u32(page, OFF_SHARED).unwrap();
    let pages = db.pages_where(1, |page| page[OFF_TYPE] == PageType::Overflow as u8 && count(page) > 0);
    let [no] = pages[..] else { panic!("{pages:?}") };
    let acc = db.store.pool().access(AccessKind::Point);
    (no, count(&db.store.pool().fix_shared(db.files[1].space(), no, &acc).unwrap()))
}

fn set_count(db: &Db, no: PageNo, count: u32) {
    let acc = db.store.pool().access(AccessKind::Point);
    let mut mtr = db.store.begin(db.store.reserve(64, SpaceClass::User).unwrap(), &acc);
    let page = mtr.fix(db.files[1].space(), no).unwrap();
    let op = PageOp::WriteBytes { offset: OFF_SHARED as u16, bytes: &count.to_le_bytes() };
    mtr.apply(page, &op).unwrap();
    mtr.commit().unwrap();
}

fn damage(db: &Db) -> Vec<String> {
    let found = db.verify().into_iter().filter(|finding| finding.severity == Severity::Damage);
    found.map(|finding| finding.to_string()).collect()
}

/// The count is sound, and then smaller by one, or larger.
fn assert_counted(db: &Db, references: u32) {
    db.verify_clean();
    let (no, count) = shared(db);
    assert_eq!(count, references);
    set_count(db, no, count - 1);
    let found = damage(db);
    assert!(found.len() == 1 && found[0].contains("refer to its large value"), "{found:?}");
    // A crash between the count and the version leaves that: the chain is lost with the row.
    set_count(db, no, count + 1);
    assert_eq!(damage(db), Vec::<String>::new());
    set_count(db, no, count);
    db.verify_clean();
}

#[test]
fn those_of_undo_records() {
    let db = filled();
    let _old = db.snapshot();
    change(&db, 3);
    assert_counted(&db, 3);
}

#[test]
fn those_of_a_transaction_that_has_not_ended() {
    let db = filled();
    let mut txn = db.begin();
    (1..3).for_each(|n| change_in(&mut txn, &db, KEY, n));
    assert_counted(&db, 2);
    txn.rollback().unwrap();
    db.verify_clean();
}

#[test]
fn those_of_the_version_tree() {
    let db = filled();
    let mut old = db.snapshot();
    for _ in 0..30 {
        change(&db, 1);
        db.purge();
    }
    assert_eq!(db.sys.versions_stored(), 1);
    assert_counted(&db, 1);
    assert!(old.get(&db.rows, KEY, &mut Vec::new()).unwrap());
}

/// A log that is half copied: the same version is in its record and in the version tree.
#[test]
fn each_once() {
    let db = filled();
    let old = db.snapshot();
    change(&db, 1);
    for _ in 0..20 {
        db.put(&[("other", "moves the commits on")]);
    }
    while db.sys.purge(1).unwrap() > 0 {
        db.verify_clean();
    }
    assert_eq!((db.sys.versions_stored(), shared(&db).1), (1, 1));
    drop(old);
    while db.sys.purge(1).unwrap() > 0 {
        assert_eq!(damage(&db), Vec::<String>::new());
    }
    db.verify_clean();
}

/// A page of the undo space that cannot be read is no fault of the table.
#[test]
fn those_that_can_be_read() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    db.commit(|txn| txn.insert(&db.rows, KEY, headed(&value(0))).unwrap());
    change(&db, 1);
    while db.purge() > 0 {}
    let db = db.reopen();
    let acc = db.store.pool().access(AccessKind::Maintenance);
    let look = || {
        let mut find = |finding| panic!("{finding}");
        db.sys.verify_index(&db.rows, &acc, &mut PageSet::new(), &mut find).unwrap()
    };
    disk.schedule(Fault::nth(FaultOp::Read, 1).on("undo.hf").sticky());
    assert_eq!((look(), disk.fired() > 0), (1, true));
    disk.clear();
    assert_eq!(look(), 1);
}

/// Versions come and go while they are counted.
#[test]
fn beside_changes_and_purge() {
    const ROWS: usize = 8;
    let db = filled();
    db.commit(|txn| (0..ROWS).for_each(|row| txn.insert(&db.rows, &[row as u8], headed(&value(0))).unwrap()));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut old = Vec::new();
            for n in 0..3_000 {
                let key = [(n % ROWS) as u8];
                db.commit(|txn| change_in(txn, &db, &key, n));
                if n % 7 == 0 {
                    let mut txn = db.begin();
                    (0..3).for_each(|more| change_in(&mut txn, &db, &key, n + more));
                    txn.rollback().unwrap();
                }
                if n % 40 == 0 {
                    old.push(db.snapshot());
                    old.drain(..old.len().saturating_sub(3));
                }
                db.sys.purge(1 + n % 3).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        loop {
            let was_last = is_done.load(Ordering::Acquire);
            let (acc, mut found) = (db.store.pool().access(AccessKind::Maintenance), Vec::new());
            db.sys.verify_index(&db.rows, &acc, &mut PageSet::new(), &mut |finding| found.push(finding)).unwrap();
            assert!(found.is_empty(), "{found:?}");
            if was_last {
                break;
            }
        }
    });
    while db.purge() > 0 {}
    db.verify_clean();
}
