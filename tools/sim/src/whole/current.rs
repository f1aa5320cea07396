//! A transaction under way: what it has seen and done, and what must follow from that for what it
//! sees next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::ensure;
use holdfast::{Isolation, Savepoint};

use super::history::{Item, Read, Txn, Version, Write};
use super::life::Life;

/// The transaction that a session is in.
pub(super) struct Current {
    pub record: Txn,
    pub own: BTreeMap<Item, Option<Version>>,
    /// What it has seen of rows that it has not changed, where it has to see the same again.
    pub view: BTreeMap<Item, Option<Version>>,
    /// What it has read of rows under locks that it keeps.
    pub locked: BTreeMap<Item, Option<Version>>,
    /// Rows of groups that it has read under locks that it keeps, without those that it has
    /// changed.
    pub locked_groups: BTreeMap<(usize, u64, u64), BTreeSet<u64>>,
    /// What its last raw statement has inserted.
    pub inserted: BTreeSet<Item>,
    /// The insert that its last change of a row was, if that was refused: its place, and its tag.
    pub refused: Option<(Item, u64)>,
    pub next: u64,
    pub statements: u64,
    /// Changing tables that it has opened, so that they stay.
    pub entered: BTreeSet<usize>,
    pub savepoints: Vec<(Savepoint, BTreeMap<Item, Option<Version>>, usize)>,
}

impl Current {
    pub fn new(record: Txn) -> Current {
        Current {
            record,
            own: BTreeMap::new(),
            view: BTreeMap::new(),
            locked: BTreeMap::new(),
            locked_groups: BTreeMap::new(),
            inserted: BTreeSet::new(),
            refused: None,
            next: 0,
            statements: 0,
            entered: BTreeSet::new(),
            savepoints: Vec::new(),
        }
    }

    pub fn repeats(&self) -> bool {
        self.record.isolation != Isolation::ReadCommitted
    }

    /// Checks and enters what was seen of a row.
    pub fn saw(&mut self, life: &Life, item: Item, found: Option<Version>, locking: bool) -> anyhow::Result<()> {
        if let Some(own) = self.own.get(&item) {
            ensure!(*own == found, "{item:?}: own change {own:?}, but {found:?} is seen by {:?}", self.describe());
            return Ok(());
        }
        if locking {
            self.keeps(item, found)?;
        }
        let serializable = self.record.isolation == Isolation::Serializable;
        let locking = locking || serializable;
        // A locking read without snapshot isolation reads another version than the view does.
        if self.repeats() && (!locking || serializable || self.record.snapshot_isolation) {
            let before = *self.view.entry(item).or_insert(found);
            ensure!(before == found, "{item:?}: first {before:?}, then {found:?} is seen by {:?}", self.describe());
        }
        self.record.reads.push(Read { item, version: found, locking, at: life.history.tick() });
        Ok(())
    }

    /// Checks and notes what was read of a row under a lock that stays: until its end no other
    /// transaction changes the row.
    pub fn keeps(&mut self, item: Item, found: Option<Version>) -> anyhow::Result<()> {
        if self.repeats() && !self.own.contains_key(&item) {
            let before = *self.locked.entry(item).or_insert(found);
            ensure!(
                before == found,
                "{item:?} was {before:?} when it was locked, and is {found:?} now, for {:?}",
                self.describe()
            );
        }
        Ok(())
    }

    /// As [`Current::keeps`], of all rows of some groups.
    pub fn keeps_groups(&mut self, table: usize, groups: Range<u64>, keys: &BTreeSet<u64>) -> anyhow::Result<()> {
        let mut others: BTreeSet<u64> = keys.clone();
        others.retain(|&key| !self.own.contains_key(&Item { table, key }));
        let described = self.describe();
        if self.repeats() {
            let before = self.locked_groups.entry((table, groups.start, groups.end)).or_insert_with(|| others.clone());
            before.retain(|&key| !self.own.contains_key(&Item { table, key }));
            ensure!(
                *before == others,
                "groups {groups:?} of table {table} were {before:?} when they were locked, and are {others:?} \
                 now, for {described:?}"
            );
        }
        Ok(())
    }

    pub fn wrote(&mut self, life: &Life, item: Item, version: Version, deletes: bool) {
        self.own.insert(item, (!deletes).then_some(version));
        self.record.writes.push(Write { item, version, deletes, at: life.history.tick() });
    }

    /// True as long as it has neither read nor changed anything.
    pub fn is_fresh(&self) -> bool {
        self.statements == 0
    }

    pub fn describe(&self) -> (u64, Isolation, bool) {
        (self.record.number, self.record.isolation, self.record.snapshot_isolation)
    }

    /// A version to write.
    pub fn version(&mut self, item: Item) -> Version {
        self.next += 1;
        let version = Version::new(self.record.number, self.next);
        self.record.tried.push((item, version));
        version
    }
}
