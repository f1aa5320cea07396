//! While a transaction waits, whatever for, what its cursors have read stays locked, and what lies
//! ahead of them is open. It was kept locked while the transaction waited for the row that an entry
//! leads to, or for one of another table: the holder of that row could not insert there, and one of
//! the two was the victim of a deadlock.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{Error, Result};
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

fn repeatable_read() -> TxnOptions {
    TxnOptions { snapshot_isolation: false, ..TxnOptions::at(Isolation::RepeatableRead) }
}

fn sessions<const N: usize>(db: &Db) -> [Session; N] {
    [(); N].map(|()| Session::new(db, repeatable_read()))
}

/// A locking cursor over all of an index.
fn cursor(txn: &mut Txn, index: &Arc<TableIndex>, direction: Direction) -> Result<RowCursor> {
    let options = CursorOptions { lock: Some(LockMode::Exclusive), direction, ..CursorOptions::default() };
    txn.cursor(index, Bound::Unbounded, Bound::Unbounded, options)
}

fn next(cursor: &mut RowCursor) -> Result<Option<String>> {
    Ok(cursor.next()?.map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()))
}

fn rest(cursor: &mut RowCursor) -> Result<Vec<String>> {
    std::iter::from_fn(|| next(cursor).transpose()).collect()
}

fn lock(txn: &mut Txn, index: &TableIndex, key: &str) -> Result<bool> {
    txn.get_locked(index, key.as_bytes(), LockMode::Exclusive, None, &mut Vec::new())
}

/// True if a transaction that waits for nothing can insert `key`.
fn may_insert(db: &Db, index: &TableIndex, key: &str) -> bool {
    let mut txn = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..repeatable_read() });
    let inserted = txn.insert(index, key.as_bytes(), b"x");
    txn.rollback().unwrap();
    !is(inserted, |e| matches!(e, Error::WouldBlock))
}

/// Rows 1 to 3, and entries that lead to them.
fn filled() -> Db {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "b"), ("3", "c")]);
    db.commit(|txn| ["1", "2", "3"].iter().for_each(|key| txn.insert(&db.entries, key.as_bytes(), b"").unwrap()));
    db
}

#[test]
fn while_it_waits_for_the_row_behind_an_entry() {
    let forward = (Direction::Forward, ("15", "25"), ["1", "2", "3", "5"].as_slice());
    let reverse = (Direction::Reverse, ("25", "15"), ["3", "2", "15", "1"].as_slice());
    for (direction, (read, ahead), expected) in [forward, reverse] {
        let db = filled();
        let [holder, reader] = sessions(&db);
        assert!(holder.update("2", "x").result().unwrap());
        let (rows, entries) = (db.rows.clone(), db.entries.clone());
        let reading = reader.run(move |txn| {
            let (mut found, mut cursor) = (Vec::new(), cursor(txn, &entries, direction)?);
            while let Some(key) = next(&mut cursor)? {
                lock(txn, &rows, &key)?;
                found.push(key);
            }
            Ok(found)
        });
        let reading = reading.blocked();
        assert!(!may_insert(&db, &db.entries, read) && may_insert(&db, &db.entries, ahead));
        let (entries, new) = (db.entries.clone(), if direction == Direction::Forward { "5" } else { ahead });
        holder.run(move |txn| txn.insert(&entries, new.as_bytes(), b"")).result().unwrap();
        assert!(!may_insert(&db, &db.entries, read));
        holder.commit().unwrap();
        assert_eq!(reading.result().unwrap(), expected, "it goes on behind what it had read");
        assert!(["0", "15", "25", "9"].iter().all(|key| *key == new || !may_insert(&db, &db.entries, key)));
        reader.commit().unwrap();
        assert!(may_insert(&db, &db.entries, "9"));
        assert_eq!((db.sys.locks().memory(), db.sys.locks().latest_deadlock()), (0, None));
    }
}

#[test]
fn all_cursors_of_the_transaction_do_so() {
    let db = filled();
    let [holder, reader] = sessions(&db);
    let other = db.other.clone();
    holder.run(move |txn| txn.insert(&other, b"k", b"")).result().unwrap();
    let (rows, entries, other) = (db.rows.clone(), db.entries.clone(), db.other.clone());
    let reading = reader.run(move |txn| {
        let mut outer = cursor(txn, &rows, Direction::Forward)?;
        let mut ended = cursor(txn, &rows, Direction::Forward)?;
        assert_eq!(rest(&mut ended)?.len(), 3);
        assert!(outer.next()?.is_some());
        let mut unread = cursor(txn, &entries, Direction::Forward)?;
        let mut last = cursor(txn, &other, Direction::Reverse)?;
        assert_eq!(next(&mut last)?.as_deref(), Some("k"), "after a wait");
        Ok((rest(&mut outer)?, rest(&mut unread)?))
    });
    let reading = reading.blocked();
    assert!(!may_insert(&db, &db.rows, "9"), "one has read all");
    assert!(may_insert(&db, &db.entries, "0"), "one has read nothing");
    let (entries, other) = (db.entries.clone(), db.other.clone());
    holder.run(move |txn| txn.insert(&entries, b"0", b"")).result().unwrap();
    holder.run(move |txn| txn.insert(&other, b"a", b"")).result().unwrap();
    holder.commit().unwrap();
    let (outer, unread) = reading.result().unwrap();
    assert_eq!(
        (outer.as_slice(), unread.as_slice()),
        (["2", "3"].map(String::from).as_slice(), ["0", "1", "2", "3"].map(String::from).as_slice())
    );
    assert!(!may_insert(&db, &db.entries, "9") && !may_insert(&db, &db.other, "z") && may_insert(&db, &db.other, "j"));
}

/// The holder of a range and the transaction that waits to insert there.
#[test]
fn while_it_waits_to_insert() {
    let db = filled();
    let [holder, reader] = sessions(&db);
    let other = db.other.clone();
    holder.run(move |txn| rest(&mut cursor(txn, &other, Direction::Forward)?)).result().unwrap();
    let (rows, other) = (db.rows.clone(), db.other.clone());
    let reading = reader.run(move |txn| {
        let mut cursor = cursor(txn, &rows, Direction::Forward)?;
        assert!(cursor.next()?.is_some());
        txn.insert(&other, b"k", b"")?;
        rest(&mut cursor)
    });
    let reading = reading.blocked();
    holder.insert("25", "x").result().unwrap();
    holder.commit().unwrap();
    assert_eq!(reading.result().unwrap(), ["2", "25", "3"]);
}

/// A cursor that is closed after the wait has read as much as before.
#[test]
fn what_it_had_read_is_all_that_stays_locked_if_it_does_not_go_on() {
    let db = filled();
    let [holder, reader] = sessions(&db);
    assert!(holder.update("2", "x").result().unwrap());
    let (rows, entries) = (db.rows.clone(), db.entries.clone());
    let reading = reader.run(move |txn| {
        let (mut cursor, mut unread) =
            (cursor(txn, &entries, Direction::Forward)?, cursor(txn, &entries, Direction::Reverse)?);
        assert!(cursor.next()?.is_some() && cursor.next()?.is_some());
        lock(txn, &rows, "2")?;
        drop(cursor);
        Ok(unread.next().map(drop))
    });
    let reading = reading.blocked();
    holder.commit().unwrap();
    reading.result().unwrap().unwrap();
    for (key, is_free) in [("0", false), ("15", false), ("25", true), ("9", false)] {
        assert_eq!(may_insert(&db, &db.entries, key), is_free, "{key}");
    }
}

/// A row that was inserted ahead of a cover is locked as those under it.
#[test]
fn a_row_that_comes_ahead_of_a_cover_is_locked() {
    let db = Db::new();
    let keys: Vec<String> = (0..300).map(|n| format!("{n:05}")).collect();
    db.put(&keys.iter().map(|key| (key.as_str(), "0")).collect::<Vec<_>>());
    let [holder, reader] = sessions(&db);
    let other = db.other.clone();
    holder.run(move |txn| txn.insert(&other, b"k", b"")).result().unwrap();
    let (rows, other) = (db.rows.clone(), db.other.clone());
    let reading = reader.run(move |txn| {
        let mut cursor = cursor(txn, &rows, Direction::Forward)?;
        (0..150).for_each(|_| drop(cursor.next().unwrap().unwrap().0.to_vec()));
        lock(txn, &other, "k")?;
        rest(&mut cursor)
    });
    let reading = reading.blocked();
    holder.insert("00149+", "x").result().unwrap();
    holder.commit().unwrap();
    let found = reading.result().unwrap();
    assert_eq!((found.len(), found[0].as_str()), (151, "00149+"));
    let mut third = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..repeatable_read() });
    for key in ["00149", "00149+", "00150", "00299"] {
        assert!(is(third.update(&db.rows, key.as_bytes(), b"1", None), |e| matches!(e, Error::WouldBlock)), "{key}");
    }
}

/// A LIMIT that is just reached says nothing of what lies behind the last row.
#[test]
fn a_cursor_that_was_not_asked_for_the_end_leaves_it_open() {
    for (direction, (read, ahead)) in [(Direction::Forward, ("25", "4")), (Direction::Reverse, ("15", "0"))] {
        let db = filled();
        let mut txn = db.sys.begin(repeatable_read());
        let mut rows = cursor(&mut txn, &db.rows, direction).unwrap();
        (0..3).for_each(|_| assert!(next(&mut rows).unwrap().is_some()));
        drop(rows);
        assert!(!may_insert(&db, &db.rows, read) && may_insert(&db, &db.rows, ahead));
        let mut rows = cursor(&mut txn, &db.rows, direction).unwrap();
        assert_eq!(rest(&mut rows).unwrap().len(), 3);
        drop(rows);
        assert!(!may_insert(&db, &db.rows, ahead));
        txn.rollback().unwrap();
    }
}
