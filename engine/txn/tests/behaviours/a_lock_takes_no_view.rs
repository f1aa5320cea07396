//! The view of a transaction is taken by its first read without a lock. Changes and locking reads
//! act on newest versions, which no other transaction can change from then on; so whatever the view
//! will be, it sees them or they are the transaction's own.
//!
//! Neither the first change nor the open of a locking cursor takes the view before it waits. Else
//! the awaited commit would come after the waiter's snapshot, and be a conflict although nothing
//! was read before.

use std::ops::Bound;

use holdfast_base::{Error, Result};
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

fn lock_all(txn: &mut Txn, index: &std::sync::Arc<TableIndex>) -> Result<RowCursor> {
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    txn.cursor(index, Bound::Unbounded, Bound::Unbounded, options)
}

fn next(cursor: &mut RowCursor) -> Result<Option<String>> {
    Ok(cursor.next()?.map(|(_, value)| String::from_utf8(value.to_vec()).unwrap()))
}

/// A writer has changed row `b`; the step waits for it, and goes on when it has committed.
fn behind_a_writer<T: Send + 'static>(step: impl FnOnce(&mut Txn, &Db) -> Result<T> + Send + 'static) -> Result<T> {
    let db = std::sync::Arc::new(Db::new());
    db.put(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let (writer, other) = (Session::new(&db, TxnOptions::default()), Session::new(&db, TxnOptions::default()));
    writer.update("b", "2").result().unwrap();
    let of_step = db.clone();
    let waiting = other.run(move |txn| step(txn, &of_step)).blocked();
    writer.commit().unwrap();
    waiting.result()
}

#[test]
fn a_change_that_waited_does_not_conflict() {
    assert!(behind_a_writer(|txn, db| txn.update(&db.rows, b"b", b"3", None)).unwrap());
}

#[test]
fn nor_does_one_that_waited_behind_another_change() {
    let changed = behind_a_writer(|txn, db| {
        txn.update(&db.rows, b"a", b"3", None)?;
        txn.update(&db.rows, b"b", b"3", None)
    });
    assert!(changed.unwrap());
}

#[test]
fn nor_does_a_locking_cursor_that_waited() {
    let read = behind_a_writer(|txn, db| {
        let mut cursor = lock_all(txn, &db.rows)?;
        let mut values = Vec::new();
        while let Some(value) = next(&mut cursor)? {
            values.push(value);
        }
        Ok(values)
    });
    assert_eq!(read.unwrap(), ["1", "2", "1"]);
}

#[test]
fn a_locking_cursor_meets_the_view_that_there_is() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1")]);
    let mut txn = db.begin();
    assert_eq!(get(&mut txn, &db.other, "none"), None);
    db.put(&[("b", "2")]);
    let mut cursor = lock_all(&mut txn, &db.rows).unwrap();
    assert_eq!(next(&mut cursor).unwrap().unwrap(), "1");
    assert!(is(next(&mut cursor), |e| matches!(e, Error::Conflict)));
}

#[test]
fn a_view_that_is_taken_while_a_locking_cursor_is_open_holds_for_it() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1")]);
    let mut txn = db.begin();
    let mut cursor = lock_all(&mut txn, &db.rows).unwrap();
    assert_eq!(next(&mut cursor).unwrap().unwrap(), "1");
    assert_eq!(get(&mut txn, &db.other, "none"), None);
    db.put(&[("b", "2")]);
    assert!(is(next(&mut cursor), |e| matches!(e, Error::Conflict)));
}

#[test]
fn what_a_change_did_not_find_stays_absent() {
    let db = Db::new();
    let mut txn = db.begin();
    assert!(!txn.update(&db.rows, b"a", b"1", None).unwrap());
    db.put(&[("a", "2")]);
    assert_eq!(get(&mut txn, &db.rows, "a"), None);
    assert!(is(txn.update(&db.rows, b"a", b"1", None), |e| matches!(e, Error::Conflict)));
}
