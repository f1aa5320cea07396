//! What becomes of the entries of the version tree, and how old versions keep to their limit.
//!
//! # Sweep
//! When a view for which versions were kept has ended, the entries that were charged to it are
//! looked at: one that another view needs is charged to that one, any other is dropped. A view that
//! had too many entries for a list, and a start, set off a look at the whole tree; while one is
//! under way, the next one waits for its end. A sweep holds the purge mutex, so it is done in
//! slices, between which others purge.
//!
//! * An entry by a log that is half purged may own a chain which a record of that log names too: it
//!   is looked at when that log is done. As long as there are logs of an earlier run nothing is
//!   looked at, since any of them may be half purged.
//! * An entry that cannot be looked at is passed over, so that one table does not stand in the way
//!   of others. If it is not damaged it is tried again after the error has been reported; if the
//!   device does not return a page then, either, it is left to the next look at the whole tree.
//!
//! # Limit
//! Above `max_old_versions` the oldest snapshots that give way are cancelled, one after the other,
//! each when the entries of the one before are gone. Views may end so fast that another look at the
//! whole tree is always asked for: so that is decided at each end of the tree, and what was kept
//! for views that have ended does not count, since it goes with the next look. To cancel helps only
//! if such views are what old versions are kept for. What is kept for views that do not give way is
//! kept beyond the limit; if most old versions are logs that wait for purge, purge is behind, and
//! committers wait for it and help. The holder of the purge mutex does both in slices.

use std::sync::Arc;

use holdfast_base::{CommitNo, Error, Result, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};
use holdfast_wal::SpaceClass;

use crate::entry::index::TableIndex;
use crate::entry::row::VersionHeader;
use crate::mvcc::view::View;
use crate::purge::history::Phase;
use crate::purge::parts::{self, Part};
use crate::purge::purger::Purger;
use crate::purge::sweep_state::{Key, SweepState};
use crate::purge::versions::{self, Entry};

/// Entries that are looked at between two looks at which views are open.
const BATCH: usize = 256;
/// No snapshot is cancelled while less than this share of the limit is kept for those that give
/// way: what others need is no reason.
const KEPT_DIV: u64 = 4;

/// The long views that are open, and the short ones, which are younger: each oldest first. Some may
/// have ended.
type OpenViews = (Vec<Arc<View>>, Vec<Arc<View>>);

/// How far a sweep has come.
#[derive(Debug, PartialEq, Eq)]
enum Swept {
    /// All has been looked at. Another look at the whole tree may have been asked for meanwhile.
    All,
    /// There is more to look at.
    Part,
    /// Logs of an earlier run have to be purged first.
    Later,
}

impl Purger {
    /// Sweeps about `budget` entries, and keeps old versions to their limit. The caller holds the
    /// purge mutex and no log. Returns true if there is more to do.
    ///
    /// # Errors
    /// [`holdfast_base::Error::Poisoned`]. Others are kept in `state`.
    pub(crate) fn keep_limit(&self, state: &mut SweepState, budget: usize) -> Result<bool> {
        loop {
            match self.sweep(state, budget)? {
                Swept::Part => return Ok(true),
                Swept::Later => return Ok(false),
                Swept::All => {}
            }
            // Entries that a half purged log may own go soon.
            if !self.views_keep_too_much() || !state.owned.is_empty() {
                return Ok(state.is_asked_again());
            }
            let kept = self.views.cancel_oldest(self.config.max_old_versions / KEPT_DIV);
            let Some(kept) = kept else { return Ok(state.is_asked_again()) };
            self.metrics.inc(Counter::TrxSnapshotTooOld);
            self.background.request_sweep(kept);
            self.tidy_shelf();
        }
    }

    /// Bytes of old versions, large values included: undo logs of committed transactions, the shelf
    /// and the version tree.
    pub fn old_version_bytes(&self) -> u64 {
        self.history_bytes() + self.shelf.bytes() + self.versions.bytes()
    }

    fn history_bytes(&self) -> u64 {
        self.history.pages() * self.undo.page_size() as u64
    }

    /// True if old versions take more than their limit.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.old_version_bytes() > self.config.max_old_versions
    }

    /// True if they do because of views that are open, and not because purge or the sweep is
    /// behind.
    fn views_keep_too_much(&self) -> bool {
        if !self.is_over_limit() {
            return false;
        }
        let limit = self.config.max_old_versions;
        let kept = self.shelf.bytes() + self.versions.bytes().min(self.views.bytes_charged(|_| true));
        kept > limit / 2 && kept + self.history_bytes() > limit
    }

    /// Drops what no view needs any more from the version tree, as far as that was asked for,
    /// `budget` entries at most.
    fn sweep(&self, state: &mut SweepState, mut budget: usize) -> Result<Swept> {
        state.add(self.background.take_sweep_request());
        if state.begin_round() {
            self.views.count_anew();
        }
        let acc = self.store.pool().access(AccessKind::Purge);
        if let Err(error) = self.versions.free_left(&acc) {
            self.store.wal().check_poisoned()?;
            state.fail(None, error);
        }
        match self.history.front(|front| (front.phase, front.log.txn())) {
            Some((Phase::RECOVERED, _)) => return Ok(Swept::Later),
            Some((Phase::New, _)) | None => state.set_half_purged(TxnId::NONE),
            Some((_, txn)) => state.set_half_purged(txn),
        }
        while budget > 0 && !state.is_done() {
            let n = budget.min(BATCH);
            budget -= n;
            state.looks();
            let views = self.open_views();
            for (key, value) in self.next_entries(state, n, &acc) {
                if let Err(error) = self.sweep_one(state, &key, value, &views, &acc) {
                    self.store.wal().check_poisoned()?;
                    state.fail(Some(key), error);
                }
            }
        }
        if !state.is_done() {
            return Ok(Swept::Part);
        }
        self.give_back_nodes(state, &acc)?;
        Ok(Swept::All)
    }

    /// Gives back the nodes of a version tree that has no entry any more. Each entry that is
    /// dropped does that for its own, but not if a page of a neighbour cannot be read just then.
    fn give_back_nodes(&self, state: &mut SweepState, acc: &Access<'_>) -> Result<()> {
        if !state.may_shrink() {
            return Ok(());
        }
        match self.versions.tree().shrink_if_empty(acc, SpaceClass::Rollback) {
            Ok(()) => state.has_shrunk(),
            Err(error) => {
                self.store.wal().check_poisoned()?;
                state.has_not_shrunk(error);
            }
        }
        Ok(())
    }

    /// The next `n` entries that are to be looked at, or less. Those on the list are to be read
    /// when it is their turn: a key may be there twice, and its entry is dropped once.
    fn next_entries(&self, state: &mut SweepState, n: usize, acc: &Access<'_>) -> Vec<(Key, Option<Vec<u8>>)> {
        if !state.keys.is_empty() {
            let keys = state.keys.split_off(state.keys.len().saturating_sub(n));
            return keys.into_iter().map(|key| (key, None)).collect();
        }
        let Some(behind) = state.behind() else { return Vec::new() };
        match self.versions.batch(behind, n, acc) {
            Ok(found) => {
                state.has_come_to(found.last().map(|(key, _)| key.as_slice()));
                found.into_iter().map(|(key, value)| (key.into(), Some(value))).collect()
            }
            Err(error) => {
                // What lies behind stays until the next sweep of the tree.
                state.has_come_to(None);
                state.fail(None, error);
                Vec::new()
            }
        }
    }

    fn sweep_one(
        &self,
        state: &mut SweepState,
        key: &[u8],
        value: Option<Vec<u8>>,
        views: &OpenViews,
        acc: &Access<'_>,
    ) -> Result<()> {
        let value = value.map_or_else(|| self.versions.value(key, acc), |value| Ok(Some(value)))?;
        value.map_or(Ok(()), |value| self.sweep_entry(state, key, &value, views, acc))
    }

    /// All views for which something may be kept: those to come see whatever took its place.
    fn open_views(&self) -> OpenViews {
        self.views.older_than(CommitNo(u64::MAX)).into_iter().partition(|view| view.is_long())
    }

    /// Drops an entry that none of `views` needs, which are all that are open.
    fn sweep_entry(
        &self,
        state: &mut SweepState,
        key: &[u8],
        value: &[u8],
        views: &OpenViews,
        acc: &Access<'_>,
    ) -> Result<()> {
        let entry = self.versions.decode(key, value, acc)?;
        if entry.overwriter == state.half_purged {
            state.owned.push(key.into());
            return Ok(());
        }
        if self.lost.is_set_aside(entry.overwriter) {
            return Ok(());
        }
        let index = self.indexes.get(entry.index);
        if index.is_none() && self.indexes.check_awaited(entry.index).is_err() {
            return Ok(()); // The next open may find the table with its mark and chain.
        }
        let pinned = index.as_ref().and_then(|i| i.pin());
        let index = index.as_ref().filter(|_| pinned.is_some());
        let (long, short) = views;
        let older = &long[..self.count_not_seeing(long, entry.overwriter)];
        let mut short = short.iter().filter(|v| !v.sees(entry.overwriter, &self.map));
        let needed_by = match (entry.pending, entry.writer()) {
            (Some(_), _) if index.is_some() => older.first().or_else(|| short.next()),
            (_, Some(writer)) => {
                self.oldest_to_see(older, writer).or_else(|| short.find(|v| v.sees(writer, &self.map)))
            }
            (_, None) => None,
        };
        if let Some(view) = needed_by {
            self.background.request_sweep(view.charge(key, versions::size(key, value)));
            return Ok(());
        }
        let Some(index) = index else {
            // Its mark and chain go with the table.
            self.versions.drop_entry(key, value, acc)?;
            return self.versions.free_spilled(value, acc);
        };
        self.give_up(state, key, value, &entry, index, acc)
    }

    /// Drops an entry that no view needs, with its mark and chain; of a long chain a part.
    fn give_up(
        &self,
        state: &mut SweepState,
        key: &[u8],
        value: &[u8],
        entry: &Entry,
        index: &TableIndex,
        acc: &Access<'_>,
    ) -> Result<()> {
        let freed = self.free_part_of_entry(key, value, entry, index, acc);
        match parts::unless_unread(index, freed)? {
            Part::None => {}
            Part::Looked => {
                state.keys.push(key.into());
                return Ok(());
            }
            Part::Freed => {
                state.keys.push(key.into());
                return self.versions.free_spilled(value, acc);
            }
        }
        if let Some(roll) = entry.pending {
            let removed = self.remove_mark(index, &entry.key, entry.overwriter, roll, true, acc);
            // The mark may stay for long, and what was kept with it would count.
            if removed.as_ref().is_err_and(Error::is_unread) && entry.image.is_some() {
                self.versions.drop_image(key, value, entry, acc)?;
                self.free_chains(value, entry, index, acc)?;
            }
            index.unless_damaged(removed)?;
        }
        self.versions.drop_entry(key, value, acc)?;
        self.free_chains(value, entry, index, acc)
    }

    /// Frees the chains of an entry that is gone: if one cannot be freed now, the other one is.
    fn free_chains(&self, value: &[u8], entry: &Entry, index: &TableIndex, acc: &Access<'_>) -> Result<()> {
        let freed = self.versions.free_spilled(value, acc);
        if let Some((header, body)) = entry.image.as_deref().and_then(VersionHeader::decode)
            && header.overflow
        {
            self.release(index, body, acc)?;
        }
        freed
    }
}
