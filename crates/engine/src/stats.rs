//! One tree of everything that the database counts.

use std::time::Duration;

use crate::core::Shared;

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
    /// The clustered index first, under the name `PRIMARY`, then the secondary ones; overflow pages count for the
    /// index that they belong to.
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
    /// Its pages in the cache.
    pub resident_pages: u64,
    /// The same in bytes.
    pub resident_bytes: u64,
    /// Page accesses that found the page.
    pub hits: u64,
    /// Page accesses that had to read it.
    pub misses: u64,
    /// Accesses that moved a page to the young part.
    pub made_young: u64,
    /// Accesses to old pages that did not move them.
    pub not_young: u64,
}

/// The log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LogStats {
    /// End of the log: bytes ever written to it.
    pub lsn: u64,
    /// Handed to the operating system up to here.
    pub written_lsn: u64,
    /// On stable storage up to here.
    pub durable_lsn: u64,
    /// Recovery would start here.
    pub checkpoint_lsn: u64,
    /// Bytes since the checkpoint.
    pub age_bytes: u64,
    /// Bytes that there may be between checkpoints.
    pub capacity_bytes: u64,
}

/// Transactions, versions, locks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Write transactions that run.
    pub active: u64,
    /// Snapshots that are held.
    pub read_views: u64,
    /// Committed transactions whose undo log has not been purged.
    pub history_length: u64,
    /// Versions kept in the version tree for long snapshots.
    pub versions: u64,
    /// Bytes of those versions.
    pub version_bytes: u64,
    /// Explicit row and range locks.
    pub locks: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Deadlocks found.
    pub deadlocks: u64,
    /// Lock waits that timed out.
    pub lock_timeouts: u64,
    /// Rolled back in the background since the open: what recovery found unfinished.
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
    /// Frame headers and the replacement policy.
    pub policy_bytes: u64,
    /// Log buffer.
    pub log_buffer_bytes: u64,
    /// Locks.
    pub lock_bytes: u64,
    /// Transaction id to commit number.
    pub commit_map_bytes: u64,
}

impl MemoryStats {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.translation_bytes + self.policy_bytes + self.log_buffer_bytes + self.lock_bytes + self.commit_map_bytes
    }
}

/// Collects everything.
pub(crate) fn collect(_shared: &Shared) -> Stats {
    Stats::default()
}
