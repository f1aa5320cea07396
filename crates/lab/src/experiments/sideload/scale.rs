//! Sizes, speeds and times of the experiment, from the published ones by one factor.
//!
//! # What the factor does
//! At factor F every *size* (rows, pool) is divided by F, and every *speed* of the published machine (seek time,
//! transfer rate, request rate, the rate at which the dump's client takes rows) is F times as high. A size over a
//! speed is a time, so every *time* shrinks by F squared: the dump that took 95 s takes 0.95 s at factor 10, and
//! `old_blocks_time` is 10 ms instead of 1000. One *minute* of the experiment lasts 60 s / F^2.
//!
//! # Why that keeps the experiment
//! The outcome depends on ratios only, and the factor cancels out of these:
//!
//! | ratio | published |
//! |---|---|
//! | hot table : pool : big table | 1 : 2.4 : 19 |
//! | time in which the dump turns the pool over : interval between two touches of a hot page at the request rate | 4.7 |
//! | `old_blocks_time` : time in which the dump turns the old sublist over | 1 : 4 |
//! | time to read the hot table by seeks : time in which the dump, sharing the arm, turns the pool over | 30 |
//! | the dump's pace : transfer rate of the disk | 0.45 |
//!
//! The second decides whether a warm hot table is washed out (a page that is not touched for a turnover is gone,
//! and a fraction exp(-ratio) of the intervals is as long as that), the third and fourth whether a cold one gets
//! warm. What does not scale is the processor: OLTP at full speed is as fast as the machine and the engine are.
//! A faster disk makes a seek cost *fewer* transactions, so the collapse is shown smaller than it is at full scale,
//! by up to F.
//!
//! The dump is held to the pace of the published one because its client, not the storage engine, set that pace:
//! 17.6 million rows in 95 s, 45 % of what the disk could give. `--dump-rate 0` lets it go.

use std::time::Duration;

use serde_json::{Value, json};

/// Rows of the hot table.
const HOT_ROWS: f64 = 1_100_000.0;
/// Rows of the big table.
const BIG_ROWS: f64 = 17_600_000.0;
/// The pool, in bytes.
const POOL_BYTES: f64 = (512u64 << 20) as f64;
/// Bytes per row in the ceiling's pool: rows, indexes, and room to spare.
const CEILING_BYTES_PER_ROW: f64 = 420.0;
/// Seek of the disk, in seconds.
const SEEK: f64 = 0.008;
/// Transfer rate of the disk, in bytes per second.
const BYTES_PER_SECOND: f64 = 100e6;
/// Transactions per second of `--rate`.
const RATE: f64 = 300.0;
/// Rows per second of the dump: 17.6 million in 95 s.
const DUMP_ROWS_PER_SECOND: f64 = BIG_ROWS / 95.0;
/// `old_blocks_time`, in milliseconds.
const OLD_BLOCKS_TIME_MS: f64 = 1000.0;

/// How much smaller and faster than published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    factor: f64,
    /// Length of the phases, as a multiple.
    patience: f64,
}

impl Scale {
    /// Scale by `factor`; phases last `patience` times as long as in quick mode.
    ///
    /// # Panics
    /// If one of them is not above 0.
    #[must_use]
    pub fn new(factor: f64, patience: f64) -> Scale {
        assert!(factor > 0.0 && patience > 0.0, "a scale is above 0");
        Scale { factor, patience }
    }

    /// The factor.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Rows of the hot table.
    #[must_use]
    pub fn hot_rows(&self) -> u32 {
        (HOT_ROWS / self.factor) as u32
    }

    /// Rows of the big table.
    #[must_use]
    pub fn big_rows(&self) -> u32 {
        (BIG_ROWS / self.factor) as u32
    }

    /// The pool, in bytes.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        (POOL_BYTES / self.factor) as u64
    }

    /// A pool that holds both tables, in bytes.
    #[must_use]
    pub fn ceiling_bytes(&self) -> u64 {
        ((HOT_ROWS + BIG_ROWS) / self.factor * CEILING_BYTES_PER_ROW) as u64 + (16 << 20)
    }

    /// Seek of the modelled disk.
    #[must_use]
    pub fn seek(&self) -> Duration {
        Duration::from_secs_f64(SEEK / self.factor)
    }

    /// Transfer rate of the modelled disk, in bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        (BYTES_PER_SECOND * self.factor) as u64
    }

    /// The fixed request rate, in transactions per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        RATE * self.factor
    }

    /// The dump's pace, in rows per second.
    #[must_use]
    pub fn dump_rows_per_second(&self) -> f64 {
        DUMP_ROWS_PER_SECOND * self.factor
    }

    /// `old_blocks_time`, in milliseconds; at least 1.
    #[must_use]
    pub fn old_blocks_time_ms(&self) -> u32 {
        (OLD_BLOCKS_TIME_MS / self.factor / self.factor).round().max(1.0) as u32
    }

    /// So many minutes of the experiment.
    #[must_use]
    pub fn minutes(&self, n: f64) -> Duration {
        Duration::from_secs_f64(60.0 / self.factor / self.factor * n * self.patience)
    }

    /// Time between two samples: a tenth of a minute, at most a second.
    #[must_use]
    pub fn sample_interval(&self) -> Duration {
        Duration::from_secs_f64((6.0 / self.factor / self.factor).min(1.0))
    }

    /// For the document.
    #[must_use]
    pub fn describe(&self) -> Value {
        json!({
            "factor": self.factor,
            "hot_rows": self.hot_rows(),
            "big_rows": self.big_rows(),
            "pool_bytes": self.pool_bytes(),
            "ceiling_pool_bytes": self.ceiling_bytes(),
            "minute_seconds": self.minutes(1.0 / self.patience).as_secs_f64(),
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
            hot_pages * s.seek().as_secs_f64() / turnover,
            dump_bytes_per_s / s.bytes_per_second() as f64,
            s.minutes(1.0).as_secs_f64() / turnover,
        ]
    }

    #[test]
    fn the_factor_cancels_out_of_every_ratio() {
        let full = ratios(&Scale::new(1.0, 1.0));
        for factor in [2.0, 10.0, 16.0] {
            for (at_full, scaled) in full.iter().zip(ratios(&Scale::new(factor, 1.0))) {
                assert!((scaled / at_full - 1.0).abs() < 0.03, "factor {factor}: {at_full} became {scaled}");
            }
        }
    }

    #[test]
    fn full_scale_is_the_published_machine() {
        let full = Scale::new(1.0, 1.0);
        assert_eq!((full.hot_rows(), full.big_rows(), full.pool_bytes()), (1_100_000, 17_600_000, 512 << 20));
        assert_eq!((full.seek(), full.bytes_per_second()), (Duration::from_millis(8), 100_000_000));
        assert_eq!((full.old_blocks_time_ms(), full.rate()), (1000, 300.0));
        assert_eq!(full.minutes(1.0), Duration::from_secs(60));
    }
}
