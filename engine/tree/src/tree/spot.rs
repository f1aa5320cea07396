//! Changes of an entry where it was read: one descent for the read and for the change that follows
//! it.
//!
//! A [`Spot`] remembers a leaf in the version in which it was read. As long as the leaf has that
//! version, its entries and its key range are those that were read: every node whose key range
//! changes is rewritten (see the module above). So the entry need not be read again, and the change
//! needs no descent: it latches the leaf if its version is still the same.
//!
//! The change is part of a mini-transaction of the caller's, which may have latched other pages by
//! then. Therefore nothing is loaded here and no structure is changed: for a leaf that has left the
//! pool, has changed, or has no room the caller uses [`Tree::modify`], which begins at the root
//! with nothing latched. The wait for the leaf's latch is behind shared holders only, which wait
//! for nothing.

use holdfast_base::{Error, PageNo, Result};
use holdfast_pool::{Access, PageRead};

use super::Tree;
use super::change::{OVER_ANOTHER, change_op, sinks};
use super::descend::{ForKey, LeafAt, LeafReader};
use crate::mtr::{Mtr, PageRef, PlannedPut};
use crate::node::{Found, NodeRef, body_len, payload_len_max};

/// Where a key was looked for: the leaf, its version, and the slot in it.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    leaf: LeafAt,
    found: Found,
}

impl Spot {
    /// That of the entry in `slot`.
    pub(super) fn of_entry(leaf: LeafAt, slot: usize) -> Spot {
        Spot { leaf, found: Found { slot, exact: true } }
    }

    /// The leaf.
    #[must_use]
    pub fn page(&self) -> PageNo {
        self.leaf.no
    }

    /// True if the key was there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.found.exact
    }
}

/// Copies the payload of a key, and remembers where it is.
struct GetAt<'a> {
    key: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl LeafReader for GetAt<'_> {
    type Out = Spot;

    #[inline]
    fn read<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, _: &P, leaf: LeafAt) -> Option<Spot> {
        self.out.clear();
        let found = node.search(self.key)?;
        if found.exact {
            node.payload_to(found.slot, self.out)?;
        }
        Some(Spot { leaf, found })
    }
}

impl Tree {
    /// As [`Tree::get`]; the answer says whether the key exists, and where.
    ///
    /// # Errors
    /// The errors of [`Tree::get`].
    pub fn get_at(&self, key: &[u8], acc: &Access<'_>, out: &mut Vec<u8>) -> Result<Spot> {
        self.read_leaf(&mut ForKey(key), acc, &mut GetAt { key, out })
    }

    /// As [`Tree::get_at`] for an entry that was at `seen`: if it still is, its leaf alone is read.
    ///
    /// # Errors
    /// The errors of [`Tree::get`].
    pub fn get_again(&self, key: &[u8], seen: &Spot, acc: &Access<'_>, out: &mut Vec<u8>) -> Result<Spot> {
        match self.read_where_it_was(key, seen, acc, out) {
            Some(spot) => Ok(spot),
            None => self.get_at(key, acc, out),
        }
    }

    /// `None` if the page has left the pool, or does not hold the key in that slot any more. The
    /// check needs no descent, because a key is in no other leaf than its own.
    fn read_where_it_was(&self, key: &[u8], seen: &Spot, acc: &Access<'_>, out: &mut Vec<u8>) -> Option<Spot> {
        let guard = self.store().pool().fix_optimistic(self.space.space(), seen.leaf.no, acc)?;
        let page = guard.page();
        let node = NodeRef::new(&page, self.index).filter(|node| node.is_leaf() == Some(true))?;
        if !node.is_key(seen.found.slot, key)? {
            return None;
        }
        out.clear();
        node.payload_to(seen.found.slot, out)?;
        let leaf = LeafAt { no: seen.leaf.no, stamp: guard.stamp() };
        guard.validate().then_some(Spot { leaf, found: seen.found })
    }

    /// True if the leaf is still as it was: what was read at `spot` would be read again.
    #[inline]
    #[must_use]
    pub fn is_current(&self, spot: &Spot) -> bool {
        self.store().pool().is_current(spot.leaf.stamp)
    }

    /// Latches the leaf of `spot` within `mtr`. `None` if its version has changed, or it is not in
    /// the pool.
    pub fn latch_at<'a>(&'a self, spot: &Spot, mtr: &mut Mtr<'a>) -> Option<PageRef> {
        let guard = self.store().pool().fix_optimistic(self.space.space(), spot.leaf.no, mtr.access())?;
        if guard.stamp() != spot.leaf.stamp {
            return None;
        }
        guard.upgrade().ok().map(|leaf| mtr.adopt(leaf))
    }

    /// Plans to give `key` this payload, in the leaf that [`Tree::latch_at`] has latched for the
    /// key's spot. `None` if the change needs more than this leaf. Nothing else may change the leaf
    /// before the plan is applied.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`] beyond [`payload_len_max`]; damage.
    pub fn plan_put<'v>(
        &self,
        spot: &Spot,
        mtr: &Mtr<'_>,
        page: PageRef,
        key: &'v [u8],
        payload: &'v [u8],
    ) -> Result<Option<PlannedPut<'v>>> {
        let max = payload_len_max(self.page_size(), key.len());
        if payload.len() > max {
            return Err(Error::ValueTooLong { len: payload.len() as u64, max: max as u64 });
        }
        let bytes = mtr.bytes(page);
        let node = NodeRef::assume(bytes);
        let bad = || self.damaged(spot.leaf.no, "a leaf whose slots make no sense");
        let old = if spot.exists() { Some(node.payload(spot.found.slot).ok_or_else(bad)?) } else { None };
        let op = change_op(node, key, spot.found, old, Some(payload)).ok_or_else(bad)?;
        if !mtr.spares_neighbours(page, &op) {
            return Err(self.damaged(spot.leaf.no, OVER_ANOTHER));
        }
        if !op.is_welcome(bytes) {
            return Ok(None);
        }
        if let Some(old) = old
            && payload.len() < old.len()
            && spot.leaf.no != self.root
        {
            let before = node.used_space().ok_or_else(bad)?;
            let after = before.saturating_sub(old.len() - payload.len());
            if sinks(before, after, body_len(self.page_size())) {
                return Ok(None); // The leaf is to be merged with a neighbour.
            }
        }
        Ok(Some(PlannedPut { page, op }))
    }
}
