//! The purge of logs: by the background thread, and by committers that help. The protocol is in
//! [`crate::purge`].

use holdfast_base::{CommitNo, Error, Result, RollPtr, TxnId, latches};
use holdfast_metrics::{Counter, Gauge};
use holdfast_pool::{Access, AccessKind};
use std::sync::Arc;
use std::time::Duration;

use crate::entry::index::TableIndex;
use crate::entry::row::VersionHeader;
use crate::mvcc::view::View;
use crate::purge::history::{BATCH_LOGS, CommittedLog, Phase, Taken};
use crate::purge::marks::Mark;
use crate::purge::parts::{self, Part};
use crate::purge::purger::Purger;
use crate::purge::sweep_state::{SWEPT_PER_RECORD, SweepState};
use crate::purge::versions::Entry;
use crate::system::Committed;
use crate::undo::UndoRecord;

/// Logs for which the end of the view that held them back wakes the purge thread.
const WORTH_WAKING: usize = 64;

/// So many logs of a group of threads wait before a committer retires those that ask nothing of
/// purge.
const QUIET_BATCH: usize = 8;
/// Batches of quiet logs that a committer takes: more than have come since the committer before it.
const QUIET_BATCHES: usize = 2;

/// Records purged at a time for a caller that waits for all of them.
const LONG_BATCH: usize = 1024;

/// Records that a committer purges when it helps.
const HELP_RECORDS: usize = 32;

/// How long a committer waits for the purge mutex when purge is far behind.
const HELP_WAIT: Duration = Duration::from_millis(10);

impl Purger {
    /// Ends a view: purge looks at what was kept for it, and if it was the oldest, may go on.
    pub(crate) fn close_view(&self, view: &View) {
        self.background.request_sweep(self.views.close(view));
        let held_back =
            !view.is_long() && view.commit_no() < self.clock.last_commit() && self.history.len() >= WORTH_WAKING;
        if held_back && view.commit_no() < self.views.oldest() {
            self.background.wake();
        }
    }

    /// See [`crate::TxnSystem::purge`].
    pub fn purge(&self, limit: usize) -> Result<usize> {
        match self.purge_wanted(limit, |_| true)? {
            0 => self.turn.lock().take_error().map_or(Ok(0), Err),
            done => Ok(done),
        }
    }

    /// See [`crate::TxnSystem::purge_up_to`].
    pub(crate) fn purge_up_to(&self, last: CommitNo) -> Result<()> {
        loop {
            match self.purge_wanted(LONG_BATCH, |front| front.no <= last) {
                Ok(0) => {
                    // What the sweep has met is the thread's to report.
                    self.background.wake();
                    return Ok(());
                }
                // Purge goes on, or sets the log aside if it meets the same once more; in a stopped
                // database it does neither.
                Err(error) if error.is_unread() && !self.has_stopped() => {
                    self.background.failed(error);
                }
                done => drop(done?),
            }
            // The rest of the sweep is for what goes on committing, too.
            if self.history.front_is(|front| front.no > last) {
                return Ok(());
            }
        }
    }

    /// Purges as long as the next log is `wanted`, and keeps the limit, whatever becomes of the
    /// logs. What the sweep has met is left to be reported.
    fn purge_wanted(&self, limit: usize, wanted: impl Fn(&CommittedLog) -> bool) -> Result<usize> {
        self.tidy_shelf();
        latches::none_while_waiting_for("the purge mutex");
        let mut state = self.turn.lock();
        let done = self.purge_logs(limit, wanted);
        let more = self.keep_limit(&mut state, limit.saturating_mul(SWEPT_PER_RECORD));
        self.set_gauges();
        Ok(done?.max(usize::from(more?)))
    }

    /// Purges about `limit` records of logs, as long as the next one is `wanted`. Those that only
    /// older views stand in the way of go on the shelf.
    fn purge_logs(&self, limit: usize, wanted: impl Fn(&CommittedLog) -> bool) -> Result<usize> {
        let mut left = limit;
        let mut taken = true;
        while left > 0 && std::mem::take(&mut taken) {
            self.history.gather(&self.clock);
            let oldest = self.views.oldest();
            self.shelf.forget_unneeded(oldest);
            let horizon = self.classify_views();
            // Views to come see everything up to the horizon, and no short one is older; so these
            // are all that may be.
            let older = self.views.older_than(horizon);
            self.thin_shelf(&mut left)?;
            while left > 0 {
                let mut waits = false;
                let next = self.history.take_if(|front| {
                    waits = wanted(front) && front.no > oldest && self.is_shelvable(front);
                    !waits && wanted(front) && front.no <= horizon
                });
                let done = match next {
                    Some(next) => self.purge_next(next, &older, &mut left)?,
                    None => waits && self.shelve_some(&mut left)?,
                };
                if !done {
                    break;
                }
                taken = true;
            }
        }
        Ok(limit - left)
    }

    /// Shelves some of the logs that only views stand in the way of. Returns whether there were
    /// any, and room for them.
    fn shelve_some(&self, left: &mut usize) -> Result<bool> {
        match self.shelve() {
            Err(error) if error.is_damage() || error.is_unread() => self.set_first_aside(left),
            shelved => {
                let shelved = shelved?;
                *left = left.saturating_sub(shelved);
                Ok(shelved > 0)
            }
        }
    }

    /// Sets the log aside that is first in the queue, if it cannot be copied to the shelf because
    /// its page is damaged, or is not returned a second time either: those behind it would wait as
    /// long as the views. Returns whether it was.
    fn set_first_aside(&self, left: &mut usize) -> Result<bool> {
        let Some((no, Err(error))) = self.try_to_copy_first() else { return Ok(false) };
        if !self.is_about_a_page(&error) {
            return Err(error);
        }
        // As long as a log is in the queue, its page is no other's.
        let first = self.history.take_if(|front| front.no == no);
        first.iter().for_each(|log| self.set_aside(log, error.clone(), left));
        Ok(first.is_some())
    }

    /// What could not be done about a log is noted, and the logs behind it do not wait.
    fn set_aside(&self, committed: &CommittedLog, error: Error, left: &mut usize) {
        *left = left.saturating_sub(1);
        self.lost.set_aside(committed.log.txn());
        // What views need is kept elsewhere before purge cuts a record, or asks something about a
        // table that could not be opened.
        let is_copied = matches!(committed.phase, Phase::Cutting { .. });
        if error.is_damage() || error.is_unread() && !is_copied {
            self.lost.note(committed.no, &error);
        }
        self.background.failed(error);
    }

    /// True if a log that has met this error is left to the next open: a page of it is damaged, or
    /// was not returned twice in the same place, or a table that it asks something about could not
    /// be opened.
    fn is_left(&self, committed: &CommittedLog, error: &Error) -> bool {
        error.is_damage()
            || matches!(error, Error::Incompatible(_))
            || error.is_unread() && self.lost.stops_again(committed)
    }

    /// Purges up to `left` records of the log that was first in the queue, and puts it back there
    /// if some remain. Returns whether to go on.
    fn purge_next(&self, mut next: CommittedLog, older: &[Arc<View>], left: &mut usize) -> Result<bool> {
        match self.purge_log(&mut next, older, left) {
            Ok(true) => {
                *left = left.saturating_sub(1);
                self.metrics.inc(Counter::PurgedTransactions);
                Ok(true)
            }
            Err(error) if !self.has_stopped() && self.is_left(&next, &error) => {
                self.set_aside(&next, error, left);
                Ok(true)
            }
            other => {
                self.history.put_back(next);
                other
            }
        }
    }

    /// Makes views long that hold back too much; returns up to which commit logs can be purged.
    fn classify_views(&self) -> CommitNo {
        let last = self.clock.last_commit();
        loop {
            let oldest = self.views.short_horizon();
            if !self.hold_back_too_much(oldest, last) {
                return oldest;
            }
            self.metrics.add(Counter::ViewsMadeLong, self.views.make_long(CommitNo(oldest.0 + 1), &self.map));
        }
    }

    /// True if short views, the oldest of which saw commit `oldest`, may no longer hold back what
    /// came up to commit `last`: too many commits, or too many bytes.
    fn hold_back_too_much(&self, oldest: CommitNo, last: CommitNo) -> bool {
        let behind = last.0.saturating_sub(oldest.0);
        let bytes = self.history.pages() * self.undo.page_size() as u64;
        behind >= self.config.short_view_commits || behind > 0 && bytes > self.config.max_old_versions / 4
    }

    /// Purges up to `left` records of a log, and frees it if none remain. Returns whether it is
    /// free. `older`: the views that may be older than the commit, oldest first; some may have
    /// ended.
    fn purge_log(&self, committed: &mut CommittedLog, older: &[Arc<View>], left: &mut usize) -> Result<bool> {
        let acc = self.store.pool().access(AccessKind::Purge);
        let long = &older[..older.partition_point(|view| view.commit_no() < committed.no)];
        // What is older goes first: see the shelf.
        if !long.is_empty() && !self.clear_shelf(committed.no, left)? {
            return Ok(false);
        }
        if committed.phase == Phase::New && long.is_empty() && committed.is_quiet() {
            return self.retire_in_slices(committed, left, &acc);
        }
        if committed.phase == Phase::New {
            committed.phase = if long.is_empty() {
                Phase::Cutting { marks: true, copied: false }
            } else {
                Phase::Copying(committed.log.records())
            };
        }
        let mut bytes = Vec::new();
        while let Phase::Copying(n) = committed.phase {
            if n == 0 && committed.is_quiet() {
                return self.retire_in_slices(committed, left, &acc);
            }
            if n == 0 {
                committed.phase = Phase::Cutting { marks: false, copied: true };
                committed.log.uncount_chains();
                break;
            }
            if *left == 0 {
                return Ok(false);
            }
            *left -= 1;
            let roll = committed.log.record(n - 1, &self.undo, &acc, &mut bytes)?;
            self.copy_record(committed.log.txn(), roll, &bytes, long, &acc)?;
            committed.phase = Phase::Copying(n - 1);
        }
        self.cut_records(committed, left, &mut bytes, &acc)
    }

    /// As [`Purger::retire_quiet`], but gives back up to `left` extensions of the log, each like a
    /// record: those of a large transaction are too many for one hold of the purge mutex, and for
    /// one committer that helps. Returns whether the log is free.
    fn retire_in_slices(&self, committed: &mut CommittedLog, left: &mut usize, acc: &Access<'_>) -> Result<bool> {
        while committed.log.pages() > 1 {
            if *left == 0 {
                return Ok(false);
            }
            *left -= 1;
            let before = committed.log.records();
            committed.log.drop_tail(&self.undo, acc)?;
            self.metrics.add(Counter::PurgedUndoRecords, before.saturating_sub(committed.log.records()));
        }
        *left = left.saturating_sub(usize::try_from(committed.log.records()).unwrap_or(usize::MAX));
        self.retire_quiet(committed, acc)?;
        Ok(true)
    }

    /// Retires a log that asks nothing of purge, after what old views need was copied.
    pub(crate) fn retire_quiet(&self, committed: &mut CommittedLog, acc: &Access<'_>) -> Result<()> {
        self.metrics.add(Counter::PurgedUndoRecords, committed.log.records());
        committed.log.retire(&self.undo, acc)
    }

    /// Puts what views that are older than the commit need of a record into the version tree.
    pub(crate) fn copy_record(
        &self,
        txn: TxnId,
        roll: RollPtr,
        bytes: &[u8],
        long: &[Arc<View>],
        acc: &Access<'_>,
    ) -> Result<()> {
        let record = UndoRecord::decode(bytes).ok_or_else(|| self.undo.damaged(roll.page()))?;
        let index = self.indexes.get(record.index);
        let pinned = index.as_ref().and_then(|i| i.pin());
        let mut entry = Entry { index: record.index, key: record.key.to_vec(), overwriter: txn, ..Entry::default() };
        let (mut needed_by, mut waits_for_no_view) = (None, false);
        if let (Some(index), Some(_)) = (&index, &pinned)
            && record.deletes
        {
            match self.try_mark(index, record.key, txn, roll, long.is_empty(), acc)? {
                Mark::Settled => {}
                Mark::Damaged => return Ok(()),
                Mark::Waits | Mark::Unread => {
                    (entry.pending, needed_by) = (Some(roll), long.first());
                    waits_for_no_view = long.is_empty();
                }
            }
        }
        // Also if the index is gone: a transaction that began before may go on reading it.
        if let Some(payload) = record.prior {
            let prior = VersionHeader::decode(payload).ok_or_else(|| self.undo.damaged(roll.page()))?.0;
            if prior.txn != txn
                && !prior.deleted
                && let Some(view) = self.oldest_to_see(long, prior.txn)
            {
                entry.image = Some(payload.to_vec());
                needed_by = needed_by.or(Some(view));
                self.metrics.inc(Counter::VersionsKept);
            }
        }
        if waits_for_no_view {
            return self.remember(entry, acc);
        }
        if let Some(view) = needed_by {
            match self.versions.put(entry, acc) {
                Err(error) if error.is_damage() || error.is_unread() => {
                    self.lost.note(self.clock.last_commit(), &error);
                    self.background.failed(error);
                }
                put => {
                    let (key, bytes) = put?;
                    self.background.request_sweep(view.charge(&key, bytes));
                }
            }
        }
        Ok(())
    }

    /// Second pass: frees chains, removes delete marks, and cuts the log off behind that.
    fn cut_records(
        &self,
        committed: &mut CommittedLog,
        left: &mut usize,
        bytes: &mut Vec<u8>,
        acc: &Access<'_>,
    ) -> Result<bool> {
        let Phase::Cutting { marks, copied } = committed.phase else { return Ok(false) };
        committed.log.check_whole(&self.undo)?;
        let txn = committed.log.txn();
        loop {
            // Most changes of a row ask nothing: those records are not read.
            let quiet = committed.log.pop_quiet();
            *left = left.saturating_sub(usize::from(quiet));
            self.metrics.add(Counter::PurgedUndoRecords, u64::from(quiet));
            let Some(roll) = committed.log.last_record(&self.undo, acc, bytes)? else { break };
            if *left == 0 {
                committed.log.cut(&self.undo, acc)?;
                return Ok(false);
            }
            *left -= 1;
            let record = UndoRecord::decode(bytes).ok_or_else(|| self.undo.damaged(roll.page()))?;
            let index = self.indexes.get(record.index);
            if index.is_none() && record.asks_purge() {
                self.indexes.check_awaited(record.index)?;
            }
            let pinned = index.as_ref().and_then(|i| i.pin());
            let mut dead_chain = None;
            if let (Some(index), Some(_)) = (&index, &pinned) {
                let is_sound = !(marks && record.deletes) || self.purge_mark(index, record.key, txn, roll, acc)?;
                if is_sound {
                    dead_chain = self.dead_chain(index, txn, &record, copied, acc)?;
                }
            }
            if let (Some(index), Some(_)) = (&index, dead_chain)
                && !holdfast_base::planted!("dead-values-stay")
            {
                let freed = self.free_part_of_record(&mut committed.log, roll, &record, index, acc);
                if parts::unless_unread(index, freed)? != Part::None {
                    continue; // The record names the rest.
                }
            }
            let pages = committed.log.pages();
            let emptied = committed.log.pop();
            // The records of a log that is retired may stay, but none that names a chain that is
            // freed. If it cannot be cut it is purged again: else a log of one record would be
            // retired with it, a compaction would free the chain, and the purge after a crash what
            // is in its place.
            if dead_chain.is_some() || (emptied && (copied || committed.log.pages() > 1)) {
                committed.log.cut(&self.undo, acc).inspect_err(|_| committed.log.unpop(pages))?;
            }
            let mut gone = record.chain_pages(self.undo.page_size());
            if let (Some(index), Some(chain)) = (&index, dead_chain)
                && !holdfast_base::planted!("dead-values-stay")
            {
                // Else an earlier version has it, whose record does not count it.
                let is_free = self.release(index, chain, acc)?;
                gone = if is_free { record.prior_pages(self.undo.page_size()) } else { 0 };
            }
            committed.log.uncount_chain(gone);
            self.metrics.inc(Counter::PurgedUndoRecords);
        }
        if copied {
            committed.log.free(&self.undo, acc)?;
        } else {
            committed.log.retire(&self.undo, acc)?;
        }
        Ok(true)
    }

    /// The chain of the record's prior image, unless the version tree has taken the image over.
    fn dead_chain<'r>(
        &self,
        index: &TableIndex,
        txn: TxnId,
        record: &UndoRecord<'r>,
        copied: bool,
        acc: &Access<'_>,
    ) -> Result<Option<&'r [u8]>> {
        let Some(payload) = record.prior else { return Ok(None) };
        let (prior, body) = crate::entry::visibility::split(index, payload)?;
        if !prior.overflow {
            return Ok(None);
        }
        if copied && prior.txn != txn {
            match self.versions.has_image(index.id(), record.key, txn, acc) {
                Ok(false) => {}
                // If the owner of the chain cannot be found, the chain is lost, and not freed
                // twice.
                Err(error) if !error.is_damage() => return Err(error),
                _ => return Ok(None),
            }
        }
        Ok(Some(body))
    }

    fn set_gauges(&self) {
        self.metrics.set(Gauge::HistoryListLength, self.history.len() as u64);
        self.metrics.set(Gauge::VersionsStored, self.versions.count());
        self.metrics.set(Gauge::BytesVersions, self.old_version_bytes());
        self.metrics.set(Gauge::MemoryShelf, self.shelf.bytes());
    }

    /// True if the first log of the queue can be purged, or views are due to be made long.
    fn can_purge(&self) -> bool {
        let last = self.clock.last_commit();
        let horizon = self.views.short_horizon();
        self.hold_back_too_much(horizon, last) || self.history.front_is(|front| front.no <= horizon)
    }

    /// Called by a committer, holding nothing: tells the purge thread, and once some logs of the
    /// thread's group wait, retires those that it can, and helps purge. Its own log is reason
    /// enough if so few as are [`WORTH_WAKING`] of its kind are all that the limit allows. Most
    /// commits load two values that seldom change.
    pub(crate) fn tidy_history(&self, committed: Committed) {
        self.background.committed(committed.no, || self.history.len());
        let some_wait = committed.waiting >= QUIET_BATCH;
        if some_wait {
            self.give_back_quiet_logs();
        }
        let is_large = committed.pages > 1
            && committed.pages * self.undo.page_size() as u64 > self.config.max_old_versions / WORTH_WAKING as u64;
        if is_large {
            // It may be what comes first.
            self.history.gather(&self.clock);
        }
        if some_wait || is_large || self.history.queued() > WORTH_WAKING.min(self.config.purge_help_above) {
            self.help_purge();
        }
    }

    /// Retires the logs that ask nothing of purge, a few at a time, and shelves those that wait for
    /// a view. So a load of small transactions reuses a few undo pages, and wakes no thread for it.
    /// None of this needs the purge mutex, whose holder may be preempted. The mutex is tried, but
    /// not waited for, where that was not enough: for logs of several pages, and when the shelf
    /// gets full.
    fn give_back_quiet_logs(&self) {
        self.retire_unneeded(|wanted| self.history.take_arrived(wanted));
        if self.history.arrived() < QUIET_BATCH {
            return;
        }
        self.history.gather(&self.clock);
        // What comes first and asks for more is purge's, and the others wait behind it.
        if !self.history.front_is(CommittedLog::is_quiet) {
            return;
        }
        self.retire_unneeded(|wanted| self.history.take_while(wanted));
        if self.history.queued() < QUIET_BATCH {
            return;
        }
        // An error is purge's to report; the commit is done.
        let shelved = self.shelve().unwrap_or(0) > 0;
        if (!shelved || self.shelf.is_nearly_full())
            && let Some(mut state) = self.turn.try_lock()
        {
            self.purge_a_little(&mut state, QUIET_BATCHES * BATCH_LOGS, CommittedLog::is_quiet);
        }
    }

    /// Retires some logs that `take` returns, without the purge mutex: quiet ones, older than every
    /// view, of one page. There is nothing to read or to write for them, so they do not depend on
    /// the progress of the purge of the log before. Older logs on the shelf are forgotten.
    fn retire_unneeded(&self, take: impl Fn(&dyn Fn(&CommittedLog) -> bool) -> Taken) {
        let oldest = self.views.oldest();
        self.shelf.forget_unneeded(oldest);
        let unneeded = |front: &CommittedLog| front.no <= oldest && front.is_retirable();
        let acc = self.store.pool().access(AccessKind::Purge);
        for _ in 0..QUIET_BATCHES {
            let taken = take(&unneeded);
            let last = taken.len() < BATCH_LOGS;
            self.metrics.add(Counter::PurgedTransactions, taken.len() as u64);
            for mut committed in taken {
                // Nothing that can fail: there is no extension to give back.
                let _ = self.retire_quiet(&mut committed, &acc);
            }
            if last {
                return;
            }
        }
    }

    /// Helps purge if the queue is long or old versions are over their limit: called by committers,
    /// holding nothing.
    ///
    /// With more sessions than cores, the kernel preempts the holder of the mutex now and then, and
    /// each time hundreds of others commit before it runs again. When too many logs wait,
    /// committers wait for the mutex a moment: that leaves the core to its holder.
    fn help_purge(&self) {
        let waiting = self.history.len();
        let much_waits = waiting > self.config.purge_help_above;
        // Fewer logs are no reason to look, as long as they are short.
        let is_short = waiting <= WORTH_WAKING && self.history.pages() <= WORTH_WAKING as u64;
        let is_over_limit = !is_short && self.is_over_limit();
        if !(much_waits || is_over_limit) || !self.can_purge() {
            return;
        }
        latches::none_while_waiting_for("the purge mutex");
        let far_behind = is_over_limit || waiting > self.config.purge_wait_above;
        let state = if far_behind { self.turn.try_lock_for(HELP_WAIT) } else { self.turn.try_lock() };
        if let Some(mut state) = state {
            self.metrics.inc(Counter::PurgeHelps);
            self.purge_a_little(&mut state, HELP_RECORDS, |_| true);
        }
    }

    /// The work of a committer that has acquired the purge mutex. The purge thread reports an
    /// error; the commit is done.
    fn purge_a_little(&self, state: &mut SweepState, limit: usize, wanted: impl Fn(&CommittedLog) -> bool) {
        let _ = self.purge_logs(limit, wanted);
        if self.is_over_limit() {
            let _ = self.keep_limit(state, limit * SWEPT_PER_RECORD);
        }
    }
}
