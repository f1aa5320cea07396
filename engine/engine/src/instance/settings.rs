//! The settings of a database, checked when it is opened: an error names the setting, the value and
//! what is allowed.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::limits;
use holdfast_io::{Clock, Disk, FlushMethod};
use holdfast_policy::PolicyKind;

use crate::instance::options::FlushAtCommit;
use crate::{Error, Result};

/// The largest cache, in bytes: numbers of frames have 32 bits, and the smallest page 4 KiB.
const CACHE_SIZE_MAX: u64 = 16 << 40;

/// Which replacement policy the cache follows. Can be changed at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReplacementPolicy {
    /// Holdfast's own, which a scan cannot wash out. The default.
    #[default]
    Holdfast,
    /// InnoDB's LRU list with a midpoint, for comparison.
    MidpointLru {
        /// Share of the list behind the midpoint, in percent, 5 to 95. InnoDB's default is 37.
        old_blocks_pct: u32,
        /// Time for which touches after the first do not move a page over the midpoint, in
        /// milliseconds. InnoDB's default is 1000; 0 was the default before MySQL 5.6.
        old_blocks_time_ms: u32,
    },
    /// Plain least recently used, for comparison.
    Lru,
}

/// How far a recovery has come; given to [`Builder::on_recovery_progress`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// Bytes of log applied.
    pub log_bytes_done: u64,
    /// Bytes of log from the checkpoint to the end, as far as it is known.
    pub log_bytes_total: u64,
}

/// A callback that is told how far a recovery has come.
pub(crate) type ProgressFn = Arc<dyn Fn(RecoveryProgress) + Send + Sync>;

/// Settings of a database; made by [`crate::Database::builder`].
///
/// All have defaults. Those that belong to the files (`page_size`) count when the database is
/// created and are read from it afterwards; the others hold until it is closed.
#[derive(Clone)]
pub struct Builder {
    pub(crate) cache_size_bytes: u64,
    pub(crate) cache_size_max_bytes: Option<u64>,
    pub(crate) populate_cache: bool,
    pub(crate) log_capacity_bytes: u64,
    pub(crate) log_buffer_bytes: u64,
    pub(crate) page_size: Option<usize>,
    pub(crate) flush_method: FlushMethod,
    pub(crate) flush_at_commit: FlushAtCommit,
    pub(crate) policy: ReplacementPolicy,
    pub(crate) scan_hints: bool,
    pub(crate) lock_wait_timeout: Duration,
    pub(crate) lock_memory_bytes: usize,
    pub(crate) snapshot_isolation: bool,
    pub(crate) version_limit_bytes: u64,
    pub(crate) undo_limit_bytes: u64,
    pub(crate) warm_up: bool,
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) on_recovery_progress: Option<ProgressFn>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            cache_size_bytes: 128 << 20,
            cache_size_max_bytes: None,
            populate_cache: false,
            log_capacity_bytes: limits::LOG_CAPACITY_DEFAULT,
            log_buffer_bytes: 8 << 20,
            page_size: None,
            flush_method: FlushMethod::ODirect,
            flush_at_commit: FlushAtCommit::Sync,
            policy: ReplacementPolicy::Holdfast,
            scan_hints: true,
            lock_wait_timeout: Duration::from_secs(50),
            lock_memory_bytes: 64 << 20,
            snapshot_isolation: true,
            version_limit_bytes: 1 << 30,
            undo_limit_bytes: 4 << 30,
            warm_up: true,
            disk: None,
            clock: None,
            on_recovery_progress: None,
        }
    }
}

impl Builder {
    /// Size of the page cache, in bytes of frames. Default 128 MiB, at least 5 MiB, at most 16 TiB
    /// and the memory of the machine with its swap space. Frame headers, translation, ghost lists,
    /// locks and log buffer come on top and are shown in [`crate::Stats`].
    #[must_use]
    pub fn cache_size_bytes(mut self, bytes: u64) -> Builder {
        self.cache_size_bytes = bytes;
        self
    }

    /// The largest size that [`crate::Database::set_cache_size_bytes`] may set, in bytes. Address
    /// space for it is reserved at open, memory is not. Default: four times the cache size. At most
    /// 16 TiB.
    #[must_use]
    pub fn cache_size_max_bytes(mut self, bytes: u64) -> Builder {
        self.cache_size_max_bytes = Some(bytes);
        self
    }

    /// Whether the memory of the cache is taken from the system at open, not when it is first used.
    /// Default false. Of use where it is only then to be had in huge pages; what
    /// [`crate::Database::set_cache_size_bytes`] adds comes as it is used. A cache larger than
    /// three quarters of the machine's memory is not populated.
    #[must_use]
    pub fn populate_cache(mut self, on: bool) -> Builder {
        self.populate_cache = on;
        self
    }

    /// Bytes of log kept between checkpoints: more of it means fewer page writes and a longer
    /// recovery. Default 96 MiB, at least 4 MiB. May be another one at each open; where the disk
    /// has no room for what a larger log keeps for rollback, the log keeps its size.
    #[must_use]
    pub fn log_capacity_bytes(mut self, bytes: u64) -> Builder {
        self.log_capacity_bytes = bytes;
        self
    }

    /// Size of the buffer in which the log is assembled, in bytes. Default 8 MiB, at least 64 KiB.
    /// It is rounded up to a power of two, and is never smaller than 16 pages or larger than
    /// 256 MiB.
    #[must_use]
    pub fn log_buffer_bytes(mut self, bytes: u64) -> Builder {
        self.log_buffer_bytes = bytes;
        self
    }

    /// Page size of a database that is created, in bytes: 4096, 8192, 16384 (the default),
    /// 32768 or 65536. When an existing database is opened, it has to be its page size, or left
    /// out.
    #[must_use]
    pub fn page_size(mut self, bytes: usize) -> Builder {
        self.page_size = Some(bytes);
        self
    }

    /// How data files are read and written. Default: past the operating system's cache
    /// (`O_DIRECT`), where the file system has that.
    #[must_use]
    pub fn flush_method(mut self, method: FlushMethod) -> Builder {
        self.flush_method = method;
        self
    }

    /// What a commit waits for, unless its transaction says otherwise. Default
    /// [`FlushAtCommit::Sync`].
    #[must_use]
    pub fn flush_log_at_commit(mut self, flush: FlushAtCommit) -> Builder {
        self.flush_at_commit = flush;
        self
    }

    /// Which pages leave the cache first. Default [`ReplacementPolicy::Holdfast`].
    #[must_use]
    pub fn replacement_policy(mut self, policy: ReplacementPolicy) -> Builder {
        self.policy = policy;
        self
    }

    /// Whether the cache is told which ranges are scans. Default true; off, the replacement policy
    /// is left to find out from the references alone.
    #[must_use]
    pub fn scan_hints(mut self, on: bool) -> Builder {
        self.scan_hints = on;
        self
    }

    /// How long a statement waits for a row lock. Default 50 s.
    #[must_use]
    pub fn lock_wait_timeout(mut self, timeout: Duration) -> Builder {
        self.lock_wait_timeout = timeout;
        self
    }

    /// Memory for row locks, in bytes; where it is used up, the row locks of a transaction in a
    /// table become a lock of the table. Default 64 MiB, which is right for everything but tests.
    #[must_use]
    pub fn lock_memory_bytes(mut self, bytes: usize) -> Builder {
        self.lock_memory_bytes = bytes;
        self
    }

    /// Whether a transaction that changes a row which another one changed since its snapshot gets
    /// [`Error::Conflict`]. Default true; off, it acts on the newest committed row.
    #[must_use]
    pub fn snapshot_isolation(mut self, on: bool) -> Builder {
        self.snapshot_isolation = on;
        self
    }

    /// Bytes of old row versions kept for long snapshots, at least 1 MiB. Default 1 GiB. Beyond
    /// that the oldest snapshot is given up, and the next read of its transaction fails with
    /// [`Error::SnapshotTooOld`]. A write transaction keeps its snapshot once it has changed
    /// something, and at REPEATABLE READ with snapshot isolation from the beginning.
    #[must_use]
    pub fn version_limit_bytes(mut self, bytes: u64) -> Builder {
        self.version_limit_bytes = bytes;
        self
    }

    /// Bytes of undo log that one transaction may write, at least 1 MiB; its statement that needs
    /// more fails with [`Error::LimitReached`]. Default 4 GiB.
    #[must_use]
    pub fn undo_limit_bytes(mut self, bytes: u64) -> Builder {
        self.undo_limit_bytes = bytes;
        self
    }

    /// Whether the ids of the hot pages are saved at close and reloaded in the background at open.
    /// Default true.
    #[must_use]
    pub fn warm_up(mut self, on: bool) -> Builder {
        self.warm_up = on;
        self
    }

    /// Puts the database on `disk` instead of a directory of the file system: for tests and models.
    /// The path given to [`Builder::create`] and [`Builder::open`] is then only a name in messages.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Builder {
        self.disk = Some(disk);
        self
    }

    /// Takes time from `clock`: for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Builder {
        self.clock = Some(clock);
        self
    }

    /// Called now and then while [`Builder::open`] applies the log's tail.
    #[must_use]
    pub fn on_recovery_progress(mut self, callback: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Builder {
        self.on_recovery_progress = Some(Arc::new(callback));
        self
    }

    /// The largest cache size, given or computed.
    pub(crate) fn cache_max(&self) -> u64 {
        self.cache_size_max_bytes.unwrap_or_else(|| self.cache_size_bytes.saturating_mul(4).min(CACHE_SIZE_MAX))
    }

    /// Checks every setting.
    pub(crate) fn validate(&self) -> Result<()> {
        at_least("cache_size_bytes", self.cache_size_bytes, limits::CACHE_SIZE_MIN)?;
        at_most("cache_size_bytes", self.cache_size_bytes, CACHE_SIZE_MAX)?;
        fits_memory(self.cache_size_bytes)?;
        at_least("cache_size_max_bytes", self.cache_max(), self.cache_size_bytes)?;
        at_most("cache_size_max_bytes", self.cache_max(), CACHE_SIZE_MAX)?;
        at_least("log_capacity_bytes", self.log_capacity_bytes, limits::LOG_CAPACITY_MIN)?;
        at_least("log_buffer_bytes", self.log_buffer_bytes, 64 << 10)?;
        at_least("version_limit_bytes", self.version_limit_bytes, 1 << 20)?;
        at_least("undo_limit_bytes", self.undo_limit_bytes, 1 << 20)?;
        if let Some(size) = self.page_size
            && !limits::is_page_size(size)
        {
            return Err(Error::invalid(format!(
                "page_size = {size} is not allowed; choose 4096, 8192, 16384, 32768 or 65536"
            )));
        }
        check_policy(self.policy)
    }
}

/// Checks the parameters of `policy`.
pub(crate) fn check_policy(policy: ReplacementPolicy) -> Result<()> {
    if let ReplacementPolicy::MidpointLru { old_blocks_pct, .. } = policy
        && !(5..=95).contains(&old_blocks_pct)
    {
        return Err(Error::invalid(format!("old_blocks_pct = {old_blocks_pct} is out of range; choose 5 to 95")));
    }
    Ok(())
}

/// Refuses a setting below its minimum.
pub(crate) fn at_least(setting: &str, value: u64, min: u64) -> Result<()> {
    if value >= min {
        return Ok(());
    }
    Err(Error::invalid(format!("{setting} = {value} is too small; choose at least {min}")))
}

/// Refuses a setting above its maximum.
fn at_most(setting: &str, value: u64, max: u64) -> Result<()> {
    if value <= max {
        return Ok(());
    }
    Err(Error::invalid(format!("{setting} = {value} is too large; choose at most {max}")))
}

/// Refuses a cache that the machine has no memory for. The system would grant it all the same, and
/// end a process once enough pages have come in.
pub(crate) fn fits_memory(cache_size_bytes: u64) -> Result<()> {
    let memory = holdfast_pool::memory_with_swap_bytes();
    if cache_size_bytes <= memory {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "cache_size_bytes = {cache_size_bytes} is too large; choose less than {memory}, the memory of the machine with its swap space"
    )))
}

/// The pool's name for a policy.
pub(crate) fn policy_kind(policy: ReplacementPolicy) -> PolicyKind {
    match policy {
        ReplacementPolicy::Holdfast => PolicyKind::Holdfast,
        ReplacementPolicy::MidpointLru { old_blocks_pct, old_blocks_time_ms } => PolicyKind::MidpointLru {
            // Checked to be 5 to 95.
            old_blocks_pct: old_blocks_pct as u8,
            old_blocks_time_ms,
        },
        ReplacementPolicy::Lru => PolicyKind::Lru,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(builder: Builder) -> String {
        builder.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_range() {
        let b = Builder::default;
        assert_eq!(
            message(b().cache_size_bytes(1 << 20)),
            "cache_size_bytes = 1048576 is too small; choose at least 5242880"
        );
        assert!(message(b().page_size(5000)).contains("page_size = 5000"));
        assert!(message(b().log_capacity_bytes(1)).contains("at least 4194304"));
        assert!(message(b().cache_size_max_bytes(6 << 20)).contains("cache_size_max_bytes = 6291456"));
        // What cannot be had is refused before memory is taken for it.
        assert!(message(b().cache_size_bytes(u64::MAX)).contains("choose at most 17592186044416"));
        assert!(message(b().cache_size_max_bytes(u64::MAX)).contains("cache_size_max_bytes = 18446744073709551615"));
        assert_eq!(b().cache_size_bytes(8 << 40).cache_max(), 16 << 40);
        let memory = holdfast_pool::memory_with_swap_bytes();
        if memory < 16 << 40 {
            let said = message(b().cache_size_bytes(memory + 1));
            assert!(said.contains(&format!("cache_size_bytes = {} is too large", memory + 1)), "{said}");
        }
        let lru = ReplacementPolicy::MidpointLru { old_blocks_pct: 99, old_blocks_time_ms: 0 };
        assert!(message(b().replacement_policy(lru)).contains("old_blocks_pct = 99"));
        b().validate().unwrap();
    }
}
