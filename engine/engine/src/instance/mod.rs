//! An open database: what it is opened with, and what all handles and transactions share.

pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod meta;
pub(crate) mod options;
pub(crate) mod overlay;
pub(crate) mod rates;
pub(crate) mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_base::blocking::{Mutex, RwLock};
use holdfast_base::{HashMap, SpaceId};
use holdfast_io::{Clock, Disk, Lease, Process};
use holdfast_metrics::{Gauge, Local, Metrics, Snapshot, Spread, local};
use holdfast_pool::Pool;
use holdfast_tree::{SpaceFile, Store};
use holdfast_txn::{Txn, TxnOptions, TxnSystem, Wait};
use holdfast_wal::{Wal, WalConfig};

use crate::instance::environment::Environment;
use crate::instance::files::Files;
use crate::instance::meta::Meta;
use crate::instance::rates::Previous;
use crate::instance::settings::{Builder, ReplacementPolicy, at_least, check_policy, fits_memory, policy_kind};
use crate::schema::catalog::{Catalog, NextIds, TableRecord};
use crate::schema::freeing::Freeing;
use crate::schema::handle::TableHandle;
use crate::schema::info::TableInfo;
use crate::schema::marks::Marks;
use crate::schema::versions::Schema;
use crate::sort::Memory;
use crate::{Error, Result};

/// An open database: its parts, and what they have in common.
pub(crate) struct Instance {
    pub meta: Meta,
    pub settings: Builder,
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub wal_config: WalConfig,
    pub system: Arc<SpaceFile>,
    pub undo: Arc<SpaceFile>,
    pub catalog: Catalog,
    pub txns: Arc<TxnSystem>,
    /// References to `txns` for threads that begin transactions.
    pub txn_references: Spread<Local<Arc<TxnSystem>>>,
    pub policy: Mutex<ReplacementPolicy>,
    /// Nothing may be written: it was opened read-only.
    pub read_only: bool,
    /// Held while definitions change.
    pub ddl: Arc<Mutex<NextIds>>,
    /// Frees pages of indexes that tables have not any more.
    pub freeing: Freeing,
    /// The same version for each group of threads, so that threads that only read it do not meet.
    pub schema: Spread<RwLock<Local<Arc<Schema>>>>,
    /// Files named like those of tables that the catalog does not know, and that are not known to
    /// be leftovers.
    pub foreign_files: Vec<String>,
    /// Files of the log that an open has passed over, since they cannot be read, and why.
    pub unread_log: Vec<(String, Error)>,
    /// The numbers that tables count up, by their spaces, of those that were opened for that. A
    /// table that is dropped has none here, or its file would stay.
    pub marks: Mutex<HashMap<SpaceId, Arc<Marks>>>,
    /// Held during a compaction.
    pub compacting: Mutex<()>,
    /// In which loads collect what they sort.
    pub sort_memory: Memory,
    pub scan_hints: AtomicBool,
    /// For the rates of the monitor, and of the listing of the pool's statistics.
    pub status_since: Mutex<Previous>,
    pub pool_stats_since: Mutex<Previous>,
    pub closed: AtomicBool,
    /// The process that opened it, and alone may use it.
    pub process: Process,
    /// Held while it is being closed; whether that was done.
    pub stopped: Mutex<bool>,
    pub store: Arc<Store>,
    /// The right to use the directory, until the database is closed.
    pub lease: Arc<Lease>,
}

impl Instance {
    /// The parts of a database whose files are open. No table is open, and nothing runs yet.
    pub(crate) fn new(
        environment: Environment,
        files: Files,
        txns: Arc<TxnSystem>,
        contents: (Catalog, NextIds),
        foreign_files: Vec<String>,
    ) -> Instance {
        let metrics = environment.metrics;
        let (catalog, next) = contents;
        let ddl = Arc::new(Mutex::new(next));
        Instance {
            freeing: Freeing::new(&txns, &catalog, &ddl),
            marks: Mutex::default(),
            policy: Mutex::new(environment.settings.policy),
            scan_hints: AtomicBool::new(environment.settings.scan_hints),
            status_since: Mutex::new(Previous::new(metrics.snapshot())),
            pool_stats_since: Mutex::new(Previous::new(metrics.snapshot())),
            read_only: environment.read_only,
            settings: environment.settings,
            meta: files.meta,
            disk: environment.disk,
            clock: environment.clock,
            metrics,
            wal_config: files.wal_config,
            system: files.system,
            undo: files.undo,
            catalog,
            txn_references: Spread::new(|| local(Arc::clone(&txns))),
            txns,
            ddl,
            schema: Spread::new(|| RwLock::new(Local::default())),
            sort_memory: Memory::default(),
            compacting: Mutex::default(),
            foreign_files,
            unread_log: files.unread_log,
            closed: AtomicBool::new(false),
            process: environment.lease.taker(),
            stopped: Mutex::new(false),
            store: files.store,
            lease: environment.lease,
        }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        self.store.pool()
    }

    pub(crate) fn wal(&self) -> &Arc<Wal> {
        self.store.wal()
    }

    pub(crate) fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.mine().read())
    }

    /// For an open: rolls back the transactions that a crash has left and that have changed records
    /// of the catalog. False if one has still.
    pub fn has_free_catalog(&self) -> bool {
        let catalog = [self.catalog.index.id()];
        let at_once = self.wait(Duration::ZERO);
        // What is blocked keeps no session waiting.
        let _ = self.txns.roll_back_losers_of(&catalog, &at_once);
        self.txns.what_stops_losers_of(&catalog, &at_once).is_ok_and(|losers| losers.is_empty())
    }

    /// Of a change of the catalog that has failed: whether table `name` may be committed as
    /// `record` all the same. So it may if the commit could not be made durable, which stops the
    /// database. That the catalog cannot be read now says nothing about the change.
    pub(crate) fn may_have(&self, name: &str, record: &TableRecord) -> bool {
        let has = self.catalog.has(&self.txns, name, record);
        has.unwrap_or_else(|_| self.wal().check_poisoned().is_err())
    }

    /// Refuses a database that is closed or has stopped, or that the parent process opened.
    pub(crate) fn check(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) || !self.process.is_current() {
            self.lease.check()?;
            return Err(Error::Closed("the database"));
        }
        self.wal().check_poisoned()
    }

    /// Refuses writes to a database that was opened for reading.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check()?;
        if self.read_only { Err(Error::ReadOnly("the database")) } else { Ok(()) }
    }

    /// Publishes the next version of the definitions. The caller holds `ddl`.
    pub(crate) fn publish(&self, without: Option<&str>, with: Option<Arc<TableHandle>>) {
        self.publish_schema(self.schema().changed(without, with));
    }

    /// Makes `next` what transactions begin with from now on. All groups get it at one moment: a
    /// thread that has met a table there may tell any other thread of it.
    pub(crate) fn publish_schema(&self, next: Schema) {
        let next = Arc::new(next);
        let mut groups: Vec<_> = self.schema.all().map(RwLock::write).collect();
        let replaced = groups.iter_mut().map(|own| std::mem::replace(&mut **own, local(Arc::clone(&next))));
        let previous: Vec<_> = replaced.collect();
        drop(groups);
        // Outside the locks: it may be the last holder of a dropped table.
        drop(previous);
    }

    /// A wait of the calling thread that begins now, for `limit` at most.
    pub(crate) fn wait(&self, limit: Duration) -> Wait<'_> {
        self.txns.wait(limit)
    }

    /// Has the threads that wait for writers of tables, or for rollbacks, ask whether they give up.
    pub(crate) fn wake_waits(&self) {
        self.schema().tables().for_each(|table| table.store.file.gate.wake());
        self.txns.wake_waits_for_rollbacks();
    }

    /// Begins a transaction of the floor below.
    pub(crate) fn begin(&self, options: TxnOptions) -> Txn {
        TxnSystem::begin_by(self.txn_references.mine(), options)
    }

    /// Removes what no view needs any more of what has committed by now, as far as that is possible
    /// now.
    pub(crate) fn purge_now(&self) -> Result<()> {
        self.txns.purge_up_to(self.txns.last_commit())
    }

    pub(crate) fn list_tables(&self) -> Vec<TableInfo> {
        self.schema().tables().map(|table| table.info()).collect()
    }

    pub(crate) fn set_cache_size(&self, bytes: u64) -> Result<()> {
        at_least("cache_size_bytes", bytes, holdfast_base::limits::CACHE_SIZE_MIN)?;
        let max = self.settings.cache_max();
        if bytes > max {
            return Err(Error::invalid(format!(
                "cache_size_bytes = {bytes} is too large; choose at most {max}, the cache_size_max_bytes given at open"
            )));
        }
        fits_memory(bytes)?;
        self.check()?;
        self.pool().resize(bytes)
    }

    pub(crate) fn set_log_capacity(&self, bytes: u64) -> Result<()> {
        at_least("log_capacity_bytes", bytes, holdfast_base::limits::LOG_CAPACITY_MIN)?;
        self.check()?;
        self.wal().set_capacity(bytes)
    }

    pub(crate) fn set_policy(&self, policy: ReplacementPolicy) -> Result<()> {
        check_policy(policy)?;
        self.check()?;
        let mut current = self.policy.lock();
        self.pool().set_policy(policy_kind(policy));
        *current = policy;
        Ok(())
    }

    pub(crate) fn set_scan_hints(&self, on: bool) {
        self.scan_hints.store(on, Ordering::Relaxed);
    }

    /// Writes all changed pages and moves the checkpoint.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.check()?;
        self.pool().flush_all()?;
        self.pool().checkpoint().map(drop)
    }

    /// Stops everything and gives the directory back, although handles, transactions and snapshots
    /// may live on: they are refused whatever they ask for, and nothing of theirs reaches the files
    /// any more. A second call waits for the first one and does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        if !self.process.is_current() {
            return self.check();
        }
        let mut stopped = self.stopped.lock();
        if std::mem::replace(&mut *stopped, true) {
            return Ok(());
        }
        self.closed.store(true, Ordering::Release);
        // What keeps a row or a table may never end now: it cannot be committed or undone.
        if !holdfast_base::planted!("close-ends-no-waits") {
            self.txns.end_waits(&Error::Closed("the database"));
            self.wake_waits();
        }
        self.freeing.close();
        self.txns.shutdown();
        // Statements under way on other threads end at their next change.
        self.wal().end_promises();
        let clean = self.stop_cleanly();
        self.pool().shutdown();
        let closed = self.wal().close();
        self.lease.release();
        clean.and(closed)
    }

    /// True if the caller is a forked child of the process that opened the database. Then a share
    /// of it is leaked: to drop it would be to wait for threads that the child does not have, and
    /// for latches that they held when it was forked.
    pub(crate) fn leak_in_child(self: &Arc<Self>) -> bool {
        let is_child = !self.process.is_current();
        if is_child {
            self.lease.release();
            std::mem::forget(Arc::clone(self));
        }
        is_child
    }

    /// Leaves the next open nothing to recover.
    fn stop_cleanly(&self) -> Result<()> {
        self.wal().check_poisoned()?;
        if self.read_only {
            return Ok(());
        }
        if self.settings.warm_up {
            // Without it the next run begins with a colder cache, and nothing else.
            let _ = self.pool().save_warmup();
        }
        self.pool().flush_all()?;
        self.pool().checkpoint().map(drop)
    }

    /// Brings gauges up to date that are not kept so, and takes a snapshot.
    pub(crate) fn publish_metrics(&self) -> Snapshot {
        self.pool().publish_metrics();
        let (wal, txns) = (self.wal(), self.txns.stats());
        let gauges = [
            (Gauge::OpenTables, self.schema().tables().count() as u64),
            (Gauge::LsnCurrent, wal.next_lsn().0),
            (Gauge::LsnFlushed, wal.durable_lsn().0),
            (Gauge::LsnCheckpoint, wal.checkpoint_lsn().0),
            (Gauge::CheckpointAge, wal.age()),
            (Gauge::HistoryListLength, txns.history_length as u64),
            (Gauge::VersionsStored, txns.versions),
            (Gauge::BytesVersions, txns.old_version_bytes),
            (Gauge::MemoryShelf, txns.shelf_bytes),
            (Gauge::MemoryCommitMap, txns.commit_map_memory as u64),
        ];
        gauges.into_iter().for_each(|(gauge, value)| self.metrics.set(gauge, value));
        self.metrics.snapshot()
    }

    pub(crate) fn describe(&self) -> String {
        self.disk.describe()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing committed is lost if this fails: the next open recovers.
        let _ = self.close();
    }
}

#[cfg(all(test, not(sim)))]
mod tests {
    use crate::{Database, TableDefinition};

    /// A thread had met a new table, and another one, which it told of the table, did not find it.
    #[test]
    fn a_table_is_there_for_all_threads_at_one_moment() {
        let db = Database::in_memory().unwrap();
        let groups: Vec<_> = db.instance.schema.all().collect();
        let lacks_it = |group: usize| groups[group].try_read().is_none_or(|schema| schema.get("t").is_none());
        let last = groups.len() - 1;
        // Keeps the new version from the last group.
        let reading = groups[last].read();
        let none_has_it = std::thread::scope(|s| {
            let creation = s.spawn(|| db.create_table(&TableDefinition::<u64, u64>::new("t")));
            while !creation.is_finished() && groups[0].try_read().is_some_and(|schema| schema.get("t").is_none()) {
                std::thread::yield_now();
            }
            let none_has_it = (0..last).all(lacks_it);
            drop(reading);
            creation.join().unwrap().unwrap();
            none_has_it
        });
        assert!(none_has_it);
        assert!(groups.iter().all(|group| group.read().get("t").is_some()));
    }
}
