//! The clock of the transactions: which id comes next, and which commit was the last.
//!
//! Both are on one line of memory, which holds nothing else. Every view reads both when it is
//! opened, and every transaction that writes moves each of them on: a reader that has to fetch them
//! from another core does that once.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::{CommitNo, TxnId};

/// No database lives to see an id or a commit number as great as this one: where one is read, the
/// bytes are damaged. The top bit of a commit number has a meaning of its own in the commit map.
pub const NUMBER_LIMIT: u64 = 1 << 62;

/// See the module.
#[derive(Debug)]
pub struct Clock {
    counters: CachePadded<Counters>,
}

#[derive(Debug)]
struct Counters {
    next_id: AtomicU64,
    last_commit: AtomicU64,
}

impl Clock {
    /// The next id is `next_id`, the last commit was `last_commit`.
    #[must_use]
    pub fn new(next_id: TxnId, last_commit: CommitNo) -> Arc<Clock> {
        let (next_id, last_commit) = (AtomicU64::new(next_id.0), AtomicU64::new(last_commit.0));
        Arc::new(Clock { counters: CachePadded::new(Counters { next_id, last_commit }) })
    }

    /// The next id that will be given out.
    #[must_use]
    pub fn next_id(&self) -> TxnId {
        TxnId(self.counters.next_id.load(Ordering::Acquire))
    }

    /// The last commit that was published.
    #[must_use]
    pub fn last_commit(&self) -> CommitNo {
        CommitNo(self.counters.last_commit.load(Ordering::Acquire))
    }

    /// Gives out the next id, if it is below `limit` when it is given out.
    pub fn take_id(&self, limit: impl Fn() -> u64) -> Option<TxnId> {
        // No thread has to see what a giver of ids did before.
        let take = |next| (next < limit()).then_some(next + 1);
        self.counters.next_id.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).ok().map(TxnId)
    }

    /// Publishes a commit. Called within the commit critical section, after the commit map was
    /// told.
    pub fn publish(&self, no: CommitNo) {
        self.counters.last_commit.store(no.0, Ordering::Release);
    }
}
