//! Purge: what becomes of the undo log of a committed transaction T.
//!
//! # When
//! In commit order, one log at a time, once no *short* view is older than T's commit. A view that holds back more than a
//! configured number of commits is made long: then purge goes on and copies for it.
//!
//! # What
//! The log is consumed from its end, like by a rollback. For each record, by its key:
//! * The prior image was written by T itself: nobody can see that version. Its overflow chain is freed.
//! * The prior image was written before T, by W: it is the version before T. If some long view sees W (and, being older
//!   than T's commit, not T), the image goes to the version tree, chain included; if not, its chain is freed.
//! * The change put a delete mark: the entry is removed if it still carries (T, this record) and no view is older than
//!   T. Otherwise the mark is entered in the version tree as pending, and goes with that entry.
//!
//! Then the log is free. So a long view costs one version per entry that was changed, however often.
//!
//! # Crash safety
//! Every step can be repeated: entries of the version tree are put before the record is cut, chains are freed after. A
//! log of an earlier run may have been half purged; its chains may be named both by a record and by an entry of
//! the version tree. While such logs are purged, the entry is taken out first without freeing its chain; what is
//! left in the version tree of the earlier run is dropped afterwards.

use holdfast_base::{Result, RollPtr, TxnId};
use holdfast_metrics::{Counter, Gauge};
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::Action;
use holdfast_wal::SpaceClass;
use std::sync::Arc;

use crate::index::TableIndex;
use crate::row::VersionHeader;
use crate::system::{History, TxnSystem};
use crate::undo::UndoRecord;
use crate::values;
use crate::versions::Entry;
use crate::view::View;

/// Entries of the version tree that a sweep looks at between two looks at the history.
const SWEEP_BATCH: usize = 256;

/// Logs for which the end of the view that held them back wakes the purge thread.
const WORTH_WAKING: usize = 64;

/// What the purge mutex guards.
#[derive(Debug, Default)]
pub(crate) struct PurgeState {
    /// A sweep of the version tree is due, or under way behind this key.
    pub sweep: Option<Vec<u8>>,
}

impl TxnSystem {
    /// A view that was the oldest, or long, has ended: purge may go on.
    pub(crate) fn view_closed(&self, view: &View) {
        if view.is_long() {
            self.background.request_sweep();
        } else if self.history.len() >= WORTH_WAKING {
            self.background.wake();
        }
    }

    /// Committed transactions whose undo logs are not purged.
    #[must_use]
    pub fn history_length(&self) -> usize {
        self.history.len()
    }

    /// Purges up to `limit` logs, as far as views allow, and goes on with the sweep of the version tree. Returns how many
    /// logs were purged.
    ///
    /// # Errors
    /// Those of reading and writing pages. What was not purged is purged later.
    pub fn purge(&self, limit: usize) -> Result<usize> {
        let mut state = self.purge.lock();
        let n = self.purge_logs(limit)?;
        self.sweep(&mut state)?;
        self.keep_limit(&mut state)?;
        self.set_gauges();
        Ok(n)
    }

    fn purge_logs(&self, limit: usize) -> Result<usize> {
        let mut n = 0;
        while n < limit {
            self.classify_views();
            let horizon = self.views.short_horizon();
            let Some(mut next) = self.history.take_if(|front| front.no <= horizon) else { break };
            if let Err(e) = self.purge_log(&mut next) {
                self.history.put_back(next);
                return Err(e);
            }
            let acc = self.store.pool().access(AccessKind::Purge);
            // As at the end of a rollback: an empty log that could not be freed is freed after the next start.
            let _ = next.log.free(&self.undo, &acc);
            self.metrics.inc(Counter::PurgedTransactions);
            n += 1;
        }
        Ok(n)
    }

    /// Makes views long that hold back too much.
    fn classify_views(&self) {
        let last = self.views.last();
        let bytes = self.history.pages() * self.undo.page_size() as u64;
        while let Some(view) = self.views.oldest_short() {
            let behind = last.0.saturating_sub(view.commit_no().0);
            let heavy = behind > 0 && bytes > self.config.max_old_versions / 4;
            if behind < self.config.short_view_commits && !heavy {
                return;
            }
            self.views.make_long(holdfast_base::CommitNo(view.commit_no().0 + 1), &self.map);
            self.metrics.inc(Counter::ViewsMadeLong);
        }
    }

    fn purge_log(&self, history: &mut History) -> Result<()> {
        let acc = self.store.pool().access(AccessKind::Purge);
        let long = self.views.older_than(history.no);
        let txn = history.log.txn();
        let mut bytes = Vec::new();
        while let Some(roll) = history.log.last_record(&self.undo, &acc, &mut bytes)? {
            let record = UndoRecord::decode(&bytes).ok_or_else(|| self.undo.damaged(roll.page()))?;
            let index = self.index(record.index);
            let pinned = index.as_ref().and_then(|i| i.pin());
            let mut dead_chain = None;
            if let (Some(index), Some(_)) = (&index, &pinned) {
                dead_chain = self.purge_record(index, txn, roll, &record, &long, history.recovered, &acc)?;
            }
            let emptied = history.log.pop();
            if emptied || dead_chain.is_some() {
                history.log.cut(&self.undo, &acc)?;
            }
            if let (Some(index), Some(chain)) = (&index, dead_chain) {
                values::free(index.tree().space(), index.id(), chain, &acc)?;
            }
            self.metrics.inc(Counter::PurgedUndoRecords);
        }
        Ok(())
    }

    /// Does what the record asks for; returns the chain that is to be freed when the record is cut.
    #[allow(clippy::too_many_arguments)]
    fn purge_record<'r>(
        &self,
        index: &TableIndex,
        txn: TxnId,
        roll: RollPtr,
        record: &UndoRecord<'r>,
        long: &[Arc<View>],
        recovered: bool,
        acc: &Access<'_>,
    ) -> Result<Option<&'r [u8]>> {
        let mut entry = Entry { index: index.id(), key: record.key.to_vec(), overwriter: txn, ..Entry::default() };
        // Views older than this commit are all in `long`; later ones see it.
        if record.deletes && self.remove_mark(index, record.key, txn, roll, long.is_empty(), acc)? {
            entry.pending = Some(roll);
        }
        let mut dead_chain = None;
        if let Some(payload) = record.prior {
            let (prior, body) = crate::visibility::split(index, payload)?;
            let needed = prior.txn != txn
                && !prior.deleted
                && long.iter().any(|v| !v.is_cancelled() && v.sees(prior.txn, &self.map));
            if needed {
                entry.image = Some(payload.to_vec());
                self.metrics.inc(Counter::VersionsKept);
            } else if prior.overflow {
                if recovered && prior.txn != txn {
                    self.versions.disown(index.id(), record.key, txn, acc)?;
                }
                dead_chain = Some(body);
            }
        }
        if entry.pending.is_some() || entry.image.is_some() {
            self.versions.put(entry, acc)?;
        }
        Ok(dead_chain)
    }

    /// Removes the entry if it is still the delete mark of (`txn`, `roll`) and `removable`: no view needs to find it. Returns whether
    /// the mark has to be remembered, because it cannot go yet.
    fn remove_mark(
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
            // One that an active transaction has covered comes back if that one rolls back. If everybody sees the
            // mark then, the rollback itself does not put it back.
            pending = !removable && (present || header.is_some_and(|h| self.map.is_active(h.txn)));
            Ok(if removed { Action::Remove } else { Action::Keep })
        };
        index.tree().modify_as(SpaceClass::Rollback, key, acc, &mut decide)?;
        if removed {
            self.metrics.inc(Counter::PurgedRows);
        }
        Ok(pending)
    }

    /// Drops entries of the version tree that no view needs, a batch at a time.
    fn sweep(&self, state: &mut PurgeState) -> Result<()> {
        if self.background.take_sweep_request() {
            state.sweep = Some(Vec::new());
        }
        if self.history.front_is(|h| h.recovered) {
            return Ok(()); // Chains are taken back from the version tree first.
        }
        let acc = self.store.pool().access(AccessKind::Purge);
        while let Some(after) = state.sweep.take() {
            let batch = self.versions.batch(&after, SWEEP_BATCH, &acc)?;
            let Some((last, _)) = batch.last() else { return Ok(()) };
            let next = last.clone();
            state.sweep = Some(after);
            for (key, value) in &batch {
                self.sweep_entry(key, value, &acc)?;
            }
            state.sweep = Some(next);
        }
        Ok(())
    }

    fn sweep_entry(&self, key: &[u8], value: &[u8], acc: &Access<'_>) -> Result<()> {
        let entry = self.versions.decode(key, value, acc)?;
        let index = self.index(entry.index);
        let pinned = index.as_ref().and_then(|i| i.pin());
        let Some(index) = index.as_ref().filter(|_| pinned.is_some()) else {
            return self.versions.drop_entry(key, value, acc); // The table is gone, its chains with it.
        };
        let everybody = self.views.all_see(entry.overwriter, &self.map);
        let writer = entry.writer();
        let image_needed = !everybody
            && writer.is_some_and(|w| {
                let older = self.views.older_than(holdfast_base::CommitNo(u64::MAX));
                older.iter().any(|v| v.sees(w, &self.map) && !v.sees(entry.overwriter, &self.map))
            });
        if image_needed || (entry.pending.is_some() && !everybody) {
            return Ok(());
        }
        if let Some(roll) = entry.pending {
            self.remove_mark(index, &entry.key, entry.overwriter, roll, true, acc)?;
        }
        self.versions.drop_entry(key, value, acc)?;
        if let Some((header, body)) = entry.image.as_deref().and_then(VersionHeader::decode)
            && header.overflow
        {
            values::free(index.tree().space(), index.id(), body, acc)?;
        }
        Ok(())
    }

    /// Bytes of old versions: undo logs of committed transactions and the version tree.
    #[must_use]
    pub fn old_version_bytes(&self) -> u64 {
        self.history.pages() * self.undo.page_size() as u64 + self.versions.bytes()
    }

    /// Gives the oldest read-only snapshots up while old versions take more than their limit.
    fn keep_limit(&self, state: &mut PurgeState) -> Result<()> {
        while self.old_version_bytes() > self.config.max_old_versions {
            // It may merely be behind with its work.
            if self.purge_logs(usize::MAX)? > 0 {
                continue;
            }
            if !self.views.cancel_oldest_read_only() {
                return Ok(());
            }
            self.metrics.inc(Counter::TrxSnapshotTooOld);
            state.sweep = Some(Vec::new());
            self.sweep(state)?;
        }
        Ok(())
    }

    fn set_gauges(&self) {
        self.metrics.set(Gauge::HistoryListLength, self.history_length() as u64);
        self.metrics.set(Gauge::VersionsStored, self.versions.count());
        self.metrics.set(Gauge::BytesVersions, self.old_version_bytes());
    }

    /// Versions in the version tree.
    #[must_use]
    pub fn versions_stored(&self) -> u64 {
        self.versions.count()
    }

    /// Helps purge if the queue is long: called by committers, holding nothing.
    pub(crate) fn help_purge(&self) {
        if self.history_length() <= self.config.purge_help_above {
            return;
        }
        if let Some(_state) = self.purge.try_lock() {
            self.metrics.inc(Counter::PurgeHelps);
            // An error is purge's to report; the commit is done.
            let _ = self.purge_logs(8);
        }
    }
}
