//! What accesses add up to.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use holdfast_base::blocking::Mutex;
use holdfast_metrics::thread_number;
use holdfast_policy::ScanHistory;

/// What all accesses to one index, or one space, add up to. Shared.
#[derive(Debug, Default)]
pub struct AccessStats {
    shards: [CachePadded<StatsShard>; STATS_SHARDS],
    pub(crate) scans: Mutex<ScanHistory>,
}

/// Copies of the numbers of an [`AccessStats`], so that two threads mostly do not write to one
/// cache line.
const STATS_SHARDS: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct StatsShard {
    pub(crate) requests: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) created: AtomicU64,
}

impl AccessStats {
    /// Pages asked for.
    pub fn requests(&self) -> u64 {
        self.sum(|shard| &shard.requests)
    }
    /// Pages read from disk because they were asked for.
    pub fn reads(&self) -> u64 {
        self.sum(|shard| &shard.reads)
    }
    /// Pages created.
    pub fn created(&self) -> u64 {
        self.sum(|shard| &shard.created)
    }

    fn sum(&self, number: impl Fn(&StatsShard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| number(shard).load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn of_thread(&self) -> &StatsShard {
        &self.shards[thread_number() % STATS_SHARDS]
    }
}
