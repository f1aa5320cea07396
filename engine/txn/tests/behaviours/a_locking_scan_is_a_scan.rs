//! A scan that locks what it reads - INSERT ... SELECT, CREATE TABLE ... SELECT, FOR UPDATE,
//! SERIALIZABLE - reads large values through the scan ring, as a scan at a view does. It read each
//! entry, once that was locked, as if no scan were declared: so all pages of large values went on
//! trial, and pushed others out.

use std::ops::Bound;

use holdfast_txn::*;

use crate::common::*;

const FRAMES: usize = 128;
const ROWS: u32 = 1_200;
/// Every so many rows there is a large value, of three pages.
const LARGE_EVERY: u32 = 4;
const LARGE: usize = 9_000;
/// Three of these are a leaf: the table has far more leaves than half of the frames.
const SMALL: usize = 1_000;

fn filled() -> Db {
    let db = Db::with(Setup { frames: FRAMES, ..Setup::default() });
    for n in 0..ROWS {
        let value = vec![b'v'; if n.is_multiple_of(LARGE_EVERY) { LARGE } else { SMALL }];
        db.commit(|txn| txn.insert(&db.rows, &n.to_be_bytes(), &value).unwrap());
    }
    db.purge();
    db.store.pool().flush_all().unwrap();
    db
}

/// Pages that were on trial and left unused, while a declared scan went over all rows.
fn on_trial(lock: Option<LockMode>) -> u64 {
    let db = filled();
    let left = || db.store.pool().stats().policy.not_young;
    let before = left();
    let options = TxnOptions { snapshot_isolation: false, ..TxnOptions::at(Isolation::RepeatableRead) };
    let mut txn = db.sys.begin(options);
    let all = (Bound::Unbounded, Bound::Unbounded);
    let options = CursorOptions { lock, scan: ScanMode::Declared, ..CursorOptions::default() };
    let mut cursor = txn.cursor(&db.rows, all.0, all.1, options).unwrap();
    let (mut rows, mut bytes) = (0, 0);
    while let Some((_, value)) = cursor.next().unwrap() {
        (rows, bytes) = (rows + 1, bytes + value.len());
    }
    drop(cursor);
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let large = (ROWS / LARGE_EVERY) as usize;
    assert_eq!((rows, bytes), (ROWS, large * LARGE + (ROWS as usize - large) * SMALL));
    left() - before
}

#[test]
fn large_values_go_through_the_ring_whether_they_are_locked_or_not() {
    // What the load has left in the pool makes room for the ring.
    let most = FRAMES as u64;
    for lock in [None, Some(LockMode::Shared), Some(LockMode::Exclusive)] {
        let passed = on_trial(lock);
        assert!(passed <= most, "{lock:?}: {passed} pages were on trial");
    }
}
