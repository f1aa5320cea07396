//! The state that stops a database until it is opened again.
//!
//! After a failed fsync, or a mini-transaction that stopped half applied, it is unknown what is
//! durable. A later success must not hide that. All floors of a database share one [`Poison`]. The
//! thread that meets the failure sets it, with the reason, and every thread checks it before it
//! promises anything.
//!
//! Lock order: the list of hooks is a leaf lock for the threads that register. [`Poison::set`] runs
//! the hooks under it, so a hook may only wake threads.

use std::fmt;
use std::sync::{Arc, OnceLock};

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result};

type Hook = Box<dyn Fn(&Poison) + Send + Sync>;

/// The poison of one database. It is set once, with the first reason, and never cleared. Reopening
/// the database starts with a new one.
#[derive(Default)]
pub struct Poison {
    reason: OnceLock<Arc<str>>,
    hooks: Mutex<Vec<Hook>>,
}

impl Poison {
    /// Creates a poison that is not set.
    #[must_use]
    pub fn new() -> Arc<Poison> {
        Arc::default()
    }

    /// Poisons the database and wakes all waiters. The first reason stays; later ones are dropped.
    pub fn set(&self, why: impl Into<Arc<str>>) {
        if self.reason.set(why.into()).is_ok() {
            for hook in self.hooks.lock().iter() {
                hook(self);
            }
        }
    }

    /// Succeeds if the database is not poisoned.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first reason.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.reason.get() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned(why.clone())),
        }
    }

    /// True if the database is poisoned.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.reason.get().is_some()
    }

    /// The first reason, if the database is poisoned.
    #[must_use]
    pub fn reason(&self) -> Option<Arc<str>> {
        self.reason.get().cloned()
    }

    /// Runs `hook` when the poison is set, or at once if it is already. The hook runs on the thread
    /// that sets the poison, under whatever locks that thread holds, so it may only wake threads.
    /// It gets the poison as its argument: a hook that held it would keep both in memory for ever.
    pub fn on_set(&self, hook: impl Fn(&Poison) + Send + Sync + 'static) {
        let mut hooks = self.hooks.lock();
        if self.is_set() {
            hook(self);
        }
        hooks.push(Box::new(hook));
    }
}

impl fmt::Debug for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Poison").field(&self.reason.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let poison = Poison::new();
        assert!(poison.check().is_ok());
        poison.set("fsync failed");
        poison.set("something else");
        assert!(matches!(poison.check(), Err(Error::Poisoned(why)) if &*why == "fsync failed"));
    }

    #[test]
    fn hooks_run_once() {
        let poison = Poison::new();
        let runs = Arc::new(AtomicUsize::new(0));
        let seen = runs.clone();
        poison.on_set(move |_| {
            seen.fetch_add(1, Relaxed);
        });
        poison.set("a");
        poison.set("b");
        assert_eq!(runs.load(Relaxed), 1);
        let seen = runs.clone();
        poison.on_set(move |_| {
            seen.fetch_add(1, Relaxed);
        });
        assert_eq!(runs.load(Relaxed), 2, "a late hook runs at once");
    }
}
