//! Reading single entries: at the view, or the newest committed version under a lock.
//!
//! A locking read locks first and reads then: it finds a transaction that wrote the entry before
//! the lock was entered by the id in the entry, and waits for it; a transaction that comes later
//! finds the lock.
//!
//! What is read with a lock is mostly changed next: where it was is remembered, and what it was.

use std::sync::Arc;

use holdfast_base::{Error, IndexId, Result};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::Spot;

use crate::entry::change::wait_for_writer;
use crate::entry::index::{IndexKind, TableIndex};
use crate::entry::values::Part;
use crate::entry::visibility::split;
use crate::options::Isolation;
use crate::system::{OpenView, TxnSystem};
use crate::txn::Txn;
use holdfast_lock::{LockMode, Owner, WaitMode};

/// The entry that the transaction, or a cursor of it, read with a lock last, and the buffer for its
/// payload.
#[derive(Debug, Default)]
pub(crate) struct LastRead {
    at: Option<(IndexId, Spot)>,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl LastRead {
    /// Where `key` was read, if that is what was read last. The payload is what it was there.
    pub fn spot_of(&self, index: &TableIndex, key: &[u8]) -> Option<Spot> {
        let (id, spot) = self.at?;
        (id == index.id() && self.key == key).then_some(spot)
    }

    /// Takes the buffer, and forgets what was read.
    pub fn take_payload(&mut self) -> Vec<u8> {
        self.at = None;
        std::mem::take(&mut self.payload)
    }

    /// Gives the buffer back.
    pub fn give_buffer(&mut self, buffer: Vec<u8>) {
        self.payload = buffer;
    }

    pub fn remember(&mut self, index: &TableIndex, key: &[u8], spot: Spot, payload: Vec<u8>) {
        self.at = Some((index.id(), spot));
        self.key.clear();
        self.key.extend_from_slice(key);
        self.payload = payload;
    }
}

/// What a transaction shares with its locking cursors.
#[derive(Default)]
pub(crate) struct ForCursors {
    /// What one of them read last.
    pub read: LastRead,
    /// The transaction's view, once it has one, if the first updater wins.
    pub view: Option<OpenView>,
}

/// What the lock manager takes names for keys of. No index gets so large a number.
const NAMES: IndexId = IndexId(u32::MAX);

impl Txn {
    /// Reads the value of `key` into `value`. Returns whether there is one; `value` is empty if
    /// not. At SERIALIZABLE the entry is locked shared, and its newest committed version is read.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`]; lock errors at SERIALIZABLE; those of reading pages.
    pub fn get(&mut self, index: &TableIndex, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_part(index, key, Part::Whole, value)
    }

    /// As [`Txn::get`], but the head alone may do. At SERIALIZABLE all is read.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get_part(&mut self, index: &TableIndex, key: &[u8], part: Part, value: &mut Vec<u8>) -> Result<bool> {
        if self.options.isolation == Isolation::Serializable {
            return self.get_locked(index, key, LockMode::Shared, None, value);
        }
        self.check_open()?;
        let (reader, system) = self.reader();
        index.check_view(reader.view)?;
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let found = system.read_at(index, key, reader, part, &acc, value)?;
        if index.kind() == IndexKind::Rows {
            system.metrics.add(Counter::RowsRead, u64::from(found));
        }
        Ok(found)
    }

    /// Locks the entry of `key`, there or not, and reads its newest committed version (or this
    /// transaction's own). `wait`: what to do about a lock of another transaction; `None`: what the
    /// transaction's options say. At READ COMMITTED a key without an entry is unlocked again.
    ///
    /// # Errors
    /// Lock errors; [`Error::Conflict`] at REPEATABLE READ with snapshot isolation, if the newest
    /// version is not visible; those of reading pages.
    pub fn get_locked(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        mode: LockMode,
        wait: Option<WaitMode>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check_open()?;
        let wait = wait.unwrap_or(self.wait_mode());
        let system = Arc::clone(&self.system);
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let mut payload = self.last_read.take_payload();
        let read_committed = self.options.isolation == Isolation::ReadCommitted;
        self.newly_locked = read_committed && !system.locks.holds_row(self.owner(), index.id(), key);
        match lock_and_read(&system, self.owner(), index, key, mode, wait, None, &acc, &mut payload) {
            Ok(spot) => {
                let result = self.judge_locked(index, key, &payload, spot.exists(), &acc, value);
                self.last_read.remember(index, key, spot, payload);
                result
            }
            Err(e) => {
                self.last_read.give_buffer(payload);
                Err(e)
            }
        }
    }

    fn judge_locked(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        payload: &[u8],
        found: bool,
        acc: &Access<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        let header = if found { Some(split(index, payload)?.0) } else { None };
        self.check_first_updater(index, key, header)?;
        if header.is_none_or(|h| h.deleted) {
            if self.options.isolation == Isolation::ReadCommitted {
                self.system.locks.unlock_row(self.owner(), index.id(), key);
            }
            return Ok(false);
        }
        self.system.value_of(index, payload, Part::Whole, None, acc, value)?;
        if index.kind() == IndexKind::Rows {
            self.system.metrics.inc(Counter::RowsRead);
        }
        Ok(true)
    }

    /// Whether the transaction's view, if it has one by now, is no older than the index. A cursor
    /// asks that also where it locks; [`Txn::get_locked`] leaves it to its caller.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`] if the index was filled later.
    pub fn check_age(&self, index: &TableIndex) -> Result<()> {
        self.view.as_ref().map_or(Ok(()), |view| index.check_view(view))
    }

    /// Locks the entry of `key` and says whether there is one, whatever the snapshot sees. The lock
    /// stays until the end of the transaction; a key without an entry is unlocked again.
    ///
    /// # Errors
    /// Lock errors; those of reading pages.
    pub fn lock_entry(&mut self, index: &TableIndex, key: &[u8], mode: LockMode) -> Result<bool> {
        self.check_open()?;
        let (wait, system) = (self.wait_mode(), Arc::clone(&self.system));
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let had = system.locks.holds_row(self.owner(), index.id(), key);
        let mut payload = Vec::new();
        let spot = lock_and_read(&system, self.owner(), index, key, mode, wait, None, &acc, &mut payload)?;
        let found = spot.exists() && !split(index, &payload)?.0.deleted;
        if !found && !had {
            system.locks.unlock_row(self.owner(), index.id(), key);
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

    /// Gives up the lock of the entry that [`Txn::get_locked`] locked last and that did not
    /// qualify. Only at READ COMMITTED, and only if the transaction did not have it before;
    /// elsewhere nothing happens. Own changes stay locked.
    pub fn unlock(&mut self, index: &TableIndex, key: &[u8]) {
        if std::mem::take(&mut self.newly_locked) {
            self.system.locks.unlock_row(self.owner(), index.id(), key);
        }
    }
}

/// Locks `key` and reads what is there. Returns where that is; if there is an entry, its payload is
/// in `payload`. `seen`: where the entry was read before it was locked, and its payload then; if
/// nothing has changed there, it needs not be looked for again.
#[allow(clippy::too_many_arguments)]
pub(crate) fn lock_and_read(
    system: &TxnSystem,
    owner: &Arc<Owner>,
    index: &TableIndex,
    key: &[u8],
    mode: LockMode,
    wait: WaitMode,
    mut seen: Option<(Spot, &[u8])>,
    acc: &Access<'_>,
    payload: &mut Vec<u8>,
) -> Result<Spot> {
    let mut doubted = None;
    loop {
        let taken_back = system.locks.taken_back();
        system.locks.lock_row(owner, index.id(), key, mode, wait, None)?;
        let before = system.map.moment();
        let spot = read_entry(index, key, seen.take(), acc, payload)?;
        if system.locks.taken_back() != taken_back {
            continue; // What is there now may be what a rollback to a savepoint has put back and keeps locked.
        }
        if !spot.exists() {
            return Ok(spot);
        }
        let header = split(index, payload)?.0;
        let writer = header.txn;
        if writer == owner.txn() {
            return Ok(spot);
        }
        if !system.map.is_active(writer) {
            // It ended; if that was a rollback, what was read never existed.
            if !system.map.is_doubtful(writer, before) || doubted == Some(header) {
                return Ok(spot);
            }
            doubted = Some(header);
            continue;
        }
        // It wrote before our lock was entered. This gives ours back and waits behind that
        // transaction; then we lock anew.
        let waited = wait_for_writer(system, owner, index, key, writer, mode, wait);
        if matches!(waited, Err(Error::WouldBlock)) {
            system.locks.unlock_row(owner, index.id(), key); // It was entered too late to be one.
        }
        waited?;
    }
}

/// Reads an entry that lies under a cover. `None` if the transaction that wrote it is still active,
/// or was until a moment ago: then it has to be locked the ordinary way.
pub(crate) fn read_covered(
    system: &TxnSystem,
    owner: &Owner,
    index: &TableIndex,
    key: &[u8],
    seen: Option<(Spot, &[u8])>,
    acc: &Access<'_>,
    payload: &mut Vec<u8>,
) -> Result<Option<Spot>> {
    let before = system.map.moment();
    let spot = read_entry(index, key, seen, acc, payload)?;
    if !spot.exists() {
        return Ok(Some(spot));
    }
    let writer = split(index, payload)?.0.txn;
    let is_settled = writer == owner.txn() || !system.map.is_active(writer) && !system.map.is_doubtful(writer, before);
    Ok(is_settled.then_some(spot))
}

/// Reads an entry anew, without a descent if it is where it was `seen`, and without a look if
/// nothing there has changed.
fn read_entry(
    index: &TableIndex,
    key: &[u8],
    seen: Option<(Spot, &[u8])>,
    acc: &Access<'_>,
    payload: &mut Vec<u8>,
) -> Result<Spot> {
    match seen {
        Some((spot, read)) if index.tree().is_current(&spot) => {
            payload.clear();
            payload.extend_from_slice(read);
            Ok(spot)
        }
        Some((spot, _)) => index.tree().get_again(key, &spot, acc, payload),
        None => index.tree().get_at(key, acc, payload),
    }
}

/// True if an error of a lock request means that another transaction has the lock and the caller
/// did not want to wait.
pub(crate) fn is_locked_by_others(error: &Error) -> bool {
    matches!(error, Error::WouldBlock)
}
