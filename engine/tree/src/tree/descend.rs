//! The descent from the root to a leaf: optimistic, and with shared latches when that fails too
//! often.

use holdfast_base::{PageNo, Result};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, ExclusiveGuard, OptimisticGuard, PageRead, PageStamp, RESERVED_MAX, SharedGuard};

use super::Tree;
use crate::node::NodeRef;

/// Optimistic attempts before a descent takes latches. A miss on each level costs one.
const OPTIMISTIC_ATTEMPTS: u32 = 16;
/// Frames for a descent with latches: it gets down so many levels of which no node is in the pool.
const LATCHED_FRAMES: usize = RESERVED_MAX;

/// Chooses the way down. Its notes count only if the descent succeeds; [`Way::start`] tells it of
/// each new start.
pub(super) trait Way {
    /// A descent begins, anew perhaps.
    fn start(&mut self) {}
    /// The slot of the child to go to; `None` for bytes that no inner node can hold.
    fn choose<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>) -> Option<usize>;
    /// Brings in the leaf `no`, to which the way led last.
    fn load_leaf(&mut self, tree: &Tree, no: PageNo, acc: &Access<'_>) -> Result<()> {
        tree.store().pool().load(tree.space.space(), no, acc)
    }
}

/// The way to the leaf whose range holds a key.
pub(super) struct ForKey<'k>(pub &'k [u8]);

impl Way for ForKey<'_> {
    #[inline]
    fn choose<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>) -> Option<usize> {
        node.child_slot(self.0)
    }
}

/// Reads something from a leaf. May run several times; the last run counts.
pub(super) trait LeafReader {
    type Out;
    /// `None` for bytes that no leaf can hold.
    fn read<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, page: &P, at: LeafAt) -> Option<Self::Out>;
}

/// Which leaf was read, in which version.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafAt {
    pub no: PageNo,
    pub stamp: PageStamp,
}

/// Copies the payload of a key.
pub(super) struct GetPayload<'a> {
    pub key: &'a [u8],
    pub out: &'a mut Vec<u8>,
}

impl LeafReader for GetPayload<'_> {
    type Out = bool;

    #[inline]
    fn read<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, _: &P, _: LeafAt) -> Option<bool> {
        self.out.clear();
        let found = node.search(self.key)?;
        if found.exact {
            node.payload_to(found.slot, self.out)?;
        }
        Some(found.exact)
    }
}

/// What an inner step found.
enum Step {
    Leaf,
    Child(PageNo, u8),
}

/// What an optimistic descent came to.
enum Walk<'p> {
    Leaf(OptimisticGuard<'p>),
    /// A version did not hold.
    Changed,
    /// This page has to be loaded first, with nothing held.
    Missing(Missing),
}

/// A page that a descent has to have, and that is not in the pool.
struct Missing {
    no: PageNo,
    /// It is known to be a leaf.
    is_leaf: bool,
    /// The node that has named it.
    parent: Option<PageStamp>,
}

impl Tree {
    /// Copies the payload of `key` into `out`, whose old content is dropped. Returns whether the
    /// key exists; `out` is empty if not.
    ///
    /// # Errors
    /// Damage; the errors of reading pages.
    pub fn get(&self, key: &[u8], acc: &Access<'_>, out: &mut Vec<u8>) -> Result<bool> {
        self.read_leaf(&mut ForKey(key), acc, &mut GetPayload { key, out })
    }

    /// Reads a node on the way: it is the leaf, or names the next child. `None`: no node of this
    /// tree on that level.
    #[inline]
    fn step<W: Way, P: PageRead + ?Sized>(&self, way: &mut W, page: &P, expected: Option<u8>) -> Option<Step> {
        let node = NodeRef::new(page, self.index)?;
        let level = node.level()?;
        if expected.is_some_and(|expected| expected != level) {
            return None;
        }
        if level == 0 {
            return Some(Step::Leaf);
        }
        let slot = way.choose(node)?;
        Some(Step::Child(node.child(slot)?, level))
    }

    /// One optimistic descent. `None`: a page changed, or was not resident (it is now); the caller
    /// starts over.
    #[inline]
    fn try_descend<'p, W: Way>(&'p self, way: &mut W, acc: &Access<'_>) -> Result<Option<OptimisticGuard<'p>>> {
        match self.walk_down(way, acc)? {
            Walk::Leaf(guard) => Ok(Some(guard)),
            Walk::Changed => Ok(None),
            Walk::Missing(missing) => self.load_missing(&missing, way, acc).map(|()| None),
        }
    }

    /// Brings in a page. What has become of it since its parent named it is for the next attempt:
    /// a compaction may have moved it, and cut off where it was.
    fn load_missing<W: Way>(&self, missing: &Missing, way: &mut W, acc: &Access<'_>) -> Result<()> {
        let (pool, no) = (self.store().pool(), missing.no);
        let loaded = match missing.is_leaf {
            true => way.load_leaf(self, no, acc),
            false => pool.load_inner(self.space.space(), no, acc),
        };
        let is_named = missing.parent.is_none_or(|parent| pool.is_current(parent));
        if is_named { loaded } else { Ok(()) }
    }

    #[inline]
    fn walk_down<'p, W: Way>(&'p self, way: &mut W, acc: &Access<'_>) -> Result<Walk<'p>> {
        let (pool, space) = (self.store().pool(), self.space.space());
        way.start();
        let Some(mut guard) = pool.fix_optimistic(space, self.root, acc) else {
            return Ok(Walk::Missing(Missing { no: self.root, is_leaf: false, parent: None }));
        };
        let mut expected = None;
        loop {
            match self.step(way, &guard.page(), expected) {
                None if guard.validate() => {
                    return Err(self.damaged(guard.id().no, "a page that is no node of it, or on a wrong level"));
                }
                None => return Ok(Walk::Changed),
                Some(Step::Leaf) => return Ok(Walk::Leaf(guard)),
                Some(Step::Child(no, level)) => {
                    if !guard.validate() {
                        return Ok(Walk::Changed);
                    }
                    let Some(child) = pool.fix_optimistic(space, no, acc) else {
                        let parent = Some(guard.stamp());
                        return Ok(Walk::Missing(Missing { no, is_leaf: level == 1, parent }));
                    };
                    // The child's version is known: if the parent is unchanged, it is the version
                    // of the right child.
                    if !guard.validate() {
                        return Ok(Walk::Changed);
                    }
                    guard = child;
                    expected = Some(level - 1);
                }
            }
        }
    }

    fn note_restart(&self, acc: &Access<'_>) {
        acc.count_retry();
        self.count(Counter::IndexRestarts);
    }

    /// Descends with shared latches and calls `last` for the leaf while its parent is latched.
    /// Starts over, with the pages that it has loaded in the pool, when the reserved frames are
    /// used up before it is down.
    fn descend_latched<'p, W: Way, G>(
        &'p self,
        way: &mut W,
        acc: &Access<'_>,
        last: impl Fn(PageNo) -> Result<G>,
        bytes: impl Fn(&G) -> &[u8],
    ) -> Result<G> {
        let (pool, space) = (self.store().pool(), self.space.space());
        let frames = pool.reserve_frames(LATCHED_FRAMES, acc)?;
        'start: loop {
            frames.refill()?;
            way.start();
            let mut parent: Option<SharedGuard<'p>> = None;
            let (mut no, mut expected) = (self.root, None);
            loop {
                if parent.is_some() && acc.reserved_frames() == 0 {
                    continue 'start;
                }
                if expected == Some(0) {
                    let leaf = last(no)?;
                    self.step(way, bytes(&leaf), expected).ok_or_else(|| self.damaged(no, "not a leaf of it"))?;
                    return Ok(leaf);
                }
                let guard = pool.fix_shared(space, no, acc)?;
                drop(parent.take());
                match self.step(way, &guard[..], expected) {
                    None => return Err(self.damaged(no, "a page that is no node of it, or on a wrong level")),
                    Some(Step::Child(child, level)) => {
                        (no, expected) = (child, Some(level - 1));
                        parent = Some(guard);
                    }
                    Some(Step::Leaf) => {
                        // The root is the leaf and has no parent to latch: it is checked again
                        // under its final latch.
                        drop(guard);
                        let leaf = last(no)?;
                        match self.step(way, bytes(&leaf), None) {
                            None => return Err(self.damaged(no, "a page that is no node of it")),
                            Some(Step::Leaf) => return Ok(leaf),
                            Some(Step::Child(..)) => continue 'start,
                        }
                    }
                }
            }
        }
    }

    /// Descends along `way` and reads the leaf; nothing is latched when this returns.
    #[inline]
    pub(super) fn read_leaf<W: Way, R: LeafReader>(
        &self,
        way: &mut W,
        acc: &Access<'_>,
        reader: &mut R,
    ) -> Result<R::Out> {
        for _ in 0..OPTIMISTIC_ATTEMPTS {
            if let Some(guard) = self.try_descend(way, acc)? {
                let page = guard.page();
                let at = LeafAt { no: guard.id().no, stamp: guard.stamp() };
                let out = reader.read(NodeRef::assume(&page), &page, at);
                if guard.validate() {
                    return out.ok_or_else(|| self.damaged(at.no, "a leaf whose slots make no sense"));
                }
            }
            self.note_restart(acc);
        }
        self.read_leaf_latched(way, acc, reader)
    }

    #[cold]
    fn read_leaf_latched<W: Way, R: LeafReader>(
        &self,
        way: &mut W,
        acc: &Access<'_>,
        reader: &mut R,
    ) -> Result<R::Out> {
        let (pool, space) = (self.store().pool(), self.space.space());
        let leaf = self.descend_latched(way, acc, |no| pool.fix_shared(space, no, acc), |guard| &guard[..])?;
        let at = LeafAt { no: leaf.id().no, stamp: leaf.stamp() };
        let out = reader.read(NodeRef::assume(&leaf[..]), &leaf[..], at);
        drop(leaf);
        out.ok_or_else(|| self.damaged(at.no, "a leaf whose slots make no sense"))
    }

    /// Descends along `way` and latches the leaf exclusively.
    pub(super) fn latch_leaf<'p, W: Way>(&'p self, way: &mut W, acc: &Access<'_>) -> Result<ExclusiveGuard<'p>> {
        for _ in 0..OPTIMISTIC_ATTEMPTS {
            if let Some(guard) = self.try_descend(way, acc)?
                && let Ok(leaf) = guard.upgrade()
            {
                return Ok(leaf);
            }
            self.note_restart(acc);
        }
        let (pool, space) = (self.store().pool(), self.space.space());
        self.descend_latched(way, acc, |no| pool.fix_exclusive(space, no, acc), |guard| guard.bytes())
    }
}
