//! The transaction system of a database: ids, views, locks, undo, versions, and the registry of indexes.
//!
//! # Commit critical section
//! One mutex. Under it: the commit number is taken, the commit record appended (the state in the first page of the undo
//! log, whose latch is taken before), the commit map told, the number published, the log queued for purge. So commit
//! order, log order and purge order are one. Waiting for the disk happens outside, for a group at a time.
//!
//! # Lock order
//! page latch of a log's first page -> commit mutex -> (commit map | view registry | history -> shelf). Purge mutex before all
//! of these and before any page latch; nothing else is held when it is taken.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use foldhash::{HashMap, HashMapExt};
use holdfast_base::{CommitNo, Error, IndexId, Lsn, Result, ShortMutex, TxnId};
use holdfast_metrics::{Counter, Gauge, Local, Metrics, local};
use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Store};
use holdfast_wal::Poison;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use crate::background::Background;
use crate::commit_map::CommitMap;
use crate::index::TableIndex;
use crate::lock::{LockManager, Owner, Serial};
use crate::open::{OpenTxn, OpenTxns};
use crate::options::{Durability, TxnConfig, TxnOptions};
use crate::purge::PurgeState;
use crate::recovery::{Checkpointed, PreparedTxn};
use crate::shelf::Shelf;
use crate::shelving::BATCH_LOGS;
use crate::txn::Txn;
use crate::undo::{UndoLog, UndoSpace};
use crate::versions::VersionTree;
use crate::view::{View, Views};

/// Stripes of the mutex that makes a check for a duplicate and the insert that follows it one step.
const UNIQUE_STRIPES: usize = 256;

/// A committed log that waits for purge.
#[derive(Debug)]
pub(crate) struct History {
    pub no: CommitNo,
    pub log: UndoLog,
    pub phase: Phase,
}

/// How far the purge of a log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not begun.
    New,
    /// What long views need is being copied to the version tree; so many records are left.
    Copying(u64),
    /// Records are being cut off.
    Cutting {
        /// Delete marks are still to be removed.
        marks: bool,
        /// The version tree may have taken over images, by this run or by an earlier one.
        copied: bool,
    },
}

impl Phase {
    /// Of a log that an earlier run committed, and perhaps half purged.
    pub const RECOVERED: Phase = Phase::Cutting { marks: true, copied: true };
}

/// The committed logs that wait for purge, in commit order; their number and pages can be asked without the mutex.
#[derive(Debug, Default)]
pub(crate) struct HistoryQueue {
    queue: ShortMutex<VecDeque<History>>,
    /// Both are changed under the mutex: who has that has their line of memory as well, and need not fetch it from another core a second time.
    logs: AtomicUsize,
    pages: AtomicU64,
}

impl HistoryQueue {
    pub fn push(&self, history: History) {
        self.put(history, VecDeque::push_back);
    }

    /// Puts back what could not be purged.
    pub fn put_back(&self, history: History) {
        self.put(history, VecDeque::push_front);
    }

    fn put(&self, history: History, put: impl FnOnce(&mut VecDeque<History>, History)) {
        let pages = history.log.pages() as u64;
        let mut queue = self.queue.lock();
        put(&mut queue, history);
        self.show(&queue, self.pages() + pages);
    }

    /// Shows how many logs there are, and that they have so many pages.
    fn show(&self, queue: &VecDeque<History>, pages: u64) {
        self.logs.store(queue.len(), Ordering::Relaxed);
        self.pages.store(pages, Ordering::Relaxed);
    }

    /// Takes the oldest log if `wanted`.
    pub fn take_if(&self, wanted: impl FnOnce(&History) -> bool) -> Option<History> {
        let mut queue = self.queue.lock();
        let taken = if queue.front().is_some_and(wanted) { queue.pop_front() } else { None }?;
        self.show(&queue, self.pages() - taken.log.pages() as u64);
        Some(taken)
    }

    /// Shows the logs, oldest first, as long as `look` wants another one.
    pub fn look(&self, look: impl FnMut(&History) -> bool) {
        let _ = self.queue.lock().iter().all(look);
    }

    /// Takes the first `n` logs, if they are those from commit `first` to commit `last` and nobody has begun with them. Calls `place` before anybody
    /// else can look.
    pub fn take_run(
        &self,
        n: usize,
        first: CommitNo,
        last: CommitNo,
        place: impl FnOnce(),
    ) -> Option<SmallVec<[History; BATCH_LOGS]>> {
        let mut queue = self.queue.lock();
        let is = |at: usize, no: CommitNo| queue.get(at).is_some_and(|h| h.no == no && h.phase == Phase::New);
        if !is(0, first) || !is(n.checked_sub(1)?, last) {
            return None;
        }
        let taken: SmallVec<[History; BATCH_LOGS]> = queue.drain(..n).collect();
        place();
        self.show(&queue, self.pages() - taken.iter().map(|h| h.log.pages() as u64).sum::<u64>());
        Some(taken)
    }

    pub fn front_is(&self, what: impl FnOnce(&History) -> bool) -> bool {
        self.queue.lock().front().is_some_and(what)
    }

    pub fn len(&self) -> usize {
        self.logs.load(Ordering::Relaxed)
    }

    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }
}

/// The database has stopped: whoever waits for a lock waits in vain. Runs on the thread that noticed; the list of owners and
/// their wait states are locks under which nobody calls the log.
fn stop_waits(open: &OpenTxns, poison: &Poison) {
    if let Err(error) = poison.check() {
        open.stop(&error);
    }
}

/// An unfinished transaction of an earlier run.
#[derive(Debug)]
pub(crate) struct Loser {
    pub owner: Arc<Owner>,
    pub log: UndoLog,
}

/// The transaction system. One per database, shared by all its transactions.
pub struct TxnSystem {
    pub(crate) store: Arc<Store>,
    pub(crate) config: TxnConfig,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) map: CommitMap,
    pub(crate) views: Views,
    pub(crate) locks: LockManager,
    pub(crate) undo: UndoSpace,
    pub(crate) versions: VersionTree,
    indexes: RwLock<HashMap<IndexId, Arc<TableIndex>>>,
    /// Counters from the checkpoint, for indexes that are not registered yet.
    pub(crate) saved_rows: Mutex<HashMap<IndexId, u64>>,
    open: Arc<OpenTxns>,
    /// What every commit writes stands apart from what everybody reads.
    commit: CachePadded<ShortMutex<CommitNo>>,
    pub(crate) history: CachePadded<HistoryQueue>,
    pub(crate) shelf: Shelf,
    pub(crate) purge: CachePadded<Mutex<PurgeState>>,
    pub(crate) losers: Mutex<Vec<Loser>>,
    /// Threads that are rolling losers back; those in their hands are not in the list.
    pub(crate) rolling_back: AtomicUsize,
    /// Prepared transactions by xid: those of an earlier run or whose user let go of them, and `None` for others.
    pub(crate) prepared: Mutex<BTreeMap<Vec<u8>, Option<Loser>>>,
    unique: Box<[Mutex<()>]>,
    pub(crate) background: Background,
    pub(crate) closing: AtomicBool,
}

/// A hold on a view, which is closed when its last holder lets go of it.
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
}

impl std::ops::Deref for OpenView {
    type Target = View;
    fn deref(&self) -> &View {
        &self.view
    }
}

impl Drop for OpenView {
    fn drop(&mut self) {
        if self.view.let_go() {
            self.system.close_view(&self.view);
        }
    }
}

impl TxnSystem {
    /// Formats an empty undo space and starts with it. The format is durable once the log is flushed.
    ///
    /// # Errors
    /// Those of the log and the disk.
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
        let (waiting, poison) = (Arc::clone(&open), Arc::clone(store.wal().shared_poison()));
        store.wal().shared_poison().on_set(move || stop_waits(&waiting, &poison));
        let map = CommitMap::new(config.commit_window, TxnId(from.max_txn.0 + 1), active);
        metrics.set(Gauge::MemoryCommitMap, map.memory() as u64);
        Arc::new(TxnSystem {
            store: Arc::clone(store),
            map,
            views: Views::new(from.last_commit),
            locks: LockManager::new(config.lock_memory, Arc::clone(&metrics)),
            // It counts among old versions: the shelf alone is never the reason to give up a snapshot.
            shelf: Shelf::new(config.shelf_bytes.min(config.max_old_versions / 4)),
            config,
            metrics,
            undo,
            versions,
            indexes: RwLock::new(HashMap::new()),
            saved_rows: Mutex::new(from.rows.iter().copied().collect()),
            open,
            commit: CachePadded::new(ShortMutex::new(from.last_commit)),
            history: CachePadded::default(),
            purge: CachePadded::default(),
            losers: Mutex::new(Vec::new()),
            rolling_back: AtomicUsize::new(0),
            prepared: Mutex::new(BTreeMap::new()),
            unique: (0..UNIQUE_STRIPES).map(|_| Mutex::new(())).collect(),
            background: Background::new(),
            closing: AtomicBool::new(false),
        })
    }

    /// Makes an index known to rollback and purge. Every index must be registered before [`TxnSystem::start`] and
    /// before a transaction uses it. Its row counter is set from the last checkpoint, if that knew it.
    /// Returns whether it did.
    pub fn register(&self, index: &Arc<TableIndex>) -> bool {
        let saved = self.saved_rows.lock().remove(&index.id());
        saved.inspect(|&rows| index.set_rows(rows));
        self.indexes.write().insert(index.id(), Arc::clone(index));
        saved.is_some()
    }

    /// Forgets an index that is about to be dropped: waits for purge and rollback to let go of its tree; what they
    /// find about it later is passed over. No transaction may use it any more.
    pub fn forget(&self, id: IndexId) {
        let index = self.indexes.write().remove(&id);
        self.saved_rows.lock().remove(&id);
        if let Some(index) = index {
            index.retire();
        }
    }

    /// A registered index.
    #[must_use]
    pub fn index(&self, id: IndexId) -> Option<Arc<TableIndex>> {
        self.indexes.read().get(&id).cloned()
    }

    pub(crate) fn all_indexes(&self) -> Vec<Arc<TableIndex>> {
        self.indexes.read().values().cloned().collect()
    }

    /// Starts the thread that rolls back losers and purges, if the configuration wants one. All indexes must have
    /// been registered.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(self: &Arc<Self>) -> Result<()> {
        if self.config.background { self.background.start(self) } else { Ok(()) }
    }

    /// Stops the background thread. Open transactions can still end; purge goes on when the database is opened again.
    pub fn shutdown(&self) {
        self.closing.store(true, Ordering::Release);
        self.background.stop();
    }

    /// Begins a transaction. It takes a view with its first read and a transaction id with its first change.
    #[must_use]
    pub fn begin(self: &Arc<Self>, options: TxnOptions) -> Txn {
        TxnSystem::begin_by(&local(Arc::clone(self)), options)
    }

    /// [`TxnSystem::begin`] by a reference that few threads share. Short transactions of many threads would otherwise
    /// spend more time on the count of references to the system than on their reads.
    #[must_use]
    pub fn begin_by(reference: &Local<Arc<TxnSystem>>, options: TxnOptions) -> Txn {
        let owner = (!options.read_only).then(|| reference.new_owner(&options, true));
        reference.metrics.inc(Counter::TrxBegun);
        reference.metrics.adjust(Gauge::TrxActive, 1);
        Txn::new(Arc::clone(reference), owner, options)
    }

    /// The lock side of a transaction, which is entered in the lists if `listed`.
    pub(crate) fn new_owner(&self, options: &TxnOptions, listed: bool) -> Arc<Owner> {
        if listed {
            // Either the hook finds the owner in the list, or the poison is found set here.
            self.open.begin(options, || self.store.wal().check_poisoned())
        } else {
            self.open.unlisted()
        }
    }

    /// Gives `owner` a transaction id.
    pub(crate) fn new_txn_id(&self, owner: &Arc<Owner>) -> TxnId {
        let id = loop {
            match self.map.allocate() {
                Some(id) => break id,
                None => self.make_room_for_ids(),
            }
        };
        if self.map.is_worth_advancing(id)
            && let Some(window) = self.map.try_lock_window()
        {
            window.advance(self.views.short_horizon());
        }
        // Before anybody can meet the id in a row: who finds it there finds its owner.
        self.adopt_active(id, owner);
        id
    }

    /// The window of the commit map is full: what the oldest views cannot take for granted is written down in them, and then it can
    /// be cut.
    #[cold]
    fn make_room_for_ids(&self) {
        let window = self.map.lock_window();
        if window.is_full() {
            self.views.make_long_locked(CommitNo(self.views.last().0 + 1), &self.map, &window);
            window.cut(self.views.short_horizon());
        }
    }

    pub(crate) fn adopt_active(&self, id: TxnId, owner: &Arc<Owner>) {
        owner.set_txn(id);
        self.open.writes(owner, id);
    }

    /// Who writes under `id`, if that transaction has not ended.
    pub(crate) fn owner_of(&self, id: TxnId) -> Option<Arc<Owner>> {
        self.open.writer(id)
    }

    pub(crate) fn open_view(reference: &Local<Arc<TxnSystem>>, read_only: bool) -> OpenView {
        let view = reference.views.open(&reference.map, read_only);
        OpenView { system: Arc::clone(reference), view }
    }

    pub(crate) fn unique_stripe(&self, index: IndexId, prefix: &[u8]) -> &Mutex<()> {
        let hash = holdfast_base::checksum(prefix) ^ index.0.wrapping_mul(0x9e37_79b9);
        &self.unique[hash as usize % UNIQUE_STRIPES]
    }

    /// The commit critical section. Returns the log position that makes the commit durable.
    pub(crate) fn commit_log(&self, log: UndoLog) -> Result<Lsn, (UndoLog, Error)> {
        let id = log.txn();
        let acc = self.store.pool().access(AccessKind::Point);
        let (mtr, first) = match log.begin_commit(&self.undo, &acc) {
            Ok(begun) => begun,
            Err(e) => return Err((log, e)),
        };
        let mut last = self.commit.lock();
        let no = CommitNo(last.0 + 1);
        let lsn = match UndoLog::mark_committed(mtr, first, no) {
            Ok(lsn) => lsn,
            Err(e) => return Err((log, e)),
        };
        *last = no;
        self.map.set_committed(id, no);
        self.history.push(History { no, log, phase: Phase::New });
        self.views.publish(no);
        Ok(lsn)
    }

    /// Records the end of a rollback. The rows carry the id no more.
    pub(crate) fn publish_rollback(&self, id: TxnId) {
        let mut last = self.commit.lock();
        let no = CommitNo(last.0 + 1);
        *last = no;
        self.map.set_rolled_back(id, no);
        self.views.publish(no);
    }

    /// Lets go of everything that an ended transaction still has: its locks, its place in the lists. Its end must have
    /// been published.
    pub(crate) fn end_owner(&self, owner: &Owner) {
        self.open.writes_no_more(owner);
        self.locks.release_all(owner);
        self.open.end(owner);
    }

    /// Waits until the log is as durable as asked for.
    pub(crate) fn wait_durable(&self, lsn: Lsn, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => self.store.wal().flush_to(lsn),
            Durability::Write => self.store.wal().write_to(lsn),
            Durability::Lazy => Ok(()),
        }
    }

    /// Interrupts the lock wait of a transaction, now or the next one of its statement.
    /// Returns whether there is such a transaction.
    pub fn kill(&self, serial: Serial) -> bool {
        self.open.find(serial).inspect(|owner| owner.kill()).is_some()
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

    /// The prepared transactions of an earlier run, waiting for somebody to decide.
    #[must_use]
    pub fn prepared(&self) -> Vec<PreparedTxn> {
        let prepared = self.prepared.lock();
        let waiting = prepared.iter().filter_map(|(xid, l)| Some((xid, l.as_ref()?)));
        waiting.map(|(xid, l)| PreparedTxn { xid: xid.clone(), txn: l.log.txn() }).collect()
    }

    /// Takes over a prepared transaction, to commit it or to roll it back.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none with this xid.
    pub fn adopt(self: &Arc<Self>, xid: &[u8]) -> Result<Txn> {
        let Some(found) = self.prepared.lock().get_mut(xid).and_then(Option::take) else {
            return Err(Error::invalid("there is no prepared transaction with this xid"));
        };
        self.metrics.adjust(Gauge::TrxActive, 1);
        Ok(Txn::adopted(local(Arc::clone(self)), found.owner, found.log, xid.to_vec()))
    }

    /// Reserves `xid` for a transaction that is about to be prepared.
    pub(crate) fn reserve_xid(&self, xid: &[u8]) -> Result<()> {
        match self.prepared.lock().entry(xid.to_vec()) {
            Entry::Occupied(_) => Err(Error::invalid("there is a prepared transaction with this xid")),
            Entry::Vacant(free) => {
                free.insert(None);
                Ok(())
            }
        }
    }

    /// The transaction with this xid has ended, or was not prepared after all.
    pub(crate) fn release_xid(&self, xid: &[u8]) {
        self.prepared.lock().remove(xid);
    }

    /// Whether there are transactions without a user that are neither committed nor rolled back.
    pub(crate) fn has_unfinished(&self) -> bool {
        let prepared = self.prepared.lock().values().any(Option::is_some);
        prepared || !self.losers.lock().is_empty() || self.rolling_back.load(Ordering::SeqCst) > 0
    }

    /// Lists a prepared transaction that nobody holds (any more).
    pub(crate) fn list_prepared(&self, xid: Vec<u8>, loser: Loser) {
        self.prepared.lock().insert(xid, Some(loser));
    }

    /// The last commit.
    #[must_use]
    pub fn last_commit(&self) -> CommitNo {
        self.views.last()
    }
}

impl fmt::Debug for TxnSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxnSystem").field("last_commit", &self.views.last()).finish_non_exhaustive()
    }
}
