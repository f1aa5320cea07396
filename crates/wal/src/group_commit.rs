//! Group commit by a leader: one sync, on the thread of one caller, makes the LSNs of many callers
//! durable.
//!
//! Protocol:
//!
//! 1. A caller whose LSN is not durable takes the lock.
//! 2. If no caller leads, it leads. It works (writes and syncs) without the lock until its own LSN
//!    is durable, with everything that is complete by then, and publishes up to where the log is
//!    durable.
//! 3. If another caller leads, the caller enters the list of waiters and parks.
//! 4. A leader that is done takes out of the list the waiters that it served, and the waiter with
//!    the smallest LSN of the others. It calls that one to lead next, and wakes all of them without
//!    the lock.
//! 5. A served waiter returns without reading shared state. If each took the lock again, hundreds
//!    of callers on few cores would queue for it, at a context switch each.
//!
//! A leader does not wait for LSNs beyond its own. A thread that was preempted between taking its
//! LSN range and filling it holds up the callers with higher LSNs, not those with lower ones.
//!
//! Spinning. If the log is in memory, or only written to the system, the leader's work is shorter
//! than parking and waking a thread. So if the last work was short and there is a second core, a
//! caller does this before step 3:
//!
//! 1. It spins a bounded number of times until the leader is done.
//! 2. If the leader is still not done, it has probably been preempted. The caller yields a few
//!    times and checks after each.
//!
//! Where hundreds of callers share few cores, all of them arrive while the leader waits for a core.
//! To park and wake each of them would cost most of the time.
//!
//! Invariant *a lead is never lost*: while callers wait, one leads, or one has been called to lead
//! and has not checked yet. A caller that leaves without leading while no caller leads calls
//! another one.
//!
//! Lock order: the lock is a leaf; it is not held during the work. `tests/loom_group_commit.rs`
//! explores the hand-over.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::sync::{Mutex, spin_loop, yield_now};
use holdfast_base::time::Instant;
use holdfast_base::{Result, Waiter, Wake};

/// Group commit by a leader; see the module.
pub struct GroupCommit {
    done: CachePadded<Done>,
    many_cores: bool,
    state: CachePadded<Mutex<State>>,
}

/// Spins of a caller before it yields: some microseconds.
#[cfg(not(loom))]
const SPINS: u32 = 64;
#[cfg(loom)]
const SPINS: u32 = 1;
/// Yields of a caller before it parks.
#[cfg(not(loom))]
const YIELDS: u32 = 4;
#[cfg(loom)]
const YIELDS: u32 = 1;
/// Work that takes at most this long is short.
const SHORT: Duration = Duration::from_micros(5);

/// The progress of the leaders. Spinning callers read it without the lock.
struct Done {
    durable: AtomicU64,
    /// How many leaders have finished. Changed under the lock.
    turns: AtomicU64,
}

struct State {
    leading: bool,
    /// True if the last work was short, so that a caller spins before it parks.
    short: bool,
    /// The waiters. Each waits until everything below an LSN is durable.
    waiting: Vec<Arc<Waiter<u64>>>,
}

impl State {
    /// Takes the waiter with the smallest LSN out of the list.
    fn next_leader(&mut self) -> Option<Arc<Waiter<u64>>> {
        let first = (0..self.waiting.len()).min_by_key(|&i| self.waiting[i].wants)?;
        Some(self.waiting.swap_remove(first))
    }
}

impl GroupCommit {
    /// Creates the group commit of a log in which everything below `durable` is durable.
    pub fn new(durable: u64) -> GroupCommit {
        let state = State { leading: false, short: cfg!(loom), waiting: Vec::new() };
        GroupCommit {
            done: CachePadded::new(Done { durable: AtomicU64::new(durable), turns: AtomicU64::new(0) }),
            many_cores: holdfast_base::thread::cores() > 1,
            state: CachePadded::new(Mutex::new(state)),
        }
    }

    /// Everything below this LSN is durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.done.durable.load(Ordering::Acquire)
    }

    /// Sets the durable LSN. Called at open, while no thread flushes.
    pub fn set_durable(&self, lsn: u64) {
        self.done.durable.store(lsn, Ordering::Release);
    }

    /// Returns when everything below `lsn` is durable. `work(target)` makes durable at least what
    /// is below `target`, and returns the LSN up to which everything is. `stop` fails when waiting
    /// has become useless.
    ///
    /// # Errors
    /// Those of `work`, for the caller that led; the waiters that it would have served try
    /// themselves. Those of `stop`.
    pub fn flush_to(
        &self,
        lsn: u64,
        work: impl FnOnce(u64) -> Result<u64>,
        stop: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let (mut spins, mut yields) = (SPINS, YIELDS);
        loop {
            let mut state = self.state.lock();
            // Under the lock: a leader publishes the durable LSN before it searches the list for
            // those it served.
            let done = stop().map(|()| self.durable() >= lsn);
            if !matches!(done, Ok(false)) {
                // This caller may have been called to lead.
                let next = if state.leading { None } else { state.next_leader() };
                drop(state);
                next.inspect(|waiter| waiter.wake(Wake::Called));
                return done.map(|_| ());
            }
            if !state.leading {
                state.leading = true;
                drop(state);
                return self.lead(lsn, work);
            }
            if state.short && (spins > 0 || yields > 0) {
                let turn = self.done.turns.load(Ordering::Relaxed);
                drop(state);
                while spins > 0 && self.done.turns.load(Ordering::Relaxed) == turn {
                    spin_loop();
                    spins -= 1;
                }
                if spins == 0 && yields > 0 && self.done.turns.load(Ordering::Relaxed) == turn {
                    yield_now();
                    yields -= 1;
                }
                continue;
            }
            let waiter = Waiter::new(lsn);
            state.waiting.push(waiter.clone());
            drop(state);
            if waiter.sleep() == Wake::Served {
                return Ok(());
            }
        }
    }

    fn lead(&self, lsn: u64, work: impl FnOnce(u64) -> Result<u64>) -> Result<()> {
        let began = Instant::now();
        let done = work(lsn);
        let short = cfg!(loom) || self.many_cores && began.elapsed() <= SHORT;
        if let Ok(durable) = done {
            self.done.durable.store(durable, Ordering::Release);
        }
        let durable = self.durable();
        let mut state = self.state.lock();
        (state.leading, state.short) = (false, short);
        self.done.turns.fetch_add(1, Ordering::Relaxed);
        let (served, waiting) = std::mem::take(&mut state.waiting).into_iter().partition(|w| w.wants <= durable);
        state.waiting = waiting;
        let next = state.next_leader();
        drop(state);
        // The next leader first: it has work to do.
        next.inspect(|waiter| waiter.wake(Wake::Called));
        let served: Vec<Arc<Waiter<u64>>> = served;
        served.iter().for_each(|waiter| waiter.wake(Wake::Served));
        done.map(|_| ())
    }

    /// Wakes all waiters, so that they ask `stop` again.
    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.iter().for_each(|waiter| waiter.wake(Wake::Called));
    }
}
