//! Transactions that two threads work in at the same time: their statements, and the steps of their
//! ranges, take turns.
//!
//! Each thread has rows of its own in every table - the even or the odd keys - and what it sees of
//! these is checked as if the transaction were its own. What both have done is judged as one
//! transaction.

use std::collections::BTreeMap;
use std::ops::Bound::Included;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use holdfast::{Isolation, Table, WaitMode, WriteOptions, WriteTransaction};
use holdfast_base::thread;

use super::current::Current;
use super::flow::{Flow, Stop, demand};
use super::history::Item;
use super::places::Place;
use super::session::Session;
use super::values::{BY_GROUP, GROUPS, number_at, table, version_of};

/// The second thread numbers its versions from here on.
const SECOND: u64 = 1 << 15;

impl Session {
    /// A transaction of two threads.
    pub fn shared(&mut self) -> anyhow::Result<()> {
        let isolation =
            self.dice.one_of(&[Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]);
        let snapshot_isolation = self.dice.percent(50);
        let options = WriteOptions::new().isolation(isolation).snapshot_isolation(snapshot_isolation);
        let options = options.lock_wait_timeout(Duration::from_millis(self.dice.one_of(&[0, 20, 1_000])));
        let life = Arc::clone(&self.life);
        let current = self.begin(isolation, snapshot_isolation);
        let txn = match life.db().begin_write_with(&options) {
            Ok(begun) => Arc::new(begun),
            Err(error) => return self.sort(&error).map(drop),
        };
        life.coverage.count("transaction: of two threads");
        let second = {
            let (mut session, txn) = (Session::new(Arc::clone(&life), self.number, self.dice.any()), Arc::clone(&txn));
            let current = Current { next: SECOND, ..Current::new(current.record.clone()) };
            thread::spawn("second", move || session.half(current, &txn, 1))?
        };
        let first = self.half(current, &txn, 0);
        let second = second.join().map_err(|_| anyhow!("the second thread has panicked"))?;
        let ((mut current, flow), (other, other_flow)) = (first?, second?);
        current.record.reads.extend(other.record.reads);
        current.record.reads.sort_by_key(|read| read.at);
        current.record.writes.extend(other.record.writes);
        current.record.writes.sort_by_key(|write| write.at);
        current.record.tried.extend(other.record.tried);
        let txn = Arc::into_inner(txn).context("the second thread has ended, and has the transaction")?;
        let flow = match (flow, other_flow) {
            (Flow::On, Flow::On) => Flow::On,
            (Flow::LifeOver, _) | (_, Flow::LifeOver) => Flow::LifeOver,
            _ => Flow::RollBack,
        };
        current.record.noted_late = matches!(flow, Flow::RollBack);
        self.end_after(flow, current, txn)
    }

    /// What one of the threads does.
    fn half(&mut self, mut current: Current, txn: &WriteTransaction, half: u64) -> anyhow::Result<(Current, Flow)> {
        for _ in 0..=self.dice.below(8) {
            let Place { name, number } = self.fixed_place();
            let rows = txn.open_table(&table(&name)).map_err(Stop::Error);
            let result = rows.and_then(|rows| self.statement_of_half(&mut current, number, &rows, half));
            match self.unravel(Ok(result))? {
                Flow::On => self.pause(),
                over => return Ok((current, over)),
            }
        }
        Ok((current, Flow::On))
    }

    fn statement_of_half(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &Table<'_, u64, &'static [u8]>,
        half: u64,
    ) -> Result<(), Stop> {
        let key = self.dice.below(self.life.plan.keys / 2) * 2 + half;
        let item = Item { table: no, key };
        match self.dice.below(10) {
            0 => {
                let found = rows.get(key)?.map(|value| version_of(&value)).transpose()?;
                Ok(current.saw(&self.life, item, found, false)?)
            }
            1 | 2 => {
                let found = rows.get_for_update(key, WaitMode::Wait)?.map(|value| version_of(&value)).transpose()?;
                Ok(current.saw(&self.life, item, found, true)?)
            }
            3 => self.range_of_half(current, no, rows, half),
            4 => self.group_of_half(current, no, rows, half),
            _ => self.change_row(current, item, rows),
        }
    }

    fn range_of_half(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &Table<'_, u64, &'static [u8]>,
        half: u64,
    ) -> Result<(), Stop> {
        let from = self.dice.below(self.life.plan.keys);
        let to = from + self.dice.below(30);
        let mut found = BTreeMap::new();
        for row in rows.range(from..to)? {
            let (key, value) = row?;
            found.insert(key, version_of(&value)?);
        }
        for key in (from..to.min(self.life.plan.keys)).filter(|key| key % 2 == half) {
            current.saw(&self.life, Item { table: no, key }, found.get(&key).copied(), false)?;
        }
        Ok(())
    }

    /// A row and its entry are of the same moment, also those of the other thread's rows.
    fn group_of_half(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &Table<'_, u64, &'static [u8]>,
        half: u64,
    ) -> Result<(), Stop> {
        let group = self.dice.below(GROUPS);
        for row in rows.index(&BY_GROUP)?.range((Included(group), Included(group)))? {
            let (_, key, value) = row?;
            let has = number_at(&value, 8);
            demand(has == group, || {
                format!("index group {group}, row {key} has group {has}, in a shared transaction")
            })?;
            if key % 2 == half {
                current.saw(&self.life, Item { table: no, key }, Some(version_of(&value)?), false)?;
            }
        }
        Ok(())
    }
}
