//! Which log the pages still need, and making page writes durable.
//!
//! A page that was written to its file is clean, and may be evicted, at once. But its changes are
//! durable only when the file has been synced: until then the write's smallest rec_lsn stands in
//! [`Unsynced`](crate::checkpoint::unsynced::Unsynced) and holds the checkpoint, and its slots in
//! the double-write file are not reused.
//!
//! A write that relies on an older image of a page (see `doublewrite`) holds the checkpoint at the
//! rec_lsn of that image. A checkpoint begins by raising a *floor*: from then on no write relies on
//! an image with a smaller rec_lsn, so pages that are written again and again do not hold it. Floor
//! and holds are under one mutex: a hold is entered before the checkpoint is claimed, or is
//! refused.
//!
//! **No room is waited for in vain.** A checkpoint that stops at a write under way marks that it
//! has met one; the end of the write then wakes the checkpointer. The end may be the only event
//! there still is, when every user waits for room in the log. So may be what happens while a
//! checkpoint is taken: a write that ended after the sync, or failed; then the checkpoint wakes the
//! checkpointer itself.
//!
//! **Order.** A write enters `Unsynced` before its pages leave the dirty sets, and
//! [`Core::oldest_dirty`] looks at the dirty sets first. The checkpoint asks the log for its oldest
//! writer before that: a mini-transaction is in a writer slot until its pages are in the dirty
//! sets. What was claimed is compared with both once more: a failed write may move its page to an
//! older place in the dirty sets in between.

use holdfast_base::{Lsn, Result};
use holdfast_metrics::{Timing, WaitClass};

use crate::core::Core;
use crate::resident::space::Space;

impl Core {
    /// No change logged before this LSN is missing on disk, but for those of mini-transactions that
    /// are still in their writer slots. [`Lsn::MAX`] if no page is dirty.
    pub(crate) fn oldest_dirty(&self) -> Lsn {
        let dirty = self.oldest_in_memory();
        dirty.min(self.unsynced.oldest())
    }

    /// The same but for writes that are done and not durable: those of the pages that are still to
    /// be written.
    pub(crate) fn oldest_in_memory(&self) -> Lsn {
        self.partitions.iter().filter_map(|p| p.oldest_dirty()).min().unwrap_or(Lsn::MAX)
    }

    /// Syncs all files with page writes that are done but not durable.
    ///
    /// # Errors
    /// The errors of the sync, which also poisons the database; the poison, if another thread's has
    /// failed.
    pub(crate) fn sync_home(&self) -> Result<()> {
        let _syncing = self.unsynced.syncing.lock();
        // Behind the lock: a sync that the caller has waited for may have failed, and what it took
        // over is not durable.
        self.wal.check_poisoned()?;
        let spaces = {
            let mut state = self.unsynced.state.lock();
            if state.done == Lsn::MAX {
                return Ok(());
            }
            // If a sync fails it stays there: the database is poisoned, and there is no checkpoint
            // any more.
            state.syncing = std::mem::replace(&mut state.done, Lsn::MAX);
            std::mem::take(&mut state.spaces)
        };
        for space in spaces.values().filter(|_| !holdfast_base::planted!("page-writes-not-synced")) {
            self.sync_file(space)?;
        }
        self.unsynced.state.lock().syncing = Lsn::MAX;
        Ok(())
    }

    /// Syncs the file of a space. The system tells of a write that has failed once: of two syncs of
    /// a file at a time one would take the page for durable. So there is one at a time, and the
    /// poison is set before the next one.
    ///
    /// # Errors
    /// The errors of [`Core::sync_home`].
    pub(crate) fn sync_space(&self, space: &Space) -> Result<()> {
        let _syncing = self.unsynced.syncing.lock();
        self.wal.check_poisoned()?;
        self.sync_file(space)
    }

    /// The caller holds `syncing`.
    fn sync_file(&self, space: &Space) -> Result<()> {
        let start = holdfast_base::time::Instant::now();
        let result = space.file.sync();
        let took = start.elapsed();
        self.metrics.record_wait(WaitClass::Sync, took);
        self.metrics.record(Timing::DataSync, took);
        if holdfast_base::planted!("failed-data-sync-passed-over") {
            return Ok(());
        }
        result.inspect_err(|e| self.wal.poison(&format!("a sync of {} failed: {e}", space.file.name())))
    }

    /// Takes a checkpoint: makes page writes durable and tells the log where recovery may begin.
    /// Writes no pages.
    ///
    /// # Errors
    /// The errors of the syncs and of the log.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        let payload = self.payload.0.lock();
        let Some(provider) = payload.as_ref() else { return Ok(self.wal.checkpoint_lsn()) };
        let floor = self.wal.oldest_writer().min(self.oldest_in_memory());
        self.unsynced.raise_floor(floor);
        self.sync_home()?;
        if self.unsynced.oldest() < floor {
            // Writes that relied on older images were not done when the sync began; most of them
            // are now.
            self.sync_home()?;
        }
        // In this order: see the module's description.
        let writers = self.wal.oldest_writer();
        let in_memory = writers.min(self.oldest_in_memory());
        let claimed = self.unsynced.claim(in_memory);
        // A write that failed makes its page dirty from an older image's rec_lsn on, and may have
        // left `Unsynced` before the claim: then its page is older than it was at the first look.
        // After the claim no write gets hold of what lies before it.
        let written = claimed.min(self.oldest_dirty());
        let written = if holdfast_base::planted!("checkpoint-passes-dirty-pages") {
            writers.min(self.wal.next_lsn())
        } else {
            written
        };
        let lsn = written.min(self.held.oldest());
        if lsn > self.wal.checkpoint_lsn() {
            self.wal.set_checkpoint(lsn, &provider(lsn))?;
        }
        if written < claimed || self.unsynced.done_before(in_memory) {
            self.signals.wake_checkpointer();
        }
        Ok(lsn)
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use holdfast_base::Error;

    use super::*;
    use crate::AccessKind;
    use crate::test_pool::with_space;

    /// What `sync` returns that begins while the sync of another thread is under way, which fails.
    fn beside_one_that_fails(sync: impl Fn(&Core, &Space) -> Result<()> + Sync) -> Result<()> {
        let (pool, wal, space) = with_space();
        let access = pool.access(AccessKind::Point);
        let core = access.core;
        std::thread::scope(|scope| {
            // The other thread has taken over all that was to be synced.
            let syncing = core.unsynced.syncing.lock();
            let waiting = scope.spawn(|| sync(core, &space));
            // By then it waits.
            (0..10_000).for_each(|_| std::thread::yield_now());
            wal.poison("a sync of t16.hf failed");
            drop(syncing);
            waiting.join().unwrap()
        })
    }

    /// A thread that made room in the double-write file waited for the sync of another one. That
    /// failed, and the thread took the pages for durable, and gave their good copies away.
    #[test]
    fn a_sync_that_fails_makes_nothing_durable_for_those_that_wait_for_it() {
        let synced = beside_one_that_fails(|core, _| core.sync_home());
        assert!(matches!(synced, Err(Error::Poisoned(_))), "{synced:?}");
    }

    /// The end of a compaction synced a file that a checkpoint was syncing, too. The system told
    /// one of the two that a write had failed, and the other one took the page for durable.
    #[test]
    fn a_file_is_synced_by_one_thread_at_a_time() {
        let synced = beside_one_that_fails(Core::sync_space);
        assert!(matches!(synced, Err(Error::Poisoned(_))), "{synced:?}");
    }
}
