//! A caller that waits for purge waits for what had committed when it began. A compaction purged
//! until nothing was left, and came no further where others committed as fast as it did.

use crate::common::*;

#[test]
fn what_commits_later_is_left() {
    let db = Db::new();
    let keys: Vec<String> = (0..10).map(|n| format!("row{n}")).collect();
    db.commit(|txn| keys.iter().for_each(|key| txn.insert(&db.rows, key.as_bytes(), b"value").unwrap()));
    let delete = |key: &String| db.commit(|txn| assert!(txn.delete(&db.rows, key.as_bytes(), None).unwrap()));
    keys[..5].iter().for_each(delete);
    let last = db.sys.last_commit();
    keys[5..].iter().for_each(delete);
    db.sys.purge_up_to(last).unwrap();
    assert_eq!((db.sys.history_length(), db.physical(&db.rows)), (5, 5));
    db.sys.purge_up_to(db.sys.last_commit()).unwrap();
    assert_eq!((db.sys.history_length(), db.physical(&db.rows)), (0, 0));
}
