//! Frees the chain of a large value part by part: others can have the purge mutex between two of
//! them.
//!
//! # Protocol
//! 1. A chain of a few pages is freed at once, behind the record or the entry of the version tree
//!    that led to it. So is the rest of a longer one, when it has become that short.
//! 2. Until then the record, or the entry, stays. One mini-transaction gives the first pages back
//!    and makes the record, or the entry, refer to those behind them. What is left is a chain like
//!    any other, for the next slice of purge and behind a crash: no page is lost or freed twice.
//! 3. Before its first part goes, all of the chain is looked at, as many pages at a time: a damaged
//!    link may lead into the chain of another row. What has been looked at is known in memory; the
//!    next run looks again. If it is not the chain, all of it is lost.
//! 4. A chain that other versions share is not freed: the reference is given up, as ever.
//! 5. A page that the system does not return may never come back. Purge does not wait for it: the
//!    chain is given up at once, as a short one is, and lost if the page is not returned then
//!    either. Nor does purge, which gives room back, wait for room: an entry that is spilled to a
//!    chain of the undo space is written anew for each part. Where the disk is too full for that,
//!    the chain is freed at once, too.
//!
//! No reader needs what is changed so: no view sees the version.
//!
//! # Lock order
//! page latches: the undo page, or the leaf of the version tree, before allocation pages of the
//! table.

use holdfast_base::{PageNo, Result, RollPtr};
use holdfast_pool::Access;
use holdfast_tree::op::PageOp;
use holdfast_tree::overflow::{self, Proof};
use holdfast_tree::{FREE_BYTES, FREE_FRAMES};
use holdfast_wal::SpaceClass;

use crate::entry::index::TableIndex;
use crate::entry::values;
use crate::purge::purger::Purger;
use crate::purge::versions::Entry;
use crate::undo::space::SMALL_MTR;
use crate::undo::{UndoLog, UndoPage, UndoRecord};

/// What became of a chain that a record, or an entry, leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing: all of it is to be freed behind what leads to it. It is short, or cannot be read.
    None,
    /// A part of it was looked at.
    Looked,
    /// The first part was freed, and what leads to it leads to the rest.
    Freed,
}

/// What is to be freed of a long chain.
enum FirstPart {
    None,
    /// There is more to be looked at before.
    Later,
    /// These pages; the payload of the version that refers to the rest, and what is known of that.
    Pages(Vec<PageNo>, Vec<u8>, Proof),
}

impl Purger {
    /// Frees the first part of the chain that the prior image of `record`, the last one of `log`,
    /// refers to, if that is long.
    pub(crate) fn free_part_of_record(
        &self,
        log: &mut UndoLog,
        roll: RollPtr,
        record: &UndoRecord<'_>,
        index: &TableIndex,
        acc: &Access<'_>,
    ) -> Result<Part> {
        let (pages, prior, proof) = match self.first_part(index, record.prior, acc)? {
            FirstPart::None => return Ok(Part::None),
            FirstPart::Later => return Ok(Part::Looked),
            FirstPart::Pages(pages, prior, proof) => (pages, prior, proof),
        };
        let shorter = UndoRecord { prior: Some(&prior), ..*record };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        record.encode(&mut old);
        shorter.encode(&mut new);
        debug_assert_eq!(old.len(), new.len(), "a reference has always the same length");
        let bytes = SMALL_MTR + new.len() + pages.len() * FREE_BYTES;
        let ticket = self.store.reserve(bytes, SpaceClass::Rollback)?;
        let _frames = self.store.pool().reserve_frames(FREE_FRAMES + 1, acc)?;
        let mut mtr = self.store.begin(ticket, acc);
        let page = self.undo.fix(&mut mtr, roll.page())?;
        let slot = roll.offset() as u16;
        let offset = UndoPage::new(mtr.bytes(page))
            .filter(|undo| undo.owner() == log.txn())
            .filter(|undo| undo.record(slot) == Some(&old[..]))
            .and_then(|undo| undo.offset(slot))
            .ok_or_else(|| self.undo.damaged(roll.page()))?;
        // All that can fail comes before the first change.
        index.tree().space().free_unlatched(&mut mtr, &pages)?;
        mtr.apply(page, &PageOp::WriteBytes { offset, bytes: &new })?;
        mtr.commit()?;
        let page_size = self.undo.page_size();
        log.uncount_chain(record.prior_pages(page_size).saturating_sub(shorter.prior_pages(page_size)));
        self.proofs.put(index.id(), proof);
        Ok(Part::Freed)
    }

    /// The same for the image of an entry of the version tree, which is there under `key` with
    /// `value`. If a part was freed, the caller frees the chain that the entry was spilled to,
    /// afterwards.
    pub(crate) fn free_part_of_entry(
        &self,
        key: &[u8],
        value: &[u8],
        entry: &Entry,
        index: &TableIndex,
        acc: &Access<'_>,
    ) -> Result<Part> {
        let (pages, image, proof) = match self.first_part(index, entry.image.as_deref(), acc)? {
            FirstPart::None => return Ok(Part::None),
            FirstPart::Later => return Ok(Part::Looked),
            FirstPart::Pages(pages, image, proof) => (pages, image, proof),
        };
        let shorter = Entry { image: Some(image), key: entry.key.clone(), ..*entry };
        if !self.versions.replace(key, value, &shorter, index.tree().space(), &pages, acc)? {
            return Ok(Part::None);
        }
        self.proofs.put(index.id(), proof);
        Ok(Part::Freed)
    }

    /// What is to be freed first of the chain that a version refers to; looks at more of it, if
    /// that has to be done before.
    fn first_part(&self, index: &TableIndex, payload: Option<&[u8]>, acc: &Access<'_>) -> Result<FirstPart> {
        let (id, file) = (index.id(), index.tree().space());
        let Some((payload, chain)) = payload.and_then(|p| Some((p, values::chain_of(p)?))) else {
            return Ok(FirstPart::None);
        };
        let mut proof = self.proofs.take(id, chain);
        if !overflow::goes_in_parts(file, chain, acc)? {
            return Ok(FirstPart::None);
        }
        if !proof.is_whole() {
            proof.look_on(file, id, acc)?;
            self.proofs.put(id, proof);
            return Ok(FirstPart::Later);
        }
        let (pages, rest) = overflow::first_part(file, id, chain, acc)?;
        let shorter = values::refer_to(payload, rest);
        Ok(shorter.map_or(FirstPart::None, |shorter| FirstPart::Pages(pages, shorter, proof.without_first(rest))))
    }

    /// Gives up the reference of a version, to which nothing leads any more. Damage in its table is
    /// reported, and costs the pages. Returns whether no other version refers to them.
    pub(crate) fn release(&self, index: &TableIndex, body: &[u8], acc: &Access<'_>) -> Result<bool> {
        let released = values::release(index.tree().space(), index.id(), body, acc);
        if let Err(error) = &released
            && error.is_damage()
        {
            self.background.failed(error.clone());
        }
        Ok(index.unless_damaged(released)?.unwrap_or(true))
    }
}

/// What became of the chain, if nothing stood in the way that purge has to wait for. A chain that
/// cannot be read is freed, or lost, behind what leads to it.
///
/// # Errors
/// The errors of `freed` that purge has to wait for.
pub(crate) fn unless_unread(index: &TableIndex, freed: Result<Part>) -> Result<Part> {
    match freed {
        Err(error) if error.is_unread() => Ok(Part::None),
        freed => Ok(index.unless_damaged(freed)?.unwrap_or(Part::None)),
    }
}
