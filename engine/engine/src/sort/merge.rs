//! Merges sorted runs.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use holdfast_io::File;

use super::collected::{Before, Sink};
use super::run::{Run, RunReader};
use crate::{Error, Result};

/// The readers of runs; the one whose entry is the least comes first.
pub(super) struct Merge<'r> {
    readers: BinaryHeap<Least<'r>>,
    duplicate: Option<(Vec<u8>, Vec<u8>)>,
}

/// A reader and the number of its run; of two the greater one has the lesser key, or, with the same
/// key, the earlier run.
struct Least<'r>(RunReader<'r>, usize);

impl<'r> Merge<'r> {
    /// Of runs in the order in which they came.
    pub(super) fn new(runs: impl Iterator<Item = (&'r dyn File, &'r Run)>) -> Result<Merge<'r>> {
        let mut readers = BinaryHeap::new();
        for (no, (file, run)) in runs.enumerate() {
            readers.extend(RunReader::new(file, run)?.map(|reader| Least(reader, no)));
        }
        Ok(Merge { readers, duplicate: None })
    }

    /// Gives all entries to `each`, in ascending order, those with the same key as they came.
    pub(super) fn run(&mut self, each: &mut Sink<'_>) -> Result<()> {
        let mut large = Vec::new();
        // The key of the entry before.
        let mut last: Option<Vec<u8>> = None;
        let mut before = Before::default();
        while let Some(mut least) = self.readers.peek_mut() {
            let entry = &least.0;
            let (key, value) = (entry.key(), entry.value(&mut large)?);
            if before.has(last.as_deref(), key, entry.prefix) {
                self.duplicate = Some((key.to_vec(), value.bytes().to_vec()));
                return Err(Error::DuplicateKey);
            }
            each(key, entry.prefix, value)?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            if !least.0.next()? {
                PeekMut::pop(least);
            }
        }
        Ok(())
    }

    /// The key and the value of the entry that was there already.
    pub(super) fn into_duplicate(self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.duplicate
    }
}

impl Ord for Least<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.key().cmp(self.0.key()).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Least<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Least<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Least<'_> {}
