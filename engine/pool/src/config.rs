//! What a pool is opened with.

use std::sync::Arc;

use holdfast_base::{Error, Result, limits};
use holdfast_io::{Clock, Disk, RealClock};
use holdfast_policy::PolicyKind;

/// Pages of one batch of writes, at most.
pub(crate) const BATCH: usize = 64;
/// All reservations together: at most one frame in so many.
pub(crate) const SHARE: u32 = 4;
/// Frames that one reservation may ask for in the smallest pool.
pub const RESERVED_MAX: usize = 8;

/// Whether page writes go through the double-write file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoubleWrite {
    /// Unless the file that is written promises atomic writes of a whole page.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: a power cut may leave torn pages that only a backup can repair.
    Off,
}

/// Settings of a pool. Start from [`PoolConfig::new`].
#[derive(Clone)]
pub struct PoolConfig {
    /// Where the files `doublewrite` and `warmup` live.
    pub disk: Arc<dyn Disk>,
    /// Bytes of a page; a power of two from 4 to 64 KiB.
    pub page_size: usize,
    /// Bytes of frames at the start; at least 32 pages.
    pub bytes: u64,
    /// Bytes of frames that [`resize`](crate::Pool::resize) can reach: address space, not memory.
    pub max_bytes: u64,
    /// True if the memory of the frames at the start is taken from the system when the pool opens,
    /// not when each is first used.
    pub populate: bool,
    /// The replacement policy.
    pub policy: PolicyKind,
    /// Number of partitions of the miss path; 0 chooses by cores and frames.
    pub partitions: usize,
    /// Whether page writes go through the double-write file.
    pub doublewrite: DoubleWrite,
    /// How far the double-write file may grow. The more images it holds, the longer each can be
    /// relied on; but for no longer than until the next checkpoint, so more than the log's capacity
    /// is of little use.
    pub doublewrite_bytes: u64,
    /// True if the cleaner, the checkpointer and the read-ahead threads run. Without them
    /// everything still works, on the threads that call: for deterministic tests.
    pub background: bool,
    /// Threads that read ahead.
    pub read_ahead_threads: usize,
    /// The log age at which an even load settles, in percent of the log's capacity.
    pub checkpoint_target_pct: u8,
    /// Where the time of touches comes from.
    pub clock: Arc<dyn Clock>,
}

impl PoolConfig {
    /// A pool of `bytes` bytes with default settings.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, page_size: usize, bytes: u64) -> PoolConfig {
        PoolConfig {
            disk,
            page_size,
            bytes,
            max_bytes: bytes.saturating_mul(4),
            populate: false,
            policy: PolicyKind::default(),
            partitions: 0,
            doublewrite: DoubleWrite::Auto,
            doublewrite_bytes: 64 << 20,
            background: true,
            read_ahead_threads: 2,
            checkpoint_target_pct: 65,
            clock: Arc::new(RealClock::new()),
        }
    }

    /// (frames at the start, frames at most).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a setting is out of range.
    pub(crate) fn frames(&self) -> Result<(u32, u32)> {
        if !limits::is_page_size(self.page_size) {
            return Err(Error::invalid(format!("{} is not a page size: 4, 8, 16, 32 or 64 KiB", self.page_size)));
        }
        let frames = |bytes: u64| u32::try_from(bytes / self.page_size as u64).unwrap_or(MAX_FRAMES).min(MAX_FRAMES);
        let (start, max) = (frames(self.bytes), frames(self.max_bytes.max(self.bytes)));
        if start < MIN_FRAMES {
            let min = u64::from(MIN_FRAMES) * self.page_size as u64;
            return Err(Error::invalid(format!(
                "a pool of {} bytes is too small: {MIN_FRAMES} pages of {} bytes, {min} bytes, are the least",
                self.bytes, self.page_size
            )));
        }
        if self.checkpoint_target_pct > 70 {
            return Err(Error::invalid(
                "the target of the checkpoint is 70 % of the log at most: users wait for room from 75 % on",
            ));
        }
        Ok((start, max))
    }

    /// Partitions for so many frames: few, because only misses take their mutex, and each divides
    /// the policy's view.
    pub(crate) fn partition_count(&self, frames: u32) -> usize {
        if self.partitions > 0 {
            return self.partitions.min(MAX_PARTITIONS);
        }
        let cores = holdfast_base::thread::cores();
        (cores / 4).min(frames as usize / PARTITION_FRAMES).clamp(1, MAX_PARTITIONS)
    }
}

/// Fewer frames do not let every structure change reserve what it may need.
const MIN_FRAMES: u32 = SHARE * RESERVED_MAX as u32;
/// Translation entries are 32 bits, with a few values taken.
const MAX_FRAMES: u32 = u32::MAX - 16;
/// Frames of a partition, at least. The simulation has small caches of several partitions.
const PARTITION_FRAMES: usize = if cfg!(sim) { 512 } else { 4096 };
const MAX_PARTITIONS: usize = 64;

impl std::fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolConfig")
            .field("disk", &self.disk.describe())
            .field("page_size", &self.page_size)
            .field("bytes", &self.bytes)
            .field("max_bytes", &self.max_bytes)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
