//! Group commit by a leader: one sync, or one write, on the thread of one caller, serves the LSNs
//! of many callers. The log has one of these for syncs and one for writes.
//!
//! Protocol:
//!
//! 1. A caller whose LSN is not reached tries to lead, by a compare-exchange on a flag.
//! 2. The caller that leads works without a lock until its own LSN is reached, with everything that
//!    is complete by then, and publishes the LSN that was reached.
//! 3. A caller that does not lead takes the lock. If another caller still leads, it enters the list
//!    of waiters and parks.
//! 4. A leader that is done takes the lock, clears the flag, and takes out of the list the waiters
//!    that it served, and the waiter with the smallest LSN of the others. It calls that one to lead
//!    next, and wakes all of them without the lock.
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
//! 1. It spins a bounded number of times until its LSN is reached, or no caller leads.
//! 2. If the leader is still not done, it has probably been preempted. The caller yields a few
//!    times and checks after each.
//!
//! It takes no lock for that: where many threads commit at the same time, most are served by the
//! leader after next, and touch one line of memory. Where hundreds of callers share few cores, all
//! of them arrive while the leader waits for a core. To park and wake each of them would cost most
//! of the time.
//!
//! Invariant *a lead is never lost*: while callers wait, one leads, or one has been called to lead
//! and has not checked yet. The flag is set without the lock, and cleared under it; a caller enters
//! the list under the lock while the flag is set. A caller that was called and leaves without
//! leading calls another one, unless a caller leads.
//!
//! Lock order: the lock is a leaf; it is not held during the work. `tests/loom_group_commit.rs`
//! explores the hand-over, and finds a lead that is lost (`lead-lost`).

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use holdfast_base::sync::{Mutex, spin_loop, yield_now};
use holdfast_base::time::Instant;
use holdfast_base::{Result, Waiter, Wake};

/// Group commit by a leader; see the module.
pub struct GroupCommit {
    turn: CachePadded<Turn>,
    many_cores: bool,
    waiting: CachePadded<Mutex<Vec<Arc<Waiter<u64>>>>>,
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

/// What callers read without the lock.
struct Turn {
    /// Everything below is done.
    reached: AtomicU64,
    /// A caller leads. Cleared under the lock.
    led: AtomicBool,
    /// The last work was short, so that a caller spins before it parks.
    short: AtomicBool,
}

/// How long a caller tries before it parks.
struct Patience {
    spins: u32,
    yields: u32,
}

/// Takes the waiter with the smallest LSN out of the list.
fn next_leader(waiting: &mut Vec<Arc<Waiter<u64>>>) -> Option<Arc<Waiter<u64>>> {
    let first = (0..waiting.len()).min_by_key(|&i| waiting[i].wants)?;
    Some(waiting.swap_remove(first))
}

impl GroupCommit {
    /// Creates a group commit that has reached `lsn`.
    pub fn new(lsn: u64) -> GroupCommit {
        let (led, short) = (AtomicBool::new(false), AtomicBool::new(cfg!(loom)));
        GroupCommit {
            turn: CachePadded::new(Turn { reached: AtomicU64::new(lsn), led, short }),
            many_cores: holdfast_base::thread::cores() > 1,
            waiting: CachePadded::new(Mutex::new(Vec::new())),
        }
    }

    /// Everything below this LSN is done.
    #[inline]
    pub fn reached(&self) -> u64 {
        self.turn.reached.load(Ordering::Acquire)
    }

    /// Sets the LSN that is reached. Called at open, while no thread waits.
    pub fn set_reached(&self, lsn: u64) {
        self.turn.reached.store(lsn, Ordering::Release);
    }

    fn is_led(&self) -> bool {
        self.turn.led.load(Ordering::Acquire)
    }

    /// Returns when `lsn` is reached. `work(target)` does at least what is below `target`, and
    /// returns the LSN up to which everything is done. `stop` fails when waiting has become
    /// useless.
    ///
    /// # Errors
    /// The errors of `work`, for the caller that led; the waiters that it would have served try
    /// themselves. Those of `stop`.
    pub fn join(&self, lsn: u64, work: impl FnOnce(u64) -> Result<u64>, stop: impl Fn() -> Result<()>) -> Result<()> {
        let mut patience = Patience { spins: SPINS, yields: YIELDS };
        let mut called = false;
        loop {
            let done = stop().map(|()| self.reached() >= lsn);
            if !matches!(done, Ok(false)) {
                if called {
                    self.call_another();
                }
                return done.map(|_| ());
            }
            let lead = self.turn.led.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed);
            if lead.is_ok() {
                return self.lead(lsn, work);
            }
            if self.is_worth_another_try(lsn, &mut patience) {
                continue;
            }
            let mut waiting = self.waiting.lock();
            // Under the lock: a leader publishes what it has reached, and clears the flag, before
            // it searches the list for those it served; a thread that stops all waits sets the
            // reason before.
            if !self.is_led() || self.reached() >= lsn || stop().is_err() {
                continue;
            }
            let waiter = Waiter::new(lsn);
            waiting.push(waiter.clone());
            drop(waiting);
            if waiter.sleep() == Wake::Served {
                return Ok(());
            }
            called = true;
        }
    }

    /// Spins or yields, if the leader's work is short. Returns false if there is no patience left.
    fn is_worth_another_try(&self, lsn: u64, patience: &mut Patience) -> bool {
        if !self.turn.short.load(Ordering::Relaxed) {
            return false;
        }
        let is_busy = || self.is_led() && self.reached() < lsn;
        while patience.spins > 0 && is_busy() {
            spin_loop();
            patience.spins -= 1;
        }
        if !is_busy() {
            return true;
        }
        if patience.yields == 0 {
            return false;
        }
        patience.yields -= 1;
        yield_now();
        true
    }

    fn lead(&self, lsn: u64, work: impl FnOnce(u64) -> Result<u64>) -> Result<()> {
        let began = Instant::now();
        let done = if self.reached() >= lsn { Ok(self.reached()) } else { work(lsn) };
        let short = cfg!(loom) || self.many_cores && began.elapsed() <= SHORT;
        if self.turn.short.load(Ordering::Relaxed) != short {
            self.turn.short.store(short, Ordering::Relaxed);
        }
        if let Ok(reached) = done {
            self.turn.reached.store(reached, Ordering::Release);
        }
        let reached = self.reached();
        let mut waiting = self.waiting.lock();
        self.turn.led.store(false, Ordering::Release);
        if waiting.is_empty() {
            return done.map(|_| ());
        }
        let (served, left) = std::mem::take(&mut *waiting).into_iter().partition(|w| w.wants <= reached);
        *waiting = left;
        let next = if holdfast_base::planted!("lead-lost") { None } else { next_leader(&mut waiting) };
        drop(waiting);
        // The next leader first: it has work to do.
        next.inspect(|waiter| waiter.wake(Wake::Called));
        let served: Vec<Arc<Waiter<u64>>> = served;
        served.iter().for_each(|waiter| waiter.wake(Wake::Served));
        done.map(|_| ())
    }

    /// Passes on a call to lead, unless a caller leads.
    fn call_another(&self) {
        let mut waiting = self.waiting.lock();
        let next = if self.is_led() { None } else { next_leader(&mut waiting) };
        drop(waiting);
        next.inspect(|waiter| waiter.wake(Wake::Called));
    }

    /// Wakes all waiters, so that they ask `stop` again.
    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.iter().for_each(|waiter| waiter.wake(Wake::Called));
    }
}
