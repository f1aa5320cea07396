//! A transaction is so old that the window of the commit map has passed its id. At READ COMMITTED a
//! locking cursor that has read ahead comes to an entry that this transaction has removed and
//! committed since, and reads on in what it had read ahead, without the entry that the transaction
//! has put behind it: once the old transaction was forgotten, it counted as committed before.

use std::ops::Bound;

use holdfast_txn::*;

use crate::common::*;

/// Gives out so many ids, which leave nothing for purge.
fn spend_ids(db: &Db, n: usize) {
    for _ in 0..n {
        let mut txn = db.begin();
        txn.insert(&db.other, b"key", b"").unwrap();
        txn.rollback().unwrap();
    }
}

#[test]
fn by_a_cursor_that_has_read_ahead() {
    let db = Db::new();
    db.put(&[("a", ""), ("b", ""), ("c", ""), ("z", "")]);
    let mut old = db.begin();
    assert!(old.delete(&db.rows, b"b", None).unwrap());
    spend_ids(&db, 4 * db.setup.txn.commit_window);
    let mut reader = db.at(Isolation::ReadCommitted);
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let mut cursor = reader.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().0, b"a");
    old.insert(&db.rows, b"m", b"").unwrap();
    old.commit(FlushAtCommit::Lazy).unwrap();
    spend_ids(&db, 4 * db.setup.txn.commit_window);
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(key.to_vec());
    }
    assert_eq!(keys, [b"c", b"m", b"z"]);
}
