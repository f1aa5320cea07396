//! A locking cursor of READ COMMITTED, which has no range that keeps others out, reads entries
//! ahead. When it has waited, or finds an entry gone by a transaction that has committed meanwhile,
//! it reads on in the index as it is now: a row that this transaction has moved forwards is not
//! left out.

use std::ops::Bound;
use std::sync::mpsc::channel;

use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::{session, *};

fn locking() -> CursorOptions {
    CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() }
}

/// All keys, behind each of which `then` does something.
fn read(db: &Db, session: &Session, then: impl Fn(&mut Txn, &str) + Send + 'static) -> session::Pending<Vec<String>> {
    let rows = db.rows.clone();
    session.run(move |txn| {
        let mut cursor = txn.cursor(&rows, Bound::Unbounded, Bound::Unbounded, locking())?;
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.next()? {
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            then(txn, &keys[keys.len() - 1]);
        }
        Ok(keys)
    })
}

fn move_entry(txn: &mut Txn, index: &std::sync::Arc<TableIndex>, from: &str, to: &str) {
    assert!(txn.delete(index, from.as_bytes(), None).unwrap());
    txn.insert(index, to.as_bytes(), b"").unwrap();
}

#[test]
fn behind_an_entry_that_it_has_waited_for() {
    let db = Db::new();
    db.put(&[("1", ""), ("5", "")]);
    let [holder, reader] = [(); 2].map(|()| Session::new(&db, TxnOptions::at(Isolation::ReadCommitted)));
    let rows = db.rows.clone();
    holder.run(move |txn| Ok(txn.delete(&rows, b"1", None).unwrap())).result().unwrap();
    let reading = read(&db, &reader, |_, _| {}).blocked();
    holder.insert("3", "").result().unwrap();
    holder.commit().unwrap();
    assert_eq!(reading.result().unwrap(), ["3", "5"]);
}

#[test]
fn behind_an_entry_whose_row_it_has_waited_for() {
    let db = Db::new();
    db.put(&[("1", ""), ("5", ""), ("7", "")]);
    db.commit(|txn| txn.insert(&db.other, b"row", b"").unwrap());
    let [holder, reader] = [(); 2].map(|()| Session::new(&db, TxnOptions::at(Isolation::ReadCommitted)));
    let other = db.other.clone();
    holder.run(move |txn| Ok(txn.update(&other, b"row", b"mine", None).unwrap())).result().unwrap();
    let other = db.other.clone();
    let reading = read(&db, &reader, move |txn, key| {
        if key == "1" {
            txn.get_locked(&other, b"row", LockMode::Exclusive, None, &mut Vec::new()).unwrap();
        }
    });
    let reading = reading.blocked();
    let rows = db.rows.clone();
    let moving = holder.run(move |txn| {
        move_entry(txn, &rows, "7", "3");
        Ok(())
    });
    moving.result().unwrap();
    holder.commit().unwrap();
    assert_eq!(reading.result().unwrap(), ["1", "3", "5"]);
}

#[test]
fn behind_an_entry_that_has_gone_without_a_wait() {
    let db = Db::new();
    db.put(&[("1", ""), ("5", ""), ("7", "")]);
    let reader = Session::new(&db, TxnOptions::at(Isolation::ReadCommitted));
    let ((at_first, is_at_first), (go_on, goes_on)) = (channel(), channel());
    let reading = read(&db, &reader, move |_, key| {
        if key == "1" {
            at_first.send(()).unwrap();
            goes_on.recv().unwrap();
        }
    });
    is_at_first.recv().unwrap();
    db.commit(|txn| move_entry(txn, &db.rows, "5", "6"));
    go_on.send(()).unwrap();
    assert_eq!(reading.result().unwrap(), ["1", "6", "7"]);
}

/// The entry was given as it was committed last, since another transaction had it locked; by the
/// time that the caller asked for its lock, that transaction had committed.
#[test]
fn behind_an_entry_that_was_given_without_a_lock_and_has_gone() {
    let db = Db::new();
    db.put(&[("1", ""), ("5", ""), ("7", "")]);
    let (mut holder, mut reader) = (db.at(Isolation::ReadCommitted), db.at(Isolation::ReadCommitted));
    assert!(holder.delete(&db.rows, b"5", None).unwrap());
    let options = CursorOptions { committed_if_locked: true, ..locking() };
    let mut cursor = reader.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
    for key in [b"1", b"5"] {
        assert_eq!(cursor.next().unwrap().unwrap().0, key);
    }
    assert!(cursor.is_given_unlocked());
    holder.insert(&db.rows, b"6", b"").unwrap();
    holder.commit(FlushAtCommit::Lazy).unwrap();
    assert!(cursor.lock_given().unwrap().is_none());
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(key.to_vec());
    }
    assert_eq!(keys, [b"6", b"7"]);
}
