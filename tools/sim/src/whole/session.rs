//! A session: transactions of random statements, each checked as far as one transaction can tell.
//!
//! Every version of a row has a number of its own, which is in the value, so that a read says whose
//! version it saw.
//!
//! # What a transaction must see
//! - Of a row that it has changed: its own last change, by every index.
//! - Above READ COMMITTED, of any other row: the same version each time.
//! - Through a secondary index: the rows that the table has at the same moment, no more and no
//!   fewer.
//! - At SERIALIZABLE, the row that has refused an insert, as long as it is open.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use holdfast::{Error, FlushAtCommit, Isolation, Table, WaitMode, WriteOptions, WriteTransaction};
use holdfast_base::{sim, thread};

use super::current::Current;
use super::disk::ends_life;
use super::flow::{Flow, Stop, demand};
use super::history::{End, Item, Txn, Version};
use super::life::Life;
use super::places::{self, Place};
use super::plan::Dice;
use super::values::{BY_TAG, GROUPS, table, tag_of, value, version_of};

/// A session.
pub(super) struct Session {
    pub life: Arc<Life>,
    pub number: u64,
    pub dice: Dice,
    /// When its transaction began.
    pub begun: u64,
}

impl Session {
    pub fn new(life: Arc<Life>, number: u64, seed: u64) -> Session {
        Session { life, number, dice: Dice::new(seed), begun: 0 }
    }

    /// Runs transactions until there were enough, or the life is over.
    pub fn run(mut self) -> anyhow::Result<()> {
        for _ in 0..self.life.plan.transactions {
            if self.life.is_over() {
                break;
            }
            if self.life.plan.idles() {
                let micros = self.dice.below(self.life.plan.idle_micros);
                thread::sleep(Duration::from_micros(micros));
            }
            let done = match self.dice.below(100) {
                0..15 => self.read_only(),
                15..57 if self.life.damages() => self.read_write(),
                15..35 => self.raw(),
                35..45 => self.held(),
                45..50 if self.life.plan.temporary => self.temporary(),
                50..57 => self.shared(),
                57..64 if !self.life.damages() => self.retried(),
                _ => self.read_write(),
            };
            done.with_context(|| format!("session {}", self.number))?;
            sim::progress();
        }
        Ok(())
    }

    pub fn begin(&mut self, isolation: Isolation, snapshot_isolation: bool) -> Current {
        self.begun = self.life.history.tick();
        Current::new(Txn::new(self.life.next_txn(), isolation, snapshot_isolation, self.begun))
    }

    pub fn end(&self, mut current: Current, end: End) {
        current.record.end = end;
        self.life.history.enter(current.record);
    }

    /// Notes that the transaction's commit is going to be asked for.
    pub fn ask(&self, current: &mut Current) {
        current.record.asked = self.life.history.tick();
    }

    /// A table: one that stays, or now and then one of `others`, if all know its indexes.
    pub fn place(&mut self, others: &[Place]) -> Place {
        let others: Vec<&Place> = others.iter().filter(|place| places::is_typed(&place.name)).collect();
        if !others.is_empty() && self.dice.percent(25) {
            return others[self.dice.below(others.len() as u64) as usize].clone();
        }
        self.fixed_place()
    }

    /// A table that stays.
    pub fn fixed_place(&mut self) -> Place {
        let number = self.dice.below(self.life.plan.tables as u64) as usize;
        Place { name: format!("t{number}"), number }
    }

    /// What an error means for the transaction.
    pub fn sort(&self, error: &Error) -> anyhow::Result<Flow> {
        if ends_life(error) || self.life.is_over() {
            return Ok(Flow::LifeOver);
        }
        if error.is_damage() && !self.life.struck.tables().is_empty() {
            self.life.coverage.count("error: damage at the end of a transaction");
            return Ok(Flow::RollBack);
        }
        self.life.coverage.count(match error {
            Error::Conflict => "error: conflict",
            Error::Deadlock => "error: deadlock",
            Error::SnapshotTooOld => "error: snapshot too old",
            Error::LockTimeout => "error: lock timeout",
            Error::WouldBlock => "error: would block",
            Error::DuplicateKey => "error: duplicate key",
            Error::LimitReached(_) => "error: limit reached",
            Error::DiskFull(_) => "error: disk full",
            Error::Io { .. } => "error: i/o",
            Error::TableNotFound(name) if !name.starts_with('t') => "error: table not found",
            _ => bail!("an error that nothing explains: {error}"),
        });
        Ok(match error {
            Error::Conflict | Error::Deadlock | Error::SnapshotTooOld => Flow::RollBack,
            Error::DiskFull(_) | Error::Io { .. } => {
                ensure!(self.life.faulty.fired() > 0, "the disk has not failed, but: {error}");
                let room = self.life.room.load(std::sync::atomic::Ordering::Relaxed);
                ensure!(room == 0 || self.begun < room, "the disk has had room since {room}, but: {error}");
                Flow::On
            }
            _ => Flow::On,
        })
    }

    fn read_only(&mut self) -> anyhow::Result<()> {
        let mut current = self.begin(Isolation::RepeatableRead, true);
        let life = Arc::clone(&self.life);
        let (txn, known) = match places::around(life.db(), || life.db().begin_read()) {
            Ok(begun) => begun,
            Err(error) => return self.sort(&error).map(drop),
        };
        self.life.coverage.count("transaction: read only");
        for _ in 0..=self.dice.below(6) {
            let Place { name, number: no } = self.place(&known);
            let result = txn.open_table(&table(&name)).map_err(Stop::Error);
            let result = result.and_then(|rows| self.read(&mut current, no, &rows));
            match self.unravel(Ok(life.struck.judge(&life.plan, no, result)))? {
                Flow::On => {}
                Flow::RollBack | Flow::LifeOver => break,
            }
            self.pause();
        }
        self.end(current, End::Aborted);
        Ok(())
    }

    /// Turns a statement's double result into what to do.
    pub fn unravel(&self, result: holdfast::Result<Result<(), Stop>>) -> anyhow::Result<Flow> {
        match result {
            Ok(Ok(())) => Ok(Flow::On),
            Err(error) | Ok(Err(Stop::Error(error))) => self.sort(&error),
            Ok(Err(Stop::Wrong(wrong))) => Err(wrong),
            Ok(Err(Stop::Damaged)) => {
                self.life.coverage.count("error: damage");
                Ok(Flow::RollBack)
            }
        }
    }

    fn read_write(&mut self) -> anyhow::Result<()> {
        let usual =
            if self.life.plan.lacks_lock_memory() { Isolation::Serializable } else { Isolation::RepeatableRead };
        let isolation =
            self.dice.one_of(&[Isolation::ReadCommitted, Isolation::RepeatableRead, usual, Isolation::Serializable]);
        let snapshot_isolation =
            if self.dice.percent(70) { self.life.plan.snapshot_isolation } else { self.dice.percent(50) };
        let patience = self.dice.one_of(&[0, 10, 1_000, 50_000]);
        let options = WriteOptions::new()
            .isolation(isolation)
            .snapshot_isolation(snapshot_isolation)
            .lock_wait_timeout(Duration::from_millis(patience));
        let life = Arc::clone(&self.life);
        let mut current = self.begin(isolation, snapshot_isolation);
        let (txn, known) = match places::around(life.db(), || life.db().begin_write_with(&options)) {
            Ok(begun) => begun,
            Err(error) => return self.sort(&error).map(drop),
        };
        self.life.coverage.count(match (isolation, snapshot_isolation) {
            (Isolation::ReadCommitted, _) => "transaction: read committed",
            (Isolation::Serializable, _) => "transaction: serializable",
            (_, true) => "transaction: snapshot isolation",
            _ => "transaction: repeatable read",
        });
        let mut flow = Flow::On;
        for _ in 0..=self.dice.below(8) {
            let is_first = current.is_fresh();
            let result = self.statement(&mut current, &txn, &known);
            let conflicts = matches!(result, Err(Stop::Error(Error::Conflict)));
            ensure!(
                !(conflicts && is_first),
                "the first statement of {:?} conflicts with what was committed before its snapshot",
                current.describe()
            );
            current.statements += 1;
            flow = self.unravel(Ok(result))?;
            if !matches!(flow, Flow::On) {
                break;
            }
            self.pause();
        }
        self.end_after(flow, current, txn)
    }

    /// Ends a transaction after its last statement.
    pub fn end_after(&mut self, flow: Flow, current: Current, txn: WriteTransaction) -> anyhow::Result<()> {
        match flow {
            Flow::On => self.finish(current, txn),
            Flow::RollBack => {
                let result = txn.rollback();
                self.end(current, End::Aborted);
                result.map_or_else(|error| self.sort(&error).map(drop), Ok)
            }
            Flow::LifeOver => {
                self.end(current, End::Aborted);
                Ok(())
            }
        }
    }

    pub fn finish(&mut self, mut current: Current, txn: WriteTransaction) -> anyhow::Result<()> {
        if self.dice.percent(12) {
            self.life.coverage.count("end: rollback");
            let result = txn.rollback();
            self.end(current, End::Aborted);
            return result.map_or_else(|error| self.sort(&error).map(drop), Ok);
        }
        let flush =
            self.dice.one_of(&[FlushAtCommit::Sync, FlushAtCommit::Sync, FlushAtCommit::Write, FlushAtCommit::Lazy]);
        self.life.coverage.count(match flush {
            FlushAtCommit::Sync => "end: commit, synced",
            FlushAtCommit::Write => "end: commit, written",
            _ => "end: commit, lazy",
        });
        self.ask(&mut current);
        match txn.commit_with(flush) {
            Ok(()) => {
                self.end(current, End::Committed(flush));
                Ok(())
            }
            Err(error) => {
                let end = if error.is_retryable() { End::Aborted } else { End::Unknown };
                self.end(current, end);
                self.sort(&error).map(drop)
            }
        }
    }

    /// Time in which the others work.
    pub fn pause(&mut self) {
        if self.dice.percent(20) {
            let micros = self.dice.one_of(&[1, 100, 3_000, 300_000]);
            thread::sleep(Duration::from_micros(micros));
        }
    }

    pub fn wait_mode(&mut self) -> WaitMode {
        // Rows that were passed over say nothing, so SKIP LOCKED is not used where the outcome is
        // entered.
        self.dice.one_of(&[WaitMode::Wait, WaitMode::Wait, WaitMode::Wait, WaitMode::NoWait])
    }

    fn statement(&mut self, current: &mut Current, txn: &WriteTransaction, known: &[Place]) -> Result<(), Stop> {
        let place = self.place(known);
        let no = place.number;
        match self.dice.below(100) {
            0..8 => {
                self.life.coverage.count("statement: savepoint");
                let savepoint = txn.savepoint()?;
                current.savepoints.push((savepoint, current.own.clone(), current.record.writes.len()));
                Ok(())
            }
            8..14 => self.roll_back_to(current, txn),
            dice => {
                let result = self.act(current, &place, dice, txn);
                self.life.struck.judge(&self.life.plan, no, result)
            }
        }
    }

    fn act(&mut self, current: &mut Current, place: &Place, dice: u64, txn: &WriteTransaction) -> Result<(), Stop> {
        let (no, Some(rows)) = (place.number, self.open(current, place, txn)?) else { return Ok(()) };
        match dice {
            14..40 => self.read(current, no, &rows),
            40..50 => self.locking_read(current, no, &rows),
            50..65 if self.life.plan.lacks_lock_memory() => self.locking_read(current, no, &rows),
            _ => self.change(current, no, &rows),
        }
    }

    /// Opens a table. `None` if it may not be there any more: then opening it would create one that
    /// the definer does not know.
    pub fn open<'t>(
        &self,
        current: &mut Current,
        place: &Place,
        txn: &'t WriteTransaction,
    ) -> Result<Option<Table<'t, u64, &'static [u8]>>, Stop> {
        if places::is_changing(place.number) && !current.entered.contains(&place.number) {
            let definitions = self.life.definitions.lock();
            let of_name = definitions.now.get(&place.name).and_then(|definition| definition.number);
            if definitions.then.is_some() || of_name != Some(place.number) {
                self.life.coverage.count("definitions: a session leaves a table alone");
                return Ok(None);
            }
            let rows = txn.open_table(&table(&place.name))?;
            current.entered.insert(place.number);
            return Ok(Some(rows));
        }
        Ok(Some(txn.open_table(&table(&place.name))?))
    }

    fn roll_back_to(&mut self, current: &mut Current, txn: &WriteTransaction) -> Result<(), Stop> {
        if current.savepoints.is_empty() {
            return Ok(());
        }
        let at = self.dice.below(current.savepoints.len() as u64) as usize;
        let (savepoint, own, writes) = &current.savepoints[at];
        let (own, writes) = (own.clone(), *writes);
        match txn.rollback_to(savepoint) {
            Ok(()) => {
                self.life.coverage.count("statement: rollback to savepoint");
                current.own = own;
                current.locked_groups.clear();
                current.record.writes.truncate(writes);
                current.savepoints.truncate(at + 1);
                Ok(())
            }
            // What is left of the statements is not known: the transaction must not commit.
            Err(error) if ends_life(&error) => Err(Stop::Error(error)),
            Err(_) => Err(Stop::Error(Error::Conflict)),
        }
    }

    pub fn tag(&mut self) -> u64 {
        // Few enough that two rows want the same one now and then.
        self.dice.below(self.life.plan.keys * 4)
    }

    pub fn new_value(&mut self, version: Version) -> Vec<u8> {
        let long = self.dice.percent(self.life.plan.long_values);
        let longest = self.life.plan.longest_value;
        let len = match (long, self.dice.below(20)) {
            (true, 0) => self.dice.below(longest.max(200_000)),
            (true, _) => self.dice.below(longest),
            (false, 0) => self.dice.below(1_500),
            (false, _) => self.dice.below(100),
        };
        let (group, tag) = (self.dice.below(GROUPS), self.tag());
        value(version, group, tag, len as usize)
    }

    pub fn change(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &Table<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        let key = self.dice.below(self.life.plan.keys);
        let result = self.change_row(current, Item { table: no, key }, rows);
        let refused = current.refused.take().filter(|_| current.record.isolation == Isolation::Serializable);
        if let Some((item, tag)) = refused {
            self.stays_in_the_way(current, item, tag, rows)?;
        }
        result
    }

    /// A serializable insert that was refused has read the row that is in its way, under its key or
    /// with its tag: the row stays until the transaction ends.
    fn stays_in_the_way(
        &mut self,
        current: &mut Current,
        item: Item,
        tag: u64,
        rows: &Table<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        self.life.coverage.count("read: row in the way of an insert");
        let micros = self.dice.one_of(&[0, 1_000, 20_000, 300_000]);
        thread::sleep(Duration::from_micros(micros));
        let by_key = rows.get(item.key)?.map(|value| version_of(&value)).transpose()?;
        current.saw(&self.life, item, by_key, false)?;
        let by_tag = rows.index(&BY_TAG)?.get(tag)?;
        if let Some((key, value)) = &by_tag {
            let other = Item { table: item.table, key: *key };
            current.saw(&self.life, other, Some(version_of(value)?), false)?;
        }
        demand(by_key.is_some() || by_tag.is_some(), || {
            format!("the row is gone that refused {item:?} with tag {tag} to {:?}", current.describe())
        })?;
        Ok(())
    }

    pub fn change_row(
        &mut self,
        current: &mut Current,
        item: Item,
        rows: &Table<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        let (key, version) = (item.key, current.version(item));
        let new = self.new_value(version);
        match self.dice.below(10) {
            0..3 => {
                self.life.coverage.count("change: insert");
                if let Err(error) = rows.insert(key, &new) {
                    current.refused = matches!(error, Error::DuplicateKey).then(|| (item, tag_of(&new)));
                    return Err(error.into());
                }
                current.wrote(&self.life, item, version, false);
            }
            3..6 => {
                self.life.coverage.count("change: update");
                if rows.update(key, &new)? {
                    current.wrote(&self.life, item, version, false);
                }
            }
            6..8 => {
                self.life.coverage.count("change: upsert");
                rows.upsert(key, &new)?;
                current.wrote(&self.life, item, version, false);
            }
            _ => {
                self.life.coverage.count("change: delete");
                if rows.delete(key)? {
                    current.wrote(&self.life, item, version, true);
                }
            }
        }
        Ok(())
    }
}
