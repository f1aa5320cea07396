//! Which log the pages still need, and making page writes durable.
//!
//! A page that was written to its file is clean, and may be evicted, at once. But its changes are durable only when
//! the file has been synced: until then the write's smallest rec_lsn stands in [`Unsynced`] and holds the checkpoint,
//! and its slots in the double-write file are not reused.
//!
//! **Order.** A write enters `Unsynced` before its pages leave the dirty sets, and [`Core::oldest_dirty`] looks at
//! the dirty sets first. The checkpoint asks the log for its oldest writer before that: a mini-transaction is in a
//! writer slot until its pages are in the dirty sets.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use holdfast_base::{Lsn, Result, SpaceId};
use holdfast_metrics::{Timing, WaitClass};
use parking_lot::Mutex;

use crate::core::Core;
use crate::space::Space;

/// Page writes that are not durable yet.
#[derive(Default)]
pub(crate) struct Unsynced {
    state: Mutex<UnsyncedState>,
    /// Held during a sync; taken before `state`.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct UnsyncedState {
    next: u64,
    /// Smallest rec_lsn of each write, and whether it is done.
    writes: BTreeMap<u64, (Lsn, bool)>,
    spaces: HashMap<SpaceId, Arc<Space>>,
}

impl Unsynced {
    /// A write of pages with this smallest rec_lsn begins.
    pub(crate) fn begin(&self, rec_lsn: Lsn) -> u64 {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.writes.insert(id, (rec_lsn, false));
        id
    }

    /// The write is done; its pages are in these spaces.
    pub(crate) fn done<'s>(&self, id: u64, spaces: impl Iterator<Item = &'s Arc<Space>>) {
        let mut state = self.state.lock();
        if let Some(write) = state.writes.get_mut(&id) {
            write.1 = true;
        }
        for space in spaces {
            state.spaces.entry(space.id()).or_insert_with(|| space.clone());
        }
    }

    /// The space is gone: there is nothing to sync.
    pub(crate) fn forget(&self, space: SpaceId) {
        self.state.lock().spaces.remove(&space);
    }

    fn oldest(&self) -> Option<Lsn> {
        self.state.lock().writes.values().map(|&(lsn, _)| lsn).min()
    }
}

/// What is stored with a checkpoint.
type Provider = Box<dyn Fn(Lsn) -> Vec<u8> + Send + Sync>;

/// The callback that gives a checkpoint its payload; none until the floor above registers it. The mutex is held while a
/// checkpoint is taken, so there is one at a time.
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
    /// No change logged before this LSN is missing on disk, but for those of mini-transactions that are still in their
    /// writer slots. [`Lsn::MAX`] if no page is dirty.
    pub(crate) fn oldest_dirty(&self) -> Lsn {
        let dirty = self.oldest_in_memory();
        dirty.min(self.unsynced.oldest().unwrap_or(Lsn::MAX))
    }

    /// The same but for writes that are done and not durable: those of the pages that are still to be written.
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
        let (done, spaces) = {
            let mut state = self.unsynced.state.lock();
            let done: Vec<u64> = state.writes.iter().filter(|(_, w)| w.1).map(|(&id, _)| id).collect();
            let spaces: Vec<Arc<Space>> =
                if done.is_empty() { Vec::new() } else { std::mem::take(&mut state.spaces).into_values().collect() };
            (done, spaces)
        };
        for space in &spaces {
            self.sync_space(space)?;
        }
        let mut state = self.unsynced.state.lock();
        for id in done {
            state.writes.remove(&id);
        }
        Ok(())
    }

    pub(crate) fn sync_space(&self, space: &Space) -> Result<()> {
        self.wal.check_poisoned()?;
        let start = std::time::Instant::now();
        let result = space.file.sync();
        let took = start.elapsed();
        self.metrics.record_wait(WaitClass::Sync, took);
        self.metrics.record(Timing::DataSync, took);
        result.inspect_err(|e| self.wal.poison(&format!("a sync of {} failed: {e}", space.file.name())))
    }

    /// Takes a checkpoint: makes page writes durable and tells the log where recovery may begin. Writes no pages.
    ///
    /// # Errors
    /// Of the syncs and of the log.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        let payload = self.payload.0.lock();
        let Some(provider) = payload.as_ref() else { return Ok(self.wal.checkpoint_lsn()) };
        self.sync_home()?;
        // In this order: see the module's description.
        let writers = self.wal.oldest_writer();
        let lsn = writers.min(self.oldest_dirty());
        if lsn > self.wal.checkpoint_lsn() {
            self.wal.set_checkpoint(lsn, &provider(lsn))?;
        }
        Ok(lsn)
    }
}
