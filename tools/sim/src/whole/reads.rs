//! Reads of a session through the typed interface: rows, ranges, indexes, with and without locks.

use std::collections::BTreeMap;
use std::ops::Bound;

use holdfast::{ReadTable, Table};

use super::current::Current;
use super::flow::{Stop, demand};
use super::history::Item;
use super::session::Session;
use super::values::{BY_GROUP, BY_TAG, GROUPS, number_at, tag_of, version_of};

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
            4..7 => self.read_range(current, no, key, rows),
            7 => self.read_tag(current, no, rows),
            _ => self.read_group(current, no, rows),
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
        let backwards = self.dice.percent(30);
        self.life.coverage.count(if backwards { "read: range backwards" } else { "read: range" });
        let range = rows.range(from..to)?;
        let found: Vec<(u64, Vec<u8>)> =
            if backwards { range.rev().collect::<Result<_, _>>()? } else { range.collect::<Result<_, _>>()? };
        let in_order =
            if backwards { found.is_sorted_by(|a, b| a.0 > b.0) } else { found.is_sorted_by(|a, b| a.0 < b.0) };
        demand(in_order, || {
            format!("a range is out of order: {:?}", found.iter().map(|row| row.0).collect::<Vec<_>>())
        })?;
        let mut versions = BTreeMap::new();
        for (key, value) in &found {
            versions.insert(*key, version_of(value)?);
        }
        for key in from..to.min(self.life.plan.keys) {
            current.saw(&self.life, Item { table: no, key }, versions.get(&key).copied(), false)?;
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

    /// Reads a group by the secondary index and, where that reads the same moment, compares with
    /// the table.
    fn read_group(
        &mut self,
        current: &mut Current,
        no: usize,
        rows: &ReadTable<'_, u64, &'static [u8]>,
    ) -> Result<(), Stop> {
        let group = self.dice.below(GROUPS);
        let index = rows.index(&BY_GROUP)?;
        let only_keys = self.dice.percent(40);
        let backwards = self.dice.percent(40);
        self.life.coverage.count(match (only_keys, backwards) {
            (true, true) => "read: index entries backwards",
            (true, false) => "read: index entries",
            (false, true) => "read: index rows backwards",
            (false, false) => "read: index rows",
        });
        let mut keys = Vec::new();
        if only_keys {
            let entries = index.keys((Bound::Included(group), Bound::Included(group)))?;
            let found: Vec<(u64, u64)> =
                if backwards { entries.rev().collect::<Result<_, _>>()? } else { entries.collect::<Result<_, _>>()? };
            keys.extend(found.iter().map(|(_, key)| *key));
        } else {
            let range = index.range((Bound::Included(group), Bound::Included(group)))?;
            let found: Vec<(u64, u64, Vec<u8>)> =
                if backwards { range.rev().collect::<Result<_, _>>()? } else { range.collect::<Result<_, _>>()? };
            for (_, key, value) in &found {
                demand(number_at(value, 8) == group, || {
                    format!(
                        "index group {group}, row {key} has group {}, for {:?}",
                        number_at(value, 8),
                        current.describe()
                    )
                })?;
                current.saw(&self.life, Item { table: no, key: *key }, Some(version_of(value)?), false)?;
                keys.push(*key);
            }
        }
        keys.sort_unstable();
        demand(keys.is_sorted_by(|a, b| a < b), || format!("the index shows a row twice: {keys:?}"))?;
        if current.repeats() {
            let mut there = Vec::new();
            for row in rows.range(0..self.life.plan.keys)? {
                let (key, value) = row?;
                current.saw(&self.life, Item { table: no, key }, Some(version_of(&value)?), false)?;
                if number_at(&value, 8) == group {
                    there.push(key);
                }
            }
            demand(keys == there, || {
                format!(
                    "group {group} of table {no}: the index has rows {keys:?}, the table {there:?}, for {:?}",
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
                let exclusive = self.dice.percent(50);
                let value = if exclusive { rows.get_for_update(key, wait)? } else { rows.get_for_share(key, wait)? };
                let found = value.map(|v| version_of(&v)).transpose()?;
                Ok(current.saw(&self.life, Item { table: no, key }, found, true)?)
            }
            _ => {
                self.life.coverage.count("read: range with locks");
                for row in rows.range_for_update(key..key + 5, wait)? {
                    let (key, value) = row?;
                    current.saw(&self.life, Item { table: no, key }, Some(version_of(&value)?), true)?;
                }
                Ok(())
            }
        }
    }
}
