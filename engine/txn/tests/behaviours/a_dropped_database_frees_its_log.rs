//! A hook of the log's poison does not hold the poison. The poison holds the hook, so otherwise
//! both would stay in memory when the database is gone.

use std::sync::Arc;

use crate::common::*;

#[test]
fn nothing_holds_the_poison_of_a_dropped_database() {
    let db = Db::new();
    let poison = Arc::downgrade(db.store.wal().shared_poison());
    drop(db);
    assert!(poison.upgrade().is_none(), "something still holds the poison");
}
