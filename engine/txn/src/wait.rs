//! Waits of sessions for something that is not a lock: they end when it is there, at a moment, or
//! when the session gives up.
//!
//! A session that gives up is woken by the thread that makes it do so, which then takes the mutex
//! of what the session waits at: the session asks under that mutex, so it either finds that it is
//! to give up, or sleeps and is woken.

use std::fmt;
use std::time::Duration;

use holdfast_base::blocking::{Condvar, MutexGuard};
use holdfast_base::time::Instant;
use holdfast_base::{Error, Result};

use holdfast_lock::WaitObserver;

/// Until when the calling thread waits, and what can make it give up.
pub struct Wait<'a> {
    /// `None`: so far away that the moment does not come.
    until: Option<Instant>,
    observer: Option<&'a dyn WaitObserver>,
}

impl<'a> Wait<'a> {
    /// For so long from now on.
    #[must_use]
    pub fn begins(limit: Duration, observer: Option<&'a dyn WaitObserver>) -> Wait<'a> {
        Wait { until: Instant::now().checked_add(limit), observer }
    }

    fn gives_up(&self) -> bool {
        self.observer.is_some_and(WaitObserver::gives_up)
    }

    /// Waits at `condvar` while `waits` holds.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if it still holds at the end of the time, [`Error::Interrupted`] if
    /// the observer gives up.
    pub fn at<T>(&self, condvar: &Condvar, guard: &mut MutexGuard<'_, T>, waits: impl Fn(&T) -> bool) -> Result<()> {
        if !waits(guard) {
            return Ok(());
        }
        if let Some(observer) = self.observer {
            observer.begins();
        }
        let sleeps = |value: &mut T| waits(value) && !self.gives_up();
        match self.until {
            Some(until) => drop(condvar.wait_while_until(guard, sleeps, until)),
            None => condvar.wait_while(guard, sleeps),
        }
        if let Some(observer) = self.observer {
            observer.ends();
        }
        match waits(guard) {
            false => Ok(()),
            true if self.gives_up() => Err(Error::Interrupted),
            true => Err(Error::LockTimeout),
        }
    }
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("until", &self.until).finish_non_exhaustive()
    }
}
