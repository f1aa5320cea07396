//! The versions that an earlier run has left are dropped after an open. They were subtracted from a
//! count that they had never been added to, so as many versions of the new run did not count: the
//! limit of old versions was exceeded by what the earlier run had left.

use holdfast_txn::Txn;

use crate::common::*;

const ROWS: usize = 300;

fn set_all(db: &Db, value: &[u8]) {
    for n in 0..ROWS {
        db.commit(|txn| {
            txn.upsert(&db.rows, format!("row{n:04}").as_bytes(), value, None).unwrap();
        });
    }
}

/// Changes all rows after `snapshot`, and keeps what it sees in the version tree.
fn keep_all(db: &Db, snapshot: &mut Txn, value: &[u8]) {
    set_all(db, value);
    db.purge();
    assert_eq!(scan(snapshot, &db.rows).len(), ROWS);
}

#[test]
fn the_count_begins_with_those_of_this_run() {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::with(setup);
    set_all(&db, &[1; 100]);
    db.purge();
    let mut snapshot = db.snapshot();
    keep_all(&db, &mut snapshot, &[2; 100]);
    assert_eq!(db.sys.versions_stored(), ROWS as u64);
    // It is open still when the database is closed.
    std::mem::forget(snapshot);
    let db = db.reopen();
    while db.purge() > 0 {}
    assert!(db.sys.keeps_nothing_old().unwrap());
    assert_eq!((db.sys.versions_stored(), db.sys.stats().old_version_bytes), (0, 0));
    let mut snapshot = db.snapshot();
    keep_all(&db, &mut snapshot, &[3; 100]);
    assert_eq!(db.sys.versions_stored(), ROWS as u64);
    assert!(db.sys.stats().old_version_bytes > ROWS as u64 * 100);
    drop(snapshot);
    while db.purge() > 0 {}
    assert_eq!((db.sys.versions_stored(), db.sys.stats().old_version_bytes), (0, 0));
    db.verify_clean();
}
