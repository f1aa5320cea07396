//! From C's numbers to the engine's types.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast::metrics::{WaitClass, WaitTotals};
use holdfast::raw::{
    Direction, Lifetime, Part, RawAlter, RawDatabase, RawLoad, RawLock, RawOptions, RawRead, RawTable, RawTransaction,
    Scan,
};
pub use holdfast::raw::{EntrySum, NewValue};
use holdfast::{
    BackupOptions, BackupReport, Cell, Error, FlushAtCommit, Isolation, Listing, ReplacementPolicy, Result,
    VerifyOptions,
};
use holdfast_io::FlushMethod;
use holdfast_txn::{RowCursor, Savepoint};

use crate::{Flush, Lock, Seek, Settings, TransactionOptions};

/// See [`crate::Database`].
pub struct Database(RawDatabase);

/// See [`crate::Table`].
pub type Table = RawTable;

/// See [`crate::Load`].
pub type Load = RawLoad;

/// See [`crate::Alter`].
pub type Alter = RawAlter;

fn policy(policy: u32, old_blocks_pct: u32, old_blocks_time_ms: u32) -> Result<ReplacementPolicy> {
    match policy {
        0 => Ok(ReplacementPolicy::Holdfast),
        1 => Ok(ReplacementPolicy::MidpointLru { old_blocks_pct, old_blocks_time_ms }),
        2 => Ok(ReplacementPolicy::Lru),
        other => Err(Error::InvalidArgument(format!("there is no replacement policy {other}"))),
    }
}

fn isolation(level: u32) -> Isolation {
    match level {
        0 | 1 => Isolation::ReadCommitted,
        2 => Isolation::RepeatableRead,
        _ => Isolation::Serializable,
    }
}

fn flush(flush: Flush) -> FlushAtCommit {
    match flush {
        Flush::Lazy => FlushAtCommit::Lazy,
        Flush::Sync => FlushAtCommit::Sync,
        Flush::Write => FlushAtCommit::Write,
    }
}

impl Database {
    pub fn open(path: &str, settings: &Settings) -> Result<Database> {
        let s = settings;
        // The server switches huge pages off for its process once its engines have started.
        let mut builder = holdfast::Database::builder()
            .snapshot_isolation(false)
            .populate_cache(true)
            .warm_up(s.warm_up)
            .scan_hints(s.scan_hints)
            .replacement_policy(policy(s.policy, s.old_blocks_pct, s.old_blocks_time)?)
            .flush_method(if s.flush_method == 0 { FlushMethod::ODirect } else { FlushMethod::Fsync });
        if s.cache_size != 0 {
            builder = builder.cache_size_bytes(s.cache_size);
        }
        if s.cache_size_max != 0 {
            builder = builder.cache_size_max_bytes(s.cache_size_max);
        }
        if s.log_capacity != 0 {
            builder = builder.log_capacity_bytes(s.log_capacity);
        }
        if s.log_buffer != 0 {
            builder = builder.log_buffer_bytes(s.log_buffer);
        }
        if s.version_limit != 0 {
            builder = builder.version_limit_bytes(s.version_limit);
        }
        if s.undo_limit != 0 {
            builder = builder.undo_limit_bytes(s.undo_limit);
        }
        if let Some(progress) = s.recovery_progress {
            builder = builder.on_recovery_progress(move |p| progress(p.log_bytes_done, p.log_bytes_total));
        }
        let found = builder.open(Path::new(path));
        let database = match found {
            Err(Error::NotADatabase(_)) => {
                let page_size = usize::try_from(s.page_size).unwrap_or(0);
                let builder = if page_size == 0 { builder } else { builder.page_size(page_size) };
                builder.create(Path::new(path))?
            }
            found => found?,
        };
        Ok(Database(RawDatabase::new(database)))
    }

    pub fn close(self) -> Result<()> {
        self.0.close()
    }

    pub fn checkpoint(&self) -> Result<()> {
        self.0.database().checkpoint()
    }

    pub fn page_size(&self) -> u64 {
        self.0.page_size() as u64
    }

    pub fn key_limit(&self) -> u64 {
        self.0.key_limit()
    }

    pub fn flush_log(&self) -> Result<()> {
        self.0.flush_log()
    }

    pub fn set_cache_size(&self, bytes: u64) -> Result<()> {
        self.0.database().set_cache_size_bytes(bytes)
    }

    pub fn set_log_capacity(&self, bytes: u64) -> Result<()> {
        self.0.database().set_log_capacity_bytes(bytes)
    }

    pub fn set_policy(&self, number: u32, old_blocks_pct: u32, old_blocks_time: u32) -> Result<()> {
        self.0.database().set_replacement_policy(policy(number, old_blocks_pct, old_blocks_time)?)
    }

    pub fn status_text(&self) -> String {
        self.0.database().status_text()
    }

    pub fn metrics(&self, each: &mut dyn FnMut(&str, u64)) {
        for (description, value) in self.0.database().metrics_snapshot().values() {
            each(description.name, value);
        }
    }

    pub fn waits(&self, each: &mut dyn FnMut(&str, WaitTotals)) {
        let snapshot = self.0.database().metrics_snapshot();
        for class in WaitClass::ALL {
            each(class.name(), snapshot.wait(*class));
        }
    }

    pub fn list(&self, listing: Listing, each: &mut dyn FnMut(&[Cell<'_>]) -> bool) {
        self.0.database().list(listing, each);
    }

    pub fn set_sessions(&self, find: impl Fn(u64) -> Option<holdfast::raw::Session> + Send + Sync + 'static) {
        self.0.set_sessions(find);
    }

    pub fn set_wait_observer(&self, observer: impl holdfast::raw::WaitObserver + 'static) {
        self.0.set_wait_observer(observer);
    }

    pub fn latest_deadlock(&self) -> Option<String> {
        self.0.database().latest_deadlock()
    }

    pub fn backup(
        &self,
        dir: &str,
        rate_limit: u64,
        stop: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<BackupReport> {
        let options = BackupOptions::new().stop_when(stop);
        let options = if rate_limit == 0 { options } else { options.rate_limit_bytes_per_second(rate_limit) };
        self.0.database().backup(Path::new(dir), &options)
    }

    pub fn set_scan_hints(&self, on: bool) {
        self.0.database().set_scan_hints(on);
    }

    /// `indexes[0]` holds the rows.
    pub fn create_table(&self, name: &str, indexes: &[(&str, bool)], definition: &[u8], temporary: bool) -> Result<()> {
        let lifetime = if temporary { Lifetime::Temporary } else { Lifetime::Lasting };
        self.0.create_table(name, indexes.get(1..).unwrap_or_default(), definition, lifetime)
    }

    pub fn open_table(&self, name: &str) -> Result<Arc<Table>> {
        self.0.open_table(name).map(Arc::new)
    }

    pub fn drop_table(&self, name: &str, wait_ms: u64) -> Result<()> {
        self.0.drop_table(name, Duration::from_millis(wait_ms))
    }

    pub fn rename_table(&self, from: &str, to: &str, definitions: &[(&str, &[u8])]) -> Result<()> {
        self.0.rename_table(from, to, definitions)
    }

    pub fn begin_alter(&self, name: &str, add: &[(&str, bool)], with_deltas: bool, wait_ms: u64) -> Result<Alter> {
        self.0.begin_alter(name, add, with_deltas, Duration::from_millis(wait_ms))
    }

    pub fn commit_alters(&self, alters: &mut [&mut Alter], definitions: &[(&str, &[u8])], wait_ms: u64) -> Result<()> {
        self.0.commit_alters(alters, definitions, Duration::from_millis(wait_ms))
    }

    pub fn check_unprepared(&self, name: &str) -> Result<()> {
        self.0.check_unprepared(name)
    }

    pub fn truncate_table(&self, name: &str, wait_ms: u64) -> Result<()> {
        self.0.truncate_table(name, Duration::from_millis(wait_ms))
    }

    pub fn list_tables(&self) -> Vec<(String, Vec<u8>)> {
        self.0.tables()
    }

    pub fn definition(&self, name: &str) -> Result<Vec<u8>> {
        self.0.options(name)
    }

    pub fn set_definitions(&self, definitions: &[(&str, &[u8])]) -> Result<()> {
        self.0.set_options(definitions)
    }

    pub fn verify_table(&self, name: &str, entries: bool) -> Result<Vec<String>> {
        let options = VerifyOptions::new().table(name).entries(entries);
        let report = self.0.database().verify(&options, &mut |_| {})?;
        Ok(report.findings.into_iter().map(|finding| finding.what).collect())
    }

    pub fn begin(&self, options: &TransactionOptions) -> Result<Transaction> {
        let raw = self.0.begin(&RawOptions {
            isolation: isolation(options.isolation),
            snapshot_isolation: options.snapshot_isolation,
            read_only: options.read_only,
        })?;
        Ok(Transaction::new(raw))
    }

    pub fn kill(&self, serial: u64) {
        self.0.kill(serial);
    }

    pub fn wake_waits(&self) {
        self.0.wake_waits();
    }

    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.0.prepared()
    }

    pub fn adopt(&self, xid: &[u8]) -> Result<Transaction> {
        self.0.adopt(xid).map(Transaction::new)
    }
}

/// See [`crate::Transaction`].
pub struct Transaction {
    raw: RawTransaction,
    /// Where statement, row and named savepoints are, by the changes before them.
    statement: Option<(u64, Savepoint)>,
    row: Option<(u64, Savepoint)>,
    named: Vec<(u64, Savepoint)>,
}

impl Transaction {
    fn new(raw: RawTransaction) -> Transaction {
        Transaction { raw, statement: None, row: None, named: Vec::new() }
    }

    pub fn statement(&mut self, lock_wait_timeout_ms: u64) -> Result<u64> {
        let savepoint = self.raw.statement(Duration::from_millis(lock_wait_timeout_ms))?;
        let at = self.changes();
        self.statement = Some((at, savepoint));
        Ok(at)
    }

    pub fn take_snapshot(&mut self) {
        self.raw.txn().take_snapshot();
    }

    pub fn savepoint(&mut self, keep: bool) -> u64 {
        let at = self.changes();
        if keep {
            self.named.push((at, self.raw.txn().savepoint()));
        } else {
            self.row = Some((at, self.raw.txn().savepoint()));
        }
        at
    }

    pub fn rollback_to(&mut self, savepoint: u64) -> Result<()> {
        let mut known = self.row.iter().chain(&self.statement).chain(&self.named);
        let place = known.find(|(at, _)| *at == savepoint).map(|(_, place)| *place);
        let place = place.ok_or_else(|| Error::InvalidArgument("there is no such savepoint".into()))?;
        self.raw.txn().rollback_to(place)?;
        self.named.retain(|(at, _)| *at <= savepoint);
        Ok(())
    }

    pub fn prepare(&mut self, xid: &[u8], how: Flush) -> Result<()> {
        self.raw.prepare(xid, flush(how))
    }

    pub fn release_reads(&mut self) -> Result<()> {
        self.raw.release_reads()
    }

    pub fn commit_ordered(&mut self) -> Result<()> {
        self.raw.txn().commit_ordered()
    }

    pub fn commit(&mut self, how: Flush) -> Result<()> {
        self.raw.commit(flush(how))
    }

    pub fn rollback(&mut self) -> Result<()> {
        self.raw.txn().rollback()
    }

    pub fn serial(&mut self) -> u64 {
        self.raw.txn().serial()
    }

    pub fn changes(&mut self) -> u64 {
        self.raw.txn().changes()
    }

    /// Whether it holds any lock.
    pub fn holds_locks(&mut self) -> bool {
        self.raw.txn().holds_locks()
    }

    pub fn insert(
        &mut self,
        table: &Table,
        index: u32,
        key: &[u8],
        value: NewValue<'_>,
        duplicate: Lock,
    ) -> Result<()> {
        match duplicate {
            Lock::None => self.raw.insert(table, index, key, value),
            lock => self.raw.insert_or_lock(table, index, key, value, lock.is_exclusive()),
        }
    }

    pub fn insert_unique(
        &mut self,
        table: &Table,
        index: u32,
        key: &[u8],
        prefix: usize,
        value: &[u8],
        duplicate: Lock,
    ) -> Result<()> {
        match duplicate {
            Lock::None => self.raw.insert_unique(table, index, key, prefix, value),
            lock => self.raw.insert_unique_or_lock(table, index, key, prefix, value, lock.is_exclusive()),
        }
    }

    pub fn lock_name(&mut self, name: &[u8]) -> Result<()> {
        self.raw.txn().lock_name(name)
    }

    pub fn unlock_name(&mut self, name: &[u8]) {
        self.raw.txn().unlock_name(name);
    }

    pub fn update(&mut self, table: &Table, index: u32, key: &[u8], value: NewValue<'_>) -> Result<bool> {
        self.raw.update(table, index, key, value)
    }

    pub fn delete(&mut self, table: &Table, index: u32, key: &[u8]) -> Result<bool> {
        self.raw.delete(table, index, key)
    }

    pub fn note_entry(&mut self, table: &Table, added: u32, key: &[u8], entry: Option<(usize, &[u8])>) -> Result<()> {
        self.raw.note_entry(table, added, key, entry)
    }

    pub fn get(
        &mut self,
        table: &Table,
        index: u32,
        key: &[u8],
        lock: Lock,
        skip_locked: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.raw.get(table, index, key, raw_lock(lock, skip_locked), out)
    }

    pub fn get_head(&mut self, table: &Table, index: u32, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.raw.get_head(table, index, key, out)
    }

    pub fn unlock(&mut self, table: &Table, index: u32, key: &[u8]) -> Result<()> {
        self.raw.unlock(table, index, key)
    }
}

fn raw_lock(lock: Lock, skip_locked: bool) -> Option<RawLock> {
    let any_age = matches!(lock, Lock::LinkedShared | Lock::LinkedExclusive);
    (lock != Lock::None).then_some(RawLock { exclusive: lock.is_exclusive(), skip_locked, any_age })
}

/// See [`crate::Cursor`].
pub struct Cursor {
    table: Arc<Table>,
    index: u32,
    rows: Option<RowCursor>,
}

fn bound(bytes: &[u8], included: bool) -> Bound<&[u8]> {
    match (bytes.is_empty(), included) {
        (true, _) => Bound::Unbounded,
        (false, true) => Bound::Included(bytes),
        (false, false) => Bound::Excluded(bytes),
    }
}

impl Cursor {
    pub fn new(table: Arc<Table>, index: u32) -> Result<Cursor> {
        table.rows(index)?;
        Ok(Cursor { table, index, rows: None })
    }

    pub fn seek(&mut self, transaction: &mut Transaction, from: &[u8], to: &[u8], seek: &Seek) -> Result<()> {
        // The old cursor gives back what it had locked ahead.
        self.rows = None;
        // An empty lower key that does not belong to the range leaves out a row under the empty
        // key.
        let from = if from.is_empty() && !seek.from_included {
            Bound::Excluded(from)
        } else {
            bound(from, seek.from_included)
        };
        let bounds = (from, bound(to, seek.to_included));
        let direction = if seek.backward { Direction::Reverse } else { Direction::Forward };
        let scan = if seek.scan { Scan::Declared } else { Scan::Auto };
        let lock = raw_lock(seek.lock, seek.skip_locked);
        let part = if seek.head_only { Part::Head } else { Part::Whole };
        let committed_if_locked = seek.committed_if_locked;
        let read = RawRead { direction, lock, scan, part, committed_if_locked };
        self.rows = Some(transaction.raw.cursor(&self.table, self.index, bounds, read)?);
        Ok(())
    }

    pub fn release(&mut self) {
        self.rows = None;
    }

    pub fn unlock(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.unlock();
        }
    }

    pub fn is_given_unlocked(&self) -> bool {
        self.rows.as_ref().is_some_and(RowCursor::is_given_unlocked)
    }

    pub fn lock_given(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match &mut self.rows {
            Some(rows) => rows.lock_given(),
            None => Ok(None),
        }
    }

    /// See [`RowCursor::look_ahead`].
    pub fn look_ahead(&mut self, passed: usize, max: usize, show: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        match &mut self.rows {
            Some(rows) => rows.look_ahead(passed, max, show),
            None => Ok(0),
        }
    }

    /// See [`RowCursor::changes`].
    pub fn changes(&self) -> u64 {
        self.rows.as_ref().map_or(0, RowCursor::changes)
    }

    /// The next entry, valid until the next call.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match &mut self.rows {
            Some(rows) => rows.next(),
            None => Ok(None),
        }
    }
}
