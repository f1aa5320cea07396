//! The embedded engine as a target, through its public API.

use std::ops::Bound;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use holdfast::{
    Clock, Cursor, Database, Error, ReadOptions, ReadTable, ReadTransaction, ReplacementPolicy, WaitMode,
    WriteTransaction,
};
use holdfast_testkit::ModelDisk;
use holdfast_workload::dbt2;
use holdfast_workload::sysbench::RowSql;
use holdfast_workload::{Failure, RowSink, Rows, Scan, TableNo};

use super::{Hint, Policy, PoolState, Query, Resident, Target, TargetSpec};
use crate::clock::PausableClock;
use crate::rig::site::{Settings, Site};
use crate::rig::tables::Definition;

/// An open database.
pub struct Embedded {
    db: Database,
    tables: Arc<[Definition]>,
    clock: Arc<PausableClock>,
    disk: ModelDisk,
    /// False if the disk is a real one, in front of which the model stays off.
    modelled: bool,
    /// Table and file.
    files: Vec<(String, String)>,
}

impl Embedded {
    /// Opens the database of `site` with the pool of `spec`.
    pub(super) fn open(site: &Site, spec: &TargetSpec) -> Result<Embedded> {
        let clock = Arc::new(PausableClock::new());
        let (policy, scan_hints) = match spec.policy {
            Policy::Holdfast { hint } => (ReplacementPolicy::Holdfast, hint != Hint::Off),
            Policy::Midpoint { pct, time_ms } => {
                (ReplacementPolicy::MidpointLru { old_blocks_pct: pct, old_blocks_time_ms: time_ms }, true)
            }
        };
        let db = site.open_with(&Settings::pool(spec.pool_bytes), |builder| {
            let clock = Arc::clone(&clock) as Arc<dyn Clock>;
            builder.replacement_policy(policy).scan_hints(scan_hints).clock(clock)
        })?;
        let disk = site.counts().context("the requests to the files are not counted")?.clone();
        let (tables, files) = (Arc::clone(site.tables()), site.files().to_vec());
        Ok(Embedded { db, tables, clock, disk, modelled: site.is_model(), files })
    }
}

impl Embedded {
    /// A connection.
    pub(crate) fn rows(&self) -> EmbeddedRows {
        EmbeddedRows::new(&self.db, &self.tables)
    }

    /// A connection for sysbench's statements on table 0.
    pub(crate) fn sql(&self) -> RowSql<EmbeddedRows> {
        RowSql::new(self.rows(), TableNo(0))
    }

    /// Switches the model of its disk on or off; a no-op on a real disk.
    pub(crate) fn set_slow(&self, slow: bool) {
        self.disk.set_enabled(slow && self.modelled);
    }

    /// Its time.
    pub(crate) fn clock(&self) -> &Arc<PausableClock> {
        &self.clock
    }
}

impl Target for Embedded {
    fn query(&self, query: Query) -> Result<f64> {
        let mut rows = self.rows();
        let sum = match query {
            Query::SumNewOrder => dbt2::sum_new_order(&mut rows, TableNo(0)).map(|sum| sum as f64),
            Query::SumStock => dbt2::sum_stock(&mut rows, TableNo(1)),
        };
        sum.map_err(|failure| anyhow!("{failure}"))
    }

    fn pool(&self) -> Result<PoolState> {
        let (cache, tables) = self.db.cache_stats();
        let page_bytes = cache.page_size as u64;
        let traffic = self.disk.traffic();
        let read = |(table, file): &(String, String)| {
            let bytes = traffic.get(file).map_or(0, |t| t.read_bytes);
            (table.clone(), bytes / page_bytes.max(1))
        };
        let mut state = PoolState {
            page_bytes,
            pool_pages: cache.frames,
            free_pages: cache.free_frames,
            database_pages: cache.resident_pages,
            old_pages: cache.old_pages,
            made_young: cache.made_young,
            not_young: cache.not_young,
            gets: cache.hits + cache.misses,
            pages_read: cache.pages_read,
            pages_created: cache.pages_created,
            pages_written: cache.pages_written,
            indexes: Vec::new(),
            disk_reads: self.files.iter().map(read).collect(),
        };
        for (table, index) in tables.iter().flat_map(|t| t.indexes.iter().map(move |index| (t, index))) {
            let (pages, mb) = (index.resident_pages, state.mb(index.resident_pages));
            state.indexes.push(Resident { table: table.name.clone(), index: index.name.clone(), pages, mb });
        }
        Ok(state)
    }
}

enum Transaction {
    None,
    Read(ReadTransaction),
    Write(WriteTransaction),
}

/// [`Rows`] over the engine.
pub(crate) struct EmbeddedRows {
    db: Database,
    tables: Arc<[Definition]>,
    transaction: Transaction,
}

fn failure(error: Error) -> Failure {
    if error.is_retryable() || matches!(error, Error::LockTimeout) {
        return Failure::Retry(error.to_string());
    }
    Failure::Fatal(Box::new(error))
}

fn none<T>() -> Result<T, Failure> {
    Err(Failure::fatal("a statement outside of a transaction"))
}

/// Runs `$body` on the open table `$table`, whichever kind of transaction it is opened in.
macro_rules! with_table {
    ($rows:expr, $table:expr, |$open:ident| $body:expr) => {
        match &$rows.transaction {
            Transaction::None => none(),
            Transaction::Read(txn) => {
                let $open = &txn.open_table(definition_of(&$rows.tables, $table)?).map_err(failure)?;
                $body
            }
            Transaction::Write(txn) => {
                let $open = &*txn.open_table(definition_of(&$rows.tables, $table)?).map_err(failure)?;
                $body
            }
        }
    };
}

fn definition_of(tables: &[Definition], table: TableNo) -> Result<&Definition, Failure> {
    tables.get(table.0).ok_or_else(|| Failure::fatal(format_args!("there is no table {}", table.0)))
}

impl EmbeddedRows {
    /// A connection without a transaction.
    pub(crate) fn new(db: &Database, tables: &Arc<[Definition]>) -> EmbeddedRows {
        EmbeddedRows { db: db.clone(), tables: Arc::clone(tables), transaction: Transaction::None }
    }

    fn writer(&self, table: TableNo) -> Result<(&WriteTransaction, &Definition), Failure> {
        match &self.transaction {
            Transaction::Write(txn) => Ok((txn, definition_of(&self.tables, table)?)),
            _ => none(),
        }
    }
}

impl Rows for EmbeddedRows {
    fn begin(&mut self, read_only: bool) -> Result<(), Failure> {
        // What is left of a transaction that failed must end before the next one begins.
        self.transaction = Transaction::None;
        self.transaction = match read_only {
            true => Transaction::Read(self.db.begin_read().map_err(failure)?),
            false => Transaction::Write(self.db.begin_write().map_err(failure)?),
        };
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Write(txn) => txn.commit().map_err(failure),
            Transaction::Read(_) | Transaction::None => Ok(()),
        }
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Write(txn) => txn.rollback().map_err(failure),
            Transaction::Read(_) | Transaction::None => Ok(()),
        }
    }

    fn get(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool, Failure> {
        with_table!(self, table, |open| open.get_into(key, row).map_err(failure))
    }

    fn get_for_update(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool, Failure> {
        let (txn, definition) = self.writer(table)?;
        let open = txn.open_table(definition).map_err(failure)?;
        let found = open.get_for_update(key, WaitMode::Wait).map_err(failure)?;
        row.clear();
        Ok(found.map(|value| row.extend_from_slice(&value)).is_some())
    }

    fn range(
        &mut self,
        table: TableNo,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        scan: Scan,
        sink: RowSink<'_>,
    ) -> Result<(), Failure> {
        let options = match scan {
            Scan::Undeclared => ReadOptions::new(),
            Scan::Declared => ReadOptions::new().scan(holdfast::Scan::Yes),
        };
        with_table!(self, table, |open| walk(open, from, to, &options, sink))
    }

    fn put(&mut self, table: TableNo, key: &[u8], row: &[u8]) -> Result<(), Failure> {
        let (txn, definition) = self.writer(table)?;
        let open = txn.open_table(definition).map_err(failure)?;
        open.upsert(key, row).map(|_| ()).map_err(failure)
    }

    fn delete(&mut self, table: TableNo, key: &[u8]) -> Result<bool, Failure> {
        let (txn, definition) = self.writer(table)?;
        let open = txn.open_table(definition).map_err(failure)?;
        open.delete(key).map_err(failure)
    }
}

fn walk(
    table: &ReadTable<'_, &'static [u8], &'static [u8]>,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    options: &ReadOptions,
    sink: RowSink<'_>,
) -> Result<(), Failure> {
    let bound = |key: Option<&[u8]>| key.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
    let (from, to) = (bound(from), bound(to));
    let mut cursor: Cursor<'_, _, _> = table.cursor(options);
    cursor.seek((from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))).map_err(failure)?;
    let (mut key, mut row) = (Vec::new(), Vec::new());
    while cursor.next_into(&mut key, &mut row).map_err(failure)? {
        if !sink(&key, &row)? {
            break;
        }
    }
    Ok(())
}
