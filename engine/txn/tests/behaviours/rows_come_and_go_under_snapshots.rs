//! Threads insert, delete, move and grow rows while others hold snapshots, short and long, and
//! purge runs: each snapshot sees one and the same state as long as it lives, and in every state
//! the sum is the same.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::{Error, Result};
use holdfast_metrics::Counter;
use holdfast_testkit::SplitMix64;
use holdfast_txn::*;

use crate::common::*;

const KEYS: u64 = 120;
const TOTAL: u64 = 10_000;
const WRITERS: usize = 3;
const READERS: usize = 2;

fn key(n: u64) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    let mut value = n.to_string().into_bytes();
    if n.is_multiple_of(3) {
        value.resize(HEAD + 6_000, b' ');
    }
    value
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().trim_end().parse().unwrap()
}

/// Moves a part of one row, or all of it, to another key.
fn shift(txn: &mut Txn, db: &Db, rng: &mut SplitMix64) -> Result<()> {
    let (from, to) = (rng.below(KEYS), rng.below(KEYS));
    let mut bytes = Vec::new();
    if from == to || !txn.get_locked(&db.rows, &key(from), LockMode::Exclusive, None, &mut bytes)? {
        return Ok(());
    }
    let have = number(&bytes);
    let part = if rng.below(2) == 0 { have } else { rng.below(have + 1) };
    if part == have {
        assert!(txn.delete(&db.rows, &key(from), None)?);
    } else {
        assert!(txn.update(&db.rows, &key(from), headed(&value(have - part)), None)?);
    }
    let there = txn.get_locked(&db.rows, &key(to), LockMode::Exclusive, None, &mut bytes)?;
    let had = if there { number(&bytes) } else { 0 };
    txn.upsert(&db.rows, &key(to), headed(&value(had + part)), None)?;
    Ok(())
}

fn write(db: &Db, thread: u64, rounds: usize) {
    let mut rng = SplitMix64::new(thread);
    let mut done = 0;
    while done < rounds {
        // Where a key that was read and found absent stays locked.
        let mut txn = db.at(Isolation::RepeatableRead);
        let result = (0..1 + rng.below(3)).try_for_each(|_| {
            let savepoint = txn.statement_begin()?;
            shift(&mut txn, db, &mut rng)?;
            if rng.below(6) == 0 { txn.rollback_to(savepoint) } else { Ok(()) }
        });
        match result {
            Ok(()) if rng.below(8) == 0 => txn.rollback().unwrap(),
            Ok(()) => {
                txn.commit(FlushAtCommit::Lazy).unwrap();
                done += 1;
            }
            Err(Error::Deadlock) => txn.rollback().unwrap(),
            Err(e) => panic!("{e}"),
        }
    }
}

fn check(snapshot: &mut Txn, db: &Db, first: &mut Option<Vec<(String, String)>>) {
    let rows = scan(snapshot, &db.rows);
    let sum: u64 = rows.iter().map(|(_, v)| number(v.as_bytes())).sum();
    assert_eq!(sum, TOTAL, "{} rows", rows.len());
    let reverse = CursorOptions { direction: Direction::Reverse, ..CursorOptions::default() };
    let mut back =
        scan_with(snapshot, &db.rows, std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, reverse).unwrap();
    back.reverse();
    assert_eq!(back, rows);
    let mut bytes = Vec::new();
    for n in [3, 50, 117] {
        let there = snapshot.get(&db.rows, &key(n), &mut bytes).unwrap();
        let scanned = rows.iter().find(|(k, _)| k.as_bytes() == key(n));
        assert_eq!(there.then_some(bytes.as_slice()), scanned.map(|(_, v)| v.as_bytes()));
    }
    assert_eq!(first.get_or_insert_with(|| rows.clone()), &rows);
}

fn run(short_view_commits: u64, rounds: usize) -> u64 {
    let mut setup = Setup { pool_threads: true, ..Setup::default() };
    setup.txn.background = true;
    setup.txn.short_view_commits = short_view_commits;
    setup.txn.purge_help_above = 32;
    let db = Db::with(setup);
    let mut txn = db.begin();
    for n in 0..KEYS / 4 {
        let share = if n == 0 { TOTAL - (KEYS / 4 - 1) * 300 } else { 300 };
        txn.insert(&db.rows, &key(n * 4), headed(&value(share))).unwrap();
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let stop = AtomicBool::new(false);
    // On a machine with other work to do the writers could be done before a reader gets its first
    // turn.
    let looked = Barrier::new(READERS + WRITERS);
    std::thread::scope(|s| {
        let (db, stop, looked) = (&db, &stop, &looked);
        let begin = move |t| {
            looked.wait();
            write(db, t, rounds);
        };
        let writers: Vec<_> = (0..WRITERS).map(|t| s.spawn(move || begin(t as u64))).collect();
        for reader in 0..READERS {
            s.spawn(move || {
                check(&mut db.snapshot(), db, &mut None);
                looked.wait();
                while !stop.load(Ordering::Relaxed) {
                    let (mut snapshot, mut first) = (db.snapshot(), None);
                    for _ in 0..1 + reader * 12 {
                        check(&mut snapshot, db, &mut first);
                    }
                }
            });
        }
        let done: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        stop.store(true, Ordering::Relaxed);
        done.into_iter().for_each(|d| d.unwrap());
    });
    db.sys.shutdown();
    db.purge();
    assert!(db.sys.background_error().is_none(), "{:?}", db.sys.background_error());
    assert_eq!((db.sys.history_length(), db.sys.versions_stored(), db.sys.stats().undo_pages), (0, 0, 0));
    let live = scan(&mut db.snapshot(), &db.rows).len();
    assert_eq!(db.physical(&db.rows), live);
    assert_eq!(db.rows.rows(), live as u64);
    assert!(db.sys.locks().locks().is_empty());
    db.verify_clean();
    db.store.metrics().get(Counter::VersionsKept)
}

#[test]
fn with_short_views() {
    run(1_000_000, 250);
}

#[test]
fn with_long_views() {
    // On a machine with other work to do the readers may not get a turn while there are writers.
    assert!((0..50).any(|_| run(8, 250) > 0), "no version was kept for a long view");
}

/// A writer that rolls back to a savepoint and changes the same row again gives it the same id and
/// roll pointer as before. A reader that saw the first of the two, and found its undo record gone,
/// must not take the second for it.
#[test]
fn a_row_that_is_changed_undone_and_changed_again() {
    let db = Db::new();
    db.put(&[("a", "1")]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut snapshot = db.snapshot();
            for _ in 0..20_000 {
                assert_eq!(get(&mut snapshot, &db.rows, "a"), Some("1".into()));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut writer = db.begin();
        while !stop.load(Ordering::Relaxed) {
            let savepoint = writer.savepoint();
            writer.update(&db.rows, b"a", b"2", None).unwrap();
            writer.rollback_to(savepoint).unwrap();
        }
    });
}
