//! A mutex for critical sections of about a microsecond that hardly ever wait.
//!
//! The holder of such a mutex is either running, and done at once, or has been preempted. So a
//! thread that cannot acquire the mutex
//!
//! 1. spins for some microseconds,
//! 2. yields its core and spins again, up to [`YIELDS`] times,
//! 3. parks.
//!
//! With hundreds of sessions on few cores, all others arrive while a preempted holder waits for its
//! core. Parking each of them, and waking it by the one before, costs more than the critical
//! sections. `parking_lot` alone spins for less than a microsecond and parks after seven yields at
//! most. The figures are in `docs/decisions/0006-spin-yield-park.md`.

#[cfg(not(sim))]
use std::hint::spin_loop;

use crate::blocking::{Mutex, MutexGuard};
#[cfg(sim)]
use crate::sim::spin_loop;
use crate::thread::yield_now;

/// Spins before each yield.
const SPINS: usize = 50;
/// Yields before the thread parks.
const YIELDS: usize = 32;

/// A mutex that spins and yields before it parks; see the module.
#[derive(Debug, Default)]
pub struct ShortMutex<T>(Mutex<T>);

impl<T> ShortMutex<T> {
    /// A free mutex around `value`.
    pub const fn new(value: T) -> ShortMutex<T> {
        ShortMutex(Mutex::new(value))
    }

    /// Waits for the mutex.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.lock_slowly())
    }

    /// Returns the guard if the mutex is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn lock_slowly(&self) -> MutexGuard<'_, T> {
        for _ in 0..YIELDS {
            for _ in 0..SPINS {
                spin_loop();
                if !self.0.is_locked()
                    && let Some(guard) = self.0.try_lock()
                {
                    return guard;
                }
            }
            yield_now();
        }
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::ShortMutex;

    #[test]
    fn one_thread_at_a_time_holds_it() {
        let sum = ShortMutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mut sum = sum.lock();
                        let before = *sum;
                        std::thread::yield_now();
                        *sum = before + 1;
                    }
                });
            }
        });
        assert_eq!(*sum.lock(), 2000);
    }

    #[test]
    fn a_waiter_acquires_it_when_it_is_released() {
        let (mutex, (tell, told)) = (ShortMutex::new(1), channel());
        std::thread::scope(|scope| {
            let mut guard = mutex.lock();
            assert!(mutex.try_lock().is_none());
            scope.spawn(|| tell.send(*mutex.lock()).unwrap());
            *guard = 2;
            drop(guard);
            assert_eq!(told.recv().unwrap(), 2);
        });
        assert_eq!(mutex.try_lock().map(|guard| *guard), Some(2));
    }
}
