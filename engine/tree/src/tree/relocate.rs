//! Moving nodes to the front of the file, so that its end becomes free and can be cut off.

use holdfast_base::{PageNo, Result};
use holdfast_pool::{Access, Reserved};
use holdfast_wal::{SpaceClass, SpaceTicket};

use super::{STRUCTURE_FRAMES, Tree};
use crate::finding::PageSet;
use crate::node::{EntryList, LEVELS_MAX};
use crate::op::PageOp;

impl Tree {
    /// Moves the node in page `no` to the lowest free page, if there is one before it. Returns the
    /// new page. `None` if there is no such page, or `no` is the root, or is not (any more) a node
    /// of this tree.
    ///
    /// # Errors
    /// Damage; the errors of the log and of reading pages.
    pub fn relocate_page(&self, no: PageNo, acc: &Access<'_>) -> Result<Option<PageNo>> {
        if no == self.root {
            return Ok(None);
        }
        let ticket = self.store().reserve(2 * self.page_size(), SpaceClass::User)?;
        let frames = self.store().pool().reserve_frames(STRUCTURE_FRAMES, acc)?;
        self.relocate(no, acc, ticket, &frames)
    }

    fn relocate(
        &self,
        no: PageNo,
        acc: &Access<'_>,
        ticket: SpaceTicket<'_>,
        frames: &Reserved<'_>,
    ) -> Result<Option<PageNo>> {
        let _structure = self.lock_structure();
        let Some((level, parent_no, slot)) = self.place_of(no, acc)? else { return Ok(None) };
        self.space.refill_below(frames, acc)?;
        let mut mtr = self.store().begin(ticket, acc);
        let parent = self.latch_node(&mut mtr, parent_no, level + 1)?;
        let page = self.latch_node(&mut mtr, no, level)?;
        let node = self.node(mtr.bytes(page), no)?;
        let bad = || self.damaged(no, "a node whose slots make no sense");
        let prefix = node.prefix().ok_or_else(bad)?.to_vec();
        let mut entries = EntryList::new();
        entries.push_from(node, 0, node.count().ok_or_else(bad)?, &prefix, None).ok_or_else(bad)?;
        if !entries.suits_node(level, prefix.len(), self.page_size()) {
            return Err(self.damaged(no, "its keys are not in order"));
        }
        let Some(new) = self.space.plan_new_below(&mut mtr, no)? else { return Ok(None) };
        let old = self.space.plan_free(&mut mtr, no)?;
        let (new_page, new_no) = (new.page(0), mtr.id(new.page(0)).no);
        let child = new_no.0.to_le_bytes();
        let link = PageOp::ReplaceAt { slot: slot as u16, payload: &child };
        if !mtr.can_apply(parent, &link) {
            return Err(self.damaged(parent_no, "a node whose slots make no sense"));
        }
        self.space.take(&mut mtr, new)?;
        mtr.apply(page, &PageOp::FreePage)?;
        self.space.give_back(&mut mtr, &old)?;
        mtr.apply(new_page, &PageOp::InitNode { index: self.index, level })?;
        mtr.apply(new_page, &entries.as_content(&prefix))?;
        mtr.apply(parent, &link)?;
        mtr.commit()?;
        Ok(Some(new_no))
    }

    /// The level of the node in page `no`, its parent, and its slot there; `None` if the page is no
    /// node of this tree that has a parent.
    fn place_of(&self, no: PageNo, acc: &Access<'_>) -> Result<Option<(u8, PageNo, usize)>> {
        let page = self.store().pool().fix_shared(self.space.space(), no, acc)?;
        let Ok(node) = self.node(&page, no) else { return Ok(None) };
        let Some(level) = node.level() else { return Ok(None) };
        let slot = usize::from(level > 0);
        let key = if node.count().is_some_and(|count| count > slot) { node.key(slot) } else { None };
        drop(page);
        let Some(key) = key else {
            let stays = holdfast_base::planted!("nodes-without-a-key-stay");
            return if stays { Ok(None) } else { self.search_parent(no, level, acc) };
        };
        let path = self.path(&key, level, acc)?;
        if path.root_level() <= level || path.at(level).no != no {
            return Ok(None);
        }
        let above = path.at(level + 1);
        Ok(Some((level, above.no, above.slot)))
    }

    /// The same for a node without a key by which it could be found, an empty leaf or an inner node
    /// with one child: reads all nodes above its level. Such nodes are few.
    fn search_parent(&self, no: PageNo, level: u8, acc: &Access<'_>) -> Result<Option<(u8, PageNo, usize)>> {
        let (mut seen, mut todo) = (PageSet::new(), vec![(self.root, LEVELS_MAX)]);
        while let Some((at, below)) = todo.pop() {
            let page = self.store().pool().fix_shared(self.space.space(), at, acc)?;
            let node = self.node(&page, at)?;
            let bad = || self.damaged(at, "a node whose slots make no sense");
            let here = node.level().filter(|&here| here < below).ok_or_else(bad)?;
            if here <= level || !seen.insert(at) {
                continue;
            }
            for slot in 0..node.count().ok_or_else(bad)? {
                let child = node.child(slot).ok_or_else(bad)?;
                if here > level + 1 {
                    todo.push((child, here));
                } else if child == no {
                    return Ok(Some((level, at, slot)));
                }
            }
        }
        Ok(None)
    }
}
