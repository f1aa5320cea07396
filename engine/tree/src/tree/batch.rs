//! Reads many entries at once, straight out of the leaves: without a copy of the page, and each
//! entry is copied once.
//!
//! A leaf's entries are copied while it is read optimistically. If it changed meanwhile, the copies
//! are dropped and the descent starts over. So the entries of one leaf are those of one moment.

use std::ops::Bound;

use holdfast_base::Result;
use holdfast_pool::PageRead;

use super::cursor::{Seek, TreeCursor, first_slot};
use super::descend::{LeafAt, LeafReader};
use super::spot::Spot;
use super::walk::Direction;
use crate::node::NodeRef;

/// Entries copied from a tree, one behind the other.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The leaves that they were copied from.
    leaves: Vec<CopiedLeaf>,
}

/// Where an entry begins in the bytes of a batch, which are no more than a few pages.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    payload: u32,
}

#[derive(Clone, Copy, Debug)]
struct CopiedLeaf {
    at: LeafAt,
    /// The first entry of the batch that comes from this leaf, and its slot; the others follow in
    /// the direction of the walk.
    entry: usize,
    slot: usize,
    direction: Direction,
}

impl Batch {
    /// Key and payload of entry `i`.
    #[must_use]
    #[inline]
    pub fn get(&self, i: usize) -> (&[u8], &[u8]) {
        let (entry, next) = (self.entries[i], self.entries.get(i + 1));
        let end = next.map_or(self.bytes.len(), |next| next.key as usize);
        let (key, payload) = self.bytes[entry.key as usize..end].split_at((entry.payload - entry.key) as usize);
        (key, payload)
    }

    /// Where entry `i` was copied from.
    #[must_use]
    pub fn spot(&self, i: usize) -> Option<Spot> {
        let leaf = self.leaves[..self.leaves.partition_point(|leaf| leaf.entry <= i)].last()?;
        let nth = i - leaf.entry;
        let slot = match leaf.direction {
            Direction::Forward => leaf.slot.checked_add(nth)?,
            Direction::Reverse => leaf.slot.checked_sub(nth)?,
        };
        Some(Spot::of_entry(leaf.at, slot))
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that it has memory for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let (entry, leaf) = (size_of::<Entry>(), size_of::<CopiedLeaf>());
        self.bytes.capacity() + self.entries.capacity() * entry + self.leaves.capacity() * leaf
    }

    /// Forgets all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.truncate((0, 0));
    }

    fn mark(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes.len())
    }

    fn truncate(&mut self, (entries, bytes): (usize, usize)) {
        self.entries.truncate(entries);
        self.bytes.truncate(bytes);
        self.leaves.truncate(self.leaves.partition_point(|leaf| leaf.entry < entries));
    }

    /// The next entries come from the leaf `at`, beginning with that in `slot`.
    fn begin_leaf(&mut self, at: LeafAt, slot: usize, direction: Direction) {
        self.leaves.push(CopiedLeaf { at, entry: self.entries.len(), slot, direction });
    }

    /// Appends the entry in slot `i`. `None` for bytes that no leaf can hold.
    #[inline]
    fn push<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, i: usize) -> Option<()> {
        let key = self.bytes.len() as u32;
        let payload = node.entry_to(i, &mut self.bytes)? as u32;
        self.entries.push(Entry { key, payload });
        Some(())
    }
}

/// How much a batch may hold.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimit {
    /// Entries.
    pub entries: usize,
    /// Bytes after which no further leaf is begun. The entries of a leaf are taken whole if
    /// possible, because the rest would need another descent: up to four times these bytes,
    /// exceeded by one entry at most.
    pub bytes: usize,
}

/// See [`BatchLimit::bytes`]. Keys are longer than what a leaf stores of them, and a leaf that
/// changes while it is read can appear to have any number of bytes.
const WITHIN_LEAF: usize = 4;

impl BatchLimit {
    fn has_room(self, batch: &Batch) -> bool {
        batch.len() < self.entries && batch.bytes.len() < self.bytes
    }
}

/// So many entries ahead of the one that is copied the processor is told where they are,
const EXPECTED: usize = 8;
/// and of how many bytes of them at most: it guesses the rest of longer ones by itself.
const EXPECTED_BYTES: usize = 256;

/// Why no more was copied from a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// There is no more in it.
    LeafEnds,
    /// What follows is behind the range.
    RangeEnds,
    BatchFull,
}

/// Copies the entries of a leaf from a position on.
struct CopyEntries<'c> {
    seek: Seek,
    direction: Direction,
    anchor: &'c [u8],
    end: Bound<&'c [u8]>,
    limit: BatchLimit,
    /// What the batch had before this leaf.
    before: (usize, usize),
    batch: &'c mut Batch,
}

impl CopyEntries<'_> {
    /// The slots, of the `count` slots of the leaf, that are before the end of the range.
    fn within<P: PageRead + ?Sized>(&self, node: NodeRef<'_, P>, count: usize) -> Option<(usize, usize)> {
        // The first slot not less than the end, or the first one greater.
        let (end, behind_equal) = match (self.end, self.direction) {
            (Bound::Unbounded, _) => return Some((0, count)),
            (Bound::Included(end), Direction::Forward) | (Bound::Excluded(end), Direction::Reverse) => (end, true),
            (Bound::Excluded(end), Direction::Forward) | (Bound::Included(end), Direction::Reverse) => (end, false),
        };
        let found = node.search(end)?;
        let slot = found.slot + usize::from(found.exact && behind_equal);
        Some(if self.direction == Direction::Forward { (0, slot) } else { (slot, count) })
    }

    /// Copies the entries in `slots`, as many as there is room for. Returns whether these were all.
    /// The leaves of a large pool are in no cache of the processor, which cannot guess the place of
    /// the next entry: the loop prefetches it a few entries before.
    #[inline]
    fn copy<P, S>(&mut self, node: NodeRef<'_, P>, slots: S) -> Option<bool>
    where
        P: PageRead + ?Sized,
        S: Iterator<Item = usize> + ExactSizeIterator + Clone,
    {
        let room = self.limit.entries.saturating_sub(self.batch.len());
        let bytes_max = self.limit.bytes.saturating_mul(WITHIN_LEAF);
        let all = slots.len() <= room;
        let mut expected = slots.clone().take(room);
        expected.by_ref().take(EXPECTED).for_each(|slot| node.expect_entry(slot, EXPECTED_BYTES));
        for slot in slots.take(room) {
            let before = self.batch.bytes.len();
            if before >= bytes_max {
                return Some(false);
            }
            self.batch.push(node, slot)?;
            if let Some(slot) = expected.next() {
                node.expect_entry(slot, (self.batch.bytes.len() - before).min(EXPECTED_BYTES));
            }
        }
        Some(all)
    }
}

impl LeafReader for CopyEntries<'_> {
    type Out = (LeafAt, Stop);

    fn read<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, _: &P, at: LeafAt) -> Option<Self::Out> {
        self.batch.truncate(self.before);
        let count = node.count()?;
        let first = first_slot(node, self.seek, self.direction, self.anchor)?;
        let (low, high) = self.within(node, count)?;
        let first_read = if self.direction == Direction::Forward { first } else { first.saturating_sub(1) };
        self.batch.begin_leaf(at, first_read, self.direction);
        let (slots, ends) = match self.direction {
            Direction::Forward => (first..high, high < count),
            Direction::Reverse => (low..first, low > 0),
        };
        let stop = if ends { Stop::RangeEnds } else { Stop::LeafEnds };
        let all = match self.direction {
            Direction::Forward => self.copy(node, slots)?,
            Direction::Reverse => self.copy(node, slots.rev())?,
        };
        Some((at, if all { stop } else { Stop::BatchFull }))
    }
}

impl TreeCursor<'_> {
    /// Appends to `batch` the entries from the cursor's position up to `end`, as many as `limit`
    /// allows the batch to hold in all. Returns whether there may be more. Under policies that
    /// count rows each entry is a touch.
    ///
    /// # Errors
    /// The errors of [`TreeCursor::next`].
    pub fn fill(&mut self, batch: &mut Batch, limit: BatchLimit, end: Bound<&[u8]>) -> Result<bool> {
        while !self.done && limit.has_room(batch) {
            let before = batch.mark();
            let anchor = std::mem::take(&mut self.anchor);
            let (seek, direction) = (self.seek, self.direction);
            let mut reader = CopyEntries { seek, direction, anchor: &anchor, end, limit, before, batch: &mut *batch };
            let visited = self.visit(&anchor, &mut reader);
            self.anchor = anchor;
            let (at, stop) = visited.inspect_err(|_| batch.truncate(before))?;
            let copied = batch.len() - before.0;
            if copied > 0 {
                self.check_ahead(at.no, batch.get(batch.len() - 1).0).inspect_err(|_| batch.truncate(before))?;
            }
            self.touch_rows(at.no, copied.saturating_sub(1));
            match stop {
                Stop::BatchFull => {
                    self.seek = Seek::Behind;
                    self.anchor.clear();
                    self.anchor.extend_from_slice(batch.get(batch.len() - 1).0);
                }
                Stop::RangeEnds => self.done = true,
                Stop::LeafEnds => self.done = !self.leave_leaf()? || self.is_behind(end),
            }
        }
        Ok(!self.done)
    }

    /// True if everything from the anchor on lies behind `end`.
    fn is_behind(&self, end: Bound<&[u8]>) -> bool {
        let anchor = self.anchor.as_slice();
        match (end, self.direction) {
            (Bound::Unbounded, _) => false,
            // The anchor belongs to the next leaf,
            (Bound::Included(end), Direction::Forward) => anchor > end,
            (Bound::Excluded(end), Direction::Forward) => anchor >= end,
            // or to the last one.
            (Bound::Included(end) | Bound::Excluded(end), Direction::Reverse) => anchor <= end,
        }
    }
}
