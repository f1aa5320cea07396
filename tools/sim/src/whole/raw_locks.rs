//! Locking reads through a secondary index, as a database server's handler does them: each entry is
//! locked, then the row that it leads to.
//!
//! # What must hold above READ COMMITTED
//! - The row of a locked entry is there, and is one that has such an entry.
//! - A range of entries that was read to its end under locks has the same entries until the
//!   transaction ends, but for its own changes.

use std::collections::BTreeSet;
use std::ops::Bound;

use anyhow::Context;
use holdfast::raw::{Direction, RawLock, RawRead, RawTransaction};

use super::current::Current;
use super::flow::{Stop, demand};
use super::history::Item;
use super::raw_rows::{RawRows, Subject};
use super::session::Session;
use super::values::{GROUPS, number_at, version_of};

impl Session {
    /// Reads the rows of some groups under locks, now and then not to the end.
    pub fn lock_groups(
        &mut self,
        current: &mut Current,
        txn: &mut RawTransaction,
        rows: &RawRows,
        lock: RawLock,
    ) -> Result<(), Stop> {
        let Some(index) = rows.index_of(Subject::Group) else { return Ok(()) };
        let first = self.dice.below(GROUPS);
        let groups = first..first + self.dice.one_of(&[1, 1, 2, GROUPS]);
        let direction = self.dice.one_of(&[Direction::Forward, Direction::Reverse]);
        self.life.coverage.count(match direction {
            Direction::Forward => "raw: index range with locks",
            Direction::Reverse => "raw: index range with locks backwards",
        });
        let (low, high) = (groups.start.to_be_bytes(), groups.end.to_be_bytes());
        let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
        let read = RawRead { direction, lock: Some(lock), ..RawRead::default() };
        let mut cursor = txn.cursor(&rows.table, index, bounds, read)?;
        let (limit, mut keys) = (self.dice.one_of(&[1, 1_000, 1_000]), BTreeSet::new());
        while keys.len() < limit {
            let Some((entry, _)) = cursor.next()? else {
                if !lock.skip_locked {
                    current.keeps_groups(rows.number, groups, &keys)?;
                }
                return Ok(());
            };
            let (group, key) = entry.split_at_checked(8).context("an entry")?;
            let group = u64::from_be_bytes(group.try_into().context("the group of an entry")?);
            let key = u64::from_be_bytes(key.try_into().context("the key of an entry")?);
            demand(keys.insert(key), || format!("a locking index range shows row {key} twice"))?;
            let Some(value) = rows.get(txn, key, Some(lock))? else {
                demand(!current.repeats() || lock.skip_locked, || {
                    format!("entry {group}, {key} is locked, the row is gone")
                })?;
                continue;
            };
            let of_row = number_at(&value, 8);
            demand(!current.repeats() || of_row == group, || {
                format!("entry {group}, {key} is locked, the row has group {of_row}, for {:?}", current.describe())
            })?;
            let item = Item { table: rows.number, key };
            current.saw(&self.life, item, Some(version_of(&value)?), true)?;
        }
        Ok(())
    }
}
