//! The thread that purges rolls back what a crash has left unfinished, too. A large transaction
//! among that held purge up until its last record was undone.

use crate::common::*;

const ROWS: u32 = 500;
const DELETED: u32 = 20;

#[test]
fn what_has_committed_is_purged_while_a_loser_is_undone() {
    let db = Db::new();
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &n.to_be_bytes(), b"old").unwrap()));
    db.purge();
    let mut txn = db.begin();
    (DELETED..ROWS).for_each(|n| assert!(txn.update(&db.rows, &n.to_be_bytes(), b"never", None).unwrap()));
    std::mem::forget(txn);
    let db = db.reopen();
    while db.sys.purge(1_000).unwrap() > 0 {}
    for n in 0..DELETED {
        db.commit(|txn| assert!(txn.delete(&db.rows, &n.to_be_bytes(), None).unwrap()));
    }
    assert!(db.sys.history_length() > 0);
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    assert_eq!((db.sys.history_length(), db.physical(&db.rows)), (0, (ROWS - DELETED) as usize));
    db.verify_clean();
}
