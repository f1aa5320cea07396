//! Moving nodes to the front of the file, so that its end becomes free and can be cut off.

use holdfast_base::{PageNo, Result};
use holdfast_pool::Access;
use holdfast_wal::SpaceClass;

use super::{STRUCTURE_FRAMES, Tree};
use crate::node::EntryList;
use crate::op::PageOp;

/// Levels that are reserved for; a higher tree than this is not compacted.
const HEIGHT: usize = 8;

impl Tree {
    /// Moves the node in page `no` to the lowest free page, if there is one before it. Returns the new page; `None` if
    /// there is none, or `no` is not (any more) a node of this tree that can be found by a key, or the root.
    ///
    /// # Errors
    /// Damage; those of the log and of reading pages.
    pub fn relocate_page(&self, no: PageNo, acc: &Access<'_>) -> Result<Option<PageNo>> {
        if no == self.root {
            return Ok(None);
        }
        let ticket = self.store().reserve(2 * self.page_size(), SpaceClass::User)?;
        self.store().pool().reserve_frames(STRUCTURE_FRAMES + HEIGHT, acc)?;
        let moved = self.relocate(no, acc, ticket);
        acc.release_frames();
        moved
    }

    fn relocate(&self, no: PageNo, acc: &Access<'_>, ticket: holdfast_wal::SpaceTicket<'_>) -> Result<Option<PageNo>> {
        let _structure = self.lock_structure();
        let space = self.space.space();
        let Some((level, key)) = self.first_key(no, acc)? else { return Ok(None) };
        let path = self.path(&key, level, acc)?;
        if path.root_level() <= level || path.at(level).no != no {
            return Ok(None);
        }
        let mut mtr = self.store().begin(ticket, acc);
        let (parent, page) = self.latch_pair(&mut mtr, &path, level)?;
        let node = self.node(mtr.bytes(page), no)?;
        let bad = || self.damaged(no, "a node whose slots make no sense");
        let prefix = node.prefix().ok_or_else(bad)?.to_vec();
        let mut entries = EntryList::new();
        entries.push_from(node, 0, node.count().ok_or_else(bad)?, prefix.len(), None).ok_or_else(bad)?;
        let Some(new) = self.space.alloc_new_below(&mut mtr, no)? else { return Ok(None) };
        let new_no = mtr.id(new).no;
        self.space.free_latched(&mut mtr, page)?;
        mtr.apply(new, &PageOp::InitNode { index: self.index, level })?;
        mtr.apply(new, &entries.as_content(&prefix))?;
        let slot = path.at(level + 1).slot as u16;
        mtr.apply(parent, &PageOp::ReplaceAt { slot, payload: &new_no.0.to_le_bytes() })?;
        mtr.commit()?;
        debug_assert_eq!(space.id(), self.space.id());
        Ok(Some(new_no))
    }

    /// Level and some key of a node of this tree; `None` if the page is not one, or has no key to find it by.
    fn first_key(&self, no: PageNo, acc: &Access<'_>) -> Result<Option<(u8, Vec<u8>)>> {
        let page = self.store().pool().fix_shared(self.space.space(), no, acc)?;
        let Ok(node) = self.node(&page, no) else { return Ok(None) };
        let Some(level) = node.level() else { return Ok(None) };
        let slot = usize::from(level > 0);
        if node.count().is_none_or(|count| count <= slot) {
            return Ok(None);
        }
        Ok(node.key(slot).map(|key| (level, key)))
    }
}
