//! A table loses an index while it is checked: the index's pages become free, and the check calls
//! nothing damaged.

use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{FlushAtCommit, VerifyOptions};

use crate::common;
use crate::common::rows::{begin, insert};

/// A database with a table of many rows with an entry each.
fn filled() -> RawDatabase {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    db.create_table("t", &[("k", false)], b"", Lifetime::Lasting).unwrap();
    let (table, mut txn) = (db.open_table("t").unwrap(), begin(&db));
    (0..2_000).for_each(|id| insert(&mut txn, &table, id, &[7; 50], id).unwrap());
    txn.commit(FlushAtCommit::Lazy).unwrap();
    db
}

#[test]
fn a_table_that_loses_an_index_is_checked_as_it_is_by_then() {
    let db = filled();
    let mut done = false;
    let report = db.database().verify(&VerifyOptions::new().table("t"), &mut |_| {
        if !done {
            done = true;
            let mut alter = db.begin_alter("t", &[], false, common::WAIT).unwrap();
            alter.become_table(&[], b"").unwrap();
            db.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
        }
    });
    let report = report.unwrap();
    assert!(done);
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!((report.rows, report.entries), (2_000, 0));
}
