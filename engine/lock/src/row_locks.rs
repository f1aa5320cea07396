//! Locks on rows.

use std::sync::Arc;

use holdfast_base::sync::atomic::Ordering;
use holdfast_base::{Error, IndexId, Result};
use smallvec::SmallVec;

use crate::manager::{LockManager, ended};
use crate::mode::{LockMode, LockWait, Mode};
use crate::owner::{Owner, Target};
use crate::queue::Verdict;
use crate::rows::{Row, RowLock, Rows};
use crate::table::TableState;

/// Bytes that one lock is taken to cost beside its key.
const LOCK_COST: usize = 160;

/// A lock that is held by the transaction id in the row, as the requester found it.
pub struct Implicit<'a> {
    /// Whose id is in the row.
    pub owner: &'a Arc<Owner>,
    /// Whether that transaction is still active, and has not given up its locks since before the
    /// row was read; asked under the shard's mutex.
    pub active: &'a (dyn Fn() -> bool + Sync),
}

/// How a lock on a row was had.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// The owner had to wait: the row must be read again.
    pub waited: bool,
    /// A lock was entered where the owner had none.
    pub is_new: bool,
}

/// What a request for a row comes to; `is_new` as in [`Entered`].
pub(crate) enum Step {
    Done { is_new: bool },
    WaitRow { is_new: bool },
    WaitTable,
}

impl LockManager {
    /// Locks `key` of `index`, there or not, for `owner`. `implicit` names the transaction whose id
    /// the row carried. Returns whether it had to wait: then the row must be read again. No latch
    /// may be held.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::LockTimeout`], [`Error::Deadlock`] (roll the transaction
    /// back), [`Error::Interrupted`] if the owner was killed, that of [`Owner::stop`] if the
    /// database stopped.
    pub fn lock_row(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
        implicit: Option<&Implicit<'_>>,
    ) -> Result<bool> {
        self.enter_row(owner, index, key, mode, wait, implicit).map(|entered| entered.waited)
    }

    /// As [`LockManager::lock_row`]; says more of what came of it.
    ///
    /// # Errors
    /// The errors of [`LockManager::lock_row`].
    pub fn enter_row(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
        implicit: Option<&Implicit<'_>>,
    ) -> Result<Entered> {
        let mut waited = false;
        let is_new = loop {
            // A cursor gives up what lies ahead of it before the request stands in a queue.
            let attempt = if owner.has_cursors() { LockWait::NoWait } else { wait };
            let mut step = self.try_row(owner, index, key, mode, attempt, implicit);
            if matches!(step, Err(Error::WouldBlock)) && wait.limit().is_some() {
                self.narrow_readings(owner);
                step = self.try_row(owner, index, key, mode, wait, implicit);
            }
            if let Some(implicit) = implicit {
                self.detect_beyond(owner, implicit.owner);
            }
            match step? {
                Step::Done { is_new } => break is_new,
                Step::WaitRow { is_new } => {
                    waited = true;
                    self.wait(owner, wait, &|| self.cancel_row(owner, index, key))?;
                    break is_new;
                }
                Step::WaitTable => {
                    waited = true;
                    self.wait(owner, wait, &|| self.cancel_table(owner, index))?;
                }
            }
        };
        self.save_memory(owner, index);
        Ok(Entered { waited, is_new })
    }

    /// `owner`, whose id is in the row, is about to undo the change: the lock that the id stands
    /// for is entered. To be called under the latch of the leaf. A lock that another transaction
    /// was granted on the row came too late, as in `enter_implicit`, and is taken back;
    /// [`LockManager::taken_back`] tells the reader so.
    pub fn keep_row(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8]) {
        let row = self.row(index, key);
        let mut rows = self.shard(&row).lock();
        let crossed = self.take_back_late(&mut rows, owner, &row);
        let covered = self.covers.covers(owner, index, key, Mode::Exclusive)
            || matches!(self.table_state(owner, index, LockMode::Exclusive), TableState::Covered);
        if crossed || !covered {
            self.grant_row(&mut rows, owner, &row, Mode::Exclusive);
        }
    }

    /// `owner`, whose id is in the row, is about to remove it, which it has inserted. If it has a
    /// lock of its own there, since another transaction waits for the row, it keeps that; a lock
    /// that was granted beside it is taken back, as by [`LockManager::keep_row`]. To be called
    /// under the latch of the leaf.
    pub fn keep_place(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8]) {
        let row = self.row(index, key);
        let mut rows = self.shard(&row).lock();
        if rows.get(&row).is_some_and(|queue| queue.holds(owner, Mode::Exclusive)) {
            self.take_back_late(&mut rows, owner, &row);
        }
    }

    /// Takes back what other transactions were granted on a row of `owner`, and counts that for
    /// their readers, as it does if a lock of another on more than the row reaches over it. Returns
    /// whether there was any. The caller holds the shard's mutex until the row has its lock.
    fn take_back_late(&self, rows: &mut Rows, owner: &Owner, row: &Row<'_>) -> bool {
        let late = rows.get_mut(row).map_or_else(SmallVec::new, |lock| lock.queue.release_others(owner));
        for other in &late {
            self.forget_held(other, row);
        }
        let crossed = !late.is_empty()
            || !self.covers.conflicting(owner, row.index, row.key, Mode::Exclusive).is_empty()
            || matches!(self.table_state(owner, row.index, LockMode::Exclusive), TableState::Busy);
        if crossed {
            self.taken_back.fetch_add(1, Ordering::SeqCst);
        }
        crossed
    }

    /// How often a lock, or a part of a cover, was taken back that a reader was granted before it
    /// had read the row. A reader that finds this changed since before it asked for its lock asks
    /// once more, and reads again.
    #[must_use]
    pub fn taken_back(&self) -> u64 {
        self.taken_back.load(Ordering::SeqCst)
    }

    /// Where the locks take too much memory, the row locks of `owner` become a table lock, if that
    /// can be had at once.
    pub fn save_memory(&self, owner: &Arc<Owner>, index: IndexId) {
        if self.memory() > self.budget {
            self.escalate(owner, index);
        }
    }

    pub(crate) fn try_row(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
        implicit: Option<&Implicit<'_>>,
    ) -> Result<Step> {
        let row = self.row(index, key);
        let mut rows = self.shard(&row).lock();
        if let Some(implicit) = implicit
            && implicit.owner.serial() != owner.serial()
            && (implicit.active)()
        {
            if wait.limit().is_none() {
                return Err(Error::WouldBlock); // A request that does not wait leaves no trace.
            }
            self.enter_implicit(&mut rows, owner, implicit, &row)?;
        }
        if !self.enter_covered(&mut rows, owner, &row, mode, wait) {
            return Err(Error::WouldBlock);
        }
        let verdict = rows.get(&row).map_or(Verdict::Free { upgrade: false }, |q| q.verdict(owner, mode.row()));
        // The table comes first: the row's queue grants a lock without a look at the table.
        match (verdict, self.table_state_at(owner, index, key, mode)) {
            (Verdict::Held, _) | (Verdict::Free { .. }, TableState::Covered) => Ok(Step::Done { is_new: false }),
            (Verdict::Free { upgrade }, TableState::Free) => {
                if !self.grant_row(&mut rows, owner, &row, mode.row()) {
                    return Err(ended());
                }
                Ok(Step::Done { is_new: !upgrade })
            }
            _ if wait.limit().is_none() => Err(Error::WouldBlock),
            (Verdict::Busy { upgrade }, table)
                if !matches!(table, TableState::Busy) || holdfast_base::planted!("row-wait-passes-a-table-lock") =>
            {
                let Some(lock) = rows.get_mut(&row) else { return Ok(Step::Done { is_new: false }) };
                owner.start_wait(Target::Row { index, key: Arc::clone(&lock.key), mode: mode.row() })?;
                lock.queue.enqueue(owner, mode.row(), upgrade);
                Ok(Step::WaitRow { is_new: !upgrade })
            }
            _ => self.enqueue_table(owner, &row, mode.intent()).map(|()| Step::WaitTable),
        }
    }

    /// Removes the lock that `owner` was granted on the row, if there is one.
    fn give_back(&self, rows: &mut Rows, owner: &Owner, row: &Row<'_>) {
        if let Some(lock) = rows.get_mut(row)
            && lock.queue.release(owner)
        {
            self.forget_held(owner, row);
        }
    }

    /// Takes a lock that has left the row's queue off the list of its owner.
    fn forget_held(&self, owner: &Owner, row: &Row<'_>) {
        owner.held.lock().rows.retain(|(index, key)| *index != row.index || **key != *row.key);
        self.account(-lock_cost(row.key));
    }

    /// Enters the lock that `holder` has by its id in the row, unless `holder` is just ending. A
    /// lock that `owner` was granted on the key came too late - the row was written before, or the
    /// writer would have seen it - and is released, whatever lock `holder` has on the key already:
    /// an owner that kept it would never wait, and never be found in a deadlock.
    ///
    /// # Errors
    /// Why the rollback of `holder` is blocked, if it is.
    fn enter_implicit(
        &self,
        rows: &mut Rows,
        owner: &Arc<Owner>,
        implicit: &Implicit<'_>,
        row: &Row<'_>,
    ) -> Result<()> {
        let holder = implicit.owner;
        self.give_back(rows, owner, row);
        self.grant_row(rows, holder, row, Mode::Exclusive);
        let blocked = holder.blocked();
        // If its locks were given up before this one was entered, nothing would release it, and the
        // row may be free: it is read again.
        let stands = (implicit.active)();
        if !stands {
            self.give_back(rows, holder, row);
        }
        // If `holder` has just ended, or is blocked, what `owner` gave back may be another one's
        // turn.
        rows.change(row, |lock| self.regrant_row(lock));
        blocked.filter(|_| stands).map_or(Ok(()), Err)
    }

    /// Enters the locks that others have by covers, where they keep `owner` from its lock. False if
    /// there is one and `owner` does not wait.
    fn enter_covered(&self, rows: &mut Rows, owner: &Owner, row: &Row<'_>, mode: LockMode, wait: LockWait) -> bool {
        if rows.get(row).is_some_and(|queue| queue.holds(owner, mode.row())) {
            return true;
        }
        let holders = self.covers.conflicting(owner, row.index, row.key, mode.row());
        if !holders.is_empty() && wait.limit().is_none() {
            return false;
        }
        for (holder, mode) in holders {
            if !rows.get(row).is_some_and(|queue| queue.conflicts(&holder, mode)) {
                self.grant_row(rows, &holder, row, mode);
            }
        }
        true
    }

    /// Grants a lock on a row that is free. Returns false if the transaction of `owner` has ended:
    /// nothing is granted to it, as nothing would release that.
    pub(crate) fn grant_row(&self, rows: &mut Rows, owner: &Arc<Owner>, row: &Row<'_>, mode: Mode) -> bool {
        let mut held = owner.held.lock();
        if held.closed || held.blocked.is_some() || held.reads_are_over && mode == Mode::Shared {
            return !held.closed;
        }
        let lock = rows.enter(row);
        let before = lock.queue.grant(owner, mode);
        if before.is_none() {
            held.rows.push((row.index, Arc::clone(&lock.key)));
            self.account(lock_cost(row.key));
        }
        drop(held); // A grant from the queue takes the mutex of the wait first.
        lock.queue.has_come_before(owner, before);
        lock.queue.promote(owner);
        // Nor may it wait for a table lock to get what it has now: the owner of that may wait here.
        let mode = lock.queue.mode_of(owner);
        if self.has_table_locks() && mode.is_some_and(|held| owner.has_row(row.index, row.key, held)) {
            // It asks for the row again first, and for that needs the mutex of the shard.
            self.cancel_table(owner, row.index);
        }
        true
    }

    pub(crate) fn cancel_row(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        let row = self.row(index, key);
        self.shard(&row).lock().change(&row, |lock| {
            lock.queue.remove_waiter(owner);
            self.regrant_row(lock);
        });
    }

    fn regrant_row(&self, lock: &mut RowLock) {
        let RowLock { index, key, queue, .. } = lock;
        queue.regrant(|owner, _| {
            owner.held.lock().rows.push((*index, Arc::clone(key)));
            self.account(lock_cost(key));
        });
    }

    /// True if an explicit lock (or table lock) of another transaction forbids `owner` to change
    /// `key`. Asked under the latch of the key's leaf; the caller has checked that no active
    /// transaction has its id in the row. So if `owner` holds the lock itself, one that was entered
    /// beside it is of a transaction that has undone its change: the lock of `owner` counts.
    #[must_use]
    pub fn blocked(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        self.blocked_for(owner, index, key, LockMode::Exclusive)
    }

    /// As [`LockManager::blocked`], for a lock of this `mode`.
    #[must_use]
    pub fn blocked_for(&self, owner: &Owner, index: IndexId, key: &[u8], mode: LockMode) -> bool {
        let row = self.row(index, key);
        let rows = self.shard(&row).lock();
        let queue = rows.get(&row);
        let holds = |mode| queue.is_some_and(|queue| queue.holds(owner, mode));
        // A table lock of another leaves the rows alone that were locked before it came.
        if !holds(mode.row())
            && (queue.is_some_and(|queue| queue.conflicts(owner, mode.row()))
                || matches!(self.table_state_at(owner, index, key, mode), TableState::Busy))
        {
            return true;
        }
        !holds(mode.row()) && !self.covers.conflicting(owner, index, key, mode.row()).is_empty()
    }

    /// True if `owner` holds an explicit lock on `key` of any mode, or one by a cover or a table
    /// lock on the index that does not leave the key out: no other transaction has locked it
    /// exclusively.
    #[must_use]
    pub fn holds_row(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        let row = self.row(index, key);
        let rows = self.shard(&row).lock();
        let queue = rows.get(&row);
        if queue.is_some_and(|queue| queue.mode_of(owner).is_some()) {
            return true;
        }
        let is_covered = self.covers.covers(owner, index, key, Mode::Shared)
            || matches!(self.table_state(owner, index, LockMode::Shared), TableState::Covered);
        is_covered
            && !queue.is_some_and(|queue| queue.conflicts(owner, Mode::Shared))
            && self.covers.conflicting(owner, index, key, Mode::Shared).is_empty()
    }

    /// The mode in which `owner` holds an explicit lock on `key`.
    #[must_use]
    pub fn row_mode(&self, owner: &Owner, index: IndexId, key: &[u8]) -> Option<LockMode> {
        let row = self.row(index, key);
        self.shard(&row).lock().get(&row).and_then(|queue| queue.mode_of(owner)).map(Mode::of_rows)
    }

    /// Gives up early what a request has added to the lock on a row (READ COMMITTED: the row did
    /// not match): `owner` holds it as `before`, which was its [`LockManager::row_mode`].
    pub fn unlock_row_to(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8], before: Option<LockMode>) {
        match before {
            Some(LockMode::Exclusive) => {}
            Some(LockMode::Shared) => {
                let row = self.row(index, key);
                self.shard(&row).lock().change(&row, |lock| {
                    lock.queue.lower(owner);
                    self.regrant_row(lock);
                });
            }
            None => self.unlock_row(owner, index, key),
        }
    }

    /// Gives up a row lock early.
    pub fn unlock_row(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8]) {
        let mut held = owner.held.lock();
        let Some(at) = held.rows.iter().rposition(|(i, k)| *i == index && **k == *key) else { return };
        held.rows.swap_remove(at);
        drop(held);
        self.release_row(owner, index, key);
    }

    pub(crate) fn release_row(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        let row = self.row(index, key);
        self.shard(&row).lock().change(&row, |lock| self.release_in(lock, owner));
    }

    /// Releases a row lock, for which one of mode `substitute` stands from here on, unless others
    /// wait for it or it is stronger. Returns whether it did.
    pub(crate) fn release_uncontended(&self, owner: &Owner, index: IndexId, key: &[u8], substitute: Mode) -> bool {
        let row = self.row(index, key);
        let mut stays = false;
        self.shard(&row).lock().change(&row, |lock| {
            let is_stronger = lock.queue.mode_of(owner).is_some_and(|mode| !substitute.covers(mode));
            stays = is_stronger || !lock.queue.waiting.is_empty();
            if !stays {
                self.release_in(lock, owner);
            }
        });
        !stays
    }

    fn release_in(&self, lock: &mut RowLock, owner: &Owner) {
        if lock.queue.release(owner) {
            self.account(-lock_cost(&lock.key));
        }
        self.regrant_row(lock);
    }

    /// `owner` has found its id in a row, or has put it into one that was there: the lock that it
    /// has just entered is not needed. It is kept if others wait for it.
    pub fn leave_to_id(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        if let Some(lock) = owner.take_just_entered(index, key)
            && !self.release_uncontended(owner, index, key, Mode::Exclusive)
        {
            owner.held.lock().rows.push(lock);
        }
    }

    /// `owner` has found no row where it has just entered a lock, and a range of its covers the
    /// place: the lock goes to the next in line.
    pub fn leave_to_range(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        if owner.take_just_entered(index, key).is_some() {
            self.release_row(owner, index, key);
        }
    }

    /// Releases a row lock unless its mode `stays`. Returns whether it did.
    pub(crate) fn release_row_unless(
        &self,
        owner: &Owner,
        index: IndexId,
        key: &[u8],
        stays: impl Fn(Mode) -> bool,
    ) -> bool {
        let row = self.row(index, key);
        let mut released = false;
        self.shard(&row).lock().change(&row, |lock| {
            released = lock.queue.mode_of(owner).is_some_and(|mode| !stays(mode));
            if released {
                self.release_in(lock, owner);
            }
        });
        released
    }
}

/// Bytes that a lock on `key` is taken to cost.
fn lock_cost(key: &[u8]) -> isize {
    (LOCK_COST + key.len()) as isize
}
