//! After a rollback to a savepoint that fails halfway the transaction cannot be committed with half
//! of a statement.

use std::sync::Arc;

use holdfast_base::Error;
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::{FlushAtCommit, Txn, TxnSavepoint};

use crate::common::{Db, Setup, scan};

const ROWS: u32 = 600;

fn key(n: u32) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

/// A transaction with one change before the savepoint and many behind it, to which it could not be
/// rolled back. `change` makes that of one row.
fn half_undone_after(change: impl Fn(&mut Txn, &Db, &[u8])) -> (FaultDisk, Db, Txn, TxnSavepoint) {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = Db::create(Arc::new(disk.clone()), Setup { frames: 48, ..Setup::default() }).unwrap();
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &key(n), &[b'x'; 400]).unwrap()));
    let mut txn = db.begin();
    txn.insert(&db.other, b"kept", b"1").unwrap();
    let start = txn.savepoint();
    (0..ROWS).for_each(|n| change(&mut txn, &db, &key(n)));
    disk.schedule(Fault::nth(FaultOp::Read, 10));
    assert!(txn.rollback_to(start).is_err());
    disk.clear();
    assert!(txn.changes() > 1, "not everything was undone");
    (disk, db, txn, start)
}

fn half_undone() -> (FaultDisk, Db, Txn, TxnSavepoint) {
    half_undone_after(|txn, db, key| assert!(txn.update(&db.rows, key, b"new", None).unwrap()))
}

fn new_rows(db: &Db) -> usize {
    scan(&mut db.snapshot(), &db.rows).iter().filter(|(_, value)| value == "new").count()
}

fn is_refused<T>(result: holdfast_base::Result<T>) -> bool {
    matches!(result, Err(Error::HalfUndone))
}

#[test]
fn it_can_be_rolled_back() {
    let (_disk, db, mut txn, start) = half_undone();
    assert!(is_refused(txn.commit(FlushAtCommit::Sync)));
    assert!(is_refused(txn.commit_ordered()));
    assert!(is_refused(txn.prepare(b"x", FlushAtCommit::Sync)));
    assert!(is_refused(txn.statement_begin()));
    assert!(is_refused(txn.update(&db.rows, &key(1), b"newer", None)));
    assert!(is_refused(txn.get(&db.rows, &key(1), &mut Vec::new())));
    let here = txn.savepoint();
    assert!(is_refused(txn.rollback_to(here)), "what came before that place is not whole");
    txn.rollback().unwrap();
    assert!(matches!(txn.rollback_to(start), Err(Error::Closed(_))));
    assert_eq!((new_rows(&db), scan(&mut db.snapshot(), &db.other).len()), (0, 0));
    db.purge();
    db.verify_clean();
}

#[test]
fn or_to_the_savepoint_once_more() {
    let (_disk, db, mut txn, start) = half_undone();
    txn.rollback_to(start).unwrap();
    assert_eq!(txn.changes(), 1);
    txn.update(&db.rows, &key(1), b"newer", None).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    assert_eq!((new_rows(&db), scan(&mut db.snapshot(), &db.other).len()), (0, 1));
    db.purge();
    db.verify_clean();
}

/// What was undone around the error was counted neither then nor by the next attempt.
#[test]
fn its_rows_are_counted_as_they_are() {
    let (_disk, db, mut txn, start) =
        half_undone_after(|txn, db, key| assert!(txn.delete(&db.rows, key, None).unwrap()));
    txn.rollback_to(start).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    assert_eq!(scan(&mut db.snapshot(), &db.rows).len() as u64, u64::from(ROWS));
    assert_eq!((db.rows.rows(), db.other.rows()), (u64::from(ROWS), 1));
}
