//! A thread in a wait queue, which is woken individually.
//!
//! The owner of the queue wakes exactly the waiters that may go on. A served waiter returns without
//! the queue's lock.

use std::sync::Arc;

use crate::sync::Parking;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Why a [`Waiter`] is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wake {
    /// The waiter must check again whether it can go on.
    Called = 1,
    /// The waiter has what it waited for, and has been taken out of the queue.
    Served = 2,
}

const ASLEEP: u32 = 0;

/// A waiting thread; see the module. `T` is what it waits for.
#[derive(Debug)]
pub struct Waiter<T> {
    /// What the thread waits for.
    pub wants: T,
    thread: Parking,
    /// [`ASLEEP`], or a [`Wake`].
    woken: AtomicU32,
}

impl<T> Waiter<T> {
    /// Returns a waiter for the calling thread, which will [sleep](Waiter::sleep).
    #[must_use]
    pub fn new(wants: T) -> Arc<Waiter<T>> {
        Arc::new(Waiter { wants, thread: Parking::of_this_thread(), woken: AtomicU32::new(ASLEEP) })
    }

    /// Wakes the thread, or ends its next sleep at once. A waiter is not called after it has been
    /// served.
    pub fn wake(&self, why: Wake) {
        self.woken.store(why as u32, Ordering::Release);
        self.thread.unpark();
    }

    /// Parks until woken. Returns at once if a wake-up came since the last sleep. Returns the
    /// reason.
    pub fn sleep(&self) -> Wake {
        const CALLED: u32 = Wake::Called as u32;
        loop {
            match self.woken.load(Ordering::Acquire) {
                // May also return without a reason, or for a wake-up of an earlier sleep.
                ASLEEP => self.thread.park(),
                // The waiter may be served at this moment; that must not be overwritten.
                CALLED => {
                    let _ = self.woken.compare_exchange(CALLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
                    return Wake::Called;
                }
                _ => return Wake::Served,
            }
        }
    }
}
