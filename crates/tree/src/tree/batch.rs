//! Reading many entries at once, straight out of the leaves: no copy of the page, and each entry is copied once.
//!
//! A leaf's entries are copied while it is read optimistically; if it changed meanwhile, what was copied of it is dropped and
//! the descent starts over. So the entries of one leaf are those of one moment.

use std::ops::Bound;

use holdfast_base::Result;
use holdfast_pool::PageRead;

use super::cursor::{Cursor, Direction, Seek, first_slot};
use super::descend::{LeafAt, LeafReader};
use super::spot::Spot;
use crate::node::NodeRef;

/// Entries copied from a tree, one behind the other.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// For each entry: where its key begins, where its payload begins.
    entries: Vec<(usize, usize)>,
    /// The leaves that they were copied from.
    leaves: Vec<CopiedLeaf>,
}

#[derive(Clone, Copy, Debug)]
struct CopiedLeaf {
    at: LeafAt,
    /// The first entry of the batch that comes from here, and the slot it was in; the others follow in the direction of the walk.
    entry: usize,
    slot: usize,
    direction: Direction,
}

impl Batch {
    /// Key and payload of entry `i`.
    #[must_use]
    pub fn get(&self, i: usize) -> (&[u8], &[u8]) {
        let (key, payload) = self.entries[i];
        let end = self.entries.get(i + 1).map_or(self.bytes.len(), |next| next.0);
        (&self.bytes[key..payload], &self.bytes[payload..end])
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

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that it has memory for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let (entry, leaf) = (size_of::<(usize, usize)>(), size_of::<CopiedLeaf>());
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
    fn push<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, i: usize) -> Option<()> {
        let key = self.bytes.len();
        let payload = node.entry_to(i, &mut self.bytes)?;
        self.entries.push((key, payload));
        Some(())
    }
}

/// How much a batch may hold.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimit {
    /// Entries.
    pub entries: usize,
    /// Bytes, exceeded by one entry at most.
    pub bytes: usize,
}

impl BatchLimit {
    fn has_room(self, batch: &Batch) -> bool {
        batch.len() < self.entries && batch.bytes.len() < self.bytes
    }
}

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
    /// The slots that the range leaves of the `count` that there are, as far as its end is concerned.
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
        let ends = match self.direction {
            Direction::Forward => {
                for slot in first..high {
                    if !self.limit.has_room(self.batch) {
                        return Some((at, Stop::BatchFull));
                    }
                    self.batch.push(node, slot)?;
                }
                high < count
            }
            Direction::Reverse => {
                for slot in (low..first).rev() {
                    if !self.limit.has_room(self.batch) {
                        return Some((at, Stop::BatchFull));
                    }
                    self.batch.push(node, slot)?;
                }
                low > 0
            }
        };
        Some((at, if ends { Stop::RangeEnds } else { Stop::LeafEnds }))
    }
}

impl Cursor<'_> {
    /// Appends to `batch` the entries from where the cursor stands, up to `end`, as many as `limit` allows the batch to hold in
    /// all. Returns whether there may be more. Under policies that count rows each entry is a touch.
    ///
    /// # Errors
    /// As [`Cursor::next`].
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
            self.touch_rows(at.no, copied.saturating_sub(1));
            match stop {
                Stop::BatchFull => {
                    self.seek = Seek::Behind;
                    self.anchor.clear();
                    self.anchor.extend_from_slice(batch.get(batch.len() - 1).0);
                }
                Stop::RangeEnds => self.done = true,
                Stop::LeafEnds => self.done = !self.leave_leaf() || self.is_behind(end),
            }
        }
        Ok(!self.done)
    }

    /// Whether everything from the anchor on lies behind `end`.
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
