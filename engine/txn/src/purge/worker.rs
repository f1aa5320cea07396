//! The work of the background thread: it rolls back losers, purges, sweeps the version tree, and
//! frees undo pages that are idle. How it is woken is in [`crate::purge::background`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_base::time::Instant;
use holdfast_base::{Result, thread};

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
        self.background.start(move || {
            let Some(system) = system.upgrade() else { return false };
            system.background.worked(work(&system, &mut looked));
            true
        })
    }

    /// Stops the background thread. Open transactions can still end; purge goes on when the
    /// database is opened again.
    pub fn shutdown(&self) {
        self.closing.store(true, Ordering::Release);
        self.background.stop();
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
    while !system.closing.load(Ordering::Acquire) {
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
    // The end of the view that needs what is on the shelf wakes no thread.
    Ok(more || !system.shelf.is_empty())
}
