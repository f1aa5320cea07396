//! The cursor: batches, and entries read at a view. See [`crate::cursor`].

use std::fmt;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{Error, Result, TxnId};
use holdfast_metrics::{Counter, Local};
use holdfast_pool::{Access, AccessKind, ScanPlan};

use holdfast_tree::{Batch, BatchLimit, Direction, Walk};

use crate::cursor::buffers::Buffers;
use crate::cursor::locking::Locking;
use crate::cursor::options::{CursorOptions, ScanMode};
use crate::entry::index::{IndexKind, TableIndex};
use crate::entry::locked::{EarlyRelease, EntryRef, LockRequest, lock_and_read};
use crate::entry::row::VERSION_HEADER_LEN;
use crate::entry::values::{self, Part};
use crate::entry::visibility::{Reader, Seen, split};
use crate::options::Isolation;
use crate::system::{OpenView, TxnSystem};
use crate::txn::Txn;
use holdfast_lock::{IndexChanges, LockMode, Owner};

/// Entries of the first batch.
const BATCH_MIN: usize = 16;
/// By how much batches grow: a range of a hundred rows takes two.
const BATCH_GROWTH: usize = 8;
/// Entries of the largest batch.
const BATCH_MAX: usize = 2048;
/// Bytes after which a batch ends. A batch stays in the first-level cache of the processor until it
/// is used, and thousands of cursors may be open.
const BATCH_BYTES: usize = 16 << 10;

/// Leaves after which a cursor counts as a scan, unless that is too many for the pool: then one in
/// [`SCAN_AFTER_DIVISOR`] of the frames.
const SCAN_AFTER_LEAVES: u64 = 64;
/// See [`SCAN_AFTER_LEAVES`].
const SCAN_AFTER_DIVISOR: u64 = 16;

/// What the newest version of an entry means for a reader, without a look at older ones.
enum Newest {
    /// It is what the view sees, and this is where in the payload the value begins.
    Seen(usize),
    /// The view sees that there is no entry.
    Absent,
    /// That takes more than a look.
    Unclear,
}

/// An end of a cursor's range.
type End = Bound<Box<[u8]>>;

/// A cursor. Obtained from [`Txn::cursor`].
pub struct RowCursor {
    pub(super) system: Local<Arc<TxnSystem>>,
    pub(super) owner: Arc<Owner>,
    pub(super) index: Arc<TableIndex>,
    /// The view that it reads at; none if it locks.
    view: Option<OpenView>,
    pub(super) locking: Option<Locking>,
    direction: Direction,
    scan: ScanMode,
    part: Part,
    /// How the scan treats its pages, once it is one.
    pub(super) plan: Option<ScanPlan>,
    /// The number that all its accesses to the pool carry.
    pub(super) statement: u32,
    /// How far it has come.
    walk: Walk,
    /// Pages of large values that it has read.
    pub(super) beside: u64,
    /// How many pages it had come to when the plan was made.
    planned_at: u64,
    from: End,
    to: End,
    /// How many changes of the transaction, and of them how many to this index, the cursor has
    /// noticed.
    changes_seen: u64,
    index_changes_seen: IndexChanges,
    pub(super) batch: Batch,
    /// Entries of the batch may have been changed by the transaction since it was read.
    stale: bool,
    /// The next entry of the batch.
    pub(super) at: usize,
    /// Deleted entries between `at` and the first entry that was shown ahead. They are passed over
    /// together with that entry, since until then a rollback may restore their rows.
    gap: usize,
    batch_len: usize,
    /// The last key of earlier batches that was looked at.
    pub(super) last: Option<Vec<u8>>,
    done: bool,
    /// Rows given that are not counted yet.
    rows_read: u64,
    /// A transaction whose changes the view sees: mostly that of the next entry, too.
    seen: TxnId,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// How a cursor reads pages of `index`.
pub(super) fn access<'a>(
    system: &'a TxnSystem,
    index: &'a TableIndex,
    statement: u32,
    plan: Option<ScanPlan>,
) -> Access<'a> {
    let acc = system.store.pool().access(AccessKind::Range).with_stats(index.access_stats());
    acc.with_statement(statement).with_scan_plan(plan)
}

fn borrow(bound: &End) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}

impl Txn {
    /// A cursor over the entries between `from` and `to`.
    ///
    /// # Errors
    /// [`Error::Closed`] if the transaction has ended; [`Error::SnapshotTooOld`] if the index was
    /// filled after its snapshot; [`Error::Interrupted`] if it was killed.
    pub fn cursor(
        &mut self,
        index: &Arc<TableIndex>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        options: CursorOptions,
    ) -> Result<RowCursor> {
        self.check_open()?;
        let serializable = self.options.isolation == Isolation::Serializable;
        let mode = options.lock.or(serializable.then_some(LockMode::Shared));
        let view = if mode.is_none() { Some(self.current_view().share()) } else { None };
        if !options.linked {
            // Before anything is locked: what is refused locks nothing.
            self.check_age(index)?;
        }
        let locking = mode.map(|mode| self.locking(index, mode, from, to, options)).transpose()?;
        let range = (from.map(Box::from), to.map(Box::from));
        let mut cursor = RowCursor::open(&self.system, self.owner(), index, range, options);
        (cursor.view, cursor.locking) = (view, locking);
        Ok(cursor)
    }
}

impl RowCursor {
    /// A cursor that has read nothing, without view and locks.
    fn open(
        system: &Local<Arc<TxnSystem>>,
        owner: &Arc<Owner>,
        index: &Arc<TableIndex>,
        (from, to): (End, End),
        options: CursorOptions,
    ) -> RowCursor {
        owner.cursor_opens();
        let Buffers { batch, key, value } = Buffers::take();
        RowCursor {
            view: None,
            system: Arc::clone(system),
            owner: Arc::clone(owner),
            index: Arc::clone(index),
            locking: None,
            direction: options.direction,
            scan: options.scan,
            part: options.part,
            plan: None,
            statement: system.store.pool().access(AccessKind::Range).statement(),
            walk: Walk::default(),
            beside: 0,
            planned_at: 0,
            from,
            to,
            changes_seen: owner.changes(),
            index_changes_seen: owner.changes_of(index.id()),
            batch,
            stale: false,
            at: 0,
            gap: 0,
            rows_read: 0,
            seen: TxnId::NONE,
            batch_len: BATCH_MIN,
            last: None,
            done: false,
            key,
            value,
        }
    }

    /// A cursor that reads the same range at the same view, from its other end. `None` if this one
    /// locks what it reads.
    #[must_use]
    pub fn turned(&self) -> Option<RowCursor> {
        let view = self.view.as_ref()?.share();
        let direction = match self.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        let options = CursorOptions { direction, scan: self.scan, part: self.part, ..CursorOptions::default() };
        let range = (self.from.clone(), self.to.clone());
        let mut cursor = RowCursor::open(&self.system, &self.owner, &self.index, range, options);
        cursor.view = Some(view);
        Some(cursor)
    }

    /// The next entry that the transaction sees, or `None` at the end of the range. The slices are
    /// valid until the next call.
    ///
    /// # Errors
    /// The errors of [`Txn::get`], or as [`Txn::get_locked`] for a locking cursor. The entry that
    /// caused it is passed over by the next call.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while let Some(at) = self.next_entry()? {
            let newest = if self.locking.is_some() || self.stale { Newest::Unclear } else { self.look(at)? };
            let in_batch = match newest {
                Newest::Absent => continue,
                Newest::Seen(begin) => Some(begin),
                Newest::Unclear => {
                    self.key.clear();
                    self.key.extend_from_slice(self.batch.get(at).0);
                    self.reach();
                    let exists = match &self.locking {
                        Some(Locking { cover: Some(cover), .. }) => self.cover_entry(at, *cover)?,
                        Some(_) => self.lock_entry(at)?,
                        None if self.stale => self.read_entry()?,
                        None => self.judge(at)?,
                    };
                    if !exists {
                        continue;
                    }
                    None
                }
            };
            self.rows_read += 1;
            if let Some(begin) = in_batch {
                let (key, payload) = self.batch.get(at);
                return Ok(Some((key, &payload[begin..])));
            }
            return Ok(Some((&self.key, &self.value)));
        }
        self.check_view()?;
        self.end_reading(true);
        Ok(None)
    }

    fn check_view(&self) -> Result<()> {
        self.view.as_ref().map_or(Ok(()), |view| view.check())
    }

    /// Shows up to `max` entries that `next` would return, one after the other, without copying
    /// them. The first `passed` entries of those shown last count as returned. The entries stay
    /// readable until the next call, and are what the transaction sees until it changes something.
    /// Returns how many entries were shown: 0 if the next one takes more than a look at its newest
    /// version, which `next` does, or if the view was given up meanwhile, which `next` says.
    ///
    /// # Errors
    /// The errors of reading pages. None has been shown then.
    pub fn look_ahead(&mut self, passed: usize, max: usize, mut show: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let gap = mem::take(&mut self.gap);
        if passed > 0 {
            self.at = (self.at + gap + passed).min(self.batch.len());
            self.rows_read += passed as u64;
        }
        if self.locking.is_some() || max == 0 || !self.stand_before_entry()? || self.stale {
            return Ok(0);
        }
        let mut shown = 0;
        while shown < max && self.at + self.gap + shown < self.batch.len() {
            let at = self.at + self.gap + shown;
            match self.look(at) {
                Ok(Newest::Seen(begin)) => {
                    let (key, payload) = self.batch.get(at);
                    show(key, &payload[begin..]);
                    shown += 1;
                }
                Ok(Newest::Absent) if shown == 0 => self.gap += 1,
                // Whatever it is, it is for `next`.
                _ => break,
            }
        }
        Ok(if self.check_view().is_ok() { shown } else { 0 })
    }

    /// A number that grows with every change that the cursor's transaction makes or undoes. Entries
    /// that were shown ahead are valid as long as it is the same.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.owner.changes()
    }

    /// Judges entry `at` by its newest version.
    #[inline]
    fn look(&mut self, at: usize) -> Result<Newest> {
        let Some(view) = &self.view else { return Ok(Newest::Unclear) };
        let (header, body) = split(&self.index, self.batch.get(at).1)?;
        if header.txn != self.seen {
            let reader = Reader { view, me: self.owner.txn(), owner: None };
            if !reader.sees(header.txn, &self.system.map) {
                return Ok(Newest::Unclear);
            }
            self.seen = header.txn;
        }
        let Some(begin) = values::begin_in_body(header.overflow, body, self.part) else {
            return Ok(Newest::Unclear);
        };
        view.check()?;
        Ok(if header.deleted { Newest::Absent } else { Newest::Seen(VERSION_HEADER_LEN + begin) })
    }

    /// Takes back what the cursor has added to the lock of the entry returned last, which did not
    /// qualify: the entry is locked as it was before. It does so only at READ COMMITTED.
    pub fn unlock(&mut self) {
        if let Some(locking) = &mut self.locking {
            let release = mem::take(&mut locking.early_release);
            release.apply(&self.system.locks, &self.owner, EntryRef::new(&self.index, &self.key));
        }
    }

    /// True if another transaction has locked the entry returned last: it is as it was committed
    /// last.
    #[must_use]
    pub fn is_given_unlocked(&self) -> bool {
        self.locking.as_ref().is_some_and(|locking| locking.is_unlocked)
    }

    /// Locks the entry returned last, which was returned without a lock, and reads it again. `None`
    /// if it no longer exists.
    ///
    /// # Errors
    /// The errors of [`Txn::get_locked`].
    pub fn lock_given(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some(locking) = &mut self.locking else { return Ok(None) };
        if !mem::take(&mut locking.is_unlocked) {
            return Ok(None);
        }
        let before = self.system.locks.row_mode(&self.owner, self.index.id(), &self.key);
        let acc = access(&self.system, &self.index, self.statement, self.plan);
        let (system, index, mode, wait) = (&self.system, &self.index, locking.mode, locking.wait);
        let mut payload = locking.shared.lock().read.take_payload();
        let request = LockRequest { owner: &self.owner, mode, wait };
        let spot = lock_and_read(system, EntryRef::new(index, &self.key), request, None, &acc, &mut payload)?;
        locking.early_release = EarlyRelease::DownTo(before);
        let has_gone = self.has_gone_meanwhile(spot, &payload)?;
        let mut value = mem::take(&mut self.value);
        let exists = self.value_of_locked(spot, payload, &acc, &mut value);
        drop(acc);
        self.value = value;
        if has_gone {
            self.read_anew();
        }
        Ok(exists?.then_some((&self.key, &self.value)))
    }

    /// Reads the row of `key`, to which a returned entry leads, at the view of the cursor. `None`
    /// if the cursor has no view, because it locks what it reads, or if its entries lead to no
    /// rows.
    ///
    /// # Errors
    /// The errors of [`Txn::get`].
    pub fn read_row(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>> {
        let (Some(view), Some(rows)) = (&self.view, self.index.rows_led_to()) else { return Ok(None) };
        let reader = Reader { view, me: self.owner.txn(), owner: Some(&self.owner) };
        // All rows that the cursor leads to are read by one statement.
        let acc = self.system.store.pool().access(AccessKind::Point).with_stats(rows.access_stats());
        let acc = acc.with_statement(self.statement);
        let found = self.system.read_at(rows, key, reader, Part::Whole, &acc, value)?;
        self.system.metrics.add(Counter::RowsRead, u64::from(found));
        Ok(Some(found))
    }

    /// The index that it walks.
    #[must_use]
    pub fn index(&self) -> &Arc<TableIndex> {
        &self.index
    }

    /// The place in the batch of the next entry of the tree, whatever its version.
    fn next_entry(&mut self) -> Result<Option<usize>> {
        if !self.stand_before_entry()? {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(self.at - 1))
    }

    /// Makes the next entry of the tree available in the batch. False at the end of the range.
    fn stand_before_entry(&mut self) -> Result<bool> {
        let changes = self.owner.changes();
        if changes != self.changes_seen {
            self.changes_seen = changes;
            self.notice_changes();
        }
        self.notice_waits();
        if self.at == self.batch.len() {
            if self.done {
                return Ok(false);
            }
            self.fill()?;
        }
        Ok(self.at < self.batch.len())
    }

    /// The transaction has changed something since the last call.
    fn notice_changes(&mut self) {
        let changes = self.owner.changes_of(self.index.id());
        if changes.added != self.index_changes_seen.added {
            // There may be entries ahead that the batch lacks. The next change may make what is
            // read now obsolete.
            self.read_anew();
        }
        self.stale |= changes != self.index_changes_seen;
        self.index_changes_seen = changes;
    }

    /// Drops the batch, except for the reached place.
    fn forget_batch(&mut self) {
        if let Some(reached) = self.at.checked_sub(1) {
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(self.batch.get(reached).0);
        }
        self.batch.clear();
        self.at = 0;
        self.count_rows();
    }

    /// Drops what was read ahead. The entries behind the reached place are read again, few at
    /// first.
    pub(super) fn read_anew(&mut self) {
        self.forget_batch();
        self.done = false;
        self.batch_len = BATCH_MIN;
    }

    fn count_rows(&mut self) {
        if self.index.kind() == IndexKind::Rows && self.rows_read > 0 {
            self.system.metrics.add(Counter::RowsRead, self.rows_read);
        }
        self.rows_read = 0;
    }

    /// Reads the next batch, from behind the last key.
    fn fill(&mut self) -> Result<()> {
        if self.owner.is_killed() {
            return Err(Error::Interrupted);
        }
        self.forget_batch();
        if let Some(locking) = &mut self.locking {
            locking.begin_batch(&self.system, &self.owner);
        }
        let scan = self.decide_scan()?;
        let acc = access(&self.system, &self.index, self.statement, self.plan);
        if let Some(pages) = scan {
            acc.begin_scan(pages);
            self.plan = acc.scan_plan();
        }
        let forward = self.direction == Direction::Forward;
        let start = if forward { &self.from } else { &self.to };
        let start = match &self.last {
            Some(last) => Bound::Excluded(last.as_slice()),
            None => borrow(start),
        };
        let mut cursor = self.index.tree().cursor(&acc);
        let end = if forward { &self.to } else { &self.from };
        let end_key = match end {
            Bound::Included(key) | Bound::Excluded(key) => Some(&**key),
            Bound::Unbounded => None,
        };
        cursor.seek(start, self.direction);
        cursor.continues(self.walk, end_key);
        let limit = BatchLimit { entries: self.batch_len, bytes: BATCH_BYTES };
        let filled = cursor.fill(&mut self.batch, limit, borrow(end));
        self.stale = false;
        self.walk = cursor.walk();
        self.done = !filled?;
        if self.done && self.plan.is_some() {
            acc.end_scan();
        }
        self.batch_len = (self.batch_len * BATCH_GROWTH).min(BATCH_MAX);
        Ok(())
    }

    /// The number of pages of the range if the cursor becomes a scan now, or if its pages are no
    /// threat to the cache as far as was known and there turn out to be more. What counts is the
    /// size of the whole range, not of the rest. How many pages large values have is known from
    /// those that it has come to.
    fn decide_scan(&mut self) -> Result<Option<u64>> {
        let come = self.walk.leaves + self.beside;
        let wanted = match self.scan {
            ScanMode::Never => false,
            ScanMode::Declared => true,
            ScanMode::Auto => {
                let frames = self.system.store.pool().frames() as u64;
                come > SCAN_AFTER_LEAVES.min(frames / SCAN_AFTER_DIVISOR)
            }
        };
        let is_planned = self.plan.is_some_and(|plan| {
            // Not at each batch: it is a look at the tree.
            !plan.admits_all() || self.beside < self.walk.leaves || come < 2 * self.planned_at
        });
        if !wanted || is_planned {
            return Ok(None);
        }
        self.planned_at = come;
        let probe = self.system.store.pool().access(AccessKind::Point).with_statement(self.statement);
        let (from, to) = (borrow(&self.from), borrow(&self.to));
        let leaves = self.index.tree().estimate(from, to, &probe)?.leaves;
        Ok(Some(leaves.saturating_add(leaves.saturating_mul(self.beside) / self.walk.leaves.max(1))))
    }

    /// Reads the entry of `self.key` from the tree, as the view sees it, into `self.value`; false
    /// if there is none.
    fn read_entry(&mut self) -> Result<bool> {
        let Some(view) = &self.view else { return Ok(false) };
        let reader = Reader { view, me: self.owner.txn(), owner: Some(&self.owner) };
        let acc = access(&self.system, &self.index, self.statement, self.plan);
        self.system.read_at(&self.index, &self.key, reader, self.part, &acc, &mut self.value)
    }

    /// Puts the value that the view sees into `self.value`; false if there is none.
    fn judge(&mut self, at: usize) -> Result<bool> {
        let Some(view) = &self.view else { return Ok(false) };
        let reader = Reader { view, me: self.owner.txn(), owner: Some(&self.owner) };
        let mut payload = self.batch.get(at).1.to_vec();
        match self.system.version_at(&self.index, &self.key, &mut payload, reader)? {
            Seen::Version => {
                let acc = access(&self.system, &self.index, self.statement, self.plan);
                self.system.value_of(&self.index, &payload, self.part, Some(view), &acc, &mut self.value)?;
                self.beside += acc.requests();
                Ok(true)
            }
            Seen::Nothing => view.check().map(|()| false),
            Seen::Stale => self.read_entry(),
        }
    }
}

impl Drop for RowCursor {
    fn drop(&mut self) {
        self.owner.cursor_closes();
        self.count_rows();
        // What was not reached need not be kept free of others' inserts: the caller has not asked
        // what comes behind the entry that it was given last.
        self.end_reading(false);
        let (batch, key, value) = (mem::take(&mut self.batch), mem::take(&mut self.key), mem::take(&mut self.value));
        Buffers { batch, key, value }.give();
    }
}

impl fmt::Debug for RowCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCursor").field("index", &self.index.id()).finish_non_exhaustive()
    }
}
