//! One tree of everything that the database counts.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::{HashMap, IndexId, SpaceId};
use holdfast_metrics::{Counter, Gauge, Snapshot, WaitClass};
use holdfast_pool::AccessKind;
use holdfast_tree::SpaceFile;
use holdfast_txn::TableIndex;

use crate::instance::Instance;
use crate::instance::settings::ReplacementPolicy;
use crate::schema::handle::TableHandle;
use crate::schema::versions::Schema;

/// What the database is doing; from [`crate::Database::stats`]. Counters count from the open on.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The page cache.
    pub cache: CacheStats,
    /// Tables, sorted by name.
    pub tables: Vec<TableStats>,
    /// The log.
    pub log: LogStats,
    /// Transactions, versions, locks.
    pub transactions: TransactionStats,
    /// Waits by class.
    pub waits: Vec<WaitStats>,
    /// Files of pages.
    pub spaces: Vec<SpaceStats>,
    /// Memory besides the frames.
    pub memory: MemoryStats,
}

/// The page cache as a whole.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// Name of the replacement policy.
    pub policy: String,
    /// Bytes of frames.
    pub size_bytes: u64,
    /// Page size in bytes.
    pub page_size: usize,
    /// Frames.
    pub frames: u64,
    /// Frames without a page.
    pub free_frames: u64,
    /// Those of them that no thread has taken to read a page into.
    pub idle_frames: u64,
    /// Resident pages.
    pub resident_pages: u64,
    /// Pages changed since they were written.
    pub dirty_pages: u64,
    /// Pages in the old part: before the midpoint, or in the small queue.
    pub old_pages: u64,
    /// Pages in the scan ring.
    pub ring_pages: u64,
    /// Page accesses that found the page.
    pub hits: u64,
    /// Page accesses that had to read it.
    pub misses: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Pages created.
    pub pages_created: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Pages that left the cache.
    pub evictions: u64,
    /// Pages moved to the young part.
    pub made_young: u64,
    /// Accesses to old pages that did not move them.
    pub not_young: u64,
    /// Misses on pages that the policy still remembered.
    pub ghost_hits: u64,
}

/// A table and its cached pages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Number of its space.
    pub space_id: u32,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// The clustered index first, under the name `PRIMARY`, then the secondary ones; overflow pages
    /// count for the index that they belong to.
    pub indexes: Vec<IndexStats>,
}

impl TableStats {
    /// Resident bytes of all its indexes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.indexes.iter().map(|i| i.resident_bytes).sum()
    }

    /// Pages of all its indexes read from disk.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.indexes.iter().map(|i| i.misses).sum()
    }
}

/// An index and its cached pages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IndexStats {
    /// Its name; `PRIMARY` for the table's rows.
    pub name: String,
    /// Its number, as in page headers.
    pub index_id: u32,
    /// About how many entries it has.
    pub rows: u64,
    /// Its pages in the cache.
    pub resident_pages: u64,
    /// The same in bytes.
    pub resident_bytes: u64,
    /// Page accesses that found the page.
    pub hits: u64,
    /// Page accesses that had to read it.
    pub misses: u64,
    /// Pages created.
    pub pages_created: u64,
}

/// The log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LogStats {
    /// End of the log: the log sequence number of the next group.
    pub lsn: u64,
    /// Handed to the operating system up to here.
    pub written_lsn: u64,
    /// On stable storage up to here.
    pub durable_lsn: u64,
    /// Recovery would start here.
    pub checkpoint_lsn: u64,
    /// Bytes since the checkpoint.
    pub age_bytes: u64,
    /// Bytes that the files of the log may take together.
    pub capacity_bytes: u64,
}

/// Transactions, versions, locks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Open transactions, those that only read included.
    pub active: u64,
    /// Snapshots that are held.
    pub read_views: u64,
    /// Committed transactions whose undo log has not been purged.
    pub history_length: u64,
    /// Versions kept in the version tree for long snapshots.
    pub versions: u64,
    /// Bytes of old versions: undo logs of committed transactions, the shelf and the version tree,
    /// each with the large values that nothing else refers to.
    pub version_bytes: u64,
    /// Explicit locks of rows, ranges and tables, held and waited for.
    pub locks: u64,
    /// Transactions committed that have changed something.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Deadlocks found.
    pub deadlocks: u64,
    /// Lock waits that timed out.
    pub lock_timeouts: u64,
    /// Transactions without a user that are not rolled back yet: recovery found them unfinished, or
    /// their rollback has failed.
    pub recovering: u64,
}

/// One class of waits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WaitStats {
    /// The class.
    pub class: &'static str,
    /// How many.
    pub count: u64,
    /// How long in all.
    pub total: Duration,
    /// How long at most.
    pub max: Duration,
}

/// One file of pages.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SpaceStats {
    /// Number of the space.
    pub space_id: u32,
    /// Its file.
    pub file: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Pages in use.
    pub used_pages: u64,
    /// Pages free for use within the file.
    pub free_pages: u64,
    /// Set if a damaged page was found; the table can only be salvaged.
    pub damaged: bool,
}

/// Memory besides the frames, in bytes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Page number to frame.
    pub translation_bytes: u64,
    /// Frame headers.
    pub frame_header_bytes: u64,
    /// Log buffer.
    pub log_buffer_bytes: u64,
    /// Locks.
    pub lock_bytes: u64,
    /// Transaction id to commit number.
    pub commit_map_bytes: u64,
    /// What older views may need of small transactions.
    pub shelf_bytes: u64,
}

impl MemoryStats {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.translation_bytes
            + self.frame_header_bytes
            + self.log_buffer_bytes
            + self.lock_bytes
            + self.commit_map_bytes
            + self.shelf_bytes
    }
}

/// The cache, and the tables with what they have in it. Reads no page.
pub(crate) fn of_cache(instance: &Instance) -> (CacheStats, Vec<TableStats>) {
    instance.pool().publish_metrics();
    let schema = instance.schema();
    let mut tables = all_tables(instance, &schema);
    ask_files(&mut tables, &schema);
    (cache(instance, &instance.metrics.snapshot()), tables)
}

/// Collects everything.
pub(crate) fn collect(instance: &Instance) -> Stats {
    let schema = instance.schema();
    let mut stats = in_memory(instance, &schema);
    ask_files(&mut stats.tables, &schema);
    Stats { spaces: spaces(instance, &schema), ..stats }
}

/// Collects all but what files are asked for: no page is read, and no file opened.
pub(crate) fn of_memory(instance: &Instance) -> Stats {
    in_memory(instance, &instance.schema())
}

fn in_memory(instance: &Instance, schema: &Schema) -> Stats {
    let metrics = instance.publish_metrics();
    Stats {
        cache: cache(instance, &metrics),
        tables: all_tables(instance, schema),
        log: log(instance),
        transactions: transactions(instance, &metrics),
        waits: waits(&metrics),
        spaces: Vec::new(),
        memory: memory(instance, &metrics),
    }
}

/// What is known in memory of all tables.
fn all_tables(instance: &Instance, schema: &Schema) -> Vec<TableStats> {
    let residency = residency(instance);
    schema.tables().map(|table| table_stats(instance, table, &residency)).collect()
}

/// Adds how long the files of `schema`'s tables are.
fn ask_files(tables: &mut [TableStats], schema: &Schema) {
    for (stats, table) in tables.iter_mut().zip(schema.tables()) {
        let len = table.store.space().and_then(|space| space.space().file().len());
        stats.file_bytes = len.unwrap_or(0);
    }
}

/// Pages in the cache, by space and index: with a hundred thousand tables there are as many sums,
/// and each index finds its own without a look at the others.
pub(crate) type Residency = HashMap<(SpaceId, IndexId), u64>;

/// What is in the cache now.
pub(crate) fn residency(instance: &Instance) -> Residency {
    let mut pages = Residency::default();
    for (owner, resident) in instance.pool().residency() {
        *pages.entry((owner.space, owner.index)).or_default() += resident.pages as u64;
    }
    pages
}

fn cache(instance: &Instance, metrics: &Snapshot) -> CacheStats {
    let pool = instance.pool().stats();
    let page_size = instance.meta.page_size;
    let evicted = [
        Counter::PagesEvictedClean,
        Counter::PagesEvictedDirty,
        Counter::PagesEvictedRing,
        Counter::PagesEvictedDrop,
        Counter::PagesEvictedResize,
    ];
    let (requests, misses) = (metrics.get(Counter::BufferPoolReadRequests), metrics.get(Counter::BufferPoolReads));
    CacheStats {
        policy: policy_name(*instance.policy.lock()).into(),
        size_bytes: (pool.frames * page_size) as u64,
        page_size,
        frames: pool.frames as u64,
        free_frames: pool.free as u64,
        idle_frames: pool.idle as u64,
        resident_pages: pool.resident as u64,
        dirty_pages: pool.dirty as u64,
        old_pages: (pool.policy.old + pool.policy.small) as u64,
        ring_pages: pool.policy.ring as u64,
        hits: requests.saturating_sub(misses),
        misses,
        pages_read: metrics.get(Counter::PagesRead),
        pages_created: metrics.get(Counter::PagesCreated),
        pages_written: metrics.get(Counter::PagesWritten),
        evictions: evicted.iter().map(|c| metrics.get(*c)).sum(),
        made_young: metrics.get(Counter::PagesMadeYoung),
        not_young: metrics.get(Counter::PagesNotMadeYoung),
        ghost_hits: metrics.get(Counter::GhostHits),
    }
}

fn policy_name(policy: ReplacementPolicy) -> &'static str {
    match policy {
        ReplacementPolicy::Holdfast => "holdfast",
        ReplacementPolicy::MidpointLru { .. } => "midpoint_lru",
        ReplacementPolicy::Lru => "lru",
    }
}

/// What is known of a table in memory. Its file is not asked: where there are many tables it may
/// have been closed, and would take the place of another one.
pub(crate) fn table_stats(instance: &Instance, table: &TableHandle, residency: &Residency) -> TableStats {
    let page_size = instance.meta.page_size as u64;
    let index = |(no, index): (usize, &Arc<TableIndex>)| {
        let name = match no {
            0 => "PRIMARY".to_string(),
            _ => table.record.indexes[no - 1].name.clone(),
        };
        let pages = residency.get(&(table.record.space, index.id())).copied().unwrap_or(0);
        let stats = index.access_stats();
        IndexStats {
            name,
            index_id: index.id().0,
            rows: index.rows(),
            resident_pages: pages,
            resident_bytes: pages * page_size,
            hits: stats.requests().saturating_sub(stats.reads()),
            misses: stats.reads(),
            pages_created: stats.created(),
        }
    };
    let indexes = table.store.indexes().map(|all| all.iter().enumerate().map(index).collect()).unwrap_or_default();
    TableStats { name: table.name.clone(), space_id: table.record.space.0, file_bytes: 0, indexes }
}

fn log(instance: &Instance) -> LogStats {
    let wal = instance.wal();
    LogStats {
        lsn: wal.next_lsn().0,
        written_lsn: wal.written_lsn().0,
        durable_lsn: wal.durable_lsn().0,
        checkpoint_lsn: wal.checkpoint_lsn().0,
        age_bytes: wal.age(),
        capacity_bytes: wal.capacity(),
    }
}

fn transactions(instance: &Instance, metrics: &Snapshot) -> TransactionStats {
    let numbers = instance.txns.stats();
    TransactionStats {
        active: metrics.gauge(Gauge::TrxActive),
        read_views: numbers.views as u64,
        history_length: numbers.history_length as u64,
        versions: numbers.versions,
        version_bytes: numbers.old_version_bytes,
        locks: instance.txns.locks().count() as u64,
        commits: metrics.get(Counter::TrxCommits),
        rollbacks: metrics.get(Counter::TrxRollbacks),
        deadlocks: metrics.get(Counter::LockDeadlocks),
        lock_timeouts: metrics.get(Counter::LockTimeouts),
        recovering: numbers.losers as u64,
    }
}

fn waits(metrics: &Snapshot) -> Vec<WaitStats> {
    let wait = |class: &WaitClass| {
        let totals = metrics.wait(*class);
        WaitStats { class: class.name(), count: totals.count, total: totals.total, max: totals.max }
    };
    WaitClass::ALL.iter().map(wait).collect()
}

fn spaces(instance: &Instance, schema: &Schema) -> Vec<SpaceStats> {
    // Two pages of each table, at least, and mostly for a monitor that asks again and again.
    let access = instance.pool().access(AccessKind::Scan);
    let own = [&instance.system, &instance.undo].into_iter();
    let tables = schema.tables().filter_map(|t| t.store.space().ok());
    let space = |space: &Arc<SpaceFile>| {
        let info = space.info(&access).unwrap_or_default();
        SpaceStats {
            space_id: space.id().0,
            file: space.space().file().name().into(),
            file_bytes: space.space().file().len().unwrap_or(0),
            used_pages: u64::from(info.pages - info.free_pages),
            free_pages: u64::from(info.free_pages),
            damaged: space.space().damaged().is_some(),
        }
    };
    own.chain(tables).map(space).collect()
}

fn memory(instance: &Instance, metrics: &Snapshot) -> MemoryStats {
    let pool = instance.pool().stats();
    MemoryStats {
        translation_bytes: pool.translation_bytes,
        frame_header_bytes: pool.header_bytes,
        log_buffer_bytes: metrics.gauge(Gauge::MemoryLogBuffer),
        lock_bytes: instance.txns.locks().memory() as u64,
        commit_map_bytes: metrics.gauge(Gauge::MemoryCommitMap),
        shelf_bytes: metrics.gauge(Gauge::MemoryShelf),
    }
}
