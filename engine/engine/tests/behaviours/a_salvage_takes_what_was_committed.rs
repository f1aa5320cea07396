//! A salvage of a table that a transaction is changing takes rows and entries as they were
//! committed: nothing of the transaction, and nothing is missing that it has removed.

use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{FlushAtCommit, VerifyOptions};

use crate::common;
use crate::common::rows::{self, Entries};

const CHANGED: u32 = 1;
const REMOVED: u32 = 2;
const UNCHANGED: u32 = 3;
const INSERTED: u32 = 4;

/// Rows and entries that are committed.
fn all(db: &RawDatabase) -> [Entries; 2] {
    let (table, mut txn) = (db.open_table("t").unwrap(), rows::begin(db));
    [0, 1].map(|index| rows::read(&mut txn, &table, index).unwrap())
}

#[test]
fn what_is_not_committed_is_not_salvaged() {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    db.create_table("t", &[("tag", true)], b"", Lifetime::Lasting).unwrap();
    let (table, mut txn) = (db.open_table("t").unwrap(), rows::begin(&db));
    rows::insert(&mut txn, &table, CHANGED, &[b'l'; 100_000], 10).unwrap();
    rows::insert(&mut txn, &table, REMOVED, b"there", 20).unwrap();
    rows::insert(&mut txn, &table, UNCHANGED, b"always", 30).unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let before = all(&db);

    // Unique tags go from row to row.
    let mut txn = rows::begin(&db);
    txn.delete(&table, 0, &REMOVED.to_be_bytes()).unwrap();
    txn.delete(&table, 1, &rows::entry(20, REMOVED)).unwrap();
    txn.update(&table, 0, &CHANGED.to_be_bytes(), &b"new"[..]).unwrap();
    txn.delete(&table, 1, &rows::entry(10, CHANGED)).unwrap();
    txn.insert(&table, 1, &rows::entry(20, CHANGED), &rows::covering(b"")).unwrap();
    rows::insert(&mut txn, &table, INSERTED, b"never", 10).unwrap();

    let target = common::small().in_memory().unwrap();
    let report = db.database().salvage_table("t", &target).unwrap();
    assert_eq!((report.rows, report.refused_rows, report.lost_indexes.len()), (3, 0, 0));
    assert!(target.verify(&VerifyOptions::default(), &mut |_| {}).unwrap().is_clean());
    let saved = all(&RawDatabase::new(target));
    assert!(saved == before, "{:?}", saved.map(|entries| entries.into_iter().map(|(key, _)| key).collect::<Vec<_>>()));
    txn.commit(FlushAtCommit::Lazy).unwrap();
}
