//! An insert that has waited for another transaction's insert of its key, and is refused, locks the
//! entry for sharing, as one does that has not waited. It locked the entry exclusively: others that
//! insert the key, or read it with a lock, waited for the end of its transaction.

use holdfast_base::{Error, Result};
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

const KEY: &[u8] = b"u1";

/// What an insert waits for.
#[derive(Clone, Copy)]
enum Held {
    /// The entry of another transaction.
    Entry,
    /// Its key, which that transaction has not found and inserts then.
    Key,
}

/// True if an entry is locked for sharing that was waited for and refuses an `insert`.
fn is_shared_after(insert: fn(&mut Txn, &TableIndex) -> Result<()>, held: Held) -> bool {
    let db = Db::new();
    let options = TxnOptions { snapshot_isolation: false, ..TxnOptions::at(Isolation::RepeatableRead) };
    let [first, second] = [(); 2].map(|()| Session::new(&db, options.clone()));
    let insert_by = |session: &Session| {
        let index = db.entries.clone();
        session.run(move |txn| insert(txn, &index))
    };
    let waiting = match held {
        Held::Entry => {
            insert_by(&first).result().unwrap();
            insert_by(&second).blocked()
        }
        Held::Key => {
            let index = db.entries.clone();
            assert!(!first.run(move |txn| txn.delete(&index, KEY, None)).result().unwrap());
            let waiting = insert_by(&second).blocked();
            insert_by(&first).result().unwrap();
            waiting
        }
    };
    first.commit().unwrap();
    assert!(is(waiting.result(), |e| matches!(e, Error::DuplicateKey)));
    let mut other = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..options });
    assert!(is(other.delete(&db.entries, KEY, None), |e| matches!(e, Error::WouldBlock)), "it stays");
    match other.insert(&db.entries, KEY, b"") {
        Err(Error::DuplicateKey) => true,
        Err(Error::WouldBlock) => false,
        result => panic!("{result:?}"),
    }
}

#[test]
fn it_need_only_stay() {
    for held in [Held::Entry, Held::Key] {
        assert!(is_shared_after(|txn, index| txn.insert(index, KEY, b""), held));
        assert!(is_shared_after(|txn, index| txn.insert_unique(index, KEY, 1, b""), held));
    }
}

/// `INSERT ... ON DUPLICATE KEY UPDATE`: the lock need not be upgraded.
#[test]
fn it_is_kept_for_a_caller_that_changes_it() {
    assert!(!is_shared_after(|txn, index| txn.insert_waiting(index, KEY, b"", LockMode::Exclusive), Held::Entry));
}
