//! Changes of one entry. The common case latches one leaf. A leaf without room is split first; a
//! leaf that has become nearly empty is merged afterwards.

use holdfast_base::{Error, Lsn, Result};
use holdfast_pool::{Access, ExclusiveGuard};
use holdfast_wal::{SpaceClass, SpaceTicket};

use super::Tree;
use super::descend::ForKey;
use crate::node::{Found, NodeRef, body_len, common_prefix_len, payload_len_max};
use crate::op::PageOp;
use crate::store::Store;

/// What to do with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave everything as it is.
    Keep,
    /// Insert the entry, or give it this payload.
    Put(Vec<u8>),
    /// Remove the entry, if it exists.
    Remove,
}

/// Shares of the body, as divisors. When a leaf sinks below one of them, a merge with a neighbour
/// is tried. There are several, so that a merge that was not possible is tried again later, but not
/// with every removal.
const MERGE_BELOW: [usize; 3] = [4, 16, 64];
/// A patch is logged instead of the whole payload if it saves at least so many bytes.
const PATCH_SAVES_MIN: usize = 8;
/// What is wrong with a node in which a change would write into another record than its own.
pub(super) const OVER_ANOTHER: &str = "a node whose records lie over each other";

/// What became of a change under the leaf's latch.
enum Outcome {
    Done { end: Option<Lsn>, sank: bool },
    NoRoom { payload_len: usize },
}

impl Tree {
    /// Finds `key`, shows its payload (or that there is none) to `decide`, and does what `decide`
    /// returns. `decide` runs under the exclusive latch of the leaf, so the key cannot change in
    /// between. It must be quick and must not fix pages, and may run again if the leaf had to be
    /// split first. Returns the end of the change in the log, `None` if nothing was changed.
    ///
    /// # Errors
    /// Errors of `decide`; [`Error::KeyTooLong`]; [`Error::ValueTooLong`] beyond
    /// [`payload_len_max`]; [`Error::DiskFull`], damage, errors of the log. Nothing has changed
    /// then.
    pub fn modify(
        &self,
        key: &[u8],
        acc: &Access<'_>,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Result<Action>,
    ) -> Result<Option<Lsn>> {
        self.modify_as(Store::class_of(acc), key, acc, decide)
    }

    /// As [`Tree::modify`], with log space of the given class: rollback and purge may use a reserve
    /// that users may not.
    ///
    /// # Errors
    /// The errors of [`Tree::modify`].
    pub fn modify_as(
        &self,
        class: SpaceClass,
        key: &[u8],
        acc: &Access<'_>,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Result<Action>,
    ) -> Result<Option<Lsn>> {
        self.check_key(key)?;
        loop {
            let ticket = self.store().reserve(self.page_size() / 2 + 64, class)?;
            let leaf = self.latch_leaf(&mut ForKey(key), acc)?;
            match self.change(leaf, ticket, key, acc, decide)? {
                Outcome::Done { end, sank } => {
                    if sank {
                        // The removal is complete and logged. The caller could do nothing about a
                        // merge that failed: a later removal tries again, or `shrink_if_empty`.
                        let _ = self.merge_at(key, acc, class);
                    }
                    return Ok(end);
                }
                Outcome::NoRoom { payload_len } => self.make_room(key, payload_len, acc, class)?,
            }
        }
    }

    fn change(
        &self,
        leaf: ExclusiveGuard<'_>,
        ticket: SpaceTicket<'_>,
        key: &[u8],
        acc: &Access<'_>,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Result<Action>,
    ) -> Result<Outcome> {
        let no = leaf.id().no;
        let node = self.node(leaf.bytes(), no)?;
        let bad = || self.damaged(no, "a leaf whose slots make no sense");
        let found = node.search(key).ok_or_else(bad)?;
        let old = if found.exact { Some(node.payload(found.slot).ok_or_else(bad)?) } else { None };
        let nothing = Ok(Outcome::Done { end: None, sank: false });
        let payload = match decide(old)? {
            Action::Keep => return nothing,
            Action::Remove => match old {
                Some(_) => None,
                None => return nothing,
            },
            Action::Put(payload) => Some(payload),
        };
        let max = payload_len_max(self.page_size(), key.len());
        if let Some(payload) = &payload
            && payload.len() > max
        {
            return Err(Error::ValueTooLong { len: payload.len() as u64, max: max as u64 });
        }
        let op = change_op(node, key, found, old, payload.as_deref()).ok_or_else(bad)?;
        if !op.spares_neighbours(&leaf) {
            return Err(self.damaged(no, OVER_ANOTHER));
        }
        if !op.is_welcome(leaf.bytes()) {
            return payload.map(|p| Outcome::NoRoom { payload_len: p.len() }).ok_or_else(bad);
        }
        let before = node.used_space().ok_or_else(bad)?;
        let mut mtr = self.store().begin(ticket, acc);
        let page = mtr.adopt(leaf);
        mtr.apply_checked(page, &op);
        let after = NodeRef::assume(mtr.bytes(page)).used_space().unwrap_or(before);
        let emptied = NodeRef::assume(mtr.bytes(page)).count() == Some(0);
        let end = mtr.commit()?;
        let sank = no != self.root && (emptied || sinks(before, after, body_len(self.page_size())));
        Ok(Outcome::Done { end: Some(end), sank })
    }
}

/// True if a node that shrinks from `before` to `after` bytes passes one of the marks.
pub(super) fn sinks(before: usize, after: usize, body: usize) -> bool {
    MERGE_BELOW.iter().any(|divisor| before >= body / divisor && after < body / divisor)
}

/// The operation that gives `key` its new payload, or takes it away. `None` if the node is damaged:
/// one whose prefix is not the key's would keep the entry under another key.
pub(super) fn change_op<'a>(
    node: NodeRef<'_, [u8]>,
    key: &'a [u8],
    found: Found,
    old: Option<&[u8]>,
    new: Option<&'a [u8]>,
) -> Option<PageOp<'a>> {
    let slot = u16::try_from(found.slot).ok()?;
    Some(match (old, new) {
        (_, None) => PageOp::RemoveAt { slot },
        (None, Some(payload)) => PageOp::InsertAt { slot, suffix: key.strip_prefix(node.prefix()?)?, payload },
        (Some(old), Some(payload)) => match difference(old, payload) {
            Some((offset, bytes)) => PageOp::Patch { slot, offset, bytes },
            None => PageOp::ReplaceAt { slot, payload },
        },
    })
}

/// The bytes of `new` that differ from `old`, and their offset, if it pays to log them alone.
fn difference<'a>(old: &[u8], new: &'a [u8]) -> Option<(u16, &'a [u8])> {
    if old.len() != new.len() {
        return None;
    }
    let front = common_prefix_len(old, new);
    let back = old[front..].iter().rev().zip(new[front..].iter().rev()).take_while(|(a, b)| a == b).count();
    (front + back >= PATCH_SAVES_MIN).then_some((front as u16, &new[front..new.len() - back]))
}
