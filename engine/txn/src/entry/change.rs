//! Changing an entry.
//!
//! # Protocol
//! 1. Read the entry. If another active transaction wrote it, or holds an explicit lock on it: wait
//!    for the lock, start over.
//! 2. Isolation: with snapshot isolation the newest version must be visible (the first updater
//!    wins).
//! 3. Under the latch of the leaf: the entry must still carry what was read, no other transaction
//!    may have locked it, and no range lock of others may cover a key that comes to life. Then the
//!    undo record and the new version go in (see [`crate::entry::put`]).
//! 4. If step 3 failed, all starts over.
//!
//! A change of what the transaction has just read with a lock does not read it again, if the leaf
//! has not changed since.
//!
//! No thread waits for a lock while it holds a latch, and the stripe of the unique check is
//! released before a wait, too.
//!
//! Each start over follows a wait for a transaction that there is, or finds another version than
//! before (see [`crate::entry::reread`]).

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::limits::key_len_max;
use holdfast_base::{Error, IndexId, Result, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};

use crate::entry::attempt::{Blocker, Found, NewVersion};
use crate::entry::index::{IndexKind, TableIndex};
use crate::entry::locked::{EntryRef, conflict, is_locked_by_id, is_still, wait_for_writer};
use crate::entry::reread::Rereads;
use crate::entry::row::{VERSION_HEADER_LEN, VersionHeader};
use crate::entry::values::{self, NewValue, Part};
use crate::entry::visibility::split;
use crate::mvcc::commit_map::Moment;
use crate::options::Isolation;
use crate::savepoint::add_delta;
use crate::system::TxnSystem;
use crate::txn::Txn;
use holdfast_lock::{LockMode, Owner};

/// What to do with an entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op<'v> {
    /// An entry that is in the way stays locked in this mode, if it was waited for.
    Insert(NewValue<'v>, LockMode),
    Update(NewValue<'v>),
    Upsert(NewValue<'v>),
    Delete,
}

impl Op<'_> {
    /// True if it puts a version where there is a live one, or none.
    fn puts(self, live: bool) -> bool {
        match self {
            Op::Insert(..) => !live,
            Op::Update(_) | Op::Delete => live,
            Op::Upsert(_) => true,
        }
    }
}

pub(super) enum Step {
    /// Done; whether there was a live entry before.
    Done(bool),
    Blocked(Blocker),
}

/// That an inserter has waited for a range, so that later readers of the range let it go first.
/// Ends when the insert is done or given up, in whichever way.
struct InsertTurn {
    system: Arc<TxnSystem>,
    owner: Arc<Owner>,
    index: IndexId,
    key: Box<[u8]>,
}

impl Drop for InsertTurn {
    fn drop(&mut self) {
        self.system.locks.has_inserted(&self.owner, self.index, &self.key);
    }
}

/// What a change has met on its way.
#[derive(Default)]
pub(super) struct Way {
    turn: Option<InsertTurn>,
    rereads: Rereads,
    /// How the transaction had locked the entry before the change waited for it.
    before: Option<Option<LockMode>>,
}

impl Txn {
    /// Inserts an entry. One that is in the way and was waited for stays locked for sharing.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if there is one; [`Error::Conflict`] if another transaction deleted
    /// it after this one's snapshot; lock errors; [`Error::KeyTooLong`], [`Error::LimitReached`],
    /// those of the pool, the log and the disk.
    pub fn insert<'v>(&mut self, index: &TableIndex, key: &[u8], value: impl Into<NewValue<'v>>) -> Result<()> {
        self.insert_waiting(index, key, value, LockMode::Shared)
    }

    /// As [`Txn::insert`], for a caller that is going to lock the entry that is in the way with a
    /// lock of this `mode`.
    ///
    /// # Errors
    /// The errors of [`Txn::insert`].
    pub fn insert_waiting<'v>(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        value: impl Into<NewValue<'v>>,
        mode: LockMode,
    ) -> Result<()> {
        self.change(index, key, Op::Insert(value.into(), mode), None).map(|_| ())
    }

    /// Replaces the value of an entry. Returns whether there was one; `old` then holds its value
    /// before.
    ///
    /// # Errors
    /// The errors of [`Txn::insert`], without [`Error::DuplicateKey`]; [`Error::Conflict`] if
    /// another transaction changed it after this one's snapshot.
    pub fn update<'v>(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        value: impl Into<NewValue<'v>>,
        old: Option<&mut Vec<u8>>,
    ) -> Result<bool> {
        self.change(index, key, Op::Update(value.into()), old)
    }

    /// Inserts an entry or replaces its value. Returns whether there was one; `old` then holds its
    /// value before.
    ///
    /// # Errors
    /// The errors of [`Txn::update`].
    pub fn upsert<'v>(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        value: impl Into<NewValue<'v>>,
        old: Option<&mut Vec<u8>>,
    ) -> Result<bool> {
        self.change(index, key, Op::Upsert(value.into()), old)
    }

    /// Deletes an entry. Returns whether there was one; `old` then holds its value.
    ///
    /// # Errors
    /// The errors of [`Txn::update`].
    pub fn delete(&mut self, index: &TableIndex, key: &[u8], old: Option<&mut Vec<u8>>) -> Result<bool> {
        self.change(index, key, Op::Delete, old)
    }

    pub(super) fn check_writable(&self, key: &[u8]) -> Result<()> {
        self.check_open()?;
        if self.options.read_only {
            return Err(Error::ReadOnly("the transaction"));
        }
        let max = key_len_max(self.system.store.page_size());
        if key.len() > max {
            return Err(Error::KeyTooLong { len: key.len(), max });
        }
        Ok(())
    }

    fn change(&mut self, index: &TableIndex, key: &[u8], op: Op<'_>, mut old: Option<&mut Vec<u8>>) -> Result<bool> {
        self.check_writable(key)?;
        self.throttle();
        let mut way = Way::default();
        let begins = self.view.is_none() && !holdfast_base::planted!("view-before-the-wait");
        loop {
            let blocker = match self.change_once(index, key, op, old.as_deref_mut()) {
                Ok(Step::Blocked(blocker)) => blocker,
                Ok(Step::Done(existed)) => {
                    if !existed && !op.puts(false) {
                        self.leave_absent(index, key, &way);
                    }
                    return Ok(existed);
                }
                // The change found no entry and took the view for that; then an entry came. Nothing
                // else was read at the view, so the change begins again without one.
                Err(Error::Conflict) if begins && self.view.is_some() => {
                    self.end_views();
                    continue;
                }
                Err(e) => {
                    self.refused(index, key, op, &way, &e);
                    return Err(e);
                }
            };
            self.clear_way(index, key, blocker, &mut way)?;
        }
    }

    /// Pays for log that the checkpoint cannot keep up with, between two rows, holding nothing.
    fn throttle(&self) {
        let delay = self.system.store.wal().throttle_delay();
        // A shorter sleep than this cannot be had: it would cost more than it says.
        if delay >= Duration::from_micros(50) {
            self.system.metrics.inc(Counter::LogThrottles);
            holdfast_base::thread::sleep(delay);
        }
    }

    /// A change that has failed with `error` has waited for its entry with an exclusive lock, so
    /// that waiters that insert it do so one after the other. If there is an entry, it need
    /// only stay.
    pub(super) fn refused(&self, index: &TableIndex, key: &[u8], op: Op<'_>, way: &Way, error: &Error) {
        let only_stays = matches!((op, error), (Op::Insert(_, LockMode::Shared), Error::DuplicateKey));
        if only_stays && matches!(way.before, Some(None | Some(LockMode::Shared))) {
            self.system.locks.unlock_row_to(self.owner(), index.id(), key, Some(LockMode::Shared));
        }
    }

    /// A change has found no entry: if it has waited for one that was deleted, it is locked as it
    /// was before, where no level keeps its key free.
    fn leave_absent(&self, index: &TableIndex, key: &[u8], way: &Way) {
        if let Some(before) = way.before.filter(|_| !self.keeps_absent_free()) {
            self.system.locks.unlock_row_to(self.owner(), index.id(), key, before);
        }
    }

    /// True if the isolation level promises that a key stays free where a change has found nothing.
    /// With snapshot isolation it is the snapshot that has no such entry.
    fn keeps_absent_free(&self) -> bool {
        match self.options.isolation {
            Isolation::ReadCommitted => false,
            Isolation::RepeatableRead => !self.options.snapshot_isolation,
            Isolation::Serializable => true,
        }
    }

    /// Waits until `blocker` is gone. A turn is taken where that is a range, and belongs to the
    /// change until it ends.
    pub(super) fn clear_way(&self, index: &TableIndex, key: &[u8], blocker: Blocker, way: &mut Way) -> Result<()> {
        if matches!(blocker, Blocker::Writer(_) | Blocker::Lock) && way.before.is_none() {
            way.before = Some(self.system.locks.row_mode(self.owner(), index.id(), key));
        }
        match blocker {
            Blocker::Writer(id) => self.wait_for_writer(index, key, id, LockMode::Exclusive),
            Blocker::Lock => self.lock_exclusively(index, key),
            Blocker::Range => {
                way.turn.get_or_insert_with(|| InsertTurn {
                    system: Arc::clone(&self.system),
                    owner: Arc::clone(self.owner()),
                    index: index.id(),
                    key: key.into(),
                });
                self.system.locks.wait_range(self.owner(), index.id(), key, self.wait_mode())
            }
            Blocker::Changed(read) => way.rereads.again(index, key, read),
        }
    }

    fn lock_exclusively(&self, index: &TableIndex, key: &[u8]) -> Result<()> {
        let (locks, wait) = (&self.system.locks, self.wait_mode());
        locks.lock_row(self.owner(), index.id(), key, LockMode::Exclusive, wait, None).map(|_| ())
    }

    pub(super) fn wait_for_writer(&self, index: &TableIndex, key: &[u8], writer: TxnId, mode: LockMode) -> Result<()> {
        let request = self.request(mode, self.wait_mode());
        wait_for_writer(&self.system, EntryRef::new(index, key), request, writer)
    }

    /// One attempt.
    pub(super) fn change_once(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        op: Op<'_>,
        old: Option<&mut Vec<u8>>,
    ) -> Result<Step> {
        let system = Arc::clone(&self.system);
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let before = system.map.moment();
        if holdfast_base::planted!("view-before-the-wait") {
            self.current_view();
        }
        let mut remembered = self.last_read.spot_of(index, key);
        let mut payload = self.last_read.take_payload();
        if remembered.is_none()
            && let Some(for_cursors) = &self.for_cursors
        {
            let read = &mut for_cursors.lock().read;
            remembered = read.spot_of(index, key);
            if remembered.is_some() {
                let unused = std::mem::replace(&mut payload, read.take_payload());
                read.give_buffer(unused);
            }
        }
        // Asked after the moment was noted: what has not changed by now was as good as read now.
        let found = match remembered.filter(|spot| index.tree().is_current(spot)) {
            Some(spot) => Ok(spot),
            None => index.tree().get_at(key, &acc, &mut payload),
        };
        let step = found.and_then(|spot| {
            let current = spot.exists().then_some(payload.as_slice());
            let header = current.map(|p| split(index, p).map(|(h, _)| h)).transpose()?;
            self.change_found(
                EntryRef::new(index, key),
                op,
                &Found { payload: current, header, spot },
                before,
                old,
                &acc,
            )
        });
        self.last_read.give_buffer(payload);
        step
    }

    fn change_found(
        &mut self,
        entry: EntryRef<'_>,
        op: Op<'_>,
        seen: &Found<'_>,
        before: Moment,
        old: Option<&mut Vec<u8>>,
        acc: &Access<'_>,
    ) -> Result<Step> {
        let EntryRef { index, key } = entry;
        if let Some(h) = seen.header
            && h.txn != self.id
            && self.system.map.is_active(h.txn)
            && !holdfast_base::planted!("writer-not-waited-for")
        {
            return Ok(Step::Blocked(Blocker::Writer(h.txn)));
        }
        if seen.header.is_some_and(|h| h.txn != self.id && self.system.map.is_doubtful(h.txn, before))
            && !is_still(entry, seen.payload, acc)?
        {
            return Ok(Step::Blocked(Blocker::Changed(seen.header)));
        }
        let live = seen.is_live();
        // Where a version is put, that is asked under the latch of the leaf. An entry that others
        // have locked for sharing stays.
        let mode = if matches!(op, Op::Insert(..)) { LockMode::Shared } else { LockMode::Exclusive };
        let asks = !op.puts(live) && !seen.is_by(self.id);
        if asks && self.system.locks.blocked_for(self.owner(), index.id(), key, mode) {
            return Ok(Step::Blocked(Blocker::Lock));
        }
        if live && matches!(op, Op::Insert(..)) {
            return Err(Error::DuplicateKey);
        }
        let replaces_unseen = self.check_first_updater(entry, seen.header)?;
        if !live && matches!(op, Op::Update(_) | Op::Delete) {
            return self.protect_absence(entry, seen.header);
        }
        if replaces_unseen && index.kind() == IndexKind::Rows {
            self.owner().replaces_unseen(index.id());
        }
        if let (Some(old), Some(payload), true) = (old, seen.payload, live)
            && let Err(e) = self.system.value_of(index, payload, Part::Whole, None, acc, old)
        {
            // Its chain may have been freed because another transaction has just replaced the
            // entry.
            let unchanged = is_still(entry, Some(payload), acc)?;
            return if unchanged { Err(e) } else { Ok(Step::Blocked(Blocker::Changed(seen.header))) };
        }
        let mut new = self.new_version(entry, op, seen, acc)?;
        let result = self.put_version(entry, seen, &mut new, acc);
        // A record that could not be cut names the chain, and its rollback releases it.
        if new.overflow && !matches!(result, Ok(None)) && !self.is_half_undone() {
            values::release(index.tree().space(), index.id(), new.body(), acc)?;
        }
        let deleted = new.deleted;
        self.new_payload = new.payload;
        if let Some(blocker) = result? {
            return Ok(Step::Blocked(blocker));
        }
        // A rollback to a savepoint that puts another one's version back locks it. One that removes
        // what the transaction has inserted does not: the lock may be that of a key without an
        // entry.
        if live && !seen.is_by(self.id) {
            self.system.locks.leave_to_id(self.owner(), index.id(), key);
        }
        self.count_change(index, live, deleted);
        Ok(Step::Done(live))
    }

    /// True if the newest version is one of others that a view of the transaction does not see.
    /// With snapshot isolation that is a conflict: the first updater wins.
    pub(crate) fn check_first_updater(&self, entry: EntryRef<'_>, newest: Option<VersionHeader>) -> Result<bool> {
        let is_unseen = newest.is_some_and(|version| self.is_unseen(version));
        if is_unseen && self.first_updater_wins() && !holdfast_base::planted!("conflict-not-noticed") {
            return Err(conflict(&self.system, self.owner(), entry));
        }
        Ok(is_unseen)
    }

    /// An update or delete found nothing: where the isolation level promises it, the key is kept
    /// free: by the transaction's id, where that is in the entry, since the transaction has deleted
    /// it. With snapshot isolation it is the snapshot that has no such entry, so there has to be
    /// one.
    fn protect_absence(&mut self, entry: EntryRef<'_>, seen: Option<VersionHeader>) -> Result<Step> {
        if self.first_updater_wins() && self.view.is_none() {
            self.current_view();
            // Read again: the entry may have come before the snapshot.
            return Ok(Step::Blocked(Blocker::Changed(seen)));
        }
        let promised = self.keeps_absent_free();
        let is_own = seen.is_some_and(|version| is_locked_by_id(version.txn, self.owner()));
        if !promised || is_own || self.system.locks.holds_row(self.owner(), entry.index.id(), entry.key) {
            return Ok(Step::Done(false));
        }
        self.lock_exclusively(entry.index, entry.key)?;
        // Read again, now that it is locked.
        Ok(Step::Blocked(Blocker::Changed(seen)))
    }

    fn new_version(
        &mut self,
        EntryRef { index, key }: EntryRef<'_>,
        op: Op<'_>,
        seen: &Found<'_>,
        acc: &Access<'_>,
    ) -> Result<NewVersion> {
        let buffer = std::mem::take(&mut self.new_payload);
        let value = match op {
            Op::Delete => return Ok(NewVersion::new(true, false, &[], buffer)),
            Op::Insert(v, _) | Op::Update(v) | Op::Upsert(v) => v,
        };
        let (file, id, max) = (index.tree().space(), index.id(), index.body_max(key.len()));
        values::admit(file, value, acc)?;
        if value.bytes().len() <= max {
            return Ok(NewVersion::new(false, false, value.bytes(), buffer));
        }
        let shared = match self.chain_that_stays(index, key, seen) {
            Some(prior) => values::share(file, id, value, max, prior, acc)?,
            None => None,
        };
        let body = shared.map_or_else(|| values::write(file, id, value, max, acc), Ok)?;
        Ok(NewVersion::new(false, true, &body, buffer))
    }

    /// The body of the version before, if that has a chain and no other transaction can replace it,
    /// so that the chain stays.
    fn chain_that_stays<'p>(&self, index: &TableIndex, key: &[u8], seen: &Found<'p>) -> Option<&'p [u8]> {
        seen.header.filter(|h| h.overflow)?;
        let locked = seen.is_by(self.id) || self.system.locks.holds_row(self.owner(), index.id(), key);
        seen.payload.filter(|_| locked)?.get(VERSION_HEADER_LEN..)
    }

    fn count_change(&mut self, index: &TableIndex, was_live: bool, deleted: bool) {
        self.owner().changed(index.id(), !was_live);
        self.owner().set_undo_records(self.changes());
        let by = i64::from(!deleted) - i64::from(was_live);
        if by != 0 {
            add_delta(&mut self.deltas, index.id(), by);
        }
        if index.kind() == IndexKind::Rows {
            self.system.metrics.inc(match (was_live, deleted) {
                (_, true) => Counter::RowsDeleted,
                (true, false) => Counter::RowsUpdated,
                (false, false) => Counter::RowsInserted,
            });
        }
    }
}
