//! A rollback that a failed read stops is tried again. What the transaction has changed is known
//! meanwhile: a change of a definition that asks reads no undo log, which may be long, with the
//! lists of losers locked. Statistics and KILL ask these.

use std::sync::Arc;
use std::time::Duration;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_txn::Wait;

use crate::common::*;

const ROWS: u64 = 600;

fn key(n: u64) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

#[test]
fn also_if_a_part_of_it_is_undone() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = Db::create(Arc::new(disk.clone()), Setup { frames: 48, ..Setup::default() }).unwrap();
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &key(n), &[b'x'; 400]).unwrap()));
    let mut txn = db.begin();
    // The table stays larger than the cache.
    (0..ROWS).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[b'n'; 400], None).unwrap()));
    disk.schedule(Fault::nth(FaultOp::Read, 1).on("t16.hf").sticky());
    assert!(txn.rollback().is_err());
    disk.clear();
    // It undoes some changes, and takes their records off the log.
    disk.schedule(Fault::nth(FaultOp::Read, 2).on("t16.hf"));
    assert!(db.sys.roll_back_losers().is_err());
    disk.clear();
    // The log is larger than the cache.
    disk.schedule(Fault::nth(FaultOp::Read, 1).on("undo.hf").sticky());
    let stopped_by = |index| db.sys.what_stops_losers_of(&[index], &Wait::begins(Duration::ZERO)).unwrap();
    assert!(stopped_by(db.other.id()).is_empty());
    assert!(matches!(stopped_by(db.rows.id())[..], [Some(_)]));
    disk.clear();
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    assert_eq!(get(&mut db.snapshot(), &db.rows, "row0599"), Some("x".repeat(400)));
    db.purge();
    db.verify_clean();
}
