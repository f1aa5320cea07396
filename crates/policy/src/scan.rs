//! Which declared scans go through the ring, and which part of a table that is scanned again and again is kept.
//!
//! A scan of a table that is small against the pool is no threat: its pages go the normal way. A larger one goes
//! through the ring, so that it cannot wash anything out. If it comes back before the pool has turned over once,
//! and the table is not many times the pool, the ring would make every scan read everything: then a fixed part of
//! the table's pages, chosen by a hash of the page, is admitted. The part is the same in every scan, so from the
//! third scan on it is found in the pool.
//!
//! Pure state: the caller supplies sizes and the count of pages that came into the pool.

use crate::ghost::mix;
use crate::touch::ScanHint;

/// The largest part of the frames that pages of all declared scans together may hold: one in so many.
pub const SCAN_BUDGET_DIVISOR: usize = 8;

/// A declared scan goes through the ring if the table is larger than one in so many of the frames.
const RING_FROM_DIVISOR: u64 = 2;
/// A table larger than so many pools is never partly admitted: too little of it would be found again.
const ADMIT_POOLS_MAX: u64 = 4;
/// The admitted part of a table: at most one in so many of the frames.
const ADMIT_DIVISOR: u64 = 2;

/// Frames that declared scans may hold together, at most: the bound for rings and read-ahead.
#[must_use]
pub fn scan_budget(frames: usize) -> usize {
    (frames / SCAN_BUDGET_DIVISOR).max(1)
}

/// How one declared scan treats its pages. Made by [`ScanHistory::begin`], valid for that scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    /// A page is admitted if the upper half of its hash is below this; `1 << 32` admits all.
    admit_below: u64,
}

impl ScanPlan {
    /// All pages go the normal way.
    pub const ADMIT_ALL: ScanPlan = ScanPlan { admit_below: 1 << 32 };
    /// All pages go through the ring.
    pub const RING: ScanPlan = ScanPlan { admit_below: 0 };

    /// The hint for the access to the page with this key (the key given to
    /// [`Policy::insert`](crate::Policy::insert)).
    #[must_use]
    pub fn hint(self, key: u64) -> ScanHint {
        if mix(key) >> 32 < self.admit_below { ScanHint::Admit } else { ScanHint::Ring }
    }

    /// Whether no page of the scan uses the ring.
    #[must_use]
    pub fn admits_all(self) -> bool {
        self == ScanPlan::ADMIT_ALL
    }
}

/// What is remembered of the declared scans of one table (or index): when the last one went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ScanHistory {
    /// The count of pages read into the pool when the last scan ended.
    last_end: Option<u64>,
}

impl ScanHistory {
    /// Begins a declared scan of a table of about `table_pages` pages in a pool of `frames` frames. `pages_read`
    /// counts the pages that have come into the pool since it was opened, those of scans not included.
    #[must_use]
    pub fn begin(&self, table_pages: u64, frames: usize, pages_read: u64) -> ScanPlan {
        let frames = frames as u64;
        if table_pages <= frames / RING_FROM_DIVISOR {
            return ScanPlan::ADMIT_ALL;
        }
        let again = self.last_end.is_some_and(|end| pages_read.saturating_sub(end) <= frames);
        if !again || table_pages > frames.saturating_mul(ADMIT_POOLS_MAX) {
            return ScanPlan::RING;
        }
        let admitted = frames / ADMIT_DIVISOR;
        ScanPlan { admit_below: ((u128::from(admitted) << 32) / u128::from(table_pages)) as u64 }
    }

    /// The scan came to its end (of the table, not merely of the caller's interest: a scan that broke off early
    /// says nothing about the next one).
    pub fn end(&mut self, pages_read: u64) {
        self.last_end = Some(pages_read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_fits_comfortably_is_no_threat() {
        let history = ScanHistory::default();
        assert!(history.begin(500, 1000, 0).admits_all());
        assert_eq!(history.begin(501, 1000, 0), ScanPlan::RING);
    }

    #[test]
    fn a_table_scanned_again_within_a_turnover_is_partly_admitted() {
        let mut history = ScanHistory::default();
        history.end(10_000);
        let admitted = |plan: ScanPlan| (0..2000).filter(|&k| plan.hint(k) == ScanHint::Admit).count();
        assert!((400..600).contains(&admitted(history.begin(2000, 1000, 11_000))));
        assert_eq!(history.begin(2000, 1000, 11_001), ScanPlan::RING, "a turnover later");
        assert_eq!(history.begin(4001, 1000, 10_000), ScanPlan::RING, "much larger than the pool");
    }

    #[test]
    fn the_same_pages_are_admitted_in_every_scan() {
        let mut history = ScanHistory::default();
        history.end(0);
        let (a, b) = (history.begin(1500, 1000, 0), history.begin(1500, 1000, 5));
        assert!((0..1500).all(|k| a.hint(k) == b.hint(k)));
    }
}
