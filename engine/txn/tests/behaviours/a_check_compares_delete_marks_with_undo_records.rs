//! The bit that says that a row was deleted was wrong, on a page with the right checksum, and the
//! row's value has no bytes that could contradict it: a deleted row came back with an empty value,
//! or an empty row was gone. The undo record of the change says which it was. A check did not ask.

use holdfast_pool::AccessKind;
use holdfast_tree::Action;
use holdfast_txn::{FlushAtCommit, TxnOptions, VersionHeader};
use holdfast_wal::SpaceClass;

use crate::common::*;

/// Sets the mark of the row `key`, or takes it away.
fn turn_over(db: &Db, key: &str) {
    let acc = db.store.pool().access(AccessKind::Point);
    let mut decide = |payload: Option<&[u8]>| {
        let (mut header, body) = VersionHeader::decode(payload.unwrap()).unwrap();
        assert!(body.is_empty());
        header.deleted = !header.deleted;
        Ok(Action::Put(header.encode(body)))
    };
    db.rows.tree().modify_as(SpaceClass::Rollback, key.as_bytes(), &acc, &mut decide).unwrap().unwrap();
}

/// What a check finds wrong with the table.
fn found(db: &Db) -> Vec<String> {
    db.verify().into_iter().filter(|f| f.page.space == TABLE).map(|f| f.what).collect()
}

fn assert_found(db: &Db, key: &str) {
    let found = found(db);
    let entry: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let is_it = |what: &String| what.contains(&format!("the entry {entry}")) && what.contains("delete mark");
    assert!(found.len() == 1 && is_it(&found[0]), "{found:?}");
}

fn change_both(db: &Db, end: impl FnOnce(holdfast_txn::Txn)) {
    db.put(&[("full", "1"), ("gone", "1")]);
    let mut txn = db.sys.begin(TxnOptions::default());
    txn.delete(&db.rows, b"gone", None).unwrap();
    txn.insert(&db.rows, b"empty", b"").unwrap();
    end(txn);
    assert_eq!(found(db), [""; 0]);
}

#[test]
fn of_transactions_that_are_committed() {
    for key in ["gone", "empty"] {
        let db = Db::new();
        let view = db.snapshot();
        change_both(&db, |mut txn| txn.commit(FlushAtCommit::Lazy).unwrap());
        turn_over(&db, key);
        assert_found(&db, key);
        drop(view);
    }
}

#[test]
fn of_active_ones() {
    for key in ["gone", "empty"] {
        let db = Db::new();
        let mut active = None;
        change_both(&db, |txn| active = Some(txn));
        turn_over(&db, key);
        assert_found(&db, key);
        std::mem::forget(active);
    }
}
