//! Waits of sessions for something that is not a lock: they end when it is there, at a moment, or
//! when the session gives up.
//!
//! A session that gives up is woken by the thread that makes it do so, which then takes the mutex
//! of what the session waits at: the session asks under that mutex, so it either finds that it is
//! to give up, or sleeps and is woken. So it is with the end of all waits when the database is
//! closed ([`crate::TxnSystem::end_waits`]).

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use holdfast_base::blocking::{Condvar, MutexGuard};
use holdfast_base::time::Instant;
use holdfast_base::{Error, Result, latches};

use holdfast_lock::WaitObserver;

/// Until when the calling thread waits, and what can make it give up.
pub struct Wait<'a> {
    /// `None`: so far away that the moment does not come.
    until: Option<Instant>,
    observer: Option<&'a dyn WaitObserver>,
    /// Why no thread may wait any more.
    ended: Option<&'a OnceLock<Error>>,
}

impl<'a> Wait<'a> {
    /// For so long from now on.
    #[must_use]
    pub fn begins(limit: Duration) -> Wait<'a> {
        Wait { until: Instant::now().checked_add(limit), observer: None, ended: None }
    }

    /// The same, unless the observer gives up or the waits are ended.
    pub(crate) fn watched(self, observer: Option<&'a dyn WaitObserver>, ended: &'a OnceLock<Error>) -> Wait<'a> {
        Wait { observer, ended: Some(ended), ..self }
    }

    /// Why it does not go on.
    fn given_up(&self) -> Option<Error> {
        let ended = self.ended.and_then(OnceLock::get);
        let gives_up = || self.observer.is_some_and(WaitObserver::gives_up);
        ended.cloned().or_else(|| gives_up().then_some(Error::Interrupted))
    }

    /// Waits at `condvar` while `waits` holds.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if it still holds at the end of the time, [`Error::Interrupted`] if
    /// the observer gives up; the error by which the waits were ended.
    pub fn at<T>(&self, condvar: &Condvar, guard: &mut MutexGuard<'_, T>, waits: impl Fn(&T) -> bool) -> Result<()> {
        latches::none_while_waiting_for("a table, or a transaction without a session");
        if !waits(guard) {
            return Ok(());
        }
        if let Some(observer) = self.observer {
            observer.begins();
        }
        let sleeps = |value: &mut T| waits(value) && self.given_up().is_none();
        match self.until {
            Some(until) => drop(condvar.wait_while_until(guard, sleeps, until)),
            None => condvar.wait_while(guard, sleeps),
        }
        if let Some(observer) = self.observer {
            observer.ends();
        }
        match waits(guard) {
            false => Ok(()),
            true => Err(self.given_up().unwrap_or(Error::LockTimeout)),
        }
    }
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("until", &self.until).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[cfg(all(debug_assertions, not(any(loom, shuttle, miri))))]
    #[test]
    fn a_wait_under_a_latch_is_told() {
        latches::took();
        let waited = std::panic::catch_unwind(|| {
            let (mutex, condvar) = (holdfast_base::blocking::Mutex::new(()), Condvar::new());
            Wait::begins(Duration::ZERO).at(&condvar, &mut mutex.lock(), |()| false)
        });
        latches::gave();
        assert!(waited.is_err());
    }

    /// The session of the calling thread has been killed.
    struct Killed;

    impl WaitObserver for Killed {
        fn gives_up(&self) -> bool {
            true
        }
    }

    /// Checks that `waits`, for which nothing ends the wait, returns at the end of its time, when
    /// its session is killed, and when the database is closed.
    pub(crate) fn assert_ends<T: fmt::Debug>(waits: impl Fn(&Wait<'_>) -> Result<T>) {
        let (open, closed) = (OnceLock::new(), OnceLock::from(Error::Closed("the database")));
        let timed_out = waits(&Wait::begins(Duration::ZERO));
        assert!(matches!(timed_out, Err(Error::LockTimeout)), "{timed_out:?}");
        let killed = waits(&Wait::begins(Duration::MAX).watched(Some(&Killed), &open));
        assert!(matches!(killed, Err(Error::Interrupted)), "{killed:?}");
        let ended = waits(&Wait::begins(Duration::MAX).watched(None, &closed));
        assert!(matches!(ended, Err(Error::Closed(_))), "{ended:?}");
    }
}
