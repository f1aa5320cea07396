//! A log-linear histogram of durations that many threads record into at once.
//!
//! Each power of two of nanoseconds is split into [`SUB`] equal buckets, so a quantile is known to
//! within 1/8 of its value, from one nanosecond to centuries, in 4 KiB. Recording is two or three
//! relaxed atomic operations on the copy of the thread's group, so threads that record at the same
//! time rarely share a cache line. A snapshot adds the copies up. A snapshot taken while threads
//! record may be off by the records in flight.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::thread::Spread;

/// Buckets per power of two.
const SUB: usize = 8;
const SUB_BITS: u32 = SUB.trailing_zeros();
/// Values below `SUB` have a bucket each; above, `SUB` per power of two up to 2^64.
const BUCKETS: usize = SUB + (64 - SUB_BITS as usize) * SUB;

fn bucket_of(nanos: u64) -> usize {
    if nanos < SUB as u64 {
        return nanos as usize;
    }
    let exponent = nanos.ilog2();
    let sub = (nanos >> (exponent - SUB_BITS)) as usize & (SUB - 1);
    SUB + (exponent - SUB_BITS) as usize * SUB + sub
}

/// The largest value that falls into `bucket`.
fn upper_bound(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = ((bucket - SUB) / SUB) as u32;
    let first = (SUB + (bucket - SUB) % SUB) as u64;
    (first << shift) + ((1u64 << shift) - 1)
}

/// The shards that threads record into.
pub(crate) struct Histogram(Spread<Shard>);

struct Shard {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram(Spread::new(|| {
            let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
            Shard { buckets, sum: AtomicU64::new(0), max: AtomicU64::new(0) }
        }))
    }

    pub(crate) fn record(&self, nanos: u64) {
        let shard = self.0.mine();
        shard.buckets[bucket_of(nanos)].fetch_add(1, Relaxed);
        shard.sum.fetch_add(nanos, Relaxed);
        if nanos > shard.max.load(Relaxed) {
            shard.max.fetch_max(nanos, Relaxed);
        }
    }

    pub(crate) fn snapshot(&self) -> Distribution {
        let sum = |of: &dyn Fn(&Shard) -> u64| self.0.all().map(of).fold(0, u64::wrapping_add);
        let buckets: Vec<u64> = (0..BUCKETS).map(|n| sum(&|shard| shard.buckets[n].load(Relaxed))).collect();
        Distribution {
            count: buckets.iter().sum(),
            buckets,
            sum: sum(&|shard| shard.sum.load(Relaxed)),
            max: self.0.all().map(|shard| shard.max.load(Relaxed)).max().unwrap_or(0),
        }
    }
}

/// A distribution of durations at one moment, or between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Distribution {
    /// Durations recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The longest since the start (a delta keeps it: it cannot be subtracted).
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The mean; zero if nothing was recorded.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum.checked_div(self.count).unwrap_or(0))
    }

    /// The duration that a share `q` (0 to 1) of the records did not exceed, to within 1/8 and
    /// never above the maximum; zero if nothing was recorded.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = ((self.count as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Duration::from_nanos(upper_bound(bucket).min(self.max));
            }
        }
        Duration::ZERO
    }

    /// Number of records that took at most each power of two of nanoseconds, from `2^low` to
    /// `2^high`: the cumulative buckets of a Prometheus histogram.
    pub(crate) fn cumulative(&self, low: u32, high: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        (low..=high).map(|exponent| {
            let bound = 1u64 << exponent;
            (bound, self.buckets[..bucket_of(bound)].iter().sum())
        })
    }

    pub(crate) fn delta(&self, earlier: &Distribution) -> Distribution {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        let buckets: Vec<u64> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let count = buckets.iter().sum();
        Distribution { buckets, count, sum: self.sum.wrapping_sub(earlier.sum), max: self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_hold_their_bounds() {
        for bucket in 0..BUCKETS {
            let upper = upper_bound(bucket);
            assert_eq!(bucket_of(upper), bucket);
            if let Some(next) = upper.checked_add(1) {
                assert_eq!(bucket_of(next), bucket + 1);
            } else {
                assert_eq!(bucket, BUCKETS - 1);
            }
        }
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let h = Histogram::new();
        for nanos in 1..=100_000 {
            h.record(nanos);
        }
        let d = h.snapshot();
        assert_eq!(d.count(), 100_000);
        assert_eq!(d.max(), Duration::from_nanos(100_000));
        assert_eq!(d.mean(), Duration::from_nanos(50_000));
        for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let (got, exact) = (d.quantile(q).as_nanos() as f64, 100_000.0 * q);
            assert!(got >= exact && got <= exact * 1.125 + 1.0, "{q}: {got}");
        }
    }

    #[test]
    fn an_empty_distribution_is_all_zero() {
        let d = Histogram::new().snapshot();
        assert_eq!((d.count(), d.mean(), d.quantile(0.99)), (0, Duration::ZERO, Duration::ZERO));
    }
}
