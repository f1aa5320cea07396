//! Page writes that are not durable yet, and the payload of a checkpoint: what is known between a
//! write and the checkpoint that may pass it. See `checkpoint`.

use std::sync::Arc;

use holdfast_base::HashMap;
use holdfast_base::blocking::Mutex;
use holdfast_base::{Lsn, SpaceId};

use crate::resident::space::Space;

/// Page writes that are not durable yet.
#[derive(Default)]
pub(crate) struct Unsynced {
    pub(crate) state: Mutex<UnsyncedState>,
    /// Held during a sync of files of pages, and until the poison is set if that fails; taken
    /// before `state`. Its holder takes no latch.
    pub(crate) syncing: Mutex<()>,
}

pub(crate) struct UnsyncedState {
    next: u64,
    /// No smaller rec_lsn is held any more: there may be a checkpoint up to here.
    floor: Lsn,
    /// Smallest rec_lsn of each write that is under way.
    writes: HashMap<u64, Lsn>,
    /// The smallest of those that are done, and of those whose sync is under way; [`Lsn::MAX`] if
    /// there are none.
    pub(crate) done: Lsn,
    pub(crate) syncing: Lsn,
    /// A checkpoint has stopped at a write that is under way.
    met: bool,
    /// Where the pages of those that are done lie.
    pub(crate) spaces: HashMap<SpaceId, Arc<Space>>,
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
    pub(crate) fn raise_floor(&self, lsn: Lsn) {
        let mut state = self.state.lock();
        state.floor = state.floor.max(lsn);
    }

    /// The least of `lsn` and of what is held: from now on the log before that may be gone.
    pub(crate) fn claim(&self, lsn: Lsn) -> Lsn {
        let mut state = self.state.lock();
        let claimed = state.oldest().min(lsn);
        state.floor = state.floor.max(claimed);
        state.met |= state.under_way() < lsn;
        claimed
    }

    /// The write is done; the pages that it has written are in these spaces, of which those that
    /// are discarded need no sync: kept here, their files would keep their room until the next one.
    /// Returns whether a checkpoint has met a write.
    #[must_use = "the checkpointer may wait for a call"]
    pub(crate) fn done<'s>(&self, id: u64, spaces: impl Iterator<Item = &'s Arc<Space>>) -> bool {
        let mut state = self.state.lock();
        let rec_lsn = state.writes.remove(&id).unwrap_or(Lsn::MAX);
        state.done = state.done.min(rec_lsn);
        // Under the lock: one that is discarded from here on is forgotten later.
        for space in spaces.filter(|space| !space.is_discarded()) {
            state.spaces.entry(space.id()).or_insert_with(|| space.clone());
        }
        std::mem::take(&mut state.met)
    }

    /// The space is gone: there is nothing to sync.
    pub(crate) fn forget(&self, space: SpaceId) {
        self.state.lock().spaces.remove(&space);
    }

    /// True if writes that are done, but not durable, hold what lies before `lsn`.
    pub(crate) fn done_before(&self, lsn: Lsn) -> bool {
        self.state.lock().done < lsn
    }

    /// What is held; [`Lsn::MAX`] if nothing is.
    pub(crate) fn oldest(&self) -> Lsn {
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
pub(crate) type Provider = Box<dyn Fn(Lsn) -> Vec<u8> + Send + Sync>;

/// The callback that gives a checkpoint its payload; none until the floor above registers it. The
/// mutex is held while a checkpoint is taken, so there is one at a time.
#[derive(Default)]
pub(crate) struct CheckpointPayload(pub(crate) Mutex<Option<Provider>>);

impl CheckpointPayload {
    pub(crate) fn set(&self, provider: Provider) {
        *self.0.lock() = Some(provider);
    }

    /// From now on there are no checkpoints.
    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
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

    /// A table was dropped while a batch with pages of it was being written. Its file was removed,
    /// and the end of the batch kept it open: it kept its room until the next checkpoint.
    #[cfg(not(any(loom, shuttle, miri)))]
    #[test]
    fn a_write_that_ends_behind_the_discard_of_a_space_does_not_keep_it() {
        let (pool, _wal, space) = crate::test_pool::with_space();
        let unsynced = Unsynced::default();
        let [before, behind] = [70, 90].map(|lsn| unsynced.begin(Lsn(lsn)));
        assert!(!unsynced.done(before, std::iter::once(&space)));
        assert!(unsynced.state.lock().spaces.contains_key(&space.id()), "it is to be synced");
        unsynced.forget(space.id());
        pool.close_space(&space, true).unwrap();
        assert!(!unsynced.done(behind, std::iter::once(&space)));
        assert!(unsynced.state.lock().spaces.is_empty());
    }
}
