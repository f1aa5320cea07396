//! A transaction takes the page of its undo log before its id. So the id on a page only grows, and
//! after a crash the greatest id on disk is the greatest that was used. Else an id could be given
//! out again, and committed rows would belong to a transaction that has not begun.

use std::sync::Arc;

use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_txn::{FlushAtCommit, Txn};

use crate::common::{Db, Setup, get};

/// Transactions with a change each, until one finds no page for its undo log. That one, and the
/// others.
fn crowd(db: &Db) -> (Txn, Vec<Txn>) {
    let mut open = Vec::new();
    loop {
        let mut txn = db.begin();
        match txn.insert(&db.other, format!("x{}", open.len()).as_bytes(), b"x") {
            Ok(()) => open.push(txn),
            Err(_) => return (txn, open),
        }
    }
}

#[test]
fn although_a_statement_found_no_undo_page() {
    let crash = CrashDisk::new();
    let disk = FaultDisk::new(Arc::new(crash.clone()));
    let last = {
        let db = Db::create(Arc::new(disk.clone()), Setup::default()).unwrap();
        db.put(&[("a", "1"), ("b", "1")]);
        db.purge();
        disk.schedule(Fault::nth(FaultOp::SetLen, 1).on("undo.hf").kind(FaultKind::Enospc).sticky());
        let (mut early, mut open) = crowd(&db);
        // One of the others ends, and a later transaction uses its page.
        open.pop().unwrap().rollback().unwrap();
        let mut late = db.begin();
        late.update(&db.rows, b"a", b"2", None).unwrap();
        let last = late.id();
        late.commit(FlushAtCommit::Sync).unwrap();
        db.purge();
        // The statement that failed is done again, on that page.
        early.update(&db.rows, b"b", b"2", None).unwrap();
        assert!(early.id() > last, "an id is taken when the page is");
        early.commit(FlushAtCommit::Sync).unwrap();
        open.into_iter().for_each(std::mem::forget);
        last
    };
    let db = Db::open(Arc::new(crash.reboot(1)), Setup::default()).unwrap();
    db.sys.roll_back_losers().unwrap();
    assert!(db.sys.stats().next_txn > last, "the greatest id is known");
    let mut snapshot = db.snapshot();
    assert_eq!(get(&mut snapshot, &db.rows, "a").unwrap(), "2");
    assert_eq!(get(&mut snapshot, &db.rows, "b").unwrap(), "2");
    db.verify_clean();
}
