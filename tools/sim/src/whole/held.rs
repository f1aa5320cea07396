//! Cursors that stay open while their transaction and others go on: beside commits, purge,
//! truncation and drops, at every isolation level and in both directions.
//!
//! A cursor shows rows as of its view. Above READ COMMITTED that is its transaction's; at READ
//! COMMITTED it is one of its own, so such a cursor counts as a transaction that only reads. What
//! its transaction changes while it is open is not judged.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use holdfast::{Isolation, ReadTable, ReadTransaction, WriteOptions, WriteTransaction};

use super::current::Current;
use super::flow::{Flow, Stop, demand};
use super::history::{End, Item, Version};
use super::places::{self, Place};
use super::session::Session;
use super::values::{BY_GROUP, GROUPS, table, version_of};

type Rows<'t> = Box<dyn DoubleEndedIterator<Item = holdfast::Result<(u64, Vec<u8>)>> + 't>;
type Reading<'t> = ReadTable<'t, u64, &'static [u8]>;

enum Reader {
    Read(ReadTransaction),
    Write(WriteTransaction),
}

/// An open cursor.
struct Held<'t> {
    rows: Rows<'t>,
    /// How many of a hundred rows are taken from its end.
    backwards: u64,
    table: usize,
    /// The keys that it has to show.
    from: u64,
    to: u64,
    shown: BTreeSet<u64>,
    /// Rows that its transaction has changed since it was opened.
    changed: BTreeSet<u64>,
    /// As which it reads, if its view is its own.
    own_view: Option<Current>,
}

impl Session {
    /// A transaction that keeps cursors open.
    pub fn held(&mut self) -> anyhow::Result<()> {
        let life = Arc::clone(&self.life);
        let isolation =
            self.dice.one_of(&[Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]);
        let (reads_only, snapshot_isolation) = (self.dice.percent(35), self.dice.percent(50));
        let (isolation, snapshot_isolation) =
            if reads_only { (Isolation::RepeatableRead, true) } else { (isolation, snapshot_isolation) };
        let mut current = self.begin(isolation, snapshot_isolation);
        let options = WriteOptions::new().isolation(isolation).snapshot_isolation(snapshot_isolation);
        let options = options.lock_wait_timeout(std::time::Duration::from_millis(20));
        let begin = || match reads_only {
            true => life.db().begin_read().map(Reader::Read),
            false => life.db().begin_write_with(&options).map(Reader::Write),
        };
        let (reader, known) = match places::around(life.db(), begin) {
            Ok(begun) => begun,
            Err(error) => return self.sort(&error).map(drop),
        };
        let mut open: Vec<Held<'_>> = Vec::new();
        for _ in 0..3 + self.dice.below(15) {
            let result = self.held_step(&mut current, &reader, &mut open, &known);
            current.statements += 1;
            if let ControlFlow::Break(()) = self.goes_on(result)? {
                self.end(current, End::Aborted);
                return Ok(());
            }
            self.pause();
        }
        while let Some(mut held) = open.pop() {
            let drained = self.advance(&mut current, &mut held, u64::MAX).map(drop);
            self.close(held);
            if let ControlFlow::Break(()) = self.goes_on(drained)? {
                self.end(current, End::Aborted);
                return Ok(());
            }
        }
        drop(open);
        match reader {
            Reader::Read(_) => {
                self.end(current, End::Aborted);
                Ok(())
            }
            Reader::Write(txn) => self.finish(current, txn),
        }
    }

    fn goes_on(&self, result: Result<(), Stop>) -> anyhow::Result<ControlFlow<()>> {
        Ok(match self.unravel(Ok(result))? {
            Flow::On => ControlFlow::Continue(()),
            Flow::RollBack | Flow::LifeOver => ControlFlow::Break(()),
        })
    }

    fn held_step<'t>(
        &mut self,
        current: &mut Current,
        reader: &'t Reader,
        open: &mut Vec<Held<'t>>,
        known: &[Place],
    ) -> Result<(), Stop> {
        match self.dice.below(10) {
            0..3 if open.len() < 4 => {
                let place = self.place(known);
                let held = match reader {
                    Reader::Read(txn) => {
                        Some(self.open_held(current, &txn.open_table(&table(&place.name))?, place.number)?)
                    }
                    Reader::Write(txn) => {
                        let rows = self.open(current, &place, txn)?;
                        rows.map(|rows| self.open_held(current, &rows, place.number)).transpose()?
                    }
                };
                open.extend(held);
                Ok(())
            }
            0..7 if !open.is_empty() => {
                let at = self.dice.below(open.len() as u64) as usize;
                let count = self.dice.one_of(&[1, 3, 20, 1_000]);
                let advanced = self.advance(current, &mut open[at], count);
                if !matches!(advanced, Ok(true)) {
                    self.close(open.swap_remove(at));
                }
                advanced.map(drop)
            }
            _ => {
                let Reader::Write(txn) = reader else { return Ok(()) };
                let place = self.place(known);
                let before = current.record.writes.len();
                let Some(rows) = self.open(current, &place, txn)? else { return Ok(()) };
                let result = self.change(current, place.number, &rows);
                let changed = current.record.writes[before..].iter().map(|write| write.item.key);
                for held in open.iter_mut().filter(|held| held.table == place.number) {
                    held.changed.extend(changed.clone());
                }
                result
            }
        }
    }

    fn open_held<'t>(&mut self, current: &Current, rows: &Reading<'t>, table: usize) -> Result<Held<'t>, Stop> {
        let (mut from, mut to) = (self.dice.below(self.life.plan.keys), self.life.plan.keys);
        let (by_group, backwards) = (self.dice.percent(40), self.dice.one_of(&[0, 0, 50, 100, 100]));
        self.life.coverage.count(match (by_group, backwards) {
            (true, 100) => "held: index cursor backwards",
            (true, 0) => "held: index cursor",
            (true, _) => "held: index cursor from both ends",
            (false, 100) => "held: cursor backwards",
            (false, 0) => "held: cursor",
            (false, _) => "held: cursor from both ends",
        });
        let rows: Rows<'t> = if by_group {
            (from, to) = (0, self.life.plan.keys);
            let range = rows.index(&BY_GROUP)?.range((Bound::Included(0), Bound::Included(GROUPS)))?;
            let row = |row: holdfast::Result<(u64, u64, Vec<u8>)>| row.map(|(_, key, value)| (key, value));
            Box::new(range.map(row))
        } else {
            Box::new(rows.range(from..to)?)
        };
        let own_view = self.view_of_statement(current);
        Ok(Held { rows, backwards, table, from, to, shown: BTreeSet::new(), changed: BTreeSet::new(), own_view })
    }

    /// Reads on; false at the end of the range.
    fn advance(&mut self, current: &mut Current, held: &mut Held<'_>, count: u64) -> Result<bool, Stop> {
        for _ in 0..count {
            let backwards = self.dice.percent(held.backwards);
            let row = if backwards { held.rows.next_back() } else { held.rows.next() };
            let Some(row) = row else {
                for key in held.from..held.to {
                    if !held.shown.contains(&key) {
                        self.held_saw(current, held, key, None)?;
                    }
                }
                self.life.coverage.count("held: read to the end");
                return Ok(false);
            };
            let (key, value) = row?;
            // A change of its own transaction may move a row to a place that is still to be read.
            let twice = !held.shown.insert(key) && !held.changed.contains(&key);
            demand(!twice, || format!("an open cursor shows row {key} twice"))?;
            self.held_saw(current, held, key, Some(version_of(&value)?))?;
        }
        Ok(true)
    }

    fn held_saw(
        &self,
        current: &mut Current,
        held: &mut Held<'_>,
        key: u64,
        found: Option<Version>,
    ) -> anyhow::Result<()> {
        let item = Item { table: held.table, key };
        if held.changed.contains(&key) {
            return Ok(());
        }
        self.saw_in(current, &mut held.own_view, item, found)
    }

    fn close(&self, held: Held<'_>) {
        self.end_view(held.own_view);
    }
}
