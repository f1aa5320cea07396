//! The lock manager: what all kinds of locks share, waits, and the end of a transaction.

use std::mem::take;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use holdfast_base::HashMap;
use holdfast_base::sync::Mutex;
use holdfast_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use holdfast_base::time::Instant;
use holdfast_base::{Error, IndexId, Result};
use holdfast_metrics::{Counter, Gauge, Metrics, WaitClass};

use crate::cover::Covers;
use crate::info::{DeadlockReport, FindSession, Serial};
use crate::mode::{LockWait, Mode};
use crate::observer::{WaitInterest, WaitObserver};
use crate::owner::{Held, Outcome, Owner};
use crate::queue::Queue;
use crate::range::RangeLocks;
use crate::rows::{Row, Rows};

const SHARDS: usize = 64;

/// The error of a request for a transaction that has ended.
pub(crate) fn ended() -> Error {
    Error::Closed("the transaction")
}

/// The lock manager of one database.
pub struct LockManager {
    hasher: holdfast_base::HashState,
    pub(crate) shards: Box<[Mutex<Rows>]>,
    pub(crate) tables: Mutex<HashMap<IndexId, Queue>>,
    pub(crate) table_locks: AtomicUsize,
    pub(crate) ranges: RangeLocks,
    pub(crate) covers: Covers,
    /// The latest deadlock. The mutex serialises searches.
    pub(crate) graph: Mutex<Option<DeadlockReport>>,
    pub(crate) sessions: OnceLock<Box<FindSession>>,
    pub(crate) observer: OnceLock<Box<dyn WaitObserver>>,
    pub(crate) taken_back: CachePadded<AtomicU64>,
    used: CachePadded<AtomicUsize>,
    pub(crate) budget: usize,
    pub(crate) metrics: Arc<Metrics>,
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
            graph: Mutex::new(None),
            sessions: OnceLock::new(),
            observer: OnceLock::new(),
            taken_back: CachePadded::new(AtomicU64::new(0)),
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

    /// True if the order is given in which the transaction of this thread and others commit.
    pub(crate) fn is_ordered(&self) -> bool {
        self.observer.get().is_some_and(|observer| observer.interest() == WaitInterest::All)
    }

    /// Bytes of memory that explicit locks take.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn row<'a>(&self, index: IndexId, key: &'a [u8]) -> Row<'a> {
        Row::new(&self.hasher, index, key)
    }

    pub(crate) fn shard(&self, row: &Row<'_>) -> &Mutex<Rows> {
        &self.shards[row.shard(SHARDS)]
    }

    pub(crate) fn account(&self, bytes: isize) {
        if bytes >= 0 {
            self.used.fetch_add(bytes.unsigned_abs(), Ordering::Relaxed);
        } else {
            self.used.fetch_sub(bytes.unsigned_abs(), Ordering::Relaxed);
        }
        self.metrics.adjust(Gauge::MemoryLocks, bytes as i64);
    }

    /// Blocks the owner, whose request stands in a queue, until it is granted. `cancel` takes the
    /// request back.
    pub(crate) fn wait(&self, owner: &Arc<Owner>, wait: LockWait, cancel: &dyn Fn()) -> Result<()> {
        let limit = wait.limit().unwrap_or_default();
        self.metrics.inc(Counter::RowLockWaits);
        self.metrics.adjust(Gauge::RowLockCurrentWaits, 1);
        let begun = Instant::now();
        self.detect(owner);
        let deadline = Instant::now().checked_add(limit);
        let outcome = loop {
            let outcome = self.block_told(owner, deadline);
            if outcome != Outcome::Waiting {
                break outcome;
            }
        };
        owner.has_waited();
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

    /// Reports the blockers of `owner` to the observer, and blocks it: see [`Owner::block`].
    fn block_told(&self, owner: &Arc<Owner>, deadline: Option<Instant>) -> Outcome {
        let Some(observer) = self.observer.get() else { return owner.block(deadline) };
        self.tell(observer.as_ref(), owner);
        observer.begins();
        let outcome = owner.block(deadline);
        observer.ends();
        outcome
    }

    fn tell(&self, observer: &dyn WaitObserver, owner: &Arc<Owner>) {
        let others = match observer.interest() {
            WaitInterest::None => return,
            WaitInterest::Holders => self.obstacles(owner, owner),
            WaitInterest::All => {
                // First: one that comes to be before it is found now, or wakes it.
                owner.will_be_told();
                self.blockers(owner)
            }
        };
        let mut others: Vec<Serial> = others.iter().map(|other| other.serial()).collect();
        others.sort_unstable();
        observer.waits_for(owner.serial(), &others);
    }

    /// Releases the locks by which `owner` keeps what it has only read: ranges, shared locks on
    /// rows and tables, and locks on rows that are not there (`is_there`). `owner` reads no more.
    pub fn release_reads(&self, owner: &Owner, mut is_there: impl FnMut(IndexId, &[u8]) -> bool) {
        let (rows, ranges, covers, tables) = {
            let mut held = owner.held.lock();
            // A thread that comes to a row under a cover enters no lock for the cover any more,
            // which would not be among those that are released here.
            held.reads_are_over = true;
            (take(&mut held.rows), take(&mut held.ranges), take(&mut held.covers), take(&mut held.tables))
        };
        let tables = tables.into_iter().filter(|&index| !self.release_shared_table(owner, index)).collect();
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
        (held.covers, held.tables) = (kept, tables);
    }

    /// Releases everything that `owner` holds and lets nothing be added: a cursor that outlives the
    /// transaction, and waits for a lock or asks for one, gets [`Error::Closed`]. The end of the
    /// transaction must have been published in the commit map before.
    pub fn release_all(&self, owner: &Owner) {
        // First: what a queue has granted by then is among what is held.
        owner.stop(ended());
        let held = owner.held.lock().close();
        self.release(owner, held);
    }

    /// Releases everything that `owner` holds, whose rollback has failed: what is not undone is
    /// locked by its id in the rows. Waiters look at the rows again. `blocked`: why the rollback is
    /// not tried again for now. Until [`Owner::unblock`], a request that meets the id gets this
    /// error instead of a wait.
    pub fn give_up_locks(&self, owner: &Owner, blocked: Option<Error>) {
        let held = owner.give_up(blocked);
        self.release(owner, held);
    }

    fn release(&self, owner: &Owner, held: Held) {
        for index in held.covers {
            self.covers.release(owner.serial(), index);
        }
        for (index, key) in held.rows {
            self.release_row(owner, index, &key);
        }
        for index in held.tables {
            self.release_table(owner, index);
        }
        for index in held.ranges {
            let freed = self.ranges.release(owner, index);
            self.account(-(freed as isize));
        }
    }
}
