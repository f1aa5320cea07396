//! Unique secondary entries under concurrency.

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::{session, *};

fn insert_unique(db: &Db, session: &Session, key: &'static str) -> session::Pending<()> {
    let entries = db.entries.clone();
    session.run(move |t| t.insert_unique(&entries, key.as_bytes(), key.find('/').unwrap() + 1, b""))
}

#[test]
fn two_rows_with_one_unique_value() {
    let db = Db::new();
    let options = TxnOptions::at(Isolation::ReadCommitted);
    let (t1, t2) = (Session::new(&db, options.clone()), Session::new(&db, options.clone()));
    insert_unique(&db, &t1, "x/1").result().unwrap();
    let waiting = insert_unique(&db, &t2, "x/2").blocked();
    insert_unique(&db, &t2_free(&db), "xy/3").result().unwrap();
    t1.commit().unwrap();
    assert!(is(waiting.result(), |e| matches!(e, Error::DuplicateKey)));
    // The other way round: the first one is rolled back.
    let waiting = {
        insert_unique(&db, &t2, "y/2").result().unwrap();
        let t3 = Session::new(&db, options);
        let waiting = insert_unique(&db, &t3, "y/3").blocked();
        t2.rollback();
        (waiting, t3)
    };
    waiting.0.result().unwrap();
    waiting.1.commit().unwrap();
    assert!(scan(&mut db.snapshot(), &db.entries).iter().any(|(k, _)| k == "y/3"));
}

fn t2_free(db: &Db) -> Session {
    Session::new(db, TxnOptions::at(Isolation::ReadCommitted))
}

#[test]
fn a_deleted_value_can_be_used_again_once_that_is_certain() {
    let db = Db::new();
    let options = TxnOptions::at(Isolation::ReadCommitted);
    let t1 = Session::new(&db, options.clone());
    insert_unique(&db, &t1, "x/1").result().unwrap();
    t1.commit().unwrap();
    let mut deleter = db.sys.begin(options.clone());
    deleter.delete(&db.entries, b"x/1", None).unwrap();
    // The deleter itself may reuse it.
    deleter.insert_unique(&db.entries, b"x/9", 2, b"").unwrap();
    let t2 = Session::new(&db, options);
    let waiting = insert_unique(&db, &t2, "x/2").blocked();
    deleter.rollback().unwrap();
    assert!(is(waiting.result(), |e| matches!(e, Error::DuplicateKey)));
    t2.rollback(); // It has the other entry locked, which made it fail.
    let t2 = Session::new(&db, TxnOptions::at(Isolation::ReadCommitted));
    let mut deleter = db.begin();
    deleter.delete(&db.entries, b"x/1", None).unwrap();
    deleter.commit(FlushAtCommit::Sync).unwrap();
    insert_unique(&db, &t2, "x/2").result().unwrap();
    t2.commit().unwrap();
    db.purge();
    assert_eq!(scan(&mut db.snapshot(), &db.entries), [("x/2".to_string(), String::new())]);
    assert_eq!(db.physical(&db.entries), 1);
}

#[test]
fn racing_threads_insert_each_value_once() {
    let db = Db::new();
    let won: usize = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let db = &db;
                s.spawn(move || {
                    let mut won = 0;
                    for value in 0..150 {
                        let mut txn = db.sys.begin(TxnOptions::at(Isolation::ReadCommitted));
                        let (prefix, key) = (format!("{value:04}/"), format!("{value:04}/{thread}"));
                        match txn.insert_unique(&db.entries, key.as_bytes(), prefix.len(), b"") {
                            Ok(()) if value % 3 == 0 => txn.rollback().unwrap(),
                            Ok(()) => {
                                txn.commit(FlushAtCommit::Lazy).unwrap();
                                won += 1;
                            }
                            Err(Error::DuplicateKey) => txn.rollback().unwrap(),
                            Err(e) => panic!("{e}"),
                        }
                    }
                    won
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(won, 100);
    assert_eq!(scan(&mut db.snapshot(), &db.entries).len(), 100);
}

/// A key that is nearly too long can be the beginning of one that was cut, with its hash. Its row
/// was refused for the other one.
#[test]
fn an_index_key_that_a_longer_one_begins_with_is_another_one() {
    for longer in [vec![4u8], [vec![4], vec![7; 5_000]].concat()] {
        let db = Db::new();
        let [mut writer, mut other] = [(); 2].map(|()| db.begin());
        other.set_wait(LockWait::NoWait);
        writer.insert_unique(&db.secondary, b"ab5x1", 4, &longer).unwrap();
        other.insert_unique(&db.secondary, b"ab9", 2, b"\x02").unwrap();
        writer.commit(FlushAtCommit::Lazy).unwrap();
        other.commit(FlushAtCommit::Lazy).unwrap();
        let mut other = db.begin();
        db.commit(|txn| {
            let again = txn.insert_or_lock(&db.secondary, b"ab3", Some(2), b"\x02", LockMode::Shared);
            assert!(is(again, |e| matches!(e, Error::DuplicateKey)));
            other.set_wait(LockWait::NoWait);
            let changed = other.delete(&db.secondary, b"ab9", None);
            assert!(is(changed, |e| matches!(e, Error::WouldBlock)), "the other entry is locked");
            let again = txn.insert_unique(&db.secondary, b"ab5x0", 4, &longer);
            assert!(is(again, |e| matches!(e, Error::DuplicateKey)));
            txn.delete(&db.secondary, b"ab9", None).unwrap();
            txn.insert_unique(&db.secondary, b"ab3", 2, b"\x02").unwrap();
        });
        assert_eq!(db.physical(&db.secondary), 3);
    }
}
