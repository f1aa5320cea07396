//! A transaction: its life from begin to end.
//!
//! A [`Txn`] belongs to a connection, not to a thread: it may be moved, and its cursors live beside
//! it. It takes a view with its first read without a lock, a transaction id and an undo log with
//! its first change. Reading is in `reads`, changing in `change`, cursors in `cursor`. A read-only
//! one has an owner - and so a place in listings - once it asks for a lock, opens a cursor, or is
//! named: most snapshots are over before a listing could show them.
//!
//! After [`Error::Deadlock`] the whole transaction has to be rolled back, and after
//! [`Error::Conflict`] its user does so. After any other error of a statement, `rollback_to` the
//! savepoint taken at its start undoes the statement, and the transaction goes on. If that fails, a
//! part of the statement may be there and another part not: the transaction refuses all but a
//! rollback, with [`Error::HalfUndone`].

use std::sync::{Arc, OnceLock};

use holdfast_base::sync::Mutex;
use holdfast_base::time::Instant;
use holdfast_base::{Error, IndexId, Lsn, Result, TxnId};
use holdfast_metrics::{Counter, Gauge, Local, Timing, local};

use crate::entry::last_read::{ForCursors, LastRead};
use crate::entry::locked::EarlyRelease;
use crate::entry::row::VersionHeader;
use crate::entry::visibility::Reader;
use crate::mvcc::view::View;
use crate::options::{Isolation, TxnOptions};
use crate::recovery::losers::{Left, Loser};
use crate::savepoint::GoesOn;
use crate::system::{Committed, OpenView, TxnSystem};
use crate::undo::UndoLog;
use holdfast_lock::{LockWait, Owner, Serial};
use holdfast_wal::FlushAtCommit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    Prepared,
    /// Committed in order, not yet known durable, not yet ended.
    Ended,
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnSavepoint {
    records: u64,
}

/// The entry that has refused an insert: its key, and its version then.
pub(crate) type Duplicate = (Vec<u8>, VersionHeader);

/// A transaction. Dropped without an end, it is rolled back (a prepared one stays prepared).
pub struct Txn {
    pub(crate) system: Local<Arc<TxnSystem>>,
    owner: OnceLock<Arc<Owner>>,
    pub(crate) options: TxnOptions,
    pub(crate) view: Option<OpenView>,
    /// At READ COMMITTED: views of earlier statements, which cursors may hold; no other holds them.
    cursors_views: Vec<Arc<View>>,
    pub(crate) id: TxnId,
    pub(crate) log: Option<UndoLog>,
    pub(crate) deltas: Vec<(IndexId, i64)>,
    pub(crate) state: State,
    /// Of the lock of the entry that [`Txn::get_locked`] read last.
    pub(crate) early_release: EarlyRelease,
    /// The xid that is taken because its log says it.
    xid: Option<Vec<u8>>,
    /// How durable it was to be when it was prepared, and is to be when that is taken back.
    prepared: FlushAtCommit,
    /// Where the log says that a prepare which has failed is taken back: its rollback waits for
    /// that.
    taken_back: Option<Lsn>,
    /// A rollback to so many changes, or of a [`Txn::prepare`], has failed: what came later is
    /// there in part.
    half_undone: Option<u64>,
    committed: Option<Committed>,
    pub(crate) last_read: LastRead,
    /// What it shares with its locking cursors; there once it has opened one.
    pub(crate) for_cursors: Option<Arc<Mutex<ForCursors>>>,
    /// Indexes that came to be for it: see [`Txn::admit`].
    admitted: Vec<IndexId>,
    /// The entry for which [`Txn::insert_unique`] has refused another one last; `None`: the one of
    /// that very key.
    pub(crate) duplicate: Option<Duplicate>,
    /// Buffers for the change that is under way.
    pub(crate) new_payload: Vec<u8>,
    pub(crate) record: Vec<u8>,
}

impl TxnSystem {
    /// Begins a transaction. It takes a view with its first read and a transaction id with its
    /// first change.
    #[must_use]
    pub fn begin(self: &Arc<Self>, options: TxnOptions) -> Txn {
        TxnSystem::begin_by(&local(Arc::clone(self)), options)
    }

    /// [`TxnSystem::begin`] by a reference that few threads share. Short transactions of many
    /// threads would otherwise spend more time on the count of references to the system than on
    /// their reads.
    #[must_use]
    pub fn begin_by(reference: &Local<Arc<TxnSystem>>, options: TxnOptions) -> Txn {
        let owner = (!options.read_only).then(|| reference.new_owner(&options, true));
        reference.metrics.inc(Counter::TrxBegun);
        reference.metrics.adjust(Gauge::TrxActive, 1);
        Txn::new(Arc::clone(reference), owner, options)
    }
}

impl Txn {
    pub(crate) fn new(system: Local<Arc<TxnSystem>>, owner: Option<Arc<Owner>>, options: TxnOptions) -> Txn {
        Txn {
            system,
            owner: owner.map_or_else(OnceLock::new, OnceLock::from),
            options,
            view: None,
            cursors_views: Vec::new(),
            id: TxnId::NONE,
            log: None,
            deltas: Vec::new(),
            state: State::Active,
            early_release: EarlyRelease::Nothing,
            xid: None,
            prepared: FlushAtCommit::Sync,
            taken_back: None,
            half_undone: None,
            committed: None,
            last_read: LastRead::default(),
            for_cursors: None,
            admitted: Vec::new(),
            duplicate: None,
            new_payload: Vec::new(),
            record: Vec::new(),
        }
    }

    pub(crate) fn adopted(system: Local<Arc<TxnSystem>>, owner: Arc<Owner>, log: UndoLog, xid: Vec<u8>) -> Txn {
        let mut txn = Txn::new(system, Some(owner), TxnOptions::default());
        txn.id = log.txn();
        txn.log = Some(log);
        txn.xid = Some(xid);
        txn.state = State::Prepared;
        txn
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        // Nothing would take one that has ended out of the lists again.
        self.owner.get_or_init(|| self.system.new_owner(&self.options, self.state != State::Ended))
    }

    /// Its number in listings, and for [`TxnSystem::kill`].
    #[must_use]
    pub fn serial(&self) -> Serial {
        self.owner().serial()
    }

    /// Its transaction id; [`TxnId::NONE`] while it has changed nothing.
    #[must_use]
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// What it was begun with.
    #[must_use]
    pub fn options(&self) -> &TxnOptions {
        &self.options
    }

    /// The system that it belongs to.
    #[must_use]
    pub fn system(&self) -> &Arc<TxnSystem> {
        &self.system
    }

    /// True if it holds any lock, that of rows which it has changed included.
    #[must_use]
    pub fn holds_locks(&self) -> bool {
        self.log.is_some() || self.owner.get().is_some_and(|owner| owner.holds_locks())
    }

    /// True if its view was given up, to keep old versions to their limit.
    #[must_use]
    pub fn is_view_given_up(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.is_cancelled())
    }

    /// Undo records written: changes made and not undone.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.log.as_ref().map_or(0, UndoLog::records)
    }

    /// A statement begins: at READ COMMITTED it will see what is committed now; a kill that came
    /// too late is forgotten. Returns where to roll back to if the statement fails.
    ///
    /// # Errors
    /// [`Error::Closed`] if the transaction has ended.
    pub fn statement_begin(&mut self) -> Result<TxnSavepoint> {
        self.check_open()?;
        if let Some(owner) = self.owner.get() {
            owner.clear_kill();
        }
        let takes_anew = holdfast_base::planted!("snapshot-taken-anew") && self.changes() > 0;
        if self.options.isolation == Isolation::ReadCommitted || takes_anew {
            self.end_statement_view();
        }
        Ok(self.savepoint())
    }

    /// The statement has ended. At READ COMMITTED its view has, too, once no cursor reads at it:
    /// until the next statement, which may be hours away, it would keep old versions.
    pub fn statement_end(&mut self) {
        let ends = self.options.isolation == Isolation::ReadCommitted;
        if ends && !holdfast_base::planted!("statement-keeps-its-view") {
            self.end_statement_view();
        }
    }

    fn end_statement_view(&mut self) {
        self.cursors_views.retain(|view| view.holders() > 0);
        self.cursors_views.extend(self.view.take().and_then(OpenView::into_shared));
    }

    /// What to do about locks of others from here on, unless a call says something else.
    pub fn set_wait(&mut self, wait: LockWait) {
        self.options.wait = Some(wait);
    }

    /// The point that the transaction has reached.
    #[must_use]
    pub fn savepoint(&self) -> TxnSavepoint {
        TxnSavepoint { records: self.changes() }
    }

    /// Undoes what was changed since `savepoint`. The view and the locks stay: a row that was there
    /// before and was changed since is locked exclusively. A savepoint is a number of changes: the
    /// caller forgets those that the transaction was rolled back over.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::InvalidArgument`] if there are fewer changes than at the
    /// savepoint; the errors of reading and writing pages: then this may be tried again, with the
    /// savepoint or an earlier one, and everything else but [`Txn::rollback`] gets
    /// [`Error::HalfUndone`].
    pub fn rollback_to(&mut self, savepoint: TxnSavepoint) -> Result<()> {
        let completes = self.state == State::Active && self.half_undone.is_some_and(|keep| savepoint.records <= keep);
        if !completes {
            self.check_open()?;
        }
        if savepoint.records > self.changes() {
            return Err(Error::invalid("the savepoint was rolled back over"));
        }
        if savepoint.records == self.changes() && self.half_undone.is_none() {
            return Ok(());
        }
        let owner = Arc::clone(self.owner());
        let Some(log) = &mut self.log else { return Ok(()) };
        let system = &self.system;
        let goes_on = GoesOn { owner: &owner, deltas: &mut self.deltas };
        let unprepared = system.unprepare(log);
        if let Ok(Some(lsn)) = unprepared {
            self.taken_back = Some(lsn);
        }
        let result = unprepared.and_then(|_| system.undo_to(log, savepoint.records, Some(goes_on)));
        system.release_unsaid_xid(log, &mut self.xid);
        owner.undid();
        owner.set_undo_records(log.records());
        self.system.metrics.inc(Counter::TrxSavepointRollbacks);
        self.half_undone = None;
        self.set_half_undone(savepoint.records, &result);
        result
    }

    /// Notes that what was written beyond the first `keep` changes is there in part, if `result` is
    /// an error.
    pub(crate) fn set_half_undone(&mut self, keep: u64, result: &Result<()>) {
        if result.is_err() {
            self.half_undone = Some(keep);
        }
    }

    /// True if it refuses everything but a rollback.
    pub(crate) fn is_half_undone(&self) -> bool {
        self.half_undone.is_some()
    }

    /// Says that the index was made for this transaction, which knows that it was empty then: it
    /// reads the index also if its view is older, and finds there what it has put there itself.
    pub fn admit(&mut self, index: IndexId) {
        self.admitted.push(index);
    }

    pub(crate) fn is_admitted(&self, index: IndexId) -> bool {
        !self.admitted.is_empty() && self.admitted.contains(&index)
    }

    /// Takes the view now instead of with the first read (START TRANSACTION WITH CONSISTENT
    /// SNAPSHOT).
    pub fn take_snapshot(&mut self) {
        self.current_view();
    }

    pub(crate) fn current_view(&mut self) -> &OpenView {
        self.view_and_owner().0
    }

    /// The transaction as a reader at its view, and the system that it reads in.
    pub(crate) fn reader(&mut self) -> (Reader<'_>, &TxnSystem) {
        let me = self.id;
        let (view, owner, system) = self.view_and_owner();
        (Reader { view, me, owner }, system)
    }

    /// The transaction changes rows: it would lose more than its reads.
    pub(crate) fn keep_views(&self) {
        self.view.iter().for_each(|view| view.keep());
        self.cursors_views.iter().for_each(|view| view.keep());
    }

    #[inline]
    fn view_and_owner(&mut self) -> (&OpenView, Option<&Owner>, &TxnSystem) {
        let Txn { view, system, options, id, for_cursors, owner, .. } = self;
        let open = || opened_view(system, options, *id, for_cursors.as_deref());
        (view.get_or_insert_with(open), owner.get().map(|owner| &**owner), system)
    }

    /// The entry on which it failed with [`Error::Conflict`] last, by index and key.
    #[must_use]
    pub fn conflict(&self) -> Option<(IndexId, Vec<u8>)> {
        self.owner.get().and_then(|owner| owner.conflict())
    }

    /// True if the first transaction that changes a row wins: one that does not see the newest
    /// version may not replace it.
    pub(crate) fn first_updater_wins(&self) -> bool {
        self.options.first_updater_wins()
    }

    /// True if a version is one of another transaction that a view of this one does not see.
    pub(crate) fn is_unseen(&self, version: VersionHeader) -> bool {
        let unseen = |view: &View| !view.sees(version.txn, &self.system.map);
        let by_cursors = || self.cursors_views.iter().any(|view| view.holders() > 0 && unseen(view));
        version.txn != self.id && (self.view.as_deref().is_some_and(unseen) || by_cursors())
    }

    pub(crate) fn end_views(&mut self) {
        (self.view, self.cursors_views) = (None, Vec::new());
        if let Some(for_cursors) = &self.for_cursors {
            let shared = for_cursors.lock().view.take();
            drop(shared); // Which may close the view, without the mutex.
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        match (self.state, self.half_undone) {
            (State::Active, None) => Ok(()),
            (State::Active, Some(_)) => Err(Error::HalfUndone),
            _ => Err(Error::Closed("the transaction")),
        }
    }

    pub(crate) fn wait_mode(&self) -> LockWait {
        self.options.wait.unwrap_or(LockWait::For(self.system.config.lock_wait_timeout))
    }

    /// First phase of two-phase commit: from here on the transaction survives a crash, until it is
    /// committed or rolled back. Waits until that is as durable as asked for. A transaction without
    /// changes has nothing to prepare.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the xid is too long or in use; the errors of the log. The
    /// transaction is not prepared then, and goes on; but if that could not be taken back, all that
    /// is left to it is [`Txn::rollback`].
    pub fn prepare(&mut self, xid: &[u8], durability: FlushAtCommit) -> Result<()> {
        self.check_open()?;
        self.give_back_unbegun_log();
        if let Some(log) = &mut self.log {
            let (system, id) = (&self.system, log.txn());
            system.prepared.reserve(xid, id)?;
            self.xid = Some(xid.to_vec());
            let acc = system.store.pool().access(holdfast_pool::AccessKind::Point);
            let lsn = log.prepare(&system.undo, xid, &acc);
            if let Err(error) = lsn.and_then(|lsn| system.wait_durable(lsn, durability)) {
                // What the page says and what is known here has to be the same.
                match log.unprepare(&system.undo, &acc) {
                    Ok(None) => {}
                    Ok(taken_back) => (self.taken_back, self.prepared) = (taken_back, durability),
                    Err(_) => (self.half_undone, self.prepared) = (Some(0), durability),
                }
                system.release_unsaid_xid(log, &mut self.xid);
                return Err(error);
            }
        }
        // It reads no more; until its end, which may be long, its view would keep old versions.
        self.end_views();
        (self.state, self.prepared) = (State::Prepared, durability);
        Ok(())
    }

    /// Fixes the transaction's place in the commit order and makes its changes visible, without
    /// waiting for the disk: short, and callable from another thread. [`Txn::commit`] has to
    /// follow.
    ///
    /// # Errors
    /// [`Error::Closed`]; the errors of the log: then the transaction is not committed.
    pub fn commit_ordered(&mut self) -> Result<()> {
        if self.state == State::Ended {
            return Err(Error::Closed("the transaction"));
        }
        if self.half_undone.is_some() {
            return Err(Error::HalfUndone);
        }
        self.give_back_unbegun_log();
        if let Some(log) = self.log.take() {
            match self.system.commit_log(log) {
                Ok(committed) => self.committed = Some(committed),
                Err((log, e)) => {
                    self.log = Some(log);
                    return Err(e);
                }
            }
            self.system.indexes.add_rows(&mut self.deltas);
            self.system.metrics.inc(Counter::TrxCommits);
        } else {
            if self.id != TxnId::NONE {
                self.system.publish_rollback(self.id);
            }
            self.system.metrics.inc(Counter::TrxReadOnlyCommits);
        }
        self.end();
        Ok(())
    }

    /// An undo log that was never written to is none.
    fn give_back_unbegun_log(&mut self) {
        if let Some(log) = self.log.take_if(|log| !log.is_begun()) {
            log.give_back_unbegun(&self.system.undo);
        }
    }

    /// Commits, and waits until the commit is as durable as asked for. After
    /// [`Txn::commit_ordered`] only waits.
    ///
    /// # Errors
    /// The errors of the log. If the commit was appended but could not be made durable, the
    /// database is poisoned, and only recovery can tell whether it survived.
    pub fn commit(&mut self, durability: FlushAtCommit) -> Result<()> {
        if self.state != State::Ended && self.log.is_none() {
            return self.commit_ordered();
        }
        let begun = Instant::now();
        if self.state != State::Ended {
            self.commit_ordered()?;
        }
        let Some(committed) = self.committed else { return Ok(()) };
        if let Err(error) = self.system.wait_durable(committed.lsn, durability) {
            // Every view sees the commit by now, and its user is told that it failed: only recovery
            // can settle that.
            let wal = self.system.store.wal();
            wal.poison(&format!("a commit could not be made durable: {error}"));
            return Err(error);
        }
        self.system.metrics.record(Timing::Commit, begun.elapsed());
        self.system.purger.tidy_history(committed);
        Ok(())
    }

    /// Undoes everything and ends the transaction.
    ///
    /// # Errors
    /// The errors of reading and writing pages. The transaction is over for its user all the same:
    /// the rollback is tried again in the background, and its rows stay locked until then.
    /// [`Error::Closed`] if the database was closed meanwhile: the next open goes on with it.
    /// Behind a prepare, those of the log.
    pub fn rollback(&mut self) -> Result<()> {
        if self.state == State::Ended {
            return Ok(());
        }
        self.end_views();
        if let Some(owner) = self.owner.get() {
            owner.undid();
        }
        if let Some(log) = self.log.take() {
            return self.roll_back_log(log);
        }
        if self.id != TxnId::NONE {
            self.system.publish_rollback(self.id);
        }
        self.system.metrics.inc(Counter::TrxRollbacks);
        self.end();
        Ok(())
    }

    fn roll_back_log(&mut self, mut log: UndoLog) -> Result<()> {
        self.state = State::Ended;
        self.system.metrics.adjust(Gauge::TrxActive, -1);
        let owner = Arc::clone(self.owner());
        let unprepared = self.system.unprepare(&mut log);
        let undone = unprepared.and_then(|lsn| self.system.undo_to(&mut log, 0, None).map(|()| lsn));
        match undone {
            Ok(lsn) => {
                self.system.release_unsaid_xid(&log, &mut self.xid);
                self.system.finish_rollback(&owner, log);
                // A coordinator that was told of an error must not find it prepared after a crash.
                let unprepared = lsn.or(self.taken_back);
                unprepared.map_or(Ok(()), |lsn| self.system.wait_durable(lsn, self.prepared))
            }
            Err(error) => {
                let (txn, is_said, xid) = (log.txn(), log.is_prepared(), self.xid.take());
                self.system.abandon_rollback(owner, log, xid.clone().filter(|_| is_said), &error);
                // Not before: a change of a definition that does not find it among the prepared
                // transactions any more has to find the loser.
                match xid {
                    Some(xid) if is_said => self.system.prepared.leave_to_losers(xid, txn),
                    Some(xid) => self.system.prepared.release(xid, txn),
                    None => {}
                }
                Err(error)
            }
        }
    }

    fn end(&mut self) {
        if let Some(xid) = self.xid.take() {
            self.system.prepared.release(xid, self.id);
        }
        self.state = State::Ended;
        self.end_views();
        if let Some(owner) = self.owner.get() {
            self.system.end_owner(owner);
        }
        self.system.metrics.adjust(Gauge::TrxActive, -1);
    }
}

impl Txn {
    /// Ends it without a word to the system: in a forked child, where the system's threads are not,
    /// and its locks may be held by them.
    pub fn abandon(&mut self) {
        self.state = State::Ended;
        std::mem::forget(self.view.take());
        std::mem::forget(self.log.take());
    }
}

/// The view of a transaction that reads for the first time, which its locking cursors share.
#[cold]
fn opened_view(
    system: &Local<Arc<TxnSystem>>,
    options: &TxnOptions,
    id: TxnId,
    for_cursors: Option<&Mutex<ForCursors>>,
) -> OpenView {
    let first_updater_wins = options.first_updater_wins();
    // A transaction that acts on the newest rows decides nothing by its view.
    let acts_on_newest = !first_updater_wins && id == TxnId::NONE;
    let view = TxnSystem::open_view(system, options.read_only || acts_on_newest);
    if let Some(shared) = for_cursors.filter(|_| first_updater_wins) {
        shared.lock().view = Some(view.share());
    }
    view
}

impl Drop for Txn {
    fn drop(&mut self) {
        match (self.state, self.log.take()) {
            (State::Ended, _) => {}
            (State::Prepared, Some(log)) => {
                self.end_views();
                self.system.metrics.adjust(Gauge::TrxActive, -1);
                let (owner, left) = (Arc::clone(self.owner()), Left::All);
                let loser = Loser { owner, log, xid: None, left, stopped_by: None, changed: None };
                self.system.prepared.list(self.xid.take().unwrap_or_default(), loser);
            }
            (_, log) => {
                self.log = log;
                // What could not be undone now is left to the background.
                let _ = self.rollback();
            }
        }
    }
}
