//! A mutex for what takes a microsecond, and hardly ever waits for anything.
//!
//! Who has it for so short a time is either running, and done at once, or has been put off his core
//! with the mutex in his hands. So who does not get it looks for some microseconds; then he gives
//! his own core away and looks again, up to [`YIELDS`] times; only then does he sleep.
//!
//! `parking_lot` by itself looks for less than a microsecond, gives its core away seven times at
//! most, and sleeps. Among 32 sessions on two cores that all missed in a small pool, giving the
//! core away for a mutex that was free a moment later took a tenth of the time. And among hundreds
//! of sessions on few cores all the others come by before he who was put off has his turn again:
//! putting each of them to sleep, and having it woken by the one before, was most of what the mutex
//! of the commits cost.

#[cfg(not(sim))]
use std::hint::spin_loop;

use crate::blocking::{Mutex, MutexGuard};
#[cfg(sim)]
use crate::sim::spin_loop;
use crate::thread::yield_now;

/// Looks at a mutex that somebody has.
const LOOKS: usize = 50;
/// Times that a thread gives its core away before it sleeps.
const YIELDS: usize = 32;

/// See the module.
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

    /// The mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn lock_slowly(&self) -> MutexGuard<'_, T> {
        for _ in 0..YIELDS {
            for _ in 0..LOOKS {
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
    fn one_at_a_time_has_it() {
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
    fn who_waits_gets_it_when_it_is_let_go() {
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
