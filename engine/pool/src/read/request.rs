//! Requests for pages: one [`Access`] per statement and thread, with its purpose and its counts.
//!
//! An `Access` counts in plain cells, so that a hit writes to no shared memory, and adds its
//! numbers to the shared counters once, when it is dropped. It also carries the frames that a
//! structure change has reserved.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::PageId;
use holdfast_metrics::Counter;
use holdfast_policy::{ScanHint, ScanHistory, ScanPlan, Touch};

use crate::core::Core;
use crate::resident::access_stats::AccessStats;
use crate::supply::reservations::Reservation;

/// Why pages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Single rows, and everything that writes.
    Point,
    /// A range of rows; becomes a declared scan with [`Access::begin_scan`].
    Range,
    /// A declared scan: dump, ANALYZE, CHECK, ALTER copy. Pages that it misses go through the scan
    /// ring until [`Access::begin_scan`] says how large the table is.
    Scan,
    /// Purge, and reads of old versions: as a declared scan.
    Purge,
    /// Redo. Pages that were never written, or lie past the end of the file, read as blank.
    Recovery,
    /// A backup: as a declared scan; blank pages are expected.
    Backup,
    /// Verify and salvage: as a declared scan; blank pages are expected.
    Maintenance,
}

/// What becomes of the bytes of a frame that a page is brought into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// They are read from the file. `blank`: also a page that was never written is fine. `redo`: so
    /// is one past the end of the file; and one that is damaged may be free by the end of the log,
    /// so it does not disable its table yet.
    Read { blank: bool, redo: bool },
    /// They are zeroed: the page is about to be made.
    Zero,
}

/// One statement's (or one maintenance task's) view of the pool, on one thread. Obtained from
/// [`Pool::access`](crate::Pool::access).
pub struct Access<'a> {
    pub(crate) core: &'a Core,
    stats: Option<&'a AccessStats>,
    kind: AccessKind,
    statement: u32,
    /// The time of its touches, once there is one: most find a page that is hot already.
    tick: Cell<Option<u32>>,
    plan: Cell<Option<ScanPlan>>,
    blank: Cell<bool>,
    requests: Cell<u64>,
    reads: Cell<u64>,
    created: Cell<u64>,
    retries: Cell<u64>,
    not_young: Cell<u64>,
    free_waits: Cell<u64>,
    pub(crate) reservation: RefCell<Reservation>,
}

fn bump(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// A number for each statement that is unlikely to be another's at the same time; never 0.
fn next_statement() -> u32 {
    thread_local!(static NEXT: Cell<u32> = const { Cell::new(0) });
    static SEED: AtomicU64 = AtomicU64::new(0);
    NEXT.with(|next| {
        let mut n = next.get();
        if n == 0 {
            // Threads start far apart, in the order in which they come.
            n = (SEED.fetch_add(1, Ordering::Relaxed) as u32).wrapping_mul(0x9e37_79b1);
        }
        n = n.wrapping_add(1).max(1);
        next.set(n);
        n
    })
}

impl<'a> Access<'a> {
    pub(crate) fn new(core: &'a Core, kind: AccessKind) -> Access<'a> {
        let scan = matches!(kind, AccessKind::Scan | AccessKind::Purge | AccessKind::Backup | AccessKind::Maintenance);
        let blank = matches!(kind, AccessKind::Recovery | AccessKind::Backup | AccessKind::Maintenance);
        Access {
            core,
            stats: None,
            kind,
            statement: next_statement(),
            tick: Cell::new(None),
            plan: Cell::new(scan.then_some(ScanPlan::RING)),
            blank: Cell::new(blank),
            requests: Cell::new(0),
            reads: Cell::new(0),
            created: Cell::new(0),
            retries: Cell::new(0),
            not_young: Cell::new(0),
            free_waits: Cell::new(0),
            reservation: RefCell::default(),
        }
    }

    /// Adds what this access counts to `stats` as well, when it is dropped.
    #[must_use]
    pub fn with_stats(mut self, stats: &'a AccessStats) -> Access<'a> {
        self.stats = Some(stats);
        self
    }

    /// Several accesses with one `statement` number (not 0) count as one statement for the
    /// replacement policy.
    #[must_use]
    pub fn with_statement(mut self, statement: u32) -> Access<'a> {
        self.statement = statement;
        self
    }

    /// Says whether a page that was never written is what the caller expects.
    #[must_use]
    pub fn expecting_blank(self, expected: bool) -> Access<'a> {
        self.blank.set(expected);
        self
    }

    /// Why.
    #[must_use]
    pub fn kind(&self) -> AccessKind {
        self.kind
    }

    /// The number of the statement.
    #[must_use]
    pub fn statement(&self) -> u32 {
        self.statement
    }

    /// Declares that a scan of a table (or index) of about `pages` pages begins: whether it goes
    /// through the scan ring depends on that size and on earlier scans of the table, remembered in
    /// the stats of this access.
    pub fn begin_scan(&self, pages: u64) {
        let (frames, turnover) = (self.core.active_frames(), self.core.turnover());
        let plan = match self.stats {
            Some(stats) => stats.scans.lock().begin(pages, frames, turnover),
            None => ScanHistory::default().begin(pages, frames, turnover),
        };
        self.plan.set(Some(plan));
    }

    /// What [`Access::begin_scan`] decided, for the next access of the same scan.
    #[must_use]
    pub fn scan_plan(&self) -> Option<ScanPlan> {
        self.plan.get()
    }

    /// Goes on with a scan that another access began.
    #[must_use]
    pub fn with_scan_plan(self, plan: Option<ScanPlan>) -> Access<'a> {
        self.plan.set(plan.or(self.plan.get()));
        self
    }

    /// The scan came to the end of the table.
    pub fn end_scan(&self) {
        if let Some(stats) = self.stats {
            stats.scans.lock().end();
        }
    }

    /// True if this access is a declared scan whose pages, or some of them, go through the ring.
    #[must_use]
    pub fn is_ring_scan(&self) -> bool {
        self.plan.get().is_some_and(|plan| !plan.admits_all())
    }

    /// Does `work` as if no scan were declared.
    pub(crate) fn outside_of_scan<T>(&self, work: impl FnOnce() -> T) -> T {
        let plan = self.plan.take();
        let done = work();
        self.plan.set(plan);
        done
    }

    /// Takes the time of the touches that follow anew, after a wait.
    pub(crate) fn refresh_tick(&self) {
        self.tick.set(None);
    }

    /// Counts an optimistic read that was repeated.
    pub fn count_retry(&self) {
        bump(&self.retries);
    }

    /// Pages asked for so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Pages read from disk so far because this access asked for them.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Frames that are set aside for this access and not used yet.
    #[must_use]
    pub fn reserved_frames(&self) -> usize {
        self.reservation.borrow().frames.len()
    }

    /// Gives the frames reserved with [`Pool::reserve_frames`](crate::Pool::reserve_frames) back
    /// that were not used.
    pub(crate) fn release_frames(&self) {
        if self.reservation.borrow().promised == 0 {
            return; // Frames are promised before they are had.
        }
        let unused = std::mem::take(&mut *self.reservation.borrow_mut());
        self.core.end_reservation(unused);
    }

    #[inline]
    pub(crate) fn touch(&self, id: PageId) -> Touch {
        let scan = match self.plan.get() {
            None => ScanHint::None,
            Some(plan) => plan.hint(id.to_u64()),
        };
        let tick = self.tick.get().unwrap_or_else(|| self.core.tick());
        self.tick.set(Some(tick));
        Touch { scan, statement: self.statement, tick }
    }

    /// How a page that is not there is brought in.
    pub(crate) fn fill(&self) -> Fill {
        Fill::Read { blank: self.blank.get(), redo: self.kind == AccessKind::Recovery }
    }

    #[inline]
    pub(crate) fn count_request(&self) {
        bump(&self.requests);
    }

    pub(crate) fn count_read(&self) {
        bump(&self.reads);
    }

    pub(crate) fn count_created(&self) {
        bump(&self.created);
    }

    pub(crate) fn count_not_young(&self) {
        bump(&self.not_young);
    }

    pub(crate) fn count_free_wait(&self) {
        bump(&self.free_waits);
    }

    /// A frame of the reservation, if there is one.
    pub(crate) fn take_reserved(&self) -> Option<u32> {
        self.reservation.borrow_mut().frames.pop()
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.release_frames();
        let counted = [
            (Counter::BufferPoolReadRequests, &self.requests),
            (Counter::BufferPoolReads, &self.reads),
            (Counter::PagesCreated, &self.created),
            (Counter::BufferPoolReadRetries, &self.retries),
            (Counter::PagesNotMadeYoung, &self.not_young),
            (Counter::FreeWaits, &self.free_waits),
        ];
        for (counter, n) in counted {
            if n.get() > 0 {
                self.core.metrics.add(counter, n.get());
            }
        }
        if let Some(stats) = self.stats {
            let own = stats.of_thread();
            for (total, n) in
                [(&own.requests, &self.requests), (&own.reads, &self.reads), (&own.created, &self.created)]
            {
                if n.get() > 0 {
                    total.fetch_add(n.get(), Ordering::Relaxed);
                }
            }
        }
    }
}

impl std::fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("kind", &self.kind).field("statement", &self.statement).finish_non_exhaustive()
    }
}
