//! A table is dropped, and its indexes forgotten, while a transaction that began before goes on
//! reading it: purge once threw away the old versions of its rows, and the transaction did not find
//! them any more.

use holdfast_txn::{FlushAtCommit, Txn};

use crate::common::*;

/// So many commits elsewhere that the views of before become long, and the shelf has room for none
/// of what came before them.
fn go_on_elsewhere(db: &Db) {
    for round in 0..200 {
        db.commit(|txn| assert_eq!(txn.upsert(&db.other, b"z", b"value", None).unwrap(), round > 0));
        db.purge();
    }
}

fn delete(db: &Db, key: &str) {
    db.commit(|txn| assert!(txn.delete(&db.rows, key.as_bytes(), None).unwrap()));
}

fn end(db: &Db, mut txn: Txn) {
    txn.commit(FlushAtCommit::Lazy).unwrap();
    db.purge();
}

#[test]
fn versions_that_are_purged_later_are_kept() {
    let db = Db::new();
    db.put(&[("changed", "1"), ("deleted", "1"), ("same", "1")]);
    db.purge();
    let mut old = db.snapshot();
    db.put(&[("changed", "2")]);
    delete(&db, "deleted");
    db.put(&[("deleted", "3")]);
    db.sys.forget(db.rows.id());
    go_on_elsewhere(&db);
    for key in ["changed", "deleted", "same"] {
        assert_eq!(get(&mut old, &db.rows, key), Some("1".into()), "{key}");
    }
    assert_eq!(scan(&mut old, &db.rows).len(), 3);
    assert_eq!(db.sys.versions_stored(), 2);
    end(&db, old);
    assert_eq!(db.sys.versions_stored(), 0);
}

#[test]
fn versions_that_were_kept_before_stay_for_the_last_view() {
    let db = Db::new();
    db.put(&[("changed", "1"), ("deleted", "1")]);
    db.purge();
    let (first, mut last) = (db.snapshot(), db.snapshot());
    db.put(&[("changed", "2")]);
    delete(&db, "deleted");
    go_on_elsewhere(&db);
    db.sys.forget(db.rows.id());
    end(&db, first);
    for key in ["changed", "deleted"] {
        assert_eq!(get(&mut last, &db.rows, key), Some("1".into()), "{key}");
    }
    end(&db, last);
    assert_eq!(db.sys.versions_stored(), 0);
}
