//! Sizes, speeds and times of the experiment, from the published ones by two factors.
//!
//! # What the factors do
//! Every *size* (rows, pool) is divided by S. Every *speed* of the published machine (seeks per
//! second, transfer rate, request rate, the rate at which the dump's client takes rows) is
//! multiplied by D. A size over a speed is a time, so every *time* is divided by S x D: with 36 and
//! 5, the dump that took 95 s takes 0.53 s, and `old_blocks_time` is 6 ms instead of 1000. One
//! *minute* of the experiment lasts 60 s / (S x D).
//!
//! # Why that keeps the experiment
//! The outcome depends on ratios only, and both factors cancel out of these (a test computes them):
//!
//! | ratio | published |
//! |---|---|
//! | hot table : pool : big table | 1 : 2.4 : 16 |
//! | turnover of the pool by the dump : interval between touches of a hot page at the rate | 6.4 |
//! | `old_blocks_time` : turnover of the old sublist by the dump | 0.18 |
//! | time to read the hot table by seeks : turnover of the pool by the dump | 7.1 |
//! | the dump's pace : transfer rate of the disk | 0.36 |
//!
//! The second decides whether a warm hot table is evicted: a page that is not touched for a
//! turnover is evicted, and a fraction exp(-ratio) of the intervals is that long. The third and
//! fourth decide whether a cold one becomes resident.
//!
//! Two things do not scale. OLTP at full speed is as fast as machine and engine are. With a disk
//! that is D times as fast, a seek takes the time of D times fewer transactions, so OLTP slows down
//! less than at full scale. And a dump that is limited by the processor instead of by its client
//! turns the pool over too slowly. Both are reasons to keep D small and to choose a large S; one
//! core must be able to do D times what the published client did.
//!
//! The dump runs at the pace of the published one because its client, not the storage engine, set
//! that pace: 17.6 million rows in 95 s, about a third of the disk's rate. `--dump-rate 0` removes
//! the limit.

use std::time::Duration;

use holdfast_testkit::DiskModel;
use serde_json::{Value, json};

/// Rows of the hot table.
const HOT_ROWS: f64 = 1_100_000.0;
/// Rows of the big table.
const BIG_ROWS: f64 = 17_600_000.0;
/// The pool, in bytes.
pub(super) const POOL_BYTES: f64 = (512u64 << 20) as f64;
/// Bytes per row in the ceiling's pool: rows, indexes, and room to spare.
const CEILING_BYTES_PER_ROW: f64 = 420.0;
/// Transactions per second of `--rate`.
const RATE: f64 = 300.0;
/// Rows per second of the dump: 17.6 million in 95 s.
const DUMP_ROWS_PER_SECOND: f64 = BIG_ROWS / 95.0;
/// `old_blocks_time`, in milliseconds.
const OLD_BLOCKS_TIME_MS: f64 = 1000.0;

/// The factors by which the experiment is smaller and faster than published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Divides sizes.
    pub(super) size: f64,
    /// Multiplies speeds.
    speed: f64,
}

impl Scale {
    /// Sizes divided by `size`, speeds multiplied by `speed`.
    ///
    /// # Panics
    /// If one of them is not above 0.
    pub fn new(size: f64, speed: f64) -> Scale {
        assert!(size > 0.0 && speed > 0.0, "a scale is above 0");
        Scale { size, speed }
    }

    /// The divisor of times.
    fn time(&self) -> f64 {
        self.size * self.speed
    }

    /// The scale as a sentence.
    pub fn in_words(&self) -> String {
        if self.time() == 1.0 {
            return "Sizes and speeds as published.".to_owned();
        }
        format!(
            "Tables and pool are {} times smaller than published; disk, request rate and dump are {} times as fast; \
             old_blocks_time is divided by {}, as all times are.",
            self.size,
            self.speed,
            self.time()
        )
    }

    /// Rows of the hot table.
    pub fn hot_rows(&self) -> u32 {
        (HOT_ROWS / self.size) as u32
    }

    /// Rows of the big table.
    pub fn big_rows(&self) -> u32 {
        (BIG_ROWS / self.size) as u32
    }

    /// The pool, in bytes.
    pub fn pool_bytes(&self) -> u64 {
        (POOL_BYTES / self.size) as u64
    }

    /// A pool that holds both tables, in bytes.
    pub fn ceiling_bytes(&self) -> u64 {
        ((HOT_ROWS + BIG_ROWS) / self.size * CEILING_BYTES_PER_ROW) as u64 + (16 << 20)
    }

    /// The modelled disk.
    pub fn disk(&self) -> DiskModel {
        DiskModel::spinning().times_as_fast(self.speed)
    }

    /// The fixed request rate, in transactions per second.
    pub fn rate(&self) -> f64 {
        RATE * self.speed
    }

    /// The dump's pace, in rows per second.
    pub fn dump_rows_per_second(&self) -> f64 {
        DUMP_ROWS_PER_SECOND * self.speed
    }

    /// `old_blocks_time`, in milliseconds; at least 1.
    pub fn old_blocks_time_ms(&self) -> u32 {
        (OLD_BLOCKS_TIME_MS / self.time()).round().max(1.0) as u32
    }

    /// `n` minutes of the experiment.
    pub fn minutes(&self, n: f64) -> Duration {
        Duration::from_secs_f64(60.0 / self.time() * n)
    }

    /// Time between two samples: a tenth of a minute, at most a second.
    pub fn sample_interval(&self) -> Duration {
        Duration::from_secs_f64((6.0 / self.time()).min(1.0))
    }

    /// The scale, for the document.
    pub fn describe(&self) -> Value {
        json!({
            "sizes_divided_by": self.size,
            "speeds_multiplied_by": self.speed,
            "scale": self.in_words(),
            "hot_rows": self.hot_rows(),
            "big_rows": self.big_rows(),
            "pool_bytes": self.pool_bytes(),
            "ceiling_pool_bytes": self.ceiling_bytes(),
            "minute_seconds": 60.0 / self.time(),
            "old_blocks_time_1000_ms": self.old_blocks_time_ms(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ratios of the module's header, from a scale.
    fn ratios(s: &Scale) -> Vec<f64> {
        let page = 16384.0;
        let row = 196.0;
        let touches_per_transaction = 19.0;
        let dump_bytes_per_s = s.dump_rows_per_second() * row;
        let turnover = s.pool_bytes() as f64 / dump_bytes_per_s;
        let hot_pages = f64::from(s.hot_rows()) * row / page;
        let touch_interval = hot_pages / (touches_per_transaction * s.rate());
        let old_turnover = turnover * 0.37;
        vec![
            s.pool_bytes() as f64 / f64::from(s.hot_rows()),
            f64::from(s.big_rows()) / f64::from(s.hot_rows()),
            turnover / touch_interval,
            f64::from(s.old_blocks_time_ms()) / 1000.0 / old_turnover,
            hot_pages * s.disk().seek.as_secs_f64() / turnover,
            dump_bytes_per_s / s.disk().bytes_per_second as f64,
            s.minutes(1.0).as_secs_f64() / turnover,
        ]
    }

    #[test]
    fn the_factors_cancel_out_of_every_ratio() {
        let full = ratios(&Scale::new(1.0, 1.0));
        for (size, speed) in [(2.0, 1.0), (36.0, 5.0), (25.0, 5.0), (10.0, 10.0)] {
            for (at_full, scaled) in full.iter().zip(ratios(&Scale::new(size, speed))) {
                assert!((scaled / at_full - 1.0).abs() < 0.09, "{size}, {speed}: {at_full} became {scaled}");
            }
        }
    }

    #[test]
    fn the_published_ratios_are_those_of_the_header() {
        let published = [2.4, 16.0, 6.4, 0.18, 7.1, 0.36];
        let pool_to_hot = |ratio: f64| ratio / 196.0;
        for (n, (is, said)) in ratios(&Scale::new(1.0, 1.0)).into_iter().zip(published).enumerate() {
            let is = if n == 0 { pool_to_hot(is) } else { is };
            assert!((is / said - 1.0).abs() < 0.05, "{said} is {is}");
        }
    }

    #[test]
    fn full_scale_is_the_published_machine() {
        let full = Scale::new(1.0, 1.0);
        assert_eq!((full.hot_rows(), full.big_rows(), full.pool_bytes()), (1_100_000, 17_600_000, 512 << 20));
        assert_eq!((full.disk().seek, full.disk().bytes_per_second), (Duration::from_millis(8), 100_000_000));
        assert_eq!((full.old_blocks_time_ms(), full.rate()), (1000, 300.0));
        assert_eq!(full.minutes(1.0), Duration::from_secs(60));
    }
}
