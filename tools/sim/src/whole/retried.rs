//! Transactions that the engine runs again after a conflict or a deadlock: each attempt is a
//! transaction of the history, and all but the last one are rolled back.

use std::sync::Arc;
use std::time::Duration;

use holdfast::{Error, FlushAtCommit, Isolation, Table, WriteOptions};

use super::current::Current;
use super::flow::{Flow, Stop};
use super::history::End;
use super::session::Session;
use super::values::table;

impl Session {
    /// A transaction by [`holdfast::Database::transact_with`].
    pub fn retried(&mut self) -> anyhow::Result<()> {
        let (life, place, steps) = (Arc::clone(&self.life), self.fixed_place(), 1 + self.dice.below(5));
        let isolation = self.dice.one_of(&[Isolation::RepeatableRead, Isolation::Serializable]);
        let flush = self.dice.one_of(&[FlushAtCommit::Sync, FlushAtCommit::Write, FlushAtCommit::Lazy]);
        let patience = self.dice.one_of(&[10, 1_000, 50_000]);
        let options = WriteOptions::new()
            .isolation(isolation)
            .snapshot_isolation(true)
            .flush_at_commit(flush)
            .lock_wait_timeout(Duration::from_millis(patience));
        self.life.coverage.count("transaction: run by the engine");
        let (mut attempt, mut asked, mut wrong) = (None, false, None);
        let outcome = life.db().transact_with(&options, |txn| {
            if let Some(before) = attempt.take() {
                self.life.coverage.count("transaction: run again");
                self.end(before, End::Aborted);
            }
            asked = false;
            let current = attempt.insert(self.begin(isolation, true));
            let rows = txn.open_table(&table(&place.name))?;
            for _ in 0..steps {
                if let Err(stop) = self.step(current, place.number, &rows) {
                    self.is_met(stop, &mut wrong)?;
                }
                self.pause();
            }
            self.ask(current);
            asked = true;
            Ok(())
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        if let Some(current) = attempt {
            let end = match &outcome {
                Ok(()) => End::Committed(flush),
                Err(error) if asked && !error.is_retryable() => End::Unknown,
                Err(_) => End::Aborted,
            };
            self.end(current, end);
        }
        outcome.map_or_else(|error| self.sort(&error).map(drop), Ok)
    }

    fn step(&mut self, current: &mut Current, no: usize, rows: &Table<'_, u64, &'static [u8]>) -> Result<(), Stop> {
        if self.dice.percent(40) { self.read(current, no, rows) } else { self.change(current, no, rows) }
    }

    /// Fails if the attempt ends with its statement; an answer that nothing explains is `wrong`.
    fn is_met(&self, stop: Stop, wrong: &mut Option<anyhow::Error>) -> holdfast::Result<()> {
        let told = match stop {
            Stop::Error(error) => match self.sort(&error) {
                Ok(Flow::On) => return Ok(()),
                Ok(Flow::RollBack | Flow::LifeOver) => return Err(error),
                Err(told) => told,
            },
            Stop::Wrong(told) => told,
            Stop::Damaged => anyhow::anyhow!("a table is damaged"),
        };
        *wrong = Some(told);
        // With this the engine does not run it again.
        Err(Error::WouldBlock)
    }
}
