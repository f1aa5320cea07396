//! Rows of a table through the raw interface: a transaction that changes one keeps up the entries
//! of its indexes, as a database server's handler does.
//!
//! What an index is about follows from its name, so that one that is added needs no list of its
//! own.

use std::collections::BTreeSet;
use std::ops::Bound;

use anyhow::{Context, ensure};
use holdfast::Result;
use holdfast::raw::{RawDatabase, RawLock, RawRead, RawTable, RawTransaction};

use super::values::{number_at, tag_of};

/// What an index is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Group,
    Tag,
    Version,
    /// One row of each group, which most tables forbid by what they have.
    OneOfGroup,
}

impl Subject {
    pub const ALL: [Subject; 4] = [Subject::Group, Subject::Tag, Subject::Version, Subject::OneOfGroup];

    /// How the names of such indexes begin.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Group => "by_group",
            Subject::Tag => "by_tag",
            Subject::Version => "by_version",
            Subject::OneOfGroup => "one_of_group",
        }
    }

    /// True if no two rows may agree in it.
    pub fn is_unique(self) -> bool {
        self != Subject::Group
    }

    fn of(index: &str) -> Option<Subject> {
        Subject::ALL.into_iter().find(|subject| index.starts_with(subject.name()))
    }

    /// The key of a row's entry, and how many bytes of it have to be unique.
    pub fn entry(self, key: u64, value: &[u8]) -> (Vec<u8>, usize) {
        let about = match self {
            Subject::Group | Subject::OneOfGroup => number_at(value, 8),
            Subject::Tag => tag_of(value),
            Subject::Version => number_at(value, 0),
        };
        ([about.to_be_bytes(), key.to_be_bytes()].concat(), if self.is_unique() { 8 } else { 16 })
    }
}

/// The value of every entry: how long its index key is.
pub(super) const ENTRY: &[u8] = &[8];

/// What an insert does about the entry that is in its way: nothing, or lock it, exclusively or not.
pub(super) type InTheWay = Option<bool>;

/// An open table.
pub(super) struct RawRows {
    /// Its number in the history.
    pub number: usize,
    pub table: RawTable,
    /// What its secondary indexes are about.
    subjects: Vec<Subject>,
    /// What the indexes are about that are being added.
    added: Vec<Subject>,
}

impl RawRows {
    /// Opens a table; `added`: what the indexes are about that are being added to it.
    pub fn open(db: &RawDatabase, name: &str, number: usize, added: &[Subject]) -> Result<RawRows> {
        let table = db.open_table(name)?;
        let names = (1..).map_while(|no| table.index_name(no));
        let subjects = names.filter_map(Subject::of).collect();
        Ok(RawRows { number, table, subjects, added: added.to_vec() })
    }

    pub fn get(&self, txn: &mut RawTransaction, key: u64, lock: Option<RawLock>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(txn.get(&self.table, 0, &key.to_be_bytes(), lock, &mut value)?.then_some(value))
    }

    pub fn insert(&self, txn: &mut RawTransaction, key: u64, value: &[u8], in_the_way: InTheWay) -> Result<()> {
        match in_the_way {
            None => txn.insert(&self.table, 0, &key.to_be_bytes(), value)?,
            Some(exclusive) => txn.insert_or_lock(&self.table, 0, &key.to_be_bytes(), value, exclusive)?,
        }
        self.change_entries(txn, key, None, Some(value), in_the_way)
    }

    /// Replaces a row, if it is there.
    pub fn update(&self, txn: &mut RawTransaction, key: u64, value: &[u8], in_the_way: InTheWay) -> Result<bool> {
        let Some(old) = self.locked(txn, key)? else { return Ok(false) };
        let changed = txn.update(&self.table, 0, &key.to_be_bytes(), value)?;
        self.change_entries(txn, key, Some(&old), Some(value), in_the_way)?;
        Ok(changed)
    }

    /// Removes a row, if it is there.
    pub fn delete(&self, txn: &mut RawTransaction, key: u64) -> Result<bool> {
        let Some(old) = self.locked(txn, key)? else { return Ok(false) };
        let changed = txn.delete(&self.table, 0, &key.to_be_bytes())?;
        self.change_entries(txn, key, Some(&old), None, None)?;
        Ok(changed)
    }

    /// The entries of a row: the number of the index, the key, and its unique bytes.
    pub fn entries(&self, key: u64, value: &[u8]) -> impl Iterator<Item = (u32, Vec<u8>, usize)> {
        (1..).zip(&self.subjects).map(move |(no, subject)| {
            let (entry, unique) = subject.entry(key, value);
            (no, entry, unique)
        })
    }

    /// The number of an index about a subject.
    pub fn index_of(&self, subject: Subject) -> Option<u32> {
        (1..).zip(&self.subjects).find(|(_, of)| **of == subject).map(|(no, _)| no)
    }

    fn locked(&self, txn: &mut RawTransaction, key: u64) -> Result<Option<Vec<u8>>> {
        self.get(txn, key, Some(RawLock { exclusive: true, skip_locked: false, linked: false }))
    }

    /// Keeps up the entries of a row that was `old` and is `new`.
    fn change_entries(
        &self,
        txn: &mut RawTransaction,
        key: u64,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
        in_the_way: InTheWay,
    ) -> Result<()> {
        for (no, subject) in (1..).zip(&self.subjects) {
            let (old, new) = (old.map(|value| subject.entry(key, value)), new.map(|value| subject.entry(key, value)));
            if old == new {
                continue;
            }
            if let Some((entry, _)) = old {
                txn.delete(&self.table, no, &entry)?;
            }
            match (new, in_the_way) {
                (None, _) => {}
                (Some((entry, unique)), _) if unique == entry.len() => txn.insert(&self.table, no, &entry, ENTRY)?,
                (Some((entry, unique)), None) => txn.insert_unique(&self.table, no, &entry, unique, ENTRY)?,
                (Some((entry, unique)), Some(exclusive)) => {
                    txn.insert_unique_or_lock(&self.table, no, &entry, unique, ENTRY, exclusive)?;
                }
            }
        }
        for (no, subject) in (0..).zip(&self.added) {
            if let Some(value) = old {
                txn.note_entry(&self.table, no, &subject.entry(key, value).0, None)?;
            }
            if let Some(value) = new {
                let (entry, unique) = subject.entry(key, value);
                txn.note_entry(&self.table, no, &entry, Some((unique, ENTRY)))?;
            }
        }
        Ok(())
    }

    /// All rows that the transaction sees.
    pub fn all(&self, txn: &mut RawTransaction) -> anyhow::Result<Vec<(u64, Vec<u8>)>> {
        let mut cursor = txn.cursor(&self.table, 0, (Bound::Unbounded, Bound::Unbounded), RawRead::default())?;
        let mut rows = Vec::new();
        while let Some((key, value)) = cursor.next()? {
            rows.push((u64::from_be_bytes(key.try_into().context("the key of a row")?), value.to_vec()));
        }
        Ok(rows)
    }

    /// Compares every index with the rows, as the transaction sees both.
    ///
    /// # Errors
    /// Where they differ; what reading says.
    pub fn compare(&self, txn: &mut RawTransaction) -> anyhow::Result<Vec<(u64, Vec<u8>)>> {
        let rows = self.all(txn)?;
        for (no, subject) in (1..).zip(&self.subjects) {
            let mut cursor = txn.cursor(&self.table, no, (Bound::Unbounded, Bound::Unbounded), RawRead::default())?;
            let mut entries = Vec::new();
            while let Some((entry, _)) = cursor.next()? {
                entries.push(entry.to_vec());
            }
            let mut wanted: Vec<_> = rows.iter().map(|(key, value)| subject.entry(*key, value).0).collect();
            wanted.sort();
            ensure!(
                !subject.is_unique() || !wanted.windows(2).any(|pair| pair[0][..8] == pair[1][..8]),
                "rows of table {} agree in what is unique ({subject:?})",
                self.table.name()
            );
            ensure!(
                entries == wanted,
                "index {no} of table {} ({subject:?}) is not that of its rows: {:?} differ",
                self.table.name(),
                difference(&entries, &wanted)
            );
        }
        Ok(rows)
    }
}

/// The entries that are in one list only.
fn difference(some: &[Vec<u8>], others: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let (some, others): (BTreeSet<_>, BTreeSet<_>) = (some.iter().collect(), others.iter().collect());
    let key_first = |entry: &&Vec<u8>| {
        let number =
            |at: usize| entry.get(at..at + 8).map_or(u64::MAX, |b| u64::from_be_bytes(b.try_into().expect("8 bytes")));
        (number(8), number(0))
    };
    some.symmetric_difference(&others).map(key_first).collect()
}
