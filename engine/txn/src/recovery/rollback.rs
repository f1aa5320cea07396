//! Rollback: of a transaction, to a savepoint, of what recovery found unfinished.
//!
//! Records are applied from the last to the first. An entry that carries (transaction, roll
//! pointer) gets its prior image back; one that does not was never changed, or was restored
//! already: so a rollback can be cut off anywhere and begun again. The log is cut page by page
//! behind the work, and before an overflow chain is freed.
//!
//! An error - a damaged page, a read that fails - stops the rollback there, and with it the end of
//! the transaction; but one bad page disables one table, so the changes before that are undone as
//! far as they can be, their records left in the log for the next attempt. If an error that may
//! pass kept one of these, the next attempt goes round the damage once more. What becomes of the
//! transaction is in [`crate::recovery::losers`].
//!
//! When the database is closed, a rollback ends behind the record at which it is: the next open
//! goes on with it. The rollback of a loser by a session that is killed ends in the same way, and
//! the background thread goes on with it.
//!
//! A rollback to a savepoint leaves the rows locked that it puts back, as their ids locked them
//! before: the lock is entered under the latch under which the id leaves the row. (An entry of an
//! index is changed only by a transaction that has its row, so it needs no lock.)
//!
//! A prior image that is only a delete mark that every view sees is not put back: purge has passed,
//! or will find nothing. Both decisions are made under the leaf's latch, and "every view sees it"
//! never becomes false again, so no mark is left that nothing would remove.

use std::sync::Arc;

use holdfast_base::{Error, IndexId, Lsn, Result, RollPtr, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::Action;
use holdfast_wal::SpaceClass;

use crate::entry::index::IndexKind;
use crate::entry::row::VersionHeader;
use crate::entry::values;
use crate::recovery::losers::{Left, Loser, blocks, for_waiters};
use crate::savepoint::{GoesOn, add_delta};
use crate::system::TxnSystem;
use crate::undo::{UndoLog, UndoRecord};
use crate::wait::Wait;
use holdfast_lock::Owner;

/// Records that are undone between two pauses.
const PAUSE_EVERY: u64 = 64;

/// A rollback under way.
struct Course<'a> {
    /// The transaction, if it is not over.
    goes_on: Option<GoesOn<'a>>,
    /// What is done between two parts of it. An error ends it.
    pause: &'a mut dyn FnMut() -> Result<()>,
    /// True if an entry has been changed.
    has_changed: bool,
}

/// True if a rollback has ended since the session was killed that did it.
fn is_given_up(error: &Error) -> bool {
    matches!(error, Error::Interrupted)
}

/// A loser that could not be rolled back.
struct Unfinished {
    loser: Loser,
    error: Error,
    /// True if something was undone.
    has_changed: bool,
}

impl TxnSystem {
    /// The first step of the rollback of a transaction that may be prepared: its log says that it
    /// is active again, before the first change is undone. So a crash leaves it prepared with all
    /// its changes, or leaves a loser. Returns the log position that makes this last.
    pub(crate) fn unprepare(&self, log: &mut UndoLog) -> Result<Option<Lsn>> {
        if holdfast_base::planted!("prepared-log-keeps-its-mark") {
            return Ok(None);
        }
        let acc = self.store.pool().access(AccessKind::Point);
        log.unprepare(&self.undo, &acc)
    }

    /// Undoes the records of `log`, which is not prepared, beyond the first `keep`. `goes_on`: the
    /// transaction, if it is not over. After an error everything is undone that could be.
    ///
    /// # Errors
    /// What stands in the way; if there is something that may pass, that.
    pub(crate) fn undo_to(&self, log: &mut UndoLog, keep: u64, goes_on: Option<GoesOn<'_>>) -> Result<()> {
        let mut course = Course { goes_on, pause: &mut || Ok(()), has_changed: false };
        let undone = self.undo_records(log, keep, &mut course);
        undone.or_else(|error| self.undo_around(log, keep, &mut course, error))
    }

    /// As [`TxnSystem::undo_to`], from the beginning, of a loser. What an earlier rollback has
    /// undone is not looked at again if that is known to be all that can be undone. `go_on` is
    /// asked now and then. Returns also whether an entry has been changed.
    fn undo_loser(&self, loser: &mut Loser, go_on: &dyn Fn() -> Result<()>) -> (Result<()>, bool) {
        let Loser { log, left, .. } = loser;
        // A loser may be larger than all other transactions, and the thread that undoes it is the
        // one that purges.
        let mut pause = || {
            if let Err(error) = self.purge(PAUSE_EVERY as usize) {
                self.purger.background.failed(error);
            }
            go_on()
        };
        let mut course = Course { goes_on: None, pause: &mut pause, has_changed: false };
        let undone = self.undo_records(log, 0, &mut course).or_else(|error| match left {
            _ if is_given_up(&error) => Err(error),
            Left::Passing if !blocks(&error) => Err(error),
            Left::Blocked => Err(error),
            Left::All | Left::Passing => self.undo_around(log, 0, &mut course, error),
        });
        (undone, course.has_changed)
    }

    fn undo_records(&self, log: &mut UndoLog, keep: u64, course: &mut Course<'_>) -> Result<()> {
        let acc = self.store.pool().access(AccessKind::Point);
        let mut bytes = Vec::new();
        log.check_whole(&self.undo)?;
        while log.records() > keep {
            if course.goes_on.is_none() {
                self.check_closed()?;
            }
            if !self.undo_last(log, &acc, &mut bytes, course)? {
                break;
            }
            if log.records().is_multiple_of(PAUSE_EVERY) {
                (course.pause)()?;
            }
        }
        log.cut(&self.undo, &acc)
    }

    /// Undoes the last record, and takes it off the log. False if there is none.
    fn undo_last(
        &self,
        log: &mut UndoLog,
        acc: &Access<'_>,
        bytes: &mut Vec<u8>,
        course: &mut Course<'_>,
    ) -> Result<bool> {
        let Some(roll) = log.last_record(&self.undo, acc, bytes)? else { return Ok(false) };
        let record = UndoRecord::decode(bytes).ok_or_else(|| self.undo.damaged(roll.page()))?;
        self.undo_and_count(log, roll, &record, course, acc)?;
        let pages = log.pages();
        let emptied = log.pop();
        if emptied || record.new_chain.is_some() {
            // Else the next attempt would pass the record over, and its chain would be left.
            log.cut(&self.undo, acc).inspect_err(|_| log.unpop(pages))?;
        }
        log.uncount_chain(record.chain_pages(self.undo.page_size()));
        if let Some(chain) = record.new_chain
            && let Some(index) = self.index(record.index)
            && let Some(_pinned) = index.pin()
        {
            // The record is gone: a chain that cannot be freed is lost, and no reason to stop.
            index.unless_damaged(values::release(index.tree().space(), index.id(), chain, acc))?;
        }
        Ok(true)
    }

    /// Undoes all changes beyond the first `keep` that can be undone, and keeps their records: so
    /// what stands in the way of one does not lock the rows of other tables.
    ///
    /// # Errors
    /// `first`, which has stopped the rollback; one that may pass, if `first` does not. That of a
    /// pause.
    fn undo_around(&self, log: &UndoLog, keep: u64, course: &mut Course<'_>, first: Error) -> Result<()> {
        let (acc, mut why) = (self.store.pool().access(AccessKind::Point), first);
        let mut bytes = Vec::new();
        for n in (keep..log.records()).rev() {
            if course.goes_on.is_none() {
                self.check_closed()?;
            }
            let undone = log.record(n, &self.undo, &acc, &mut bytes).and_then(|roll| {
                let record = UndoRecord::decode(&bytes).ok_or_else(|| self.undo.damaged(roll.page()))?;
                self.undo_and_count(log, roll, &record, course, &acc)
            });
            if let Err(error) = undone {
                // Nothing more is changed once the database has stopped.
                self.store.wal().check_poisoned()?;
                if blocks(&why) && !blocks(&error) {
                    why = error;
                }
            }
            if n.is_multiple_of(PAUSE_EVERY) {
                (course.pause)()?;
            }
        }
        Err(why)
    }

    /// Undoes the change of `record`; counts it, once, in a transaction that goes on.
    fn undo_and_count(
        &self,
        log: &UndoLog,
        roll: RollPtr,
        record: &UndoRecord<'_>,
        course: &mut Course<'_>,
        acc: &Access<'_>,
    ) -> Result<()> {
        let keeper = course.goes_on.as_ref().map(|txn| txn.owner);
        let Some(change) = self.undo_change(log, roll, record, keeper, acc)? else { return Ok(()) };
        course.has_changed = true;
        if let Some(txn) = &mut course.goes_on
            && change != 0
        {
            add_delta(txn.deltas, record.index, change);
        }
        Ok(())
    }

    /// Undoes the change of `record`; `keeper` keeps the row locked. Returns by how much the number
    /// of live entries has changed; `None` if there was nothing to undo.
    fn undo_change(
        &self,
        log: &UndoLog,
        roll: RollPtr,
        record: &UndoRecord<'_>,
        keeper: Option<&Arc<Owner>>,
        acc: &Access<'_>,
    ) -> Result<Option<i64>> {
        debug_assert!(!log.is_prepared(), "the changes of a prepared transaction are all there");
        let txn = log.txn();
        let Some(index) = self.index(record.index) else {
            return self.indexes.check_dropped(record.index).map(|()| None);
        };
        let Some(_pinned) = index.pin() else { return Ok(None) };
        if holdfast_base::planted!("rollback-skips-a-record") && roll.offset().is_multiple_of(7) {
            return Ok(None);
        }
        let prior =
            record.prior.map(|p| crate::entry::visibility::split(&index, p).map(|(h, _)| (h, p))).transpose()?;
        let was_live = prior.is_some_and(|(h, _)| !h.deleted);
        let puts_row_back = index.kind() == IndexKind::Rows && was_live && prior.is_some_and(|(h, _)| h.txn != txn);
        let (keeper, remover) = (keeper.filter(|_| puts_row_back), keeper.filter(|_| prior.is_none()));
        let mut applied = false;
        let mut decide = |current: Option<&[u8]>| {
            let current = current.and_then(VersionHeader::decode).map(|(h, _)| h);
            applied = current.is_some_and(|h| h.txn == txn && h.roll == roll);
            if let Some(owner) = keeper.filter(|_| applied && !holdfast_base::planted!("undone-row-not-locked")) {
                self.locks.keep_row(owner, record.index, record.key);
            }
            if let Some(owner) = remover.filter(|_| applied) {
                self.locks.keep_place(owner, record.index, record.key);
            }
            Ok(match prior {
                _ if !applied => Action::Keep,
                None => Action::Remove,
                Some((h, _)) if h.deleted && self.views.all_see(h.txn, &self.map) => Action::Remove,
                Some((_, payload)) => Action::Put(payload.to_vec()),
            })
        };
        index.tree().modify_as(SpaceClass::Rollback, record.key, acc, &mut decide)?;
        if let Some(owner) = keeper {
            self.locks.save_memory(owner, record.index);
        }
        Ok(applied.then(|| i64::from(was_live) - i64::from(!record.deletes)))
    }

    /// Rolls a transaction of an earlier run (or one whose rollback failed) back and ends it.
    fn roll_back_loser(&self, mut loser: Loser, go_on: &dyn Fn() -> Result<()>) -> Result<(), Box<Unfinished>> {
        let (undone, has_changed) = match self.unprepare(&mut loser.log) {
            Ok(_) => self.undo_loser(&mut loser, go_on),
            Err(error) => (Err(error), false),
        };
        self.release_unsaid_xid(&loser.log, &mut loser.xid);
        if let Err(error) = undone {
            if !is_given_up(&error) {
                loser.left = Left::after(&error, &loser.log);
            }
            return Err(Box::new(Unfinished { loser, error, has_changed }));
        }
        self.finish_rollback(&loser.owner, loser.log);
        Ok(())
    }

    /// The end of a rollback: the log is free, the id is gone from all rows.
    pub(crate) fn finish_rollback(&self, owner: &Arc<Owner>, mut log: UndoLog) {
        let acc = self.store.pool().access(AccessKind::Point);
        let id = log.txn();
        // If the pages cannot be freed now, recovery will do it: the log is empty, there is nothing
        // to undo in it.
        let _ = log.free(&self.undo, &acc);
        self.publish_rollback(id);
        self.end_owner(owner);
        self.metrics.inc(Counter::TrxRollbacks);
    }
}

impl TxnSystem {
    /// Rolls back the losers. Returns how many transactions have ended by that. One that only
    /// damage, or an unusable table, stands in the way of stays, with the rows of that table
    /// locked; that is no error.
    ///
    /// # Errors
    /// The first other error of reading and writing pages. The transactions concerned are tried
    /// again by the next call, and so are the others by this one.
    pub fn roll_back_losers(&self) -> Result<usize> {
        self.roll_back_each(&|| Ok(()), |tried| Ok(self.losers.take(tried)))
    }

    /// As [`TxnSystem::roll_back_losers`], of those losers that have changed an entry of one of
    /// `indexes`, or of which not all is known. Costs a read of the undo logs; another thread that
    /// reads one is waited for.
    ///
    /// # Errors
    /// The errors of [`TxnSystem::roll_back_losers`]; the errors of [`Wait::at`].
    /// [`Error::Interrupted`] also if the session of the calling thread is killed while it reads or
    /// undoes.
    pub fn roll_back_losers_of(&self, indexes: &[IndexId], wait: &Wait<'_>) -> Result<usize> {
        let go_on = || self.check_session();
        let learned = self.losers.learn(wait, |loser| self.changed_by(&loser.log, &go_on));
        if self.losers.len() > 0 {
            // The thread has passed over those whose logs were read.
            self.purger.background.wake();
        }
        // What cannot be read is met again below.
        if let Err(error @ (Error::Interrupted | Error::LockTimeout)) = learned {
            return Err(error);
        }
        let may_have_changed = |loser: &Loser| {
            let is_known = loser.log.check_whole(&self.undo).is_ok();
            Ok(!is_known || self.loser_has_changed(loser, indexes)?)
        };
        self.roll_back_each(&go_on, |tried| self.losers.take_one(tried, &may_have_changed))
    }

    /// Rolls back what `take` gives, which is told of which transactions that was done in vain.
    /// `go_on` is asked now and then.
    fn roll_back_each(
        &self,
        go_on: &dyn Fn() -> Result<()>,
        mut take: impl FnMut(&[TxnId]) -> Result<Option<Loser>>,
    ) -> Result<usize> {
        let any = holdfast_base::planted!("losers-stop-purge");
        let (mut ended, mut tried, mut first) = (0, Vec::new(), None);
        let taken: Result<()> = loop {
            let mut loser = match take(&tried) {
                Ok(Some(loser)) => loser,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let (txn, before, records) = (loser.log.txn(), loser.left, loser.log.records());
            // A session that changes another table does not wait for this one. What an error stops
            // is tried again and again, and its log may be long: it is read once.
            if loser.changed.is_none() {
                loser.changed = self.changed_by(&loser.log, go_on).ok();
            }
            if let Some(changed) = &loser.changed {
                self.losers.know(txn, changed.clone());
            }
            let Err(unfinished) = self.roll_back_loser(loser, go_on) else {
                self.losers.ended(txn);
                ended += 1;
                continue;
            };
            let Unfinished { mut loser, error, has_changed } = *unfinished;
            let given_up = is_given_up(&error);
            if blocks(&error) {
                self.locks.give_up_locks(&loser.owner, Some(for_waiters(&error)));
            } else if has_changed || loser.left != Left::All && before == Left::All {
                // Not each time: a session that goes on to wait does so for its whole limit again.
                self.locks.give_up_locks(&loser.owner, None);
            }
            if given_up || first.is_none() && (any || !blocks(&error)) {
                first = Some(error.clone());
            }
            if loser.log.records() < records && !given_up {
                // It has ended in some of these. This is read while no list is locked.
                loser.changed = self.changed_by(&loser.log, go_on).ok();
            }
            tried.push(txn);
            // Now: a session that changes its tables does not wait for the others.
            if self.losers.failed(loser, error) {
                self.purger.background.wake();
            }
            if given_up {
                break Ok(());
            }
        };
        first.map_or(taken.map(|()| ended), Err)
    }

    /// Waits until no thread is rolling a loser back that has changed one of `indexes`.
    ///
    /// # Errors
    /// The errors of [`Wait::at`].
    pub fn wait_for_rollbacks(&self, indexes: &[IndexId], wait: &Wait<'_>) -> Result<()> {
        self.losers.wait_for_hands(indexes, wait)
    }

    /// Has threads that wait for rollbacks, or for the read of a log, ask their observers whether
    /// they give up.
    pub fn wake_waits_for_rollbacks(&self) {
        self.losers.wake_waits();
        self.prepared.wake_waits();
    }

    /// Hands a transaction whose rollback has failed with `error` over to the background. `xid`:
    /// the one that its log says.
    pub(crate) fn abandon_rollback(&self, owner: Arc<Owner>, log: UndoLog, xid: Option<Vec<u8>>, error: &Error) {
        let left = Left::after(error, &log);
        if left != Left::All {
            self.locks.give_up_locks(&owner, None);
        }
        self.losers.add(Loser { owner, log, xid, left, stopped_by: Some(error.clone()), changed: None });
        self.purger.background.wake();
    }

    /// Waits as [`TxnSystem::wait_for_rollbacks`] does. Returns what the last rollback has met of
    /// each loser that waits to be rolled back and has changed an entry of one of `indexes`; `None`
    /// of one that no thread has tried to roll back. What a blocked one has changed is undone, or
    /// damaged. Costs a read of the undo logs.
    ///
    /// # Errors
    /// The errors of [`Wait::at`]; the errors of reading undo logs, other than damage.
    pub fn what_stops_losers_of(&self, indexes: &[IndexId], wait: &Wait<'_>) -> Result<Vec<Option<Error>>> {
        self.losers.stopped_by(indexes, wait, |loser| self.loser_has_changed(loser, indexes))
    }

    /// True if a loser has changed an entry of one of `indexes`.
    fn loser_has_changed(&self, loser: &Loser, indexes: &[IndexId]) -> Result<bool> {
        match &loser.changed {
            Some(changed) => Ok(changed.any_of(indexes)),
            None => self.has_changed(&loser.log, |index| indexes.contains(&index)),
        }
    }

    /// An index was dropped: what it stood in the way of may come to its end.
    pub(crate) fn retry_blocked_losers(&self) {
        if self.losers.unblock() {
            self.purger.background.wake();
        }
    }
}
