//! A locking cursor outlived its transaction. It waited for a row, and got a lock that nothing
//! released any more: all later writers of the row timed out, until the database was opened again.

use std::ops::Bound;
use std::time::Duration;

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

fn options() -> TxnOptions {
    TxnOptions { wait: Some(LockWait::For(Duration::from_secs(60))), ..TxnOptions::default() }
}

fn cursor(db: &Db, txn: &mut Txn) -> RowCursor {
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap()
}

/// True if a transaction that waits for nothing can change the row.
fn is_free(db: &Db, key: &str) -> bool {
    let mut txn = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::default() });
    let updated = txn.update(&db.rows, key.as_bytes(), b"x", None);
    txn.rollback().unwrap();
    !is(updated, |e| matches!(e, Error::WouldBlock))
}

fn filled() -> Db {
    let db = Db::new();
    let rows: Vec<_> = (0..200).map(|n| (format!("row{n:03}"), "value")).collect();
    db.put(&rows.iter().map(|(key, value)| (key.as_str(), *value)).collect::<Vec<_>>());
    db
}

/// A transaction that holds the second row, and a cursor of another one, which has read nothing.
fn beside_a_holder() -> (Db, Session, Txn, RowCursor) {
    let db = filled();
    let holder = Session::new(&db, options());
    holder.update("row001", "held").result().unwrap();
    let mut txn = db.sys.begin(options());
    let cursor = cursor(&db, &mut txn);
    (db, holder, txn, cursor)
}

#[test]
fn when_it_comes_to_a_row_that_another_holds() {
    let (db, holder, mut ended, mut cursor) = beside_a_holder();
    ended.commit(FlushAtCommit::Lazy).unwrap();
    for _ in 0..3 {
        assert!(is(cursor.next().map(drop), |e| matches!(e, Error::Closed(_))));
    }
    holder.commit().unwrap();
    assert!(is_free(&db, "row000") && is_free(&db, "row001"));
}

#[test]
fn when_it_waits_while_the_transaction_ends() {
    let (db, holder, mut ended, mut cursor) = beside_a_holder();
    assert!(cursor.next().unwrap().is_some_and(|(key, _)| key == b"row000"));
    let waiter = std::thread::spawn(move || {
        let waited = cursor.next().map(drop);
        (waited, cursor)
    });
    while !db.sys.transactions().iter().any(|txn| txn.waiting.is_some()) {
        std::thread::yield_now();
    }
    ended.commit(FlushAtCommit::Lazy).unwrap();
    let (waited, cursor) = waiter.join().unwrap();
    assert!(is(waited, |e| matches!(e, Error::Closed(_))));
    holder.commit().unwrap();
    assert!(is_free(&db, "row000") && is_free(&db, "row001"));
    drop(cursor);
}
