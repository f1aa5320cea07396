//! The primitives that latches, the log buffer and translation are built of: `std` and
//! `parking_lot` normally, loom's or shuttle's under `--cfg loom` / `--cfg shuttle`, and the
//! scheduler's under `--cfg sim`. So the checkers explore the real code.
//!
//! Only code that is model-checked uses this module; everything else uses
//! [`blocking`](crate::blocking). [`Mutex`] does not poison. [`Condvar::wait`] takes the guard and
//! returns it, as `std`'s does.

#[cfg(not(any(loom, shuttle)))]
mod imp {
    use std::time::Duration;

    pub use crate::blocking::{Mutex, MutexGuard, RwLock};
    #[cfg(sim)]
    pub use crate::sim::{atomic, spin_loop, yield_now};
    #[cfg(not(sim))]
    pub use std::hint::spin_loop;
    #[cfg(not(sim))]
    pub use std::sync::atomic;
    #[cfg(not(sim))]
    pub use std::thread::yield_now;

    pub use std::sync::OnceLock;

    /// A condition variable.
    #[derive(Debug, Default)]
    pub struct Condvar(crate::blocking::Condvar);

    impl Condvar {
        /// A condition variable without waiters.
        #[must_use]
        pub const fn new() -> Condvar {
            Condvar(crate::blocking::Condvar::new())
        }
        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }
        /// Wakes all waiters.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
        /// Releases the mutex, waits, and acquires it again.
        pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }
        /// As [`Condvar::wait`], for at most `limit`. The flag is true if the limit has passed.
        pub fn wait_for<'a, T>(&self, mut guard: MutexGuard<'a, T>, limit: Duration) -> (MutexGuard<'a, T>, bool) {
            let timed_out = self.0.wait_for(&mut guard, limit).timed_out();
            (guard, timed_out)
        }
    }
}

#[cfg(any(loom, shuttle))]
mod imp {
    use std::time::Duration;

    #[cfg(loom)]
    use loom as checker;
    #[cfg(shuttle)]
    use shuttle as checker;

    #[cfg(loom)]
    pub use crate::loom_atomic as atomic;
    pub use checker::hint::spin_loop;
    #[cfg(shuttle)]
    pub use checker::sync::atomic;
    pub use checker::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    pub use checker::thread::yield_now;

    const NO_PANIC: &str = "checked code does not panic under a lock";

    /// The checker's mutex without poisoning.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(checker::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// A free mutex around `value`.
        pub fn new(value: T) -> Mutex<T> {
            Mutex(checker::sync::Mutex::new(value))
        }
        /// Waits for the mutex.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect(NO_PANIC)
        }
        /// Takes the mutex if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// The checker's lock for many readers or one writer, without poisoning.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(checker::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// A free lock around `value`.
        pub fn new(value: T) -> RwLock<T> {
            RwLock(checker::sync::RwLock::new(value))
        }
        /// Waits until no writer holds the lock.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect(NO_PANIC)
        }
        /// Waits until no other thread holds the lock.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect(NO_PANIC)
        }
    }

    /// The checker's condition variable.
    #[derive(Debug, Default)]
    pub struct Condvar(checker::sync::Condvar);

    impl Condvar {
        /// A condition variable without waiters.
        pub fn new() -> Condvar {
            Condvar(checker::sync::Condvar::new())
        }
        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }
        /// Wakes all waiters.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
        /// Releases the mutex, waits, and acquires it again.
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).expect(NO_PANIC)
        }
        /// As [`Condvar::wait`]: under a checker no time passes.
        pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, _limit: Duration) -> (MutexGuard<'a, T>, bool) {
            (self.wait(guard), false)
        }
    }
}

/// A cell that is written once. loom has none: the thread that reads the value has acquired what
/// the one that has written it released, and no more.
#[cfg(loom)]
mod once {
    use super::atomic::{AtomicBool, Ordering};

    /// A cell that is written once.
    #[derive(Debug, Default)]
    pub struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicBool,
    }

    impl<T> OnceLock<T> {
        /// An empty cell.
        pub fn new() -> OnceLock<T> {
            OnceLock { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
        }
        /// The value, if there is one.
        pub fn get(&self) -> Option<&T> {
            if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
        }
        /// The value, which is made if there is none. No other thread makes it at that time.
        pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let value = self.value.get_or_init(make);
            self.is_set.store(true, Ordering::Release);
            value
        }
    }
}

/// Parks one thread until another wakes it.
#[cfg(not(any(loom, sim)))]
mod parking {
    #[cfg(shuttle)]
    use shuttle::thread::{Thread, current, park};
    #[cfg(not(shuttle))]
    use std::thread::{Thread, current, park};

    /// The thread that created it.
    #[derive(Debug)]
    pub struct Parking(Thread);

    impl Parking {
        /// Returns the parking of the calling thread.
        #[must_use]
        pub fn of_this_thread() -> Parking {
            Parking(current())
        }
        /// Parks until woken, or without a reason. Returns at once if a wake-up came since the last
        /// park.
        pub fn park(&self) {
            park();
        }
        /// Wakes the thread.
        pub fn unpark(&self) {
            self.0.unpark();
        }
    }
}

/// The same for loom: the `unpark` of loom also wakes a thread that waits for a mutex by then.
#[cfg(loom)]
mod parking {
    use super::{Condvar, Mutex};

    /// Parks one thread until another wakes it.
    #[derive(Debug, Default)]
    pub struct Parking {
        woken: Mutex<bool>,
        changed: Condvar,
    }

    impl Parking {
        /// Returns the parking of the calling thread.
        pub fn of_this_thread() -> Parking {
            Parking::default()
        }
        /// Returns once [`Parking::unpark`] was called.
        pub fn park(&self) {
            let mut woken = self.woken.lock();
            while !std::mem::take(&mut *woken) {
                woken = self.changed.wait(woken);
            }
        }
        /// Ends the wait of the parked thread, or its next one.
        pub fn unpark(&self) {
            *self.woken.lock() = true;
            self.changed.notify_one();
        }
    }
}

#[cfg(sim)]
pub use crate::sim::Parking;
pub use imp::*;
#[cfg(loom)]
pub use once::OnceLock;
#[cfg(not(sim))]
pub use parking::Parking;
