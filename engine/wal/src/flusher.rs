//! Syncs the log about once a second for the commits that do not wait for it
//! ([`crate::FlushAtCommit::Lazy`] and [`crate::FlushAtCommit::Write`]). The thread does not run
//! while commits sync themselves. This is the only timer of the crate, and no thread waits for it.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::thread::{self, JoinHandle};

const PERIOD: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Shared {
    stop: Mutex<bool>,
    stopped: Condvar,
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

    /// Starts the thread unless it runs, or has been stopped. It calls `flush` once in a period
    /// until that returns false. Returns false if the system cannot start a thread.
    pub fn start(&self, flush: impl Fn() -> bool + Send + 'static) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_some() || *self.shared.stop.lock() {
            return true;
        }
        let shared = self.shared.clone();
        *thread = thread::spawn("holdfast-log", move || run(&shared, &flush)).ok();
        thread.is_some()
    }

    /// Ends the thread. It is not started again.
    pub fn stop(&self) {
        *self.shared.stop.lock() = true;
        self.shared.stopped.notify_all();
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

fn run(shared: &Shared, flush: &impl Fn() -> bool) {
    loop {
        {
            let mut stop = shared.stop.lock();
            if !*stop {
                shared.stopped.wait_for(&mut stop, PERIOD);
            }
            if *stop {
                return;
            }
        }
        if !flush() {
            return;
        }
    }
}
