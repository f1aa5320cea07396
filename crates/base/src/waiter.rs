//! A thread that stands in somebody's line, and is woken by itself.
//!
//! Whoever keeps the line wakes exactly those who may go on; nobody has to take the line's lock to
//! find out that it was served.

use std::sync::Arc;

use crate::sync::Parking;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Why a [`Waiter`] was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wake {
    /// It is to look for itself.
    Called = 1,
    /// It has what it waited for, and is not in line any more.
    Served = 2,
}

const ASLEEP: u32 = 0;

/// See the module. `T` is what it waits for.
#[derive(Debug)]
pub struct Waiter<T> {
    /// What it waits for.
    pub wants: T,
    thread: Parking,
    /// [`ASLEEP`], or a [`Wake`].
    woken: AtomicU32,
}

impl<T> Waiter<T> {
    /// The calling thread, which is to [sleep](Waiter::sleep).
    #[must_use]
    pub fn new(wants: T) -> Arc<Waiter<T>> {
        Arc::new(Waiter { wants, thread: Parking::of_this_thread(), woken: AtomicU32::new(ASLEEP) })
    }

    /// Wakes it, or lets its next sleep end at once. Who was served is not called any more.
    pub fn wake(&self, why: Wake) {
        self.woken.store(why as u32, Ordering::Release);
        self.thread.unpark();
    }

    /// Sleeps until it is woken, or not at all if it was since the last time. Returns why.
    pub fn sleep(&self) -> Wake {
        const CALLED: u32 = Wake::Called as u32;
        loop {
            match self.woken.load(Ordering::Acquire) {
                // Also returns without reason, or for one of an earlier sleep.
                ASLEEP => self.thread.park(),
                // It may be served just now, which is not to be overwritten.
                CALLED => {
                    let _ = self.woken.compare_exchange(CALLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
                    return Wake::Called;
                }
                _ => return Wake::Served,
            }
        }
    }
}
