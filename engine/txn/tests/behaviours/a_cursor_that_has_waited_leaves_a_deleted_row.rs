//! A locking cursor that has waited for a row, which its holder has deleted, does not keep the lock
//! of what is no row any more: its range keeps the place free. It kept it to the end of the
//! transaction: others that look for the row waited for that, and where the cursor came to a row of
//! one of them, one of the two was the victim of a deadlock.

use std::ops::Bound;

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::session::{Pending, Session};
use crate::common::*;

fn repeatable_read() -> TxnOptions {
    TxnOptions { snapshot_isolation: false, ..TxnOptions::at(Isolation::RepeatableRead) }
}

fn filled<const N: usize>() -> (Db, [Session; N]) {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "b"), ("3", "c")]);
    let sessions = [(); N].map(|()| Session::new(&db, repeatable_read()));
    (db, sessions)
}

fn delete(session: &Session, db: &Db, key: &'static str) -> Pending<bool> {
    let rows = db.rows.clone();
    session.run(move |txn| txn.delete(&rows, key.as_bytes(), None))
}

/// Reads all rows with exclusive locks.
fn read(session: &Session, db: &Db, direction: Direction) -> Pending<Vec<(String, String)>> {
    let rows = db.rows.clone();
    session.run(move |txn| {
        let options = CursorOptions { lock: Some(LockMode::Exclusive), direction, ..CursorOptions::default() };
        scan_with(txn, &rows, Bound::Unbounded, Bound::Unbounded, options)
    })
}

#[test]
fn others_that_look_for_it_do_not_wait() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let (db, [holder, reader]) = filled();
        assert!(delete(&holder, &db, "2").result().unwrap());
        let reading = read(&reader, &db, direction).blocked();
        holder.commit().unwrap();
        assert_eq!(reading.result().unwrap().len(), 2);
        let mut other = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..repeatable_read() });
        let mut lock = |key: &[u8]| other.get_locked(&db.rows, key, LockMode::Exclusive, None, &mut Vec::new());
        assert!(!lock(b"2").unwrap());
        for key in [b"1", b"3"] {
            assert!(is(lock(key), |e| matches!(e, Error::WouldBlock)));
        }
    }
}

#[test]
fn one_that_waits_for_it_and_has_the_next_row_is_in_no_deadlock() {
    let (db, [holder, reader, other]) = filled();
    assert!(other.update("2", "x").result().unwrap());
    assert!(delete(&holder, &db, "1").result().unwrap());
    let reading = read(&reader, &db, Direction::Forward).blocked();
    let deleting = delete(&other, &db, "1").blocked();
    holder.commit().unwrap();
    assert!(!deleting.result().unwrap(), "it is deleted already");
    other.commit().unwrap();
    let expected = [("2", "x"), ("3", "c")].map(|(key, value)| (key.to_string(), value.to_string()));
    assert_eq!(reading.result().unwrap(), expected);
    assert_eq!(db.sys.locks().latest_deadlock(), None);
}
