//! A hook of the log's poison held the poison, which held the hook: both stayed in memory when the
//! database was gone, with what the hook wakes. LeakSanitizer found it.
#![cfg(not(shuttle))]

mod common;

use std::sync::Arc;

use common::*;

#[test]
fn nothing_holds_the_poison_of_a_dropped_database() {
    let db = Db::new();
    let poison = Arc::downgrade(db.store.wal().shared_poison());
    drop(db);
    assert!(poison.upgrade().is_none(), "something still holds the poison");
}
