//! What wakes the background threads of `cleaner`, each for its own work.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::blocking::{Condvar, Mutex};

use crate::write::batch::Secured;

#[derive(Default)]
struct Work {
    clean: bool,
    /// The cleaner is at work on the last request.
    cleaning: bool,
    checkpoint: bool,
    home: VecDeque<Secured>,
    stopped: bool,
}

/// What wakes the background threads, each for its own work.
#[derive(Default)]
pub(crate) struct Signals {
    work: Mutex<Work>,
    for_cleaner: Condvar,
    for_checkpointer: Condvar,
    for_finisher: Condvar,
    /// True if `clean` is set already: spares evictions the mutex.
    clean: AtomicBool,
    checkpoint: AtomicBool,
}

impl Signals {
    /// Evictions go on while pages are dirty.
    pub(crate) fn wake_cleaner(&self) {
        if !self.clean.load(Ordering::Relaxed) && !self.clean.swap(true, Ordering::SeqCst) {
            self.work.lock().clean = true;
            self.for_cleaner.notify_one();
        }
    }

    /// The log has grown, or a thread waits for log space.
    pub(crate) fn wake_checkpointer(&self) {
        if !self.checkpoint.load(Ordering::Relaxed) && !self.checkpoint.swap(true, Ordering::SeqCst) {
            self.work.lock().checkpoint = true;
            self.for_checkpointer.notify_one();
        }
    }

    /// Gives a batch to the finisher; gives it back if that has stopped.
    pub(crate) fn hand_over(&self, batch: Secured) -> Option<Secured> {
        let mut work = self.work.lock();
        if work.stopped {
            return Some(batch);
        }
        work.home.push_back(batch);
        drop(work);
        self.for_finisher.notify_one();
        None
    }

    /// All background threads end when they have done what they have begun.
    pub(crate) fn stop(&self) {
        self.work.lock().stopped = true;
        for thread in [&self.for_cleaner, &self.for_checkpointer, &self.for_finisher] {
            thread.notify_all();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.work.lock().stopped
    }

    /// Waits for work of one kind; `None` at the end.
    fn next<T>(&self, changed: &Condvar, take: impl Fn(&mut Work) -> Option<T>) -> Option<T> {
        let mut work = self.work.lock();
        loop {
            if let Some(found) = take(&mut work) {
                return Some(found);
            }
            if work.stopped {
                return None;
            }
            changed.wait(&mut work);
        }
    }

    pub(crate) fn next_clean(&self) -> Option<()> {
        self.next(&self.for_cleaner, |work| {
            let request = Self::take(&mut work.clean, &self.clean, work.stopped);
            work.cleaning = request.is_some();
            request
        })
    }

    /// True if the cleaner has no request, and is at work on none.
    pub(crate) fn cleaner_rests(&self) -> bool {
        let work = self.work.lock();
        !work.clean && !work.cleaning
    }

    pub(crate) fn next_checkpoint(&self) -> Option<()> {
        self.next(&self.for_checkpointer, |work| Self::take(&mut work.checkpoint, &self.checkpoint, work.stopped))
    }

    pub(crate) fn next_batch(&self) -> Option<Secured> {
        self.next(&self.for_finisher, |work| work.home.pop_front())
    }

    /// Takes a request. The flag is lowered first: a thread that still found it raised is served by
    /// what follows now, and one that raises it again sets the request again.
    fn take(request: &mut bool, flag: &AtomicBool, stopped: bool) -> Option<()> {
        flag.store(false, Ordering::SeqCst);
        (std::mem::take(request) && !stopped).then_some(())
    }
}
