//! Transactions through the raw interface, as a database server's sessions run them: in one phase,
//! or prepared, left, found in the list, adopted by another session, and decided.
//!
//! A transaction that is left is in the life's list of those that wait ([`Life::left`]) before its
//! session releases it.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast::raw::{Direction, RawLock, RawOptions, RawRead, RawTransaction, RowCursor, ScanMode};
use holdfast::{Error, FlushAtCommit, Isolation};

use super::counters::Taken;
use super::current::Current;
use super::flow::{Flow, Stop, demand};
use super::history::{End, Item, Txn};
use super::life::Life;
use super::metadata::Shared;
use super::places::{self, Place};
use super::raw_rows::RawRows;
use super::session::Session;
use super::values::version_of;

/// The longest name that a coordinator gives, in bytes.
const XID_MAX: u64 = 140;

/// A raw transaction and what it has opened. It ends before it releases its tables.
struct User {
    txn: RawTransaction,
    open: Vec<RawRows>,
    shared: Vec<Shared>,
    taken: Taken,
}

/// The number of the transaction that a coordinator calls so.
pub(super) fn number_in(xid: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(xid.get(..8)?.try_into().ok()?))
}

impl Session {
    /// A raw transaction, or the decision of one that was left prepared.
    pub fn raw(&mut self) -> anyhow::Result<()> {
        if self.dice.percent(35) && self.decide()? {
            return Ok(());
        }
        let isolation =
            self.dice.one_of(&[Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]);
        let options =
            RawOptions { isolation, snapshot_isolation: self.dice.percent(30), read_only: self.dice.percent(8) };
        let life = Arc::clone(&self.life);
        let mut current = self.begin(isolation, options.snapshot_isolation);
        let txn = match life.raw().begin(&options) {
            Ok(txn) => txn,
            Err(error) => return self.sort(&error).map(drop),
        };
        self.life.coverage.count("raw: transaction");
        let mut user = User { txn, open: Vec::new(), shared: Vec::new(), taken: Taken::default() };
        let wait = Duration::from_millis(self.dice.one_of(&[0, 10, 1_000, 50_000]));
        if self.dice.percent(10) {
            user.txn.txn().take_snapshot();
        }
        for _ in 0..=self.dice.below(7) {
            let result = self.raw_statement(&mut current, &mut user, wait, options.read_only);
            current.statements += 1;
            match self.unravel(Ok(result))? {
                Flow::On => self.pause(),
                Flow::RollBack => return self.roll_back_raw(current, user),
                Flow::LifeOver => {
                    self.end(current, End::Aborted);
                    return Ok(());
                }
            }
        }
        self.finish_raw(current, user)
    }

    /// One statement: what it has changed is undone if it fails.
    fn raw_statement(
        &mut self,
        current: &mut Current,
        user: &mut User,
        wait: Duration,
        read_only: bool,
    ) -> Result<(), Stop> {
        let Some(at) = self.open_raw(user, wait)? else { return Ok(()) };
        let (own, writes) = (current.own.clone(), current.record.writes.len());
        let place = user.txn.statement(wait)?;
        current.inserted.clear();
        let count = if self.dice.percent(20) { 3 } else { 1 };
        let User { txn, open, taken, .. } = user;
        let mut act = || {
            for _ in 0..count {
                match self.dice.below(100) {
                    0..35 => self.read_raw(current, txn, &open[at])?,
                    35..50 => self.lock_raw(current, txn, &open[at])?,
                    50..56 if !read_only => {
                        taken.take(&self.life.counters, &open[at], &mut self.dice, &self.life.coverage)??;
                    }
                    _ if read_only => {}
                    _ => self.change_raw(current, txn, &open[at])?,
                }
            }
            Ok(())
        };
        let result = act();
        let undone = match &result {
            Err(Stop::Error(error)) => !error.is_retryable(),
            Err(Stop::Wrong(_) | Stop::Damaged) => false,
            Ok(()) => self.dice.percent(6),
        };
        if undone {
            self.life.coverage.count("raw: statement undone");
            // What is left of it is not known then: the transaction must not commit.
            user.txn.txn().rollback_to(place).map_err(|error| {
                if super::disk::ends_life(&error) { Stop::Error(error) } else { Stop::Error(Error::Conflict) }
            })?;
            let number = user.open[at].number;
            let put_back = current.record.writes.drain(writes..).filter(|write| write.item.table == number);
            // What the statement has inserted is gone: the place may be another's by now.
            let first = put_back.map(|write| write.item).find(|item| !current.inserted.contains(item));
            current.own = own;
            current.locked_groups.clear();
            if let Some(Item { key, .. }) = first {
                self.stays_locked(current, &user.open[at], key)?;
            }
        }
        result
    }

    /// Asks as another transaction for a row that a rollback to a savepoint has put back: the lock
    /// stays.
    fn stays_locked(&self, current: &Current, rows: &RawRows, key: u64) -> Result<(), Stop> {
        let options = RawOptions { isolation: Isolation::ReadCommitted, snapshot_isolation: false, read_only: false };
        let mut other = self.life.raw().begin(&options)?;
        other.statement(Duration::ZERO)?;
        match rows.get(&mut other, key, Some(RawLock { exclusive: true, skip_locked: false, linked: false })) {
            Ok(Some(_)) => {
                let what = || format!("row {key}, put back for {:?}, is not locked", current.describe());
                Ok(demand(false, what)?)
            }
            Ok(None) => Ok(()),
            Err(Error::WouldBlock) => {
                self.life.coverage.count("raw: row put back stays locked");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a table, unless the transaction has done so; which one it is. None if another session
    /// has it alone.
    fn open_raw(&mut self, user: &mut User, wait: Duration) -> Result<Option<usize>, Stop> {
        let life = Arc::clone(&self.life);
        let place = self.raw_place();
        if let Some(at) = user.open.iter().position(|rows| rows.number == place.number) {
            return Ok(Some(at));
        }
        let mut added = Vec::new();
        if place.name.starts_with('x') {
            if !user.shared.iter().any(|shared| shared.name == place.name) {
                let Some(shared) = life.metadata.share(&place.name, wait) else { return Ok(None) };
                user.shared.push(shared);
            }
            let shared = user.shared.iter().find(|shared| shared.name == place.name);
            added = shared.map_or(Vec::new(), |shared| shared.added.clone());
        }
        let open = || RawRows::open(life.raw(), &place.name, place.number, &added);
        let (rows, known) = places::around(life.db(), open)?;
        // Another table may have got the name.
        if places::is_changing(place.number) && !known.contains(&place) {
            return Ok(None);
        }
        user.open.push(rows);
        Ok(Some(user.open.len() - 1))
    }

    fn raw_place(&mut self) -> Place {
        if self.dice.percent(40) {
            return self.fixed_place();
        }
        let changing = places::changing(self.life.db());
        let nth = self.dice.below(changing.len().max(1) as u64) as usize;
        match changing.into_iter().nth(nth) {
            Some((name, number)) => Place { name, number },
            None => self.fixed_place(),
        }
    }

    fn read_raw(&mut self, current: &mut Current, txn: &mut RawTransaction, rows: &RawRows) -> Result<(), Stop> {
        let key = self.dice.below(self.life.plan.keys);
        if self.dice.percent(50) {
            self.life.coverage.count("raw: get");
            let found = rows.get(txn, key, None)?.map(|value| version_of(&value)).transpose()?;
            return Ok(current.saw(&self.life, Item { table: rows.number, key }, found, false)?);
        }
        self.raw_range(current, txn, rows, None)
    }

    /// Reads a range of rows, in one direction or the other.
    fn raw_range(
        &mut self,
        current: &mut Current,
        txn: &mut RawTransaction,
        rows: &RawRows,
        lock: Option<RawLock>,
    ) -> Result<(), Stop> {
        let from = self.dice.below(self.life.plan.keys);
        let to = from + self.dice.below(20);
        let direction = self.dice.one_of(&[Direction::Forward, Direction::Reverse]);
        self.life.coverage.count(match direction {
            Direction::Forward => "raw: range",
            Direction::Reverse => "raw: range backwards",
        });
        let (low, high) = (from.to_be_bytes(), to.to_be_bytes());
        let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
        let committed_if_locked = lock.is_some() && self.dice.percent(40);
        let scan = self.dice.one_of(&[ScanMode::Auto, ScanMode::Declared, ScanMode::Never]);
        let read = RawRead { direction, lock, committed_if_locked, scan, ..RawRead::default() };
        let mut cursor = txn.cursor(&rows.table, 0, bounds, read)?;
        let mut found = Vec::new();
        while let Some((key, value)) = cursor.next()? {
            let key = u64::from_be_bytes(key.try_into().context("the key of a row")?);
            let version = version_of(value)?;
            found.push((key, version));
            if lock.is_some() {
                let item = Item { table: rows.number, key };
                let is_locked = !cursor.is_given_unlocked();
                current.saw(&self.life, item, Some(version), is_locked)?;
                if !is_locked {
                    self.given_unlocked(current, &mut cursor, item)?;
                }
            }
        }
        let keys = || found.iter().map(|(key, _)| *key);
        let in_order = match direction {
            Direction::Forward => keys().is_sorted_by(|a, b| a < b),
            Direction::Reverse => keys().is_sorted_by(|a, b| a > b),
        };
        demand(in_order, || format!("a raw range is out of order: {:?}", keys().collect::<Vec<_>>()))?;
        for key in from..to.min(self.life.plan.keys) {
            let item = Item { table: rows.number, key };
            let version = found.iter().find(|(k, _)| *k == key).map(|(_, version)| *version);
            match lock {
                None => current.saw(&self.life, item, version, false)?,
                // What a locking cursor does not show may have come before its range was locked.
                Some(lock) if !lock.skip_locked => current.keeps(item, version)?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A cursor has shown a row that another transaction has locked: its user wants it now and
    /// then.
    fn given_unlocked(&mut self, current: &mut Current, cursor: &mut RowCursor, item: Item) -> Result<(), Stop> {
        self.life.coverage.count("raw: row as committed, locked by another");
        let is_weak = current.record.isolation == Isolation::ReadCommitted;
        demand(is_weak, || format!("{item:?} is shown without its lock to {:?}", current.describe()))?;
        if self.dice.percent(50)
            && let Some((_, value)) = cursor.lock_given()?
        {
            self.life.coverage.count("raw: lock of a row that was shown without");
            let version = version_of(value)?;
            current.saw(&self.life, item, Some(version), true)?;
        }
        Ok(())
    }

    fn lock_raw(&mut self, current: &mut Current, txn: &mut RawTransaction, rows: &RawRows) -> Result<(), Stop> {
        let lock = RawLock { exclusive: self.dice.percent(50), skip_locked: self.dice.percent(20), linked: false };
        match self.dice.below(10) {
            0..4 => return self.raw_range(current, txn, rows, Some(lock)),
            4..7 => return self.lock_groups(current, txn, rows, lock),
            _ => self.life.coverage.count("raw: get with lock"),
        }
        let key = self.dice.below(self.life.plan.keys);
        let found = rows.get(txn, key, Some(lock))?.map(|value| version_of(&value)).transpose()?;
        if found.is_some() || !lock.skip_locked {
            current.saw(&self.life, Item { table: rows.number, key }, found, true)?;
        }
        if found.is_some() && self.dice.percent(40) {
            self.unlock_raw(current, txn, rows, key)?;
        }
        Ok(())
    }

    /// Gives the lock of a row up that was just read, and asks for it as another transaction: it is
    /// given up at READ COMMITTED only, and never that of an own change.
    fn unlock_raw(
        &mut self,
        current: &Current,
        txn: &mut RawTransaction,
        rows: &RawRows,
        key: u64,
    ) -> Result<(), Stop> {
        self.life.coverage.count("raw: unlock");
        let release = txn.early_release();
        txn.unlock(&rows.table, 0, &key.to_be_bytes(), release)?;
        let isolation = Isolation::ReadCommitted;
        let options = RawOptions { isolation, snapshot_isolation: false, read_only: false };
        let mut other = self.life.raw().begin(&options)?;
        other.statement(Duration::ZERO)?;
        let got = rows.get(&mut other, key, Some(RawLock { exclusive: true, skip_locked: false, linked: false }));
        let is_kept = current.repeats() || current.own.contains_key(&Item { table: rows.number, key });
        match got {
            Ok(_) => {
                self.life.coverage.count("raw: unlocked row locked by another");
                demand(!is_kept, || format!("row {key} is not locked any more for {:?}", current.describe()))
            }
            Err(Error::WouldBlock) => Ok(()),
            Err(error) => return Err(error.into()),
        }?;
        Ok(())
    }

    fn change_raw(&mut self, current: &mut Current, txn: &mut RawTransaction, rows: &RawRows) -> Result<(), Stop> {
        let key = self.dice.below(self.life.plan.keys);
        let item = Item { table: rows.number, key };
        let version = current.version(item);
        let value = self.new_value(version);
        let in_the_way = self.dice.one_of(&[None, Some(false), Some(true)]);
        match self.dice.below(10) {
            0..4 => {
                self.life.coverage.count("raw: insert");
                rows.insert(txn, key, &value, in_the_way)?;
                current.inserted.insert(item);
                current.wrote(&self.life, item, version, false);
            }
            4..7 => {
                self.life.coverage.count("raw: update");
                if rows.update(txn, key, &value, in_the_way)? {
                    current.wrote(&self.life, item, version, false);
                }
            }
            _ => {
                self.life.coverage.count("raw: delete");
                if rows.delete(txn, key)? {
                    current.wrote(&self.life, item, version, true);
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> FlushAtCommit {
        self.dice.one_of(&[FlushAtCommit::Sync, FlushAtCommit::Sync, FlushAtCommit::Write, FlushAtCommit::Lazy])
    }

    fn roll_back_raw(&mut self, mut current: Current, mut user: User) -> anyhow::Result<()> {
        let result = user.txn.txn().rollback();
        // What was prepared and could not be rolled back may be in the list after a crash.
        let end = if result.is_err() && current.record.prepared.is_some() { End::InDoubt } else { End::Aborted };
        current.record.asked = 0;
        self.end(current, end);
        result.map_or_else(|error| self.sort(&error).map(drop), Ok)
    }

    fn commit_raw(&mut self, mut current: Current, mut user: User) -> anyhow::Result<()> {
        let flush = self.flush();
        self.ask(&mut current);
        let in_two_steps = self.dice.percent(25);
        let ordered = if in_two_steps { user.txn.txn().commit_ordered() } else { Ok(()) };
        match ordered.and_then(|()| user.txn.commit(flush)) {
            Ok(()) => {
                if flush == FlushAtCommit::Sync && !current.record.writes.is_empty() {
                    user.taken.lasts(&self.life.counters);
                }
                self.life.coverage.count(if in_two_steps { "raw: commit in two steps" } else { "raw: commit" });
                self.end(current, End::Committed(flush));
                Ok(())
            }
            Err(error) => {
                // If it was not committed it is prepared as before.
                match current.record.prepared {
                    Some(_) => self.leave(current.record, user, End::Unknown),
                    None => self.end(current, End::Unknown),
                }
                self.sort(&error).map(drop)
            }
        }
    }

    fn finish_raw(&mut self, current: Current, user: User) -> anyhow::Result<()> {
        match self.dice.below(100) {
            0..12 => {
                self.life.coverage.count("raw: rollback");
                self.roll_back_raw(current, user)
            }
            // A transaction without changes is not prepared.
            12..60 if !current.record.writes.is_empty() => self.prepare_raw(current, user),
            _ => self.commit_raw(current, user),
        }
    }

    fn prepare_raw(&mut self, mut current: Current, mut user: User) -> anyhow::Result<()> {
        let flush = self.flush();
        let mut xid = current.record.number.to_le_bytes().to_vec();
        xid.resize(8 + self.dice.below(XID_MAX - 7) as usize, 0xa5);
        self.life.coverage.count("xa: prepare");
        let prepared = user.txn.prepare(&xid, flush);
        current.record.prepared = Some((xid, flush));
        if let Err(error) = prepared {
            let flow = self.sort(&error)?;
            if matches!(flow, Flow::LifeOver) {
                self.end(current, End::InDoubt);
                return Ok(());
            }
            // That it is not prepared after all is not waited for.
            current.record.prepared = current.record.prepared.map(|(xid, _)| (xid, FlushAtCommit::Lazy));
            return self.roll_back_raw(current, user);
        }
        if self.dice.percent(50) {
            self.life.coverage.count("xa: reads released");
            current.record.released = self.life.history.tick();
            user.txn.release_reads().context("a prepared transaction releases its reads")?;
        }
        self.pause();
        match self.dice.below(10) {
            0..3 => {
                self.life.coverage.count("xa: commit by its session");
                self.commit_raw(current, user)
            }
            3..5 => {
                self.life.coverage.count("xa: rollback by its session");
                self.roll_back_raw(current, user)
            }
            _ => {
                self.life.coverage.count("xa: left");
                self.leave(current.record, user, End::Prepared(flush));
                Ok(())
            }
        }
    }

    /// The session ends, or releases the transaction.
    fn leave(&self, record: Txn, user: User, end: End) {
        self.life.left.lock().insert(record.number, Txn { end, ..record });
        drop(user);
    }

    /// Adopts a prepared transaction and ends it, or leaves it again; false if there is none.
    fn decide(&mut self) -> anyhow::Result<bool> {
        let life = Arc::clone(&self.life);
        let listed = life.raw().prepared();
        if listed.is_empty() {
            return Ok(false);
        }
        let xid = &listed[self.dice.below(listed.len() as u64) as usize];
        let txn = match life.raw().adopt(xid) {
            Ok(txn) => txn,
            // Another session was quicker.
            Err(Error::InvalidArgument(_)) => return Ok(true),
            Err(error) => return self.sort(&error).map(|_| true),
        };
        let number = number_in(xid).with_context(|| format!("a name is listed that was not given: {xid:?}"))?;
        let record = life.left.lock().remove(&number);
        let record =
            record.with_context(|| format!("transaction {number} is listed as prepared, but no session left it"))?;
        ensure!(!life.raw().prepared().contains(xid), "transaction {number} is listed although a session has it");
        let (current, user) =
            (Current::new(record), User { txn, open: Vec::new(), shared: Vec::new(), taken: Taken::default() });
        self.pause();
        match self.dice.below(10) {
            0..5 => {
                self.life.coverage.count("xa: commit by another session");
                self.commit_raw(current, user)?;
            }
            5..8 => {
                self.life.coverage.count("xa: rollback by another session");
                self.roll_back_raw(current, user)?;
            }
            _ => {
                self.life.coverage.count("xa: left again");
                let end = current.record.end;
                self.leave(current.record, user, end);
            }
        }
        Ok(true)
    }
}

/// Enters those that are left into the history of a life that is over.
pub(super) fn enter_left(life: &Life) {
    std::mem::take(&mut *life.left.lock()).into_values().for_each(|txn| life.history.enter(txn));
}
