//! A table cannot be opened for once, and rows of it were deleted before. Purge passed over it as
//! over one that was dropped: when the table could be opened again, nothing named the delete marks
//! and the large values of the old versions, which stayed.

use holdfast_base::Error;
use holdfast_metrics::Counter;
use holdfast_txn::*;

use crate::common::*;

const ROWS: u32 = 20;

/// A database whose transaction has deleted all rows of two tables; nothing of that is purged.
fn deleted() -> Db {
    let db = Db::new();
    db.commit(|txn| {
        for n in 0..ROWS {
            txn.insert(&db.rows, &n.to_be_bytes(), b"small").unwrap();
            txn.insert(&db.other, &n.to_be_bytes(), &[b'x'; 5_000]).unwrap();
        }
    });
    while db.purge() > 0 {}
    db.commit(|txn| {
        for n in 0..ROWS {
            assert!(txn.delete(&db.other, &n.to_be_bytes(), None).unwrap());
            assert!(txn.delete(&db.rows, &n.to_be_bytes(), None).unwrap());
        }
    });
    db.reopen()
}

fn make_unusable(db: &Db, why: &Error) {
    db.sys.forget(db.other.id());
    db.sys.register_unusable(db.other.id(), "t16.hf", why);
    while db.purge() > 0 {}
}

#[test]
fn and_purges_it_when_it_can_be_opened() {
    let db = deleted();
    make_unusable(&db, &Error::invalid("no such file"));
    assert!(!db.sys.keeps_nothing_old().unwrap(), "a compaction would take the large values for lost");
    // Others do not wait.
    db.commit(|txn| txn.insert(&db.rows, b"more", b"small").unwrap());
    db.commit(|txn| assert!(txn.delete(&db.rows, b"more", None).unwrap()));
    while db.purge() > 0 {}
    assert_eq!(db.sys.history_length(), 0);
    let db = db.reopen();
    while db.purge() > 0 {}
    assert_eq!((db.physical(&db.rows), db.physical(&db.other)), (0, 0));
    db.verify_clean();
}

/// The two versions share the chain: the first one's reference is all that purge gives up.
#[test]
fn and_gives_up_what_a_changed_head_has_left() {
    let db = Db::new();
    let value = |head: u8| [[head; HEAD].as_slice(), &[b'x'; 10_000]].concat();
    db.commit(|txn| txn.insert(&db.other, b"k", headed(&value(b'0'))).unwrap());
    while db.purge() > 0 {}
    db.commit(|txn| {
        assert!(txn.get_locked(&db.other, b"k", LockMode::Exclusive, None, &mut Vec::new()).unwrap());
        assert!(txn.update(&db.other, b"k", headed(&value(b'1')), None).unwrap());
    });
    assert_eq!(db.store.metrics().get(Counter::OverflowShares), 1);
    let db = db.reopen();
    make_unusable(&db, &Error::invalid("no such file"));
    let db = db.reopen();
    while db.purge() > 0 {}
    db.commit(|txn| assert!(txn.delete(&db.other, b"k", None).unwrap()));
    while db.purge() > 0 {}
    assert_eq!(db.physical(&db.other), 0);
    db.verify_clean();
}

/// A reader of another table that found nothing got the error of the table, if its view was older
/// than the commit of a prepared transaction that had changed the table.
#[test]
fn and_costs_no_view_a_version() {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::with(setup);
    db.commit(|txn| txn.insert(&db.other, b"k", b"small").unwrap());
    while db.purge() > 0 {}
    let mut txn = db.begin();
    assert!(txn.delete(&db.other, b"k", None).unwrap());
    txn.prepare(b"xid", FlushAtCommit::Sync).unwrap();
    drop(txn);
    let db = db.reopen();
    make_unusable(&db, &Error::invalid("no such file"));
    let mut old = db.snapshot();
    db.sys.adopt(b"xid").unwrap().commit(FlushAtCommit::Lazy).unwrap();
    // The undo log of each is in the page of the one before, once the view is a long one.
    for n in 0..ROWS {
        db.commit(|txn| txn.insert(&db.rows, &n.to_be_bytes(), b"new").unwrap());
        while db.purge() > 0 {}
    }
    assert_eq!(db.sys.history_length(), 0);
    for n in 0..ROWS {
        assert!(!old.get(&db.rows, &n.to_be_bytes(), &mut Vec::new()).unwrap(), "row {n}");
    }
}

#[test]
fn but_not_for_one_that_is_damaged() {
    let db = deleted();
    make_unusable(&db, &Error::damaged_file("t16.hf", "its header"));
    assert_eq!(db.physical(&db.rows), 0);
    assert!(db.sys.keeps_nothing_old().unwrap());
}
