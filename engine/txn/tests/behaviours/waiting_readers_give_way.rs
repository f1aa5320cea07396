//! A locking reader that waits for an entry keeps others out of what it has read, not of what it
//! has yet to read.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{Error, Result};
use holdfast_txn::*;

use crate::common::session::{Pending, Session};
use crate::common::*;

fn options() -> TxnOptions {
    TxnOptions { snapshot_isolation: false, ..TxnOptions::at(Isolation::RepeatableRead) }
}

/// The keys that a cursor with exclusive locks gives, `most` at most.
fn read(txn: &mut Txn, rows: &Arc<TableIndex>, direction: Direction, most: usize) -> Result<Vec<String>> {
    let options = CursorOptions { direction, lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let mut cursor = txn.cursor(rows, Bound::Unbounded, Bound::Unbounded, options)?;
    let mut keys = Vec::new();
    while keys.len() < most
        && let Some((key, _)) = cursor.next()?
    {
        keys.push(String::from_utf8(key.to_vec()).unwrap());
    }
    Ok(keys)
}

fn start(session: &Session, db: &Db, direction: Direction, most: usize) -> Pending<Vec<String>> {
    let rows = db.rows.clone();
    session.run(move |txn| read(txn, &rows, direction, most))
}

/// `SELECT MAX(id) ... FOR UPDATE` and `INSERT` of the next one, by many: each waiter had its range
/// registered, so the holder of the row could not insert; all but one were deadlock victims, and
/// began anew at once. None got through.
#[test]
fn who_has_the_greatest_key_inserts_the_next_before_those_who_wait_for_it() {
    let db = Db::new();
    db.put(&[("1", "")]);
    let sessions: Vec<Session> = (0..5).map(|_| Session::new(&db, options())).collect();
    let [first, others @ ..] = &sessions[..] else { unreachable!() };
    assert_eq!(start(first, &db, Direction::Reverse, 1).result().unwrap(), ["1"]);
    let waiting: Vec<_> = others.iter().map(|other| start(other, &db, Direction::Reverse, 1).blocked()).collect();
    first.insert("2", "").result().unwrap();
    first.commit().unwrap();
    let keys = ["2", "3", "4", "5", "6"];
    for ((session, reading), keys) in others.iter().zip(waiting).zip(keys.windows(2)) {
        assert_eq!(reading.result().unwrap(), [keys[0]]);
        session.insert(keys[1], "").result().unwrap();
        session.commit().unwrap();
    }
    assert_eq!(db.sys.locks().latest_deadlock(), None);
    assert_eq!(db.sys.locks().memory(), 0);
}

#[test]
fn what_was_read_is_kept_and_the_rest_is_read_when_the_wait_is_over() {
    let db = Db::new();
    db.put(&[("1", ""), ("3", ""), ("5", ""), ("7", "")]);
    let (holder, reader) = (Session::new(&db, options()), Session::new(&db, options()));
    holder.update("5", "mine").result().unwrap();
    let reading = start(&reader, &db, Direction::Forward, 9).blocked();
    for key in ["4", "6", "9"] {
        holder.insert(key, "").result().unwrap();
    }
    // There it has to wait for one that waits for it: the reader has less to lose.
    let inserting = holder.insert("2", "");
    assert!(is(reading.result(), |e| matches!(e, Error::Deadlock)));
    reader.run(|txn| txn.rollback()).result().unwrap();
    inserting.result().unwrap();
    let again = Session::new(&db, options());
    let reading = start(&again, &db, Direction::Forward, 9).blocked();
    holder.commit().unwrap();
    assert_eq!(reading.result().unwrap(), ["1", "2", "3", "4", "5", "6", "7", "9"]);
    // Now all of it is kept.
    let late = Session::new(&db, TxnOptions { wait: Some(LockWait::NoWait), ..options() });
    for key in ["0", "35", "8", "99"] {
        assert!(is(late.insert(key, "").result(), |e| matches!(e, Error::WouldBlock)), "{key}");
    }
    again.commit().unwrap();
    late.insert("8", "").result().unwrap();
}

#[test]
fn a_row_that_is_passed_over_is_not_locked() {
    let db = Db::new();
    db.put(&[("1", ""), ("2", "")]);
    let (mut writer, mut other) = (db.begin(), db.sys.begin(options()));
    writer.update(&db.rows, b"1", b"changed", None).unwrap();
    let skip =
        CursorOptions { lock: Some(LockMode::Exclusive), wait: Some(LockWait::SkipLocked), ..CursorOptions::default() };
    let rows = scan_with(&mut other, &db.rows, Bound::Unbounded, Bound::Unbounded, skip).unwrap();
    assert_eq!(rows, [("2".to_string(), String::new())]);
    writer.commit(FlushAtCommit::Lazy).unwrap();
    let mut third = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..options() });
    assert!(third.update(&db.rows, b"1", b"again", None).unwrap());
}

/// Of the key of a row that is gone nothing is wanted, also while purge has left the row there.
#[test]
fn a_reader_waits_for_no_lock_of_a_row_that_is_gone() {
    let db = Db::new();
    db.put(&[("a", ""), ("gone", ""), ("z", "")]);
    let mut old = db.begin();
    assert!(get(&mut old, &db.rows, "gone").is_some(), "purge keeps what this view sees");
    let mut deleter = db.begin();
    assert!(deleter.delete(&db.rows, b"gone", None).unwrap());
    deleter.commit(FlushAtCommit::Lazy).unwrap();
    let mut looker = db.sys.begin(options());
    let found = looker.get_locked(&db.rows, b"gone", LockMode::Shared, None, &mut Vec::new()).unwrap();
    assert!(!found && looker.holds_locks(), "it keeps the key free");
    let no_wait = TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::at(Isolation::ReadCommitted) };
    let mut without_range = db.sys.begin(no_wait);
    assert_eq!(read(&mut without_range, &db.rows, Direction::Forward, 9).unwrap().len(), 2);
    drop(without_range);
    let mut reader = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..options() });
    for direction in [Direction::Forward, Direction::Reverse] {
        assert_eq!(read(&mut reader, &db.rows, direction, 9).unwrap().len(), 2);
    }
    drop(looker);
    let mut inserter = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..options() });
    assert!(matches!(inserter.insert(&db.rows, b"gone", b""), Err(Error::WouldBlock)), "the reader keeps it free, too");
}
