//! Which log the pages still need, and making page writes durable.
//!
//! A page that was written to its file is clean, and may be evicted, at once. But its changes are
//! durable only when the file has been synced: until then the write's smallest rec_lsn stands in
//! [`Unsynced`] and holds the checkpoint, and its slots in the double-write file are not reused.
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

use std::sync::Arc;

use holdfast_base::HashMap;
use holdfast_base::blocking::Mutex;
use holdfast_base::{Lsn, Result, SpaceId};
use holdfast_metrics::{Timing, WaitClass};

use crate::core::Core;
use crate::space::Space;

/// Page writes that are not durable yet.
#[derive(Default)]
pub(crate) struct Unsynced {
    state: Mutex<UnsyncedState>,
    /// Held during a sync; taken before `state`.
    syncing: Mutex<()>,
}

struct UnsyncedState {
    next: u64,
    /// No smaller rec_lsn is held any more: there may be a checkpoint up to here.
    floor: Lsn,
    /// Smallest rec_lsn of each write that is under way.
    writes: HashMap<u64, Lsn>,
    /// The smallest of those that are done, and of those whose sync is under way; [`Lsn::MAX`] if
    /// there are none.
    done: Lsn,
    syncing: Lsn,
    /// A checkpoint has stopped at a write that is under way.
    met: bool,
    /// Where the pages of those that are done lie.
    spaces: HashMap<SpaceId, Arc<Space>>,
}

impl Default for UnsyncedState {
    fn default() -> UnsyncedState {
        let (writes, spaces) = (HashMap::default(), HashMap::default());
        UnsyncedState { next: 0, floor: Lsn(0), writes, done: Lsn::MAX, syncing: Lsn::MAX, met: false, spaces }
    }
}

impl Unsynced {
    /// A write of pages with this smallest rec_lsn begins.
    pub(crate) fn begin(&self, rec_lsn: Lsn) -> u64 {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.writes.insert(id, rec_lsn);
        id
    }

    /// From where on an image can be relied on, unless a checkpoint begins.
    pub(crate) fn floor(&self) -> Lsn {
        self.state.lock().floor
    }

    /// The write that has begun needs the log from `rec_lsn` on until it is durable; whether it
    /// will be there.
    pub(crate) fn hold(&self, id: u64, rec_lsn: Lsn) -> bool {
        let mut state = self.state.lock();
        let granted = rec_lsn >= state.floor;
        if granted && let Some(write) = state.writes.get_mut(&id) {
            *write = rec_lsn.min(*write);
        }
        granted
    }

    /// The write will not be done, and has changed nothing. Returns whether a checkpoint has met a
    /// write.
    #[must_use = "the checkpointer may wait for a call"]
    pub(crate) fn cancel(&self, id: u64) -> bool {
        let mut state = self.state.lock();
        state.writes.remove(&id);
        std::mem::take(&mut state.met)
    }

    /// From now on no hold of the log before `lsn` is granted.
    fn raise_floor(&self, lsn: Lsn) {
        let mut state = self.state.lock();
        state.floor = state.floor.max(lsn);
    }

    /// The least of `lsn` and of what is held: from now on the log before that may be gone.
    fn claim(&self, lsn: Lsn) -> Lsn {
        let mut state = self.state.lock();
        let claimed = state.oldest().min(lsn);
        state.floor = state.floor.max(claimed);
        state.met |= state.under_way() < lsn;
        claimed
    }

    /// The write is done; its pages are in these spaces. Returns whether a checkpoint has met a
    /// write.
    #[must_use = "the checkpointer may wait for a call"]
    pub(crate) fn done<'s>(&self, id: u64, spaces: impl Iterator<Item = &'s Arc<Space>>) -> bool {
        let mut state = self.state.lock();
        let rec_lsn = state.writes.remove(&id).unwrap_or(Lsn::MAX);
        state.done = state.done.min(rec_lsn);
        for space in spaces {
            state.spaces.entry(space.id()).or_insert_with(|| space.clone());
        }
        std::mem::take(&mut state.met)
    }

    /// The space is gone: there is nothing to sync.
    pub(crate) fn forget(&self, space: SpaceId) {
        self.state.lock().spaces.remove(&space);
    }

    /// Whether writes that are done, but not durable, hold what lies before `lsn`.
    fn done_before(&self, lsn: Lsn) -> bool {
        self.state.lock().done < lsn
    }

    /// What is held; [`Lsn::MAX`] if nothing is.
    fn oldest(&self) -> Lsn {
        self.state.lock().oldest()
    }
}

impl UnsyncedState {
    fn oldest(&self) -> Lsn {
        self.under_way().min(self.done).min(self.syncing)
    }

    /// The smallest of the writes that are under way.
    fn under_way(&self) -> Lsn {
        self.writes.values().copied().min().unwrap_or(Lsn::MAX)
    }
}

/// What is stored with a checkpoint.
type Provider = Box<dyn Fn(Lsn) -> Vec<u8> + Send + Sync>;

/// The callback that gives a checkpoint its payload; none until the floor above registers it. The
/// mutex is held while a checkpoint is taken, so there is one at a time.
#[derive(Default)]
pub(crate) struct CheckpointPayload(Mutex<Option<Provider>>);

impl CheckpointPayload {
    pub(crate) fn set(&self, provider: Provider) {
        *self.0.lock() = Some(provider);
    }

    /// From now on there are no checkpoints.
    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }
}

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
    /// Of the sync, which also poisons the database.
    pub(crate) fn sync_home(&self) -> Result<()> {
        self.wal.check_poisoned()?;
        let _syncing = self.unsynced.syncing.lock();
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
            self.sync_space(space)?;
        }
        self.unsynced.state.lock().syncing = Lsn::MAX;
        Ok(())
    }

    pub(crate) fn sync_space(&self, space: &Space) -> Result<()> {
        self.wal.check_poisoned()?;
        let start = holdfast_base::time::Instant::now();
        let result = space.file.sync();
        let took = start.elapsed();
        self.metrics.record_wait(WaitClass::Sync, took);
        self.metrics.record(Timing::DataSync, took);
        result.inspect_err(|e| self.wal.poison(&format!("a sync of {} failed: {e}", space.file.name())))
    }

    /// Takes a checkpoint: makes page writes durable and tells the log where recovery may begin.
    /// Writes no pages.
    ///
    /// # Errors
    /// Of the syncs and of the log.
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
        let lsn = claimed.min(self.oldest_dirty());
        let lsn = if holdfast_base::planted!("checkpoint-passes-dirty-pages") {
            writers.min(self.wal.next_lsn())
        } else {
            lsn
        };
        if lsn > self.wal.checkpoint_lsn() {
            self.wal.set_checkpoint(lsn, &provider(lsn))?;
        }
        if lsn < claimed || self.unsynced.done_before(in_memory) {
            self.signals.wake_checkpointer();
        }
        Ok(lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_stays_behind_what_is_held() {
        let unsynced = Unsynced::default();
        let write = unsynced.begin(Lsn(70));
        assert!(unsynced.hold(write, Lsn(30)));
        unsynced.raise_floor(Lsn(60));
        assert_eq!(unsynced.claim(Lsn(90)), Lsn(30));
        assert!(unsynced.cancel(write), "the checkpoint has met it");
        assert_eq!(unsynced.claim(Lsn(90)), Lsn(90));
    }

    /// The checkpointer slept, and all users waited for room in the log.
    #[test]
    fn the_end_of_a_write_that_a_checkpoint_has_met_is_told() {
        let unsynced = Unsynced::default();
        let [old, young] = [70, 90].map(|lsn| unsynced.begin(Lsn(lsn)));
        assert_eq!(unsynced.claim(Lsn(80)), Lsn(70));
        assert!(unsynced.done(old, std::iter::empty()), "a checkpoint has met it");
        assert!(unsynced.done_before(Lsn(80)), "a checkpoint that is taken now needs another sync");
        assert!(!unsynced.done(young, std::iter::empty()), "no checkpoint has met a write since");
    }

    #[test]
    fn nobody_gets_hold_of_what_a_checkpoint_may_pass() {
        let unsynced = Unsynced::default();
        let write = unsynced.begin(Lsn(70));
        unsynced.raise_floor(Lsn(50));
        assert!(!unsynced.hold(write, Lsn(49)));
        assert_eq!(unsynced.claim(Lsn(60)), Lsn(60));
        assert!(!unsynced.hold(write, Lsn(59)) && unsynced.hold(write, Lsn(60)));
        assert_eq!((unsynced.floor(), unsynced.claim(Lsn(90))), (Lsn(60), Lsn(60)));
    }
}
