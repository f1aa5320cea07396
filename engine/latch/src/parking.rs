//! Where threads sleep that did not get a latch: the parking lot keyed by the latch's address, or,
//! under loom and shuttle, a mutex and a condition variable with the same contract.
//!
//! Contract: [`Parking::park`] evaluates its condition and falls asleep in one step with respect to
//! [`Parking::unpark_all`]. No timeouts exist: every sleeper is woken by the one that it waits for.

#[cfg(not(any(loom, shuttle)))]
mod imp {
    #[cfg(sim)]
    pub use holdfast_base::sim::{sleep_at, wake_all_at};
    #[cfg(not(sim))]
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, park, unpark_all};

    /// Where threads park. It has no memory of its own: its address is the queue.
    #[derive(Debug, Default)]
    pub struct Parking;

    /// Sleeps at address `key` if `condition` holds, until [`wake_all_at`] of that address.
    #[cfg(not(sim))]
    pub fn sleep_at(key: usize, condition: impl Fn() -> bool) {
        // SAFETY: `key` is the address of an object owned by this crate that outlives the call, and
        // the closures neither panic nor call into the parking lot.
        unsafe { park(key, &condition, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, None) };
    }

    /// Wakes all threads that are parked at address `key`.
    #[cfg(not(sim))]
    pub fn wake_all_at(key: usize) {
        // SAFETY: as above; waking an address at which no thread is parked is harmless.
        unsafe { unpark_all(key, DEFAULT_UNPARK_TOKEN) };
    }

    impl Parking {
        /// Parks the thread if `condition` holds, until [`Parking::unpark_all`].
        pub fn park(&self, condition: impl Fn() -> bool) {
            sleep_at(std::ptr::from_ref(self) as usize, condition);
        }

        /// Wakes all threads that are parked here.
        #[cold]
        pub fn unpark_all(&self) {
            wake_all_at(std::ptr::from_ref(self) as usize);
        }
    }
}

#[cfg(any(loom, shuttle))]
mod imp {
    use holdfast_base::sync::{Condvar, Mutex};

    /// Where threads park: one queue per object.
    #[derive(Debug)]
    pub struct Parking {
        mutex: Mutex<()>,
        condvar: Condvar,
    }

    impl Default for Parking {
        fn default() -> Parking {
            Parking { mutex: Mutex::new(()), condvar: Condvar::new() }
        }
    }

    impl Parking {
        /// Parks the thread if `condition` holds, until [`Parking::unpark_all`].
        pub fn park(&self, condition: impl Fn() -> bool) {
            let guard = self.mutex.lock();
            if condition() {
                drop(self.condvar.wait(guard));
            }
        }

        /// Wakes all threads that are parked here.
        pub fn unpark_all(&self) {
            drop(self.mutex.lock());
            self.condvar.notify_all();
        }
    }
}

pub use imp::*;
