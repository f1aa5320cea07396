//! Temporary tables: each belongs to one session, which knows what is in it. They are gone with
//! their session; what a crash leaves of them is dropped.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use holdfast::raw::{Lifetime, RawDatabase, RawOptions, RawTransaction};
use holdfast::{Error, FlushAtCommit, Isolation};

use super::current::Current;
use super::flow::{Flow, Stop, demand};
use super::history::{Item, Txn, Version};
use super::places;
use super::raw_rows::{RawRows, Subject};
use super::session::Session;
use super::values::version_of;

/// How the names of temporary tables begin.
const NAME: &str = "z";

/// No other session uses the table.
const WAIT: Duration = Duration::ZERO;

/// What is in a table.
type Rows = BTreeMap<u64, Version>;

/// Drops what a crash has left and the open could not drop: temporary tables, and such as were
/// being filled.
///
/// # Errors
/// If that cannot be.
pub(super) fn drop_left(raw: &RawDatabase) -> holdfast::Result<()> {
    let is_left = |name: &str| name.starts_with(NAME) || places::is_filled(name);
    let mut left = raw.tables().into_iter().filter(|(name, _)| is_left(name));
    // Transactions that had not ended are rolled back first.
    left.try_for_each(|(name, _)| raw.drop_table(&name, Duration::from_secs(600)))
}

impl Session {
    /// Creates a temporary table, uses it in some transactions, and drops it.
    pub fn temporary(&mut self) -> anyhow::Result<()> {
        let life = Arc::clone(&self.life);
        let name = format!("{NAME}{}_{}", self.number, life.next_txn());
        let indexes: Vec<_> = Subject::ALL[..2].iter().map(|s| (s.name(), s.is_unique())).collect();
        self.life.coverage.count("temporary: create");
        if let Err(error) = life.raw().create_table(&name, &indexes, b"", Lifetime::Temporary) {
            return self.sort(&error).map(drop);
        }
        let mut rows = Rows::new();
        for _ in 0..=self.dice.below(3) {
            let done = self.use_temporary(&name, &mut rows);
            match done {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(Stop::Damaged) => anyhow::bail!("temporary table {name} is damaged"),
                Err(Stop::Wrong(wrong)) => return Err(wrong.context(format!("temporary table {name}"))),
                // What is in it by now is not known.
                Err(Stop::Error(error)) => {
                    if matches!(self.sort(&error)?, Flow::LifeOver) {
                        return Ok(());
                    }
                    break;
                }
            }
            self.pause();
        }
        if self.dice.percent(20) {
            self.life.coverage.count("temporary: left by its session");
            return Ok(());
        }
        self.life.coverage.count("temporary: drop");
        life.raw().drop_table(&name, WAIT).map_or_else(|error| self.sort(&error).map(drop), Ok)
    }

    /// A transaction that uses the table; the end of it if it has dropped it.
    fn use_temporary(&mut self, name: &str, rows: &mut Rows) -> Result<ControlFlow<()>, Stop> {
        let life = Arc::clone(&self.life);
        let isolation = self.dice.one_of(&[Isolation::ReadCommitted, Isolation::RepeatableRead]);
        let options = RawOptions { isolation, snapshot_isolation: false, read_only: false };
        let mut versions = Current::new(Txn::new(life.next_txn(), isolation, false, 0));
        let mut txn = life.raw().begin(&options)?;
        if self.dice.percent(20) {
            txn.txn().take_snapshot();
        }
        let table = RawRows::open(life.raw(), name, 0, &[])?;
        let (mut now, mut places) = (rows.clone(), Vec::new());
        for _ in 0..self.dice.below(10) {
            let place = txn.statement(WAIT)?;
            places.push((place, now.clone()));
            let key = self.dice.below(30);
            let version = versions.version(Item { table: 0, key });
            let value = self.new_value(version);
            let changed = match self.dice.below(10) {
                0..4 => table.insert(&mut txn, key, &value, None).map(|()| {
                    now.insert(key, version);
                }),
                4..6 => table.update(&mut txn, key, &value, None).map(|there| {
                    there.then(|| now.insert(key, version));
                }),
                6..8 => table.delete(&mut txn, key).map(|_| {
                    now.remove(&key);
                }),
                8 => {
                    let at = self.dice.below(places.len() as u64) as usize;
                    places.truncate(at + 1);
                    self.life.coverage.count("temporary: rollback to savepoint");
                    now.clone_from(&places[at].1);
                    txn.txn().rollback_to(places[at].0)
                }
                _ => {
                    let mut seen = Rows::new();
                    for (key, value) in table.compare(&mut txn)? {
                        seen.insert(key, version_of(&value)?);
                    }
                    demand(seen == now, || format!("it has {seen:?}, where there must be {now:?}"))?;
                    Ok(())
                }
            };
            if let Err(Error::DuplicateKey) = changed {
                if let Some((place, before)) = places.last() {
                    txn.txn().rollback_to(*place)?;
                    now.clone_from(before);
                }
            } else {
                changed?;
            }
        }
        self.end_use(txn, name, now, rows)
    }

    /// Ends a transaction on the table, which has the rows `now` for it; breaks if it was dropped.
    fn end_use(
        &mut self,
        mut txn: RawTransaction,
        name: &str,
        now: Rows,
        rows: &mut Rows,
    ) -> Result<ControlFlow<()>, Stop> {
        let life = Arc::clone(&self.life);
        match self.dice.below(10) {
            0 => {
                self.life.coverage.count("temporary: drop within a transaction");
                life.raw().drop_table(name, WAIT)?;
                if self.dice.percent(50) {
                    txn.commit(FlushAtCommit::Sync)?
                } else {
                    txn.txn().rollback()?
                }
                return Ok(ControlFlow::Break(()));
            }
            1 => {
                self.life.coverage.count("temporary: truncate within a transaction");
                life.raw().truncate_table(name, WAIT)?;
                rows.clear();
                txn.commit(FlushAtCommit::Sync)?;
            }
            2..4 => {
                self.life.coverage.count("temporary: rollback");
                txn.txn().rollback()?;
            }
            _ => {
                self.life.coverage.count("temporary: commit");
                txn.commit(FlushAtCommit::Sync)?;
                *rows = now;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
