//! The thread that rolls back losers, purges, sweeps the version tree, and frees undo pages that
//! are not needed any more.
//!
//! It is woken when there is something to do: a batch of commits waits to be purged, the end of a
//! view that held purge back, the end of a view for which versions were kept. While commits trickle
//! in slower than a batch, or committers give their logs back themselves, it looks once in a while,
//! so that an idle database is purged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::thread::{self, JoinHandle};
use holdfast_base::time::Instant;
use holdfast_base::{CommitNo, Error, Result};

use crate::mvcc::view::Sweep;
use crate::system::TxnSystem;

/// Commits between two looks at whether it is worth waking the thread, and how many must be waiting
/// for it.
const WAKE_COMMITS: usize = 64;
/// Undo records purged at a time. With more sessions than cores the kernel preempts this thread in
/// the middle of a batch, and until it runs again no committer can purge: a long batch would let
/// thousands of logs wait, each on a page of its own.
const BATCH: usize = 64;
/// How long a few commits may lie before they are purged.
const IDLE: Duration = Duration::from_millis(200);
/// A page that no transaction has needed for so long is idle.
const IDLE_UNDO: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Signal {
    wake: bool,
    stop: bool,
    /// There may be something to purge, so an idle thread looks again after a while.
    pending: bool,
}

impl Signal {
    /// Notes that there may be something to purge. Returns whether the thread has to be told: else
    /// it looks again anyway. Told in its sleep it would look at once, and find one commit each
    /// time.
    fn falls_due(&mut self) -> bool {
        !std::mem::replace(&mut self.pending, true)
    }
}

/// The thread and how it is told.
#[derive(Debug)]
pub(crate) struct Background {
    signal: Arc<(Mutex<Signal>, Condvar)>,
    /// The thread knows that a transaction has committed since it last looked for work.
    told: AtomicBool,
    sweep: Mutex<Sweep>,
    thread: Mutex<Option<JoinHandle<()>>>,
    last_error: Mutex<Option<Error>>,
}

impl Background {
    pub fn new() -> Background {
        Background {
            signal: Arc::default(),
            told: AtomicBool::new(false),
            // Whatever an earlier run left in the version tree.
            sweep: Mutex::new(Sweep::All),
            thread: Mutex::new(None),
            last_error: Mutex::new(None),
        }
    }

    pub fn start(&self, system: &Arc<TxnSystem>) -> Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Ok(());
        }
        let (weak, signal) = (Arc::downgrade(system), Arc::clone(&self.signal));
        let spawned = thread::spawn("holdfast-purge", move || run(&weak, &signal));
        *thread = Some(spawned.map_err(|e| Error::io("start", "the purge thread", e))?);
        Ok(())
    }

    /// Tells the thread that there may be something to do.
    pub fn wake(&self) {
        self.signal.0.lock().wake = true;
        self.signal.1.notify_one();
    }

    /// Commit number `no` is done, and `waiting` says how many wait for purge: wakes the thread
    /// once a batch has come together. Nearly all commits only load a flag here: what each of them
    /// wrote to would go from core to core.
    pub fn committed(&self, no: CommitNo, waiting: impl FnOnce() -> usize) {
        let is_news = !self.told.load(Ordering::Relaxed) && !self.told.swap(true, Ordering::Relaxed);
        if is_news && self.signal.0.lock().falls_due() {
            self.signal.1.notify_one();
        }
        if no.0.is_multiple_of(WAKE_COMMITS as u64) && waiting() >= WAKE_COMMITS {
            self.wake();
        }
    }

    /// Asks for something in the version tree to be looked at, and wakes the thread.
    pub fn request_sweep(&self, sweep: Sweep) {
        if sweep != Sweep::Nothing {
            self.sweep.lock().add(sweep);
            self.wake();
        }
    }

    pub fn take_sweep_request(&self) -> Sweep {
        std::mem::take(&mut *self.sweep.lock())
    }

    /// Notes what went wrong.
    pub fn failed(&self, error: Error) {
        *self.last_error.lock() = Some(error);
    }

    /// What went wrong last in the background, if anything did.
    pub fn last_error(&self) -> Option<Error> {
        self.last_error.lock().clone()
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        self.signal.0.lock().stop = true;
        self.signal.1.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && !thread.is_this_thread()
        {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Rolls back and purges what there is, and frees idle undo pages if the last time (`looked`) is
/// long enough ago. Returns true if that should be tried again even if no transaction commits.
fn work(system: &TxnSystem, looked: &mut Instant) -> Result<bool> {
    // What fails in one of these must not keep the others from their work.
    let rolled_back = system.roll_back_losers();
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

fn run(system: &Weak<TxnSystem>, signal: &(Mutex<Signal>, Condvar)) {
    let mut looked = Instant::now();
    loop {
        {
            let Some(system) = system.upgrade() else { return };
            match work(&system, &mut looked) {
                Ok(more) => signal.0.lock().pending |= more,
                Err(e) => {
                    // It is tried again though no transaction commits: the rows of a transaction
                    // that could not be rolled back are locked, and a disk that was full may have
                    // room by then.
                    signal.0.lock().pending |= !matches!(e, Error::Poisoned(_) | Error::Closed(_));
                    system.background.failed(e);
                }
            }
            system.background.told.store(false, Ordering::Relaxed);
        }
        let mut state = signal.0.lock();
        while !state.wake && !state.stop {
            if state.pending {
                signal.1.wait_for(&mut state, IDLE);
                break;
            }
            signal.1.wait(&mut state);
        }
        if state.stop {
            return;
        }
        (state.wake, state.pending) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It used to be told of each commit that it had not seen: while one session committed, it was
    /// woken for every one.
    #[test]
    fn who_looks_again_anyway_is_not_told() {
        let mut signal = Signal::default();
        assert!(signal.falls_due(), "it waits until it is told");
        assert!(!signal.falls_due(), "it looks again after a while");
    }
}
