//! A change that has waited for an entry, which its holder has deleted, keeps the lock of the key
//! only where its isolation level promises that the key stays free. At READ COMMITTED, and with
//! snapshot isolation, others waited for the end of its transaction to insert the key.

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

fn options(isolation: Isolation, snapshot_isolation: bool) -> TxnOptions {
    TxnOptions { snapshot_isolation, ..TxnOptions::at(isolation) }
}

/// True if a key is free for others after a deletion of its entry was waited for and `change` has
/// found nothing.
fn is_free_after(change: fn(&mut Txn, &TableIndex) -> holdfast_base::Result<bool>, options: TxnOptions) -> bool {
    let db = Db::new();
    db.put(&[("k", "1")]);
    let changer = Session::new(&db, options);
    let mut deleter = db.at(Isolation::ReadCommitted);
    assert!(deleter.delete(&db.rows, b"k", None).unwrap());
    let rows = db.rows.clone();
    let waiting = changer.run(move |txn| change(txn, &rows)).blocked();
    deleter.commit(FlushAtCommit::Lazy).unwrap();
    assert!(!waiting.result().unwrap());
    let nowait = TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::at(Isolation::ReadCommitted) };
    let mut other = db.sys.begin(nowait);
    match other.insert(&db.rows, b"k", b"2") {
        Ok(()) => true,
        Err(Error::WouldBlock) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_key_is_kept_where_the_level_says_so() {
    for (isolation, snapshot_isolation, is_free) in [
        (Isolation::ReadCommitted, false, true),
        (Isolation::RepeatableRead, true, true),
        (Isolation::RepeatableRead, false, false),
        (Isolation::Serializable, false, false),
    ] {
        let options = || options(isolation, snapshot_isolation);
        assert_eq!(is_free_after(|txn, rows| txn.delete(rows, b"k", None), options()), is_free, "{isolation:?}");
        assert_eq!(is_free_after(|txn, rows| txn.update(rows, b"k", b"2", None), options()), is_free, "{isolation:?}");
    }
}
