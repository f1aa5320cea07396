//! The mutex of a partition: who does not get it looks for some microseconds before he does what `parking_lot` does.
//!
//! All who miss meet in it, for some tenths of a microsecond each. `parking_lot` looks for less than one and then gives its core away
//! between looks (`sched_yield`), which switches threads each time where there are more threads than cores: among 32 sessions on two
//! cores that all missed in a small pool, that took a tenth of the time. Later it is right: then who has the mutex is not running.

use std::hint::spin_loop;

use parking_lot::MutexGuard;

/// Looks at a mutex that somebody has.
const LOOKS: usize = 50;

/// See the module.
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// Waits for the mutex.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.lock_slowly())
    }

    #[cold]
    fn lock_slowly(&self) -> MutexGuard<'_, T> {
        for _ in 0..LOOKS {
            spin_loop();
            if !self.0.is_locked()
                && let Some(guard) = self.0.try_lock()
            {
                return guard;
            }
        }
        self.0.lock()
    }
}
