//! A locking cursor that has gone through many rows holds one lock over them, which is to others as
//! one on each row.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::session::{Pending, Session};
use crate::common::*;

const ROWS: u64 = 300;
/// More of them than a cursor locks one by one.
const READ: usize = 200;

fn key(n: u64) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

fn filled() -> Db {
    let db = Db::new();
    let mut load = db.begin();
    for n in 0..ROWS {
        load.insert(&db.rows, &key(n), b"0").unwrap();
    }
    load.commit(FlushAtCommit::Lazy).unwrap();
    db
}

fn plain(isolation: Isolation) -> TxnOptions {
    TxnOptions { snapshot_isolation: false, ..TxnOptions::at(isolation) }
}

fn locking(lock: LockMode) -> CursorOptions {
    CursorOptions { lock: Some(lock), ..CursorOptions::default() }
}

fn cursor(db: &Db, txn: &mut Txn, options: CursorOptions) -> RowCursor {
    txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap()
}

fn lock(db: &Db, txn: &mut Txn, n: u64, mode: LockMode, wait: LockWait) -> holdfast_base::Result<bool> {
    txn.get_locked(&db.rows, &key(n), mode, Some(wait), &mut Vec::new())
}

fn is_locked(db: &Db, n: u64, mode: LockMode) -> bool {
    let mut other = db.sys.begin(plain(Isolation::ReadCommitted));
    let got = lock(db, &mut other, n, mode, LockWait::NoWait);
    other.rollback().unwrap();
    is(got, |e| matches!(e, Error::WouldBlock))
}

#[test]
fn rows_that_were_read_are_locked_and_no_others() {
    for (mode, direction) in [
        (LockMode::Exclusive, Direction::Forward),
        (LockMode::Shared, Direction::Forward),
        (LockMode::Exclusive, Direction::Reverse),
    ] {
        let db = filled();
        let mut reader = db.sys.begin(plain(Isolation::RepeatableRead));
        let mut rows = cursor(&db, &mut reader, CursorOptions { direction, ..locking(mode) });
        (0..READ).for_each(|_| drop(rows.next().unwrap().unwrap().0.to_vec()));
        assert!(db.sys.locks().locks().len() < READ / 2, "one for many");
        for n in 0..ROWS {
            let nth = if direction == Direction::Forward { n } else { ROWS - 1 - n };
            let was_read = nth < READ as u64;
            assert_eq!(is_locked(&db, n, LockMode::Exclusive), was_read, "{mode:?} {direction:?} {n}");
            assert_eq!(is_locked(&db, n, LockMode::Shared), was_read && mode == LockMode::Exclusive);
        }
        drop(rows);
        assert!(is_locked(&db, ROWS / 2, LockMode::Exclusive), "a lock stays until the end of the transaction");
        reader.rollback().unwrap();
        assert!(!is_locked(&db, ROWS / 2, LockMode::Exclusive) && db.sys.locks().locks().is_empty());
        assert_eq!(db.sys.locks().memory(), 0);
    }
}

/// As beside locks of single rows: the rows are there and stay.
#[test]
fn an_insert_of_a_key_that_is_shared_is_refused_at_once() {
    let db = filled();
    let mut reader = db.sys.begin(plain(Isolation::RepeatableRead));
    let mut rows = cursor(&db, &mut reader, locking(LockMode::Shared));
    (0..READ).for_each(|_| drop(rows.next().unwrap().unwrap().0.to_vec()));
    let mut writer = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..plain(Isolation::RepeatableRead) });
    for n in [1, READ as u64 - 1] {
        assert!(is(writer.insert(&db.rows, &key(n), b"1"), |e| matches!(e, Error::DuplicateKey)), "{n}");
        assert!(is(writer.update(&db.rows, &key(n), b"1", None), |e| matches!(e, Error::WouldBlock)), "{n}");
    }
}

#[test]
fn who_waits_for_such_a_row_gets_it_at_the_end() {
    let db = filled();
    let mut reader = db.sys.begin(plain(Isolation::RepeatableRead));
    let mut rows = cursor(&db, &mut reader, locking(LockMode::Shared));
    while rows.next().unwrap().is_some() {}
    let writer = Session::new(&db, plain(Isolation::RepeatableRead));
    let update = writer.update("00150", "1").blocked();
    assert!(is_locked(&db, 150, LockMode::Shared), "there is a line");
    drop(rows);
    reader.commit(FlushAtCommit::Lazy).unwrap();
    assert!(update.result().unwrap());
    writer.commit().unwrap();
    assert_eq!(get(&mut db.begin(), &db.rows, "00150").as_deref(), Some("1"));
}

/// Reads all rows with a lock; those that are not "0".
fn scan(session: &Session, db: &Db) -> Pending<Vec<(String, String)>> {
    let rows = Arc::clone(&db.rows);
    session.run(move |txn| {
        let mut found = scan_with(txn, &rows, Bound::Unbounded, Bound::Unbounded, locking(LockMode::Exclusive))?;
        assert_eq!(found.len() as u64, ROWS);
        found.retain(|(_, value)| value != "0");
        Ok(found)
    })
}

#[test]
fn a_scan_waits_where_somebody_has_a_row_and_reads_what_he_leaves() {
    for commits in [true, false] {
        let db = filled();
        let [mut writer, mut holder] = [(); 2].map(|()| db.sys.begin(plain(Isolation::RepeatableRead)));
        assert!(writer.update(&db.rows, &key(150), b"1", None).unwrap());
        assert!(lock(&db, &mut holder, 250, LockMode::Shared, LockWait::NoWait).unwrap());
        let scanner = Session::new(&db, plain(Isolation::RepeatableRead));
        let pending = scan(&scanner, &db).blocked();
        assert!(is_locked(&db, 149, LockMode::Shared) && !is_locked(&db, 151, LockMode::Exclusive));
        if commits {
            writer.commit(FlushAtCommit::Lazy).unwrap()
        } else {
            writer.rollback().unwrap()
        };
        while !is_locked(&db, 249, LockMode::Shared) {
            std::thread::yield_now();
        }
        let pending = pending.blocked();
        assert!(is_locked(&db, 150, LockMode::Shared) && !is_locked(&db, 251, LockMode::Exclusive));
        holder.rollback().unwrap();
        assert_eq!(pending.result().unwrap().len(), usize::from(commits));
        scanner.commit().unwrap();
    }
}

#[test]
fn a_deadlock_with_a_scan_is_found() {
    let db = filled();
    let [writer, scanner] = [(); 2].map(|()| Session::new(&db, plain(Isolation::RepeatableRead)));
    assert!(writer.update("00250", "1").result().unwrap());
    let rows = Arc::clone(&db.rows);
    let is_victim = |result: holdfast_base::Result<bool>, txn: &mut Txn| match result {
        Err(Error::Deadlock) => txn.rollback().map(|()| true),
        result => result.map(|_| false),
    };
    let scan = scanner.run(move |txn| {
        let all = scan_with(txn, &rows, Bound::Unbounded, Bound::Unbounded, locking(LockMode::Exclusive));
        is_victim(all.map(|_| true), txn)
    });
    let rows = Arc::clone(&db.rows);
    let scan = scan.blocked();
    let update = writer.run(move |txn| {
        let updated = txn.update(&rows, &key(100), b"1", None);
        is_victim(updated, txn)
    });
    assert!(update.result().unwrap() != scan.result().unwrap(), "one is the victim");
}

#[test]
fn scans_share_what_can_be_shared() {
    let db = filled();
    let [mut a, mut b] = [(); 2].map(|()| db.sys.begin(plain(Isolation::RepeatableRead)));
    let mut scans = [cursor(&db, &mut a, locking(LockMode::Shared)), cursor(&db, &mut b, locking(LockMode::Shared))];
    for _ in 0..READ {
        scans.iter_mut().for_each(|scan| assert!(scan.next().unwrap().is_some()));
    }
    let nowait = CursorOptions { wait: Some(LockWait::NoWait), ..locking(LockMode::Exclusive) };
    let mut c = db.sys.begin(plain(Isolation::RepeatableRead));
    assert!(is(cursor(&db, &mut c, nowait).next().map(drop), |e| matches!(e, Error::WouldBlock)));
    assert!(is_locked(&db, 150, LockMode::Exclusive));
    drop(scans);
    a.rollback().unwrap();
    assert!(is_locked(&db, 150, LockMode::Exclusive), "b has it still");
    b.rollback().unwrap();
    assert!(!is_locked(&db, 150, LockMode::Exclusive));
}

/// Transactions add one to all rows, in either direction, or to single ones. If two were ever at
/// the same row together, one addition would be lost.
#[test]
fn no_addition_is_lost() {
    let db = Arc::new(filled());
    let added = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let (db, added) = (Arc::clone(&db), Arc::clone(&added));
            std::thread::spawn(move || {
                for round in 0..40 {
                    while let Err(e) = add(&db, thread, round).map(|n| added.fetch_add(n, Ordering::Relaxed)) {
                        assert!(matches!(e, Error::Deadlock), "{e}");
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut reader = db.begin();
    let (mut rows, mut sum) = (cursor(&db, &mut reader, CursorOptions::default()), 0);
    while let Some((_, value)) = rows.next().unwrap() {
        sum += number(value);
    }
    assert_eq!(sum, added.load(Ordering::Relaxed));
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// A transaction; returns how many additions it made.
fn add(db: &Db, thread: u64, round: u64) -> holdfast_base::Result<u64> {
    let mut txn = db.sys.begin(plain(Isolation::RepeatableRead));
    let plus_one = |value: &[u8]| (number(value) + 1).to_string().into_bytes();
    let mut added = 0;
    if (thread + round).is_multiple_of(3) {
        let direction = if round.is_multiple_of(2) { Direction::Forward } else { Direction::Reverse };
        let options = CursorOptions { direction, ..locking(LockMode::Exclusive) };
        let mut rows = cursor(db, &mut txn, options);
        while let Some((key, value)) = rows.next()? {
            let (key, value) = (key.to_vec(), plus_one(value));
            txn.update(&db.rows, &key, &value[..], None)?;
            added += 1;
        }
    } else {
        let mut value = Vec::new();
        for step in 0..8 {
            let key = key((thread * 31 + round * 17 + step * 61) % ROWS);
            txn.get_locked(&db.rows, &key, LockMode::Exclusive, None, &mut value)?;
            txn.update(&db.rows, &key, &plus_one(&value)[..], None)?;
            added += 1;
        }
    }
    txn.commit(FlushAtCommit::Lazy)?;
    Ok(added)
}
