//! Splits, one level per mini-transaction. A node is split only when its parent has room for the
//! separator; if it has not, the parent is split first. The root's content moves into a new child,
//! which is then split like any other node.

use holdfast_base::{PageNo, Result};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, Reserved};
use holdfast_wal::{SpaceClass, SpaceTicket};

use super::change::OVER_ANOTHER;
use super::descend::ForKey;
use super::path::{Hop, Path};
use super::{STRUCTURE_FRAMES, Tree};
use crate::mtr::{Mtr, PageRef};
use crate::node::{EntryList, LEVELS_MAX, NodeRef, SplitPlan, fence_prefix_len, plan_inner_split, plan_leaf_split};
use crate::op::PageOp;

/// What a step towards room came to.
enum Step {
    /// There is room, or nothing more to do.
    Done,
    /// Look again: the tree has changed above.
    Again,
    /// The parent needs room first.
    ParentFull,
}

impl Tree {
    /// Makes room for a record of `key` with `payload_len` bytes in the leaf that the key belongs
    /// to. Other threads may take the room before the caller does; it then asks again.
    pub(super) fn make_room(&self, key: &[u8], payload_len: usize, acc: &Access<'_>, class: SpaceClass) -> Result<()> {
        if self.room_was_made(key, payload_len, acc)? {
            return Ok(());
        }
        loop {
            let ticket = self.store().reserve(3 * self.page_size(), class)?;
            let frames = self.store().pool().reserve_frames(STRUCTURE_FRAMES, acc)?;
            if self.room_step(key, payload_len, acc, ticket, &frames)? {
                return Ok(());
            }
        }
    }

    /// Waits for the structure change in progress, and checks whether that has made the room. When
    /// a leaf at the end of an index is full, hundreds of threads may find it full while one of
    /// them splits it. They need not reserve the frames of a split, and wait for each other's
    /// reservations, to find that nothing is left to do.
    fn room_was_made(&self, key: &[u8], payload_len: usize, acc: &Access<'_>) -> Result<bool> {
        if self.structure.try_lock().is_some() {
            return Ok(false);
        }
        drop(self.hold_structure());
        let leaf = self.latch_leaf(&mut ForKey(key), acc)?;
        let no = leaf.id().no;
        self.has_room(self.node(leaf.bytes(), no)?, no, key, payload_len)
    }

    /// One mini-transaction towards room for `key`. Returns whether that was all.
    fn room_step(
        &self,
        key: &[u8],
        payload_len: usize,
        acc: &Access<'_>,
        ticket: SpaceTicket<'_>,
        frames: &Reserved<'_>,
    ) -> Result<bool> {
        let _structure = self.lock_structure();
        let path = self.path(key, 0, acc)?;
        let root_level = path.root_level();
        let (mut ticket, mut level) = (ticket, 0);
        loop {
            self.space.refill_alloc(path.at(level).no, frames, acc)?;
            let mut mtr = self.store().begin(ticket, acc);
            let step = if level == root_level {
                self.push_down_root(&mut mtr, level, key, payload_len)?
            } else if level == 0 {
                self.split_leaf(&mut mtr, &path, key, payload_len)?
            } else {
                self.split_inner(&mut mtr, &path, level)?
            };
            if matches!(step, Step::ParentFull) {
                ticket = mtr.give_up();
                level += 1;
                continue;
            }
            mtr.commit()?;
            return Ok(matches!(step, Step::Done));
        }
    }

    /// Latches the node on `level` of the path and its parent, the parent first. Returns (parent,
    /// node).
    pub(super) fn latch_pair<'p>(&'p self, mtr: &mut Mtr<'p>, path: &Path, level: u8) -> Result<(PageRef, PageRef)> {
        let parent = self.latch_node(mtr, path.at(level + 1).no, level + 1)?;
        Ok((parent, self.latch_node(mtr, path.at(level).no, level)?))
    }

    /// Latches a page that has to be a node of this tree on `level`: so nodes of two levels are two
    /// pages.
    pub(super) fn latch_node<'p>(&'p self, mtr: &mut Mtr<'p>, no: PageNo, level: u8) -> Result<PageRef> {
        let page = mtr.fix(self.space.space(), no)?;
        if self.node(mtr.bytes(page), no)?.level() != Some(level) {
            return Err(self.damaged(no, "a node on a wrong level"));
        }
        Ok(page)
    }

    /// True if a leaf has room for a record of `key`.
    fn has_room(&self, leaf: NodeRef<'_, [u8]>, no: PageNo, key: &[u8], payload_len: usize) -> Result<bool> {
        let bad = || self.damaged(no, "a leaf whose slots make no sense");
        let found = leaf.search(key).ok_or_else(bad)?;
        if found.exact {
            return Ok(leaf.can_replace(found.slot, payload_len, true));
        }
        let skip = leaf.prefix_len().ok_or_else(bad)?;
        Ok(leaf.can_insert(found.slot, key.len().saturating_sub(skip), payload_len, true))
    }

    fn split_leaf<'p>(&'p self, mtr: &mut Mtr<'p>, path: &Path, key: &[u8], payload_len: usize) -> Result<Step> {
        let (parent, page) = self.latch_pair(mtr, path, 0)?;
        let hop = path.at(0);
        let leaf = self.node(mtr.bytes(page), hop.no)?;
        if self.has_room(leaf, hop.no, key, payload_len)? {
            return Ok(Step::Done);
        }
        let plan = plan_leaf_split(leaf, key, payload_len, hop.high.is_none())
            .ok_or_else(|| self.damaged(hop.no, "a leaf that cannot be split"))?;
        self.split(mtr, (parent, path.at(1).slot), (page, hop), 0, &plan)
    }

    fn split_inner<'p>(&'p self, mtr: &mut Mtr<'p>, path: &Path, level: u8) -> Result<Step> {
        let (parent, page) = self.latch_pair(mtr, path, level)?;
        let hop = path.at(level);
        let node = self.node(mtr.bytes(page), hop.no)?;
        let plan = plan_inner_split(node, hop.slot, hop.high.is_none())
            .ok_or_else(|| self.damaged(hop.no, "an inner node that cannot be split"))?;
        let step = self.split(mtr, (parent, path.at(level + 1).slot), (page, hop), level, &plan)?;
        // This made room for a split below, which comes next.
        Ok(if matches!(step, Step::Done) { Step::Again } else { step })
    }

    /// Splits `page` as planned: the upper part of its entries moves to a new node, behind the
    /// child in `slot` of the parent. Everything that can fail comes before the first change.
    fn split<'p>(
        &'p self,
        mtr: &mut Mtr<'p>,
        (parent, slot): (PageRef, usize),
        (page, hop): (PageRef, &Hop),
        level: u8,
        plan: &SplitPlan,
    ) -> Result<Step> {
        let bad = || self.damaged(hop.no, "a node whose slots make no sense");
        let above = self.node(mtr.bytes(parent), mtr.id(parent).no)?;
        let prefix = above.prefix().ok_or_else(bad)?;
        let suffix = plan.separator.strip_prefix(prefix);
        let suffix = suffix.ok_or_else(|| self.damaged(hop.no, "a key outside its range"))?;
        if !above.can_insert(slot + 1, suffix.len(), size_of::<u32>(), false) {
            return Ok(Step::ParentFull);
        }
        // The child's number is not known yet, and of no importance here.
        let link = PageOp::InsertAt { slot: slot as u16 + 1, suffix, payload: &[0; 4] };
        if !mtr.spares_neighbours(parent, &link) {
            return Err(self.damaged(mtr.id(parent).no, OVER_ANOTHER));
        }
        let separator = Some(plan.separator.as_slice());
        let right_prefix = fence_prefix_len(separator, hop.high.as_deref());
        let left_prefix = fence_prefix_len(hop.low.as_deref(), separator);
        let node = self.node(mtr.bytes(page), hop.no)?;
        let right_prefix = &plan.separator[..right_prefix];
        let mut entries = EntryList::new();
        entries.push_from(node, plan.at, node.count().ok_or_else(bad)?, right_prefix, None).ok_or_else(bad)?;
        let keep = PageOp::Rebuild { from: 0, to: plan.at as u16, prefix_len: left_prefix as u16 };
        if !keep.check(mtr.bytes(page)) || !entries.suits_node(level, right_prefix.len(), self.page_size()) {
            return Err(
                self.damaged(hop.no, "its keys are not in order, or outside the range that its parents give it")
            );
        }
        let new = self.alloc_new(mtr, hop.no)?;
        let new_no = mtr.id(new).no;
        mtr.apply(new, &PageOp::InitNode { index: self.index, level })?;
        mtr.apply(new, &entries.as_content(right_prefix))?;
        mtr.apply(page, &keep)?;
        let child = new_no.0.to_le_bytes();
        mtr.apply(parent, &PageOp::InsertAt { slot: slot as u16 + 1, suffix, payload: &child })?;
        self.count(Counter::IndexPageSplits);
        Ok(Step::Done)
    }

    /// Moves the root's content into a new node, the root's only child: the tree is one level
    /// higher.
    fn push_down_root<'p>(&'p self, mtr: &mut Mtr<'p>, level: u8, key: &[u8], payload_len: usize) -> Result<Step> {
        let page = self.latch_node(mtr, self.root, level)?;
        let root = self.node(mtr.bytes(page), self.root)?;
        if level == 0 && self.has_room(root, self.root, key, payload_len)? {
            return Ok(Step::Done);
        }
        if level + 1 >= LEVELS_MAX {
            return Err(self.damaged(self.root, "a tree with too many levels"));
        }
        let bad = || self.damaged(self.root, "a root whose slots make no sense");
        let mut entries = EntryList::new();
        entries.push_from(root, 0, root.count().ok_or_else(bad)?, &[], None).ok_or_else(bad)?;
        if !entries.suits_node(level, 0, self.page_size()) {
            return Err(self.damaged(self.root, "its keys are not in order"));
        }
        let new = self.alloc_new(mtr, self.root)?;
        let mut only = EntryList::new();
        only.push(&[], &mtr.id(new).no.0.to_le_bytes());
        mtr.apply(new, &PageOp::InitNode { index: self.index, level })?;
        mtr.apply(new, &entries.as_content(&[]))?;
        mtr.apply(page, &PageOp::InitNode { index: self.index, level: level + 1 })?;
        mtr.apply(page, &only.as_content(&[]))?;
        self.count(Counter::IndexPageSplits);
        Ok(Step::Again)
    }
}
