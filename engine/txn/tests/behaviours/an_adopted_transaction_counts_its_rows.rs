//! The number of rows follows a prepared transaction that another session commits, as it does one
//! that ends where it began: a table filled in that way once counted as empty for ever.

use holdfast_txn::FlushAtCommit;

use crate::common::{Db, get};

#[test]
fn when_it_commits_and_only_then() {
    for commits in [true, false] {
        let db = Db::new();
        db.put(&[("1", "a"), ("2", "a"), ("3", "a"), ("4", "a"), ("5", "a")]);
        let mut txn = db.begin();
        for new in [b"6", b"7", b"8"] {
            txn.insert(&db.rows, new, b"b").unwrap();
        }
        assert!(txn.update(&db.rows, b"1", b"b", None).unwrap() && txn.delete(&db.rows, b"2", None).unwrap());
        assert!(txn.update(&db.rows, b"7", b"c", None).unwrap() && txn.delete(&db.rows, b"8", None).unwrap());
        txn.insert(&db.rows, b"8", b"b").unwrap();
        txn.insert(&db.other, b"1", b"b").unwrap();
        txn.prepare(b"xid", FlushAtCommit::Sync).unwrap();
        drop(txn);
        assert_eq!((db.rows.rows(), db.other.rows()), (5, 0));
        let mut txn = db.sys.adopt(b"xid").unwrap();
        let end = if commits { txn.commit(FlushAtCommit::Sync) } else { txn.rollback() };
        end.unwrap();
        assert_eq!((db.rows.rows(), db.other.rows()), if commits { (7, 1) } else { (5, 0) });
        assert_eq!(get(&mut db.begin(), &db.rows, "7"), commits.then(|| "c".into()));
    }
}
