//! For layers that bring their own formats: tables of byte strings, made of an index of rows and of indexes whose entries
//! the caller makes, keeps up and reads. A database server's handler is one.
//!
//! Index 0 of a table holds its rows; the others hold entries, whose keys the caller makes unique by ending them with
//! the row's key. All have versions and locks of their own, so that an entry can be read without its row.
//!
//! A [`RawTransaction`] belongs to one user at a time and does not undo a failed call as a whole: the caller takes
//! savepoints and goes back to them. After [`Error::Deadlock`] it has to roll back.

use std::collections::HashMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_pool::AccessKind;
use holdfast_txn::{CursorOptions, LockMode, RowCursor, Savepoint, TableIndex, Txn, TxnOptions};
use parking_lot::Mutex;

pub use holdfast_txn::{Direction, Scan};

use crate::definition::{IndexSpec, TableDefinition};
use crate::options::{FlushAtCommit, Isolation};
use crate::schema::{TableHandle, TableStore};
use crate::shared::Shared;
use crate::{Database, Error, Result};

/// The key type under which such indexes stand in the catalog.
const KEY_TYPE: &str = "raw";
/// Numbers of a mark that are taken at a time; so many at most are lost by a crash.
const MARK_AHEAD: u64 = 1000;
/// Marks of a table.
pub const MARKS: usize = 2;

/// A database seen as tables of byte strings.
pub struct RawDatabase {
    database: Database,
    marks: Mutex<HashMap<u32, Arc<Marks>>>,
}

/// An open table. It stays valid while the table is renamed or dropped.
pub struct RawTable {
    handle: Arc<TableHandle>,
    shared: Arc<Shared>,
    marks: Arc<Marks>,
}

/// How a transaction begins.
#[derive(Clone, Copy, Debug)]
pub struct RawOptions {
    /// Isolation level.
    pub isolation: Isolation,
    /// Whether changing a row that another transaction changed after the snapshot is a [`Error::Conflict`].
    pub snapshot_isolation: bool,
    /// Changes are refused.
    pub read_only: bool,
    /// How long a lock is waited for.
    pub lock_wait_timeout: Duration,
}

/// How a read locks what it finds, and whether it passes over what others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLock {
    /// Against locks and changes of others, or against changes only.
    pub exclusive: bool,
    /// Pass over what is locked.
    pub skip_locked: bool,
}

/// Numbers that a table counts up: the next one of each, and from where on the file does not know.
struct Marks {
    store: Arc<TableStore>,
    next: [AtomicU64; MARKS],
    saved: Mutex<[u64; MARKS]>,
}

impl Marks {
    fn load(shared: &Shared, store: &Arc<TableStore>) -> Result<Marks> {
        let access = shared.pool().access(AccessKind::Point);
        let space = store.space()?;
        let mut saved = [0; MARKS];
        for (which, saved) in saved.iter_mut().enumerate() {
            // 0: never set.
            *saved = space.mark(which, &access)?.max(1);
        }
        Ok(Marks { store: Arc::clone(store), next: saved.map(AtomicU64::new), saved: Mutex::new(saved) })
    }

    /// Sees to it that the file never lets a number below `next` be given out again.
    fn cover(&self, shared: &Shared, which: usize, next: u64) -> Result<()> {
        let mut saved = self.saved.lock();
        if next <= saved[which] {
            return Ok(());
        }
        self.save(shared, which, next.saturating_add(MARK_AHEAD), &mut saved)
    }

    /// A row that uses the number is logged later, so the mark need not be waited for.
    fn save(&self, shared: &Shared, which: usize, value: u64, saved: &mut [u64; MARKS]) -> Result<()> {
        let access = shared.pool().access(AccessKind::Point);
        self.store.space()?.set_mark(which, value, &access)?;
        saved[which] = value;
        Ok(())
    }

    /// Before a clean stop: the next open goes on without a gap.
    fn save_exactly(&self, shared: &Shared) -> Result<()> {
        let mut saved = self.saved.lock();
        for which in 0..MARKS {
            let next = self.next[which].load(Ordering::Acquire);
            if saved[which] != next {
                self.save(shared, which, next, &mut saved)?;
            }
        }
        Ok(())
    }
}

impl RawDatabase {
    /// The database's tables as byte strings.
    #[must_use]
    pub fn new(database: Database) -> RawDatabase {
        RawDatabase { database, marks: Mutex::default() }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.database.shared
    }

    /// Creates a table. `indexes`: name of each secondary index, and whether it is unique, for listings.
    ///
    /// # Errors
    /// As [`Database::create_table`].
    pub fn create_table(&self, name: &str, indexes: &[(&str, bool)]) -> Result<()> {
        let mut definition = TableDefinition::<&[u8], &[u8]>::named(name);
        definition.indexes.extend(indexes.iter().map(|(name, unique)| {
            Arc::new(IndexSpec {
                name: (*name).into(),
                unique: *unique,
                key_type: KEY_TYPE.into(),
                extract: Box::new(|_, _, _| Err(Error::invalid("the entries of this index are made by its user"))),
            })
        }));
        crate::ddl::create_table(self.shared(), &definition).map(drop)
    }

    /// Opens a table.
    ///
    /// # Errors
    /// [`Error::TableNotFound`]; damage of the table.
    pub fn open_table(&self, name: &str) -> Result<RawTable> {
        let shared = self.shared();
        let handle = shared.schema().get(name).cloned().ok_or_else(|| Error::TableNotFound(name.into()))?;
        let mut marks = self.marks.lock();
        let known = marks.get(&handle.record.table_id);
        let marks = match known {
            Some(known) => Arc::clone(known),
            None => {
                let loaded = Arc::new(Marks::load(shared, &handle.store)?);
                marks.insert(handle.record.table_id, Arc::clone(&loaded));
                loaded
            }
        };
        Ok(RawTable { handle, shared: Arc::clone(shared), marks })
    }

    /// Removes a table.
    ///
    /// # Errors
    /// As [`Database::drop_table`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let id = self.shared().schema().get(name).map(|table| table.record.table_id);
        crate::ddl::drop_table(self.shared(), name)?;
        if let Some(id) = id {
            self.marks.lock().remove(&id);
        }
        Ok(())
    }

    /// Replaces a table by an empty one of the same name and indexes.
    ///
    /// # Errors
    /// As [`Database::create_table`] and [`Database::drop_table`].
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        let handle = self.shared().schema().get(name).cloned().ok_or_else(|| Error::TableNotFound(name.into()))?;
        let indexes: Vec<_> = handle.record.indexes.iter().map(|i| (i.name.as_str(), i.unique)).collect();
        let empty = format!("{name}#empty");
        self.create_table(&empty, &indexes)?;
        drop(indexes);
        self.drop_table(name)?;
        self.database.rename_table(&empty, name)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn begin(&self, options: &RawOptions) -> Result<RawTransaction> {
        let shared = self.shared();
        shared.check()?;
        let txn = shared.txns.begin(TxnOptions {
            isolation: options.isolation.into(),
            snapshot_isolation: options.snapshot_isolation,
            read_only: options.read_only || shared.read_only,
            wait: Some(holdfast_txn::WaitMode::For(options.lock_wait_timeout)),
        });
        Ok(RawTransaction::new(shared, txn))
    }

    /// Ends the lock wait of the transaction with this number, if it is in one.
    pub fn kill(&self, serial: u64) {
        self.shared().txns.kill(serial);
    }

    /// The transactions that an earlier run prepared and did not end, by what their coordinator calls them.
    #[must_use]
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.shared().txns.prepared().into_iter().map(|p| p.xid).collect()
    }

    /// Takes over a prepared transaction, to commit it or to roll it back.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none.
    pub fn adopt(&self, xid: &[u8]) -> Result<RawTransaction> {
        let shared = self.shared();
        Ok(RawTransaction::new(shared, shared.txns.adopt(xid)?))
    }

    /// Makes all commits so far durable.
    ///
    /// # Errors
    /// Those of the log.
    pub fn flush_log(&self) -> Result<()> {
        let wal = self.shared().wal();
        wal.flush_to(wal.next_lsn())
    }

    /// Closes the database; see [`Database::close`].
    ///
    /// # Errors
    /// As [`Database::close`].
    pub fn close(self) -> Result<()> {
        for marks in self.marks.into_inner().into_values() {
            marks.save_exactly(&self.database.shared)?;
        }
        self.database.close()
    }
}

impl RawTable {
    /// Its name when it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    fn index(&self, no: u32) -> Result<&Arc<TableIndex>> {
        let indexes = self.handle.store.indexes()?;
        indexes.get(no as usize).ok_or_else(|| Error::invalid(format!("table `{}` has no index {no}", self.name())))
    }

    /// About how many entries an index has.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such index; damage of the table.
    pub fn rows(&self, index: u32) -> Result<u64> {
        self.index(index).map(|i| i.rows())
    }

    /// Bytes of the table's file.
    ///
    /// # Errors
    /// Damage of the table; [`Error::Io`].
    pub fn file_bytes(&self) -> Result<u64> {
        self.handle.store.space()?.space().file().len()
    }

    /// About how many entries of an index lie within bounds: from two descents.
    ///
    /// # Errors
    /// As [`RawTable::rows`]; those of reading pages.
    pub fn estimate(&self, index: u32, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<u64> {
        let access = self.shared.pool().access(AccessKind::Point);
        Ok(self.index(index)?.tree().estimate(from, to, &access)?.entries)
    }

    /// The next number of mark `which`; nothing is taken.
    ///
    /// # Panics
    /// If there is no such mark.
    #[must_use]
    pub fn mark(&self, which: usize) -> u64 {
        self.marks.next[which].load(Ordering::Acquire)
    }

    /// Takes `count` numbers of a mark; the first of them. They are never given out again.
    ///
    /// # Errors
    /// [`Error::LimitReached`] if there are not so many left; those of the log.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn take_mark(&self, which: usize, count: u64) -> Result<u64> {
        let first = self.marks.next[which]
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| next.checked_add(count))
            .map_err(|_| Error::LimitReached(format!("the numbers of table `{}` are used up", self.name())))?;
        self.marks.cover(&self.shared, which, first + count)?;
        Ok(first)
    }

    /// Sees to it that the next number of a mark is at least `next`.
    ///
    /// # Errors
    /// Those of the log.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn raise_mark(&self, which: usize, next: u64) -> Result<()> {
        if self.marks.next[which].fetch_max(next, Ordering::AcqRel) < next {
            self.marks.cover(&self.shared, which, next)?;
        }
        Ok(())
    }

    /// Sets the next number of a mark, also downwards. Nobody else may use the table.
    ///
    /// # Errors
    /// Those of the log.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn set_mark(&self, which: usize, next: u64) -> Result<()> {
        self.marks.next[which].store(next, Ordering::Release);
        self.marks.save(&self.shared, which, next, &mut self.marks.saved.lock())
    }
}

/// A place in the gates of the tables that a transaction has changed.
#[derive(Default)]
struct Entered(Vec<Arc<TableStore>>);

impl Drop for Entered {
    fn drop(&mut self) {
        for store in &self.0 {
            store.gate.leave();
        }
    }
}

/// A transaction over tables of byte strings. Rolled back when it is dropped before its end; if it is prepared, it stays
/// so. The fields are dropped in this order: it ends before it lets go of its tables.
pub struct RawTransaction {
    txn: Txn,
    entered: Entered,
    shared: Arc<Shared>,
}

impl RawTransaction {
    fn new(shared: &Arc<Shared>, txn: Txn) -> RawTransaction {
        RawTransaction { txn, entered: Entered::default(), shared: Arc::clone(shared) }
    }

    /// The transaction.
    pub fn txn(&mut self) -> &mut Txn {
        &mut self.txn
    }

    /// A statement begins: at READ COMMITTED it sees what is committed now.
    ///
    /// # Errors
    /// [`Error::Closed`] if the transaction has ended.
    pub fn statement(&mut self) -> Result<Savepoint> {
        self.shared.check()?;
        self.txn.statement_begin()
    }

    fn enter(&mut self, table: &RawTable) -> Result<()> {
        let store = &table.handle.store;
        if self.entered.0.iter().any(|e| Arc::ptr_eq(e, store)) {
            return Ok(());
        }
        if !store.gate.enter() {
            return Err(Error::TableNotFound(table.name().into()));
        }
        self.entered.0.push(Arc::clone(store));
        Ok(())
    }

    /// Adds an entry that must not exist yet.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`]; those of [`RawTransaction::get`] with a lock; [`Error::DiskFull`], [`Error::KeyTooLong`].
    pub fn insert(&mut self, table: &RawTable, index: u32, key: &[u8], value: &[u8]) -> Result<()> {
        self.enter(table)?;
        self.txn.insert(table.index(index)?, key, value)
    }

    /// Adds an entry; no other one may begin with the first `prefix` bytes of `key`.
    ///
    /// # Errors
    /// As [`RawTransaction::insert`].
    pub fn insert_unique(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        prefix: usize,
        value: &[u8],
    ) -> Result<()> {
        self.enter(table)?;
        self.txn.insert_unique(table.index(index)?, key, prefix, value)
    }

    /// Replaces the value of an entry; whether there was one.
    ///
    /// # Errors
    /// As [`RawTransaction::insert`].
    pub fn update(&mut self, table: &RawTable, index: u32, key: &[u8], value: &[u8]) -> Result<bool> {
        self.enter(table)?;
        self.txn.update(table.index(index)?, key, value, None)
    }

    /// Removes an entry; whether there was one.
    ///
    /// # Errors
    /// As [`RawTransaction::insert`].
    pub fn delete(&mut self, table: &RawTable, index: u32, key: &[u8]) -> Result<bool> {
        self.enter(table)?;
        self.txn.delete(table.index(index)?, key, None)
    }

    /// Replaces the content of `out` by the value of an entry; whether there is one. With a lock it is the newest
    /// committed one.
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::Deadlock`], [`Error::Interrupted`], [`Error::Conflict`];
    /// [`Error::SnapshotTooOld`]; those of reading pages.
    pub fn get(
        &mut self,
        table: &RawTable,
        index: u32,
        key: &[u8],
        lock: Option<RawLock>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let index = table.index(index)?;
        let Some(lock) = lock else { return self.txn.get(index, key, out) };
        match self.txn.get_locked(index, key, lock.mode(), lock.wait(), out) {
            Err(Error::WouldBlock) if lock.skip_locked => Ok(false),
            result => result,
        }
    }

    /// A cursor over the entries of an index within bounds.
    ///
    /// # Errors
    /// As [`RawTable::rows`].
    pub fn cursor(
        &mut self,
        table: &RawTable,
        index: u32,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        lock: Option<RawLock>,
        scan: Scan,
    ) -> Result<RowCursor> {
        self.shared.check()?;
        let scan = if self.shared.scan_hints.load(Ordering::Relaxed) { scan } else { Scan::Never };
        let options =
            CursorOptions { direction, scan, lock: lock.map(RawLock::mode), wait: lock.and_then(RawLock::wait) };
        self.txn.cursor(table.index(index)?, bounds.0, bounds.1, options)
    }

    /// Commits; waits until that is as durable as `flush` says.
    ///
    /// # Errors
    /// As [`crate::WriteTransaction::commit`].
    pub fn commit(&mut self, flush: FlushAtCommit) -> Result<()> {
        self.txn.commit(flush.into())
    }

    /// First phase of a commit.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the xid is too long or in use; those of the log.
    pub fn prepare(&mut self, xid: &[u8], flush: FlushAtCommit) -> Result<()> {
        self.txn.prepare(xid, flush.into())
    }
}

impl RawLock {
    fn mode(self) -> LockMode {
        if self.exclusive { LockMode::Exclusive } else { LockMode::Shared }
    }

    fn wait(self) -> Option<holdfast_txn::WaitMode> {
        self.skip_locked.then_some(holdfast_txn::WaitMode::SkipLocked)
    }
}

impl fmt::Debug for RawDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawDatabase({:?})", self.database)
    }
}

impl fmt::Debug for RawTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTable({})", self.name())
    }
}

impl fmt::Debug for RawTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTransaction({})", self.txn.serial())
    }
}
