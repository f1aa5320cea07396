//! Threads that move money, and power cuts.
//!
//! Each thread has a row that counts its commits: after a crash the count is the last acknowledged
//! one, or one more for the commit that was under way. The sum over all accounts never changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use holdfast::{Database, Error, TableDefinition, WriteOptions};
use holdfast_testkit::CrashDisk;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ACCOUNTS: TableDefinition<u64, i64> = TableDefinition::new("accounts");
const COMMITS: TableDefinition<u64, u64> = TableDefinition::new("commits");

/// Accounts of the bank.
pub(crate) const COUNT: u64 = 200;
/// What each holds at first.
const START: i64 = 1_000;
/// Threads that move money.
pub(crate) const THREADS: u64 = 3;

/// Runs `seed`; returns how many lives the database had.
///
/// # Errors
/// What did not hold.
pub fn run(seed: u64) -> anyhow::Result<u32> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let settings = Database::builder()
        .page_size([4096, 16384][rng.random_range(0..2)])
        .cache_size_bytes(5 << 20)
        .log_capacity_bytes(4 << 20)
        .log_buffer_bytes(64 << 10);
    let mut disk = Arc::new(CrashDisk::new());
    {
        let db = settings.clone().disk(disk.clone()).create("bank")?;
        open_accounts(&db)?;
        disk = Arc::new(disk.reboot(rng.random()));
    }
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let lives = rng.random_range(1..=3);
    for life in 0..lives {
        if rng.random_bool(0.3) {
            // Recovery is cut as well.
            disk.crash_after(rng.random_range(1..100));
            let cut = settings.clone().disk(disk.clone()).open("bank");
            disk = Arc::new(disk.reboot(rng.random()));
            drop(cut);
        }
        let db = settings.clone().disk(disk.clone()).open("bank").with_context(|| format!("life {life}"))?;
        audit(&db, &acknowledged).with_context(|| format!("life {life}"))?;
        disk.crash_after(rng.random_range(1..400));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (db, disk, acknowledged) = (&db, &disk, &acknowledged[thread as usize]);
                    let seed = rng.random();
                    scope.spawn(move || {
                        let stop = || disk.is_dead();
                        work(db, thread, seed, &stop, &mut |n| acknowledged.store(n, Ordering::SeqCst))
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
        })
        .with_context(|| format!("life {life}"))?;
        disk = Arc::new(disk.reboot(rng.random()));
    }
    let db = settings.disk(disk.clone()).open("bank").context("the last open")?;
    audit(&db, &acknowledged).context("the last life")?;
    crate::verify(&db)?;
    Ok(lives)
}

/// Gives every account its first money.
pub(crate) fn open_accounts(db: &Database) -> anyhow::Result<()> {
    let txn = db.begin_write()?;
    {
        let accounts = txn.open_table(&ACCOUNTS)?;
        for n in 0..COUNT {
            accounts.insert(n, START)?;
        }
        let commits = txn.open_table(&COMMITS)?;
        for thread in 0..THREADS {
            commits.insert(thread, 0)?;
        }
    }
    Ok(txn.commit()?)
}

/// Moves money until `stop`; tells `acknowledge` each commit's number.
pub(crate) fn work(
    db: &Database,
    thread: u64,
    seed: u64,
    stop: &dyn Fn() -> bool,
    acknowledge: &mut dyn FnMut(u64),
) -> anyhow::Result<()> {
    let mut rng = SmallRng::seed_from_u64(seed);
    while !stop() {
        match transfer(db, thread, &mut rng) {
            Ok(n) => acknowledge(n),
            Err(_) if stop() => {}
            Err(error) if error.is_retryable() || matches!(error, Error::LockTimeout) => {}
            Err(error) => bail!("a transfer failed: {error}"),
        }
    }
    Ok(())
}

fn transfer(db: &Database, thread: u64, rng: &mut SmallRng) -> holdfast::Result<u64> {
    let options = WriteOptions::new().lock_wait_timeout(Duration::from_secs(5));
    let txn = db.begin_write_with(&options)?;
    let n = {
        let (accounts, commits) = (txn.open_table(&ACCOUNTS)?, txn.open_table(&COMMITS)?);
        let (from, to) = (rng.random_range(0..COUNT), rng.random_range(0..COUNT));
        let amount = rng.random_range(1..50);
        if from != to {
            let have = accounts.get_for_update(from, holdfast::WaitMode::Wait)?.unwrap_or_default();
            accounts.update(from, have - amount)?;
            let have = accounts.get_for_update(to, holdfast::WaitMode::Wait)?.unwrap_or_default();
            accounts.update(to, have + amount)?;
        }
        let n = commits.get(thread)?.unwrap_or_default() + 1;
        commits.update(thread, n)?;
        n
    };
    if rng.random_bool(0.05) {
        txn.rollback()?;
        return Ok(n - 1);
    }
    txn.commit()?;
    Ok(n)
}

/// Checks the sum and the counts, and sets the counts to what is there.
pub(crate) fn audit(db: &Database, acknowledged: &[AtomicU64]) -> anyhow::Result<()> {
    let txn = db.begin_read()?;
    let mut sum = 0;
    for row in txn.open_table(&ACCOUNTS)?.iter()? {
        sum += row?.1;
    }
    ensure!(sum == START * COUNT as i64, "the accounts hold {sum} together instead of {}", START * COUNT as i64);
    let commits = txn.open_table(&COMMITS)?;
    for (thread, acknowledged) in acknowledged.iter().enumerate() {
        let told = acknowledged.load(Ordering::SeqCst);
        let there = commits.get(thread as u64)?.context("the thread's row is gone")?;
        ensure!(
            there == told || there == told + 1,
            "thread {thread}: commit {told} was acknowledged, but {there} commits are there"
        );
        acknowledged.store(there, Ordering::SeqCst);
    }
    Ok(())
}
