//! A locking reader lets inserters go first that already wait for its range. One that has inserted,
//! or has given up, is not among them any more; also where the index is unique.

use std::ops::Bound;

use holdfast_base::Error;
use holdfast_metrics::Counter;
use holdfast_txn::*;

use crate::common::session::{Pending, Session};
use crate::common::*;

fn sessions<const N: usize>(db: &Db) -> [Session; N] {
    let options = TxnOptions { snapshot_isolation: false, ..TxnOptions::at(Isolation::RepeatableRead) };
    [(); N].map(|()| Session::new(db, options.clone()))
}

/// Reads all entries of the unique index with locks.
fn read(db: &Db, session: &Session) -> Pending<usize> {
    let index = db.entries.clone();
    session.run(move |txn| {
        let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
        let mut cursor = txn.cursor(&index, Bound::Unbounded, Bound::Unbounded, options)?;
        let mut entries = 0;
        while cursor.next()?.is_some() {
            entries += 1;
        }
        Ok(entries)
    })
}

fn insert(db: &Db, session: &Session) -> Pending<()> {
    let index = db.entries.clone();
    session.run(move |txn| txn.insert_unique(&index, b"u1", 1, b""))
}

#[test]
fn after_it_has_inserted_into_a_unique_index() {
    let db = Db::new();
    let [first, inserter, second] = sessions(&db);
    assert_eq!(read(&db, &first).result().unwrap(), 0);
    let inserting = insert(&db, &inserter).blocked();
    first.commit().unwrap();
    inserting.result().unwrap();
    inserter.commit().unwrap();
    let waits = db.store.metrics().get(Counter::RowLockWaits);
    assert_eq!(read(&db, &second).result().unwrap(), 1);
    assert_eq!(db.store.metrics().get(Counter::RowLockWaits), waits);
}

#[test]
fn after_the_key_was_found_taken() {
    let db = Db::new();
    let [first, inserter, second] = sessions(&db);
    assert_eq!(read(&db, &first).result().unwrap(), 0);
    let inserting = insert(&db, &inserter).blocked();
    let index = db.entries.clone();
    first.run(move |txn| txn.insert_unique(&index, b"u0", 1, b"")).result().unwrap();
    first.commit().unwrap();
    assert!(is(inserting.result(), |e| matches!(e, Error::DuplicateKey)));
    inserter.rollback();
    let waits = db.store.metrics().get(Counter::RowLockWaits);
    assert_eq!(read(&db, &second).result().unwrap(), 1);
    assert_eq!(db.store.metrics().get(Counter::RowLockWaits), waits);
}
