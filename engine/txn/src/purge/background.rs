//! How the background thread of a transaction system is woken, and what it reports.
//!
//! The thread is woken when there is something to do: a batch of commits waits to be purged, a view
//! that held purge back has ended, or one for which versions were kept. While commits come slower
//! than a batch, or committers retire their logs themselves, the thread looks for work at
//! intervals, so that an idle database is purged. What it does is in [`crate::purge::worker`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::thread::{self, JoinHandle};
use holdfast_base::{CommitNo, Error, Result};

use crate::mvcc::sweep::Sweep;

/// Commits between two looks at whether it is worth waking the thread, and how many must be waiting
/// for it.
const WAKE_COMMITS: usize = 64;
/// How long a few commits may lie before they are purged.
const IDLE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Signal {
    wake: bool,
    /// The thread is to end; it asks between pieces of work.
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

    /// Starts the thread, unless it runs. It calls `work` when it is woken, and ends when `work`
    /// returns false.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(&self, work: impl FnMut() -> bool + Send + 'static) -> Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Ok(());
        }
        let signal = Arc::clone(&self.signal);
        let spawned = thread::spawn("holdfast-purge", move || run(&signal, work));
        *thread = Some(spawned.map_err(|e| Error::io("start", "the purge thread", e))?);
        Ok(())
    }

    /// The thread has looked for work. `result`: whether to look again even if no transaction
    /// commits.
    pub fn worked(&self, result: Result<bool>) {
        // The last of the commits of which the thread was told may have come after its look.
        if self.told.swap(false, Ordering::AcqRel) {
            self.signal.0.lock().pending = true;
        }
        match result {
            Ok(more) => self.signal.0.lock().pending |= more,
            Err(e) => {
                // It is tried again though no transaction commits: the rows of a transaction that
                // could not be rolled back are locked, and a disk that was full may have room by
                // then.
                self.signal.0.lock().pending |= !matches!(e, Error::Poisoned(_) | Error::Closed(_));
                self.failed(e);
            }
        }
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

    /// True if the thread is to end.
    pub fn is_stopping(&self) -> bool {
        self.signal.0.lock().stop
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

/// Works until `work` returns false or the thread is stopped.
fn run(signal: &(Mutex<Signal>, Condvar), mut work: impl FnMut() -> bool) {
    while work() {
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

    /// The thread did not look again, and the log of the commit stayed until the next one.
    #[test]
    fn a_commit_behind_the_last_look_is_looked_for() {
        let background = Background::new();
        background.committed(CommitNo(1), || 1);
        *background.signal.0.lock() = Signal::default(); // The thread wakes, and looks.
        background.committed(CommitNo(2), || 1);
        background.worked(Ok(false));
        assert!(background.signal.0.lock().pending);
        *background.signal.0.lock() = Signal::default();
        background.worked(Ok(false));
        assert!(!background.signal.0.lock().pending, "nothing has come meanwhile");
    }

    /// While one session commits, the thread is not woken for each commit.
    #[test]
    fn a_thread_that_looks_again_anyway_is_not_told() {
        let mut signal = Signal::default();
        assert!(signal.falls_due(), "it waits until it is told");
        assert!(!signal.falls_due(), "it looks again after a while");
    }
}
