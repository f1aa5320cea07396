//! What becomes of the delete mark of a purged change.
//!
//! A page on the way to it that the device does not return may come back, or never. Purge does not
//! wait for it: the mark is *remembered*, as one that a view needs is, by a pending entry of the
//! version tree. The records behind it, and the logs of other tables, go on. The sweep tries the
//! mark once more; then it is left to the next look at the whole tree, which the next open begins.
//! In a table with a damaged page the mark stays for good: that can only be salvaged.

use holdfast_base::{Result, RollPtr, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::Access;
use holdfast_tree::Action;
use holdfast_wal::SpaceClass;

use crate::entry::index::TableIndex;
use crate::entry::row::VersionHeader;
use crate::mvcc::sweep::Sweep;
use crate::purge::purger::Purger;
use crate::purge::versions::Entry;

/// What has become of a delete mark.
pub(crate) enum Mark {
    /// It is gone, or another version is in its place.
    Settled,
    /// A view needs it.
    Waits,
    /// The way to it cannot be read. It may be there.
    Unread,
    /// Damage of the table stands in the way.
    Damaged,
}

impl Purger {
    /// Removes the delete mark of (`txn`, `roll`) if it is there still and `removable`: no view
    /// needs to find it.
    ///
    /// # Errors
    /// Other than damage of the table, and that it cannot be read.
    pub(crate) fn try_mark(
        &self,
        index: &TableIndex,
        key: &[u8],
        txn: TxnId,
        roll: RollPtr,
        removable: bool,
        acc: &Access<'_>,
    ) -> Result<Mark> {
        match self.remove_mark(index, key, txn, roll, removable, acc) {
            Err(error) if error.is_unread() => {
                self.background.failed(error);
                Ok(Mark::Unread)
            }
            removed => Ok(match index.unless_damaged(removed)? {
                Some(true) => Mark::Waits,
                Some(false) => Mark::Settled,
                None => Mark::Damaged,
            }),
        }
    }

    /// Removes the delete mark of (`txn`, `roll`), which no view needs, or remembers it. Returns
    /// false if the table is damaged.
    pub(crate) fn purge_mark(
        &self,
        index: &TableIndex,
        key: &[u8],
        txn: TxnId,
        roll: RollPtr,
        acc: &Access<'_>,
    ) -> Result<bool> {
        match self.try_mark(index, key, txn, roll, true, acc)? {
            Mark::Settled | Mark::Waits => Ok(true),
            Mark::Damaged => Ok(false),
            Mark::Unread => {
                let pending = Some(roll);
                let entry = Entry { index: index.id(), key: key.to_vec(), overwriter: txn, pending, image: None };
                self.remember(entry, acc).map(|()| true)
            }
        }
    }

    /// Remembers a delete mark that no view needs, for the sweep.
    pub(crate) fn remember(&self, entry: Entry, acc: &Access<'_>) -> Result<()> {
        let (key, _) = self.versions.put(entry, acc)?;
        self.background.request_sweep(Sweep::Keys(vec![key.into()]));
        Ok(())
    }

    /// Removes the entry if it is still the delete mark of (`txn`, `roll`) and `removable`: no view
    /// needs to find it. Returns whether the mark has to be remembered, because it cannot go yet.
    pub(crate) fn remove_mark(
        &self,
        index: &TableIndex,
        key: &[u8],
        txn: TxnId,
        roll: RollPtr,
        removable: bool,
        acc: &Access<'_>,
    ) -> Result<bool> {
        let (mut removed, mut pending) = (false, false);
        let mut decide = |current: Option<&[u8]>| {
            let header = current.and_then(VersionHeader::decode).map(|(h, _)| h);
            let present = header.is_some_and(|h| h.deleted && h.txn == txn && h.roll == roll);
            removed = present && removable;
            // An entry that an active transaction has covered comes back if that transaction rolls
            // back. If every view sees the mark then, the rollback itself does not put it back.
            pending = !removable && (present || header.is_some_and(|h| self.map.is_active(h.txn)));
            Ok(if removed { Action::Remove } else { Action::Keep })
        };
        index.tree().modify_as(SpaceClass::Rollback, key, acc, &mut decide)?;
        if removed {
            self.metrics.inc(Counter::PurgedRows);
        }
        Ok(pending)
    }
}
