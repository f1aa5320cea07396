//! A transaction has changed two tables. A page of the one is damaged, and while it is rolled back
//! a read fails that the other one needs. What was left there was not tried again: its row stayed
//! locked, for as long as the damage of the other table was there.

use std::sync::Arc;

use holdfast_base::Error;
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::*;

const FILE: &str = "t16.hf";
const LAST: &[u8] = b"last";

/// What a crash leaves of a transaction that has changed a row of `other`, and then one of `rows`
/// in a page that is damaged.
fn damaged(disk: &FaultDisk) -> Db {
    let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    db.commit(|txn| {
        (0..200u64).for_each(|n| txn.insert(&db.rows, format!("row{n:04}").as_bytes(), &[b'x'; 400]).unwrap());
        txn.insert(&db.rows, LAST, b"old").unwrap();
        txn.insert(&db.other, b"one", b"old").unwrap();
    });
    let mut txn = db.begin();
    assert!(txn.update(&db.other, b"one", b"never", None).unwrap());
    assert!(txn.update(&db.rows, LAST, b"never", None).unwrap());
    std::mem::forget(txn);
    let rows = db.rows.id();
    let (_, setup) = db.close();
    let _ = disk.remove("doublewrite");
    let file = disk.open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
    let mut page = vec![0; setup.page_size];
    let at = (0..file.len().unwrap()).step_by(setup.page_size).find(|&at| {
        file.read_at(at, &mut page).unwrap();
        page[24..28] == rows.0.to_le_bytes() && page.windows(5).any(|window| window == b"never")
    });
    file.write_at(at.unwrap() + 1_000, &[0xa5; 8]).unwrap();
    Db::open(Arc::new(disk.clone()), setup).unwrap()
}

#[test]
fn by_the_background() {
    for nth in 1..8 {
        let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let db = damaged(&disk);
        disk.schedule(Fault::nth(FaultOp::Read, nth).on(FILE));
        let first = db.sys.roll_back_losers();
        disk.clear();
        let failed = disk.fired() > 0;
        assert!(first.is_ok() || failed, "{first:?}");
        // As the background does.
        assert_eq!(db.sys.roll_back_losers().unwrap(), 0, "read {nth}");
        let mut txn = db.begin();
        assert!(txn.update(&db.other, b"one", b"new", None).unwrap(), "read {nth}");
        assert!(is(txn.update(&db.rows, LAST, b"new", None), Error::is_damage));
        txn.rollback().unwrap();
    }
}
