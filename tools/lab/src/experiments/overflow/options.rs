//! The options of the experiment, and what it does not vary.

use holdfast_workload::sysbench::Mix;

use crate::server::turns::Plan;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// Rows of the table; on a server that the user names they follow from its cache.
    pub rows: u32,
    /// Pools, as shares of the data; on the embedded engine 5 MB comes first in any case.
    pub shares: Vec<f64>,
    /// Threads or clients.
    pub threads: Vec<usize>,
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
