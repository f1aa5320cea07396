//! The transaction system of a database: ids, views, locks, undo, indexes, and the purger.
//!
//! # Commit
//! 1. The commit record is appended: the state in the first page of the undo log.
//! 2. Under the mutex of the list of the thread's group (see [`crate::purge::history`]) the commit
//!    number is taken, the commit map told, and the log entered in the list.
//! 3. The number is published (see [`crate::mvcc::clock`]).
//! 4. Locks are released, and the caller waits for the disk, for a group of commits at a time.
//!
//! A transaction that has seen another one's commit has its commit record behind the other's in the
//! log, and a greater number: the other one was published before. Numbers of transactions that have
//! not seen each other need not be in the order of the log.
//!
//! The record holds a number that is less than or equal to the commit's own, and greater than those
//! of all commits that the transaction can have seen. It orders the logs of an earlier run.
//!
//! # Lock order
//! Window of the commit map -> its stragglers; list of a group of the history -> stragglers. Purge
//! mutex before these and before any page latch; nothing else is held when it is taken.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use holdfast_base::blocking::Mutex;
use holdfast_base::{CommitNo, Error, IndexId, Lsn, Result, TxnId, latches};
use holdfast_metrics::{Gauge, Local, Metrics};
use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Store};
use holdfast_wal::{FlushAtCommit, Poison};

use crate::entry::index::TableIndex;
use crate::entry::registry::IndexRegistry;
use crate::mvcc::clock::CommitClock;
use crate::mvcc::commit_map::CommitMap;
use crate::mvcc::open_txns::{OpenTxn, OpenTxns};
use crate::mvcc::view::{View, Views};
use crate::options::{TxnConfig, TxnOptions};
use crate::purge::background::Background;
use crate::purge::history::History;
use crate::purge::lost::LostVersions;
use crate::purge::proofs::Proofs;
use crate::purge::purger::Purger;
use crate::purge::shelf::Shelf;
use crate::purge::versions::VersionTree;
use crate::recovery::checkpointed::Checkpointed;
use crate::recovery::losers::Losers;
use crate::undo::{UndoLog, UndoSpace};
use crate::wait::Wait;
use crate::xa::prepared::PreparedTxns;
use holdfast_lock::{LockManager, Owner, Serial, WaitObserver};

/// Stripes of the mutex that makes a check for a duplicate and the insert that follows it one step.
const UNIQUE_STRIPES: usize = 256;

/// The database has stopped: a waiter for a lock waits in vain. Runs on the thread that noticed;
/// the list of owners and their wait states are locks under which no thread calls the log.
fn stop_waits(open: &OpenTxns, poison: &Poison) {
    if let Err(error) = poison.check() {
        open.stop(&error);
    }
}

/// A transaction that has committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub no: CommitNo,
    /// The log has to be durable up to here for the commit to be.
    pub lsn: Lsn,
    /// Logs of the thread's group that have not been gathered.
    pub waiting: usize,
    /// Pages of its log, and of the large values that this keeps.
    pub pages: u64,
}

/// The transaction system. One per database, shared by all its transactions.
pub struct TxnSystem {
    pub(crate) store: Arc<Store>,
    pub(crate) config: TxnConfig,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<CommitClock>,
    pub(crate) map: Arc<CommitMap>,
    pub(crate) views: Arc<Views>,
    pub(crate) undo: Arc<UndoSpace>,
    pub(crate) indexes: Arc<IndexRegistry>,
    pub(crate) purger: Purger,
    pub(crate) locks: LockManager,
    open: Arc<OpenTxns>,
    /// Why no thread may wait any more for a lock, a table or a rollback: the database is closed.
    ended: OnceLock<Error>,
    pub(crate) losers: Losers,
    pub(crate) prepared: PreparedTxns,
    unique: Box<[Mutex<()>]>,
}

/// A hold on a view, which is closed when its last holder drops it.
pub(crate) struct OpenView {
    system: Local<Arc<TxnSystem>>,
    view: Arc<View>,
}

impl OpenView {
    /// Another hold on the same view.
    pub fn share(&self) -> OpenView {
        self.view.hold();
        OpenView { system: Arc::clone(&self.system), view: Arc::clone(&self.view) }
    }

    /// Gives this hold up. Returns the view if there are others.
    pub fn into_shared(self) -> Option<Arc<View>> {
        (self.view.holders() > 1).then(|| Arc::clone(&self.view))
    }
}

impl std::ops::Deref for OpenView {
    type Target = View;
    fn deref(&self) -> &View {
        &self.view
    }
}

impl Drop for OpenView {
    fn drop(&mut self) {
        if self.view.release() || holdfast_base::planted!("held-view-closed") {
            self.system.purger.close_view(&self.view);
        }
    }
}

impl TxnSystem {
    /// Formats an empty undo space and starts with it. The format is durable once the log is
    /// flushed.
    ///
    /// # Errors
    /// The errors of the log and the disk.
    pub fn create(store: &Arc<Store>, undo_space: &Arc<SpaceFile>, config: TxnConfig) -> Result<Arc<TxnSystem>> {
        let undo = UndoSpace::create(store, undo_space)?;
        let acc = store.pool().access(AccessKind::Point);
        let versions = VersionTree::create(undo_space, &acc)?;
        drop(acc);
        Ok(TxnSystem::assemble(store, config, undo, versions, &Checkpointed::default(), &[]))
    }

    pub(crate) fn assemble(
        store: &Arc<Store>,
        config: TxnConfig,
        undo: UndoSpace,
        versions: VersionTree,
        from: &Checkpointed,
        active: &[TxnId],
    ) -> Arc<TxnSystem> {
        let metrics = Arc::clone(store.metrics());
        let open = Arc::new(OpenTxns::new());
        let waiting = Arc::clone(&open);
        store.wal().shared_poison().on_set(move |poison| stop_waits(&waiting, poison));
        let clock = CommitClock::new(TxnId(from.max_txn.0 + 1), from.last_commit);
        let map = Arc::new(CommitMap::new(config.commit_window, &clock, active));
        metrics.set(Gauge::MemoryCommitMap, map.memory() as u64);
        let views = Arc::new(Views::new(&clock));
        let (undo, indexes) = (Arc::new(undo), Arc::new(IndexRegistry::new(&from.rows)));
        let purger = Purger {
            store: Arc::clone(store),
            metrics: Arc::clone(&metrics),
            config: config.clone(),
            clock: Arc::clone(&clock),
            map: Arc::clone(&map),
            views: Arc::clone(&views),
            undo: Arc::clone(&undo),
            indexes: Arc::clone(&indexes),
            history: History::default(),
            // It counts among old versions: the shelf alone is never the reason to give up a
            // snapshot.
            shelf: Shelf::new(config.shelf_bytes.min(config.max_old_versions / 4)),
            versions,
            lost: LostVersions::default(),
            background: Background::new(),
            proofs: Proofs::default(),
            turn: CachePadded::default(),
        };
        Arc::new(TxnSystem {
            store: Arc::clone(store),
            clock,
            map,
            views,
            undo,
            indexes,
            purger,
            locks: LockManager::new(config.lock_memory, Arc::clone(&metrics)),
            config,
            metrics,
            open,
            ended: OnceLock::new(),
            losers: Losers::default(),
            prepared: PreparedTxns::default(),
            unique: (0..UNIQUE_STRIPES).map(|_| Mutex::new(())).collect(),
        })
    }

    /// Makes an index known to rollback and purge. Every index must be registered before
    /// [`TxnSystem::start`] and before a transaction uses it. Its row counter is set from the last
    /// checkpoint, if that knew it. Returns whether it did.
    pub fn register(&self, index: &Arc<TableIndex>) -> bool {
        self.indexes.add(index)
    }

    /// Forgets an index that is about to be dropped: waits until purge and rollback have released
    /// its tree, which they do not touch any more. No transaction may change it; those that began
    /// before may go on reading it, and purge keeps the versions that they see.
    pub fn forget(&self, id: IndexId) {
        let index = self.indexes.remove(id);
        index.iter().for_each(|index| index.retire());
        if self.indexes.remove_unusable(id) || index.is_some() {
            self.retry_blocked_losers();
        }
    }

    /// Makes an index known that is there and cannot be used, since its `file` could not be opened.
    /// Transactions that have changed it are not rolled back to their end before it is
    /// [forgotten](TxnSystem::forget), or the next open can use it.
    pub fn register_unusable(&self, id: IndexId, file: &str, why: &Error) {
        let what = || format!("{file}, with changes that are not undone or purged, could not be opened: {why}");
        let why = if why.is_damage() { why.clone() } else { Error::Incompatible(what()) };
        self.indexes.add_unusable(id, why);
    }

    /// A registered index.
    #[must_use]
    pub fn index(&self, id: IndexId) -> Option<Arc<TableIndex>> {
        self.indexes.get(id)
    }

    /// The lock side of a transaction, which is entered in the lists if `listed`.
    pub(crate) fn new_owner(&self, options: &TxnOptions, listed: bool) -> Arc<Owner> {
        if listed {
            // Either the thread that ends the waits finds the owner in the list, or this one finds
            // the end.
            self.open.begin(options, || self.check_waits())
        } else {
            self.open.unlisted()
        }
    }

    fn check_waits(&self) -> Result<()> {
        self.check_closed().and_then(|()| self.store.wal().check_poisoned())
    }

    /// Asked by a rollback between two records.
    ///
    /// # Errors
    /// The error of [`TxnSystem::end_waits`], if the database has been closed.
    pub(crate) fn check_closed(&self) -> Result<()> {
        self.ended.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Ends each wait for a lock or a rollback with `error`, now and later: the database is closed,
    /// and what is waited for comes no more. Ends each [`Wait`] elsewhere as soon as the caller
    /// wakes the thread.
    pub fn end_waits(&self, error: &Error) {
        // The first error stays.
        let _ = self.ended.set(error.clone());
        self.open.stop(error);
        self.wake_waits_for_rollbacks();
    }

    /// A wait of the calling thread that begins now, for `limit` at most.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> Wait<'_> {
        Wait::begins(limit).watched(self.locks.wait_observer(), &self.ended)
    }

    /// Gives `owner` a transaction id.
    pub(crate) fn new_txn_id(&self, owner: &Arc<Owner>) -> TxnId {
        let id = self.map.allocate();
        while !self.map.has_room(id) {
            self.make_room_for_ids();
        }
        if self.map.is_worth_advancing(id)
            && let Some(window) = self.map.try_lock_window()
        {
            window.advance(self.views.short_horizon());
        }
        // Before another transaction can find the id in a row: a reader that finds the id finds its
        // owner.
        self.adopt_active(id, owner);
        id
    }

    /// The window of the commit map is full: what the oldest views cannot take for granted is
    /// written down in them, and then it can be cut.
    #[cold]
    fn make_room_for_ids(&self) {
        let window = self.map.lock_window();
        if window.is_full() {
            self.views.make_long_locked(CommitNo(self.clock.last_commit().0 + 1), &self.map, &window);
            window.cut(self.views.short_horizon());
        }
    }

    pub(crate) fn adopt_active(&self, id: TxnId, owner: &Arc<Owner>) {
        owner.set_txn(id);
        self.open.writes(owner, id);
    }

    /// The owner that writes under `id`, if its transaction has not ended.
    pub(crate) fn owner_of(&self, id: TxnId) -> Option<Arc<Owner>> {
        self.open.writer(id)
    }

    /// Opens a view; `gives_way`: as for [`Views::open`].
    pub(crate) fn open_view(reference: &Local<Arc<TxnSystem>>, gives_way: bool) -> OpenView {
        let view = reference.views.open(&reference.map, gives_way);
        OpenView { system: Arc::clone(reference), view }
    }

    pub(crate) fn unique_stripe(&self, index: IndexId, prefix: &[u8]) -> &Mutex<()> {
        latches::none_while_waiting_for("a stripe of the unique checks");
        let hash = holdfast_base::checksum(prefix) ^ index.0.wrapping_mul(0x9e37_79b9);
        &self.unique[hash as usize % UNIQUE_STRIPES]
    }

    /// Commits a transaction with changes: see the module.
    pub(crate) fn commit_log(&self, mut log: UndoLog) -> Result<Committed, (UndoLog, Error)> {
        let id = log.txn();
        let acc = self.store.pool().access(AccessKind::Point);
        let (mtr, first) = match log.begin_commit(&self.undo, &acc) {
            Ok(begun) => begun,
            Err(e) => return Err((log, e)),
        };
        let recorded = CommitNo(self.clock.last_commit().0 + 1);
        let lsn = match UndoLog::mark_committed(mtr, first, recorded) {
            Ok(lsn) => lsn,
            Err(e) => return Err((log, e)),
        };
        log.set_committed();
        let pages = log.held_pages();
        let (no, waiting) = self.purger.history.arrive(log, || {
            let no = self.clock.take_no();
            self.map.set_committed(id, no);
            no
        });
        debug_assert!(recorded <= no, "invariant: a commit record has no greater number than the commit");
        self.clock.publish(no);
        Ok(Committed { no, lsn, waiting, pages })
    }

    /// Records the end of a rollback. The rows carry the id no more.
    pub(crate) fn publish_rollback(&self, id: TxnId) {
        let no = self.clock.take_no();
        self.map.set_rolled_back(id, no);
        self.clock.publish(no);
    }

    /// Releases everything that an ended transaction still has: its locks, its place in the lists.
    /// Its end must have been published.
    pub(crate) fn end_owner(&self, owner: &Owner) {
        self.open.writes_no_more(owner);
        self.locks.release_all(owner);
        self.open.end(owner);
    }

    /// Waits until the log is as durable as asked for.
    pub(crate) fn wait_durable(&self, lsn: Lsn, durability: FlushAtCommit) -> Result<()> {
        if durability == FlushAtCommit::Sync && holdfast_base::planted!("commit-not-awaited") {
            return Ok(());
        }
        self.store.wal().commit_to(lsn, durability)
    }

    /// Interrupts the lock wait of a transaction, now or the next one of its statement.
    /// Returns whether there is such a transaction.
    pub fn kill(&self, serial: Serial) -> bool {
        self.open.find(serial).inspect(|owner| owner.kill()).is_some()
    }

    /// Asked by long work of a session, now and then.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the session of the calling thread has been killed.
    pub fn check_session(&self) -> Result<()> {
        let is_killed = self.locks.wait_observer().is_some_and(WaitObserver::gives_up);
        if is_killed { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// The locks.
    #[must_use]
    pub fn locks(&self) -> &LockManager {
        &self.locks
    }

    /// Those that have not ended, oldest first.
    pub(crate) fn open_txns(&self) -> Vec<OpenTxn> {
        self.open.all()
    }

    /// The last commit.
    #[must_use]
    pub fn last_commit(&self) -> CommitNo {
        self.clock.last_commit()
    }
}

impl fmt::Debug for TxnSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxnSystem").field("last_commit", &self.clock.last_commit()).finish_non_exhaustive()
    }
}
