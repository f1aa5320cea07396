//! Which leaves a walk comes to next, so that the pool brings them in before they are asked for.
//!
//! A walk has a window of leaves before it that the pool was asked for. When half of the window is
//! used up, the walk asks the pool for another half, in one call: a disk that seeks goes there once
//! for all of them, and works while the walk does. The window belongs to the walk, not to a cursor:
//! rows are read in batches of a few leaves, each with a cursor of its own.
//!
//! A short walk has no window. But a walk with a known end that has come to its second leaf will
//! visit the leaves up to that end. So when one of them is missing, those that follow are loaded
//! with it, in one batch that the walk waits for. To hand them to other threads would cost more
//! than it gains: a range of a thousand rows has fifteen leaves.
//!
//! The descent notes the leaves that follow under the same parent, together with the bounds. Where
//! they are fewer than the window, the walk adds the children of the next parent, if that is
//! resident. (If it is not, the pool is asked for it, so that it is there when the window reaches
//! it again.) All of this is advice: a change in the meantime costs a page read in vain, or a wait.

use std::ops::Range;

use holdfast_base::{PageNo, Result};
use holdfast_pool::{Access, PageRead, Pool};

use super::Tree;
use super::walk::{Direction, Walk};
use crate::node::NodeRef;

/// Leaves of the window of a walk that has come far: two extents, so that one is read at a time.
/// The fixed cost of a read - a call, a request, two switches - is then half of that with half as
/// many. A small pool has room for fewer: they would be evicted before the walk comes to them.
const WINDOW: usize = 128;
/// Leaves that a walk has to visit before it has a window: a range of a hundred rows ends before.
const WINDOW_AFTER: u64 = 4;
/// Leaves of a walk with a known end that come in together.
const TOGETHER: usize = 16;

/// Where a walk goes, and where it ends if that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course<'c> {
    pub direction: Direction,
    pub end: Option<&'c [u8]>,
}

impl Course<'_> {
    /// How many of the children of an inner node follow the one in `slot`, as far as the walk goes.
    fn following<P: PageRead + ?Sized>(self, node: NodeRef<'_, P>, slot: usize) -> Option<usize> {
        let end = self.end.map(|end| node.child_slot(end).ok_or(())).transpose().ok()?;
        Some(match self.direction {
            Direction::Forward => end.map_or(node.count()?.checked_sub(1), Some)?.saturating_sub(slot),
            Direction::Reverse => slot.saturating_sub(end.unwrap_or(0)),
        })
    }

    /// The child that comes `n` after the one in `slot`.
    fn child<P: PageRead + ?Sized>(self, node: NodeRef<'_, P>, slot: usize, n: usize) -> Option<PageNo> {
        node.child(match self.direction {
            Direction::Forward => slot.checked_add(n)?,
            Direction::Reverse => slot.checked_sub(n)?,
        })
    }
}

/// What comes after a leaf, noted on the way down to it. Leaves are counted from the next one.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Which leaves are wanted; empty: none.
    wanted: Range<usize>,
    /// Those of them that were found.
    leaves: Vec<PageNo>,
    /// How many leaves of the walk follow under the same parent.
    under_parent: usize,
    /// The parent after it, if the walk comes there and the grandparent knows it.
    next_parent: Option<PageNo>,
    /// The leaves come in together with the first of them that is missing.
    together: bool,
}

impl Ahead {
    /// Decides which leaves the next descent notes. The window grows with the walk, because a range
    /// of a few leaves must not read many that it does not reach. A declared scan has the full
    /// window from its start. `ends`: the end of the walk is known.
    pub(super) fn plan(&mut self, walk: Walk, is_scan: bool, ends: bool, pool: &Pool) {
        self.together = false;
        let most = || WINDOW.min(pool.farthest_ahead());
        let window = match walk.leaves {
            _ if is_scan => most(),
            leaves @ WINDOW_AFTER.. => usize::try_from(leaves * 2).unwrap_or(WINDOW).min(most()),
            1.. if ends => {
                self.together = true;
                self.wanted = 0..TOGETHER - 1;
                return;
            }
            _ => 0,
        };
        // The leaf that is entered now is the first of those that were asked for.
        let asked = walk.ahead.saturating_sub(1);
        self.wanted = if asked <= window / 2 { asked..window } else { 0..0 };
    }

    /// Asks the pool for what was found.
    pub(super) fn ask(&mut self, tree: &Tree, acc: &Access<'_>, course: Course<'_>, walk: &mut Walk) {
        if self.wanted.is_empty() || self.together {
            return;
        }
        let (pool, space) = (tree.store().pool(), tree.space.space());
        if let Some(parent) = self.next_parent.filter(|_| self.under_parent < self.wanted.end)
            && !tree.note_next_parent(parent, self, course, acc)
        {
            pool.prefetch_inner(space, parent, acc);
        }
        let asked = pool.prefetch(space, &self.leaves, acc);
        walk.ahead = self.wanted.start + asked;
    }

    /// A descent begins.
    pub(super) fn start(&mut self) {
        self.leaves.clear();
        (self.under_parent, self.next_parent) = (0, None);
    }

    /// A descent goes through `node` to the child in `slot`.
    pub(super) fn note<P: PageRead + ?Sized>(
        &mut self,
        node: NodeRef<'_, P>,
        slot: usize,
        course: Course<'_>,
    ) -> Option<()> {
        match node.level()? {
            _ if self.wanted.is_empty() => {}
            1 => {
                self.under_parent = course.following(node, slot)?;
                for n in self.wanted.start..self.wanted.end.min(self.under_parent) {
                    self.leaves.push(course.child(node, slot, n + 1)?);
                }
            }
            2 if course.following(node, slot)? > 0 => self.next_parent = Some(course.child(node, slot, 1)?),
            _ => {}
        }
        Some(())
    }

    /// Brings in the leaf that the walk comes to now.
    pub(super) fn load_leaf(&mut self, tree: &Tree, no: PageNo, acc: &Access<'_>) -> Result<()> {
        let (pool, space) = (tree.store().pool(), tree.space.space());
        if !self.together {
            return pool.load(space, no, acc);
        }
        self.leaves.insert(0, no);
        pool.load_together(space, &self.leaves, acc)
    }

    /// The children of the next parent, given here, that are wanted too.
    fn note_next_parent<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, course: Course<'_>) -> Option<()> {
        let first = match course.direction {
            Direction::Forward => 0,
            Direction::Reverse => node.count()?.checked_sub(1)?,
        };
        let children = self.under_parent..self.under_parent + course.following(node, first)? + 1;
        for n in self.wanted.start.max(children.start)..self.wanted.end.min(children.end) {
            self.leaves.push(course.child(node, first, n - children.start)?);
        }
        Some(())
    }
}

impl Tree {
    /// Looks at the next parent; false if it is not resident.
    fn note_next_parent(&self, parent: PageNo, ahead: &mut Ahead, course: Course<'_>, acc: &Access<'_>) -> bool {
        let Some(guard) = self.store().pool().fix_optimistic(self.space.space(), parent, acc) else { return false };
        let page = guard.page();
        let noted = ahead.leaves.len();
        let node = NodeRef::new(&page, self.index).filter(|node| node.level() == Some(1));
        let found = node.and_then(|node| ahead.note_next_parent(node, course));
        if found.is_none() || !guard.validate() {
            ahead.leaves.truncate(noted);
        }
        true
    }
}
