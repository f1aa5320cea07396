//! The catalogue: every metric with its name, unit and help, as data.
//!
//! Status variables, INFORMATION_SCHEMA, the Prometheus text and the documentation are generated
//! from these lists, so adding a line here adds a metric. Where the meaning is the same as in
//! InnoDB, the name is InnoDB's without its prefix, so a DBA's habits and tools carry over.
//! Counters only grow; gauges are present values.

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Events, rows, requests: plain numbers.
    Count,
    /// Pages of the database.
    Pages,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Millis,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    /// Lower-case name for listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Pages => "pages",
            Unit::Bytes => "bytes",
            Unit::Millis => "milliseconds",
            Unit::Nanos => "nanoseconds",
        }
    }
}

/// How a number behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It only grows; differences between two snapshots are meaningful.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution of durations.
    Histogram,
    /// The number, total and maximum of the waits of one class.
    Wait,
}

impl Kind {
    /// Lower-case name for listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Wait => "wait",
        }
    }
}

/// One entry of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Description {
    /// Snake-case name, without any prefix.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// Counter, gauge, histogram, wait.
    pub kind: Kind,
    /// One sentence for users.
    pub help: &'static str,
}

macro_rules! catalogue {
    (
        $(#[$meta:meta])* $list:ident, $kind:ident;
        $( $variant:ident, $name:literal, $unit:ident, $help:literal; )+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum $list {
            $( #[doc = $help] $variant, )+
        }

        impl $list {
            /// All members, in the order of the catalogue.
            pub const ALL: &'static [$list] = &[ $( $list::$variant, )+ ];

            /// The entry of the catalogue.
            #[must_use]
            pub const fn description(self) -> &'static Description {
                const DESCRIPTIONS: &[Description] = &[ $(
                    Description { name: $name, unit: Unit::$unit, kind: Kind::$kind, help: $help },
                )+ ];
                &DESCRIPTIONS[self as usize]
            }

            /// Snake-case name, without any prefix.
            #[must_use]
            pub const fn name(self) -> &'static str {
                self.description().name
            }
        }
    };
}

catalogue! {
    /// Numbers that only grow.
    Counter, Counter;

    // Pool: requests and misses.
    BufferPoolReadRequests, "buffer_pool_read_requests", Count, "Logical page reads: pages asked of the pool.";
    BufferPoolReads, "buffer_pool_reads", Count, "Page requests that had to wait for a read from disk (misses).";
    BufferPoolWriteRequests, "buffer_pool_write_requests", Count, "Page changes: a page made dirty or changed again.";
    PagesRead, "pages_read", Pages, "Pages read from disk, for requests and ahead of them.";
    PagesCreated, "pages_created", Pages, "Pages created in the pool without a read.";
    PagesWritten, "pages_written", Pages, "Pages written to their files.";
    BufferPoolReadRetries, "buffer_pool_read_retries", Count, "Optimistic page reads that failed validation and were repeated.";
    PagesDamaged, "pages_damaged", Pages, "Pages read from disk that were not what had been written.";

    // Pool: replacement.
    PagesEvictedClean, "pages_evicted_clean", Pages, "Clean pages evicted to make room.";
    PagesEvictedDirty, "pages_evicted_dirty", Pages, "Pages that had to be written before they could be evicted to make room.";
    PagesEvictedRing, "pages_evicted_ring", Pages, "Pages of declared scans evicted within the scan budget.";
    PagesEvictedDrop, "pages_evicted_drop", Pages, "Pages discarded because their table was dropped or its file closed.";
    PagesEvictedResize, "pages_evicted_resize", Pages, "Pages evicted because the pool was made smaller.";
    PagesMadeYoung, "buffer_pool_pages_made_young", Pages, "Pages promoted to the protected part of the pool.";
    PagesNotMadeYoung, "buffer_pool_pages_made_not_young", Pages, "Touches of unprotected pages that did not promote them (correlated or within old_blocks_time).";
    GhostHits, "buffer_pool_ghost_hits", Pages, "Misses of pages that had been evicted recently; admitted straight to the protected part.";
    FreeWaits, "buffer_pool_wait_free", Count, "Times a thread had to wait for a write because no clean frame was left.";
    ForegroundEvictions, "buffer_pool_foreground_evictions", Count, "Times a thread found no free frame and evicted a batch itself.";
    ReservationWaits, "buffer_pool_reservation_waits", Count, "Times a structure change waited for its frame reservation.";

    // Pool: read-ahead and warm-up.
    ReadAhead, "buffer_pool_read_ahead", Pages, "Pages read ahead of the request for them.";
    ReadAheadEvicted, "buffer_pool_read_ahead_evicted", Pages, "Pages read ahead and evicted without having been used.";
    WarmupLoaded, "buffer_pool_load_pages", Pages, "Pages reloaded by the warm-up after a restart.";

    // Flushing by cause.
    FlushedLru, "buffer_pool_pages_lru_flushed", Pages, "Pages written ahead of eviction by the cleaner.";
    FlushedCheckpoint, "buffer_pool_pages_flushed_checkpoint", Pages, "Pages written to advance the checkpoint.";
    FlushedEviction, "buffer_pool_pages_flushed_eviction", Pages, "Pages written by a thread that needed a frame.";
    FlushedShutdown, "buffer_pool_pages_flushed_shutdown", Pages, "Pages written by a full flush: shutdown, backup, or a request.";
    FlushFailures, "buffer_pool_flush_failures", Count, "Page writes that failed; the pages stayed dirty.";
    CleanerWakeups, "buffer_pool_cleaner_wakeups", Count, "Times evictions woke the page cleaner.";
    DblwrPagesWritten, "dblwr_pages_written", Pages, "Pages written to the double-write file.";
    DblwrPagesSpared, "dblwr_pages_spared", Pages, "Pages written that did not go to the double-write file because an older image of theirs in it will do.";
    DblwrWrites, "dblwr_writes", Count, "Batches written to the double-write file.";
    DblwrPagesRestored, "dblwr_pages_restored", Pages, "Torn pages restored from the double-write file at open.";

    // Files.
    DataReads, "data_reads", Count, "Read requests to data files.";
    DataRead, "data_read", Bytes, "Bytes read from data files.";
    DataWrites, "data_writes", Count, "Write requests to data files.";
    DataWritten, "data_written", Bytes, "Bytes written to data files.";
    DataFsyncs, "data_fsyncs", Count, "Syncs of data files.";

    // Log and checkpoint.
    LogWriteRequests, "log_write_requests", Count, "Groups of records appended to the log buffer.";
    LogAppended, "log_appended", Bytes, "Bytes appended to the log buffer.";
    LogWrites, "log_writes", Count, "Writes of the log buffer to the log file.";
    OsLogWritten, "os_log_written", Bytes, "Bytes written to the log file.";
    OsLogFsyncs, "os_log_fsyncs", Count, "Syncs of the log file.";
    LogGroupCommits, "log_group_commits", Count, "Flush requests made durable by log syncs; divided by os_log_fsyncs it is the mean size of a commit group.";
    LogWaits, "log_waits", Count, "Times an append waited for room in the log buffer.";
    LogSpaceWaits, "log_space_waits", Count, "Times a statement waited for the checkpoint to free log capacity.";
    LogThrottles, "log_throttles", Count, "Times a statement was delayed because the log was nearly as full as it may get.";
    Checkpoints, "log_checkpoints", Count, "Checkpoints taken.";
    RecoveryGroups, "recovery_groups", Count, "Groups of log records applied by recovery.";
    RecoveryBytes, "recovery_bytes", Bytes, "Bytes of log read by recovery.";
    RecoveryPasses, "recovery_passes", Count, "Times recovery went through the log again, for other pages.";
    RecoveryPagesSkipped, "recovery_pages_skipped", Count, "Page records that recovery skipped because the page already had them.";

    // Trees and spaces.
    IndexPageSplits, "index_page_splits", Count, "Pages of B+trees split.";
    IndexPageMerges, "index_page_merge_successful", Count, "Pages of B+trees merged into a neighbour.";
    IndexRestarts, "index_restarts", Count, "Tree descents restarted because a page changed or had to be loaded.";
    PagesAllocated, "pages_allocated", Pages, "Pages allocated in spaces.";
    PagesFreed, "pages_freed", Pages, "Pages given back to spaces.";
    OverflowReads, "overflow_reads", Count, "Large values read from overflow pages.";
    OverflowWrites, "overflow_writes", Count, "Large values written to overflow pages.";
    OverflowShares, "overflow_shares", Count, "New versions that kept the overflow pages of the one before.";
    OverflowLost, "overflow_lost", Count, "Large values whose pages were not freed, since damage hides which those are.";

    // Transactions and locks.
    TrxBegun, "trx_begun", Count, "Transactions begun.";
    TrxCommits, "trx_rw_commits", Count, "Read-write transactions committed.";
    TrxReadOnlyCommits, "trx_ro_commits", Count, "Transactions ended without having written.";
    TrxRollbacks, "trx_rollbacks", Count, "Transactions rolled back.";
    TrxSavepointRollbacks, "trx_rollbacks_savepoint", Count, "Roll backs to a savepoint, statements included.";
    TrxConflicts, "trx_conflicts", Count, "Statements refused because another transaction changed the row after the snapshot.";
    TrxSnapshotTooOld, "trx_snapshot_too_old", Count, "Snapshots given up to keep old versions within their limit.";
    TrxRecovered, "trx_recovered", Count, "Unfinished transactions found at open and rolled back or kept prepared.";
    RowLockWaits, "row_lock_waits", Count, "Times a row, range or table lock had to be waited for.";
    LockDeadlocks, "deadlocks", Count, "Deadlocks; each had one victim.";
    LockTimeouts, "lock_timeouts", Count, "Lock waits that ended with a timeout.";
    LockEscalations, "lock_escalations", Count, "Row locks of one table escalated to a table lock.";

    // Versions and purge.
    UndoRecords, "undo_records", Count, "Undo records written.";
    VersionReads, "version_reads", Count, "Old versions of rows read on behalf of a snapshot.";
    LogsShelved, "purge_shelved", Count, "Small transactions of which purge kept in memory what older views may need, to use their undo pages again at once.";
    VersionsKept, "purge_versions_kept", Count, "Old versions copied to the version tree for a long view.";
    PurgedTransactions, "purge_trx", Count, "Undo logs of committed transactions purged.";
    PurgedUndoRecords, "purge_undo_records", Count, "Undo records purged.";
    PurgedRows, "purge_del_mark_records", Count, "Delete-marked rows and index entries removed by purge.";
    ViewsMadeLong, "purge_views_made_long", Count, "Views that held back so much that purge stopped waiting for them.";
    PurgeHelps, "purge_helped", Count, "Times a committer helped purge because the queue was long.";

    // Rows.
    RowsRead, "rows_read", Count, "Rows read.";
    RowsInserted, "rows_inserted", Count, "Rows inserted.";
    RowsUpdated, "rows_updated", Count, "Rows updated.";
    RowsDeleted, "rows_deleted", Count, "Rows deleted.";
}

catalogue! {
    /// Numbers that describe the present state.
    Gauge, Gauge;

    PagesTotal, "buffer_pool_pages_total", Pages, "Frames of the pool.";
    PagesFree, "buffer_pool_pages_free", Pages, "Frames that hold no page.";
    PagesData, "buffer_pool_pages_data", Pages, "Frames that hold a page.";
    PagesDirty, "buffer_pool_pages_dirty", Pages, "Frames whose page is newer than its file.";
    PagesOld, "buffer_pool_pages_old", Pages, "Pages in the unprotected part of the pool.";
    PagesRing, "buffer_pool_pages_ring", Pages, "Pages held within the scan budget.";
    BytesData, "buffer_pool_bytes_data", Bytes, "Bytes of pages in the pool.";
    BytesDirty, "buffer_pool_bytes_dirty", Bytes, "Bytes of dirty pages in the pool.";
    PageSize, "page_size", Bytes, "Size of a page.";
    MemoryTranslation, "mem_translation", Bytes, "Memory of the page translation tables.";
    MemoryLocks, "mem_locks", Bytes, "Memory of explicit row locks.";
    MemoryCommitMap, "mem_commit_map", Bytes, "Memory of the map from transactions to commits.";
    MemoryShelf, "mem_shelf", Bytes, "Memory of what older views may need of small transactions.";
    MemoryLogBuffer, "mem_log_buffer", Bytes, "Memory of the log buffer.";
    LsnCurrent, "lsn_current", Bytes, "Log sequence number of the next append.";
    LsnFlushed, "lsn_flushed", Bytes, "Log sequence number up to which the log is durable.";
    LsnCheckpoint, "lsn_last_checkpoint", Bytes, "Log sequence number of the last checkpoint.";
    CheckpointAge, "checkpoint_age", Bytes, "Log written since the last checkpoint.";
    CheckpointMaxAge, "checkpoint_max_age", Bytes, "Checkpoint age at which statements wait for the checkpoint: about three quarters of the log capacity, or more.";
    TrxActive, "trx_active", Count, "Open transactions.";
    RowLockCurrentWaits, "row_lock_current_waits", Count, "Transactions that wait for a row, range or table lock now.";
    HistoryListLength, "history_list_length", Count, "Committed transactions whose undo logs are not purged.";
    VersionsStored, "versions_stored", Count, "Old versions in the version tree.";
    BytesVersions, "bytes_versions", Bytes, "Bytes of undo logs, of the shelf and of the version tree.";
    RecoveryProgress, "recovery_progress", Bytes, "Bytes of log that recovery still has to read.";
    OpenTables, "open_tables", Count, "Tables that are open.";
}

catalogue! {
    /// Numbers that are computed from the others when they are shown, with InnoDB's names and
    /// units.
    Derived, Gauge;

    PagesFlushed, "buffer_pool_pages_flushed", Pages, "Pages written to their files, for whatever cause.";
    RowLockTime, "row_lock_time", Millis, "Time spent waiting for row, range and table locks.";
    RowLockTimeAverage, "row_lock_time_avg", Millis, "Mean time of a wait for such a lock.";
    RowLockTimeMaximum, "row_lock_time_max", Millis, "Longest wait for such a lock.";
}

catalogue! {
    /// Distributions of durations, in nanoseconds.
    Timing, Histogram;

    PageRead, "page_read_time", Nanos, "Time of a read from a data file.";
    PageWrite, "page_write_time", Nanos, "Time of a write to a data file; a batch counts once.";
    DataSync, "data_fsync_time", Nanos, "Time of a sync of a data file.";
    LogWrite, "log_write_time", Nanos, "Time of a write to the log file.";
    LogSync, "log_fsync_time", Nanos, "Time of a sync of the log file.";
    Commit, "commit_time", Nanos, "Time of a commit, from its call to its return.";
}

catalogue! {
    /// The reasons for which a thread waits.
    WaitClass, Wait;

    Latch, "latch", Nanos, "A latch of a page.";
    Lock, "lock", Nanos, "A row, range or table lock.";
    Log, "log", Nanos, "The log: durability of a commit, or room in the log buffer.";
    LogSpace, "log_space", Nanos, "Log capacity, until the checkpoint has advanced.";
    Frame, "frame", Nanos, "A free frame.";
    Reservation, "reservation", Nanos, "A reservation of frames for a structure change.";
    StructureChange, "structure_change", Nanos, "Another structure change of the same tree.";
    ReadIo, "read_io", Nanos, "A read from disk.";
    WriteIo, "write_io", Nanos, "A write to disk.";
    Sync, "sync_io", Nanos, "A sync of a file.";
}

/// The whole catalogue: counters, gauges, derived numbers, timings, waits.
pub fn catalogue() -> impl Iterator<Item = &'static Description> {
    let counters = Counter::ALL.iter().map(|c| c.description());
    let gauges = Gauge::ALL.iter().map(|g| g.description()).chain(Derived::ALL.iter().map(|d| d.description()));
    let timings = Timing::ALL.iter().map(|t| t.description());
    let waits = WaitClass::ALL.iter().map(|w| w.description());
    counters.chain(gauges).chain(timings).chain(waits)
}

/// The catalogue as a markdown table, for the documentation.
#[must_use]
pub fn markdown_table() -> String {
    let mut out = String::from("| Name | Kind | Unit | Meaning |\n|---|---|---|---|\n");
    for d in catalogue() {
        out.push_str(&format!("| `{}` | {} | {} | {} |\n", d.name, d.kind.name(), d.unit.name(), d.help));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_snake_case_and_explained() {
        let mut seen = HashSet::new();
        for d in catalogue() {
            assert!(seen.insert(d.name), "{} is listed twice", d.name);
            assert!(d.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{}", d.name);
            assert!(d.help.ends_with('.') && !d.help.contains('|'), "{}: {}", d.name, d.help);
        }
    }

    #[test]
    fn the_table_has_a_line_per_entry() {
        assert_eq!(markdown_table().lines().count(), 2 + catalogue().count());
    }
}
