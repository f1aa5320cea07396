//! A database is closed while an unfinished transaction of an earlier run is rolled back. The close
//! waited until all of them were, which takes as long as the transactions did.

use holdfast_base::Error;

use crate::common::*;

const ROWS: u32 = 500;

fn key(n: u32) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

fn old_rows(db: &Db) -> usize {
    let mut snapshot = db.snapshot();
    (0..ROWS).filter(|n| get(&mut snapshot, &db.rows, std::str::from_utf8(&key(*n)).unwrap()).unwrap() == "old").count()
}

#[test]
fn the_next_open_goes_on_with_it() {
    let db = Db::new();
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &key(n), b"old").unwrap()));
    let mut txn = db.begin();
    (0..ROWS).for_each(|n| assert!(txn.update(&db.rows, &key(n), b"never", None).unwrap()));
    std::mem::forget(txn);
    let db = db.reopen();
    db.sys.end_waits(&Error::Closed("the database"));
    assert!(is(db.sys.roll_back_losers(), |error| matches!(error, Error::Closed(_))));
    assert_eq!(db.sys.stats().losers, 1);
    let db = db.reopen();
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    assert_eq!(old_rows(&db), ROWS as usize);
    db.purge();
    db.verify_clean();
}
