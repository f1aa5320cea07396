//! The values of one database: sharded counters, gauges, wait totals, histograms.
//!
//! Invariant: every thread adds to the shard of its own number (modulo the number of shards), so
//! the sum over the shards is the count. All operations are relaxed: a metric orders nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::histogram::Histogram;
use crate::thread::thread_number;
use crate::{Counter, Gauge, Snapshot, Timing, WaitClass, WaitTotals};

/// Copies of each counter. More threads than this share copies, which is slower but not wrong.
const SHARDS: usize = 32;

struct Shard {
    counters: [AtomicU64; Counter::ALL.len()],
    /// The sum of the adjustments of each gauge.
    gauges: [AtomicI64; Gauge::ALL.len()],
    waits: [AtomicU64; WaitClass::ALL.len()],
    wait_nanos: [AtomicU64; WaitClass::ALL.len()],
}

impl Shard {
    fn new() -> Shard {
        Shard {
            counters: [const { AtomicU64::new(0) }; Counter::ALL.len()],
            gauges: [const { AtomicI64::new(0) }; Gauge::ALL.len()],
            waits: [const { AtomicU64::new(0) }; WaitClass::ALL.len()],
            wait_nanos: [const { AtomicU64::new(0) }; WaitClass::ALL.len()],
        }
    }
}

/// The calling thread's shard.
#[inline]
fn shard_of_thread() -> usize {
    thread_number() % SHARDS
}

/// The metrics of one database. All its floors share them.
pub struct Metrics {
    shards: Box<[CachePadded<Shard>]>,
    gauges: [AtomicI64; Gauge::ALL.len()],
    wait_max: [AtomicU64; WaitClass::ALL.len()],
    timings: Box<[Histogram]>,
}

impl Metrics {
    /// Creates metrics that are all zero.
    #[must_use]
    pub fn new() -> Arc<Metrics> {
        Arc::new(Metrics {
            shards: (0..SHARDS).map(|_| CachePadded::new(Shard::new())).collect(),
            gauges: [const { AtomicI64::new(0) }; Gauge::ALL.len()],
            wait_max: [const { AtomicU64::new(0) }; WaitClass::ALL.len()],
            timings: Timing::ALL.iter().map(|_| Histogram::new()).collect(),
        })
    }

    /// Adds `n` to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.shards[shard_of_thread()].counters[counter as usize].fetch_add(n, Relaxed);
    }

    /// Adds 1 to a counter.
    #[inline]
    pub fn inc(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// The value of one counter now: the sum of its shards.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        let shards = self.shards.iter();
        shards.fold(0, |sum, s| sum.wrapping_add(s.counters[counter as usize].load(Relaxed)))
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, gauge: Gauge, value: u64) {
        self.gauges[gauge as usize].store(i64::try_from(value).unwrap_or(i64::MAX), Relaxed);
    }

    /// Moves a gauge up or down. Do not mix with [`Metrics::set`] on one gauge: the two race.
    #[inline]
    pub fn adjust(&self, gauge: Gauge, by: i64) {
        self.shards[shard_of_thread()].gauges[gauge as usize].fetch_add(by, Relaxed);
    }

    /// The value of a gauge now; one that was adjusted below zero reads as 0.
    #[must_use]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        let adjusted = self.shards.iter().map(|s| s.gauges[gauge as usize].load(Relaxed));
        let value = adjusted.fold(self.gauges[gauge as usize].load(Relaxed), i64::wrapping_add);
        u64::try_from(value).unwrap_or(0)
    }

    /// Starts a wait; it is counted and timed when the guard is dropped.
    #[must_use = "the wait ends when the guard is dropped"]
    pub fn wait(&self, class: WaitClass) -> WaitTimer<'_> {
        WaitTimer { metrics: self, class, start: Instant::now() }
    }

    /// Counts a wait that was timed elsewhere.
    pub fn record_wait(&self, class: WaitClass, waited: Duration) {
        let nanos = saturating_nanos(waited);
        let (shard, class) = (&self.shards[shard_of_thread()], class as usize);
        shard.waits[class].fetch_add(1, Relaxed);
        shard.wait_nanos[class].fetch_add(nanos, Relaxed);
        if nanos > self.wait_max[class].load(Relaxed) {
            self.wait_max[class].fetch_max(nanos, Relaxed);
        }
    }

    /// Records one duration in a histogram.
    pub fn record(&self, timing: Timing, took: Duration) {
        self.timings[timing as usize].record(saturating_nanos(took));
    }

    /// All values now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let sum_over_shards = |cell: &dyn Fn(&Shard) -> &AtomicU64| {
            self.shards.iter().fold(0u64, |sum, shard| sum.wrapping_add(cell(shard).load(Relaxed)))
        };
        let waits = (0..WaitClass::ALL.len()).map(|i| WaitTotals {
            count: sum_over_shards(&|s| &s.waits[i]),
            total: Duration::from_nanos(sum_over_shards(&|s| &s.wait_nanos[i])),
            max: Duration::from_nanos(self.wait_max[i].load(Relaxed)),
        });
        Snapshot {
            counters: (0..Counter::ALL.len()).map(|i| sum_over_shards(&|s| &s.counters[i])).collect(),
            gauges: Gauge::ALL.iter().map(|g| self.gauge(*g)).collect(),
            waits: waits.collect(),
            timings: self.timings.iter().map(Histogram::snapshot).collect(),
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn saturating_nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// A wait in progress; counted and timed on drop.
#[derive(Debug)]
pub struct WaitTimer<'a> {
    metrics: &'a Metrics,
    class: WaitClass,
    start: Instant,
}

impl Drop for WaitTimer<'_> {
    fn drop(&mut self) {
        self.metrics.record_wait(self.class, self.start.elapsed());
    }
}
