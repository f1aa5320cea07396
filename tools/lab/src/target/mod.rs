//! The subject of an experiment: a [`Target`] is a store with the tables of the experiment in it
//! and a pool of a given size and policy in front of its disk. A [`Site`] holds the data and opens
//! targets on it.
//!
//! Experiments use only these traits, so that a server can take the place of the embedded engine.

pub(crate) mod embedded;
mod site;

use std::fmt;

use anyhow::Result;

pub use site::{Content, EmbeddedSite, TableSpec, described, disk};

/// The name of the engine in this process as a target.
pub(crate) const EMBEDDED: &str = "embedded";

/// The hint that the cache gets about a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The scan is declared.
    Declared,
    /// The scan is undeclared, as any query; the engine detects it when it has walked far enough.
    /// The default.
    Undeclared,
    /// The scan is undeclared, and the engine does not detect it: the policy sees single references
    /// only (`scan_hints` off).
    Off,
}

/// A replacement policy with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Holdfast's.
    Holdfast {
        /// The hint that the cache gets about the dump.
        hint: Hint,
    },
    /// InnoDB's list with a midpoint.
    Midpoint {
        /// `old_blocks_pct`.
        pct: u32,
        /// `old_blocks_time`, in milliseconds.
        time_ms: u32,
    },
}

impl Policy {
    /// The class of its colour in charts.
    pub(crate) fn tone(self) -> &'static str {
        match self {
            Policy::Holdfast { hint: Hint::Declared } => "holdfast",
            Policy::Holdfast { hint: Hint::Undeclared } => "holdfast-plain",
            Policy::Holdfast { hint: Hint::Off } => "holdfast-alone",
            Policy::Midpoint { time_ms: 0, .. } => "midpoint-0",
            Policy::Midpoint { pct: 5, .. } => "midpoint-5",
            Policy::Midpoint { time_ms: 60_000, .. } => "midpoint-late",
            Policy::Midpoint { .. } => "midpoint",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Holdfast { hint: Hint::Declared } => f.write_str("holdfast"),
            Policy::Holdfast { hint: Hint::Undeclared } => f.write_str("holdfast (scan undeclared)"),
            Policy::Holdfast { hint: Hint::Off } => f.write_str("holdfast (policy alone)"),
            Policy::Midpoint { pct, time_ms } => write!(f, "midpoint_lru (pct {pct}, time {time_ms} ms)"),
        }
    }
}

/// The parameters of a target on a [`Site`].
#[derive(Clone, Copy, Debug)]
pub struct TargetSpec {
    /// Replacement policy of the pool.
    pub policy: Policy,
    /// Size of the pool, in bytes.
    pub pool_bytes: u64,
    /// The copy of the data: two targets that are open at the same time need two.
    pub copy: usize,
}

/// The data of an experiment.
pub trait Site {
    /// Opens a target with an empty pool.
    fn open(&self, spec: &TargetSpec) -> Result<Box<dyn Target + Sync + '_>>;

    /// Name of the kind of targets, for the document.
    fn target_name(&self) -> &'static str;

    /// True if its targets can have this policy.
    fn has(&self, _policy: Policy) -> bool {
        true
    }

    /// The name of a policy on this site.
    fn policy_name(&self, policy: Policy) -> String {
        policy.to_string()
    }
}

/// An open store that is queried.
pub trait Target {
    /// Runs a report query on a connection of its own and returns its result.
    fn query(&self, query: Query) -> Result<f64>;

    /// The state of the pool.
    fn pool(&self) -> Result<PoolState>;
}

/// A report query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// `SELECT SUM(no_w_id) FROM new_order`: table 0.
    SumNewOrder,
    /// `SELECT SUM(s_quantity) FROM stock WHERE s_data LIKE 'a%'`: table 1.
    SumStock,
}

/// The part of an index in the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Resident {
    /// The table; for pages that belong to no table, what they are.
    pub table: String,
    /// The index; `PRIMARY` for the table itself.
    pub index: String,
    /// Its resident pages.
    pub pages: u64,
    /// 10^6 bytes.
    pub mb: f64,
}

/// Frames without a page, in a list of [`Resident`].
pub(crate) const FREE: &str = "(free)";

/// The part of `index` of `table` in the cache, in 10^6 bytes; of all indexes if none is named.
pub(crate) fn mb_of(all: &[Resident], table: &str, index: &str) -> f64 {
    let of = all.iter().filter(|r| r.table == table && (index.is_empty() || r.index == index));
    of.map(|r| r.mb).fold(0.0, |sum, mb| sum + mb)
}

/// The state of a pool, with InnoDB's names. Counters only grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolState {
    /// Size of a page, in bytes.
    pub page_bytes: u64,
    /// Frames.
    pub pool_pages: u64,
    /// Frames without a page.
    pub free_pages: u64,
    /// Frames with a page.
    pub database_pages: u64,
    /// Pages of the old sublist (`midpoint_lru`), of small queue and ring (`holdfast`).
    pub old_pages: u64,
    /// Pages that were moved to where they stay longer.
    pub made_young: u64,
    /// Touches that did not move a page there.
    pub not_young: u64,
    /// Page accesses.
    pub gets: u64,
    /// Pages read from disk.
    pub pages_read: u64,
    /// Pages created.
    pub pages_created: u64,
    /// Pages written to disk.
    pub pages_written: u64,
    /// By table and index.
    pub indexes: Vec<Resident>,
    /// Pages read from the file of each table, read-ahead included.
    pub disk_reads: Vec<(String, u64)>,
}

impl PoolState {
    /// Resident pages of all indexes of `table`.
    pub fn resident(&self, table: &str) -> u64 {
        self.indexes.iter().filter(|i| i.table == table).map(|i| i.pages).sum()
    }

    /// Pages read from the file of `table`.
    pub fn disk_reads(&self, table: &str) -> u64 {
        self.disk_reads.iter().find(|(name, _)| name == table).map_or(0, |(_, pages)| *pages)
    }

    /// Resident pages of an index of `table`.
    pub fn resident_of(&self, table: &str, index: &str) -> u64 {
        self.indexes.iter().find(|i| i.table == table && i.index == index).map_or(0, |i| i.pages)
    }

    /// `pages` in MB (10^6 bytes).
    pub fn mb(&self, pages: u64) -> f64 {
        (pages * self.page_bytes) as f64 / 1e6
    }
}
