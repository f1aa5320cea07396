//! Losers: transactions without a user that are to be rolled back. Recovery finds them, and a
//! rollback that fails leaves one.
//!
//! A loser is *waiting* to be rolled back, *in hand* of a thread that does it, or *blocked*: a
//! damaged page, or a table whose file could not be opened, stands in the way of its end, and
//! everything that does not need that page or table is undone. One damaged page disables one table
//! at most, so a blocked loser is no error of [`crate::TxnSystem::roll_back_losers`] and stops
//! neither purge nor definitions of tables. It is tried again when an index is dropped, since
//! rollback passes over what is dropped, and by the next open.
//!
//! A loser that another error stands in the way of (a failed read, a full disk) goes on waiting. It
//! is tried again by the background thread, and its rows stay locked meanwhile.

use std::sync::Arc;

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::{Error, Result};

use crate::undo::UndoLog;
use crate::wait::Wait;
use holdfast_lock::Owner;

/// A transaction whose user is gone and that is not ended.
#[derive(Debug)]
pub(crate) struct Loser {
    pub owner: Arc<Owner>,
    pub log: UndoLog,
    /// The xid that is taken because the log says it.
    pub xid: Option<Vec<u8>>,
    /// A rollback has failed, after everything was undone that could be: the next one only looks
    /// whether that has changed.
    pub tried: bool,
}

/// Whether a rollback that has met this error is tried again only when something has changed:
/// damage stays, and a table that is unusable is so until the database is closed.
pub(crate) fn blocks(error: &Error) -> bool {
    error.is_damage() || matches!(error, Error::Incompatible(_))
}

#[derive(Debug, Default)]
struct Lists {
    waiting: Vec<Loser>,
    blocked: Vec<Loser>,
    in_hand: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Losers {
    lists: Mutex<Lists>,
    /// A loser is no longer in hand.
    put_down: Condvar,
}

impl Losers {
    /// Adds one to be rolled back.
    pub fn add(&self, loser: Loser) {
        self.lists.lock().waiting.push(loser);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let lists = self.lists.lock();
        lists.waiting.len() + lists.blocked.len() + lists.in_hand
    }

    /// Lets the blocked ones wait. Returns whether there are any.
    pub fn unblock(&self) -> bool {
        let mut lists = self.lists.lock();
        let blocked = std::mem::take(&mut lists.blocked);
        let any = !blocked.is_empty();
        lists.waiting.extend(blocked);
        any
    }

    /// Takes one that waits into the caller's hands, the last one added first.
    pub fn take(&self) -> Option<Loser> {
        let mut lists = self.lists.lock();
        let loser = lists.waiting.pop()?;
        lists.in_hand += 1;
        Some(loser)
    }

    /// One that was in hand has ended.
    pub fn ended(&self) {
        self.lists.lock().in_hand -= 1;
        self.put_down.notify_all();
    }

    /// These were in hand, and could not be rolled back.
    pub fn failed(&self, failed: Vec<(Loser, Error)>) {
        let mut lists = self.lists.lock();
        lists.in_hand -= failed.len();
        for (loser, error) in failed {
            let is_blocked = blocks(&error) && !holdfast_base::planted!("losers-stop-purge");
            let list = if is_blocked { &mut lists.blocked } else { &mut lists.waiting };
            list.push(loser);
        }
        self.put_down.notify_all();
    }

    /// Whether one that waits to be rolled back is as `matches` says.
    ///
    /// # Errors
    /// Those of `matches`.
    pub fn any_waiting(&self, mut matches: impl FnMut(&Loser) -> Result<bool>) -> Result<bool> {
        for loser in &self.lists.lock().waiting {
            if matches(loser)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has threads in [`Losers::wait_for_hands`] ask their observers whether they give up.
    pub fn wake_waits(&self) {
        // A thread that has asked already sleeps by the time that it releases the mutex.
        drop(self.lists.lock());
        self.put_down.notify_all();
    }

    /// Waits until none is in hand.
    ///
    /// # Errors
    /// Those of [`Wait::at`].
    pub fn wait_for_hands(&self, wait: &Wait<'_>) -> Result<()> {
        wait.at(&self.put_down, &mut self.lists.lock(), |lists| lists.in_hand > 0)
    }
}
