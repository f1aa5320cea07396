//! A transaction's state, and the cursors over it: what the typed layer is built on.
//!
//! **Statements.** Each call runs with the transaction's mutex held, so its calls take turns,
//! whatever threads they come from. So does each step of a cursor of a transaction that can write:
//! a transaction waits for one lock at a time, and no step sees half a statement. If a call fails,
//! or code of the program that it calls panics, everything that it had done is undone before it
//! returns. After a deadlock or a conflict the whole transaction is rolled back at once, so that
//! the others can go on; so it is if a statement cannot be undone. All later calls then fail with
//! the same error, the commit included.
//!
//! **What it holds.** The version of the definitions that it began with, and for every table that
//! it may have changed a place in the table's
//! [`WriterGate`](crate::schema::table_file::WriterGate): so no table disappears while it is used.
//! They are released after the transaction's end.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use holdfast_base::IndexId;
use holdfast_base::blocking::{Mutex, MutexGuard};
use holdfast_metrics::Local;
use holdfast_txn::{CursorOptions, Direction, LockMode, NewValue, RowCursor, Txn, TxnOptions, TxnSavepoint};

use crate::instance::Instance;
use crate::instance::options::{FlushAtCommit, ReadOptions, Scan, WaitMode, WriteOptions};
use crate::rows::definition::IndexSpec;
use crate::rows::entries::Target;
use crate::schema::handle::{Entered, TableHandle, TableRef};
use crate::schema::versions::Schema;
use crate::{Error, Result};

/// How rows are locked by a read.
pub(crate) type LockKind = LockMode;

/// An entry of an index that transactions have conflicted on.
pub(crate) type Contended = (IndexId, Vec<u8>);

/// The number of the next savepoint, of whichever database: two transactions never have one of the
/// same number.
static NEXT_SAVEPOINT: AtomicU64 = AtomicU64::new(0);

/// The turn of a thread; `None` where none is taken.
type Turn<'t> = Option<MutexGuard<'t, Txn>>;

/// Where the key of the row begins in the entry of an index.
pub(crate) type RowAt<'a> = &'a dyn Fn(&[u8]) -> Result<usize>;

/// Which key a statement was refused for; from [`crate::WriteTransaction::refused_key`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RefusedKey {
    /// The table.
    pub table: String,
    /// The secondary index; none if it is the key of the row itself.
    pub index: Option<String>,
}

/// A place in a transaction.
#[derive(Clone, Debug)]
pub(crate) struct SavepointId {
    number: u64,
    place: TxnSavepoint,
}

/// A transaction's state. The fields are dropped in this order: it is rolled back before it
/// releases its tables.
pub(crate) struct Transaction {
    txn: Mutex<Txn>,
    entered: Mutex<Vec<Entered>>,
    schema: Local<Arc<Schema>>,
    /// The numbers of the savepoints that are valid, oldest first.
    savepoints: Mutex<Vec<u64>>,
    refused_key: Mutex<Option<RefusedKey>>,
    is_too_old: AtomicBool,
    /// The error after which it was rolled back, if there was one.
    ended_by: OnceLock<Error>,
    flush: FlushAtCommit,
    lock_wait_timeout: Duration,
    can_write: bool,
    instance: Local<Arc<Instance>>,
}

impl Transaction {
    /// Begins a transaction that reads a snapshot.
    pub(crate) fn begin_read(reference: &Local<Arc<Instance>>) -> Result<Transaction> {
        reference.check()?;
        // Before the snapshot, which is then no older than any table that these definitions have.
        let schema = Transaction::schema_of(reference);
        let mut txn = reference.begin(TxnOptions::snapshot());
        txn.take_snapshot();
        Ok(Transaction::new(reference, schema, txn, FlushAtCommit::Lazy))
    }

    /// Begins a transaction that can write.
    pub(crate) fn begin_write(reference: &Local<Arc<Instance>>, options: &WriteOptions) -> Result<Transaction> {
        reference.check_writable()?;
        let settings = &reference.settings;
        let txn = reference.begin(TxnOptions {
            isolation: options.isolation,
            snapshot_isolation: options.snapshot_isolation.unwrap_or(settings.snapshot_isolation),
            read_only: false,
            wait: options.lock_wait_timeout.map(holdfast_txn::LockWait::For),
        });
        let schema = Transaction::schema_of(reference);
        let flush = options.flush_at_commit.unwrap_or(settings.flush_at_commit);
        let mut transaction = Transaction::new(reference, schema, txn, flush);
        transaction.lock_wait_timeout = options.lock_wait_timeout.unwrap_or(settings.lock_wait_timeout);
        Ok(transaction)
    }

    /// The definitions as they are now.
    fn schema_of(instance: &Instance) -> Local<Arc<Schema>> {
        Arc::clone(&instance.schema.mine().read())
    }

    fn new(instance: &Local<Arc<Instance>>, schema: Local<Arc<Schema>>, txn: Txn, flush: FlushAtCommit) -> Transaction {
        Transaction {
            can_write: !txn.options().read_only,
            txn: Mutex::new(txn),
            entered: Mutex::default(),
            schema,
            savepoints: Mutex::default(),
            refused_key: Mutex::default(),
            is_too_old: AtomicBool::new(false),
            ended_by: OnceLock::new(),
            flush,
            lock_wait_timeout: instance.settings.lock_wait_timeout,
            instance: Arc::clone(instance),
        }
    }

    pub(crate) fn table(&self, name: &str) -> Result<TableRef<'_>> {
        self.schema.get(name).map(|table| TableRef::Held(table)).ok_or_else(|| Error::TableNotFound(name.into()))
    }

    /// The table as the transaction knows it, or as it is by now; by now, too, if the one that it
    /// knows has been dropped.
    pub(crate) fn table_or_newer(&self, name: &str) -> Option<TableRef<'_>> {
        let held = self.schema.get(name).filter(|table| !table.store.file.is_dropped());
        let held = held.map(|table| TableRef::Held(table));
        held.or_else(|| self.instance.schema().get(name).map(|table| TableRef::New(Arc::clone(table))))
    }

    pub(crate) fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Keeps the table from being dropped until the transaction ends.
    pub(crate) fn enter(&self, table: &TableHandle) -> Result<()> {
        self.enter_by(table, || table.enter())
    }

    /// The same. Waits for a change of its definition as long as for a lock: that may be waiting
    /// for other transactions, and come to nothing.
    pub(crate) fn enter_waiting(&self, table: &TableHandle) -> Result<()> {
        self.enter_by(table, || table.enter_waiting(&self.instance.wait(self.lock_wait_timeout)))
    }

    fn enter_by(&self, table: &TableHandle, enter: impl FnOnce() -> Result<Entered>) -> Result<()> {
        let is_inside = || self.entered.lock().iter().any(|entered| entered.is_of(&table.store));
        if !is_inside() {
            // A second place of one that two threads have opened at once does no harm.
            let entered = enter()?;
            self.entered.lock().push(entered);
        }
        Ok(())
    }

    /// The tables that the transaction began with.
    pub(crate) fn table_names(&self) -> Vec<String> {
        self.schema.tables().map(|t| t.name.clone()).collect()
    }

    /// The tables that [`Transaction::table_or_newer`] finds.
    pub(crate) fn table_names_by_now(&self) -> Vec<String> {
        let held = self.schema.tables().filter(|table| !table.store.file.is_dropped());
        let now = self.instance.schema();
        let names: BTreeSet<String> = held.chain(now.tables()).map(|table| table.name.clone()).collect();
        names.into_iter().collect()
    }

    /// Lets the transaction read a table that was created for it after its snapshot.
    pub(crate) fn admit(&self, table: &TableHandle) {
        let mut txn = self.txn.lock();
        table.record.index_ids().for_each(|index| txn.admit(index));
    }

    /// Runs one statement: all of it, or nothing.
    fn statement<R>(&self, run: impl FnOnce(&mut Txn) -> Result<R>) -> Result<R> {
        self.instance.check()?;
        let mut txn = self.txn.lock();
        self.check_alive()?;
        self.statement_in(&mut txn, run)
    }

    /// As [`Transaction::statement`], in a turn that is taken.
    fn statement_in<R>(&self, txn: &mut Txn, run: impl FnOnce(&mut Txn) -> Result<R>) -> Result<R> {
        let start = txn.statement_begin()?;
        let mut statement = Statement { transaction: self, txn, start, returned: false };
        let result = run(statement.txn);
        statement.returned = true;
        let result = result.map_err(|error| self.undo_statement(statement.txn, start, error));
        statement.txn.statement_end();
        result
    }

    fn undo_statement(&self, txn: &mut Txn, start: TxnSavepoint, error: Error) -> Error {
        if matches!(error, Error::SnapshotTooOld) && !txn.is_view_given_up() {
            self.is_too_old.store(true, Ordering::Relaxed);
        }
        if error.is_retryable() {
            return self.end_by(txn, error);
        }
        match txn.rollback_to(start) {
            Ok(()) => error,
            Err(worse) => self.end_by(txn, worse),
        }
    }

    /// The turn of a cursor's step; `None` in a transaction that only reads, whose cursors wait for
    /// nothing and see what they see.
    fn turn(&self) -> Result<Turn<'_>> {
        self.instance.check()?;
        let turn = self.takes_turns().then(|| self.txn.lock());
        self.check_alive()?;
        Ok(turn)
    }

    fn takes_turns(&self) -> bool {
        self.can_write && !holdfast_base::planted!("steps-take-no-turn")
    }

    /// What the error of a cursor's step is to the transaction.
    #[cold]
    fn failed_step(&self, turn: &mut Turn<'_>, error: Error) -> Error {
        match turn {
            _ if !error.is_retryable() => error,
            Some(txn) => self.end_by(txn, error),
            None => self.end_by(&mut self.txn.lock(), error),
        }
    }

    /// Rolls the transaction back because of an error; nothing more can be done in it.
    fn end_by(&self, txn: &mut Txn, error: Error) -> Error {
        self.ended_by.get_or_init(|| error.clone());
        // If it cannot be undone now, that is done in the background.
        let _ = txn.rollback();
        error
    }

    /// Asked for every row of a range.
    #[inline]
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.ended_by.get().is_some() { self.refuse() } else { Ok(()) }
    }

    /// What ended the transaction.
    #[cold]
    fn refuse(&self) -> Result<()> {
        self.ended_by.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// True if a statement failed because the snapshot is older than a table.
    pub(crate) fn is_too_old(&self) -> bool {
        self.is_too_old.load(Ordering::Relaxed)
    }

    /// The entry that the transaction conflicted on, if it did.
    pub(crate) fn conflict(&self) -> Option<Contended> {
        self.txn.lock().conflict()
    }

    /// Locks entries of indexes, those that there are, before anything is read.
    pub(crate) fn lock_first(&self, entries: &BTreeSet<Contended>) -> Result<()> {
        for (index, key) in entries {
            let Some(table) = self.schema.tables().find(|table| table.store.index_of(*index).is_some()) else {
                continue;
            };
            let Some(index) = table.store.index_of(*index) else { continue };
            if self.enter(table).is_ok() {
                self.statement(|txn| txn.get_locked(index, key, LockMode::Exclusive, None, &mut Vec::new()))?;
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, table: &TableHandle, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let indexes = table.store.indexes()?;
        self.statement(|txn| txn.get(&indexes[0], key, out))
    }

    /// True if there is a row under `key`. A large value is not read for that.
    pub(crate) fn contains(&self, table: &TableHandle, key: &[u8]) -> Result<bool> {
        let indexes = table.store.indexes()?;
        self.statement(|txn| txn.contains(&indexes[0], key))
    }

    /// True if the index has an entry that leads from `index_key` to the row `key`.
    pub(crate) fn has_entry(&self, table: &TableHandle, no: usize, index_key: &[u8], key: &[u8]) -> Result<bool> {
        let indexes = table.store.indexes()?;
        self.statement(|txn| txn.get(&indexes[no + 1], &[index_key, key].concat(), &mut Vec::new()))
    }

    pub(crate) fn get_locked(
        &self,
        table: &TableHandle,
        key: &[u8],
        kind: LockKind,
        wait: WaitMode,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let indexes = table.store.indexes()?;
        let read = |txn: &mut Txn| {
            txn.check_age(&indexes[0])?;
            txn.get_locked(&indexes[0], key, kind, wait_mode(wait), out)
        };
        match self.statement(read) {
            Err(Error::WouldBlock) if wait == WaitMode::SkipLocked => Ok(false),
            result => result,
        }
    }

    /// Changes a row together with its entries, in one statement.
    fn change<R>(
        &self,
        table: &TableHandle,
        specs: &[Arc<IndexSpec>],
        change: impl FnOnce(&Target<'_>, &mut Txn) -> Result<R>,
    ) -> Result<R> {
        let target = Target::new(table.store.indexes()?, specs);
        let result = self.statement(|txn| change(&target, txn));
        if let Err(Error::DuplicateKey | Error::KeyTooLong { .. }) = result {
            let index = target.refused_by().map(String::from);
            *self.refused_key.lock() = Some(RefusedKey { table: table.name.clone(), index });
        }
        result
    }

    /// Which key it was that the last statement was refused for.
    pub(crate) fn refused_key(&self) -> Option<RefusedKey> {
        self.refused_key.lock().clone()
    }

    pub(crate) fn insert(&self, t: &TableHandle, specs: &[Arc<IndexSpec>], key: &[u8], value: &[u8]) -> Result<()> {
        self.change(t, specs, |target, txn| target.insert(txn, key, value))
    }

    pub(crate) fn upsert<'v>(
        &self,
        t: &TableHandle,
        specs: &[Arc<IndexSpec>],
        key: &[u8],
        value: impl Into<NewValue<'v>>,
    ) -> Result<bool> {
        self.change(t, specs, |target, txn| target.upsert(txn, key, value.into()))
    }

    /// Puts an entry of secondary index `no`, whatever its row gives.
    pub(crate) fn put_entry(&self, table: &TableHandle, no: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let indexes = table.store.indexes()?;
        self.statement(|txn| txn.upsert(&indexes[no + 1], key, value, None).map(drop))
    }

    pub(crate) fn update(&self, t: &TableHandle, specs: &[Arc<IndexSpec>], key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(t, specs, |target, txn| target.update(txn, key, value))
    }

    pub(crate) fn delete(&self, t: &TableHandle, specs: &[Arc<IndexSpec>], key: &[u8]) -> Result<bool> {
        self.change(t, specs, |target, txn| target.delete(txn, key))
    }

    pub(crate) fn estimate(&self, table: &TableHandle, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Result<u64> {
        self.instance.check()?;
        self.check_alive()?;
        let rows = &table.store.indexes()?[0];
        if table.store.counted && matches!(bounds, (Bound::Unbounded, Bound::Unbounded)) {
            return Ok(rows.rows());
        }
        let access = self.instance.pool().access(holdfast_pool::AccessKind::Point);
        let (from, to) = (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice));
        Ok(rows.tree().estimate(from, to, &access)?.entries)
    }

    pub(crate) fn savepoint(&self) -> Result<SavepointId> {
        self.instance.check()?;
        let txn = self.txn.lock();
        self.check_alive()?;
        let number = NEXT_SAVEPOINT.fetch_add(1, Ordering::Relaxed);
        self.savepoints.lock().push(number);
        Ok(SavepointId { number, place: txn.savepoint() })
    }

    pub(crate) fn rollback_to(&self, savepoint: &SavepointId) -> Result<()> {
        self.instance.check()?;
        let mut txn = self.txn.lock();
        self.check_alive()?;
        let mut savepoints = self.savepoints.lock();
        let Ok(at) = savepoints.binary_search(&savepoint.number) else {
            let what =
                "the savepoint is another transaction's, or the transaction was rolled back to a point before it";
            return Err(Error::invalid(what));
        };
        savepoints.truncate(at + 1);
        txn.rollback_to(savepoint.place).map_err(|error| self.end_by(&mut txn, error))
    }

    pub(crate) fn commit(&self, flush: Option<FlushAtCommit>) -> Result<()> {
        self.instance.check()?;
        let mut txn = self.txn.lock();
        self.check_alive()?;
        txn.commit(flush.unwrap_or(self.flush))
    }

    pub(crate) fn rollback(&self) -> Result<()> {
        // In a forked child the mutex may be held by a thread that there is not, and so may each
        // latch that the rollback takes.
        self.instance.lease.check()?;
        self.txn.lock().rollback()
    }

    /// A cursor over all entries of a secondary index, for checks.
    pub(crate) fn index_cursor<'t>(&'t self, table: &'t TableHandle, no: usize) -> Result<RawCursor<'t>> {
        let options = ReadOptions::new().scan(Scan::Yes);
        let mut cursor = RawCursor::on_index(self, TableRef::Held(table), no, &options);
        cursor.seek(Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
        Ok(cursor)
    }

    /// A cursor over all rows, for checks.
    pub(crate) fn row_cursor<'t>(&'t self, table: &'t TableHandle) -> Result<RawCursor<'t>> {
        let options = ReadOptions::new().scan(Scan::Yes);
        let mut cursor = RawCursor::new(self, TableRef::Held(table), &options, None);
        cursor.seek(Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
        Ok(cursor)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.instance.leak_in_child() {
            self.txn.get_mut().abandon();
            std::mem::forget(std::mem::take(self.entered.get_mut()));
        }
    }
}

impl AsRef<Transaction> for Transaction {
    fn as_ref(&self) -> &Transaction {
        self
    }
}

/// A statement under way. If it is dropped before it has returned, code of the program that it
/// called has panicked: then it is undone.
struct Statement<'a> {
    transaction: &'a Transaction,
    txn: &'a mut Txn,
    start: TxnSavepoint,
    returned: bool,
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        if !self.returned {
            let _ = self.transaction.undo_statement(self.txn, self.start, Error::Interrupted);
        }
    }
}

/// Without hints a scan is what the cache finds out by itself: nothing.
fn scan_mode(scan: Scan, hints: bool) -> holdfast_txn::ScanMode {
    match scan {
        _ if !hints => holdfast_txn::ScanMode::Never,
        Scan::Auto => holdfast_txn::ScanMode::Auto,
        Scan::Yes => holdfast_txn::ScanMode::Declared,
        Scan::No => holdfast_txn::ScanMode::Never,
    }
}

fn wait_mode(wait: WaitMode) -> Option<holdfast_txn::LockWait> {
    match wait {
        WaitMode::Wait => None,
        WaitMode::NoWait => Some(holdfast_txn::LockWait::NoWait),
        WaitMode::SkipLocked => Some(holdfast_txn::LockWait::SkipLocked),
    }
}

/// A cursor over the byte strings of an index.
pub(crate) struct RawCursor<'t> {
    transaction: &'t Transaction,
    table: TableRef<'t>,
    /// 0: the rows; n: secondary index n - 1.
    index: usize,
    scan: Scan,
    lock: Option<(LockKind, WaitMode)>,
    cursor: Option<RowCursor>,
}

impl<'t> RawCursor<'t> {
    pub(crate) fn new(
        transaction: &'t Transaction,
        table: TableRef<'t>,
        options: &ReadOptions,
        lock: Option<(LockKind, WaitMode)>,
    ) -> RawCursor<'t> {
        RawCursor { transaction, table, index: 0, scan: options.scan, lock, cursor: None }
    }

    pub(crate) fn on_index(
        transaction: &'t Transaction,
        table: TableRef<'t>,
        no: usize,
        options: &ReadOptions,
    ) -> RawCursor<'t> {
        RawCursor { transaction, table, index: no + 1, scan: options.scan, lock: None, cursor: None }
    }

    /// Stands before the first entry of the range in that direction.
    pub(crate) fn seek(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Result<()> {
        let index = &self.table.store.indexes()?[self.index];
        let hints = self.transaction.instance.scan_hints.load(Ordering::Relaxed);
        let options = CursorOptions {
            direction,
            scan: scan_mode(self.scan, hints),
            lock: self.lock.map(|(kind, _)| kind),
            wait: self.lock.and_then(|(_, wait)| wait_mode(wait)),
            ..CursorOptions::default()
        };
        self.cursor = Some(self.transaction.statement(|txn| txn.cursor(index, from, to, options))?);
        Ok(())
    }

    /// A cursor at the other end of the range, which sees what this one sees. `None` if they lock
    /// what they read.
    pub(crate) fn turned(&self) -> Option<RawCursor<'t>> {
        let cursor = Some(self.cursor.as_ref()?.turned()?);
        let (transaction, table) = (self.transaction, self.table.clone());
        Some(RawCursor { transaction, table, index: self.index, scan: self.scan, lock: self.lock, cursor })
    }

    /// Replaces the contents of `key` and `value` by the next entry; false at the end.
    pub(crate) fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        // Without a turn there is less to do for each row of a range.
        if self.transaction.takes_turns() {
            let mut turn = self.transaction.turn()?;
            return self.next_in(&mut turn, key, value);
        }
        self.transaction.instance.check()?;
        self.transaction.check_alive()?;
        self.step(key, value).map_err(|error| self.transaction.failed_step(&mut None, error))
    }

    /// Replaces the contents of `entry` and `row` by the next entry and by the row that it leads
    /// to, in one turn; false at the end. `row_at`: where the row's key begins in an entry.
    pub(crate) fn next_row(&mut self, row_at: RowAt<'_>, entry: &mut Vec<u8>, row: &mut Vec<u8>) -> Result<bool> {
        let mut turn = self.transaction.turn()?;
        while self.next_in(&mut turn, entry, row)? {
            let key = &entry[row_at(entry)?..];
            if self.row_in(&mut turn, key, row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_in(&mut self, turn: &mut Turn<'_>, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        self.step(key, value).map_err(|error| self.transaction.failed_step(turn, error))
    }

    #[inline]
    fn step(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        let Some(cursor) = &mut self.cursor else { return Ok(false) };
        let Some((k, v)) = cursor.next()? else { return Ok(false) };
        key.clear();
        key.extend_from_slice(k);
        value.clear();
        value.extend_from_slice(v);
        Ok(true)
    }

    /// Replaces the content of `row` by the row of `key`, to which the entry given last leads;
    /// false if there is none.
    fn row_in(&self, turn: &mut Turn<'_>, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        if let Some(cursor) = &self.cursor
            && let Some(found) = cursor.read_row(key, row)?
        {
            return Ok(found);
        }
        let indexes = self.table.store.indexes()?;
        let read = |txn: &mut Txn| txn.get(&indexes[0], key, row);
        match turn {
            Some(txn) => self.transaction.statement_in(txn, read),
            None => self.transaction.statement(read),
        }
    }
}
