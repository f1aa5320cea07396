//! What a cursor needs to lock its entries.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::sync::Mutex;
use holdfast_base::{Result, TxnId};
use holdfast_lock::{CoverId, KeyRange, LockMode, LockWait, Owner, Reading};
use holdfast_tree::Direction;

use crate::cursor::options::CursorOptions;
use crate::entry::index::TableIndex;
use crate::entry::last_read::ForCursors;
use crate::entry::locked::EarlyRelease;
use crate::mvcc::commit_map::Moment;
use crate::options::Isolation;
use crate::system::TxnSystem;
use crate::txn::Txn;

/// What a cursor that locks its entries needs for that.
pub(super) struct Locking {
    pub(super) mode: LockMode,
    pub(super) wait: LockWait,
    /// The range that it keeps locked and how far it has come; none where nothing is kept out, and
    /// where a range that the transaction has read stands for it.
    pub(super) reading: Option<Arc<Reading>>,
    pub(super) first_updater_wins: bool,
    /// Others are kept out of what is read: until the transaction ends, or, with `gives_up`, while
    /// the cursor reads.
    pub(super) keep: bool,
    /// See [`CursorOptions::linked`].
    pub(super) gives_up: bool,
    /// The place where the last entry was read, so that the transaction can change it there, and
    /// the transaction's view.
    pub(super) shared: Arc<Mutex<ForCursors>>,
    /// Of the lock of the entry given last.
    pub(super) early_release: EarlyRelease,
    /// See [`CursorOptions::committed_if_locked`].
    pub(super) committed_if_locked: bool,
    /// The entry given last is such a one.
    pub(super) is_unlocked: bool,
    /// Entries locked one by one since the last that another transaction had or waited for.
    pub(super) locked: usize,
    /// Locks the entries that follow.
    pub(super) cover: Option<CoverId>,
    pub(super) batch: BatchMoment,
}

/// When a batch was read: what others have put into the index since is not in it.
#[derive(Clone, Copy)]
pub(super) struct BatchMoment {
    moment: Moment,
    /// How often the transaction had waited.
    pub(super) waits: u64,
}

impl BatchMoment {
    fn now(system: &TxnSystem, owner: &Owner) -> BatchMoment {
        BatchMoment { moment: system.map.moment(), waits: owner.waited() }
    }

    /// True if the transaction has committed since, or may have.
    pub(super) fn is_before_commit_of(self, writer: TxnId, system: &TxnSystem) -> bool {
        system.map.is_doubtful(writer, self.moment)
    }
}

impl Locking {
    /// A batch is going to be read.
    pub(super) fn begin_batch(&mut self, system: &TxnSystem, owner: &Owner) {
        if !self.keep {
            self.batch = BatchMoment::now(system, owner);
        }
    }

    /// True if entries may be locked as one: not where some are passed over or unlocked again, as
    /// other reads of the transaction do at READ COMMITTED.
    pub(super) fn may_cover(&self) -> bool {
        self.keep && !self.gives_up && self.wait != LockWait::SkipLocked
    }
}

impl Txn {
    /// What a cursor over a range needs to lock its entries; registers the range.
    pub(super) fn locking(
        &mut self,
        index: &TableIndex,
        mode: LockMode,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        options: CursorOptions,
    ) -> Result<Locking> {
        let first_updater_wins = self.first_updater_wins();
        let shared = Arc::clone(self.for_cursors.get_or_insert_default());
        if first_updater_wins && let Some(view) = &self.view {
            shared.lock().view.get_or_insert_with(|| view.share());
        }
        let wait = options.wait.unwrap_or(self.wait_mode());
        let is_read_committed = self.options.isolation == Isolation::ReadCommitted;
        let gives_up = is_read_committed && options.linked;
        let keep = !is_read_committed || options.linked;
        let is_planted = holdfast_base::planted!("index-range-not-locked") && index.rows_led_to().is_some();
        let backwards = options.direction == Direction::Reverse;
        let reading = if keep && !is_planted {
            self.system.locks.begin_reading(self.owner(), index.id(), KeyRange::new(from, to), backwards, wait)?
        } else {
            None
        };
        let old = holdfast_base::planted!("locking-read-of-an-old-version") && mode == LockMode::Shared;
        let committed_if_locked = options.committed_if_locked && !keep && wait != LockWait::SkipLocked || old;
        Ok(Locking {
            mode,
            wait,
            reading,
            first_updater_wins,
            keep,
            gives_up,
            shared,
            early_release: EarlyRelease::Nothing,
            committed_if_locked,
            is_unlocked: false,
            locked: 0,
            cover: None,
            batch: BatchMoment::now(&self.system, self.owner()),
        })
    }
}
