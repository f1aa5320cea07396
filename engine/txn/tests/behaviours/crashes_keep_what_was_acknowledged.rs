//! Power cuts under transactions: acknowledged commits are there, everything else is all or
//! nothing, losers are rolled back - also when recovery is cut off and begins again. Prepared
//! transactions survive in that state.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_base::Result;
use holdfast_io::Disk;
use holdfast_testkit::{CrashDisk, SplitMix64};
use holdfast_txn::*;

use crate::common::*;

const ACCOUNTS: u64 = 40;
const START: u64 = 1_000;

fn account(n: u64) -> Vec<u8> {
    format!("account{n:03}").into_bytes()
}

/// A balance; some are padded so that they take an overflow chain, of which there are two kinds.
fn balance(n: u64) -> Vec<u8> {
    let mut value = n.to_string().into_bytes();
    if !n.is_multiple_of(3) {
        value.resize(HEAD + 5_000 + n as usize % 2, b' ');
    }
    value
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().trim_end().parse().unwrap()
}

fn setup() -> Setup {
    Setup { frames: 96, log_bytes: 8 << 20, ..Setup::default() }
}

fn fill(db: &Db) {
    let mut txn = db.begin();
    for n in 0..ACCOUNTS {
        txn.insert(&db.rows, &account(n), headed(&balance(START))).unwrap();
    }
    txn.commit(FlushAtCommit::Sync).unwrap();
}

fn transfer(txn: &mut Txn, db: &Db, rng: &mut SplitMix64) -> Result<()> {
    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
    let amount = rng.below(20);
    let mut value = Vec::new();
    for (n, sign) in [(from, -1), (to, 1)] {
        txn.get_locked(&db.rows, &account(n), LockMode::Exclusive, Some(LockWait::NoWait), &mut value)?;
        let new = number(&value) as i64 + sign * amount as i64;
        txn.update(&db.rows, &account(n), headed(&balance(new.max(0) as u64)), None)?;
        if new < 0 {
            return Err(holdfast_base::Error::invalid("overdrawn"));
        }
    }
    Ok(())
}

/// What was done until the power went, by the marks of the transfers.
#[derive(Default)]
struct Work {
    /// Acknowledged as durable.
    durable: Vec<u64>,
    /// Acknowledged as prepared, and nothing was decided.
    prepared: Vec<u64>,
    /// Were prepared, and were acknowledged as rolled back.
    rolled_back: Vec<u64>,
    /// Were prepared, and the power went while they were committed (true) or rolled back.
    unsure: BTreeMap<u64, bool>,
}

impl Work {
    /// What is still to be true when the prepared transactions have been ended.
    fn without_prepared(&self) -> Work {
        let (durable, rolled_back) = (self.durable.clone(), self.rolled_back.clone());
        Work { durable, rolled_back, ..Work::default() }
    }
}

/// Transfers until the power goes, each with a mark of its own in the other table.
fn work(disk: &CrashDisk, rng: &mut SplitMix64, operations: u64) -> Work {
    let db = Db::create(Arc::new(disk.clone()), setup()).unwrap();
    fill(&db);
    disk.crash_after(operations);
    let mut work = Work::default();
    let (mut open, mut snapshot): (Vec<(u64, Txn)>, Option<Txn>) = (Vec::new(), None);
    let mut undecided: Vec<(u64, Txn)> = Vec::new();
    for mark in 0..4_000u64 {
        if disk.is_dead() {
            break;
        }
        let mut txn = db.begin();
        let done = transfer(&mut txn, &db, rng)
            .and_then(|()| txn.insert(&db.other, &mark.to_be_bytes(), &balance(mark)))
            .and_then(|()| if rng.below(5) == 0 { transfer(&mut txn, &db, rng) } else { Ok(()) });
        match (done, rng.below(10)) {
            (Ok(()), 0) => open.push((mark, txn)),
            (Ok(()), 1) if undecided.len() < 3 => {
                if txn.prepare(format!("xid{mark}").as_bytes(), FlushAtCommit::Sync).is_ok() {
                    work.prepared.push(mark);
                }
                undecided.push((mark, txn));
            }
            (Ok(()), 2) => drop(txn.rollback()),
            (Ok(()), n) => {
                let durability = if n < 5 { FlushAtCommit::Lazy } else { FlushAtCommit::Sync };
                if txn.commit(durability).is_ok() && durability == FlushAtCommit::Sync {
                    work.durable.push(mark);
                }
            }
            (Err(_), _) => drop(txn),
        }
        match rng.below(40) {
            0..4 if !open.is_empty() => drop(open.swap_remove(rng.below(open.len() as u64) as usize)),
            4 if !undecided.is_empty() => {
                let (mark, mut txn) = undecided.swap_remove(0);
                let commit = rng.below(2) == 0;
                let done = if commit { txn.commit(FlushAtCommit::Sync) } else { txn.rollback() };
                work.prepared.retain(|m| *m != mark);
                match (done, commit) {
                    (Ok(()), true) => work.durable.push(mark),
                    (Ok(()), false) => work.rolled_back.push(mark),
                    (Err(_), _) => drop(work.unsure.insert(mark, commit)),
                }
            }
            5..8 => drop(db.sys.purge(50)),
            8 => snapshot = if snapshot.is_some() { None } else { Some(db.snapshot()) },
            9 => drop(db.store.pool().flush_all()),
            10 => drop(db.store.pool().checkpoint()),
            _ => {}
        }
    }
    drop(snapshot);
    // The power is off: what is still open ends as it would, without effect.
    std::mem::forget(open);
    std::mem::forget(undecided);
    work
}

fn check(db: &Db, work: &Work, seed: u64) {
    db.sys.roll_back_losers().unwrap();
    let prepared: Vec<u64> =
        db.sys.prepared().iter().map(|p| std::str::from_utf8(&p.xid).unwrap()[3..].parse().unwrap()).collect();
    for mark in &work.prepared {
        assert!(prepared.contains(mark), "seed {seed}: prepared transaction {mark} is lost");
    }
    let mut snapshot = db.snapshot();
    let mut total = 0;
    let mut value = Vec::new();
    for n in 0..ACCOUNTS {
        assert!(snapshot.get(&db.rows, &account(n), &mut value).unwrap());
        total += number(&value);
    }
    assert_eq!(total, ACCOUNTS * START, "seed {seed}");
    for mark in &work.durable {
        assert!(
            snapshot.get(&db.other, &mark.to_be_bytes(), &mut value).unwrap(),
            "seed {seed}: commit {mark} is lost"
        );
        assert_eq!(number(&value), *mark);
    }
    for mark in &work.rolled_back {
        assert!(!prepared.contains(mark), "seed {seed}: transaction {mark} is prepared again");
        assert!(
            !snapshot.get(&db.other, &mark.to_be_bytes(), &mut value).unwrap(),
            "seed {seed}: the rollback of {mark} is lost"
        );
    }
    for (mark, commit) in &work.unsure {
        let is_there = snapshot.get(&db.other, &mark.to_be_bytes(), &mut value).unwrap();
        let ended_otherwise = !prepared.contains(mark) && is_there != *commit;
        assert!(!ended_otherwise, "seed {seed}: transaction {mark} has not ended as it was decided");
    }
    db.verify_undamaged();
}

/// After recovery everything works, and everything goes away that should.
fn use_it(db: &Db, work: &Work, rng: &mut SplitMix64) {
    for (i, found) in db.sys.prepared().into_iter().enumerate() {
        let mut txn = db.sys.adopt(&found.xid).unwrap();
        if i % 2 == 0 { txn.commit(FlushAtCommit::Sync).unwrap() } else { txn.rollback().unwrap() }
    }
    check(db, &work.without_prepared(), 0);
    for _ in 0..30 {
        let mut txn = db.begin();
        match transfer(&mut txn, db, rng) {
            Ok(()) => txn.commit(FlushAtCommit::Sync).unwrap(),
            Err(_) => txn.rollback().unwrap(),
        }
    }
    db.purge();
    assert_eq!((db.sys.history_length(), db.sys.versions_stored(), db.sys.stats().undo_pages), (0, 0, 0));
    assert_eq!(db.physical(&db.rows), ACCOUNTS as usize);
    check(db, &work.without_prepared(), 1);
}

fn crash_once(seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let disk = CrashDisk::new();
    let operations = rng.below(2_500);
    let work = work(&disk, &mut rng, operations);
    // Recovery is cut off too, a few times, somewhere in redo or in the rollback of the losers.
    let mut after = disk.reboot(rng.next_u64());
    for _ in 0..rng.below(4) {
        after.crash_after(rng.below(120));
        if let Ok(db) = Db::open(Arc::new(after.clone()), setup()) {
            let _ = db.sys.roll_back_losers();
            let _ = db.sys.purge(usize::MAX);
            let _ = db.store.pool().flush_all();
        }
        after = after.reboot(rng.next_u64());
    }
    let disk: Arc<dyn Disk> = Arc::new(after);
    let db = Db::open(disk, setup()).unwrap();
    check(&db, &work, seed);
    use_it(&db, &work, &mut rng);
}

#[test]
fn money_is_neither_made_nor_lost() {
    for seed in 0..60 {
        crash_once(seed);
    }
}

/// Purge moves the values of a whole transaction to the version tree for a long snapshot, and the
/// power goes somewhere in between: what is named by a record and by the version tree must be freed
/// once.
#[test]
fn a_log_that_was_half_purged_gives_its_chains_back_once() {
    let mut names = [0; 2];
    for seed in 0..120 {
        let disk = CrashDisk::new();
        {
            let mut setup = setup();
            setup.txn.short_view_commits = 1;
            let db = Db::create(Arc::new(disk.clone()), setup).unwrap();
            fill(&db);
            let dump = db.snapshot();
            for (value, first) in [(7 * 300, 0), (7 * 200, 5)] {
                let mut txn = db.begin();
                for n in first..ACCOUNTS {
                    txn.update(&db.rows, &account(n), headed(&balance(value)), None).unwrap();
                }
                txn.delete(&db.rows, &account(1), None).unwrap();
                txn.commit(FlushAtCommit::Sync).unwrap();
            }
            db.sys.purge(usize::MAX).unwrap();
            if seed % 2 == 0 {
                // And some of what was kept is given up again.
                drop(dump);
                db.sys.purge(usize::MAX).unwrap();
            } else {
                std::mem::forget(dump);
            }
            // Handed to the system, not synced: a part of it survives.
            db.store.wal().write_to(db.store.wal().next_lsn()).unwrap();
        }
        let db = Db::open(Arc::new(disk.reboot(seed)), setup()).unwrap();
        let left = db.sys.history_length();
        names[usize::from(left > 0)] += 1;
        db.purge();
        assert_eq!((db.sys.history_length(), db.sys.versions_stored(), db.sys.stats().undo_pages), (0, 0, 0));
        let (mut snapshot, mut value) = (db.snapshot(), Vec::new());
        for n in (0..ACCOUNTS).filter(|n| *n != 1) {
            assert!(snapshot.get(&db.rows, &account(n), &mut value).unwrap(), "seed {seed}");
            assert_eq!(number(&value), if n < 5 { 7 * 300 } else { 7 * 200 });
        }
        assert_eq!(db.physical(&db.rows), ACCOUNTS as usize - 1);
        db.verify_undamaged();
    }
    assert!(names[1] > 10, "too few of the cuts hit: {names:?}");
}

#[test]
fn a_clean_stop_keeps_counters_and_unfinished_business() {
    let db = Db::with(setup());
    fill(&db);
    let mut open = db.begin();
    open.update(&db.rows, &account(1), &balance(7), None).unwrap();
    let mut prepared = db.begin();
    prepared.update(&db.rows, &account(2), &balance(8), None).unwrap();
    prepared.prepare(b"x1", FlushAtCommit::Sync).unwrap();
    std::mem::forget(open);
    drop(prepared);
    let (last_id, rows) = (db.sys.stats().next_txn, db.rows.rows());
    let db = db.reopen();
    assert!(db.sys.stats().next_txn >= last_id);
    assert_eq!(db.rows.rows(), rows);
    assert_eq!(db.sys.prepared()[0].xid, b"x1");
    // Both rows are locked until the transaction is decided; readers do not wait.
    let mut value = Vec::new();
    assert!(db.snapshot().get(&db.rows, &account(1), &mut value).unwrap());
    assert_eq!(number(&value), START);
    let mut nowait = db.sys.begin(TxnOptions { wait: Some(LockWait::NoWait), ..TxnOptions::default() });
    for n in [1, 2] {
        assert!(is(nowait.update(&db.rows, &account(n), b"1", None), |e| matches!(
            e,
            holdfast_base::Error::WouldBlock
        )));
    }
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    assert!(nowait.update(&db.rows, &account(1), &balance(START), None).unwrap());
    db.sys.adopt(b"x1").unwrap().commit(FlushAtCommit::Sync).unwrap();
    assert!(db.sys.adopt(b"x1").is_err());
    drop(nowait);
    assert!(db.snapshot().get(&db.rows, &account(2), &mut value).unwrap());
    assert_eq!(number(&value), 8);
    db.purge();
    db.verify_clean();
}
