//! What purge finds nothing to do for is not written down as purged: the undo log is free in memory
//! alone. After a stop it is purged once more, which must change nothing - above all free no
//! overflow chain a second time - and then it is written down.

use std::sync::Barrier;

use crate::common::*;

const LONG: usize = 9_000;

fn put(db: &Db, key: &str, value: &[u8]) {
    db.commit(|txn| {
        txn.upsert(&db.rows, key.as_bytes(), value, None).unwrap();
    });
}

#[test]
fn small_transactions_are_purged_without_a_word_in_the_log() {
    let db = Db::new();
    // Fewer than a committer retires.
    for n in 0..7u32 {
        put(&db, &format!("row{}", n % 5), format!("value {n}").as_bytes());
    }
    let before = db.store.wal().next_lsn();
    assert_eq!(db.purge(), 14, "7 records and 7 logs");
    assert_eq!(db.store.wal().next_lsn(), before);
    assert_eq!(db.sys.history_length(), 0);
    db.verify_clean();

    let db = db.reopen();
    assert_eq!(db.sys.history_length(), 7, "their first pages still say that they are committed");
    db.purge();
    let rows = scan(&mut db.begin(), &db.rows);
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[4], ("row4".into(), "value 4".into()));

    let db = db.reopen();
    assert_eq!(db.sys.history_length(), 0, "this time it was written down");
    assert_eq!(scan(&mut db.begin(), &db.rows), rows);
    db.verify_clean();
}

#[test]
fn committers_give_back_what_purge_need_not_look_at() {
    let db = Db::new();
    let in_use = || db.sys.stats().undo_pages;
    for n in 0..500u32 {
        put(&db, &format!("row{}", n % 5), &n.to_le_bytes());
        assert!(db.sys.history_length() <= 8 && in_use() <= 8, "{n}");
    }
    // A delete mark is purge's to remove. What comes after does not wait behind it for long.
    db.commit(|txn| assert!(txn.delete(&db.rows, b"row0", None).unwrap()));
    for n in 0..50u32 {
        put(&db, "row1", &n.to_le_bytes());
    }
    assert!((1..=16).contains(&db.sys.history_length()), "{}", db.sys.history_length());
    assert_eq!(db.physical(&db.rows), 5);
    db.purge();
    assert_eq!((db.sys.history_length(), db.physical(&db.rows)), (0, 4));
    db.verify_clean();
}

/// With more sessions than cores, the kernel preempts the holder of the purge mutex now and then.
/// Here the holder waits for a page.
#[test]
fn committers_give_back_quiet_logs_while_somebody_else_purges() {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 1 << 20;
    let db = Db::with(setup);
    db.put(&[("gone", "1"), ("here", "1")]);
    db.purge();
    db.commit(|txn| assert!(txn.delete(&db.rows, b"gone", None).unwrap()));
    let (latched, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|s| {
        s.spawn(|| db.latch_root(1, &latched, &done));
        latched.wait();
        let purge = s.spawn(|| db.purge());
        // Until it has the log in hand.
        while db.sys.history_length() > 0 {
            std::thread::yield_now();
        }
        let mut most = (0, 0);
        for n in 0..500u32 {
            db.commit(|txn| txn.insert(&db.other, &n.to_be_bytes(), b"value").unwrap());
            most = (most.0.max(db.sys.history_length()), most.1.max(db.sys.stats().undo_pages));
        }
        // What a view may need is kept in memory.
        let mut snapshot = db.snapshot();
        for n in 0..50u32 {
            db.commit(|txn| assert!(txn.update(&db.other, &n.to_be_bytes(), b"other", None).unwrap()));
        }
        let waiting = db.sys.history_length();
        let seen = get(&mut snapshot, &db.other, "\0\0\0\x07").unwrap();
        let still_purging = !purge.is_finished();
        done.wait();
        assert!(most.0 <= 16 && most.1 <= 17, "{most:?}");
        assert!(still_purging && waiting <= 16, "{waiting}");
        assert_eq!(seen, "value");
    });
    db.purge();
    assert_eq!((db.sys.history_length(), db.sys.stats().undo_pages, db.physical(&db.rows)), (0, 0, 1));
    db.verify_clean();
}

#[test]
fn the_next_transaction_takes_the_page_over() {
    let db = Db::new();
    put(&db, "a", b"1");
    db.purge();
    let mut open = db.begin();
    open.update(&db.rows, b"a", b"2", None).unwrap();
    let mut reader = db.snapshot();
    assert_eq!(get(&mut reader, &db.rows, "a").unwrap(), "1");
    drop(reader);
    db.store.wal().flush_to(db.store.wal().next_lsn()).unwrap();
    std::mem::forget(open); // As a crash would.
    let db = db.reopen();
    assert_eq!((db.sys.history_length(), db.sys.roll_back_losers().unwrap()), (0, 1));
    assert_eq!(get(&mut db.begin(), &db.rows, "a").unwrap(), "1");
    db.verify_clean();
}

#[test]
fn purging_once_more_frees_no_chain_twice_and_removes_no_row() {
    let db = Db::new();
    let long = |byte: u8| vec![byte; LONG];
    for byte in b'a'..b'g' {
        put(&db, "long", &long(byte));
        put(&db, "short", &[byte]);
        // In one log: a chain of its own that is superseded, and one that is not.
        db.commit(|txn| {
            for value in [long(byte), long(byte + 1)] {
                txn.upsert(&db.rows, b"twice", &value, None).unwrap();
            }
            txn.upsert(&db.rows, b"after", &[byte], None).unwrap();
        });
    }
    db.commit(|txn| assert!(txn.delete(&db.rows, b"short", None).unwrap()));
    db.purge();
    assert_eq!(db.physical(&db.rows), 3, "the delete mark is gone");
    put(&db, "short", b"again");
    db.verify_clean();

    let db = db.reopen();
    assert!(db.sys.history_length() > 0);
    // Pages that are free are used again before the logs are purged once more.
    put(&db, "new", &long(b'n'));
    db.purge();
    db.verify_clean();
    let mut txn = db.begin();
    assert_eq!(get(&mut txn, &db.rows, "short").unwrap(), "again");
    for (key, byte) in [("long", b'f'), ("twice", b'g'), ("new", b'n')] {
        assert_eq!(get(&mut txn, &db.rows, key).unwrap().as_bytes(), long(byte), "{key}");
    }
}

/// The version tree takes a chain over; it is freed with that version. The record names it, too, so
/// the log must not come back.
#[test]
fn a_log_from_which_versions_were_kept_is_written_down() {
    let db = Db::new();
    put(&db, "key", &vec![b'1'; LONG]);
    db.purge();
    let old = db.snapshot();
    for n in 0..20u32 {
        put(&db, "other", &n.to_le_bytes());
    }
    put(&db, "key", &vec![b'2'; LONG]);
    for n in 0..20u32 {
        put(&db, "other", &n.to_le_bytes());
    }
    db.purge();
    assert_eq!(db.sys.versions_stored(), 1, "the long view's version of the row");
    drop(old);
    db.purge();
    assert_eq!(db.sys.versions_stored(), 0);
    put(&db, "new", &vec![b'3'; LONG]);
    db.verify_clean();

    let db = db.reopen();
    db.purge();
    db.verify_clean();
    let mut txn = db.begin();
    assert_eq!(get(&mut txn, &db.rows, "key").unwrap().as_bytes(), vec![b'2'; LONG]);
    assert_eq!(get(&mut txn, &db.rows, "new").unwrap().as_bytes(), vec![b'3'; LONG]);
}
