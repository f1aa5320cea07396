//! A session drops its temporary table while it is checked, with a change that is not committed.
//! Its rollback passes over the table, and the check reports nothing of it.

use holdfast::raw::{Lifetime, RawDatabase, RawOptions};
use holdfast::{FlushAtCommit, Isolation, VerifyOptions};

use crate::common;

#[test]
fn nothing_is_reported_of_a_table_that_is_dropped_meanwhile() {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false };
    db.create_table("t", &[("k", false)], b"", Lifetime::Temporary).unwrap();
    let table = db.open_table("t").unwrap();
    let mut txn = db.begin(&options).unwrap();
    txn.insert(&table, 0, b"row", b"first").unwrap();
    txn.insert(&table, 1, b"keyrow", &[3]).unwrap();
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let mut txn = db.begin(&options).unwrap();
    assert!(txn.update(&table, 0, b"row", b"second").unwrap());
    drop(table);
    let mut changes = Some(txn);
    let report = db.database().verify(&VerifyOptions::new().table("t"), &mut |_| {
        if let Some(mut txn) = changes.take() {
            db.drop_table("t", common::WAIT).unwrap();
            txn.txn().rollback().unwrap();
        }
    });
    let report = report.unwrap();
    assert!(changes.is_none());
    assert!(report.is_clean(), "{:?}", report.findings);
}
