//! Locks: rows, ranges, tables.
//!
//! A changed row is locked by the transaction id in it; no lock is entered anywhere. Only a
//! transaction that has to *wait* for such a row enters a lock on behalf of the row's owner and
//! queues behind it. Locking reads enter their locks at once, and a transaction that then changes
//! the row releases the entered lock again: a statement that changes a million rows holds a few
//! locks at a time. A cursor that reads many rows holds one lock over all of them (see `cover`).
//!
//! # Protocol
//! * **Writers** ask [`LockManager::blocked`] under the latch of the leaf, before they put their id into the row.
//!   **Locking readers** enter their lock first and read the row afterwards. One of the two sees the other.
//! * A waiter enters the owner's implicit lock under the shard's mutex after asking again whether the owner is still
//!   active; an owner that ends publishes its end first and closes its list of locks then. So either the waiter sees
//!   the end, or the owner finds the lock in its list, or the list is closed and the waiter starts over.
//! * A transaction that starts to wait searches for a cycle, one at a time, after the next searcher
//!   can see its request. So does a thread that enters a lock for an owner that waits itself: the
//!   waiters in that queue have begun to wait for that owner without a search of theirs.
//! * Memory over the budget: a transaction that holds many rows of one index gets a table lock
//!   instead. It stands for every key that no other transaction has locked; locks of others on
//!   single rows are still respected one by one.
//!
//! # Lock order
//! graph -> shard -> tables or covers -> (wait state -> held list) of one owner. Range locks have a
//! mutex of their own that is ordered like a shard. No page latch is ever taken under any of these;
//! they may be taken under page latches, but no thread waits for a lock while it holds a latch.

mod by_index;
mod cover;
mod deadlock;
mod interval;
mod owner;
mod queue;
mod range;
mod report;
mod rows;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod table;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::mem::take;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use holdfast_base::HashMap;
use holdfast_base::sync::Mutex;
use holdfast_base::sync::atomic::{AtomicUsize, Ordering};
use holdfast_base::time::Instant;
use holdfast_base::{Error, IndexId, Result};
use holdfast_metrics::{Counter, Gauge, Metrics, WaitClass};

pub use cover::CoverId;
pub use deadlock::{DeadlockParty, DeadlockReport};
pub use interval::KeyRange;
#[cfg(not(shuttle))]
pub(crate) use owner::IndexChanges;
pub use owner::{Owner, Serial};
pub use range::RangeId;
pub use report::{FindSession, LockInfo, LockKind, LockWaitInfo, Session, WantedLock};

use cover::Covers;
use owner::{Outcome, Target};
use queue::{Mode, Queue, Verdict};
use range::RangeLocks;
use rows::{Row, RowLock, Rows};
use table::TableState;

const SHARDS: usize = 64;
/// Bytes that one lock is taken to cost beside its key.
const LOCK_COST: usize = 160;
/// A transaction with fewer row locks in an index is not worth a table lock.
const ESCALATION_MIN: usize = 64;

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Compatible with other shared locks.
    Shared,
    /// Compatible with nothing.
    Exclusive,
}

impl LockMode {
    fn row(self) -> Mode {
        match self {
            LockMode::Shared => Mode::Shared,
            LockMode::Exclusive => Mode::Exclusive,
        }
    }

    fn intent(self) -> Mode {
        match self {
            LockMode::Shared => Mode::IntentShared,
            LockMode::Exclusive => Mode::IntentExclusive,
        }
    }
}

/// What to do about a lock that another transaction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// Wait for at most so long, then [`Error::LockTimeout`].
    For(Duration),
    /// [`Error::WouldBlock`] at once.
    NoWait,
    /// As [`WaitMode::NoWait`]; a cursor passes over the row instead of reporting it.
    SkipLocked,
}

/// A lock that is held by the transaction id in the row, as the requester found it.
pub struct Implicit<'a> {
    /// Whose id is in the row.
    pub owner: &'a Arc<Owner>,
    /// Whether that transaction is still active; asked under the shard's mutex.
    pub active: &'a (dyn Fn() -> bool + Sync),
}

/// The transactions of which a [`WaitObserver`] wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitInterest {
    /// Of none.
    None,
    /// Of those that hold what is waited for, by the waiter or by others that are ahead of it.
    Holders,
    /// Of all that have to get or release a lock before the waiter gets its own.
    All,
}

/// Is told of waits by the threads that wait, which hold no lock of the lock manager then. It must not wait for a
/// transaction itself.
pub trait WaitObserver: Send + Sync {
    /// Of which transactions it wants to hear if this thread is going to wait: with hundreds in the
    /// queue the list may be long.
    fn interest(&self) -> WaitInterest;
    /// The transaction `waiter` is going to wait for `others`, which are sorted.
    fn waits_for(&self, waiter: Serial, others: &[Serial]);
    /// This thread is going to sleep.
    fn begins(&self);
    /// It has woken up.
    fn ends(&self);
    /// True if this thread is to end a wait that is not for a lock with [`Error::Interrupted`]. The thread asks before it sleeps and whenever it is
    /// woken, and holds the mutex of what it waits at.
    fn gives_up(&self) -> bool;
}

/// The lock manager of one database.
pub struct LockManager {
    hasher: holdfast_base::HashState,
    shards: Box<[Mutex<Rows>]>,
    tables: Mutex<HashMap<IndexId, Queue>>,
    table_locks: AtomicUsize,
    pub(crate) ranges: RangeLocks,
    covers: Covers,
    graph: Mutex<deadlock::Graph>,
    sessions: OnceLock<Box<FindSession>>,
    observer: OnceLock<Box<dyn WaitObserver>>,
    used: CachePadded<AtomicUsize>,
    budget: usize,
    metrics: Arc<Metrics>,
}

enum Step {
    Done,
    WaitRow,
    WaitTable,
}

impl LockManager {
    /// An empty lock table that escalates once its locks take more than `budget` bytes.
    #[must_use]
    pub fn new(budget: usize, metrics: Arc<Metrics>) -> LockManager {
        LockManager {
            hasher: holdfast_base::HashState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            tables: Mutex::new(HashMap::default()),
            table_locks: AtomicUsize::new(0),
            ranges: RangeLocks::new(),
            covers: Covers::new(),
            graph: Mutex::new(deadlock::Graph::default()),
            sessions: OnceLock::new(),
            observer: OnceLock::new(),
            used: CachePadded::new(AtomicUsize::new(0)),
            budget,
            metrics,
        }
    }

    /// Lets `observer` be told of waits. The first one stays.
    pub fn set_wait_observer(&self, observer: Box<dyn WaitObserver>) {
        let _ = self.observer.set(observer);
    }

    /// What is told of waits.
    #[must_use]
    pub fn wait_observer(&self) -> Option<&dyn WaitObserver> {
        self.observer.get().map(AsRef::as_ref)
    }

    /// Bytes of memory that explicit locks take.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn row<'a>(&self, index: IndexId, key: &'a [u8]) -> Row<'a> {
        Row::new(&self.hasher, index, key)
    }

    fn shard(&self, row: &Row<'_>) -> &Mutex<Rows> {
        &self.shards[row.shard(SHARDS)]
    }

    fn account(&self, bytes: isize) {
        if bytes >= 0 {
            self.used.fetch_add(bytes.unsigned_abs(), Ordering::Relaxed);
        } else {
            self.used.fetch_sub(bytes.unsigned_abs(), Ordering::Relaxed);
        }
        self.metrics.adjust(Gauge::MemoryLocks, bytes as i64);
    }

    /// Locks `key` of `index`, there or not, for `owner`. `implicit` names the transaction whose id the row carried.
    /// Returns whether it had to wait: then the row must be read again. No latch may be held.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::LockTimeout`], [`Error::Deadlock`] (roll the transaction back),
    /// [`Error::Interrupted`] if the owner was killed, that of [`Owner::stop`] if the database stopped.
    pub fn lock_row(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        key: &[u8],
        mode: LockMode,
        wait: WaitMode,
        implicit: Option<&Implicit<'_>>,
    ) -> Result<bool> {
        let mut waited = false;
        loop {
            let step = self.try_row(owner, index, key, mode, wait, implicit);
            if let Some(implicit) = implicit {
                self.detect_beyond(owner, implicit.owner);
            }
            match step? {
                Step::Done => break,
                Step::WaitRow => {
                    waited = true;
                    self.wait(owner, wait, &|| self.cancel_row(owner, index, key))?;
                    break;
                }
                Step::WaitTable => {
                    waited = true;
                    let result = self.wait(owner, wait, &|| self.cancel_table(owner, index));
                    self.cancel_table(owner, index); // The intent was only there to be waited with.
                    result?;
                }
            }
        }
        if self.memory() > self.budget {
            self.escalate(owner, index, wait)?;
        }
        Ok(waited)
    }

    fn try_row(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        key: &[u8],
        mode: LockMode,
        wait: WaitMode,
        implicit: Option<&Implicit<'_>>,
    ) -> Result<Step> {
        let row = self.row(index, key);
        let mut rows = self.shard(&row).lock();
        if let Some(implicit) = implicit
            && implicit.owner.serial() != owner.serial()
            && (implicit.active)()
        {
            if wait_limit(wait).is_none() {
                return Err(Error::WouldBlock); // A request that does not wait leaves no trace.
            }
            self.enter_implicit(&mut rows, owner, implicit.owner, &row);
        }
        if !self.enter_covered(&mut rows, owner, &row, mode, wait) {
            return Err(Error::WouldBlock);
        }
        let verdict = rows.get(&row).map_or(Verdict::Free { upgrade: false }, |queue| queue.verdict(owner, mode.row()));
        match verdict {
            Verdict::Held => Ok(Step::Done),
            Verdict::Free { .. } => match self.table_state(owner, index, mode) {
                TableState::Covered => Ok(Step::Done),
                TableState::Free => {
                    self.grant_row(&mut rows, owner, &row, mode.row());
                    Ok(Step::Done)
                }
                TableState::Busy if wait_limit(wait).is_none() => Err(Error::WouldBlock),
                TableState::Busy => self.enqueue_table(owner, index, mode.intent(), false).map(|()| Step::WaitTable),
            },
            Verdict::Busy { .. } if wait_limit(wait).is_none() => Err(Error::WouldBlock),
            Verdict::Busy { upgrade } => {
                let Some(lock) = rows.get_mut(&row) else { return Ok(Step::Done) };
                owner.start_wait(Target::Row { index, key: Arc::clone(&lock.key), mode: mode.row() })?;
                lock.queue.enqueue(owner, mode.row(), upgrade);
                Ok(Step::WaitRow)
            }
        }
    }

    /// Enters the lock that `holder` has by its id in the row, unless `holder` is just ending. A
    /// lock that `owner` was granted on the key came too late - the row was written before, or the
    /// writer would have seen it - and is released, whatever lock `holder` has on the key already:
    /// an owner that kept it would never wait, and never be found in a deadlock.
    fn enter_implicit(&self, rows: &mut Rows, owner: &Arc<Owner>, holder: &Arc<Owner>, row: &Row<'_>) {
        if let Some(lock) = rows.get_mut(row)
            && lock.queue.release(owner)
        {
            owner.held.lock().rows.retain(|(index, key)| *index != row.index || **key != *row.key);
            self.account(-lock_cost(row.key));
        }
        self.grant_row(rows, holder, row, Mode::Exclusive);
        // If `holder` has just ended, what `owner` gave back may be another one's turn.
        rows.change(row, |lock| self.regrant_row(lock));
    }

    /// Enters the locks that others have by covers, where they keep `owner` from its lock. False if there is one and `owner` does not
    /// wait.
    fn enter_covered(&self, rows: &mut Rows, owner: &Owner, row: &Row<'_>, mode: LockMode, wait: WaitMode) -> bool {
        if rows.get(row).is_some_and(|queue| queue.holds(owner, mode.row())) {
            return true;
        }
        let holders = self.covers.conflicting(owner, row.index, row.key, mode.row());
        if !holders.is_empty() && wait_limit(wait).is_none() {
            return false;
        }
        for (holder, mode) in holders {
            if !rows.get(row).is_some_and(|queue| queue.conflicts(&holder, mode)) {
                self.grant_row(rows, &holder, row, mode);
            }
        }
        true
    }

    fn grant_row(&self, rows: &mut Rows, owner: &Arc<Owner>, row: &Row<'_>, mode: Mode) {
        let mut held = owner.held.lock();
        if held.closed {
            return;
        }
        let lock = rows.enter(row);
        if lock.queue.grant(owner, mode) {
            held.rows.push((row.index, Arc::clone(&lock.key)));
            self.account(lock_cost(row.key));
        }
    }

    /// Blocks the owner, whose request stands in a queue, until it is granted. `cancel` takes the request back.
    fn wait(&self, owner: &Arc<Owner>, wait: WaitMode, cancel: &dyn Fn()) -> Result<()> {
        let limit = wait_limit(wait).unwrap_or_default();
        self.metrics.inc(Counter::RowLockWaits);
        self.metrics.adjust(Gauge::RowLockCurrentWaits, 1);
        let begun = Instant::now();
        self.detect(owner);
        let observer = self.observer.get();
        if let Some(observer) = observer {
            self.tell(observer.as_ref(), owner);
            observer.begins();
        }
        let outcome = owner.block(limit);
        owner.has_waited();
        if let Some(observer) = observer {
            observer.ends();
        }
        self.metrics.record_wait(WaitClass::Lock, begun.elapsed());
        self.metrics.adjust(Gauge::RowLockCurrentWaits, -1);
        let error = match outcome {
            Outcome::Granted => return Ok(()),
            Outcome::Deadlock => Error::Deadlock,
            Outcome::Killed => Error::Interrupted,
            Outcome::Stopped => owner.stopped().unwrap_or(Error::Interrupted),
            Outcome::TimedOut | Outcome::Waiting | Outcome::Idle => {
                self.metrics.inc(Counter::LockTimeouts);
                Error::LockTimeout
            }
        };
        cancel();
        Err(error)
    }

    fn tell(&self, observer: &dyn WaitObserver, owner: &Arc<Owner>) {
        let others = match observer.interest() {
            WaitInterest::None => return,
            WaitInterest::Holders => self.obstacles(owner, owner),
            WaitInterest::All => self.blockers(owner),
        };
        let mut others: Vec<Serial> = others.iter().map(|other| other.serial()).collect();
        others.sort_unstable();
        observer.waits_for(owner.serial(), &others);
    }

    fn cancel_row(&self, owner: &Owner, index: IndexId, key: &[u8]) {
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
    /// `key`. Asked under the latch of the key's leaf; the caller checks locks by transaction id.
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
        if queue.is_some_and(|queue| queue.conflicts(owner, mode.row()))
            || !holds(mode.row()) && matches!(self.table_state(owner, index, mode), TableState::Busy)
        {
            return true;
        }
        !holds(Mode::Exclusive) && !self.covers.conflicting(owner, index, key, Mode::Exclusive).is_empty()
    }

    /// Begins to lock rows of `index` as one, from `key` on, which `owner` has locked. `None` if that cannot be had.
    pub fn begin_cover(&self, owner: &Arc<Owner>, index: IndexId, mode: LockMode, key: &[u8]) -> Option<CoverId> {
        let id = self.covers.begin(owner, index, mode.row(), key)?;
        let mut held = owner.held.lock();
        if !held.covers.contains(&index) {
            held.covers.push(index);
        }
        Some(id)
    }

    /// Locks `key`, the next one in the direction of a cover of `owner`. To be called before it is read. False, and nothing is locked, if
    /// that takes more than a look.
    pub fn cover_row(&self, owner: &Owner, index: IndexId, id: CoverId, key: &[u8]) -> bool {
        let Some(mode) = self.covers.extend(owner, index, id, key) else { return false };
        let row = self.row(index, key);
        let rows = self.shard(&row).lock();
        let busy = rows.get(&row).is_some_and(|queue| matches!(queue.verdict(owner, mode), Verdict::Busy { .. }));
        drop(rows);
        if busy || self.table_locks.load(Ordering::SeqCst) > 0 {
            self.uncover_row(index, id);
            return false;
        }
        true
    }

    /// Takes the last [`LockManager::cover_row`] back.
    pub fn uncover_row(&self, index: IndexId, id: CoverId) {
        self.covers.go_back(index, id);
    }

    /// Whether `owner` holds an explicit lock on `key` of any mode, or a table lock on the index.
    #[must_use]
    pub fn holds_row(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        let row = self.row(index, key);
        let rows = self.shard(&row).lock();
        rows.get(&row).is_some_and(|queue| queue.mode_of(owner).is_some())
            || matches!(self.table_state(owner, index, LockMode::Shared), TableState::Covered)
    }

    /// True if a range lock of another transaction forbids `owner` to insert `key`. Asked under the
    /// latch of its leaf.
    #[must_use]
    pub fn range_blocked(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        self.ranges.covered(owner, index, key)
    }

    /// Waits until no range of others covers `key`. The answer may be out of date at once: ask
    /// again under the latch. A waiter stays in the queue until [`LockManager::has_inserted`].
    ///
    /// # Errors
    /// As [`LockManager::lock_row`].
    pub fn wait_range(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8], wait: WaitMode) -> Result<()> {
        if wait_limit(wait).is_none() {
            return if self.ranges.covered(owner, index, key) { Err(Error::WouldBlock) } else { Ok(()) };
        }
        if self.ranges.enqueue(owner, index, key)? {
            self.wait(owner, wait, &|| self.ranges.remove_inserter(owner, index, key))
        } else {
            Ok(())
        }
    }

    /// `owner`, which has waited in [`LockManager::wait_range`] for `key`, has inserted it, or has given up.
    pub fn has_inserted(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        self.ranges.remove_inserter(owner, index, key);
    }

    /// Keeps inserts of others out of `range` until the owner ends. To be called before the range is read.
    pub fn lock_range(&self, owner: &Arc<Owner>, index: IndexId, range: KeyRange) -> Option<RangeId> {
        let (id, cost, is_crowded) = self.ranges.register(owner, index, range)?;
        if is_crowded && self.is_ordered() {
            self.ranges.look_again(index);
        }
        let mut held = owner.held.lock();
        if !held.ranges.contains(&index) {
            held.ranges.push(index);
        }
        drop(held);
        self.account(cost as isize);
        if self.memory() > self.budget {
            // One range over everything instead of many.
            let freed = self.ranges.replace_by_everything(owner, index);
            self.account(-(freed as isize));
        }
        Some(id)
    }

    /// As [`LockManager::lock_range`], after those that already wait to insert into it.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the owner was killed, that of [`Owner::stop`] if the database stopped.
    pub fn lock_range_in_turn(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        range: KeyRange,
        wait: WaitMode,
    ) -> Result<Option<RangeId>> {
        // Transactions that come in a given order are not to wait for later ones.
        let is_ordered = self.is_ordered();
        if wait_limit(wait).is_some() && !is_ordered && self.ranges.enqueue_reader(owner, index, &range)? {
            let waited = self.wait(owner, wait, &|| {});
            self.ranges.remove_reader(owner, index);
            if !matches!(waited, Err(Error::LockTimeout)) {
                waited?;
            }
        }
        Ok(self.lock_range(owner, index, range))
    }

    /// Whether the order is given in which the transaction of this thread and others commit.
    fn is_ordered(&self) -> bool {
        self.observer.get().is_some_and(|observer| observer.interest() == WaitInterest::All)
    }

    /// The reader of a range goes on behind what it had read: `range` is all of it. To be called before it reads.
    pub fn widen_range(&self, owner: &Owner, index: IndexId, id: RangeId, range: KeyRange) {
        let (change, is_crowded) = self.ranges.widen(owner, index, id, range);
        self.account(change);
        if is_crowded && self.is_ordered() {
            self.ranges.look_again(index);
        }
    }

    /// A range is not going to be read, or not now.
    pub fn give_up_range(&self, owner: &Owner, index: IndexId, id: RangeId) {
        let freed = self.ranges.give_up(owner, index, id);
        self.account(-(freed as isize));
    }

    /// The reader of a range is done with it and has read all of it, or only `read`. To be called before the owner ends.
    pub fn settle_range(&self, owner: &Owner, index: IndexId, id: RangeId, read: Option<KeyRange>) {
        let change = self.ranges.settle(owner, index, id, read);
        self.account(change);
    }

    /// Gives up a row lock early (READ COMMITTED: the row did not match).
    pub fn unlock_row(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8]) {
        let mut held = owner.held.lock();
        let Some(at) = held.rows.iter().rposition(|(i, k)| *i == index && **k == *key) else { return };
        held.rows.swap_remove(at);
        drop(held);
        self.release_row(owner, index, key);
    }

    fn release_row(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        let row = self.row(index, key);
        self.shard(&row).lock().change(&row, |lock| self.release_in(lock, owner));
    }

    /// Releases a row lock unless others wait for it. Returns whether it did.
    fn release_uncontended(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        let row = self.row(index, key);
        let mut contended = false;
        self.shard(&row).lock().change(&row, |lock| {
            contended = !lock.queue.waiting.is_empty();
            if !contended {
                self.release_in(lock, owner);
            }
        });
        !contended
    }

    fn release_in(&self, lock: &mut RowLock, owner: &Owner) {
        if lock.queue.release(owner) {
            self.account(-lock_cost(&lock.key));
        }
        self.regrant_row(lock);
    }

    /// `owner` has changed a row, which carries its id now: the lock that it has just entered for that is not needed any more.
    /// It is kept if others wait for it, or if it is older than the last savepoint: then the change may be undone without it.
    pub fn leave_to_id(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        if let Some(lock) = owner.take_just_entered(index, key)
            && !self.release_uncontended(owner, index, key)
        {
            owner.held.lock().rows.push(lock);
        }
    }

    /// `owner` has found no row where it has just entered a lock, and a range of its covers the place: the lock goes to the next in line.
    /// It is kept if it is older than the last savepoint.
    pub fn leave_to_range(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        if owner.take_just_entered(index, key).is_some() {
            self.release_row(owner, index, key);
        }
    }

    /// Releases the locks by which `owner` keeps what it has only read: ranges, shared locks on rows
    /// and tables, and locks on rows that are not there (`is_there`). `owner` reads no more.
    pub fn release_reads(&self, owner: &Owner, mut is_there: impl FnMut(IndexId, &[u8]) -> bool) {
        let (rows, ranges, covers, tables) = {
            let mut held = owner.held.lock();
            let tables: Vec<_> = held.tables.extract_if(.., |(_, mode)| *mode == Mode::Shared).collect();
            held.since_savepoint = 0;
            (take(&mut held.rows), take(&mut held.ranges), take(&mut held.covers), tables)
        };
        for (index, _) in tables {
            self.release_table(owner, index);
        }
        for index in ranges {
            let freed = self.ranges.release(owner, index);
            self.account(-(freed as isize));
        }
        let kept = covers.into_iter().filter(|&index| self.covers.release_shared(owner.serial(), index)).collect();
        let mut stays = |(index, key): &(IndexId, Arc<[u8]>)| {
            let there = is_there(*index, key);
            !self.release_row_unless(owner, *index, key, |mode| there && mode != Mode::Shared)
        };
        let changed: Vec<_> = rows.into_iter().filter(|row| stays(row)).collect();
        let mut held = owner.held.lock();
        held.rows.extend(changed);
        held.covers = kept;
    }

    /// Releases a row lock unless its mode `stays`. Returns whether it did.
    fn release_row_unless(&self, owner: &Owner, index: IndexId, key: &[u8], stays: impl Fn(Mode) -> bool) -> bool {
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

    /// Releases everything that `owner` holds and lets nothing be added. The end of the transaction must have been
    /// published in the commit map before.
    pub fn release_all(&self, owner: &Owner) {
        let held = owner.held.lock().close();
        for index in held.covers {
            self.covers.release(owner.serial(), index);
        }
        for (index, key) in held.rows {
            self.release_row(owner, index, &key);
        }
        for (index, _) in held.tables {
            self.release_table(owner, index);
        }
        for index in held.ranges {
            let freed = self.ranges.release(owner, index);
            self.account(-(freed as isize));
        }
    }
}

/// Bytes that a lock on `key` is taken to cost.
fn lock_cost(key: &[u8]) -> isize {
    (LOCK_COST + key.len()) as isize
}

fn wait_limit(wait: WaitMode) -> Option<Duration> {
    match wait {
        WaitMode::For(limit) => Some(limit),
        WaitMode::NoWait | WaitMode::SkipLocked => None,
    }
}
