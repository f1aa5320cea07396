//! The options of the experiment, and what it does not vary.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_workload::sysbench::Mix;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows of the table.
    pub rows: u32,
    /// Pools, as shares of the data; 5 MB comes first in any case.
    pub shares: Vec<f64>,
    /// Threads.
    pub threads: Vec<usize>,
    /// Length of a turn.
    pub turn: Duration,
    /// Directory of the disk.
    pub dir: PathBuf,
    /// Seed of data and load.
    pub seed: u64,
}

impl Options {
    /// An upper bound of the table's size.
    pub(super) fn data_bytes_at_most(&self) -> u64 {
        u64::from(self.rows) * 260
    }
}

/// The smallest pool.
pub(super) const SMALLEST: u64 = 5 << 20;
/// Rows of a range, as published.
pub(crate) const RANGE: u32 = 1000;

/// The transactions: ranges of [`RANGE`] rows.
pub(super) fn mix() -> Mix {
    Mix { range_size: RANGE, ..Mix::READ_ONLY }
}
