//! Threads that wait for a row, a range and a table when the database is closed: each is told so,
//! however long it would have waited.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use holdfast::raw::RawDatabase;
use holdfast::{Database, Error, Isolation, Result, TableDefinition, WriteOptions, WriteTransaction};
use holdfast_base::sim;
use holdfast_base::thread::{self, JoinHandle};
use holdfast_base::time::Instant;

use super::history::Coverage;

type Numbers = TableDefinition<u64, u64>;

/// Begins with what [`super::temporary::drop_left`] drops.
const NAME: &str = "z waits";

/// How long the threads would wait.
const WAIT: Duration = Duration::from_secs(36_000);

/// How long after the close the last one is told: much less than it would have waited.
const SOON: Duration = Duration::from_secs(60);

/// The threads, and the transaction that they wait for.
pub(super) struct Waits {
    _holder: WriteTransaction,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Waits {
    /// Has threads wait. The next open finds the transaction of which they wait for the end, and
    /// the table.
    ///
    /// # Errors
    /// The errors of the engine.
    pub fn begin(raw: &RawDatabase, coverage: &Coverage) -> anyhow::Result<Waits> {
        coverage.count("life: closed beside threads that wait");
        let db = raw.database();
        db.create_table(&numbers())?;
        db.transact(|txn| (0..4).try_for_each(|row| txn.open_table(&numbers())?.insert(row, row)))?;
        let holder = db.begin_write_with(&WriteOptions::new().isolation(Isolation::Serializable))?;
        let table = holder.open_table(&numbers())?;
        table.update(1, 7)?;
        ensure!(table.range(100..200)?.count() == 0, "a table has rows that nothing has written");
        let of_rows: [fn(&Database) -> Result<()>; 2] = [|db| insert(db, 1), |db| insert(db, 150)];
        let of_table: [fn(&Database) -> Result<()>; 2] = [drop_table, drop_table];
        let mut threads = Vec::new();
        for work in of_rows.into_iter().chain(of_table) {
            let db = db.clone();
            threads.push(thread::spawn("waiter", move || work(&db))?);
            // A drop keeps out what comes later.
            thread::sleep(Duration::from_secs(1));
            sim::progress();
        }
        Ok(Waits { _holder: holder, threads })
    }

    /// Checks, behind the close at `closed`, what the threads were told, and when.
    ///
    /// # Errors
    /// If one was told anything else, or later.
    pub fn check(self, closed: Instant) -> anyhow::Result<()> {
        for thread in self.threads {
            let told = thread.join().map_err(|_| anyhow!("a thread that waits panicked"))?;
            ensure!(matches!(told, Err(Error::Closed(_))), "at a close a thread that waits is told {told:?}");
        }
        ensure!(closed.elapsed() < SOON, "a thread waits for {:?} behind a close", closed.elapsed());
        Ok(())
    }
}

fn numbers() -> Numbers {
    Numbers::named(NAME)
}

fn insert(db: &Database, key: u64) -> Result<()> {
    let txn = db.begin_write_with(&WriteOptions::new().lock_wait_timeout(WAIT))?;
    txn.open_table(&numbers())?.insert(key, key)
}

fn drop_table(db: &Database) -> Result<()> {
    RawDatabase::new(db.clone()).drop_table(NAME, WAIT)
}
