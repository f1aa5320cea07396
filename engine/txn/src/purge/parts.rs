//! Frees the chain of a large value part by part: others can have the purge mutex between two of
//! them.
//!
//! # Protocol
//! 1. A chain of a few pages is freed at once, behind the record or the entry of the version tree
//!    that led to it. So is the rest of a longer one, when it has become that short.
//! 2. Until then the record, or the entry, stays. One mini-transaction gives the first pages back
//!    and makes the record, or the entry, refer to those behind them. What is left is a chain like
//!    any other, for the next slice of purge and behind a crash: no page is lost or freed twice.
//! 3. A chain that other versions share is not freed: the reference is given up, as ever.
//! 4. A page that the system does not return may never come back. Purge does not wait for it: the
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
use holdfast_tree::{FREE_BYTES, FREE_FRAMES, overflow};
use holdfast_wal::SpaceClass;

use crate::entry::index::TableIndex;
use crate::entry::values;
use crate::purge::purger::Purger;
use crate::purge::versions::Entry;
use crate::undo::space::SMALL_MTR;
use crate::undo::{UndoLog, UndoPage, UndoRecord};

impl Purger {
    /// Frees the first part of the chain that the prior image of `record`, the last one of `log`,
    /// refers to, if that is long. Returns whether it was: then the record refers to the rest.
    pub(crate) fn free_part_of_record(
        &self,
        log: &mut UndoLog,
        roll: RollPtr,
        record: &UndoRecord<'_>,
        index: &TableIndex,
        acc: &Access<'_>,
    ) -> Result<bool> {
        let part = record.prior.map_or(Ok(None), |prior| first_part(index, prior, acc))?;
        let Some((pages, prior)) = part else { return Ok(false) };
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
        log.let_chain_go(record.chain_pages(page_size).saturating_sub(shorter.chain_pages(page_size)));
        Ok(true)
    }

    /// The same for the image of an entry of the version tree, which is there under `key` with
    /// `value`. If it was, the caller frees the chain that the entry was spilled to, afterwards.
    pub(crate) fn free_part_of_entry(
        &self,
        key: &[u8],
        value: &[u8],
        entry: &Entry,
        index: &TableIndex,
        acc: &Access<'_>,
    ) -> Result<bool> {
        let part = entry.image.as_deref().map_or(Ok(None), |image| first_part(index, image, acc))?;
        let Some((pages, image)) = part else { return Ok(false) };
        let shorter = Entry { image: Some(image), key: entry.key.clone(), ..*entry };
        self.versions.replace(key, value, &shorter, index.tree().space(), &pages, acc)
    }
}

/// Whether a part of a long chain was `freed`, so that the record, or the entry, leads to the rest.
/// If not, all of it is to be freed behind these: it is short, or a page of it cannot be read.
///
/// # Errors
/// Those of `freed` that purge has to wait for.
pub(crate) fn is_freed(index: &TableIndex, freed: Result<bool>) -> Result<bool> {
    match freed {
        Err(error) if error.is_unread() => Ok(false),
        freed => Ok(index.unless_damaged(freed)? == Some(true)),
    }
}

/// The pages to be given back first of the long chain that a version refers to, and the payload of
/// the version that refers to the rest of it.
fn first_part(index: &TableIndex, payload: &[u8], acc: &Access<'_>) -> Result<Option<(Vec<PageNo>, Vec<u8>)>> {
    let Some(chain) = values::chain_of(payload) else { return Ok(None) };
    let part = overflow::first_part(index.tree().space(), index.id(), chain, acc)?;
    Ok(part.and_then(|(pages, rest)| Some((pages, values::refer_to(payload, rest)?))))
}
