//! The rest of a large value, behind its head, is written once, however often the head is changed;
//! a reader that wants the head alone does not read it. It is freed with the last version that has
//! it.

use std::ops::Bound;

use holdfast_base::Error;
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;
use holdfast_txn::*;

use crate::common::*;

/// A value with this head, and a rest of the kind `fill`.
fn value(head: &str, fill: u8) -> Vec<u8> {
    let mut value = format!("{head:HEAD$}").into_bytes();
    value.resize(HEAD + 10_000, fill);
    value
}

fn insert(db: &Db, key: &[u8], value: &[u8]) {
    let mut txn = db.begin();
    txn.insert(&db.rows, key, headed(value)).unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
}

/// Reads with a lock and changes, as an UPDATE does.
fn update(txn: &mut Txn, db: &Db, key: &[u8], value: &[u8]) {
    let mut old = Vec::new();
    assert!(txn.get_locked(&db.rows, key, LockMode::Exclusive, None, &mut old).unwrap());
    assert!(txn.update(&db.rows, key, headed(value), None).unwrap());
}

fn update_alone(db: &Db, key: &[u8], value: &[u8]) {
    let mut txn = db.begin();
    update(&mut txn, db, key, value);
    txn.commit(FlushAtCommit::Lazy).unwrap();
}

fn read(txn: &mut Txn, db: &Db, key: &[u8], part: Part) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    txn.get_part(&db.rows, key, part, &mut value).unwrap().then_some(value)
}

fn count(db: &Db, counter: Counter) -> u64 {
    db.store.metrics().get(counter)
}

/// When all rows are gone, so are their chains.
fn nothing_is_left(db: &Db, keys: &[&[u8]]) {
    let mut txn = db.begin();
    for key in keys {
        txn.delete(&db.rows, key, None).unwrap();
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    db.purge();
    assert_eq!(db.physical(&db.rows), 0);
    db.verify_clean();
}

#[test]
fn changes_of_the_head_write_no_chain() {
    let db = Db::new();
    insert(&db, b"k", &value("0", b'a'));
    for n in 1..=20 {
        update_alone(&db, b"k", &value(&n.to_string(), b'a'));
    }
    assert_eq!((count(&db, Counter::OverflowWrites), count(&db, Counter::OverflowShares)), (1, 20));
    assert_eq!(read(&mut db.begin(), &db, b"k", Part::Whole), Some(value("20", b'a')));
    update_alone(&db, b"k", &value("21", b'b'));
    assert_eq!(count(&db, Counter::OverflowWrites), 2);
    db.purge();
    assert_eq!(read(&mut db.begin(), &db, b"k", Part::Whole), Some(value("21", b'b')));
    db.verify_clean();
    nothing_is_left(&db, &[b"k"]);
}

/// A cursor locks the rows behind its first ones as one, and each of those got a chain of its own.
#[test]
fn changes_behind_a_scan_write_no_chain() {
    const ROWS: u64 = 100;
    let db = Db::new();
    for n in 0..ROWS {
        insert(&db, &n.to_be_bytes(), &value("0", b'a'));
    }
    let mut txn = db.at(Isolation::RepeatableRead);
    let locking = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let mut rows = txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, locking).unwrap();
    while let Some((key, _)) = rows.next().unwrap() {
        let key = key.to_vec();
        assert!(txn.update(&db.rows, &key, headed(&value("1", b'a')), None).unwrap());
    }
    drop(rows);
    txn.commit(FlushAtCommit::Lazy).unwrap();
    assert_eq!((count(&db, Counter::OverflowWrites), count(&db, Counter::OverflowShares)), (ROWS, ROWS));
    db.purge();
    db.verify_clean();
}

#[test]
fn what_is_undone_gives_back_its_reference_alone() {
    let db = Db::new();
    insert(&db, b"k", &value("0", b'a'));
    let mut txn = db.begin();
    update(&mut txn, &db, b"k", &value("1", b'a'));
    let savepoint = txn.savepoint();
    update(&mut txn, &db, b"k", &value("2", b'a'));
    update(&mut txn, &db, b"k", &value("3", b'b'));
    update(&mut txn, &db, b"k", &value("4", b'b'));
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(read(&mut txn, &db, b"k", Part::Whole), Some(value("1", b'a')));
    txn.rollback().unwrap();
    assert_eq!(read(&mut db.begin(), &db, b"k", Part::Whole), Some(value("0", b'a')));
    db.verify_clean();
    nothing_is_left(&db, &[b"k"]);
}

/// The first version goes to the version tree for the snapshot, later ones go at once; all have the
/// same chain.
#[test]
fn a_version_that_is_kept_has_a_reference_of_its_own() {
    for ends_first in [true, false] {
        let db = Db::new();
        insert(&db, b"k", &value("0", b'a'));
        let mut old = Some(db.snapshot());
        for n in 1..=30 {
            update_alone(&db, b"k", &value(&n.to_string(), b'a'));
            db.purge();
        }
        assert_eq!(db.sys.versions_stored(), 1);
        assert_eq!(read(old.as_mut().unwrap(), &db, b"k", Part::Whole), Some(value("0", b'a')));
        if ends_first {
            old = None;
            db.purge();
            assert_eq!(read(&mut db.begin(), &db, b"k", Part::Whole), Some(value("30", b'a')));
        }
        update_alone(&db, b"k", b"short");
        db.purge();
        if let Some(mut old) = old {
            assert_eq!(read(&mut old, &db, b"k", Part::Whole), Some(value("0", b'a')));
        }
        db.purge();
        nothing_is_left(&db, &[b"k"]);
    }
}

#[test]
fn a_change_without_a_lock_has_a_chain_of_its_own() {
    let db = Db::new();
    insert(&db, b"k", &value("0", b'a'));
    let mut txn = db.begin();
    txn.update(&db.rows, b"k", headed(&value("1", b'a')), None).unwrap();
    assert_eq!(
        count(&db, Counter::OverflowShares),
        0,
        "another transaction might replace the row, and its chain be freed"
    );
    txn.update(&db.rows, b"k", headed(&value("2", b'a')), None).unwrap();
    assert_eq!(count(&db, Counter::OverflowShares), 1, "no other transaction can replace its own version");
    txn.commit(FlushAtCommit::Lazy).unwrap();
    db.purge();
    db.verify_clean();
    nothing_is_left(&db, &[b"k"]);
}

/// A row that was loaded carries no id, nor does a transaction that has changed nothing: the row
/// passed for its own, whose chain no other can free.
#[test]
fn so_has_a_change_of_a_row_that_was_loaded() {
    let db = Db::new();
    let acc = db.store.pool().access(AccessKind::Point);
    db.rows.load_entry(b"k", 1, headed(&value("0", b'a')), &acc).unwrap();
    drop(acc);
    let mut txn = db.begin();
    txn.update(&db.rows, b"k", headed(&value("1", b'a')), None).unwrap();
    assert_eq!(count(&db, Counter::OverflowShares), 0);
    txn.commit(FlushAtCommit::Lazy).unwrap();
    db.purge();
    db.verify_clean();
}

#[test]
fn heads_are_read_without_the_chain() {
    let db = Db::new();
    insert(&db, b"a", &value("a0", b'a'));
    insert(&db, b"b", b"short");
    insert(&db, b"c", &value("c0", b'c'));
    let mut old = db.snapshot();
    update_alone(&db, b"a", &value("a1", b'a'));
    let reads = count(&db, Counter::OverflowReads);
    let heads = CursorOptions { part: Part::Head, ..CursorOptions::default() };
    for (txn, a) in [(&mut old, "a0"), (&mut db.begin(), "a1")] {
        assert_eq!(read(txn, &db, b"a", Part::Head), Some(format!("{a:HEAD$}").into_bytes()));
        let rows = scan_with(txn, &db.rows, Bound::Unbounded, Bound::Unbounded, heads).unwrap();
        let values: Vec<String> = rows.into_iter().map(|(_, v)| v).collect();
        assert_eq!(values, [format!("{a:HEAD$}"), "short".into(), format!("{:HEAD$}", "c0")]);
    }
    assert_eq!(count(&db, Counter::OverflowReads), reads);
    assert_eq!(read(&mut old, &db, b"a", Part::Whole), Some(value("a0", b'a')));
}

/// A row that refers to another one locks that, and read all of it.
#[test]
fn whether_there_is_a_row_is_asked_without_the_chain() {
    let db = Db::new();
    insert(&db, b"k", &value("0", b'a'));
    let mut txn = db.begin();
    assert!(txn.contains(&db.rows, b"k").unwrap());
    assert!(txn.contains_locked(&db.rows, b"k", LockMode::Shared, None).unwrap());
    assert!(!txn.contains_locked(&db.rows, b"l", LockMode::Shared, None).unwrap());
    assert_eq!(count(&db, Counter::OverflowReads), 0);
    let mut other = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::default() });
    assert!(matches!(other.delete(&db.rows, b"k", None), Err(Error::WouldBlock)));
    assert_eq!(read(&mut txn, &db, b"k", Part::Whole), Some(value("0", b'a')));
}

/// A head that does not fit into the leaf is no head.
#[test]
fn a_head_that_is_too_long_goes_with_the_rest() {
    let db = Db::new();
    let long = value("0", b'a');
    let mut txn = db.begin();
    txn.insert(&db.rows, b"k", NewValue::with_head(&long, 9_000)).unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
    assert_eq!(read(&mut db.begin(), &db, b"k", Part::Head), Some(long));
    nothing_is_left(&db, &[b"k"]);
}
