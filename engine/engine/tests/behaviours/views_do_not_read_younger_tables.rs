//! A table that was created, or emptied by putting a new one in its place, does not exist for views
//! of before. They would find it empty, and a dump with one snapshot would lose its rows without a
//! word.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast::raw::{Lifetime, RawDatabase, RawLock, RawRead, RawTransaction};
use holdfast::{Database, Error, FlushAtCommit, Isolation, Result, TableDefinition};

use crate::common;
use crate::common::rows::begin_at;

fn begin(db: &RawDatabase, isolation: Isolation) -> RawTransaction {
    let mut txn = begin_at(db, isolation);
    txn.txn().take_snapshot();
    txn
}

fn put(db: &RawDatabase, name: &str) {
    let table = db.open_table(name).unwrap();
    let mut txn = begin(db, Isolation::RepeatableRead);
    txn.insert(&table, 0, b"key", b"row").unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
}

/// True if the transaction finds the row.
fn find(db: &RawDatabase, txn: &mut RawTransaction, name: &str) -> Result<bool> {
    txn.get(&db.open_table(name)?, 0, b"key", None, &mut Vec::new())
}

fn database(lifetime: Lifetime) -> (Database, RawDatabase) {
    let (_disk, db) = common::on_memory_disk();
    let raw = RawDatabase::new(db.clone());
    raw.create_table("t", &[], b"", lifetime).unwrap();
    (db, raw)
}

#[test]
fn a_view_of_before_cannot_read_a_table_that_was_emptied() {
    let (_db, db) = database(Lifetime::Lasting);
    put(&db, "t");
    let mut old = begin(&db, Isolation::RepeatableRead);
    assert!(find(&db, &mut old, "t").unwrap());
    db.truncate_table("t", common::WAIT).unwrap();
    assert!(matches!(find(&db, &mut old, "t"), Err(Error::SnapshotTooOld)));
    let mut new = begin(&db, Isolation::RepeatableRead);
    assert!(!find(&db, &mut new, "t").unwrap());
}

/// A locking read by the key alone once went through, and a change by it; one by an index did not.
#[test]
fn a_view_of_before_cannot_lock_a_row_of_a_table_that_was_emptied() {
    let (_db, db) = database(Lifetime::Lasting);
    let mut old = begin(&db, Isolation::RepeatableRead);
    db.truncate_table("t", common::WAIT).unwrap();
    put(&db, "t");
    let table = db.open_table("t").unwrap();
    for exclusive in [false, true] {
        let lock = RawLock { exclusive, skip_locked: false, linked: false };
        let got = old.get(&table, 0, b"key", Some(lock), &mut Vec::new());
        assert!(matches!(got, Err(Error::SnapshotTooOld)), "{got:?}");
    }
}

/// A cursor that was refused once kept others from inserting.
#[test]
fn what_is_refused_to_a_view_of_before_locks_nothing() {
    let (_db, db) = database(Lifetime::Lasting);
    let mut old = begin(&db, Isolation::RepeatableRead);
    db.truncate_table("t", common::WAIT).unwrap();
    let table = db.open_table("t").unwrap();
    let lock = Some(RawLock { exclusive: true, skip_locked: false, linked: false });
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let refused = old.cursor(&table, 0, all, RawRead { lock, ..RawRead::default() }).map(drop);
    assert!(matches!(refused, Err(Error::SnapshotTooOld)), "{refused:?}");
    assert!(!old.txn().holds_locks());
}

#[test]
fn what_a_reference_leads_to_is_read_whatever_the_age_of_its_table() {
    let (_db, db) = database(Lifetime::Lasting);
    let mut old = begin(&db, Isolation::RepeatableRead);
    db.truncate_table("t", common::WAIT).unwrap();
    put(&db, "t");
    let table = db.open_table("t").unwrap();
    let lock = Some(RawLock { exclusive: false, skip_locked: false, linked: true });
    assert!(old.get(&table, 0, b"key", lock, &mut Vec::new()).unwrap());
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut cursor = old.cursor(&table, 0, all, RawRead { lock, ..RawRead::default() }).unwrap();
    assert!(cursor.next().unwrap().is_some());
}

#[test]
fn a_table_takes_its_age_along_when_it_is_renamed() {
    let (_db, db) = database(Lifetime::Lasting);
    let mut old = begin(&db, Isolation::RepeatableRead);
    db.create_table("other", &[], b"", Lifetime::Lasting).unwrap();
    put(&db, "other");
    db.rename_table("t", "was", &[]).unwrap();
    db.rename_table("other", "t", &[]).unwrap();
    assert!(matches!(find(&db, &mut old, "t"), Err(Error::SnapshotTooOld)));
    assert!(!find(&db, &mut old, "was").unwrap());
}

#[test]
fn a_transaction_that_reads_what_is_committed_reads_a_new_table() {
    let (_db, db) = database(Lifetime::Lasting);
    let mut txn = begin(&db, Isolation::ReadCommitted);
    db.truncate_table("t", common::WAIT).unwrap();
    put(&db, "t");
    txn.statement(Duration::from_secs(1)).unwrap();
    assert!(find(&db, &mut txn, "t").unwrap());
}

#[test]
fn a_temporary_table_is_there_for_any_view() {
    let (_db, db) = database(Lifetime::Lasting);
    let mut old = begin(&db, Isolation::RepeatableRead);
    db.create_table("own", &[], b"", Lifetime::Temporary).unwrap();
    let own = db.open_table("own").unwrap();
    let mut load = holdfast::raw::RawLoad::new(&own).unwrap();
    load.push(0, b"key", 3, b"row".as_slice()).unwrap();
    load.finish().unwrap();
    assert!(find(&db, &mut old, "own").unwrap());
    db.truncate_table("own", common::WAIT).unwrap();
    assert!(!find(&db, &mut old, "own").unwrap());
}

/// The snapshot was once taken before the definitions were looked at: a table that was created in
/// between was there, and too young to be read.
#[test]
fn a_snapshot_that_meets_a_creation_can_read_each_table_that_it_has() {
    const TABLE: TableDefinition<u64, u64> = TableDefinition::new("created");
    let (db, done) = (Database::in_memory().unwrap(), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..20_000 {
                db.create_table(&TABLE).unwrap();
                db.drop_table("created").unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let txn = db.begin_read().unwrap();
            match txn.open_table(&TABLE) {
                Ok(table) => assert_eq!(table.get(1).unwrap(), None),
                Err(error) => assert!(matches!(error, Error::TableNotFound(_)), "{error}"),
            }
        }
    });
}
