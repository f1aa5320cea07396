//! A transaction that a thread keeps for itself is rolled back when the thread ends. What the
//! thread keeps for its next mini-transaction is gone by then: the program was aborted.

use std::cell::RefCell;

use holdfast::{Database, WriteTransaction};

use crate::common::{self, ROWS};

thread_local!(static KEPT: RefCell<Option<WriteTransaction>> = const { RefCell::new(None) });

/// Inserts a row in a transaction that is left to the thread.
fn leave_unfinished(db: &Database) {
    // First of all: what a thread has used first it drops last.
    KEPT.with_borrow_mut(|kept| {
        let txn = kept.insert(db.begin_write().unwrap());
        txn.open_table(&ROWS).unwrap().insert(100, "not committed").unwrap();
    });
}

#[test]
fn which_rolls_it_back() {
    let db = common::small().in_memory().unwrap();
    common::fill(&db, 0, 100);
    std::thread::scope(|scope| scope.spawn(|| leave_unfinished(&db)).join().unwrap());
    common::fill(&db, 100, 110);
    common::assert_filled(&db, 0, 110);
    common::assert_sound(&db);
    db.close().unwrap();
}
