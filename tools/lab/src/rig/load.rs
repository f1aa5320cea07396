//! Sessions: threads that stay, and work while their gate is open. So two loads can be run in
//! turns. Each session records into histograms of its own, which the thread that drives the load
//! takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use parking_lot::{Mutex, MutexGuard};

use super::gate::Gate;
use crate::rig::cpu;
use crate::subject::turn::{Latencies, Turn};

/// A session that runs transactions at full speed. An implementation occupies cache lines of its
/// own (`align(128)`), since sessions are created one after the other and the allocator puts them
/// side by side.
pub trait Session: Send {
    /// Runs one transaction, and calls `done` with the class of each statement after it.
    fn transaction(&mut self, done: &mut dyn FnMut(usize)) -> Result<()>;
}

/// The work of one thread.
pub trait Work: Send {
    /// Works until [`Post::pass`] is false. A return before that ends the load.
    fn work(&mut self, post: &Post) -> Result<()>;
}

/// A [`Session`], and the transactions in a row that are timed as one.
struct FullSpeed<S>(S, u64);

impl<S: Session> Work for FullSpeed<S> {
    fn work(&mut self, post: &Post) -> Result<()> {
        let mut classes: Vec<(usize, u64)> = Vec::new();
        while post.pass() {
            classes.clear();
            let begin = Instant::now();
            let mut last = begin;
            for _ in 0..self.1 {
                self.0.transaction(&mut |class| {
                    let now = Instant::now();
                    classes.push((class, nanos(now - last)));
                    last = now;
                })?;
                post.done(1);
            }
            let mut latencies = post.latencies();
            latencies.record(None, nanos(begin.elapsed()), 1);
            classes.iter().for_each(|&(class, took)| latencies.record(Some(class), took, 1));
        }
        Ok(())
    }
}

pub(crate) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// The counts of one session. It occupies cache lines of its own, so that sessions do not contend
/// for it.
#[repr(align(128))]
struct Slot {
    done: AtomicU64,
    latencies: Mutex<Latencies>,
}

/// What the threads of a load share.
struct Shared {
    gate: Gate,
    stop: AtomicBool,
    /// True once a thread has ended.
    ended: AtomicBool,
}

/// Where a thread is told when to work, and tells what it did.
pub struct Post {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
}

impl Post {
    /// Waits while the gate is closed. False if the thread has to end.
    pub fn pass(&self) -> bool {
        self.shared.gate.pass(&self.shared.stop)
    }

    /// So many more transactions are done, or rows.
    pub fn done(&self, count: u64) {
        self.slot.done.fetch_add(count, Ordering::Relaxed);
    }

    /// The latencies that were not taken yet.
    pub fn latencies(&self) -> MutexGuard<'_, Latencies> {
        self.slot.latencies.lock()
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.gate.leave();
    }
}

/// Sessions of one kind.
pub struct Load {
    shared: Arc<Shared>,
    slots: Vec<Arc<Slot>>,
    threads: Vec<JoinHandle<Result<()>>>,
    classes: &'static [&'static str],
}

impl Load {
    /// No sessions.
    pub fn none() -> Load {
        let shared = Shared { gate: Gate::new(), stop: AtomicBool::new(false), ended: AtomicBool::new(false) };
        Load { shared: Arc::new(shared), slots: Vec::new(), threads: Vec::new(), classes: &[] }
    }

    /// Starts sessions whose statements have these classes, and times `group` transactions in a row
    /// as one. With more sessions than cores a session waits once in a time slice. The percentile
    /// must not depend on whether a slice has 99 transactions or 101.
    pub fn of<S: Session + 'static>(
        classes: &'static [&'static str],
        group: u64,
        sessions: impl Iterator<Item = S>,
    ) -> Result<Load> {
        let works = sessions.map(|session| -> Box<dyn Work> { Box::new(FullSpeed(session, group.max(1))) });
        Load::start(classes, works.collect())
    }

    /// Starts a thread for each of `works`. They wait at the gate.
    pub fn start(classes: &'static [&'static str], works: Vec<Box<dyn Work>>) -> Result<Load> {
        let mut load = Load::none();
        load.classes = classes;
        let all = works.len();
        for (n, mut work) in works.into_iter().enumerate() {
            let slot = Slot { done: AtomicU64::new(0), latencies: Mutex::new(Latencies::new(classes.len())) };
            let post = Post { shared: Arc::clone(&load.shared), slot: Arc::new(slot) };
            load.slots.push(Arc::clone(&post.slot));
            load.shared.gate.enter();
            let named = std::thread::Builder::new().name(format!("session-{n}"));
            let thread = named.spawn(move || work.work(&post));
            load.threads.push(thread.with_context(|| format!("start thread {} of {all} sessions", n + 1))?);
        }
        Ok(load)
    }

    /// The names of the classes.
    pub fn classes(&self) -> &'static [&'static str] {
        self.classes
    }

    /// Transactions so far, or rows.
    pub fn done(&self) -> u64 {
        self.slots.iter().map(|slot| slot.done.load(Ordering::Relaxed)).sum()
    }

    /// The latencies since the last call.
    pub fn take_latencies(&self) -> Latencies {
        let mut all = Latencies::new(self.classes.len());
        self.slots.iter().for_each(|slot| all.take(&mut slot.latencies.lock()));
        all
    }

    /// Has the sessions wait at the gate, but does not wait for them.
    pub fn hold(&self) {
        self.shared.gate.shut();
    }

    /// Lets the sessions work, or has them wait at the gate: returns when all do.
    pub fn set_running(&self, runs: bool) {
        match runs {
            true => self.shared.gate.open(self.threads.iter().map(JoinHandle::thread)),
            false => self.shared.gate.close(),
        }
    }

    /// True if a session has ended: because it failed, unless the load was ended.
    pub fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    /// Ends the sessions.
    pub fn end(&mut self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Release);
        self.threads.iter().map(JoinHandle::thread).for_each(Thread::unpark);
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(anyhow!("a session panicked")));
            result = result.and(ended);
        }
        result
    }

    /// Runs all sessions for `duration`. Calls `each` about once a second, and after a delay later,
    /// with what was done since the last call. The processor time is that of this process.
    pub fn run(&mut self, duration: Duration, each: &mut dyn FnMut(&Turn) -> Result<()>) -> Result<Turn> {
        // All have to be there.
        self.set_running(false);
        self.set_running(true);
        let turn = self.watch(duration, each);
        self.set_running(false);
        if self.has_ended() {
            self.end()?;
        }
        let mut turn = turn?;
        turn.latencies.add(&self.take_latencies());
        Ok(turn)
    }

    fn watch(&self, duration: Duration, each: &mut dyn FnMut(&Turn) -> Result<()>) -> Result<Turn> {
        let mut all = Latencies::new(self.classes.len());
        // Transactions from before the last session got a core do not count.
        self.slots.iter().filter_map(|s| s.latencies.try_lock()).for_each(|mut early| early.clear());
        // Read together: with a thousand sessions this thread may wait for seconds to get a core
        // again.
        let look = || (Instant::now(), cpu::process(), self.done());
        let (begin, cpu, before) = look();
        let (mut last, mut used, mut counted) = (begin, cpu, before);
        let sleep_until = |at: Instant| std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let (end, mut next) = (begin + duration, begin);
        while !self.has_ended() {
            next += Duration::from_secs(1);
            sleep_until(next.min(end));
            let mut seen = look();
            // A rest of less than half a second is part of the second before.
            if seen.0 < end && end < seen.0 + Duration::from_millis(500) {
                sleep_until(end);
                seen = look();
            }
            let (now, cpu_now, transactions) = seen;
            // After a delay the seconds are no shorter.
            next = next.max(now);
            let mut latencies = Latencies::new(self.classes.len());
            // The latencies of a session that was preempted while it recorded are taken the next
            // time. With many sessions a wait for it would last a whole round of the scheduler.
            let there = self.slots.iter().filter_map(|s| s.latencies.try_lock());
            there.for_each(|mut taken| latencies.take(&mut taken));
            all.add(&latencies);
            let seconds = (now - last).as_secs_f64();
            let done = (transactions - counted) as f64;
            each(&Turn { seconds, transactions: done, latencies, ..Turn::default() })?;
            (last, used, counted) = (now, cpu_now, transactions);
            if now >= end {
                break;
            }
        }
        let (seconds, cpu_seconds) = ((last - begin).as_secs_f64(), Some((used - cpu).as_secs_f64()));
        let transactions = (counted - before) as f64;
        Ok(Turn { seconds, transactions, cpu_seconds, latencies: all, ..Turn::default() })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // A caller that needs the failures has ended the load before.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends with a failure after some transactions.
    struct Counted(u64);

    impl Session for Counted {
        fn transaction(&mut self, done: &mut dyn FnMut(usize)) -> Result<()> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| anyhow!("it is over"))?;
            done(0);
            done(1);
            Ok(())
        }
    }

    fn load(transactions: &[u64]) -> Load {
        Load::of(&["a", "b"], 1, transactions.iter().copied().map(Counted)).unwrap()
    }

    #[test]
    fn a_failure_of_a_session_ends_the_turn() {
        let failure = load(&[1000, u64::MAX]).run(Duration::from_secs(3600), &mut |_| Ok(())).unwrap_err();
        assert_eq!(failure.to_string(), "it is over");
    }

    /// As where the system has no more threads: they waited for the others without an end.
    #[test]
    fn sessions_that_wait_at_a_closed_gate_end_with_their_load() {
        let mut load = load(&[u64::MAX; 3]);
        load.end().unwrap();
        assert!(load.has_ended() && load.done() == 0);
    }

    #[test]
    fn nothing_happens_between_two_turns() {
        let mut load = load(&[u64::MAX; 3]);
        // On a busy machine no session may get a core in so short a turn.
        while load.done() == 0 {
            load.run(Duration::from_millis(1), &mut |_| Ok(())).unwrap();
        }
        let done = load.done();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(load.done(), done);
        load.set_running(true);
        while load.done() == done {
            std::thread::yield_now();
        }
        load.end().unwrap();
    }

    /// A long second was followed by some of no length, which counted as seconds without a
    /// transaction.
    #[test]
    fn no_second_is_short_after_a_delay() {
        let delayed = |delay, duration| {
            let mut seconds = Vec::new();
            let turn = load(&[u64::MAX]).run(Duration::from_millis(duration), &mut |second| {
                if seconds.is_empty() {
                    std::thread::sleep(Duration::from_millis(delay));
                }
                seconds.push(second.seconds);
                Ok(())
            });
            assert!(seconds.iter().all(|length| *length > 0.4), "{seconds:?}");
            assert!((seconds.iter().sum::<f64>() - turn.unwrap().seconds).abs() < 1e-6, "{seconds:?}");
        };
        std::thread::scope(|scope| {
            // The next second would be over, and the rest would be short.
            for (delay, duration) in [(2_200, 3_800), (2_500, 3_600)] {
                scope.spawn(move || delayed(delay, duration));
            }
        });
    }

    #[test]
    fn a_turn_counts_every_transaction_and_statement() {
        let mut load = load(&[u64::MAX]);
        // On a busy machine a session may not get a core in so short a turn. Then the turn is
        // repeated.
        let turn = loop {
            let mut counted = 0.0;
            let turn = load.run(Duration::from_millis(20), &mut |second| {
                counted += second.transactions;
                Ok(())
            });
            let turn = turn.unwrap();
            assert_eq!(turn.transactions, counted);
            if turn.latencies.class_ms(1, 99.0).is_some() {
                break turn;
            }
        };
        assert!(turn.latencies.class_ms(2, 99.0).is_none());
    }
}
