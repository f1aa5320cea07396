//! Merges: a node that has become nearly empty is merged with a neighbour under the same parent, if
//! both fit into one with room to spare; the parent may follow. A root with one child takes over
//! the content of that child. As with splits, one level per mini-transaction.

use std::ops::Bound;

use holdfast_base::Result;
use holdfast_metrics::Counter;
use holdfast_pool::{Access, Reserved};
use holdfast_wal::{SpaceClass, SpaceTicket};

use super::path::Path;
use super::{Direction, STRUCTURE_FRAMES, Tree};
use crate::mtr::{Mtr, PageRef};
use crate::node::{EntryList, body_len, fence_prefix_len, merged_size};
use crate::op::PageOp;

/// A node is worth merging below this share of the body.
const UNDERFULL_DIV: usize = 4;
/// Two nodes are merged if the result takes at most this share (of 16) of the body, so that the
/// next inserts do not split it again.
const MERGED_MAX_16THS: usize = 13;

/// What a step came to.
enum Step {
    /// The level was merged: the parent may be next.
    Merged,
    /// Nothing to do on this level.
    Nothing,
    /// The node has no neighbour under its parent: the parent has to be merged first.
    Alone,
}

/// Two neighbours and what they would become.
struct Pair {
    left: PageRef,
    right: PageRef,
    /// Slot of the right one in the parent.
    right_slot: usize,
    content: EntryList,
    prefix: Vec<u8>,
}

impl Tree {
    /// Gives back all nodes but the root if the tree has no entry. The removals have done so, but
    /// for those whose merge met an error: a merge that failed is made up for by a later removal,
    /// and behind the last one there is none.
    ///
    /// # Errors
    /// Damage; the errors of the log and of reading pages. What was merged until then stays so.
    pub fn shrink_if_empty(&self, acc: &Access<'_>, class: SpaceClass) -> Result<()> {
        let page = self.store().pool().fix_shared(self.space.space(), self.root, acc)?;
        let is_leaf = self.node(&page, self.root)?.level() == Some(0);
        drop(page);
        if is_leaf {
            return Ok(());
        }
        let mut cursor = self.cursor(acc);
        cursor.seek(Bound::Unbounded, Direction::Forward);
        if cursor.next()?.is_some() {
            return Ok(());
        }
        // Long keys may keep a node apart until the one beside it has few children, too.
        while self.merge_each_leaf(acc, class)? {}
        Ok(())
    }

    /// Merges each leaf that is nearly empty, from the first on. Returns whether any was.
    fn merge_each_leaf(&self, acc: &Access<'_>, class: SpaceClass) -> Result<bool> {
        let (mut key, mut merged) = (Vec::new(), false);
        loop {
            merged |= self.merge_at(&key, acc, class)?;
            let _structure = self.lock_structure();
            let path = self.path(&key, 0, acc)?;
            let leaf = path.at(0);
            let Some(high) = leaf.high.clone() else { return Ok(merged) };
            if high <= key {
                return Err(self.damaged(leaf.no, "a leaf whose range ends before it begins"));
            }
            key = high;
        }
    }

    /// Merges the leaf that `key` belongs to with a neighbour, if that leaf is nearly empty, and
    /// then each node above that has become nearly empty. Behind a merge of inner nodes the nodes
    /// below have neighbours that they did not have, and come first. A leaf that is merged is
    /// looked at again: its neighbour on the other side may be one that did not fit in before.
    /// Returns whether any was merged.
    pub(super) fn merge_at(&self, key: &[u8], acc: &Access<'_>, class: SpaceClass) -> Result<bool> {
        let (mut level, mut above) = (0, 0);
        loop {
            let ticket = self.store().reserve(2 * self.page_size(), class)?;
            let frames = self.store().pool().reserve_frames(STRUCTURE_FRAMES, acc)?;
            match self.merge_step(key, level, acc, ticket, &frames)? {
                Some(merged) => {
                    above = above.max(merged + 1);
                    level = merged.saturating_sub(1);
                }
                None if level < above => level += 1,
                None => return Ok(above > 0),
            }
        }
    }

    /// One mini-transaction. Returns the level that it has merged, if any.
    fn merge_step(
        &self,
        key: &[u8],
        level: u8,
        acc: &Access<'_>,
        ticket: SpaceTicket<'_>,
        frames: &Reserved<'_>,
    ) -> Result<Option<u8>> {
        let _structure = self.lock_structure();
        let path = self.path(key, 0, acc)?;
        let root_level = path.root_level();
        let (mut ticket, mut level) = (ticket, level);
        loop {
            frames.refill()?;
            let mut mtr = self.store().begin(ticket, acc);
            if level >= root_level {
                let lower = self.lower_root(&mut mtr, &path)?;
                mtr.commit()?;
                return Ok(lower.then(|| root_level - 1));
            }
            match self.merge_level(&mut mtr, &path, level)? {
                Step::Merged => {
                    mtr.commit()?;
                    return Ok(Some(level));
                }
                Step::Nothing => return Ok(None),
                Step::Alone => {
                    ticket = mtr.give_up();
                    level += 1;
                }
            }
        }
    }

    fn merge_level<'p>(&'p self, mtr: &mut Mtr<'p>, path: &Path, level: u8) -> Result<Step> {
        let above = path.at(level + 1);
        if above.count < 2 {
            return Ok(Step::Alone);
        }
        let parent = self.latch_node(mtr, above.no, level + 1)?;
        for left_slot in [above.slot, above.slot.wrapping_sub(1)] {
            if left_slot >= above.count - 1 {
                continue;
            }
            if let Some(pair) = self.pair(mtr, path, level, parent, left_slot)? {
                self.merge(mtr, parent, pair)?;
                return Ok(Step::Merged);
            }
        }
        Ok(Step::Nothing)
    }

    /// Latches the child in `left_slot` and the one behind it, left before right, and plans their
    /// merge. `None`: the node on the path is not nearly empty (any more), or they do not fit into
    /// one.
    fn pair<'p>(
        &'p self,
        mtr: &mut Mtr<'p>,
        path: &Path,
        level: u8,
        parent: PageRef,
        left_slot: usize,
    ) -> Result<Option<Pair>> {
        let above = path.at(level + 1);
        let (left_no, right_no, separator, low, high) = {
            let node = self.node(mtr.bytes(parent), above.no)?;
            let bad = || self.damaged(above.no, "a node whose slots make no sense");
            let key = |slot| node.key(slot).ok_or_else(bad);
            let low = if left_slot > 0 { Some(key(left_slot)?) } else { above.low.clone() };
            let high = if left_slot + 2 < above.count { Some(key(left_slot + 2)?) } else { above.high.clone() };
            let child = |slot| node.child(slot).ok_or_else(bad);
            (child(left_slot)?, child(left_slot + 1)?, key(left_slot + 1)?, low, high)
        };
        // A second try finds one of the two latched already; only a new one further left could
        // break the order, and no other thread latches two nodes of one level: the structure mutex
        // is held.
        if left_no == right_no {
            return Err(self.damaged(above.no, "a node with the same child twice"));
        }
        let left = self.latch_node(mtr, left_no, level)?;
        let right = self.latch_node(mtr, right_no, level)?;
        let (a, b) = (self.node(mtr.bytes(left), left_no)?, self.node(mtr.bytes(right), right_no)?);
        let bad = || self.damaged(left_no, "a node whose slots make no sense");
        let own = if path.at(level).no == left_no { a } else { b };
        let body = body_len(self.page_size());
        let own_used = own.used_space().ok_or_else(bad)?;
        let lonely = level > 0 && own.count() == Some(1);
        if own_used >= body / UNDERFULL_DIV && !lonely {
            return Ok(None);
        }
        let prefix_len = fence_prefix_len(low.as_deref(), high.as_deref())
            .min(a.prefix_len().ok_or_else(bad)?)
            .min(b.prefix_len().ok_or_else(bad)?);
        let size = merged_size(a, b, &separator, prefix_len).ok_or_else(bad)?;
        let empty = a.count() == Some(0) || b.count() == Some(0);
        if size > body || size > body * MERGED_MAX_16THS / 16 && !empty && !lonely {
            return Ok(None);
        }
        let prefix = separator.get(..prefix_len).ok_or_else(bad)?.to_vec();
        let mut content = EntryList::new();
        content.push_from(a, 0, a.count().ok_or_else(bad)?, &prefix, None).ok_or_else(bad)?;
        let first = Some(separator.as_slice());
        content.push_from(b, 0, b.count().ok_or_else(bad)?, &prefix, first).ok_or_else(bad)?;
        Ok(Some(Pair { left, right, right_slot: left_slot + 1, content, prefix }))
    }

    fn merge<'p>(&'p self, mtr: &mut Mtr<'p>, parent: PageRef, pair: Pair) -> Result<()> {
        let content = pair.content.as_content(&pair.prefix);
        let remove = PageOp::RemoveAt { slot: pair.right_slot as u16 };
        if !mtr.can_apply(pair.left, &content) || !mtr.can_apply(parent, &remove) {
            return Err(self.damaged(mtr.id(pair.left).no, "a node that cannot take its neighbour in"));
        }
        // The page is freed first: that may find the bitmap damaged, and nothing is changed yet.
        self.space.free_latched(mtr, pair.right)?;
        mtr.apply(pair.left, &content)?;
        mtr.apply(parent, &remove)?;
        self.count(Counter::IndexPageMerges);
        Ok(())
    }

    /// If the root has one child, the root takes over its content. Returns whether it did.
    fn lower_root<'p>(&'p self, mtr: &mut Mtr<'p>, path: &Path) -> Result<bool> {
        let level = path.root_level();
        if level == 0 || path.at(level).count != 1 {
            return Ok(false);
        }
        let root = self.latch_node(mtr, self.root, level)?;
        let child_no = path.at(level - 1).no;
        let child = self.latch_node(mtr, child_no, level - 1)?;
        let node = self.node(mtr.bytes(child), child_no)?;
        let bad = || self.damaged(child_no, "a node whose slots make no sense");
        let mut content = EntryList::new();
        content.push_from(node, 0, node.count().ok_or_else(bad)?, &[], None).ok_or_else(bad)?;
        if !content.suits_node(level - 1, 0, self.page_size()) {
            return Err(self.damaged(child_no, "a node that its root cannot take in"));
        }
        self.space.free_latched(mtr, child)?;
        mtr.apply(root, &PageOp::InitNode { index: self.index, level: level - 1 })?;
        mtr.apply(root, &content.as_content(&[]))?;
        self.count(Counter::IndexPageMerges);
        Ok(true)
    }
}
