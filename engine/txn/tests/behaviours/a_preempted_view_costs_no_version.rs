//! With more sessions than cores the view of a statement whose thread is preempted stays open for
//! milliseconds, and hundreds of small transactions commit meanwhile. Each left an undo page that
//! waited for that view, and when the view had become long, purge copied versions for it into the
//! version tree. What such a view may need is kept in memory now: it costs no page and no version,
//! and a snapshot that is held open costs one version per changed row, whatever views come and go
//! beside it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_metrics::Counter;
use holdfast_testkit::SplitMix64;
use holdfast_txn::*;

use crate::common::*;

fn with_shelf(bytes: u64) -> Db {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = bytes;
    Db::with(setup)
}

fn key(n: usize) -> String {
    format!("row{n:03}")
}

/// Puts `value` into each of `rows` rows, in a transaction each.
fn change_all(db: &Db, rows: usize, value: &str) {
    (0..rows).for_each(|n| db.put(&[(&key(n), value)]));
}

#[test]
fn it_reads_its_values_while_nothing_is_kept_on_pages() {
    let db = with_shelf(1 << 20);
    change_all(&db, 10, "0");
    let mut views = Vec::new();
    for round in 1..60usize {
        if round % 20 == 1 {
            views.push((round - 1, db.snapshot()));
        }
        change_all(&db, 10, &round.to_string());
        assert!(db.sys.history_length() <= 16 && db.sys.stats().undo_pages <= 16, "{:?}", db.sys.stats());
    }
    // Purge has nothing else to do for them, however far they are behind.
    db.purge();
    assert_eq!((db.sys.history_length(), db.sys.versions_stored(), db.sys.stats().undo_pages), (0, 0, 0));
    for (round, view) in &mut views {
        for n in 0..10 {
            assert_eq!(get(view, &db.rows, &key(n)), Some(round.to_string()));
        }
        assert_eq!(scan(view, &db.rows).len(), 10);
    }
    let metrics = db.store.metrics();
    assert!(metrics.get(Counter::LogsShelved) >= 580, "{}", metrics.get(Counter::LogsShelved));
    let shelved = db.sys.stats().shelf_bytes;
    drop(views.remove(0));
    db.purge();
    assert!(db.sys.stats().shelf_bytes < shelved, "what only the oldest view needed is forgotten");
    assert_eq!(get(&mut views[0].1, &db.rows, &key(7)), Some("20".into()));
    views.clear();
    db.purge();
    assert_eq!((db.sys.stats().shelf_bytes, metrics.get(Counter::VersionsKept)), (0, 0));
    assert!(db.sys.keeps_nothing_old().unwrap());
    db.verify_clean();
}

#[test]
fn rows_that_come_and_keys_that_are_not_there_are_judged_right() {
    let db = with_shelf(1 << 20);
    change_all(&db, 5, "old");
    let mut view = db.snapshot();
    change_all(&db, 40, "new");
    // The same transaction changes a row more than once.
    for n in 0..20 {
        let mut txn = db.begin();
        for value in ["x", "y"] {
            txn.upsert(&db.rows, key(n).as_bytes(), value.as_bytes(), None).unwrap();
        }
        txn.commit(FlushAtCommit::Lazy).unwrap();
    }
    db.purge();
    assert!(db.sys.history_length() == 0 && db.sys.versions_stored() == 0);
    assert_eq!(scan(&mut view, &db.rows).len(), 5);
    assert_eq!(get(&mut view, &db.rows, &key(4)), Some("old".into()));
    assert_eq!(get(&mut view, &db.rows, &key(5)), None);
    assert_eq!(get(&mut db.snapshot(), &db.rows, &key(5)), Some("y".into()));
    drop(view);
    db.verify_clean();
}

#[test]
fn a_snapshot_held_open_costs_one_version_per_changed_row_and_views_beside_it_none() {
    const LIMIT: u64 = 64 << 10;
    let db = with_shelf(LIMIT);
    change_all(&db, 100, "before");
    db.purge();
    let mut held = db.snapshot();
    for round in 0..40 {
        for half in 0..10 {
            // Preempted while the rows that it reads change.
            let mut put_off = db.snapshot();
            let rows = 10 * half..10 * half + 10;
            let expected = if round == 0 { "before".into() } else { format!("{}", round - 1) };
            for n in rows.clone() {
                db.put(&[(&key(n), &format!("{round}"))]);
            }
            for n in rows {
                assert_eq!(get(&mut put_off, &db.rows, &key(n)), Some(expected.clone()));
            }
        }
        assert!(db.sys.versions_stored() <= 100 && db.sys.stats().shelf_bytes <= LIMIT, "{:?}", db.sys.stats());
        assert!(db.sys.history_length() <= 32, "{:?}", db.sys.stats());
    }
    assert_eq!(db.sys.versions_stored(), 100);
    assert_eq!(db.store.metrics().get(Counter::VersionsKept), 100);
    let rows = scan(&mut held, &db.rows);
    assert!(rows.len() == 100 && rows.iter().all(|(_, value)| value == "before"), "{rows:?}");
    drop(held);
    db.purge();
    assert_eq!((db.sys.versions_stored(), db.sys.stats().shelf_bytes, db.sys.stats().undo_pages), (0, 0, 0));
    db.verify_clean();
}

/// A log that purge has in its hands is older than what committers shelve meanwhile, also when it
/// is put back half done.
#[test]
fn what_is_shelved_beside_purge_leaves_after_what_purge_has_begun_with() {
    let db = with_shelf(8 << 10);
    db.put(&[("gone", "1")]);
    let put = |value: &str| {
        let mut txn = db.begin();
        txn.upsert(&db.other, b"row", value.as_bytes(), None).unwrap();
        txn.commit(FlushAtCommit::Lazy).unwrap();
    };
    put("before");
    db.purge();
    let mut view = db.snapshot();
    // Nothing of this can be shelved, for there is a delete mark; and the record that the view
    // needs is looked at last.
    let mut txn = db.begin();
    txn.upsert(&db.other, b"row", b"first", None).unwrap();
    assert!(txn.delete(&db.rows, b"gone", None).unwrap());
    txn.commit(FlushAtCommit::Lazy).unwrap();
    (0..9).for_each(|_| put("more"));
    let (latched, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|s| {
        s.spawn(|| db.latch_root(1, &latched, &done));
        latched.wait();
        let waiting = db.sys.history_length();
        let purge = s.spawn(|| db.sys.purge(1).unwrap());
        // Until it has the log in hand.
        while db.sys.history_length() == waiting {
            std::thread::yield_now();
        }
        (0..100).for_each(|n| put(&format!("{n}")));
        assert!(db.sys.stats().shelf_bytes > 4 << 10 && !purge.is_finished());
        done.wait();
    });
    for _ in 0..400 {
        assert_eq!(get(&mut view, &db.other, "row"), Some("before".into()));
        db.sys.purge(1).unwrap();
    }
    assert_eq!((db.sys.history_length(), db.sys.stats().undo_pages), (0, 0));
    assert_eq!(db.sys.versions_stored(), 2, "one of each table");
    assert_eq!(get(&mut view, &db.rows, "gone"), Some("1".into()));
    drop(view);
    db.purge();
    db.verify_clean();
}

/// The pages of shelved logs are used again at once, and what they say lasts until then.
#[test]
fn nothing_on_the_shelf_is_missed_after_a_stop() {
    let db = with_shelf(1 << 20);
    change_all(&db, 10, "0");
    let view = db.snapshot();
    for round in 1..20 {
        change_all(&db, 10, &round.to_string());
    }
    let mut open = db.begin();
    open.update(&db.rows, key(3).as_bytes(), b"uncommitted", None).unwrap();
    db.store.wal().flush_to(db.store.wal().next_lsn()).unwrap();
    assert!(db.sys.stats().shelf_bytes > 0);
    // As a crash would.
    std::mem::forget(open);
    std::mem::forget(view);
    let db = db.reopen();
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    db.purge();
    let rows = scan(&mut db.begin(), &db.rows);
    assert!(rows.len() == 10 && rows.iter().all(|(_, value)| value == "19"), "{rows:?}");
    assert_eq!((db.sys.history_length(), db.sys.versions_stored(), db.sys.stats().shelf_bytes), (0, 0, 0));
    db.verify_clean();
}

/// Writers move money between rows, one small transaction after the other; each view reads the same
/// again and again, while what it needs goes from undo pages to the shelf, and from there to the
/// version tree or nowhere.
#[test]
fn views_see_the_same_wherever_it_is_kept() {
    const ROWS: u64 = 30;
    for bytes in [0, 8 << 10, 64 << 10, 32 << 20] {
        let mut setup = Setup { pool_threads: true, ..Setup::default() };
        setup.txn.background = true;
        setup.txn.shelf_bytes = bytes;
        let db = Db::with(setup);
        change_all(&db, ROWS as usize, "100");
        let (stop, begun) = (AtomicBool::new(false), Barrier::new(5));
        std::thread::scope(|s| {
            let (db, stop, begun) = (&db, &stop, &begun);
            let write = move |seed| {
                let mut rng = SplitMix64::new(seed);
                begun.wait();
                for _ in 0..3_000 {
                    while move_one(db, rng.below(ROWS) as usize, rng.below(ROWS) as usize).is_err() {}
                }
            };
            let writers = [0, 1].map(|seed| s.spawn(move || write(seed)));
            for reads in [1, 20, 500] {
                s.spawn(move || {
                    begun.wait();
                    while !stop.load(Ordering::Relaxed) {
                        let mut view = db.snapshot();
                        let first = scan(&mut view, &db.rows);
                        let sum: i64 = first.iter().map(|(_, value)| value.parse::<i64>().unwrap()).sum();
                        assert_eq!((first.len() as u64, sum), (ROWS, 100 * ROWS as i64));
                        (0..reads).for_each(|_| assert_eq!(scan(&mut view, &db.rows), first));
                    }
                });
            }
            let done = writers.map(|writer| writer.join());
            stop.store(true, Ordering::Relaxed);
            done.into_iter().for_each(|done| done.unwrap());
        });
        db.sys.shutdown();
        db.purge();
        assert!(db.sys.background_error().is_none(), "{:?}", db.sys.background_error());
        assert_eq!((db.sys.history_length(), db.sys.versions_stored(), db.sys.stats().shelf_bytes), (0, 0, 0));
        db.verify_clean();
    }
}

fn move_one(db: &Db, from: usize, to: usize) -> holdfast_base::Result<()> {
    let mut txn = db.begin();
    for (row, by) in [(from, -1), (to, 1)] {
        let value = get(&mut txn, &db.rows, &key(row)).unwrap().parse::<i64>().unwrap() + by;
        txn.update(&db.rows, key(row).as_bytes(), value.to_string().as_bytes(), None)?;
    }
    txn.commit(FlushAtCommit::Lazy)
}
