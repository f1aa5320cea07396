//! A program that has two databases open may give a transaction of one a table of the other. The
//! change was logged in the one and made in the other: after a crash it was made, or was undone, in
//! the pages of whatever table had that number there.

use std::ops::Bound;

use holdfast::raw::{IndexSource, Lifetime, RawDatabase, RawLock, RawRead};
use holdfast::{Error, Result};

use crate::common;
use crate::common::rows::{begin, entry, insert, read};

fn database() -> RawDatabase {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    db.create_table("t", &[("k", false)], b"", Lifetime::Lasting).unwrap();
    db
}

fn is_refused<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::InvalidArgument(what)) if what.contains("another database"))
}

#[test]
fn and_no_others() {
    let (own, other) = (database(), database());
    let (table, foreign) = (own.open_table("t").unwrap(), other.open_table("t").unwrap());
    let mut txn = begin(&own);
    let key = 1u32.to_be_bytes();
    assert!(is_refused(insert(&mut txn, &foreign, 1, b"row", 1)));
    assert!(is_refused(txn.insert_unique(&foreign, 1, &entry(1, 1), 4, b"\x04")));
    assert!(is_refused(txn.update(&foreign, 0, &key, b"row")));
    assert!(is_refused(txn.delete(&foreign, 0, &key)));
    let lock = RawLock { exclusive: true, skip_locked: false, linked: false };
    for lock in [None, Some(lock)] {
        assert!(is_refused(txn.get(&foreign, 0, &key, lock, &mut Vec::new())));
        assert!(is_refused(txn.contains(&foreign, 0, &key, lock)));
    }
    assert!(is_refused(txn.cursor(&foreign, 0, (Bound::Unbounded, Bound::Unbounded), RawRead::default())));
    insert(&mut txn, &table, 1, b"row", 1).unwrap();
    assert_eq!(read(&mut txn, &table, 0).unwrap().len(), 1);
    drop(txn);

    let mut alter = other.begin_alter("t", &[], false, common::WAIT).unwrap();
    alter.become_table(&[IndexSource::Kept(1)], b"new").unwrap();
    assert!(is_refused(own.commit_alters(&mut [&mut alter], &[], common::WAIT)));
    other.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
    drop(alter);
    for db in [own, other] {
        common::assert_sound(db.database());
    }
}
