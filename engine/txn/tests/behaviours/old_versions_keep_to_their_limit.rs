//! Old versions have a limit: above it the oldest snapshots are cancelled, also while others go on
//! committing. Purge does it in slices, so that the purge mutex is never held for the whole of what
//! there is to do.

use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::*;

const LIMIT: u64 = 512 << 10;
/// More entries than a view keeps a list of: its end has the whole version tree looked at.
const FRESH: u64 = 5_000;

fn key(n: u64) -> Vec<u8> {
    format!("row{n:08}").into_bytes()
}

/// A database with `rows` rows.
fn filled(rows: u64, background: bool) -> Db {
    let mut setup = Setup { frames: 8_000, log_bytes: 256 << 20, pool_threads: background, ..Setup::default() };
    setup.txn.max_old_versions = LIMIT;
    setup.txn.background = background;
    setup.txn.commit_window = 1 << 12;
    let db = Db::with(setup);
    for part in 0..rows / 1_000 {
        db.commit(|txn| (0..1_000).for_each(|n| txn.insert(&db.rows, &key(part * 1_000 + n), &[1; 200]).unwrap()));
    }
    db
}

/// Commits a transaction that changes five rows, the first of which it deletes, so that its log is
/// purge's.
fn change(db: &Db, next: &AtomicU64, rows: u64) {
    let mut txn = db.begin();
    for i in 0..5 {
        let n = key(next.fetch_add(1, Ordering::Relaxed) % rows);
        let done = if i == 0 { txn.delete(&db.rows, &n, None) } else { txn.update(&db.rows, &n, &[2; 200], None) };
        match done {
            Ok(_) | Err(Error::Conflict) => {}
            Err(e) => panic!("{e}"),
        }
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
}

fn is_given_up(snapshot: &mut Txn, db: &Db) -> bool {
    match snapshot.get(&db.rows, &key(0), &mut Vec::new()) {
        Ok(found) => {
            assert!(found);
            false
        }
        Err(Error::SnapshotTooOld) => true,
        Err(e) => panic!("{e}"),
    }
}

/// A transaction that has a snapshot and does not give way: it has changed this row.
fn idle(db: &Db, row: u64) -> Txn {
    let mut txn = db.sys.begin(TxnOptions { snapshot_isolation: false, ..TxnOptions::default() });
    txn.take_snapshot();
    assert!(txn.update(&db.rows, &key(row), b"mine", None).unwrap());
    txn
}

#[test]
fn committers_keep_the_limit_where_the_thread_does_not_get_to_it() {
    const ROWS: u64 = 20_000;
    let db = filled(ROWS, false);
    db.purge();
    let (mut snapshot, next, mut most) = (db.snapshot(), AtomicU64::new(1), 0);
    for _ in 0..3_000 {
        change(&db, &next, ROWS);
        most = most.max(db.sys.stats().old_version_bytes);
    }
    assert!(is_given_up(&mut snapshot, &db));
    // Logs that no view holds back may wait up to a number of them.
    assert!(most < 2 * LIMIT, "{most} bytes of old versions");
}

#[test]
fn the_limit_is_kept_under_load() {
    const ROWS: u64 = 20_000;
    let db = filled(ROWS, true);
    let (mut snapshot, next, most) = (db.snapshot(), AtomicU64::new(1), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    change(&db, &next, ROWS);
                    most.fetch_max(db.sys.stats().old_version_bytes, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(is_given_up(&mut snapshot, &db));
    let most = most.into_inner();
    assert!(most < 3 * LIMIT, "{most} bytes of old versions");
}

#[test]
fn what_was_kept_for_a_view_is_dropped_in_slices() {
    const ROWS: u64 = 6_000;
    let mut setup = Setup { frames: 4_000, log_bytes: 256 << 20, ..Setup::default() };
    setup.txn.shelf_bytes = 0;
    let db = Db::with(setup);
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &key(n), b"old").unwrap()));
    let snapshot = db.snapshot();
    for n in 0..ROWS {
        db.commit(|txn| assert!(txn.update(&db.rows, &key(n), b"new", None).unwrap()));
    }
    db.purge();
    assert_eq!(db.sys.versions_stored(), ROWS);
    drop(snapshot);
    let mut slices = 0;
    while db.sys.purge(64).unwrap() > 0 {
        slices += 1;
    }
    assert_eq!(db.sys.versions_stored(), 0);
    assert!(slices > 10, "{slices} slices");
    db.verify_clean();
}

/// MariaDB declares no transaction read-only, so its limit had no effect.
#[test]
fn a_transaction_that_has_changed_nothing_gives_way() {
    const ROWS: u64 = 20_000;
    let db = filled(ROWS, false);
    db.purge();
    let begin = || {
        let mut txn = db.sys.begin(TxnOptions { snapshot_isolation: false, ..TxnOptions::default() });
        txn.take_snapshot();
        txn
    };
    let (mut reader, mut writer, next) = (begin(), begin(), AtomicU64::new(1));
    assert!(writer.update(&db.rows, &key(ROWS - 1), b"mine", None).unwrap());
    for _ in 0..3_000 {
        change(&db, &next, ROWS);
    }
    assert!(is_given_up(&mut reader, &db) && reader.is_view_given_up());
    assert!(!is_given_up(&mut writer, &db) && !writer.is_view_given_up());
    // It loses its snapshot, and nothing else.
    assert!(reader.update(&db.rows, &key(ROWS - 2), b"too", None).unwrap());
    reader.commit(FlushAtCommit::Lazy).unwrap();
    writer.commit(FlushAtCommit::Lazy).unwrap();
    db.verify_clean();
}

/// Every snapshot was cancelled as soon as it was there, for good, while one that does not give way
/// needed more than the limit: each SELECT failed because of one idle transaction.
#[test]
fn a_snapshot_for_which_nothing_is_kept_is_not_given_up_in_place_of_another() {
    const ROWS: u64 = 20_000;
    let db = filled(ROWS, false);
    db.purge();
    let mut idle = idle(&db, ROWS - 1);
    let next = AtomicU64::new(1);
    for _ in 0..3_000 {
        change(&db, &next, ROWS);
    }
    while db.sys.purge(1_000).unwrap() > 0 {}
    assert!(db.sys.stats().old_version_bytes > LIMIT, "they are kept beyond the limit");
    let mut snapshot = db.snapshot();
    while db.sys.purge(1_000).unwrap() > 0 {}
    assert!(!is_given_up(&mut snapshot, &db) && !is_given_up(&mut idle, &db));
    idle.commit(FlushAtCommit::Lazy).unwrap();
    db.verify_clean();
}

/// Every look at the whole version tree counted once more what was kept for a snapshot: one that
/// needed less than a quarter of the limit was given up beside an idle writer.
#[test]
fn what_is_kept_for_a_snapshot_is_counted_once() {
    const ROWS: u64 = 20_000;
    let db = filled(ROWS, false);
    db.purge();
    let purge = || while db.sys.purge(1_000).unwrap() > 0 {};
    let oldest = idle(&db, ROWS - 1);
    let next = AtomicU64::new(1);
    (0..3_000).for_each(|_| change(&db, &next, ROWS));
    purge();
    // What it needs is no version that the oldest one needs, too.
    let mut report = db.snapshot();
    let again = AtomicU64::new(2);
    (0..60).for_each(|_| change(&db, &again, ROWS));
    db.commit(|txn| (0..FRESH).for_each(|n| txn.insert(&db.other, &key(n), &[1; 200]).unwrap()));
    for turn in 2..6u8 {
        let large = idle(&db, ROWS - u64::from(turn));
        db.commit(|txn| {
            (0..FRESH).for_each(|n| assert!(txn.update(&db.other, &key(n), &[turn; 200], None).unwrap()));
        });
        purge();
        assert!(db.sys.versions_stored() > FRESH);
        drop(large);
        purge();
        assert!(db.sys.stats().old_version_bytes > LIMIT, "the oldest one needs more than the limit");
        assert!(!is_given_up(&mut report, &db), "turn {turn}");
    }
    drop(oldest);
    purge();
    db.verify_clean();
}

/// Each end of such a view sent the look at the whole tree round once more, and the limit was
/// looked at behind the last round: a snapshot was never given up while they ended faster than
/// that.
#[test]
fn views_that_end_all_the_time_do_not_keep_the_limit_from_being_enforced() {
    const ROWS: u64 = 20_000;
    let db = filled(ROWS, false);
    db.purge();
    let purge = || while db.sys.purge(1_000).unwrap() > 0 {};
    let (oldest, next) = (idle(&db, ROWS - 1), AtomicU64::new(1));
    db.put(&[("between", "the two")]);
    let mut report = db.snapshot();
    (0..3_000).for_each(|_| change(&db, &next, ROWS));
    db.commit(|txn| (0..FRESH).for_each(|n| txn.insert(&db.other, &key(n), &[1; 200]).unwrap()));
    let large = [2u8, 3].map(|turn| {
        let large = idle(&db, ROWS - u64::from(turn));
        db.commit(|txn| {
            (0..FRESH).for_each(|n| assert!(txn.update(&db.other, &key(n), &[turn; 200], None).unwrap()));
        });
        large
    });
    purge();
    // Half of a look at the whole tree: four entries for each record.
    let half = || (0..db.sys.versions_stored() / 2_000 + 1).for_each(|_| assert!(db.sys.purge(250).unwrap() > 0));
    assert!(!is_given_up(&mut report, &db), "all is kept for views that do not give way");
    // From here on the report is the oldest one that needs what is kept for it.
    drop(oldest);
    for large in large {
        half();
        drop(large);
    }
    half();
    assert!(is_given_up(&mut report, &db));
    purge();
    assert_eq!(db.sys.versions_stored(), 0);
    db.verify_clean();
}

/// Help began at eight logs of a group of threads, or 64 in all, whatever they held.
#[test]
fn one_large_value_is_reason_enough_to_help() {
    let db = filled(1_000, false);
    let value = vec![3; LIMIT as usize / 4];
    let mut most = 0;
    for n in 0..40 {
        let key = key(n % 4);
        db.commit(|txn| assert!(txn.update(&db.rows, &key, &value, None).unwrap()));
        most = most.max(db.sys.stats().old_version_bytes);
    }
    assert!(most <= LIMIT + 2 * value.len() as u64, "{most} bytes of old versions");
}
