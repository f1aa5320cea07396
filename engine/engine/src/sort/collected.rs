//! Entries in memory: their bytes in one buffer, so that an entry costs no allocation.

use holdfast_txn::NewValue;

use crate::{Error, Result};

/// Takes an entry: its key, how much of the key has to be unique, its value.
pub(crate) type Sink<'s> = dyn FnMut(&[u8], usize, NewValue<'_>) -> Result<()> + 's;

/// An entry that was collected: where its bytes begin, and how long its parts are.
#[derive(Clone, Copy)]
struct Entry {
    at: usize,
    key: u32,
    /// The first so many bytes of the key have to be unique.
    prefix: u32,
    value: u32,
    /// So much of the value is its head.
    head: u32,
}

/// What an entry costs beside its bytes.
const ENTRY_COST: usize = size_of::<Entry>();

/// Entries in the order in which they came, until they are sorted.
#[derive(Default)]
pub(super) struct Collected {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Collected {
    pub(super) fn push(&mut self, key: &[u8], prefix: usize, value: NewValue<'_>) -> Result<()> {
        let len = |n: usize| u32::try_from(n).map_err(|_| Error::invalid("an entry of 4 GiB or more cannot be sorted"));
        let entry = Entry {
            at: self.bytes.len(),
            key: len(key.len())?,
            prefix: len(prefix)?,
            value: len(value.bytes().len())?,
            head: len(value.head())?,
        };
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.bytes());
        self.entries.push(entry);
        Ok(())
    }

    pub(super) fn cost(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_COST
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn key(&self, entry: Entry) -> &[u8] {
        &self.bytes[entry.at..entry.at + entry.key as usize]
    }

    fn value(&self, entry: Entry) -> NewValue<'_> {
        let at = entry.at + entry.key as usize;
        NewValue::with_head(&self.bytes[at..at + entry.value as usize], entry.head as usize)
    }

    /// Entries with the same key stay in the order in which they came.
    pub(super) fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| self.key(*a).cmp(self.key(*b)).then(a.at.cmp(&b.at)));
        self.entries = entries;
    }

    /// The first entry, in sorted order, that equals one before in what has to be unique.
    pub(super) fn duplicate(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut last, mut before) = (None, Before::default());
        let is_there = |entry: &&Entry| {
            let key = self.key(**entry);
            before.has(last.replace(key), key, entry.prefix as usize)
        };
        let second = *self.entries.iter().find(is_there)?;
        Some((self.key(second).to_vec(), self.value(second).bytes().to_vec()))
    }

    pub(super) fn for_each(&self, each: &mut Sink<'_>) -> Result<()> {
        self.entries.iter().try_for_each(|&entry| each(self.key(entry), entry.prefix as usize, self.value(entry)))
    }
}

/// What has to be unique of the entries before one, as far as its key begins like that. It may be
/// the beginning of what has to be unique of another entry: the entries of the two lie among each
/// other.
#[derive(Default)]
pub(crate) struct Before {
    /// How long each is; the key of the entry before begins with all of them.
    lengths: Vec<usize>,
}

impl Before {
    /// True if the next entry, in ascending order, equals one before: in its `key`, or in the first
    /// `prefix` bytes of it, which have to be unique. `last`: the key of the entry before.
    pub(crate) fn has(&mut self, last: Option<&[u8]>, key: &[u8], prefix: usize) -> bool {
        let Some(last) = last else {
            self.lengths.push(prefix);
            return false;
        };
        self.lengths.retain(|&len| last.get(..len) == key.get(..len));
        let is_there = last == key || self.lengths.contains(&prefix);
        self.lengths.push(prefix);
        is_there
    }
}
