//! Settings of a log, and the sizes that follow from them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_base::{Error, Result, limits};

use crate::format::{GROUP_BYTES_MAX, GROUP_HEADER, SEGMENT_HEADER};

/// What a commit waits for, per database or per transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlushAtCommit {
    /// A commit waits for nothing. The log is written and synced about once a second. A crash of
    /// the process may lose the last second or so of commits, and never a part of one. InnoDB's 0.
    Lazy,
    /// A commit waits until the log is on stable storage. An acknowledged commit survives a power
    /// cut. InnoDB's 1. The default.
    #[default]
    Sync,
    /// A commit waits until the operating system has the log, which is synced about once a second.
    /// An acknowledged commit survives the end of the process; a power cut may lose it. InnoDB's 2.
    Write,
}

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct WalConfig {
    /// The bytes that the segment files may take together; at least [`limits::LOG_CAPACITY_MIN`].
    pub capacity_bytes: u64,
    /// The bytes of the log buffer. They are rounded up to a power of two, to at least 64 KiB and
    /// 16 pages, and are at most 256 MiB.
    pub buffer_bytes: usize,
    /// The page size of the database. It is recorded in the segment headers, and a log of another
    /// page size is refused.
    pub page_size: u32,
    /// The delay that [`crate::Wal::throttle_delay`] reaches at the age at which user tickets wait.
    pub throttle_max: Duration,
}

impl Default for WalConfig {
    fn default() -> WalConfig {
        WalConfig {
            capacity_bytes: 96 << 20,
            buffer_bytes: 8 << 20,
            page_size: limits::PAGE_SIZE_DEFAULT as u32,
            throttle_max: Duration::from_millis(10),
        }
    }
}

/// The least number of pages that the log buffer holds. The longest group is a quarter of the
/// buffer, and the largest mini-transaction, the split of a node, logs up to three pages. A smaller
/// buffer would refuse that group after the pages have been changed.
const BUFFER_PAGES_MIN: usize = 16;

/// The least number of segments that the capacity is divided into. There are more if a segment
/// would exceed [`SEGMENT_BYTES_MAX`].
const SEGMENTS_MIN: u64 = 16;
/// The longest segment file, in bytes.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// The sizes that follow from a [`WalConfig`].
///
/// `user_limit < system_limit < hard_limit` are ages (bytes from the checkpoint to the end of the
/// log). A ticket of a class waits if it would bring the age above the limit of the class.
/// `hard_limit` is one segment less than the capacity: the segment with the checkpoint cannot be
/// reused while one byte of it is needed. So the files never exceed the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The bytes that the segment files may take together.
    pub capacity: u64,
    /// The log bytes of one segment.
    pub segment_data: u64,
    /// The number of segment files that make up the capacity.
    pub segments: u64,
    /// The age that users may reach.
    pub user_limit: u64,
    /// The age that rollback and purge may reach.
    pub system_limit: u64,
    /// The age that the checkpointer may reach.
    pub hard_limit: u64,
    /// The age at which the throttle begins.
    pub throttle_from: u64,
    /// The bytes of the ring.
    pub ring_bytes: usize,
    /// The longest group in bytes, header and padding included.
    pub group_max: u64,
}

impl Geometry {
    /// Derives the sizes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the capacity is too small.
    pub fn new(config: &WalConfig) -> Result<Geometry> {
        let capacity = config.capacity_bytes;
        if capacity < limits::LOG_CAPACITY_MIN {
            let min = limits::LOG_CAPACITY_MIN;
            return Err(Error::invalid(format!("a log capacity of {capacity} bytes is below the minimum of {min}")));
        }
        let least = (64 << 10).max(BUFFER_PAGES_MIN * config.page_size as usize);
        let ring_bytes = config.buffer_bytes.clamp(least, 256 << 20).next_power_of_two();
        Ok(Geometry::of(capacity, ring_bytes, (ring_bytes as u64 / 4).min(GROUP_BYTES_MAX)))
    }

    /// Derives the sizes from a capacity that is at least the minimum. No group is longer than
    /// `group_max`.
    fn of(capacity: u64, ring_bytes: usize, group_max: u64) -> Geometry {
        let file = (capacity / SEGMENTS_MIN).min(SEGMENT_BYTES_MAX) & !(SEGMENT_HEADER - 1);
        let (segment_data, segments) = (file - SEGMENT_HEADER, capacity / file);
        let hard_limit = (segments - 1) * segment_data;
        let system_limit = hard_limit - segment_data;
        let user_limit = system_limit - 2 * segment_data;
        let group_max = group_max.min(2 * segment_data) & !(GROUP_HEADER - 1);
        // The checkpointer keeps the age of a steady load a little above 60 %; the throttle begins
        // above that.
        let steady = capacity / 100 * 60;
        let throttle_from = steady + (user_limit - steady) / 2;
        Geometry {
            capacity,
            segment_data,
            segments,
            user_limit,
            system_limit,
            hard_limit,
            throttle_from,
            ring_bytes,
            group_max,
        }
    }

    /// The sizes of a log whose segments hold `segment_data` bytes each, with this buffer.
    pub fn of_segments(&self, segment_data: u64) -> Geometry {
        let capacity = (segment_data + SEGMENT_HEADER) * SEGMENTS_MIN;
        Geometry::of(capacity.max(limits::LOG_CAPACITY_MIN), self.ring_bytes, self.group_max)
    }

    /// The bytes behind the end of the log that are kept from users, for rollback, purge and the
    /// checkpoint.
    pub fn kept(&self) -> u64 {
        self.hard_limit - self.user_limit
    }

    /// The bytes that should be prepared beyond what tickets promise: the bytes that are kept from
    /// users, and one segment with a byte of the next. With these, users go on however full the
    /// disk is: when they have filled that segment, it can be recycled.
    pub fn ahead(&self) -> u64 {
        self.kept() + self.segment_data + 1
    }
}

/// The sizes in force. The capacity may be changed while the log is used; the buffer and the
/// longest group stay.
///
/// What follows from the capacity is derived at each call. So readers see sizes that fit each
/// other, without a lock.
pub struct Sizes {
    capacity: AtomicU64,
    ring_bytes: usize,
    group_max: u64,
}

impl Sizes {
    /// The sizes of a log that is being opened.
    pub fn new(geometry: Geometry) -> Sizes {
        let Geometry { capacity, ring_bytes, group_max, .. } = geometry;
        Sizes { capacity: AtomicU64::new(capacity), ring_bytes, group_max }
    }

    /// The longest group in bytes, header and padding included.
    pub fn group_max(&self) -> u64 {
        self.group_max
    }

    /// The present sizes.
    pub fn get(&self) -> Geometry {
        Geometry::of(self.capacity.load(Ordering::Acquire), self.ring_bytes, self.group_max)
    }

    /// Changes the sizes to those of `geometry`. Buffer and longest group stay.
    pub fn set(&self, geometry: &Geometry) {
        self.capacity.store(geometry.capacity, Ordering::Release);
    }

    /// Returns the sizes with a capacity of `capacity_bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the capacity is smaller than the log buffer requires.
    pub fn of_capacity(&self, config: &WalConfig, capacity_bytes: u64) -> Result<Geometry> {
        let geometry = Geometry::new(&WalConfig { capacity_bytes, ..config.clone() })?;
        if geometry.group_max < self.group_max {
            let least = (self.group_max / 2 + SEGMENT_HEADER).next_multiple_of(SEGMENT_HEADER) * SEGMENTS_MIN;
            return Err(Error::invalid(format!(
                "a log capacity of {capacity_bytes} bytes is too small for the log buffer, which was chosen at open: it needs {least}"
            )));
        }
        Ok(geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_capacity() {
        let config = WalConfig { capacity_bytes: 96 << 20, buffer_bytes: 16 << 20, ..WalConfig::default() };
        let sizes = Sizes::new(Geometry::new(&config).unwrap());
        assert_eq!(sizes.get(), Geometry::new(&config).unwrap());
        let larger = WalConfig { capacity_bytes: 1 << 30, ..config.clone() };
        sizes.set(&sizes.of_capacity(&config, 1 << 30).unwrap());
        assert_eq!(sizes.get(), Geometry::new(&larger).unwrap());
        let message = sizes.of_capacity(&config, 8 << 20).unwrap_err().to_string();
        assert!(message.contains("it needs 33619968"), "{message}");
        assert!(sizes.of_capacity(&config, 33_619_968).is_ok() && sizes.of_capacity(&config, 33_000_000).is_err());
    }

    #[test]
    fn the_files_never_exceed_the_capacity() {
        for capacity_bytes in [4 << 20, (4 << 20) + 12345, 96 << 20, 10 << 30] {
            let g = Geometry::new(&WalConfig { capacity_bytes, ..WalConfig::default() }).unwrap();
            assert!(g.segments * (g.segment_data + SEGMENT_HEADER) <= capacity_bytes);
            assert!(g.throttle_from < g.user_limit, "throttling has room to grow");
            assert!(g.user_limit < g.system_limit && g.system_limit < g.hard_limit);
            assert_eq!(g.segment_data % GROUP_HEADER, 0);
            assert!(g.group_max <= g.system_limit - g.user_limit);
        }
    }

    #[test]
    fn a_small_capacity_is_refused() {
        let config = WalConfig { capacity_bytes: limits::LOG_CAPACITY_MIN - 1, ..WalConfig::default() };
        let err = Geometry::new(&config).unwrap_err();
        assert!(err.to_string().contains("below the minimum of 4194304"), "{err}");
    }
}
