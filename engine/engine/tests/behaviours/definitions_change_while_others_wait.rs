//! A change of definitions waits for the transactions that use its table, and for those alone:
//! others change definitions meanwhile, and a temporary table goes at once, under the transaction
//! that has written to it.

use std::sync::mpsc::channel;
use std::time::Duration;

use holdfast::raw::{Lifetime, RawDatabase, RawTransaction};
use holdfast::{Error, FlushAtCommit};

use crate::common;
use crate::common::rows::begin;

/// A table with one committed row, and a transaction that has inserted another one.
fn in_use(db: &RawDatabase, name: &str, lifetime: Lifetime) -> RawTransaction {
    db.create_table(name, &[("second", false)], b"", lifetime).unwrap();
    let table = db.open_table(name).unwrap();
    let mut txn = begin(db);
    txn.insert(&table, 0, b"a", b"row").unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let mut txn = begin(db);
    txn.insert(&table, 0, b"b", vec![7; 20_000].as_slice()).unwrap();
    txn.insert(&table, 1, b"index key", b"").unwrap();
    txn.update(&table, 0, b"a", b"other").unwrap();
    txn
}

#[test]
fn others_change_definitions_while_one_waits() {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    let txn = in_use(&db, "used", Lifetime::Lasting);
    let (begins, waits) = channel();
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| {
            begins.send(()).unwrap();
            db.drop_table("used", common::WAIT)
        });
        waits.recv().unwrap();
        // It cannot be told when the thread has begun to wait: a few turns make it likely.
        for n in 0..50 {
            let name = format!("other {n}");
            db.create_table(&name, &[], b"", Lifetime::Lasting).unwrap();
            db.rename_table(&name, "renamed", &[]).unwrap();
            db.truncate_table("renamed", common::WAIT).unwrap();
            db.drop_table("renamed", common::WAIT).unwrap();
        }
        drop(txn);
        dropping.join().unwrap().unwrap();
    });
    assert!(db.tables().is_empty());
}

#[test]
fn who_waits_for_too_long_leaves_all_as_it_was() {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    let mut txn = in_use(&db, "used", Lifetime::Lasting);
    let short = Duration::from_millis(1);
    assert!(matches!(db.drop_table("used", short), Err(Error::LockTimeout)));
    assert!(matches!(db.truncate_table("used", short), Err(Error::LockTimeout)));
    assert!(matches!(db.begin_alter("used", &[("third", false)], false, short), Err(Error::LockTimeout)));
    txn.insert(&db.open_table("used").unwrap(), 0, b"c", b"row").unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
    drop(txn);
    let mut alter = db.begin_alter("used", &[], false, short).unwrap();
    alter.become_table(&[], b"").unwrap();
    let entered = in_use(&db, "another", Lifetime::Lasting);
    db.commit_alters(&mut [&mut alter], &[], short).unwrap();
    drop(entered);
    common::assert_sound(db.database());
}

#[test]
fn a_temporary_table_goes_under_the_transaction_that_wrote_to_it() {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    for rolls_back in [true, false] {
        for drops in [true, false] {
            let mut txn = in_use(&db, "temporary", Lifetime::Temporary);
            let lasting = in_use(&db, "lasting", Lifetime::Lasting);
            drop(lasting);
            let before = txn.txn().savepoint();
            txn.insert(&db.open_table("lasting").unwrap(), 0, b"c", b"row").unwrap();
            txn.insert(&db.open_table("temporary").unwrap(), 0, b"c", b"row").unwrap();
            if drops {
                db.drop_table("temporary", common::WAIT).unwrap();
                db.create_table("temporary", &[], b"", Lifetime::Temporary).unwrap();
            } else {
                db.truncate_table("temporary", common::WAIT).unwrap();
            }
            let table = db.open_table("temporary").unwrap();
            txn.insert(&table, 0, b"d", b"row").unwrap();
            txn.txn().rollback_to(before).unwrap();
            txn.insert(&table, 0, b"e", b"row").unwrap();
            if rolls_back {
                txn.txn().rollback().unwrap();
            } else {
                txn.commit(FlushAtCommit::Sync).unwrap();
            }
            let mut value = Vec::new();
            let mut reader = begin(&db);
            assert_eq!(reader.get(&table, 0, b"e", None, &mut value).unwrap(), !rolls_back);
            assert!(!reader.get(&table, 0, b"d", None, &mut value).unwrap());
            assert!(!reader.get(&db.open_table("lasting").unwrap(), 0, b"c", None, &mut value).unwrap());
            drop((reader, txn));
            db.drop_table("temporary", common::WAIT).unwrap();
            common::assert_sound(db.database());
            db.drop_table("lasting", common::WAIT).unwrap();
        }
    }
}
