//! A damaged page of the undo space - of a log, of the version tree - costs the versions that it
//! held. It stops neither an open nor the purge of other transactions, and a view that misses a
//! version gets the damage as an error, never a wrong answer.

use std::ops::Range;

use holdfast_base::page::{PageHeader, PageType};
use holdfast_base::{Error, PageNo, TxnId};
use holdfast_pool::AccessKind;

use crate::common::undo::reopen_damaged;
use crate::common::*;

fn key(n: u64) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

/// A database with 200 rows, and as many in the other table.
fn filled() -> Db {
    let db = Db::new();
    db.commit(|txn| {
        for n in 0..200 {
            txn.insert(&db.rows, &key(n), &[1; 150]).unwrap();
            txn.insert(&db.other, &key(n), b"old").unwrap();
        }
    });
    while db.purge() > 0 {}
    db
}

/// Deletes rows of the other table, and checks that purge removes them.
fn assert_purged(db: &Db) {
    let before = db.physical(&db.other);
    for n in 100..150 {
        db.commit(|txn| assert!(txn.delete(&db.other, &key(n), None).unwrap()));
    }
    while db.purge() > 0 {}
    assert_eq!((db.sys.history_length(), db.physical(&db.other)), (0, before - 50));
    let findings = db.verify();
    let is_of_undo =
        |finding: &holdfast_tree::PageFinding| finding.page.space == UNDO || finding.what.contains("undo record");
    assert!(findings.iter().all(is_of_undo), "only the undo logs are damaged: {findings:?}");
}

#[test]
fn a_committed_log_is_set_aside() {
    let db = filled();
    db.commit(|txn| (0..200).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[2; 150], None).unwrap())));
    let db = reopen_damaged(db);
    assert_eq!(scan(&mut db.snapshot(), &db.rows).len(), 200);
    assert_purged(&db);
    // A compaction took the large values that its records name for lost. The next open may find the
    // page sound, as it was or restored, and purge the log: it freed what had come in their places.
    assert!(!db.sys.keeps_nothing_old().unwrap(), "it is kept");
}

#[test]
fn an_unfinished_transaction_is_undone_as_far_as_it_is_known() {
    let db = filled();
    let mut txn = db.begin();
    assert!(txn.update(&db.other, &key(7), b"never", None).unwrap());
    (0..200).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[2; 150], None).unwrap()));
    let db = {
        std::mem::forget(txn);
        reopen_damaged(db)
    };
    assert_eq!(db.sys.roll_back_losers().unwrap(), 0);
    // The records on the first page and on the last ones are known.
    db.commit(|txn| assert!(txn.update(&db.other, &key(7), b"new", None).unwrap()));
    db.commit(|txn| assert!(txn.update(&db.rows, &key(199), b"new", None).unwrap()));
    let (mut snapshot, mut value, mut failed) = (db.snapshot(), Vec::new(), 0);
    for n in 0..199 {
        match snapshot.get(&db.rows, &key(n), &mut value) {
            Ok(found) => assert!(found && value == [1; 150], "row {n}"),
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 0 && failed < 199, "{failed}");
    drop(snapshot);
    assert_purged(&db);
}

#[test]
fn a_view_that_misses_a_version_gets_an_error() {
    let db = filled();
    let mut old = db.snapshot();
    let change = |value: u8| {
        for n in 0..50 {
            db.commit(|txn| assert!(txn.update(&db.rows, &key(n), &[value; 150], None).unwrap()));
        }
        while db.purge() > 0 {}
    };
    change(2);
    assert!(db.sys.versions_stored() > 0);
    {
        let acc = db.store.pool().access(AccessKind::Point);
        let root = PageNo(u32::try_from(db.files[0].mark(1, &acc).unwrap()).unwrap());
        let mut page = db.store.pool().fix_exclusive(db.files[0].space(), root, &acc).unwrap();
        page.bytes_mut()[64..128].fill(0xff);
    }
    change(3);
    assert_eq!(db.sys.history_length(), 0, "purge goes on");
    let mut value = Vec::new();
    for n in 0..50 {
        match old.get(&db.rows, &key(n), &mut value) {
            Ok(found) => assert!(found && value == [1; 150], "row {n}"),
            Err(error) => assert!(matches!(error, Error::DamagedPage { page, .. } if page.space == UNDO), "{error}"),
        }
        assert!(db.snapshot().get(&db.rows, &key(n), &mut value).unwrap() && value == [3; 150]);
    }
    drop(old);
    for n in 0..50 {
        db.commit(|txn| assert!(txn.delete(&db.rows, &key(n), None).unwrap()));
    }
    // The sweep says that it cannot read the tree.
    while db.sys.purge(usize::MAX).is_ok_and(|done| done > 0) {}
    assert_eq!((db.sys.history_length(), db.physical(&db.rows)), (0, 150));
}

/// Where an undo page names its owner.
const OWNER: Range<usize> = 64..72;
/// The kind of the first record of a log.
const FIRST_RECORD: Range<usize> = 236..237;

/// Damages these bytes of the page in memory on which the undo log of `txn` is.
fn damage_log_of(db: &Db, txn: TxnId, what: Range<usize>) {
    let acc = db.store.pool().access(AccessKind::Maintenance);
    let pages = db.files[0].header(&acc).unwrap().pages;
    let owner = txn.0.to_le_bytes();
    let mut damaged = 0;
    for no in (2..pages).map(PageNo) {
        let mut page = db.store.pool().fix_exclusive(db.files[0].space(), no, &acc).unwrap();
        let header = PageHeader::decode(page.bytes());
        if header.is_some_and(|header| header.page_type == PageType::Undo) && page.bytes()[OWNER] == owner {
            page.bytes_mut()[what.clone()].fill(0x3f);
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
}

/// A log cannot be copied to the shelf. It stayed the first one of all that wait as long as the
/// view was open: purge stood still.
#[test]
fn a_small_log_that_an_older_view_needs_is_set_aside() {
    a_small_log_is_damaged(OWNER);
}

/// A record on the shelf cannot be decoded. Nothing left the shelf behind it, and once that was
/// full, purge stood still.
#[test]
fn a_record_on_the_shelf_is_passed_over() {
    a_small_log_is_damaged(FIRST_RECORD);
}

/// Damages the log of a small transaction that an older view needs, and checks that the damage
/// costs that version only.
fn a_small_log_is_damaged(what: Range<usize>) {
    let db = filled();
    let mut old = db.snapshot();
    let mut txn = TxnId::NONE;
    db.commit(|t| {
        assert!(t.update(&db.rows, &key(0), &[2; 150], None).unwrap());
        txn = t.id();
    });
    damage_log_of(&db, txn, what);
    for n in 1..50 {
        db.commit(|t| assert!(t.update(&db.rows, &key(n), &[2; 150], None).unwrap()));
    }
    while db.purge() > 0 {}
    assert_eq!(db.sys.history_length(), 0, "those behind it are kept elsewhere");
    let mut value = Vec::new();
    let read = old.get(&db.rows, &key(0), &mut value);
    assert!(matches!(&read, Err(Error::DamagedPage { page, .. }) if page.space == UNDO), "{read:?}");
    for n in 1..50 {
        assert!(old.get(&db.rows, &key(n), &mut value).unwrap() && value == [1; 150], "row {n}");
    }
    assert!(db.snapshot().get(&db.rows, &key(0), &mut value).unwrap() && value == [2; 150]);
}

/// What a database that has stopped reads may be older than what it has written.
#[test]
fn a_stopped_database_sets_no_log_aside() {
    let db = filled();
    let old = db.snapshot();
    let mut txn = TxnId::NONE;
    db.commit(|t| {
        assert!(t.update(&db.rows, &key(0), &[2; 150], None).unwrap());
        txn = t.id();
    });
    damage_log_of(&db, txn, OWNER);
    db.store.wal().poison("a test");
    assert!(db.sys.purge(usize::MAX).is_err());
    assert_eq!(db.sys.history_length(), 1, "it waits");
    drop(old);
}
