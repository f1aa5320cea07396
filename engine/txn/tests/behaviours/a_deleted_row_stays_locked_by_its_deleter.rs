//! A transaction that comes again to a row which it has deleted leaves the lock to those that wait
//! for its end.
//!
//! It gave the lock up as if the row were gone. The waiter was granted it, found the id in the row
//! and began to wait anew. If the transaction came to the row once more in between, it waited for
//! the waiter, which was then taken for a victim of a deadlock.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{Result, TxnId};
use holdfast_metrics::Counter;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::*;

/// Comes to a row to lock it, and says whether it is there.
type Way = fn(&mut Txn, &Arc<TableIndex>) -> Result<bool>;

const WAYS: [Way; 3] = [
    |txn, rows| txn.get_locked(rows, b"b", LockMode::Exclusive, None, &mut Vec::new()),
    |txn, rows| txn.lock_entry(rows, b"b", LockMode::Exclusive),
    |txn, rows| {
        let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
        let mut cursor = txn.cursor(rows, Bound::Unbounded, Bound::Unbounded, options)?;
        let mut found = false;
        while let Some((key, _)) = cursor.next()? {
            found |= key == b"b";
        }
        Ok(found)
    },
];

#[test]
fn who_waits_for_it_goes_on_when_the_deleter_has_ended() {
    let key = LockKind::Row(b"b".as_slice().into());
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        for come_to_it in WAYS {
            let db = Db::new();
            db.put(&[("a", "1"), ("b", "1"), ("c", "1")]);
            let [deleter, waiter] = [(); 2].map(|()| Session::new(&db, TxnOptions::at(isolation)));
            let rows = db.rows.clone();
            assert!(deleter.run(move |txn| txn.delete(&rows, b"b", None)).result().unwrap());
            let inserting = waiter.insert("b", "2").blocked();
            let waits = || db.store.metrics().get(Counter::RowLockWaits);
            while waits() == 0 {
                std::thread::yield_now();
            }
            for _ in 0..2 {
                let rows = db.rows.clone();
                assert!(!deleter.run(move |txn| come_to_it(txn, &rows)).result().unwrap());
                let locks = db.sys.locks().locks();
                // The waiter has no id yet.
                let holds = |lock: &LockInfo| lock.granted && lock.txn != TxnId::NONE;
                assert!(locks.iter().any(|lock| lock.kind == key && holds(lock)), "{locks:?}");
            }
            let inserting = inserting.blocked();
            assert_eq!(waits(), 1, "it has not begun to wait anew");
            deleter.commit().unwrap();
            inserting.result().unwrap();
            assert_eq!(db.sys.locks().latest_deadlock(), None);
        }
    }
}
