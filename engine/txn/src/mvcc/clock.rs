//! The clock of the transactions: which id comes next, and the order of the commits.
//!
//! # Order of commits
//! A transaction that ends
//!
//! 1. takes the next commit number, by a fetch-add,
//! 2. makes its end known: its word in the commit map, its log in the history,
//! 3. *publishes* the number: it stores it in a ring, and waits until the numbers before it are
//!    published, too.
//!
//! `last_commit` is the end of the published numbers. A view is that number, so it sees a set of
//! ends that does not grow: *what ended at or before `last_commit` is known* (invariant). A thread
//! that publishes moves `last_commit` over all published numbers that follow, its own or others'.
//! So whichever thread finds the next number in the ring may go on, and a thread that was preempted
//! after its store delays no other one. One that was preempted between 1 and 3 delays those that
//! publish later numbers. There is nothing between but a few stores. They spin, yield, and only
//! then park. A thread that only reads waits for none of this. No guard publishes the number of a
//! thread that panics between 1 and 3: its end may not be known, and the invariant would be broken.
//!
//! A thread has published its number when [`CommitClock::publish`] returns: the next view, of any
//! thread, sees the end of the transaction.
//!
//! `models/commits.rs` explores this under loom.
//!
//! # Lines of memory
//! The next id and the last commit are on one line: every view reads both when it is opened. The
//! next number is on a line of its own, to which only transactions that end write.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use holdfast_base::sync::{Condvar, Mutex, spin_loop, yield_now};
use holdfast_base::{CommitNo, TxnId, latches};

/// No database lives to see an id or a commit number as great as this one: where one is read, the
/// bytes are damaged. The top bits of a word of the commit map have meanings of their own.
pub const NUMBER_LIMIT: u64 = 1 << 62;

/// Numbers that can be taken and not published.
const RING: usize = if cfg!(any(loom, shuttle)) { 2 } else { 1024 };
/// Checks of the ring before the thread does the work of another one.
const CHECKS_BEFORE_HELP: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 32 };
/// Checks before the thread yields at each further one.
const SPINS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 256 };
/// Checks before the thread parks. loom would take a thread that has yielded for one that reads no
/// old value any more.
const CHECKS: u32 = if cfg!(loom) {
    SPINS
} else if cfg!(shuttle) {
    2
} else {
    SPINS + 32
};

/// See the module.
#[derive(Debug)]
pub struct CommitClock {
    counters: CachePadded<Counters>,
    next_no: CachePadded<AtomicU64>,
    published: Box<[AtomicU64]>,
    /// Threads that wait, parked, for `last_commit` to move.
    parked: CachePadded<AtomicUsize>,
    mutex: Mutex<()>,
    moved: Condvar,
}

#[derive(Debug)]
struct Counters {
    next_id: AtomicU64,
    last_commit: AtomicU64,
}

impl CommitClock {
    /// The next id is `next_id`, the last commit was `last_commit`.
    #[must_use]
    pub fn new(next_id: TxnId, last_commit: CommitNo) -> Arc<CommitClock> {
        let next_no = CachePadded::new(AtomicU64::new(last_commit.0 + 1));
        let (next_id, last_commit) = (AtomicU64::new(next_id.0), AtomicU64::new(last_commit.0));
        Arc::new(CommitClock {
            counters: CachePadded::new(Counters { next_id, last_commit }),
            next_no,
            published: (0..RING).map(|_| AtomicU64::new(0)).collect(),
            parked: CachePadded::new(AtomicUsize::new(0)),
            mutex: Mutex::new(()),
            moved: Condvar::default(),
        })
    }

    /// The next id that will be given out.
    #[must_use]
    pub fn next_id(&self) -> TxnId {
        TxnId(self.counters.next_id.load(Ordering::Acquire))
    }

    /// Gives out the next id.
    pub fn take_id(&self) -> TxnId {
        TxnId(self.counters.next_id.fetch_add(1, Ordering::AcqRel))
    }

    /// The last commit: it is published, and so are all before it.
    #[must_use]
    pub fn last_commit(&self) -> CommitNo {
        CommitNo(self.counters.last_commit.load(Ordering::Acquire))
    }

    /// Gives out the next commit number, which has to be [published](CommitClock::publish): all
    /// later ones wait for it.
    pub fn take_no(&self) -> CommitNo {
        // What the thread does under the number is ordered by its publication.
        CommitNo(self.next_no.fetch_add(1, Ordering::Relaxed))
    }

    /// Publishes `no`, under which the transaction's end is known, and waits until all numbers
    /// before it are published. The caller holds no latch.
    pub fn publish(&self, no: CommitNo) {
        latches::none_while_waiting_for("earlier commits to be published");
        let no = no.0;
        let slot = self.slot(no);
        // Its place in the ring is free when the number that had it before is over.
        self.await_no(no.saturating_sub(RING as u64));
        let relaxed = holdfast_base::planted!("number-published-relaxed");
        slot.store(no, if relaxed { Ordering::Relaxed } else { Ordering::Release });
        if holdfast_base::planted!("commits-published-out-of-order") {
            self.counters.last_commit.fetch_max(no, Ordering::AcqRel);
        }
        self.await_no(no);
    }

    fn slot(&self, no: u64) -> &AtomicU64 {
        &self.published[no as usize % RING]
    }

    /// Waits until all numbers up to `no` are published.
    fn await_no(&self, no: u64) {
        let mut checks = 0;
        loop {
            let last = self.counters.last_commit.load(Ordering::Acquire);
            if last >= no {
                return;
            }
            // The thread that has published the next number moves on itself, in general.
            let may_move = last + 1 == no || checks >= CHECKS_BEFORE_HELP;
            if may_move && self.move_on(last) {
                continue;
            }
            checks += 1;
            if checks < SPINS {
                spin_loop();
            } else if checks < CHECKS {
                yield_now();
            } else {
                self.park(last);
            }
        }
    }

    /// Moves the last commit from `last` over the published numbers that follow. Returns whether
    /// there were any.
    fn move_on(&self, last: u64) -> bool {
        let mut end = last;
        while end - last < RING as u64 && self.slot(end + 1).load(Ordering::Acquire) == end + 1 {
            end += 1;
        }
        if end == last {
            return false;
        }
        let counter = &self.counters.last_commit;
        if counter.compare_exchange(last, end, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            && self.parked.load(Ordering::SeqCst) > 0
            && !holdfast_base::planted!("parked-not-woken")
        {
            drop(self.mutex.lock());
            self.moved.notify_all();
        }
        true
    }

    /// Parks until the last commit is not `last` any more, or the next number is published.
    #[cold]
    fn park(&self, last: u64) {
        let mut guard = self.mutex.lock();
        self.parked.fetch_add(1, Ordering::SeqCst);
        while self.counters.last_commit.load(Ordering::SeqCst) == last
            && self.slot(last + 1).load(Ordering::SeqCst) != last + 1
        {
            guard = self.moved.wait(guard);
        }
        self.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_published_out_of_order_become_the_last_commit_in_order() {
        let clock = CommitClock::new(TxnId(1), CommitNo(10));
        let (first, second) = (clock.take_no(), clock.take_no());
        assert_eq!((first, second, clock.last_commit()), (CommitNo(11), CommitNo(12), CommitNo(10)));
        std::thread::scope(|scope| {
            let later = scope.spawn(|| clock.publish(second));
            while clock.slot(12).load(Ordering::Acquire) != 12 {
                std::thread::yield_now();
            }
            assert_eq!(clock.last_commit(), CommitNo(10), "the one before is not published");
            clock.publish(first);
            later.join().unwrap();
        });
        assert_eq!(clock.last_commit(), CommitNo(12));
    }

    #[test]
    fn more_threads_than_places_in_the_ring_publish_all_numbers() {
        let clock = CommitClock::new(TxnId(1), CommitNo(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..RING).for_each(|_| clock.publish(clock.take_no())));
            }
        });
        assert_eq!(clock.last_commit(), CommitNo(4 * RING as u64));
    }
}

/// The protocol under random interleavings, and all threads come to their end.
#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use shuttle::thread::spawn;

    use super::*;

    /// A thread that sees the last commit sees what every commit up to it has stored before it was
    /// published; a commit is the last one, or before it, when its publication returns.
    #[test]
    fn what_the_last_commit_covers_is_known() {
        let run = || {
            let clock = CommitClock::new(TxnId(1), CommitNo(0));
            let known: Arc<Vec<AtomicU64>> = Arc::new((0..=6).map(|_| AtomicU64::new(0)).collect());
            let work = |clock: Arc<CommitClock>, known: Arc<Vec<AtomicU64>>| {
                for _ in 0..2 {
                    let no = clock.take_no();
                    known[no.0 as usize].store(1, Ordering::Relaxed);
                    clock.publish(no);
                    let last = clock.last_commit();
                    assert!(last >= no);
                    assert!((1..=last.0).all(|no| known[no as usize].load(Ordering::Relaxed) == 1));
                }
            };
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (clock, known) = (Arc::clone(&clock), Arc::clone(&known));
                    spawn(move || work(clock, known))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(clock.last_commit(), CommitNo(6));
        };
        shuttle::check_random(run, 5_000);
    }
}
