//! Reads of a session through the typed interface: rows, ranges, indexes, with and without locks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use anyhow::Context;
use holdfast::{Isolation, ReadOptions, ReadTable, Scan, Table, WaitMode};

use super::current::Current;
use super::flow::{Stop, demand};
use super::history::{End, Item, Txn, Version};
use super::session::Session;
use super::values::{BY_GROUP, BY_TAG, GROUPS, number_at, tag_of, version_of};

/// Which way a range is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    Both,
}

impl Session {
    pub fn read(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &ReadTable<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        let key = self.dice.below(self.life.plan.keys);
        match self.dice.below(10) {
            0..4 => {
                self.life.coverage.count("read: get");
                let found = rows.get(key)?.map(|v| version_of(&v)).transpose()?;
                Ok(current.saw(&self.life, Item { table: no, key }, found, false)?)
            }
            4..6 => self.read_range(current, no, key, rows),
            6 => self.read_by_cursor(current, no, rows),
            7 => self.read_tag(current, no, rows),
            _ => self.read_groups(current, no, rows),
        }
    }

    fn read_range(
        &mut self,
        current: &mut Current,
        no: usize,
        from: u64,
        rows: &ReadTable<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        let to = from + self.dice.below(30);
        let way = self.way();
        self.life.coverage.count(match way {
            Way::Up => "read: range",
            Way::Down => "read: range backwards",
            Way::Both => "read: range from both ends",
        });
        let mut view = self.view_of_statement(current);
        let (bounds, options) = (self.bounds(from, to, self.life.plan.keys), self.options());
        let found = self.collect(way, rows.range_with(bounds, &options)?)?;
        demand(found.is_sorted_by(|a, b| a.0 < b.0), || {
            format!("a range is out of order: {:?}", found.iter().map(|row| row.0).collect::<Vec<_>>())
        })?;
        let mut versions = BTreeMap::new();
        for (key, value) in &found {
            versions.insert(*key, version_of(value)?);
        }
        for key in from..to.min(self.life.plan.keys) {
            let item = Item { table: no, key };
            self.saw_in(current, &mut view, item, versions.get(&key).copied())?;
        }
        self.end_view(view);
        Ok(())
    }

    /// Bounds of the numbers `from..to` among those below `end`.
    fn bounds(&mut self, from: u64, to: u64, end: u64) -> (Bound<u64>, Bound<u64>) {
        let low = match from {
            0 if self.dice.percent(50) => Bound::Unbounded,
            1.. if self.dice.percent(30) => Bound::Excluded(from - 1),
            _ => Bound::Included(from),
        };
        let high = match self.dice.below(4) {
            0 if to >= end => Bound::Unbounded,
            1 if to >= end => Bound::Excluded(u64::MAX),
            2 if to > 0 => Bound::Included(to - 1),
            _ => Bound::Excluded(to),
        };
        (low, high)
    }

    /// Whether a range is declared to be a scan, or to be none.
    fn options(&mut self) -> ReadOptions {
        let scan = self.dice.one_of(&[Scan::Auto, Scan::Yes, Scan::No]);
        if scan == Scan::Yes {
            self.life.coverage.count("read: declared scan");
        }
        ReadOptions::new().scan(scan)
    }

    fn way(&mut self) -> Way {
        self.dice.one_of(&[Way::Up, Way::Up, Way::Down, Way::Both])
    }

    /// All items of a range in ascending order, if each end gives its own in order.
    fn collect<T>(
        &mut self,
        way: Way,
        mut range: impl DoubleEndedIterator<Item = holdfast::Result<T>>,
    ) -> holdfast::Result<Vec<T>> {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        loop {
            let from_front = match way {
                Way::Up => true,
                Way::Down => false,
                Way::Both => self.dice.percent(50),
            };
            let item = if from_front { range.next() } else { range.next_back() };
            let Some(item) = item.transpose()? else { break };
            if from_front { low.push(item) } else { high.push(item) }
        }
        low.extend(high.into_iter().rev());
        Ok(low)
    }

    /// Goes to places of a table with one cursor, up and down.
    fn read_by_cursor(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &ReadTable<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        self.life.coverage.count("read: cursor that goes to several places");
        let mut cursor = rows.cursor(&self.options());
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        for _ in 0..=self.dice.below(3) {
            let from = self.dice.below(self.life.plan.keys);
            let to = (from + self.dice.below(30)).min(self.life.plan.keys);
            let (bounds, backwards) = (self.bounds(from, to, self.life.plan.keys), self.dice.percent(50));
            // Each place is a statement of its own.
            let mut view = self.view_of_statement(current);
            if backwards {
                cursor.seek_rev(bounds)?
            } else {
                cursor.seek(bounds)?
            }
            let (mut left, mut goes_on) = (from..to, true);
            for _ in 0..self.dice.one_of(&[0, 2, 1_000]) {
                goes_on = cursor.next_into(&mut bytes, &mut value)?;
                if !goes_on {
                    break;
                }
                let key = u64::from_be_bytes(bytes.as_slice().try_into().context("the key of a row")?);
                demand(left.contains(&key), || format!("a cursor shows row {key}, where rows of {left:?} come"))?;
                let passed = if backwards { key + 1..left.end } else { left.start..key };
                left = if backwards { left.start..key } else { key + 1..left.end };
                for key in passed {
                    self.saw_in(current, &mut view, Item { table: no, key }, None)?;
                }
                self.saw_in(current, &mut view, Item { table: no, key }, Some(version_of(&value)?))?;
            }
            for key in left.filter(|_| !goes_on) {
                self.saw_in(current, &mut view, Item { table: no, key }, None)?;
            }
            self.end_view(view);
        }
        Ok(())
    }

    fn read_tag(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &ReadTable<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        self.life.coverage.count("read: unique index");
        let tag = self.tag();
        if let Some((key, value)) = rows.index(&BY_TAG)?.get(tag)? {
            demand(tag_of(&value) == tag, || format!("the unique index says tag {tag}, the row {}", tag_of(&value)))?;
            current.saw(&self.life, Item { table: no, key }, Some(version_of(&value)?), false)?;
        }
        Ok(())
    }

    /// Reads some groups by the secondary index and, where that reads the same moment, compares
    /// with the table.
    fn read_groups(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &ReadTable<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        let from = self.dice.below(GROUPS);
        let groups = from..from + self.dice.one_of(&[1, 1, 2, GROUPS]);
        let index = rows.index(&BY_GROUP)?;
        let (only_keys, way) = (self.dice.percent(40), self.way());
        self.life.coverage.count(match (only_keys, way) {
            (true, Way::Up) => "read: index entries",
            (true, Way::Down) => "read: index entries backwards",
            (true, Way::Both) => "read: index entries from both ends",
            (false, Way::Up) => "read: index rows",
            (false, Way::Down) => "read: index rows backwards",
            (false, Way::Both) => "read: index rows from both ends",
        });
        let (bounds, options) = (self.bounds(groups.start, groups.end, GROUPS), self.options());
        let mut view = self.view_of_statement(current);
        let mut entries = Vec::new();
        if only_keys {
            entries = self.collect(way, index.keys_with(bounds, &options)?)?;
        } else {
            for (group, key, value) in self.collect(way, index.range_with(bounds, &options)?)? {
                let of_row = number_at(&value, 8);
                demand(of_row == group, || {
                    format!("index group {group}, row {key} has group {of_row}, for {:?}", current.describe())
                })?;
                self.saw_in(current, &mut view, Item { table: no, key }, Some(version_of(&value)?))?;
                entries.push((group, key));
            }
        }
        self.end_view(view);
        demand(entries.is_sorted_by(|a, b| a < b), || {
            format!("the index shows a row twice, or out of order: {entries:?}")
        })?;
        demand(entries.iter().all(|(group, _)| groups.contains(group)), || {
            format!("the index shows others than the groups {groups:?}: {entries:?}")
        })?;
        if current.repeats() {
            let mut there = Vec::new();
            for row in rows.range(0..self.life.plan.keys)? {
                let (key, value) = row?;
                current.saw(&self.life, Item { table: no, key }, Some(version_of(&value)?), false)?;
                there.extend(Some((number_at(&value, 8), key)).filter(|(group, _)| groups.contains(group)));
            }
            there.sort_unstable();
            demand(entries == there, || {
                format!(
                    "groups {groups:?} of table {no}: the index has {entries:?}, the table {there:?}, for {:?}",
                    current.describe()
                )
            })?;
        }
        Ok(())
    }

    pub fn locking_read(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &Table<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        let key = self.dice.below(self.life.plan.keys);
        let wait = self.wait_mode();
        match self.dice.below(3) {
            0 | 1 => {
                self.life.coverage.count("read: get with lock");
                let exclusive = self.locks_exclusively();
                let value = if exclusive { rows.get_for_update(key, wait)? } else { rows.get_for_share(key, wait)? };
                let found = value.map(|v| version_of(&v)).transpose()?;
                Ok(current.saw(&self.life, Item { table: no, key }, found, true)?)
            }
            _ => self.read_range_locked(current, no, key, rows, wait),
        }
    }

    /// Where locks become those of tables, most are shared: then several transactions have one.
    fn locks_exclusively(&mut self) -> bool {
        let percent = if self.life.plan.lacks_lock_memory() { 15 } else { 50 };
        self.dice.percent(percent)
    }

    fn read_range_locked(
        &mut self,
        current: &mut Current,
        no: usize,
        from: u64,
        rows: &Table<'_, u64, &'static [u8]>,
        wait: WaitMode,
    ) -> Result<(), Stop> {
        let (to, way) = (from + self.dice.one_of(&[1, 5, 5, 1_000]), self.way());
        self.life.coverage.count(match way {
            Way::Up => "read: range with locks",
            Way::Down => "read: range with locks backwards",
            Way::Both => "read: range with locks from both ends",
        });
        let bounds = self.bounds(from, to, self.life.plan.keys);
        let exclusive = self.locks_exclusively();
        let mut range =
            if exclusive { rows.range_for_update(bounds, wait)? } else { rows.range_for_share(bounds, wait)? };
        let mut keys = BTreeSet::new();
        loop {
            let forward = way == Way::Up || way == Way::Both && self.dice.percent(50);
            let row = if forward { range.next() } else { range.next_back() };
            let Some((key, value)) = row.transpose()? else { break };
            demand(keys.insert(key), || format!("a locking range shows row {key} twice"))?;
            current.saw(&self.life, Item { table: no, key }, Some(version_of(&value)?), true)?;
        }
        // At READ COMMITTED, and by its judge, a row that a locking range does not show may have
        // come since the range was there.
        for key in (from..to.min(self.life.plan.keys)).filter(|key| !keys.contains(key)) {
            current.keeps(Item { table: no, key }, None)?;
        }
        Ok(())
    }

    /// The view of a statement that is about to read, if its transaction has none: it counts as a
    /// transaction that only reads.
    pub fn view_of_statement(&self, current: &Current) -> Option<Current> {
        let begun = self.life.history.tick();
        (!current.repeats())
            .then(|| Current::new(Txn::new(self.life.next_txn(), Isolation::RepeatableRead, true, begun)))
    }

    /// Checks and enters what a statement has seen, in its own view if it has one.
    pub fn saw_in(
        &self,
        current: &mut Current,
        view: &mut Option<Current>,
        item: Item,
        found: Option<Version>,
    ) -> anyhow::Result<()> {
        match view {
            Some(view) if !current.own.contains_key(&item) => view.saw(&self.life, item, found, false),
            _ => current.saw(&self.life, item, found, false),
        }
    }

    pub fn end_view(&self, view: Option<Current>) {
        if let Some(view) = view {
            self.end(view, End::Aborted);
        }
    }
}
