//! Flushes the log within about a second of a commit that does not wait for that
//! ([`crate::FlushAtCommit::Lazy`] and [`crate::FlushAtCommit::Write`]). This is the only timer of
//! the crate, and no thread waits for it.
//!
//! 1. A commit *requests* a flush after its append. The first request starts the thread.
//! 2. The thread waits for a request, then for [`PERIOD`], lowers the mark of the request, and
//!    flushes all that has been appended by then. Without requests it sleeps.
//! 3. A commit that finds the [mark](FlushMark) raised does nothing.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::thread::{self, JoinHandle};

use crate::flush_mark::FlushMark;

const PERIOD: Duration = Duration::from_secs(1);

/// How a flush has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    Done,
    /// It has to be tried again in the next period.
    Again,
    /// There is no log any more.
    Gone,
}

#[derive(Default)]
struct State {
    requested: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Spares commits the mutex.
    mark: FlushMark,
}

/// The thread, if it runs.
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Flusher {
    pub fn new() -> Flusher {
        Flusher { shared: Arc::default(), thread: Mutex::new(None) }
    }

    /// True if what the caller has appended will be flushed without a request.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.shared.mark.is_raised()
    }

    /// Requests a flush of what the caller has appended. Starts the thread, which calls `flush`,
    /// unless it runs, or has been stopped. Returns false if the system cannot start it.
    pub fn request(&self, flush: impl Fn() -> Flushed + Send + 'static) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() && !self.shared.state.lock().stop {
            let shared = self.shared.clone();
            let Ok(started) = thread::spawn("holdfast-log", move || run(&shared, &flush)) else { return false };
            *thread = Some(started);
        }
        drop(thread);
        self.shared.request();
        true
    }

    /// Ends the thread. It is not started again.
    pub fn stop(&self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(handle) = thread {
            // The last owner of a log may be its flusher, which cannot join itself.
            if !handle.is_this_thread() {
                // The panic hook has reported a panic of the thread.
                let _ = handle.join();
            }
        }
    }
}

impl Shared {
    fn request(&self) {
        if self.mark.raise() {
            self.state.lock().requested = true;
            self.changed.notify_all();
        }
    }

    /// Waits until a flush is due, a period after its request. False if the thread is to end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.requested && !state.stop {
            self.changed.wait(&mut state);
        }
        if !state.stop {
            self.changed.wait_for(&mut state, PERIOD);
        }
        state.requested = false;
        !state.stop
    }
}

fn run(shared: &Shared, flush: &impl Fn() -> Flushed) {
    while shared.wait() {
        shared.mark.lower();
        match flush() {
            Flushed::Done => {}
            Flushed::Again => shared.request(),
            Flushed::Gone => return,
        }
    }
}
