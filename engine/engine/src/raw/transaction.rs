//! A transaction over tables of byte strings.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_metrics::Local;
use holdfast_txn::{
    CursorOptions, Direction, EarlyRelease, LockMode, LockWait, NewValue, Part, RowCursor, ScanMode, TableIndex, Txn,
    TxnSavepoint,
};

use super::RawTable;
use crate::ddl::delta;
use crate::instance::Instance;
use crate::instance::options::{FlushAtCommit, Isolation};
use crate::schema::handle::Entered;
use crate::{Error, Result};

/// How a transaction begins.
#[derive(Clone, Copy, Debug)]
pub struct RawOptions {
    /// Isolation level.
    pub isolation: Isolation,
    /// True if changing a row that another transaction changed after the snapshot is a
    /// [`Error::Conflict`].
    pub snapshot_isolation: bool,
    /// Changes are refused.
    pub read_only: bool,
}

/// How a read locks what it finds, and whether it passes over what others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLock {
    /// Against locks and changes of others, or against changes only.
    pub exclusive: bool,
    /// Pass over what is locked.
    pub skip_locked: bool,
    /// For what a reference leads to: also where the snapshot is older than the table; and see
    /// [`CursorOptions::linked`].
    pub linked: bool,
}

/// How a cursor reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawRead {
    /// Which way.
    pub direction: Direction,
    /// The lock on what it reads, if it locks.
    pub lock: Option<RawLock>,
    /// Says whether it is a scan.
    pub scan: ScanMode,
    /// What is read of large values by a cursor that locks nothing.
    pub part: Part,
    /// See [`CursorOptions::committed_if_locked`].
    pub committed_if_locked: bool,
}

/// A limit of zero is the wish not to wait at all.
fn wait_mode(limit: Duration) -> LockWait {
    if limit.is_zero() { LockWait::NoWait } else { LockWait::For(limit) }
}

impl RawLock {
    fn mode(self) -> LockMode {
        if self.exclusive { LockMode::Exclusive } else { LockMode::Shared }
    }

    fn wait(self) -> Option<LockWait> {
        self.skip_locked.then_some(LockWait::SkipLocked)
    }

    /// What a read found: nothing, if it passes over what others have locked.
    fn passed_over(self, found: Result<bool>) -> Result<bool> {
        match found {
            Err(Error::WouldBlock) if self.skip_locked => Ok(false),
            found => found,
        }
    }
}

/// A transaction over tables of byte strings. Rolled back when it is dropped before its end; if it
/// is prepared, it stays so. The fields are dropped in this order: it ends before it releases its
/// tables.
pub struct RawTransaction {
    txn: Txn,
    /// The tables that it has changed.
    entered: Vec<Entered>,
    instance: Local<Arc<Instance>>,
}

impl Drop for RawTransaction {
    fn drop(&mut self) {
        if self.instance.leak_in_child() {
            self.txn.abandon();
            std::mem::forget(std::mem::take(&mut self.entered));
        }
    }
}

impl RawTransaction {
    pub(super) fn new(instance: &Local<Arc<Instance>>, txn: Txn) -> RawTransaction {
        RawTransaction { txn, entered: Vec::new(), instance: Arc::clone(instance) }
    }

    /// The transaction.
    pub fn txn(&mut self) -> &mut Txn {
        &mut self.txn
    }

    /// A statement begins: at READ COMMITTED it sees what is committed now. It waits for a lock for
    /// `lock_wait_timeout`.
    ///
    /// # Errors
    /// [`Error::Closed`] if the transaction has ended.
    pub fn statement(&mut self, lock_wait_timeout: Duration) -> Result<TxnSavepoint> {
        self.instance.check()?;
        self.set_lock_wait(lock_wait_timeout);
        self.txn.statement_begin()
    }

    /// From now on it waits for a lock for `lock_wait_timeout`: a statement within a statement may
    /// have a limit of its own.
    pub fn set_lock_wait(&mut self, lock_wait_timeout: Duration) {
        self.txn.set_wait(wait_mode(lock_wait_timeout));
    }

    /// An index of a table of the transaction's database: what is logged in one database must not
    /// be of pages of another.
    fn index<'t>(&self, table: &'t RawTable, no: u32) -> Result<&'t Arc<TableIndex>> {
        self.check_own(table)?;
        table.index(no)
    }

    fn check_own(&self, table: &RawTable) -> Result<()> {
        if Arc::ptr_eq(&**self.instance, &table.instance) {
            return Ok(());
        }
        Err(Error::invalid(format!("table `{}` belongs to another database", table.name())))
    }

    fn enter(&mut self, table: &RawTable) -> Result<()> {
        self.check_own(table)?;
        if !self.entered.iter().any(|e| e.is_of(&table.handle.store)) {
            self.entered.push(table.handle.enter()?);
        }
        Ok(())
    }

    /// Adds an entry that must not exist yet.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::KeyTooLong`], [`Error::ValueTooLong`],
    /// [`Error::LimitReached`], [`Error::DiskFull`]; [`Error::ReadOnly`] if changes are refused;
    /// the errors of [`RawTransaction::get`] with a lock.
    pub fn insert<'v>(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        value: impl Into<NewValue<'v>>,
    ) -> Result<()> {
        self.enter(table)?;
        self.txn.insert(self.index(table, index)?, key, value)
    }

    /// Adds an entry; no other one may have the same index key, the first `prefix` bytes of `key`.
    ///
    /// # Errors
    /// The errors of [`RawTransaction::insert`].
    pub fn insert_unique(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        prefix: usize,
        value: &[u8],
    ) -> Result<()> {
        self.enter(table)?;
        self.txn.insert_unique(self.index(table, index)?, key, prefix, value)
    }

    /// As [`RawTransaction::insert`]. On [`Error::DuplicateKey`] the entry that is in the way is
    /// locked, so that it stays.
    ///
    /// # Errors
    /// The errors of [`RawTransaction::insert`].
    pub fn insert_or_lock<'v>(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        value: impl Into<NewValue<'v>>,
        exclusive: bool,
    ) -> Result<()> {
        self.enter(table)?;
        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
        self.txn.insert_or_lock(self.index(table, index)?, key, None, value, mode)
    }

    /// As [`RawTransaction::insert_unique`] and [`RawTransaction::insert_or_lock`].
    ///
    /// # Errors
    /// The errors of [`RawTransaction::insert`].
    pub fn insert_unique_or_lock(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        prefix: usize,
        value: &[u8],
        exclusive: bool,
    ) -> Result<()> {
        self.enter(table)?;
        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
        self.txn.insert_or_lock(self.index(table, index)?, key, Some(prefix), value, mode)
    }

    /// Replaces the value of an entry; whether there was one.
    ///
    /// # Errors
    /// The errors of [`RawTransaction::insert`].
    pub fn update<'v>(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        value: impl Into<NewValue<'v>>,
    ) -> Result<bool> {
        self.enter(table)?;
        self.txn.update(self.index(table, index)?, key, value, None)
    }

    /// Removes an entry; whether there was one.
    ///
    /// # Errors
    /// The errors of [`RawTransaction::insert`].
    pub fn delete(&mut self, table: &RawTable, index: u32, key: &[u8]) -> Result<bool> {
        self.enter(table)?;
        self.txn.delete(self.index(table, index)?, key, None)
    }

    /// Notes for the index that is being added as number `added` that an entry has come, or has
    /// another value: so many bytes of its key that have to be unique, and the value; or `None`,
    /// that it has gone. Nothing happens if the index is not added any more.
    ///
    /// # Errors
    /// The errors of [`RawTransaction::insert`].
    pub fn note_entry(
        &mut self,
        table: &RawTable,
        added: u32,
        key: &[u8],
        entry: Option<(usize, &[u8])>,
    ) -> Result<()> {
        self.enter(table)?;
        // Held while the note is made: a thread that gives the index up waits for that.
        let deltas = table.handle.store.deltas.read();
        let Some(delta) = deltas.get(added as usize) else { return Ok(()) };
        if holdfast_base::planted!("index-misses-a-change") {
            return Ok(());
        }
        let note = entry.map_or_else(delta::gone, |(prefix, value)| delta::there(prefix, value));
        self.txn.upsert(delta, key, &note, None).map(drop)
    }

    /// Replaces the content of `out` by the value of an entry; whether there is one. With a lock it
    /// is the newest committed one.
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::Deadlock`], [`Error::Interrupted`], [`Error::Conflict`];
    /// [`Error::SnapshotTooOld`]; the errors of reading pages.
    pub fn get(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        lock: Option<RawLock>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let index = self.index(table, index)?;
        let Some(lock) = lock else { return self.txn.get(index, key, out) };
        if !lock.linked {
            self.txn.check_age(index)?;
        }
        lock.passed_over(self.txn.get_locked(index, key, lock.mode(), lock.wait(), out))
    }

    /// Returns whether there is an entry, which is locked as by [`RawTransaction::get`]. Its value
    /// is not read.
    ///
    /// # Errors
    /// The errors of [`RawTransaction::get`].
    pub fn contains(&mut self, table: &RawTable, index: u32, key: &[u8], lock: Option<RawLock>) -> Result<bool> {
        let index = self.index(table, index)?;
        let Some(lock) = lock else { return self.txn.contains(index, key) };
        if !lock.linked {
            self.txn.check_age(index)?;
        }
        lock.passed_over(self.txn.contains_locked(index, key, lock.mode(), lock.wait()))
    }

    /// As [`RawTransaction::get`] without a lock, but only the head of a value whose rest is
    /// elsewhere.
    ///
    /// # Errors
    /// The errors of [`RawTransaction::get`].
    pub fn get_head(&mut self, table: &RawTable, index: u32, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.txn.get_part(self.index(table, index)?, key, Part::Head, out)
    }

    /// Returns what [`RawTransaction::get`] added to a lock last; see [`Txn::early_release`].
    pub fn early_release(&mut self) -> EarlyRelease {
        self.txn.early_release()
    }

    /// Gives up what a read of the entry has added to its lock; see [`Txn::unlock`].
    ///
    /// # Errors
    /// The errors of [`RawTable::rows`].
    pub fn unlock(&mut self, table: &RawTable, index: u32, key: &[u8], release: EarlyRelease) -> Result<()> {
        self.txn.unlock(self.index(table, index)?, key, release);
        Ok(())
    }

    /// A cursor over the entries of an index within bounds.
    ///
    /// # Errors
    /// The errors of [`RawTable::rows`].
    pub fn cursor(
        &mut self,
        table: &RawTable,
        index: u32,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        read: RawRead,
    ) -> Result<RowCursor> {
        self.instance.check()?;
        let RawRead { direction, lock, scan, part, committed_if_locked } = read;
        let scan = if self.instance.scan_hints.load(Ordering::Relaxed) { scan } else { ScanMode::Never };
        let linked = lock.is_some_and(|lock| lock.linked);
        let (lock, wait) = (lock.map(RawLock::mode), lock.and_then(RawLock::wait));
        let options = CursorOptions { direction, scan, lock, wait, part, committed_if_locked, linked };
        self.txn.cursor(self.index(table, index)?, bounds.0, bounds.1, options)
    }

    /// Commits; waits until that is as durable as `flush` says.
    ///
    /// # Errors
    /// The errors of [`crate::WriteTransaction::commit`].
    pub fn commit(&mut self, flush: FlushAtCommit) -> Result<()> {
        self.txn.commit(self.needed(flush))
    }

    /// What it takes, if `flush` is to hold for what lasts: nothing, if all that it has changed are
    /// temporary tables.
    fn needed(&self, flush: FlushAtCommit) -> FlushAtCommit {
        let lasts = self.entered.is_empty() || self.entered.iter().any(|table| !table.is_temporary());
        if lasts { flush } else { FlushAtCommit::Lazy }
    }

    /// First phase of a commit.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the xid is too long or in use; the errors of the log.
    pub fn prepare(&mut self, xid: &[u8], flush: FlushAtCommit) -> Result<()> {
        self.txn.prepare(xid, self.needed(flush))
    }

    /// As [`holdfast_txn::Txn::release_reads`].
    ///
    /// # Errors
    /// The errors of [`holdfast_txn::Txn::release_reads`].
    pub fn release_reads(&mut self) -> Result<()> {
        self.txn.release_reads()
    }
}

impl fmt::Debug for RawTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTransaction({})", self.txn.serial())
    }
}
