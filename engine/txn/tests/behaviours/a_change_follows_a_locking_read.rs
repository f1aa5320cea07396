//! A change of what was just read with a lock uses that read, unless the leaf has changed since.

use holdfast_pool::AccessKind;
use holdfast_txn::*;

use crate::common::*;

fn read_locked(txn: &mut Txn, db: &Db, key: &str) -> Option<String> {
    let mut value = Vec::new();
    let found = txn.get_locked(&db.rows, key.as_bytes(), LockMode::Exclusive, None, &mut value).unwrap();
    found.then(|| String::from_utf8(value).unwrap())
}

#[test]
fn an_undisturbed_one_goes_down_the_tree_once() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1")]);
    db.purge(); // Now there is a free undo log.
    let requests = || db.rows.access_stats().requests();
    let mut txn = db.at(Isolation::RepeatableRead);
    let before = requests();
    assert_eq!(read_locked(&mut txn, &db, "a").unwrap(), "1");
    let read = requests();
    assert!(txn.update(&db.rows, b"a", b"2", None).unwrap());
    // One page of the tree to read; one of the undo log and one of the tree to change.
    assert_eq!((read - before, requests() - read), (1, 2));
}

#[test]
fn what_happened_in_between_is_noticed() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let mut txn = db.at(Isolation::RepeatableRead);
    assert_eq!(read_locked(&mut txn, &db, "b").unwrap(), "1");
    db.put(&[("a", "a much longer value"), ("aa", "a new neighbour"), ("c", "2")]);
    let mut old = Vec::new();
    assert!(txn.update(&db.rows, b"b", b"2", Some(&mut old)).unwrap());
    assert_eq!(old, b"1");
    // Its own change is one, too.
    assert_eq!(read_locked(&mut txn, &db, "b").unwrap(), "2");
    assert!(txn.update(&db.rows, b"b", b"3", Some(&mut old)).unwrap());
    assert_eq!(old, b"2");
    assert!(txn.update(&db.rows, b"b", b"4", Some(&mut old)).unwrap());
    assert_eq!(old, b"3");
    // A read of one key says nothing about another.
    assert_eq!(read_locked(&mut txn, &db, "c").unwrap(), "2");
    assert!(txn.delete(&db.rows, b"a", Some(&mut old)).unwrap());
    assert_eq!(old, b"a much longer value");
    assert_eq!(read_locked(&mut txn, &db, "d"), None);
    txn.insert(&db.rows, b"d", b"new").unwrap();
    let expected = [("aa", "a new neighbour"), ("b", "4"), ("c", "2"), ("d", "new")];
    let expected = expected.map(|(k, v)| (k.to_string(), v.to_string()));
    assert_eq!(scan(&mut txn, &db.rows), expected);
    txn.rollback().unwrap();
    let mut after = db.begin();
    assert_eq!(get(&mut after, &db.rows, "b").unwrap(), "1");
    assert_eq!(get(&mut after, &db.rows, "a").unwrap(), "a much longer value");
    assert_eq!(get(&mut after, &db.rows, "d"), None);
    db.purge();
    db.verify_clean();
}

#[test]
fn the_same_key_of_another_index_is_another_entry() {
    let db = Db::new();
    db.put(&[("a", "row")]);
    let mut txn = db.begin();
    txn.insert(&db.other, b"a", b"other").unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let mut txn = db.at(Isolation::RepeatableRead);
    assert_eq!(read_locked(&mut txn, &db, "a").unwrap(), "row");
    let mut old = Vec::new();
    assert!(txn.update(&db.other, b"a", b"changed", Some(&mut old)).unwrap());
    assert_eq!(old, b"other");
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let mut out = Vec::new();
    let acc = db.store.pool().access(AccessKind::Point);
    assert!(db.rows.tree().get(b"a", &acc, &mut out).unwrap());
    assert!(out.ends_with(b"row"));
}
