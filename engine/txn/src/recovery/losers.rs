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
//! No session waits for the end of a blocked loser: one that comes to a row of it, or that waits
//! there already, gets the error that blocks it. Rows that are undone are free at once, for those
//! that have waited for them, too.
//!
//! A loser that another error stands in the way of (a failed read, a full disk) goes on waiting,
//! also if damage does as well. It is tried again by the background thread, and rows that are not
//! undone stay locked meanwhile.
//!
//! A rollback may take as long as the transaction did. A change of a definition waits for those
//! that have changed the table: a thread that takes a loser in hand reads first which indexes its
//! log is about. So does a change of a definition of those that wait. That may take minutes, too,
//! and statistics and KILL ask the lists, which are free meanwhile; what was read stays known.
//!
//! A loser whose rollback panics stays in hand until the next open: what is done of its log may be
//! known wrongly in memory, and to go on from there could undo too little. A panic while a log is
//! only read changes nothing.
//!
//! A session that is killed reads no further, undoes nothing more, and waits no more for another
//! one that does: the loser waits as before, for the background thread. What the session has undone
//! stays undone, and its end is no error that other sessions get.

use std::sync::Arc;

use holdfast_base::blocking::{Condvar, Mutex, MutexGuard};
use holdfast_base::{Error, IndexId, Result, TxnId};

use crate::undo::UndoLog;
use crate::wait::Wait;
use holdfast_lock::Owner;

/// What a transaction has changed, as its log says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The indexes that its known records are about.
    pub indexes: Vec<IndexId>,
    /// True if all its records are known.
    pub whole: bool,
}

impl Changed {
    /// True if one of the known records is about one of `indexes`.
    pub fn any_of(&self, indexes: &[IndexId]) -> bool {
        self.indexes.iter().any(|index| indexes.contains(index))
    }

    /// True if there may be a record about one of `indexes`.
    pub fn may_be_any_of(&self, indexes: &[IndexId]) -> bool {
        !self.whole || self.any_of(indexes)
    }
}

/// A transaction whose user is gone and that is not ended.
#[derive(Debug)]
pub(crate) struct Loser {
    pub owner: Arc<Owner>,
    pub log: UndoLog,
    /// The xid that is taken because the log says it.
    pub xid: Option<Vec<u8>>,
    /// What a rollback that has failed has left to the next one.
    pub left: Left,
    /// What the last rollback has met; `None` if there was none yet.
    pub stopped_by: Option<Error>,
    /// What it has changed, once a thread has read that.
    pub changed: Option<Changed>,
}

/// What is to be undone of a loser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Everything, as far as is known.
    All,
    /// What an error stood in the way of that may pass, and maybe others.
    Passing,
    /// What errors stand in the way of that [block](blocks) it: the next rollback only looks
    /// whether that has changed.
    Blocked,
}

impl Left {
    /// Behind a rollback of `log` that has failed with `error`.
    pub fn after(error: &Error, log: &UndoLog) -> Left {
        match error {
            // Nothing is undone of what a log says is prepared.
            _ if log.is_prepared() => Left::All,
            error if blocks(error) => Left::Blocked,
            _ => Left::Passing,
        }
    }
}

/// True if a rollback that has met this error is tried again only when something has changed:
/// damage stays, and a table that is unusable is so until the database is closed.
pub(crate) fn blocks(error: &Error) -> bool {
    error.is_damage() || matches!(error, Error::Incompatible(_))
}

/// What a session gets that comes to a row of a loser which `error` blocks.
pub(crate) fn for_waiters(error: &Error) -> Error {
    let why = "for which a transaction that has changed the row cannot be rolled back";
    match error {
        Error::DamagedPage { page, what } => Error::damaged_page(*page, format!("{what}, {why}")),
        Error::DamagedFile { file, what } => Error::damaged_file(file, format!("{what}, {why}")),
        other => other.clone(),
    }
}

/// A loser that a thread rolls back.
#[derive(Debug)]
struct Claimed {
    txn: TxnId,
    /// What it has changed; `None` until that is known.
    changed: Option<Changed>,
    /// What blocks the rollback under way may be gone: an index was dropped meanwhile.
    again: bool,
    /// It goes on waiting once it is known what it has changed.
    is_read: bool,
}

impl Claimed {
    fn may_have_changed(&self, indexes: &[IndexId]) -> bool {
        self.changed.as_ref().is_none_or(|changed| changed.any_of(indexes))
    }
}

#[derive(Debug, Default)]
struct Lists {
    waiting: Vec<Loser>,
    blocked: Vec<Loser>,
    claimed: Vec<Claimed>,
}

impl Lists {
    fn take(&mut self, no: usize) -> Loser {
        self.take_to(no, false)
    }

    /// `is_read`: see [`Claimed`].
    fn take_to(&mut self, no: usize, is_read: bool) -> Loser {
        // A crash may leave thousands; those that only are read may come back in another order.
        let loser = if is_read { self.waiting.swap_remove(no) } else { self.waiting.remove(no) };
        self.claimed.push(Claimed { txn: loser.log.txn(), changed: None, again: false, is_read });
        loser
    }

    /// Returns whether the rollback is to be tried again even if it is blocked.
    fn put_down(&mut self, txn: TxnId) -> bool {
        let again = self.claimed.iter().any(|one| one.txn == txn && one.again);
        self.claimed.retain(|one| one.txn != txn);
        again
    }
}

/// A loser in hand whose log is read. It waits again whatever ends the reading: else changes of
/// definitions would wait for it until the next open behind a panic.
struct Reading<'l> {
    losers: &'l Losers,
    loser: Option<Loser>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut lists = self.losers.lists.lock();
        if let Some(loser) = self.loser.take() {
            lists.put_down(loser.log.txn());
            lists.waiting.push(loser);
        }
        drop(lists);
        self.losers.put_down.notify_all();
    }
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
        lists.waiting.len() + lists.blocked.len() + lists.claimed.len()
    }

    /// Lets the blocked ones wait, and those in hand that turn out to be blocked. Returns whether
    /// there are blocked ones.
    pub fn unblock(&self) -> bool {
        let mut lists = self.lists.lock();
        lists.claimed.iter_mut().for_each(|one| one.again = true);
        let blocked = std::mem::take(&mut lists.blocked);
        blocked.iter().for_each(|loser| loser.owner.unblock());
        let any = !blocked.is_empty();
        lists.waiting.extend(blocked);
        any
    }

    /// Takes one that waits, and is none of those `tried`, into the caller's hands, the last one
    /// added first.
    pub fn take(&self, tried: &[TxnId]) -> Option<Loser> {
        let mut lists = self.lists.lock();
        let last = lists.waiting.iter().rposition(|loser| !tried.contains(&loser.log.txn()))?;
        Some(lists.take(last))
    }

    /// The same, of those that are as `matches` says.
    ///
    /// # Errors
    /// The errors of `matches`.
    pub fn take_one(&self, tried: &[TxnId], mut matches: impl FnMut(&Loser) -> Result<bool>) -> Result<Option<Loser>> {
        let mut lists = self.lists.lock();
        for no in (0..lists.waiting.len()).rev() {
            let loser = &lists.waiting[no];
            if !tried.contains(&loser.log.txn()) && matches(loser)? {
                return Ok(Some(lists.take(no)));
            }
        }
        Ok(None)
    }

    /// Learns of those that wait which indexes they have changed, as `reads` says, where that is
    /// not known. Another thread that reads is waited for. The background thread passes over one
    /// while its log is read.
    ///
    /// # Errors
    /// The errors of `reads` and of [`Wait::at`].
    pub fn learn(&self, wait: &Wait<'_>, reads: impl Fn(&Loser) -> Result<Changed>) -> Result<()> {
        let is_unknown = |loser: &Loser| loser.changed.is_none();
        let others_read =
            |lists: &Lists| !lists.waiting.iter().any(is_unknown) && lists.claimed.iter().any(|one| one.is_read);
        let mut lists = self.lists.lock();
        loop {
            wait.at(&self.put_down, &mut lists, others_read)?;
            let Some(no) = lists.waiting.iter().position(is_unknown) else { return Ok(()) };
            let mut reading = Reading { losers: self, loser: Some(lists.take_to(no, true)) };
            drop(lists);
            if let Some(loser) = &mut reading.loser {
                loser.changed = Some(reads(loser)?);
            }
            drop(reading);
            lists = self.lists.lock();
        }
    }

    /// The loser `txn`, which is in hand, has changed this.
    pub fn know(&self, txn: TxnId, changed: Changed) {
        if let Some(one) = self.lists.lock().claimed.iter_mut().find(|one| one.txn == txn) {
            one.changed = Some(changed);
        }
        self.put_down.notify_all();
    }

    /// The loser `txn`, which was in hand, has ended.
    pub fn ended(&self, txn: TxnId) {
        self.lists.lock().put_down(txn);
        self.put_down.notify_all();
    }

    /// This one was in hand, and could not be rolled back because of `error`. Returns whether it is
    /// to be tried again at once.
    pub fn failed(&self, mut loser: Loser, error: Error) -> bool {
        // Nothing stands in the way: the session that rolled it back was killed.
        let is_given_up = matches!(error, Error::Interrupted);
        let mut lists = self.lists.lock();
        let again = lists.put_down(loser.log.txn()) || is_given_up;
        let is_blocked = blocks(&error) && !again && !holdfast_base::planted!("losers-stop-purge");
        if again {
            loser.owner.unblock();
        }
        if !is_given_up {
            loser.stopped_by = Some(error);
        }
        let list = if is_blocked { &mut lists.blocked } else { &mut lists.waiting };
        list.push(loser);
        drop(lists);
        self.put_down.notify_all();
        again
    }

    /// Has threads that wait here ask their observers whether they give up.
    pub fn wake_waits(&self) {
        // A thread that has asked already sleeps by the time that it releases the mutex.
        drop(self.lists.lock());
        self.put_down.notify_all();
    }

    /// Waits until none is in hand that has changed one of `indexes`.
    ///
    /// # Errors
    /// The errors of [`Wait::at`].
    pub fn wait_for_hands(&self, indexes: &[IndexId], wait: &Wait<'_>) -> Result<()> {
        self.out_of_hands(indexes, wait).map(drop)
    }

    fn out_of_hands(&self, indexes: &[IndexId], wait: &Wait<'_>) -> Result<MutexGuard<'_, Lists>> {
        let any = |lists: &Lists| lists.claimed.iter().any(|one| one.may_have_changed(indexes));
        let mut lists = self.lists.lock();
        wait.at(&self.put_down, &mut lists, any)?;
        Ok(lists)
    }

    /// Waits as [`Losers::wait_for_hands`] does. Returns what the rollbacks have met of those that
    /// wait to be rolled back and are as `matches` says: one that a thread takes in hand meanwhile
    /// is waited for, or is among them. One of which only blocked changes are left is not.
    ///
    /// # Errors
    /// The errors of [`Wait::at`] and of `matches`.
    pub fn stopped_by(
        &self,
        indexes: &[IndexId],
        wait: &Wait<'_>,
        mut matches: impl FnMut(&Loser) -> Result<bool>,
    ) -> Result<Vec<Option<Error>>> {
        let mut found = Vec::new();
        for loser in &self.out_of_hands(indexes, wait)?.waiting {
            // One that is tried again since an index was dropped may be as blocked as before.
            if loser.left != Left::Blocked && matches(loser)? {
                found.push(loser.stopped_by.clone());
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;
    use crate::wait::tests::assert_ends;

    fn changed() -> Changed {
        Changed { indexes: vec![IndexId(5)], whole: true }
    }

    /// The lists were locked while a change of a definition read the log of a loser, and each
    /// change read it again: a KILL waited for that, and the statistics.
    #[test]
    fn others_go_on_while_a_log_is_read_and_it_is_read_once() {
        let (losers, log, reads) = (Losers::default(), UndoLog::in_memory(1), Cell::new(0));
        losers.add(Loser { owner: Owner::new(1), log, xid: None, left: Left::All, stopped_by: None, changed: None });
        let wait = Wait::begins(Duration::ZERO);
        assert!(losers.learn(&wait, |_| Err(Error::WouldBlock)).is_err());
        let read = |_: &Loser| {
            reads.set(reads.get() + 1);
            assert!(losers.lists.try_lock().is_some(), "the lists are locked");
            assert!(losers.len() == 1 && losers.take(&[]).is_none());
            Ok(changed())
        };
        losers.learn(&wait, read).unwrap();
        losers.learn(&wait, read).unwrap();
        assert_eq!(reads.get(), 1);
        assert_eq!(losers.take(&[]).unwrap().changed, Some(changed()));
    }

    /// It was in hand until the next open: the changes of definitions waited for it in vain.
    #[test]
    fn one_whose_reader_panics_waits_as_before() {
        let (losers, log) = (Losers::default(), UndoLog::in_memory(1));
        losers.add(Loser { owner: Owner::new(1), log, xid: None, left: Left::All, stopped_by: None, changed: None });
        let wait = Wait::begins(Duration::ZERO);
        let panics = || losers.learn(&wait, |_| panic!("planned"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        losers.learn(&wait, |_| Ok(changed())).unwrap();
        losers.wait_for_hands(&[IndexId(5)], &wait).unwrap();
        assert_eq!(losers.take(&[]).unwrap().changed, Some(changed()));
    }

    /// It waited until the other one had read, which may take minutes.
    #[test]
    fn a_session_does_not_wait_longer_than_it_may_for_another_one_that_reads() {
        let (losers, log) = (Losers::default(), UndoLog::in_memory(1));
        losers.add(Loser { owner: Owner::new(1), log, xid: None, left: Left::All, stopped_by: None, changed: None });
        let read = |_: &Loser| {
            assert_ends(|wait| losers.learn(wait, |_| Ok(Changed::default())));
            Ok(changed())
        };
        losers.learn(&Wait::begins(Duration::ZERO), read).unwrap();
    }

    /// It was in hand until the thread had come to the end of all others: a DROP of the table whose
    /// damage blocks it timed out for as long as another rollback took.
    #[test]
    fn one_that_fails_is_put_down_and_not_taken_a_second_time() {
        let (losers, log) = (Losers::default(), UndoLog::in_memory(1));
        losers.add(Loser { owner: Owner::new(1), log, xid: None, left: Left::All, stopped_by: None, changed: None });
        let loser = losers.take(&[]).unwrap();
        let (txn, all) = (loser.log.txn(), [IndexId(5)]);
        let wait = || Wait::begins(Duration::ZERO);
        assert!(matches!(losers.wait_for_hands(&all, &wait()), Err(Error::LockTimeout)));
        losers.failed(loser, Error::WouldBlock);
        losers.wait_for_hands(&all, &wait()).unwrap();
        assert!(losers.take(&[txn]).is_none());
        let stopped_by = losers.stopped_by(&all, &wait(), |_| Ok(true)).unwrap();
        assert!(matches!(stopped_by[..], [Some(Error::WouldBlock)]));
        assert!(losers.take(&[]).is_some());
    }

    /// The table that blocks it was dropped behind its look there. It stayed blocked until another
    /// index was dropped, or the next open.
    #[test]
    fn one_that_is_claimed_while_an_index_is_dropped_is_tried_again() {
        let (losers, log) = (Losers::default(), UndoLog::in_memory(1));
        losers.add(Loser { owner: Owner::new(1), log, xid: None, left: Left::All, stopped_by: None, changed: None });
        let damage = || Error::damaged_file("t16.hf", "a page");
        let mut loser = losers.take(&[]).unwrap();
        assert!(!losers.unblock());
        loser.left = Left::Blocked;
        assert!(losers.failed(loser, damage()));
        // It kept changes of other tables from being made until then.
        let stopped_by = losers.stopped_by(&[IndexId(5)], &Wait::begins(Duration::ZERO), |_| Ok(true)).unwrap();
        assert!(stopped_by.is_empty(), "{stopped_by:?}");
        let loser = losers.take(&[]).unwrap();
        assert!(!losers.failed(loser, damage()));
        assert!(losers.take(&[]).is_none(), "nothing was dropped since");
        assert!(losers.unblock() && losers.take(&[]).is_some());
    }
}
