//! The work of the background thread: it rolls back losers, purges, sweeps the version tree, and
//! frees undo pages that are idle. How it is woken is in [`crate::purge::background`].

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::time::Instant;
use holdfast_base::{CommitNo, Result, thread};
use holdfast_pool::AccessKind;

use crate::system::TxnSystem;

/// Undo records purged at a time. With more sessions than cores the kernel preempts this thread in
/// the middle of a batch, and until it runs again no committer can purge: a long batch would let
/// thousands of logs wait, each on a page of its own.
const BATCH: usize = 64;
/// A page that no transaction has needed for so long is idle.
const IDLE_UNDO: Duration = Duration::from_secs(1);

impl TxnSystem {
    /// Starts the thread that rolls back losers and purges, if the configuration wants one. All
    /// indexes must have been registered.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(self: &Arc<Self>) -> Result<()> {
        if !self.config.background {
            return Ok(());
        }
        let (system, mut looked) = (Arc::downgrade(self), Instant::now());
        self.purger.background.start(move || {
            let Some(system) = system.upgrade() else { return false };
            system.purger.background.worked(work(&system, &mut looked));
            true
        })
    }

    /// Purges about `limit` undo records, as far as views allow, and goes on with the sweep of the
    /// version tree. Returns how much was done: records, and one for each log that was freed; 0 if
    /// there is nothing to do.
    ///
    /// # Errors
    /// The errors of reading and writing pages. What was not purged is purged later.
    pub fn purge(&self, limit: usize) -> Result<usize> {
        self.purger.purge(limit)
    }

    /// Purges what the commits up to `last` have left, as far as views allow. Those behind it are
    /// left alone: they may come faster than they go.
    ///
    /// # Errors
    /// The errors of [`TxnSystem::purge`].
    pub fn purge_up_to(&self, last: CommitNo) -> Result<()> {
        self.purger.purge_up_to(last)
    }

    /// Frees first pages of undo logs that no transaction has needed since the last call: a crowd
    /// of transactions, or a long wait for a view, is over. Half of them at a time, so that a load
    /// that comes and goes keeps its pages. Returns true if there may be more to free later.
    ///
    /// # Errors
    /// The errors of the log and of reading pages; the logs stay free then.
    pub fn give_back_idle_undo(&self) -> Result<bool> {
        self.undo.remove_idle_logs(&self.store.pool().access(AccessKind::Purge))
    }

    /// Stops the background thread. Open transactions can still end; purge goes on when the
    /// database is opened again.
    pub fn shutdown(&self) {
        self.purger.background.stop();
    }
}

/// Rolls back and purges what there is, and frees idle undo pages if the last time (`looked`) is
/// long enough ago. Returns true if that should be tried again even if no transaction commits.
fn work(system: &TxnSystem, looked: &mut Instant) -> Result<bool> {
    // What fails in one of these must not keep the others from their work.
    let rolled_back = system.roll_back_losers();
    if holdfast_base::planted!("losers-stop-purge") && rolled_back.is_err() {
        return rolled_back.map(|_| true);
    }
    let (mut purged, mut given_back, mut more) = (Ok(0), Ok(()), true);
    while !system.purger.background.is_stopping() {
        purged = system.purge(BATCH);
        if looked.elapsed() >= IDLE_UNDO {
            *looked = Instant::now();
            given_back = system.give_back_idle_undo().map(|may| more = may);
        }
        if !matches!(purged, Ok(1..)) {
            break;
        }
        // The thread yields here, where it holds nothing: preempted inside, it would keep the
        // committers out.
        thread::yield_now();
    }
    rolled_back.and(purged).and(given_back)?;
    // The end of the view that needs what is on the shelf, or that holds back a few logs, wakes no
    // thread.
    let waits = system.purger.history.len() > 0 && !holdfast_base::planted!("few-logs-wait-for-a-commit");
    Ok(more || waits || !system.purger.shelf.is_empty())
}
