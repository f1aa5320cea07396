//! Group commit by a leader: one sync makes many callers' LSNs durable, on a caller's thread.
//!
//! Protocol. A caller whose LSN is not durable takes the lock. If nobody leads, it leads: it works (writes and syncs)
//! without the lock until its own LSN is durable, with everything that was complete by then, and publishes how far it
//! came. If somebody leads, it enters the list of those who wait, and sleeps. The leader, when it is done, takes those
//! whom it served out of the list, and one more: that with the smallest LSN, whom it calls to lead next. It wakes
//! all of them without the lock. Who was served goes its way without looking at anything shared: with hundreds of
//! callers on few cores, the lock that each of them had to take first was a queue of context switches.
//!
//! A leader does not wait for LSNs beyond its own: a thread that lost its core between getting its LSN and filling it holds
//! up those who come after it, not those before.
//!
//! A leader whose work is short - the log is in memory, or handed to the system and no more - is done before a thread has gone to sleep, and
//! to put one to sleep and wake it again costs more than his work. So a caller who finds somebody leading looks a few times whether he
//! is done, if the last work was short and there is a second core for the leader. If he is not done by then, he has probably been put off his
//! core; so the caller gives its own away a few times and looks again, and only then enters the list. Where hundreds of callers share few
//! cores, all of them come by while the leader waits for his turn: to put each to sleep and to wake it was most of what that cost.
//!
//! Invariant: while callers wait, somebody leads, or one has been called to lead and not looked yet. Whoever leaves without
//! leading while nobody leads calls another one.
//!
//! Lock order: the lock is a leaf; it is not held during the work. `tests/loom_group_commit.rs` explores the
//! hand-over.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::sync::{Mutex, spin_loop, yield_now};
use holdfast_base::time::Instant;
use holdfast_base::{Result, Waiter, Wake};

/// See the module.
pub struct GroupCommit {
    done: CachePadded<Done>,
    many_cores: bool,
    state: CachePadded<Mutex<State>>,
}

/// Times that a caller looks whether the leader is done: some microseconds.
#[cfg(not(loom))]
const LOOKS: u32 = 64;
#[cfg(loom)]
const LOOKS: u32 = 1;
/// Times that it gives its core away after that, and looks again.
#[cfg(not(loom))]
const YIELDS: u32 = 4;
#[cfg(loom)]
const YIELDS: u32 = 1;
/// Work that takes no longer is short.
const SHORT: Duration = Duration::from_micros(5);

/// What leaders have done: looked at by those who hope that the one before them is.
struct Done {
    durable: AtomicU64,
    /// How often somebody has led; changed under the lock.
    turns: AtomicU64,
}

struct State {
    leading: bool,
    /// The last work was short, so it is worth looking before lining up.
    short: bool,
    /// Each wants everything below an LSN to be durable.
    waiting: Vec<Arc<Waiter<u64>>>,
}

impl State {
    /// Takes the next leader out of the list.
    fn next_leader(&mut self) -> Option<Arc<Waiter<u64>>> {
        let first = (0..self.waiting.len()).min_by_key(|&i| self.waiting[i].wants)?;
        Some(self.waiting.swap_remove(first))
    }
}

impl GroupCommit {
    /// Everything below `durable` is durable.
    pub fn new(durable: u64) -> GroupCommit {
        let state = State { leading: false, short: cfg!(loom), waiting: Vec::new() };
        GroupCommit {
            done: CachePadded::new(Done { durable: AtomicU64::new(durable), turns: AtomicU64::new(0) }),
            many_cores: holdfast_base::thread::cores() > 1,
            state: CachePadded::new(Mutex::new(state)),
        }
    }

    /// What is durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.done.durable.load(Ordering::Acquire)
    }

    /// Sets what is durable, while nobody flushes (at open).
    pub fn set_durable(&self, lsn: u64) {
        self.done.durable.store(lsn, Ordering::Release);
    }

    /// Returns when everything below `lsn` is durable. `work(target)` makes durable at least what is below `target`
    /// and returns what is; `stop` fails when there is no use in waiting on.
    ///
    /// # Errors
    /// Of `work`, for the caller that led (those that it would have served try themselves), and of `stop`.
    pub fn flush_to(
        &self,
        lsn: u64,
        work: impl FnOnce(u64) -> Result<u64>,
        stop: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let (mut looks, mut yields) = (LOOKS, YIELDS);
        loop {
            let mut state = self.state.lock();
            // Under the lock: a leader publishes how far it came before it looks whom it served.
            let done = stop().map(|()| self.durable() >= lsn);
            if !matches!(done, Ok(false)) {
                // It may have been called to lead.
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
            if state.short && (looks > 0 || yields > 0) {
                let turn = self.done.turns.load(Ordering::Relaxed);
                drop(state);
                while looks > 0 && self.done.turns.load(Ordering::Relaxed) == turn {
                    spin_loop();
                    looks -= 1;
                }
                if looks == 0 && yields > 0 && self.done.turns.load(Ordering::Relaxed) == turn {
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
        // The next one first: it has work to do.
        next.inspect(|waiter| waiter.wake(Wake::Called));
        let served: Vec<Arc<Waiter<u64>>> = served;
        served.iter().for_each(|waiter| waiter.wake(Wake::Served));
        done.map(|_| ())
    }

    /// Wakes all who wait, so that they ask `stop` again.
    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.iter().for_each(|waiter| waiter.wake(Wake::Called));
    }
}
