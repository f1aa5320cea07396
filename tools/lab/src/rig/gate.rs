//! The gate where sessions wait while nothing may happen.
//!
//! A thread that leaves a [`std::sync::Barrier`] or a condition takes its mutex, one after the
//! other, while the first ones already work: of a thousand sessions on two cores the last one would
//! begin half a minute after the first. So they park, and one thread wakes all of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;

use parking_lot::Mutex;

/// A gate, closed at first. One thread at a time opens and closes it.
pub struct Gate {
    closed: AtomicBool,
    /// Sessions that are there, and those of them that wait at the gate.
    sessions: AtomicUsize,
    waiting: AtomicUsize,
    /// The thread that opens or closes the gate.
    keeper: Mutex<Thread>,
}

impl Gate {
    /// A closed gate without sessions.
    pub fn new() -> Gate {
        let keeper = Mutex::new(std::thread::current());
        Gate { closed: AtomicBool::new(true), sessions: AtomicUsize::new(0), waiting: AtomicUsize::new(0), keeper }
    }

    /// There is one more session.
    pub fn enter(&self) {
        self.sessions.fetch_add(1, Ordering::AcqRel);
    }

    /// A session has ended.
    pub fn leave(&self) {
        self.sessions.fetch_sub(1, Ordering::AcqRel);
        self.keeper.lock().unpark();
    }

    /// Called by a session: waits while the gate is closed, until `stop` is set and the thread is
    /// woken. False if `stop` is set.
    pub fn pass(&self, stop: &AtomicBool) -> bool {
        if self.closed.load(Ordering::Acquire) {
            let waiting = self.waiting.fetch_add(1, Ordering::AcqRel) + 1;
            if waiting >= self.sessions.load(Ordering::Acquire) {
                self.keeper.lock().unpark();
            }
            while self.closed.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
                std::thread::park();
            }
            if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.keeper.lock().unpark();
            }
        }
        !stop.load(Ordering::Acquire)
    }

    /// Closes the gate.
    pub fn shut(&self) {
        self.keep();
        self.closed.store(true, Ordering::Release);
    }

    /// Closes the gate, and returns when every session waits at it.
    pub fn close(&self) {
        self.shut();
        while self.waiting.load(Ordering::Acquire) < self.sessions.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    /// Opens the gate, and returns when `sessions`, which wait at it, have passed. What is measured
    /// from then on has the work of all.
    pub fn open<'t>(&self, sessions: impl Iterator<Item = &'t Thread>) {
        self.keep();
        self.closed.store(false, Ordering::Release);
        sessions.for_each(Thread::unpark);
        while self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::park();
        }
    }

    fn keep(&self) {
        *self.keeper.lock() = std::thread::current();
    }
}
