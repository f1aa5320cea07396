//! Reading single entries: at the view, or the newest committed version under a lock.
//!
//! A locking read locks first and reads then: it finds a transaction that wrote the entry before
//! the lock was entered by the id in the entry, and waits for it; a transaction that comes later
//! finds the lock.
//!
//! What is read with a lock is mostly changed next: where it was is remembered, and what it was.

use std::sync::Arc;

use holdfast_base::{IndexId, Result};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};

use crate::entry::index::{IndexKind, TableIndex};
use crate::entry::locked::{EarlyRelease, EntryRef, LockRequest, is_locked_by_id, lock_and_read};
use crate::entry::values::Part;
use crate::entry::visibility::{Seen, split};
use crate::options::Isolation;
use crate::txn::Txn;
use holdfast_lock::{LockMode, LockWait};

/// What the lock manager takes names for keys of. No index gets so large a number.
const NAMES: IndexId = IndexId(u32::MAX);

impl Txn {
    /// The request of a lock for it.
    pub(crate) fn request(&self, mode: LockMode, wait: LockWait) -> LockRequest<'_> {
        LockRequest { owner: self.owner(), mode, wait }
    }

    /// Reads the value of `key` into `value`. Returns whether there is one; `value` is empty if
    /// not. At SERIALIZABLE the entry is locked shared, and its newest committed version is read.
    ///
    /// # Errors
    /// [`holdfast_base::Error::SnapshotTooOld`]; lock errors at SERIALIZABLE; the errors of reading
    /// pages; [`holdfast_base::Error::Interrupted`] if it was killed among many versions.
    pub fn get(&mut self, index: &TableIndex, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_part(index, key, Part::Whole, value)
    }

    /// Returns whether there is an entry under `key`. A large value is not read for that.
    ///
    /// # Errors
    /// The errors of [`Txn::get`].
    pub fn contains(&mut self, index: &TableIndex, key: &[u8]) -> Result<bool> {
        self.get_part(index, key, Part::Nothing, &mut Vec::new())
    }

    /// As [`Txn::get`], but a part of the value may do. At SERIALIZABLE all is read where the head
    /// would do.
    ///
    /// # Errors
    /// The errors of [`Txn::get`].
    pub fn get_part(&mut self, index: &TableIndex, key: &[u8], part: Part, value: &mut Vec<u8>) -> Result<bool> {
        if self.options.isolation == Isolation::Serializable {
            let part = if part == Part::Nothing { part } else { Part::Whole };
            return self.get_part_locked(EntryRef::new(index, key), LockMode::Shared, None, part, value);
        }
        self.check_open()?;
        let is_admitted = self.is_admitted(index.id());
        let (reader, system) = self.reader();
        if !is_admitted {
            index.check_view(reader.view)?;
        }
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let found = system.read_at(index, key, reader, part, &acc, value)?;
        if index.kind() == IndexKind::Rows {
            system.metrics.add(Counter::RowsRead, u64::from(found));
        }
        Ok(found)
    }

    /// Turns `payload`, header included, from the newest version of an entry into the one that the
    /// transaction's view sees; returns whether it sees one. For a reader of pages that cannot look
    /// the key up. `None` if it cannot be told: older versions cannot be read, or the entry has
    /// changed since its page was read; then `payload` is of no use.
    pub fn seen_version(&mut self, index: &TableIndex, key: &[u8], payload: &mut Vec<u8>) -> Option<bool> {
        let (reader, system) = self.reader();
        match system.version_at(index, key, payload, reader) {
            Ok(Seen::Version) => Some(true),
            Ok(Seen::Nothing) => Some(false),
            Ok(Seen::Stale) | Err(_) => None,
        }
    }

    /// Locks the entry of `key`, there or not, and reads its newest committed version (or this
    /// transaction's own). `wait`: what to do about a lock of another transaction; `None`: what the
    /// transaction's options say. At READ COMMITTED a key without an entry is unlocked again.
    ///
    /// # Errors
    /// Lock errors; [`holdfast_base::Error::Conflict`] at REPEATABLE READ with snapshot isolation,
    /// if the newest version is not visible; the errors of reading pages.
    pub fn get_locked(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        mode: LockMode,
        wait: Option<LockWait>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_part_locked(EntryRef::new(index, key), mode, wait, Part::Whole, value)
    }

    /// Locks the entry of `key` as [`Txn::get_locked`] does, and returns whether there is one. A
    /// large value is not read for that.
    ///
    /// # Errors
    /// The errors of [`Txn::get_locked`].
    pub fn contains_locked(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        mode: LockMode,
        wait: Option<LockWait>,
    ) -> Result<bool> {
        self.get_part_locked(EntryRef::new(index, key), mode, wait, Part::Nothing, &mut Vec::new())
    }

    fn get_part_locked(
        &mut self,
        entry: EntryRef<'_>,
        mode: LockMode,
        wait: Option<LockWait>,
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check_open()?;
        let EntryRef { index, key } = entry;
        let wait = wait.unwrap_or(self.wait_mode());
        let system = Arc::clone(&self.system);
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let mut payload = self.last_read.take_payload();
        let read_committed = self.options.isolation == Isolation::ReadCommitted;
        self.early_release = match read_committed {
            true => EarlyRelease::DownTo(system.locks.row_mode(self.owner(), index.id(), key)),
            false => EarlyRelease::Nothing,
        };
        match lock_and_read(&system, entry, self.request(mode, wait), None, &acc, &mut payload) {
            Ok(spot) => {
                let found = spot.exists().then_some(payload.as_slice());
                let result = self.judge_locked(entry, found, part, &acc, value);
                self.last_read.remember(index, key, spot, payload);
                result
            }
            Err(e) => {
                self.last_read.give_buffer(payload);
                Err(e)
            }
        }
    }

    /// `payload`: what was found under the lock.
    fn judge_locked(
        &mut self,
        entry: EntryRef<'_>,
        payload: Option<&[u8]>,
        part: Part,
        acc: &Access<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        let EntryRef { index, key } = entry;
        let header = payload.map(|payload| split(index, payload)).transpose()?.map(|(header, _)| header);
        self.check_first_updater(entry, header)?;
        let Some(payload) = payload.filter(|_| header.is_some_and(|h| !h.deleted)) else {
            let is_own = header.is_some_and(|h| is_locked_by_id(h.txn, self.owner()));
            if self.options.isolation == Isolation::ReadCommitted && !is_own {
                self.system.locks.unlock_row(self.owner(), index.id(), key);
            }
            return Ok(false);
        };
        self.system.value_of(index, payload, part, None, acc, value)?;
        if index.kind() == IndexKind::Rows {
            self.system.metrics.inc(Counter::RowsRead);
        }
        Ok(true)
    }

    /// Whether the transaction's view, if it has one by now, is no older than the index. A cursor
    /// asks that also where it locks; [`Txn::get_locked`] leaves it to its caller.
    ///
    /// # Errors
    /// [`holdfast_base::Error::SnapshotTooOld`] if the index was filled later.
    pub fn check_age(&self, index: &TableIndex) -> Result<()> {
        if self.is_admitted(index.id()) {
            return Ok(());
        }
        self.view.as_ref().map_or(Ok(()), |view| index.check_view(view))
    }

    /// Locks the entry of `key` and says whether there is one, whatever the snapshot sees. The lock
    /// stays until the end of the transaction; a key without an entry is unlocked again.
    ///
    /// # Errors
    /// Lock errors; the errors of reading pages.
    pub fn lock_entry(&mut self, index: &TableIndex, key: &[u8], mode: LockMode) -> Result<bool> {
        self.check_open()?;
        let (wait, system) = (self.wait_mode(), Arc::clone(&self.system));
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let before = system.locks.row_mode(self.owner(), index.id(), key);
        let mut payload = Vec::new();
        let spot =
            lock_and_read(&system, EntryRef::new(index, key), self.request(mode, wait), None, &acc, &mut payload)?;
        let header = if spot.exists() { Some(split(index, &payload)?.0) } else { None };
        let found = header.is_some_and(|h| !h.deleted);
        if !found && !header.is_some_and(|h| is_locked_by_id(h.txn, self.owner())) {
            system.locks.unlock_row_to(self.owner(), index.id(), key, before);
        }
        Ok(found)
    }

    /// Locks a name that a layer above has for something which is no entry: one transaction at a
    /// time has it, until [`Txn::unlock_name`] or its end. Waits, deadlocks and listings are those
    /// of rows.
    ///
    /// # Errors
    /// Lock errors.
    pub fn lock_name(&mut self, name: &[u8]) -> Result<()> {
        self.check_open()?;
        let wait = self.wait_mode();
        self.system.locks.lock_row(self.owner(), NAMES, name, LockMode::Exclusive, wait, None).map(drop)
    }

    /// Gives up the lock of a name.
    pub fn unlock_name(&mut self, name: &[u8]) {
        self.system.locks.unlock_row(self.owner(), NAMES, name);
    }

    /// Returns what [`Txn::get_locked`] added to a lock last, for [`Txn::unlock`]. Other entries
    /// may be read before that: the condition of a statement reads rows, too.
    pub fn early_release(&mut self) -> EarlyRelease {
        std::mem::take(&mut self.early_release)
    }

    /// Gives up `release`, which was the [`Txn::early_release`] of this entry: the entry did not
    /// qualify, and is locked as it was before. Only at READ COMMITTED; elsewhere nothing happens.
    /// Own changes stay locked.
    pub fn unlock(&self, index: &TableIndex, key: &[u8], release: EarlyRelease) {
        release.apply(&self.system.locks, self.owner(), EntryRef::new(index, key));
    }
}
