//! Cursors: ordered walks, in both directions, that hold nothing between two calls.
//!
//! A cursor keeps a private copy of its leaf, the version of the copy, and the bounds of the leaf's
//! key range, which the descent took from the parents. While the version is current, rows come from
//! the copy. When it has changed, the cursor seeks again behind the last key that it returned. At
//! the end of the copy it seeks the bound: the first key not below the upper one, or the last key
//! below the lower one. So each key that exists all the time is returned exactly once, in order,
//! whatever splits and merges do to the pages. Every seek leads further in the cursor's direction
//! than the one before: a damaged page that says the contrary is an error, so that each walk ends.
//!
//! Each visit of a leaf is one touch for the replacement policy, however many rows the cursor reads
//! there, unless the policy counts rows.

use std::cmp::Ordering;
use std::fmt;

use holdfast_base::{PageNo, Result};
use holdfast_pool::{Access, PageRead};

use super::Tree;
use super::ahead::{Ahead, Course};
use super::descend::{LeafAt, LeafReader, Way};
use super::walk::{Direction, Walk};
use crate::node::NodeRef;

/// Where to go next. Keys are in [`TreeCursor::anchor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seek {
    /// To the very first (forward) or last (reverse) entry.
    End,
    /// To the anchor or, if there is no such key, the next one in the cursor's direction.
    At,
    /// To the next one behind the anchor in the cursor's direction.
    Behind,
}

impl Seek {
    /// True if a walk that was sent to `anchor` goes on if it comes to `key`.
    fn is_followed_by(self, anchor: &[u8], key: &[u8], direction: Direction, may_be_equal: bool) -> bool {
        let order = match direction {
            Direction::Forward => key.cmp(anchor),
            Direction::Reverse => anchor.cmp(key),
        };
        self == Seek::End || order == Ordering::Greater || (may_be_equal && order == Ordering::Equal)
    }
}

/// A position in a tree that moves in one direction. Made by [`Tree::cursor`], placed by
/// [`TreeCursor::seek`].
pub struct TreeCursor<'t> {
    tree: &'t Tree,
    acc: &'t Access<'t>,
    pub(super) direction: Direction,
    /// The leaf's bytes; empty: no leaf is held.
    page: Vec<u8>,
    at: Option<LeafAt>,
    /// The next slot to return is `slot` (forward) or the one before it (reverse).
    slot: usize,
    count: usize,
    bounds: Bounds,
    /// Where to go if the leaf is lost or at its end.
    pub(super) seek: Seek,
    pub(super) anchor: Vec<u8>,
    key: Vec<u8>,
    /// The last row returned came from this slot of the copy.
    returned: Option<usize>,
    pub(super) done: bool,
    walk: Walk,
    per_row_touches: bool,
    ahead: Ahead,
    /// The walk ends here, if it is known where: nothing behind is read ahead.
    pub(super) end: Option<&'t [u8]>,
}

/// The key range of the leaf.
#[derive(Debug, Default)]
struct Bounds {
    low: Vec<u8>,
    has_low: bool,
    high: Vec<u8>,
    has_high: bool,
}

/// The way to a position; notes the bounds, and what comes after.
struct ToPosition<'c> {
    seek: Seek,
    course: Course<'c>,
    anchor: &'c [u8],
    bounds: &'c mut Bounds,
    ahead: &'c mut Ahead,
}

impl Way for ToPosition<'_> {
    fn start(&mut self) {
        (self.bounds.has_low, self.bounds.has_high) = (false, false);
        self.ahead.start();
    }

    fn choose<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>) -> Option<usize> {
        let count = node.count()?;
        let slot = match (self.seek, self.course.direction) {
            (Seek::End, Direction::Forward) => 0,
            (Seek::End, Direction::Reverse) => count.checked_sub(1)?,
            (Seek::Behind, Direction::Reverse) => node.child_slot_before(self.anchor)?,
            _ => node.child_slot(self.anchor)?,
        };
        if slot > 0 {
            node.key_to(slot, &mut self.bounds.low)?;
            self.bounds.has_low = true;
        }
        if slot + 1 < count {
            node.key_to(slot + 1, &mut self.bounds.high)?;
            self.bounds.has_high = true;
        }
        self.ahead.note(node, slot, self.course)?;
        Some(slot)
    }

    fn load_leaf(&mut self, tree: &Tree, no: PageNo, acc: &Access<'_>) -> Result<()> {
        self.ahead.load_leaf(tree, no, acc)
    }
}

/// Copies a leaf and finds the slot to begin with.
struct CopyLeaf<'c> {
    seek: Seek,
    direction: Direction,
    anchor: &'c [u8],
    page: &'c mut [u8],
}

/// The slot to begin with in a leaf; in reverse, the one behind it.
pub(super) fn first_slot<P: PageRead + ?Sized>(
    leaf: NodeRef<'_, P>,
    seek: Seek,
    direction: Direction,
    anchor: &[u8],
) -> Option<usize> {
    Some(match (seek, direction) {
        (Seek::End, Direction::Forward) => 0,
        (Seek::End, Direction::Reverse) => leaf.count()?,
        (Seek::At, Direction::Forward) | (Seek::Behind, Direction::Reverse) => leaf.search(anchor)?.slot,
        (Seek::Behind, Direction::Forward) | (Seek::At, Direction::Reverse) => {
            let found = leaf.search(anchor)?;
            found.slot + usize::from(found.exact)
        }
    })
}

impl LeafReader for CopyLeaf<'_> {
    /// Which leaf; the slot to begin with, and how many there are.
    type Out = (LeafAt, (usize, usize));

    fn read<P: PageRead + ?Sized>(&mut self, _: NodeRef<'_, P>, page: &P, at: LeafAt) -> Option<Self::Out> {
        page.copy_page(self.page)?;
        let node = NodeRef::assume(&*self.page);
        let slot = first_slot(node, self.seek, self.direction, self.anchor)?;
        Some((at, (slot, node.count()?)))
    }
}

impl Tree {
    /// A cursor that counts its reads in `acc`. It has no position until [`TreeCursor::seek`].
    pub fn cursor<'t>(&'t self, acc: &'t Access<'t>) -> TreeCursor<'t> {
        TreeCursor {
            tree: self,
            acc,
            direction: Direction::Forward,
            page: Vec::new(),
            at: None,
            slot: 0,
            count: 0,
            bounds: Bounds::default(),
            seek: Seek::End,
            anchor: Vec::new(),
            key: Vec::new(),
            returned: None,
            done: true,
            walk: Walk::default(),
            per_row_touches: self.store().pool().per_row_touches(),
            ahead: Ahead::default(),
            end: None,
        }
    }
}

impl<'t> TreeCursor<'t> {
    /// Places the cursor so that [`TreeCursor::next`] returns the first entry of `from` and beyond
    /// in `direction`. `Included`: the key itself counts. `Excluded`: it does not. `Unbounded`:
    /// from the first entry of the tree in that direction.
    pub fn seek(&mut self, from: std::ops::Bound<&[u8]>, direction: Direction) {
        let (seek, anchor) = match from {
            std::ops::Bound::Included(key) => (Seek::At, key),
            std::ops::Bound::Excluded(key) => (Seek::Behind, key),
            std::ops::Bound::Unbounded => (Seek::End, &[][..]),
        };
        self.anchor.clear();
        self.anchor.extend_from_slice(anchor);
        (self.seek, self.direction) = (seek, direction);
        self.forget_leaf();
        (self.done, self.walk.ahead) = (false, 0);
    }

    /// How far the walk has come.
    #[must_use]
    pub fn walk(&self) -> Walk {
        self.walk
    }

    /// Says that this cursor, which has just been placed, continues a walk of other cursors, and
    /// where the walk ends, if that is known: leaves behind the end are not read ahead.
    pub fn continues(&mut self, walk: Walk, end: Option<&'t [u8]>) {
        (self.walk, self.end) = (walk, end);
    }

    fn forget_leaf(&mut self) {
        (self.at, self.returned) = (None, None);
    }

    /// The next entry: key and payload. They stay readable until the next call. `None` at the end,
    /// and from then on.
    ///
    /// # Errors
    /// Damage; the errors of reading pages. The cursor stays where it was and may be asked again.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.advance()? {
            return Ok(None);
        }
        self.current()
    }

    /// The entry returned last, as it was then.
    ///
    /// # Errors
    /// Damage.
    pub fn current(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some(slot) = self.returned else { return Ok(None) };
        let no = self.at.map_or(PageNo::NONE, |at| at.no);
        let node = NodeRef::assume(self.page.as_slice());
        let payload = node
            .key_to(slot, &mut self.key)
            .and_then(|()| node.payload(slot))
            .ok_or_else(|| self.tree.damaged(no, "a leaf whose slots make no sense"))?;
        Ok(Some((&self.key, payload)))
    }

    /// Moves to the next entry; false at the end. Only an unchanged leaf is good enough.
    fn advance(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        if let Some(at) = self.at
            && !self.tree.store().pool().is_current(at.stamp)
        {
            self.anchor_at_last()?;
            self.forget_leaf();
        }
        loop {
            if self.at.is_none() {
                self.enter_leaf()?;
            }
            let next = match self.direction {
                Direction::Forward if self.slot < self.count => Some(self.slot),
                Direction::Forward => None,
                Direction::Reverse => self.slot.checked_sub(1),
            };
            if let Some(slot) = next {
                self.slot = if self.direction == Direction::Forward { slot + 1 } else { slot };
                self.touch_row();
                self.returned = Some(slot);
                return Ok(true);
            }
            if !self.leave_leaf()? {
                self.done = true;
                self.forget_leaf();
                return Ok(false);
            }
        }
    }

    /// Makes the last entry returned the anchor, to continue behind it, if it came from this leaf.
    fn anchor_at_last(&mut self) -> Result<()> {
        if self.current()?.is_some() {
            std::mem::swap(&mut self.anchor, &mut self.key);
            self.seek = Seek::Behind;
        }
        Ok(())
    }

    /// The copy is used up: the bound becomes the next anchor. False if this was the last leaf.
    ///
    /// # Errors
    /// Damage, if the bound is not ahead.
    pub(super) fn leave_leaf(&mut self) -> Result<bool> {
        let (more, bound, next) = match self.direction {
            Direction::Forward => (self.bounds.has_high, &mut self.bounds.high, Seek::At),
            Direction::Reverse => (self.bounds.has_low, &mut self.bounds.low, Seek::Behind),
        };
        // The leaf that holds a key ends behind it, and begins at it at the latest.
        let may_be_equal = self.seek == Seek::At && self.direction == Direction::Reverse;
        if more && !self.seek.is_followed_by(&self.anchor, bound, self.direction, may_be_equal) {
            return Err(self.tree.damaged(self.walk.last, "a leaf that its parents give a range which does not go on"));
        }
        std::mem::swap(&mut self.anchor, bound);
        self.seek = next;
        self.forget_leaf();
        Ok(more)
    }

    /// Checks that `key`, the last one of what was read from a leaf, is not before the anchor.
    ///
    /// # Errors
    /// Damage, if it is: the walk would come back to it for ever.
    pub(super) fn check_ahead(&self, leaf: PageNo, key: &[u8]) -> Result<()> {
        if self.seek.is_followed_by(&self.anchor, key, self.direction, self.seek == Seek::At) {
            return Ok(());
        }
        Err(self.tree.damaged(leaf, "a leaf whose keys are not in order"))
    }

    fn enter_leaf(&mut self) -> Result<()> {
        let (anchor, mut page) = (std::mem::take(&mut self.anchor), std::mem::take(&mut self.page));
        page.resize(self.tree.page_size(), 0);
        let mut reader = CopyLeaf { seek: self.seek, direction: self.direction, anchor: &anchor, page: &mut page };
        let entered = self.visit(&anchor, &mut reader);
        (self.anchor, self.page) = (anchor, page);
        let (at, (slot, count)) = entered?;
        (self.at, self.slot, self.count) = (Some(at), slot, count);
        Ok(())
    }

    /// Descends to the position of the seek, reads the leaf there, and asks for the next ones
    /// ahead.
    pub(super) fn visit<T, R: LeafReader<Out = (LeafAt, T)>>(
        &mut self,
        anchor: &[u8],
        reader: &mut R,
    ) -> Result<(LeafAt, T)> {
        let pool = self.tree.store().pool();
        self.ahead.plan(self.walk, self.acc.is_ring_scan(), self.end.is_some(), pool);
        let (seek, course) = (self.seek, Course { direction: self.direction, end: self.end });
        let mut way = ToPosition { seek, course, anchor, bounds: &mut self.bounds, ahead: &mut self.ahead };
        let (at, read) = self.tree.read_leaf(&mut way, self.acc, reader)?;
        if at.no != self.walk.last {
            let Walk { leaves, ahead, .. } = self.walk;
            self.walk = Walk { leaves: leaves + 1, last: at.no, ahead: ahead.saturating_sub(1) };
        }
        self.ahead.ask(self.tree, self.acc, course, &mut self.walk);
        Ok((at, read))
    }

    /// Under policies that count rows: touches the leaf once more.
    fn touch_row(&mut self) {
        if self.returned.is_some()
            && let Some(at) = self.at
        {
            self.touch_rows(at.no, 1);
        }
    }

    /// Under policies that count rows: touches a leaf so many times.
    pub(super) fn touch_rows(&self, leaf: PageNo, rows: usize) {
        if self.per_row_touches {
            for _ in 0..rows {
                let _ = self.tree.store().pool().fix_optimistic(self.tree.space.space(), leaf, self.acc);
            }
        }
    }
}

impl fmt::Debug for TreeCursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeCursor")
            .field("tree", self.tree)
            .field("direction", &self.direction)
            .field("leaf", &self.at.map(|at| at.no))
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}
