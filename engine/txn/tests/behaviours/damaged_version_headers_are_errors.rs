//! A page can have the right checksum and hold a version header that no transaction has written.
//! Reads and changes of such an entry looked again for ever: its writer was active and had no
//! owner, or its change had just been undone, each time anew. Verification found nothing to
//! complain of.

use std::ops::Bound;
use std::sync::mpsc;
use std::time::Duration;

use holdfast_base::{Error, PageNo, Result, RollPtr, TxnId};
use holdfast_pool::AccessKind;
use holdfast_tree::Action;
use holdfast_txn::{CursorOptions, LockMode, LockWait, Txn, VERSION_HEADER_LEN, VersionHeader};
use holdfast_wal::SpaceClass;

use crate::common::{self, Db, Setup, scan_with};

/// A hang is told from a slow machine by this.
const PATIENCE: Duration = Duration::from_secs(120);

/// Gives the entry `key` of the rows another version header.
fn disfigure(db: &Db, key: &str, change: impl Fn(&mut VersionHeader)) {
    let acc = db.store.pool().access(AccessKind::Point);
    let mut decide = |payload: Option<&[u8]>| {
        let (mut header, body) = VersionHeader::decode(payload.unwrap()).unwrap();
        change(&mut header);
        Ok(Action::Put(header.encode(body)))
    };
    db.rows.tree().modify_as(SpaceClass::Rollback, key.as_bytes(), &acc, &mut decide).unwrap().unwrap();
}

/// A database with the rows a to e.
fn database() -> Db {
    let db = Db::with(Setup::default());
    db.put(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), ("e", "1")]);
    while db.purge() > 0 {}
    db
}

fn is_damage<T: std::fmt::Debug>(what: &str, result: Result<T>) {
    match result {
        Err(Error::DamagedPage { page, what }) => {
            assert_eq!(page.space, common::TABLE);
            assert!(what.contains("the entry 63"), "it says which entry, c, is damaged: {what}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// Runs on a thread of its own, so that a hang fails the test.
fn within_patience(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match ended.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it looks again for ever"),
        _ => thread.join().unwrap(),
    }
}

fn whole(txn: &mut Txn, db: &Db, lock: Option<LockMode>) -> Result<usize> {
    let options = CursorOptions { lock, ..CursorOptions::default() };
    scan_with(txn, &db.rows, Bound::Unbounded, Bound::Unbounded, options).map(|rows| rows.len())
}

fn reads_are_errors(db: &Db) {
    let (mut value, mut snapshot) = (Vec::new(), db.snapshot());
    is_damage("get", snapshot.get(&db.rows, b"c", &mut value));
    is_damage("scan", whole(&mut snapshot, db, None));
    assert!(snapshot.get(&db.rows, b"b", &mut value).unwrap(), "the others can be read");
}

fn changes_are_errors(db: &Db) {
    let mut value = Vec::new();
    is_damage("get_locked", db.begin().get_locked(&db.rows, b"c", LockMode::Exclusive, None, &mut value));
    is_damage("locking scan", whole(&mut db.begin(), db, Some(LockMode::Shared)));
    is_damage("update", db.begin().update(&db.rows, b"c", b"2", None));
    is_damage("delete", db.begin().delete(&db.rows, b"c", None));
    is_damage("insert", db.begin().insert(&db.rows, b"c", b"2"));
    is_damage("insert of a unique entry", db.begin().insert_unique(&db.rows, b"cc", 1, b"2"));
    let mut txn = db.begin();
    txn.set_wait(LockWait::NoWait);
    is_damage("update without waiting", txn.update(&db.rows, b"c", b"2", None));
    db.begin().update(&db.rows, b"b", b"2", None).unwrap();
}

fn is_found(db: &Db, what: &str) {
    let findings = db.verify();
    assert!(findings.iter().any(|f| f.page.space == common::TABLE && f.what.contains(what)), "{findings:#?}");
}

#[test]
fn a_writer_that_there_never_was() {
    within_patience(|| {
        for id in [u64::MAX, 1 << 40, 0] {
            let db = database();
            let next = db.sys.stats().next_txn;
            let writer = if id == 0 { next } else { TxnId(id) };
            disfigure(&db, "c", |header| header.txn = writer);
            is_found(&db, "and there was no such transaction");
            reads_are_errors(&db);
            changes_are_errors(&db);
        }
    });
}

/// The message named the next transaction. A check believes what each of several looks finds, so
/// beside writers it called the table sound.
#[test]
fn what_is_found_does_not_change_beside_writers() {
    within_patience(|| {
        let db = database();
        disfigure(&db, "c", |header| header.txn = TxnId(1 << 40));
        let of_the_entry = || -> Vec<String> {
            db.verify().into_iter().map(|f| f.to_string()).filter(|what| what.contains("the entry 63")).collect()
        };
        let found = of_the_entry();
        assert_eq!(found.len(), 1, "{found:?}");
        db.put(&[("a", "2")]);
        assert_eq!(of_the_entry(), found);
    });
}

#[test]
fn an_active_writer_that_has_no_such_record() {
    within_patience(|| {
        for roll in [RollPtr::new(PageNo(0), 7), RollPtr::new(PageNo(3), 0), RollPtr::new(PageNo(3), 900)] {
            let db = database();
            let mut writer = db.begin();
            writer.update(&db.rows, b"a", b"2", None).unwrap();
            let id = writer.id();
            disfigure(&db, "c", |header| (header.txn, header.roll) = (id, roll));
            reads_are_errors(&db);
            let findings = db.verify();
            assert!(findings.iter().any(|f| f.what.contains("the entry 63")), "{findings:#?}");
        }
    });
}

/// The undo records of the first hundred entries by active writers were looked up, and no others.
#[test]
fn an_entry_behind_many_by_an_active_writer() {
    within_patience(|| {
        for roll in [RollPtr::new(PageNo(3), 900), RollPtr::new(PageNo(9_999_999), 1)] {
            let db = database();
            let mut writer = db.begin();
            for i in 0..2_500 {
                writer.insert(&db.rows, format!("a{i:04}").as_bytes(), b"1").unwrap();
            }
            let id = writer.id();
            disfigure(&db, "c", |header| (header.txn, header.roll) = (id, roll));
            is_found(&db, "the entry 63");
        }
    });
}

#[test]
fn a_roll_pointer_of_no_page() {
    within_patience(|| {
        for (roll, what) in [
            (RollPtr::new(PageNo(9_999_999), 1), "past the end of the undo space"),
            (RollPtr::new(PageNo(3), 1 << 20), "leads nowhere"),
            (RollPtr::new(PageNo(0), 1), "leads nowhere"),
        ] {
            let db = database();
            disfigure(&db, "c", |header| header.roll = roll);
            is_found(&db, what);
        }
    });
}

#[test]
fn a_value_under_a_delete_mark_and_a_bad_reference() {
    let db = database();
    disfigure(&db, "c", |header| header.deleted = true);
    is_found(&db, "under a delete mark");
    // Reads and changes took the row for one that was deleted.
    assert!(db.snapshot().get(&db.rows, b"c", &mut Vec::new()).unwrap_err().is_damage());
    assert!(whole(&mut db.snapshot(), &db, None).unwrap_err().is_damage());
    assert!(db.begin().insert(&db.rows, b"c", b"2").unwrap_err().is_damage());
    let db = database();
    disfigure(&db, "c", |header| header.overflow = true);
    is_found(&db, "large value");
}

/// The image of a row in an undo record says that the row was deleted: rollback removed the row,
/// and a check, before and after, called all sound.
#[test]
fn a_value_under_a_delete_mark_in_a_prior_image() {
    let db = database();
    let mut writer = db.begin();
    writer.update(&db.rows, b"c", b"2", None).unwrap();
    change_image(&db, |image, _| image[0] = 1);
    let findings = db.verify();
    assert!(findings.iter().any(|f| f.what.contains("does not fit the undo log")), "{findings:#?}");
    assert!(db.snapshot().get(&db.rows, b"c", &mut Vec::new()).unwrap_err().is_damage());
    assert!(writer.rollback().is_err());
    assert!(db.snapshot().get(&db.rows, b"c", &mut Vec::new()).unwrap_err().is_damage(), "the row is not gone");
}

/// The image of a row in an undo record was not looked at so far: a check called the undo logs
/// sound, and a view that needs the image found no row.
#[test]
fn a_writer_that_there_never_was_in_a_prior_image() {
    let db = database();
    let mut writer = db.begin();
    writer.update(&db.rows, b"c", b"2", None).unwrap();
    assert!(db.snapshot().get(&db.rows, b"c", &mut Vec::new()).unwrap());
    change_image(&db, |image, _| image[1..9].copy_from_slice(&(1u64 << 40).to_le_bytes()));
    let read = db.snapshot().get(&db.rows, b"c", &mut Vec::new());
    assert!(matches!(&read, Err(Error::DamagedPage { page, .. }) if page.space == common::UNDO), "{read:?}");
    let findings = db.verify();
    assert!(findings.iter().any(|f| f.what.contains("does not fit the undo log")), "{findings:#?}");
    std::mem::forget(writer);
}

/// The prior image of a change is disfigured so that it names the change itself as the one before.
#[test]
fn versions_in_a_circle() {
    within_patience(|| {
        let db = database();
        let mut snapshot = db.snapshot();
        let mut writer = db.begin();
        writer.update(&db.rows, b"c", b"2", None).unwrap();
        disfigure_image(&db);
        is_damage("get", snapshot.get(&db.rows, b"c", &mut Vec::new()));
        std::mem::forget(writer);
    });
}

/// Writes the header of the newest version of "c" into the image in its undo record.
fn disfigure_image(db: &Db) {
    change_image(db, |image, newest| image[..VERSION_HEADER_LEN].copy_from_slice(&newest.to_bytes()));
}

/// Changes the page from the image on that is in the undo record of the newest version of "c".
fn change_image(db: &Db, change: impl FnOnce(&mut [u8], VersionHeader)) {
    let acc = db.store.pool().access(AccessKind::Point);
    let mut payload = Vec::new();
    db.rows.tree().get(b"c", &acc, &mut payload).unwrap();
    let newest = VersionHeader::decode(&payload).unwrap().0;
    let mut page = db.store.pool().fix_exclusive(db.files[0].space(), newest.roll.page(), &acc).unwrap();
    let bytes = page.bytes_mut();
    // The record is: kind, index, key with its length, length of the image, image.
    let begin = bytes.windows(3).position(|w| w == [5, 1, b'c']).unwrap() + 4;
    change(&mut bytes[begin..], newest);
}
