//! The lock side of a transaction: its identity, the locks that it holds, the lock that it waits
//! for.
//!
//! An `Owner` exists for every open transaction, also before it has a transaction id and for those
//! that recovery found unfinished. Other transactions reach it through lock queues and through the
//! map of active ids.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use holdfast_base::HashMap;
use holdfast_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use holdfast_base::sync::{Condvar, Mutex};
use holdfast_base::time::Instant;
use holdfast_base::{Error, IndexId, Result, TxnId, latches};

use crate::info::{Serial, WantedLock};
use crate::interval::KeyRange;
use crate::mode::Mode;
use crate::reading::Reading;

/// What a transaction waits for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Row {
        index: IndexId,
        key: Arc<[u8]>,
        mode: Mode,
    },
    /// The table of a row, which is asked for again when the table is free.
    Table {
        index: IndexId,
        key: Arc<[u8]>,
        mode: Mode,
    },
    Range {
        index: IndexId,
        key: Arc<[u8]>,
    },
    /// Inserters that wait for a range that is going to be read: it is their turn. Nothing is lost
    /// if the reader does not wait for them.
    Turn {
        index: IndexId,
        range: KeyRange,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Idle,
    Waiting,
    Granted,
    Deadlock,
    Killed,
    Stopped,
    TimedOut,
}

#[derive(Debug)]
pub(crate) struct WaitState {
    pub on: Option<Target>,
    /// When that began.
    pub since: Instant,
    pub outcome: Outcome,
    /// Its observer has to hear of each transaction that comes to be before it.
    pub is_told: bool,
    /// One has come to be before it that the observer may not have heard of.
    pub has_news: bool,
    pub killed: bool,
    /// Why no thread may wait any more.
    pub stopped: Option<Error>,
}

/// A lock that was entered a moment ago is one of so many that were entered last: there is a row
/// for each table of a join.
const JUST_ENTERED: usize = 8;

/// What an owner holds. `closed`: the transaction has ended, nothing may be added any more.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub closed: bool,
    /// Why the rollback of the transaction cannot go on: no request waits for its end.
    pub blocked: Option<Error>,
    /// The transaction reads no more, and has released its shared locks: none is entered for it.
    pub reads_are_over: bool,
    pub rows: Vec<(IndexId, Arc<[u8]>)>,
    /// When there are less than twice as many `rows`, no look is taken at which could become a
    /// table lock: they could not at once, or were few in each index, the last time.
    pub escalation_refused_at: usize,
    pub tables: Vec<IndexId>,
    pub ranges: Vec<IndexId>,
    pub covers: Vec<IndexId>,
}

impl Held {
    /// From now on nothing is added; gives what there was.
    pub fn close(&mut self) -> Held {
        std::mem::replace(self, Held { closed: true, ..Held::default() })
    }

    /// Gives what there was. `blocked`: see the field.
    pub fn give_up(&mut self, blocked: Option<Error>) -> Held {
        std::mem::replace(self, Held { closed: self.closed, blocked, ..Held::default() })
    }
}

/// What a transaction has changed in an index since a moment when it had a cursor open: numbers
/// that grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexChanges {
    /// Entries that there were not before, or that were deleted.
    pub added: u64,
    /// All others, and what was undone.
    pub altered: u64,
}

/// One transaction in the eyes of the lock manager.
#[derive(Debug)]
pub struct Owner {
    serial: Serial,
    txn: AtomicU64,
    undo_records: AtomicU64,
    changes: AtomicU64,
    waited: AtomicU64,
    /// Rollbacks to a savepoint, and the last one.
    undone: AtomicU64,
    /// Cursors that are open: while there is none, nothing asks where the changes were.
    cursors: AtomicUsize,
    /// The ranges that they read with locks, but for those that are narrow.
    pub(crate) readings: Mutex<Vec<Arc<Reading>>>,
    changed_indexes: Mutex<HashMap<IndexId, IndexChanges>>,
    /// Tables with rows of which it has replaced a version that a view of its own does not see.
    replaced_unseen: Mutex<Vec<IndexId>>,
    /// How often it has done so.
    unseen_replacements: AtomicU64,
    /// The entry whose newest version it may not replace because it does not see it.
    conflict: Mutex<Option<(IndexId, Vec<u8>)>>,
    /// How often what it held was given up because its rollback had failed. Grows under the mutex
    /// of `held`.
    given_up: AtomicU64,
    begun: Instant,
    pub(crate) wait: Mutex<WaitState>,
    pub(crate) wake: Condvar,
    pub(crate) held: Mutex<Held>,
}

impl Owner {
    /// The owner with number `serial`.
    #[must_use]
    pub fn new(serial: Serial) -> Arc<Owner> {
        let begun = Instant::now();
        Arc::new(Owner {
            serial,
            txn: AtomicU64::new(0),
            undo_records: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            undone: AtomicU64::new(0),
            cursors: AtomicUsize::new(0),
            readings: Mutex::new(Vec::new()),
            changed_indexes: Mutex::new(HashMap::default()),
            replaced_unseen: Mutex::new(Vec::new()),
            unseen_replacements: AtomicU64::new(0),
            conflict: Mutex::new(None),
            given_up: AtomicU64::new(0),
            begun,
            wait: Mutex::new(WaitState {
                on: None,
                since: begun,
                outcome: Outcome::Idle,
                is_told: false,
                has_news: false,
                killed: false,
                stopped: None,
            }),
            wake: Condvar::new(),
            held: Mutex::new(Held::default()),
        })
    }

    /// Its number.
    #[must_use]
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Its transaction id, [`TxnId::NONE`] while it has written nothing.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        TxnId(self.txn.load(Ordering::Acquire))
    }

    /// Sets the transaction id, once.
    pub fn set_txn(&self, id: TxnId) {
        self.txn.store(id.0, Ordering::Release);
    }

    /// Undo records written: what a rollback would cost.
    #[must_use]
    pub fn undo_records(&self) -> u64 {
        self.undo_records.load(Ordering::Relaxed)
    }

    /// Sets the number of undo records.
    pub fn set_undo_records(&self, n: u64) {
        self.undo_records.store(n, Ordering::Relaxed);
    }

    /// It changed an entry of `index`. `added`: there was none before, or a deleted one.
    pub fn changed(&self, index: IndexId, added: bool) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        if self.cursors.load(Ordering::Relaxed) > 0 {
            let mut indexes = self.changed_indexes.lock();
            let changes = indexes.entry(index).or_default();
            *if added { &mut changes.added } else { &mut changes.altered } += 1;
        }
    }

    /// It undid changes, to whichever indexes.
    pub fn undid(&self) {
        self.undone.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it has waited for a lock.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// A wait for a lock is over.
    pub(crate) fn has_waited(&self) {
        self.waited.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that grows with every change it makes or undoes.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// A cursor opens: from here on it is noted which index a change was made to.
    pub fn cursor_opens(&self) {
        self.cursors.fetch_add(1, Ordering::Relaxed);
    }

    /// A cursor closes.
    pub fn cursor_closes(&self) {
        self.cursors.fetch_sub(1, Ordering::Relaxed);
    }

    /// What it has changed in `index` while cursors were open, and what it has undone. With a row
    /// whose version it replaced without seeing it, the row's entries have become visible, or not
    /// any more, in whichever index they are.
    pub fn changes_of(&self, index: IndexId) -> IndexChanges {
        let mut changes = self.changed_indexes.lock().get(&index).copied().unwrap_or_default();
        changes.added += self.unseen_replacements.load(Ordering::Relaxed);
        changes.altered += self.undone.load(Ordering::Relaxed);
        changes
    }

    /// True if cursors are open.
    pub fn has_cursors(&self) -> bool {
        self.cursors.load(Ordering::Relaxed) > 0
    }

    /// It is about to replace a version of a row of `rows` that a view of its own does not see.
    /// Once said, this stays: it is true of too many transactions, at worst, if nothing comes of
    /// the change or it is undone.
    pub fn replaces_unseen(&self, rows: IndexId) {
        let mut tables = self.replaced_unseen.lock();
        if !tables.contains(&rows) {
            tables.push(rows);
        }
        self.unseen_replacements.fetch_add(1, Ordering::Relaxed);
    }

    /// It met an entry whose newest version it does not see, though the first one to change it
    /// wins.
    pub fn conflicts_on(&self, index: IndexId, key: &[u8]) {
        *self.conflict.lock() = Some((index, key.to_vec()));
    }

    /// The last such entry.
    pub fn conflict(&self) -> Option<(IndexId, Vec<u8>)> {
        self.conflict.lock().clone()
    }

    /// True if it has ever replaced such a version of a row of `rows`.
    pub fn has_replaced_unseen(&self, rows: IndexId) -> bool {
        self.unseen_replacements.load(Ordering::Relaxed) > 0
            && self.replaced_unseen.lock().contains(&rows)
            && !holdfast_base::planted!("own-rows-at-the-view")
    }

    /// Orders owners by when they began, the oldest first.
    pub fn seniority(&self) -> (Instant, Serial) {
        (self.begun, self.serial)
    }

    /// For how long it has existed.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Takes a row lock off its list that was entered a moment ago.
    pub(crate) fn take_just_entered(&self, index: IndexId, key: &[u8]) -> Option<(IndexId, Arc<[u8]>)> {
        let mut held = self.held.lock();
        let newest = held.rows.len().saturating_sub(JUST_ENTERED);
        let at = held.rows.get(newest..)?.iter().rposition(|(i, k)| *i == index && **k == *key)?;
        Some(held.rows.swap_remove(newest + at))
    }

    /// True if it holds any lock: of rows, ranges or whole tables.
    #[must_use]
    pub fn holds_locks(&self) -> bool {
        let held = self.held.lock();
        !(held.rows.is_empty() && held.tables.is_empty() && held.ranges.is_empty() && held.covers.is_empty())
    }

    /// How often its locks were given up because its rollback had failed: from then on its id may
    /// be gone from a row that carried it before ([`crate::LockManager::give_up_locks`]).
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Gives what it held, as [`Held::give_up`] does, and counts that.
    pub(crate) fn give_up(&self, blocked: Option<Error>) -> Held {
        let mut held = self.held.lock();
        self.given_up.fetch_add(1, Ordering::SeqCst);
        held.give_up(blocked)
    }

    /// Why no request waits for its end: see [`crate::LockManager::give_up_locks`].
    pub(crate) fn blocked(&self) -> Option<Error> {
        self.held.lock().blocked.clone()
    }

    /// The rollback of its transaction is going to be tried again: requests wait for its end.
    pub fn unblock(&self) {
        self.held.lock().blocked = None;
    }

    /// The indexes but `without` of which it holds at least `rows` row locks explicitly, that with
    /// the most of them first.
    pub(crate) fn indexes_with_rows(&self, rows: usize, without: IndexId) -> Vec<IndexId> {
        let mut counts: HashMap<IndexId, usize> = HashMap::default();
        for (index, _) in &self.held.lock().rows {
            *counts.entry(*index).or_default() += 1;
        }
        let is_found = |&(index, count): &(IndexId, usize)| index != without && count >= rows;
        let mut found: Vec<_> = counts.into_iter().filter(is_found).collect();
        found.sort_unstable_by_key(|(index, count)| (Reverse(*count), *index));
        found.into_iter().map(|(index, _)| index).collect()
    }

    /// Number of row locks held explicitly.
    #[must_use]
    pub fn row_locks(&self) -> usize {
        self.held.lock().rows.len()
    }

    /// Ends a wait for a lock, or a long walk of a cursor, with `Interrupted`: now or when the next
    /// one begins.
    pub fn kill(&self) {
        let mut wait = self.wait.lock();
        wait.killed = true;
        if wait.outcome == Outcome::Waiting {
            wait.outcome = Outcome::Killed;
            self.wake.notify_all();
        }
    }

    /// Ends a wait for a lock with `error`, now, and every later one when it begins: the database
    /// has stopped, and grants nothing any more.
    pub fn stop(&self, error: Error) {
        let mut wait = self.wait.lock();
        wait.stopped = Some(error);
        if wait.outcome == Outcome::Waiting {
            wait.outcome = Outcome::Stopped;
            self.wake.notify_all();
        }
    }

    /// The error of [`Owner::stop`].
    #[must_use]
    pub fn stopped(&self) -> Option<Error> {
        self.wait.lock().stopped.clone()
    }

    /// Takes back a kill that found nothing to interrupt; called when a statement begins.
    pub fn clear_kill(&self) {
        self.wait.lock().killed = false;
    }

    /// True if it was killed since its statement began.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.wait.lock().killed
    }

    /// The lock that it waits for now, and for how long it has.
    #[must_use]
    pub fn wait_in_progress(&self) -> Option<(WantedLock, Duration)> {
        let wait = self.wait.lock();
        let target = wait.on.as_ref().filter(|_| wait.outcome == Outcome::Waiting)?;
        Some((target.wanted(), wait.since.elapsed()))
    }

    /// True if it waits for anything now.
    pub(crate) fn waits(&self) -> bool {
        self.wait.lock().outcome == Outcome::Waiting
    }

    /// Ends the wait if it only lets others go first. Returns whether it did.
    pub(crate) fn give_way(&self) -> bool {
        self.end_wait_if(Outcome::Granted, |on| matches!(on, Some(Target::Turn { .. })))
    }

    /// Ends the wait if it is for the table of this row, and `held`, its lock on the row, is all
    /// that it wants there. Returns whether it did.
    pub(crate) fn has_row(&self, index: IndexId, key: &[u8], held: Mode) -> bool {
        self.end_wait_if(Outcome::Granted, |on| match on {
            Some(Target::Table { index: table, key: row, mode }) => {
                *table == index && **row == *key && held.covers(*mode)
            }
            _ => false,
        })
    }

    /// What it waits for now.
    pub(crate) fn waiting_for(&self) -> Option<Target> {
        let wait = self.wait.lock();
        if wait.outcome == Outcome::Waiting { wait.on.clone() } else { None }
    }

    /// Says that it waits for `target`. Called before the queue that holds the request is unlocked,
    /// so that a grant cannot come too early.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if it was killed meanwhile; that of [`Owner::stop`].
    pub(crate) fn start_wait(&self, target: Target) -> Result<()> {
        let mut wait = self.wait.lock();
        if let Some(error) = &wait.stopped {
            return Err(error.clone());
        }
        if wait.killed {
            return Err(Error::Interrupted);
        }
        wait.on = Some(target);
        wait.since = Instant::now();
        wait.outcome = Outcome::Waiting;
        (wait.is_told, wait.has_news) = (false, false);
        Ok(())
    }

    /// Its observer is about to be told its blockers, and has to hear of each transaction that
    /// comes to be before it from now on.
    pub(crate) fn will_be_told(&self) {
        let mut wait = self.wait.lock();
        (wait.is_told, wait.has_news) = (true, false);
    }

    /// A transaction has come to be before it: if its observer has to hear of that, its thread
    /// wakes up to say so. To be called under the mutex of the queue in which it waits.
    pub(crate) fn waits_for_more(&self) {
        let mut wait = self.wait.lock();
        if wait.outcome == Outcome::Waiting && wait.is_told {
            wait.has_news = true;
            self.wake.notify_all();
        }
    }

    /// Ends the wait with `outcome` if it is still going on. Returns whether it was.
    pub(crate) fn end_wait(&self, outcome: Outcome) -> bool {
        self.end_wait_if(outcome, |_| true)
    }

    fn end_wait_if(&self, outcome: Outcome, is_for: impl FnOnce(&Option<Target>) -> bool) -> bool {
        let mut wait = self.wait.lock();
        if wait.outcome != Outcome::Waiting || !is_for(&wait.on) {
            return false;
        }
        wait.outcome = outcome;
        self.wake.notify_all();
        true
    }

    /// Blocks until another thread ends the wait, or to `deadline`. Returns [`Outcome::Waiting`],
    /// and goes on waiting, if its observer has to hear of more transactions that it waits for.
    pub(crate) fn block(&self, deadline: Option<Instant>) -> Outcome {
        latches::none_while_waiting_for("a lock");
        let mut wait = self.wait.lock();
        while wait.outcome == Outcome::Waiting {
            if std::mem::take(&mut wait.has_news) {
                return Outcome::Waiting;
            }
            let left = deadline.map_or(Duration::from_secs(3600), |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                wait.outcome = Outcome::TimedOut;
                break;
            }
            wait = self.wake.wait_for(wait, left).0;
        }
        wait.on = None;
        std::mem::replace(&mut wait.outcome, Outcome::Idle)
    }
}
