//! Decides which declared scans go through the ring, and which part of a table that is scanned
//! repeatedly stays in the pool.
//!
//! 1. The pages of a table that is small against the pool go the normal way.
//! 2. A larger table goes through the ring, so that it evicts no other pages.
//! 3. If the table is scanned again and again, the ring makes every pass read all of it from disk,
//!    although the pool may have room to spare. So each pass admits a little more of the table, as
//!    long as no other accesses read pages into the pool.
//! 4. As soon as other accesses miss pages, the admitted part is halved and does not grow for a
//!    while.
//!
//! The part is chosen by a hash of the page, so that each pass admits the pages of the last one.
//!
//! Pure state: the caller supplies sizes and counts.

use crate::ghost::mix;
use crate::touch::ScanHint;

/// The pages of all declared scans together hold at most one in this many of the frames.
pub const SCAN_BUDGET_DIVISOR: usize = 8;

/// A declared scan goes through the ring if the table is larger than one in this many of the
/// frames.
const RING_FROM_DIVISOR: u64 = 2;
/// A table larger than this many pools is never partly admitted: too little of it would be found
/// again.
const ADMIT_POOLS_MAX: u64 = 2;
/// The admitted part of a table takes at most this many quarters of the frames, ...
const ADMIT_QUARTERS_MAX: u64 = 3;
/// ... and with each pass one in this many of the frames more.
const STEP_DIVISOR: u64 = 16;
/// The pool has room to spare if, from one pass to the next, other accesses read at most one in
/// this many of the frames.
const QUIET_DIVISOR: u64 = 64;
/// Passes without growth after other accesses missed pages.
const REST: u8 = 8;

/// The most frames that declared scans may hold together: the bound for rings and read-ahead.
#[must_use]
pub fn scan_budget(frames: usize) -> usize {
    (frames / SCAN_BUDGET_DIVISOR).max(1)
}

/// The treatment of the pages of one declared scan. Made by [`ScanHistory::begin`], valid for that
/// scan.
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

    /// True if no page of the scan uses the ring.
    #[must_use]
    pub fn admits_all(self) -> bool {
        self == ScanPlan::ADMIT_ALL
    }
}

/// What is remembered of the declared scans of one table (or index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ScanHistory {
    /// The pages that other accesses had read when the last scan began.
    begun_at: u64,
    /// True if the last scan reached the end of the table.
    completed: bool,
    /// The number of pages of the table that are admitted.
    admitted: u64,
    /// Passes to go until more may be admitted.
    rest: u8,
}

impl ScanHistory {
    /// Begins a declared scan of a table of about `table_pages` pages in a pool of `frames` frames.
    /// `others_read` counts the pages that came into the pool for anything but declared scans,
    /// since the pool was opened.
    #[must_use]
    pub fn begin(&mut self, table_pages: u64, frames: usize, others_read: u64) -> ScanPlan {
        let frames = frames as u64;
        if table_pages <= frames / RING_FROM_DIVISOR {
            return ScanPlan::ADMIT_ALL;
        }
        let read = others_read.saturating_sub(self.begun_at);
        let (again, completed) = (read <= frames, std::mem::take(&mut self.completed));
        self.begun_at = others_read;
        if !again || table_pages > frames.saturating_mul(ADMIT_POOLS_MAX) {
            self.admitted = 0;
        } else if read > frames / QUIET_DIVISOR {
            self.admitted /= 2;
            self.rest = REST;
        } else if completed && self.rest > 0 {
            self.rest -= 1;
        } else if completed {
            self.admitted = (self.admitted + (frames / STEP_DIVISOR).max(1)).min(frames * ADMIT_QUARTERS_MAX / 4);
        }
        ScanPlan { admit_below: ((u128::from(self.admitted) << 32) / u128::from(table_pages)) as u64 }
    }

    /// Records that the scan reached the end of the table. (A scan that stopped early proves
    /// nothing for the next one.)
    pub fn end(&mut self) {
        self.completed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(plan: ScanPlan, pages: u64) -> usize {
        (0..pages).filter(|&k| plan.hint(k) == ScanHint::Admit).count()
    }

    /// One pass over a table of 1,500 pages in a pool of 1,000. Returns how many of its pages are
    /// admitted.
    fn pass(history: &mut ScanHistory, others_read: u64) -> usize {
        let plan = history.begin(1500, 1000, others_read);
        history.end();
        admitted(plan, 1500)
    }

    #[test]
    fn a_table_that_fits_comfortably_is_no_threat() {
        let mut history = ScanHistory::default();
        assert!(history.begin(500, 1000, 0).admits_all());
        assert_eq!(history.begin(501, 1000, 0), ScanPlan::RING);
    }

    #[test]
    fn passes_in_a_quiet_pool_admit_more_and_more_up_to_most_of_the_frames() {
        let mut history = ScanHistory::default();
        let passes: Vec<usize> = (0..20).map(|_| pass(&mut history, 5)).collect();
        assert_eq!(passes[0], 0);
        assert!(passes.is_sorted() && (40..90).contains(&passes[1]), "{passes:?}");
        assert!((690..810).contains(&passes[19]), "{passes:?}");
    }

    #[test]
    fn the_pages_admitted_once_stay_admitted() {
        let mut history = ScanHistory::default();
        history.end();
        let first = history.begin(1500, 1000, 0);
        history.end();
        let second = history.begin(1500, 1000, 0);
        assert!((0..1500).filter(|&k| first.hint(k) == ScanHint::Admit).all(|k| second.hint(k) == ScanHint::Admit));
        assert!(first != second);
    }

    #[test]
    fn misses_of_others_halve_the_admitted_part_and_it_rests() {
        let mut history = ScanHistory::default();
        let before = (0..20).map(|_| pass(&mut history, 0)).last().unwrap_or(0);
        let after = pass(&mut history, 16);
        assert!(after * 2 < before + 60 && after > 0, "{before} then {after}");
        assert!((0..REST).all(|_| pass(&mut history, 16) == after));
        assert!(pass(&mut history, 16) > after);
        assert_eq!(pass(&mut history, 1017), 0, "after another turnover");
    }

    #[test]
    fn a_table_many_times_the_pool_and_a_scan_that_broke_off_admit_nothing() {
        let mut history = ScanHistory::default();
        history.end();
        assert_eq!(history.begin(2001, 1000, 0), ScanPlan::RING);
        assert_eq!(history.begin(1500, 1000, 0), ScanPlan::RING);
    }
}
