//! Row locks as transactions meet them: waiting for a writer's implicit lock, NOWAIT, SKIP LOCKED,
//! kill, deadlock, listings.

use std::ops::Bound;
use std::time::Duration;

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

fn rc() -> TxnOptions {
    TxnOptions::at(Isolation::ReadCommitted)
}

#[test]
fn skip_locked_passes_over_rows_of_others() {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "b"), ("3", "c")]);
    let (mut t1, mut t2) = (db.sys.begin(rc()), db.sys.begin(rc()));
    let mut value = Vec::new();
    assert!(t1.get_locked(&db.rows, b"1", LockMode::Exclusive, None, &mut value).unwrap());
    t1.update(&db.rows, b"2", b"B", None).unwrap();
    let skip =
        CursorOptions { lock: Some(LockMode::Exclusive), wait: Some(LockWait::SkipLocked), ..CursorOptions::default() };
    let rows = scan_with(&mut t2, &db.rows, Bound::Unbounded, Bound::Unbounded, skip).unwrap();
    assert_eq!(rows, [("3".to_string(), "c".to_string())]);
    let nowait = |t: &mut Txn, key: &[u8]| {
        let mut value = Vec::new();
        t.get_locked(&db.rows, key, LockMode::Shared, Some(LockWait::NoWait), &mut value)
    };
    assert!(is(nowait(&mut t2, b"1"), |e| matches!(e, Error::WouldBlock)));
    assert!(is(nowait(&mut t2, b"2"), |e| matches!(e, Error::WouldBlock)));
    t1.rollback().unwrap();
    assert!(nowait(&mut t2, b"1").unwrap() && nowait(&mut t2, b"2").unwrap());
}

#[test]
fn a_timeout_leaves_the_transaction_alive() {
    let db = Db::new();
    db.put(&[("1", "a")]);
    let mut t1 = db.begin();
    t1.update(&db.rows, b"1", b"b", None).unwrap();
    let wait = Some(LockWait::For(Duration::from_millis(2)));
    let mut t2 = db.sys.begin(TxnOptions { wait, ..rc() });
    assert!(is(t2.update(&db.rows, b"1", b"c", None), |e| matches!(e, Error::LockTimeout)));
    t2.insert(&db.rows, b"2", b"x").unwrap();
    t1.commit(FlushAtCommit::Sync).unwrap();
    assert!(t2.update(&db.rows, b"1", b"c", None).unwrap());
    t2.commit(FlushAtCommit::Sync).unwrap();
    assert!(db.sys.locks().locks().is_empty());
}

#[test]
fn a_deadlock_is_broken_and_reported() {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "b")]);
    let (t1, t2) = (Session::new(&db, rc()), Session::new(&db, rc()));
    t1.update("1", "x").result().unwrap();
    t1.insert("9", "x").result().unwrap();
    t2.update("2", "y").result().unwrap();
    let waiting = t1.update("2", "x").blocked();
    let waits = db.sys.locks().waits();
    assert_eq!(waits.len(), 1);
    // t2 has fewer undo records, so it is the victim.
    assert!(is(t2.update("1", "y").result(), |e| matches!(e, Error::Deadlock)));
    t2.rollback();
    assert!(waiting.result().unwrap());
    t1.commit().unwrap();
    let report = db.sys.locks().latest_deadlock().unwrap();
    assert_eq!(
        report.cycle.iter().map(|p| (p.serial == report.victim, p.undo_records)).collect::<Vec<_>>(),
        [(true, 1), (false, 2)]
    );
    assert!(db.sys.transactions().is_empty());
}

#[test]
fn a_kill_ends_the_wait() {
    let db = Db::new();
    db.put(&[("1", "a")]);
    let mut t1 = db.begin();
    t1.update(&db.rows, b"1", b"b", None).unwrap();
    let t2 = Session::new(&db, rc());
    let waiting = t2.update("1", "c").blocked();
    let victim = db.sys.transactions().into_iter().find(|t| t.waiting.is_some()).unwrap();
    assert!(db.sys.kill(victim.serial));
    assert!(is(waiting.result(), |e| matches!(e, Error::Interrupted)));
    t1.commit(FlushAtCommit::Sync).unwrap();
    assert!(t2.update("1", "c").result().unwrap());
    assert!(!db.sys.kill(u64::MAX));
}

#[test]
fn a_waiter_gets_the_row_after_a_rollback_to_a_savepoint_and_the_end() {
    let db = Db::new();
    db.put(&[("1", "a")]);
    let mut t1 = db.begin();
    let savepoint = t1.savepoint();
    t1.update(&db.rows, b"1", b"b", None).unwrap();
    let t2 = Session::new(&db, rc());
    let waiting = t2.update("1", "c").blocked();
    t1.rollback_to(savepoint).unwrap();
    // The lock stays, because another transaction waits for it.
    let waiting = waiting.blocked();
    t1.commit(FlushAtCommit::Sync).unwrap();
    assert!(waiting.result().unwrap());
    t2.commit().unwrap();
    assert_eq!(get(&mut db.snapshot(), &db.rows, "1"), Some("c".into()));
}

#[test]
fn a_scan_that_stops_early_locks_only_what_it_read() {
    let db = Db::new();
    db.put(&[("1", "a"), ("5", "b"), ("9", "c")]);
    let mut t1 = db.at(Isolation::RepeatableRead);
    {
        let options = CursorOptions { lock: Some(LockMode::Shared), ..CursorOptions::default() };
        let mut cursor = t1.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().0, b"1");
        assert_eq!(cursor.next().unwrap().unwrap().0, b"5");
    }
    let mut t2 = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..rc() });
    assert!(is(t2.insert(&db.rows, b"3", b"x"), |e| matches!(e, Error::WouldBlock)));
    t2.insert(&db.rows, b"7", b"x").unwrap();
    t2.update(&db.rows, b"9", b"x", None).unwrap();
}

#[test]
fn many_locked_rows_become_a_table_lock() {
    let mut setup = Setup::default();
    setup.txn.lock_memory = 64 << 10;
    let db = Db::with(setup);
    let mut load = db.begin();
    for i in 0..2_000 {
        load.insert(&db.rows, format!("{i:05}").as_bytes(), b"v").unwrap();
    }
    load.commit(FlushAtCommit::Lazy).unwrap();
    let mut t1 = db.at(Isolation::RepeatableRead);
    let mut value = Vec::new();
    for i in 0..2_000 {
        assert!(t1.get_locked(&db.rows, format!("{i:05}").as_bytes(), LockMode::Exclusive, None, &mut value).unwrap());
    }
    assert!(db.sys.locks().memory() <= 64 << 10);
    assert!(db.store.metrics().get(holdfast_metrics::Counter::LockEscalations) >= 1);
    let mut t2 = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..rc() });
    assert!(is(t2.update(&db.rows, b"01999", b"x", None), |e| matches!(e, Error::WouldBlock)));
    assert!(is(t2.insert(&db.rows, b"99999", b"x"), |e| matches!(e, Error::WouldBlock)));
    t2.insert(&db.other, b"99999", b"x").unwrap();
    t1.commit(FlushAtCommit::Lazy).unwrap();
    t2.update(&db.rows, b"01999", b"x", None).unwrap();
}

/// It leaves out the rows that another transaction has changed before, whose ids lock them: that
/// one once waited there for the end of the table lock, and this one for its row.
#[test]
fn a_table_lock_keeps_no_transaction_from_what_it_has_changed() {
    let mut setup = Setup::default();
    setup.txn.lock_memory = 64 << 10;
    let db = Db::with(setup);
    let keys: Vec<String> = (0..2_000).map(|i| format!("{i:05}")).collect();
    db.put(&keys.iter().map(|key| (key.as_str(), "v")).collect::<Vec<_>>());
    let mut writer = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..rc() });
    writer.insert(&db.rows, b"inserted", b"1").unwrap();
    assert!(writer.update(&db.rows, b"00001", b"1", None).unwrap());
    assert!(writer.delete(&db.rows, b"00002", None).unwrap());
    let (mut holder, mut value) = (db.at(Isolation::RepeatableRead), Vec::new());
    for key in &keys[10..] {
        assert!(holder.get_locked(&db.rows, key.as_bytes(), LockMode::Shared, None, &mut value).unwrap());
    }
    assert!(is(writer.update(&db.rows, b"00003", b"x", None), |e| matches!(e, Error::WouldBlock)), "the table is");
    assert!(writer.get_locked(&db.rows, b"00001", LockMode::Exclusive, None, &mut value).unwrap());
    assert!(writer.lock_entry(&db.rows, b"inserted", LockMode::Exclusive).unwrap());
    assert!(writer.update(&db.rows, b"00001", &[b'2'; 500], None).unwrap());
    assert!(writer.delete(&db.rows, b"inserted", None).unwrap());
    assert!(!writer.delete(&db.rows, b"00002", None).unwrap());
    writer.insert(&db.rows, b"00002", b"2").unwrap();
    assert!(is(writer.insert(&db.rows, b"00002", b"3"), |e| matches!(e, Error::DuplicateKey)));
    let nowait = |txn: &mut Txn| txn.update(&db.rows, b"00001", b"3", None);
    let mut third = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..rc() });
    assert!(is(nowait(&mut third), |e| matches!(e, Error::WouldBlock)));
    writer.commit(FlushAtCommit::Lazy).unwrap();
    assert!(is(nowait(&mut third), |e| matches!(e, Error::WouldBlock)), "it is the holder's from now on");
    holder.commit(FlushAtCommit::Lazy).unwrap();
    assert!(nowait(&mut third).unwrap());
}

/// A second DELETE of a row, or an UPDATE of it, finds nothing: to keep the key free it waited for
/// the end of the table lock, whose holder may wait for the row.
#[test]
fn a_table_lock_keeps_no_transaction_from_what_it_has_deleted() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let mut setup = Setup::default();
        setup.txn.lock_memory = 64 << 10;
        let db = Db::with(setup);
        let keys: Vec<String> = (0..2_000).map(|i| format!("{i:05}")).collect();
        db.put(&keys.iter().map(|key| (key.as_str(), "v")).collect::<Vec<_>>());
        let mut deleter = db.at(isolation);
        deleter.set_wait(LockWait::NoWait);
        assert!(deleter.delete(&db.rows, b"00002", None).unwrap());
        let (mut holder, mut value) = (db.at(Isolation::RepeatableRead), Vec::new());
        for key in &keys[10..] {
            assert!(holder.get_locked(&db.rows, key.as_bytes(), LockMode::Shared, None, &mut value).unwrap());
        }
        assert!(is(deleter.delete(&db.rows, b"00003", None), |e| matches!(e, Error::WouldBlock)), "the table is");
        assert!(!deleter.delete(&db.rows, b"00002", None).unwrap());
        assert!(!deleter.update(&db.rows, b"00002", b"x", None).unwrap());
        let mut third = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..rc() });
        assert!(is(third.insert(&db.rows, b"00002", b"x"), |e| matches!(e, Error::WouldBlock)), "the key is kept free");
    }
}

/// A locking cursor reads entries in batches and locks them one by one: what it gives is what is
/// there when it has the lock.
#[test]
fn a_locking_cursor_gives_what_is_there_when_it_locks() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let db = Db::new();
        db.put(&[("1", "a"), ("2", "b"), ("3", "c"), ("4", "d"), ("5", "e")]);
        let mut reader = db.sys.begin(TxnOptions { snapshot_isolation: false, ..TxnOptions::at(isolation) });
        let options =
            CursorOptions { lock: Some(LockMode::Exclusive), wait: Some(LockWait::NoWait), ..CursorOptions::default() };
        let mut cursor = reader.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
        assert_eq!(cursor.next().unwrap(), Some((&b"1"[..], &b"a"[..])));
        // The batch is read; the others are not locked yet.
        let mut other = db.begin();
        assert!(other.update(&db.rows, b"3", b"C", None).unwrap() && other.delete(&db.rows, b"4", None).unwrap());
        other.commit(FlushAtCommit::Sync).unwrap();
        let mut writer = db.begin();
        assert!(writer.update(&db.rows, b"5", b"E", None).unwrap());
        assert_eq!(cursor.next().unwrap(), Some((&b"2"[..], &b"b"[..])));
        assert_eq!(cursor.next().unwrap(), Some((&b"3"[..], &b"C"[..])), "at {isolation:?}");
        assert!(is(cursor.next().map(drop), |e| matches!(e, Error::WouldBlock)), "row 5, behind the deleted one");
        writer.rollback().unwrap();
        drop(cursor);
        reader.rollback().unwrap();
    }
}

/// An UPDATE at READ COMMITTED that reads a whole table waited for every row that another
/// transaction had changed, wanted or not.
#[test]
fn a_cursor_may_give_what_was_committed_instead_of_waiting() {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")]);
    let holder = Session::new(&db, rc());
    holder.update("1", "A").result().unwrap();
    holder.insert("15", "new").result().unwrap();
    holder.update("3", "C").result().unwrap();
    let reader = Session::new(&db, rc());
    let rows = db.rows.clone();
    let reading = reader.run(move |txn| {
        let options =
            CursorOptions { lock: Some(LockMode::Exclusive), committed_if_locked: true, ..CursorOptions::default() };
        let mut cursor = txn.cursor(&rows, Bound::Unbounded, Bound::Unbounded, options)?;
        let mut seen = Vec::new();
        while let Some((key, value)) = cursor.next()? {
            let (wanted, mut text) = (key == b"3", String::from_utf8_lossy(&[key, value].concat()).into_owned());
            if cursor.is_given_unlocked() {
                text.push('*');
                if wanted {
                    let (_, value) = cursor.lock_given()?.expect("it is still there");
                    text.push_str(&String::from_utf8_lossy(value));
                    assert!(!cursor.is_given_unlocked() && cursor.lock_given()?.is_none());
                }
            }
            seen.push(text);
        }
        Ok(seen)
    });
    // It waits for the one row that it wants, and has passed the others.
    let reading = reading.blocked();
    assert_eq!(db.sys.locks().waits().len(), 1);
    holder.commit().unwrap();
    assert_eq!(reading.result().unwrap(), ["1a*", "2b", "3c*C", "4d"]);
    reader.commit().unwrap();
    assert!(db.sys.locks().locks().is_empty());
}

/// A statement's condition, or the next partition of the table, had read another row in between:
/// what that read had added to its lock was taken off the first row.
#[test]
fn what_is_given_up_of_a_lock_is_what_the_read_of_that_row_added() {
    let db = Db::new();
    db.put(&[("1", "a"), ("2", "b"), ("3", "c")]);
    let mut reader = db.sys.begin(rc());
    let mut value = Vec::new();
    let mut read = |key: &[u8]| {
        assert!(reader.get_locked(&db.rows, key, LockMode::Exclusive, None, &mut value).unwrap());
        reader.early_release()
    };
    read(b"1");
    let releases = [b"1", b"2", b"3"].map(|key| (key, read(key)));
    for (key, release) in releases {
        reader.unlock(&db.rows, key, release);
    }
    let mut other = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..rc() });
    assert!(is(other.update(&db.rows, b"1", b"x", None), |e| matches!(e, Error::WouldBlock)));
    assert!(other.update(&db.rows, b"2", b"x", None).unwrap());
    assert!(other.update(&db.rows, b"3", b"x", None).unwrap());
}

/// A row was locked for sharing, then read to be changed, did not qualify, and stayed locked
/// exclusively.
#[test]
fn a_row_that_does_not_qualify_is_locked_as_it_was_before() {
    let db = Db::new();
    db.put(&[("1", "a")]);
    let no_wait = || TxnOptions { wait: Some(LockWait::NoWait), ..rc() };
    let mut reader = db.sys.begin(rc());
    let mut value = Vec::new();
    assert!(reader.get_locked(&db.rows, b"1", LockMode::Shared, None, &mut value).unwrap());
    assert!(reader.get_locked(&db.rows, b"1", LockMode::Exclusive, None, &mut value).unwrap());
    let release = reader.early_release();
    reader.unlock(&db.rows, b"1", release);
    let mut other = db.sys.begin(no_wait());
    assert!(other.get_locked(&db.rows, b"1", LockMode::Shared, None, &mut value).unwrap());
    drop(other);
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let mut cursor = reader.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
    assert!(cursor.next().unwrap().is_some());
    cursor.unlock();
    let mut other = db.sys.begin(no_wait());
    assert!(other.get_locked(&db.rows, b"1", LockMode::Shared, None, &mut value).unwrap());
    assert!(is(other.update(&db.rows, b"1", b"b", None), |e| matches!(e, Error::WouldBlock)));
}
