//! Many threads move money; conflicts and deadlocks are retried; every snapshot sees the same sum,
//! purge runs beside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use holdfast_base::{Error, Result};
use holdfast_testkit::SplitMix64;
use holdfast_txn::*;

use crate::common::*;

const ACCOUNTS: u64 = 50;
const START: i64 = 100;

fn account(n: u64) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

fn read(txn: &mut Txn, db: &Db, n: u64, lock: bool) -> Result<i64> {
    let mut value = Vec::new();
    let found = if lock {
        txn.get_locked(&db.rows, &account(n), LockMode::Exclusive, None, &mut value)?
    } else {
        txn.get(&db.rows, &account(n), &mut value)?
    };
    assert!(found);
    Ok(std::str::from_utf8(&value).unwrap().parse().unwrap())
}

fn transfer(txn: &mut Txn, db: &Db, from: u64, to: u64, lock: bool) -> Result<()> {
    let a = read(txn, db, from, lock)?;
    txn.update(&db.rows, &account(from), (a - 1).to_string().as_bytes(), None)?;
    let b = read(txn, db, to, lock)?;
    txn.update(&db.rows, &account(to), (b + 1).to_string().as_bytes(), None)?;
    Ok(())
}

fn run(isolation: Isolation, snapshot_isolation: bool, lock: bool) {
    let mut setup = Setup { pool_threads: true, ..Setup::default() };
    setup.txn.background = true;
    setup.txn.purge_help_above = 64;
    let db = Db::with(setup);
    let mut txn = db.begin();
    for n in 0..ACCOUNTS {
        txn.insert(&db.rows, &account(n), START.to_string().as_bytes()).unwrap();
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    let (stop, retries) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|s| {
        let (db, stop, retries) = (&db, &stop, &retries);
        let writers: Vec<_> = (0..4u64)
            .map(|thread| {
                s.spawn(move || {
                    let mut rng = SplitMix64::new(thread);
                    for _ in 0..250 {
                        let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                        loop {
                            let options = TxnOptions { isolation, snapshot_isolation, ..TxnOptions::default() };
                            let mut txn = db.sys.begin(options);
                            match transfer(&mut txn, db, from, to, lock) {
                                Ok(()) => {
                                    txn.commit(FlushAtCommit::Lazy).unwrap();
                                    break;
                                }
                                Err(e) if e.is_retryable() => {
                                    txn.rollback().unwrap();
                                    retries.fetch_add(1, Ordering::Relaxed);
                                }
                                Err(e) => panic!("{e}"),
                            }
                        }
                    }
                })
            })
            .collect();
        s.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let mut snapshot = db.snapshot();
                for _ in 0..3 {
                    let rows = scan(&mut snapshot, &db.rows);
                    let sum: i64 = rows.iter().map(|(_, v)| v.parse::<i64>().unwrap()).sum();
                    assert_eq!((rows.len() as u64, sum), (ACCOUNTS, ACCOUNTS as i64 * START));
                }
            }
        });
        let done: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        stop.store(true, Ordering::Relaxed);
        done.into_iter().for_each(|d| d.unwrap());
    });
    db.sys.shutdown();
    db.purge();
    assert!(db.sys.background_error().is_none());
    assert_eq!((db.sys.history_length(), db.sys.versions_stored()), (0, 0));
    assert!(db.sys.locks().locks().is_empty());
    let mut last = db.snapshot();
    let sum: i64 = scan(&mut last, &db.rows).iter().map(|(_, v)| v.parse::<i64>().unwrap()).sum();
    assert_eq!(sum, ACCOUNTS as i64 * START);
    db.verify_clean();
}

#[test]
fn with_snapshot_isolation() {
    run(Isolation::RepeatableRead, true, false);
}

#[test]
fn with_locking_reads_at_read_committed() {
    run(Isolation::ReadCommitted, false, true);
}

#[test]
fn with_locking_reads_at_repeatable_read() {
    run(Isolation::RepeatableRead, false, true);
}

/// Many deadlocks, so many rollbacks: a locking read that met a version just before it was rolled
/// back used to take it for committed, and the sum was off by one, in one run of some dozens.
#[test]
fn serializable() {
    (0..8).for_each(|_| run(Isolation::Serializable, false, false));
}

#[test]
fn writers_that_do_not_wait_are_told_so() {
    let db = Db::new();
    db.put(&[("a", "1")]);
    let mut t1 = db.begin();
    t1.update(&db.rows, b"a", b"2", None).unwrap();
    let mut t2 = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::default() });
    assert!(is(t2.update(&db.rows, b"a", b"3", None), |e| matches!(e, Error::WouldBlock)));
}
