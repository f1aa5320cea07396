//! Sessions at full speed. A [`Load`] owns them between turns, so that two loads can be run in
//! turns; a turn starts a thread for each session, lets them run, and joins them.
//! Each session records into histograms of its own; the thread that drives the turn takes them once
//! a second.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use parking_lot::Mutex;

use crate::rig::cpu;
use crate::subject::turn::{Latencies, Turn};

/// The work of one session. An implementation occupies cache lines of its own (`align(128)`), since
/// sessions are created one after the other and the allocator puts them side by side.
pub trait Session: Send {
    /// Runs one transaction, and calls `done` with the class of each statement after it.
    fn transaction(&mut self, done: &mut dyn FnMut(usize)) -> Result<()>;
}

/// The counts of one session in this turn. It occupies cache lines of its own, so that sessions do
/// not contend for it.
#[repr(align(128))]
struct Slot {
    transactions: AtomicU64,
    latencies: Mutex<Latencies>,
}

/// Sessions of one kind.
pub struct Load<'s> {
    sessions: Vec<Mutex<Box<dyn Session + 's>>>,
    classes: &'static [&'static str],
    group: u64,
}

impl<'s> Load<'s> {
    /// Creates a load of sessions whose statements have these classes.
    pub fn new(classes: &'static [&'static str], sessions: Vec<Box<dyn Session + 's>>) -> Load<'s> {
        Load { sessions: sessions.into_iter().map(Mutex::new).collect(), classes, group: 1 }
    }

    /// Times `group` transactions in a row as one. With more sessions than cores a session waits
    /// once in a time slice. The percentile must not depend on whether a slice has 99 transactions
    /// or 101.
    pub fn in_groups_of(self, group: u64) -> Load<'s> {
        Load { group: group.max(1), ..self }
    }

    /// The names of the classes.
    pub fn classes(&self) -> &'static [&'static str] {
        self.classes
    }

    /// Runs all sessions for `duration`. Calls `each` about once a second with what was done since
    /// the last call. The processor time is that of this process.
    pub fn run(&self, duration: Duration, each: &mut dyn FnMut(&Turn) -> Result<()>) -> Result<Turn> {
        let slots: Vec<Slot> = self.sessions.iter().map(|_| self.slot()).collect();
        let (stop, start) = (AtomicBool::new(false), Gate::new(self.sessions.len()));
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(self.sessions.len());
            for (session, slot) in self.sessions.iter().zip(&slots) {
                let (stop, start) = (&stop, &start);
                let run = move || work(session, slot, self.group, start, stop);
                match std::thread::Builder::new().spawn_scoped(scope, run) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        // Those that there are must not wait at the gate for it.
                        stop.store(true, Ordering::Release);
                        start.give_up(threads.iter().map(|thread| thread.thread()));
                        let (n, all) = (threads.len(), self.sessions.len());
                        return Err(error).with_context(|| format!("start thread {} of {all} sessions", n + 1));
                    }
                }
            }
            start.open(threads.iter().map(|thread| thread.thread()));
            let turn = self.watch(&slots, duration, &stop, each);
            stop.store(true, Ordering::Release);
            let mut failure = Ok(());
            for thread in threads {
                let ended = thread.join().unwrap_or_else(|_| Err(anyhow!("a session panicked")));
                failure = failure.and(ended);
            }
            failure?;
            let mut turn = turn?;
            slots.iter().for_each(|slot| turn.latencies.add(&slot.latencies.lock()));
            Ok(turn)
        })
    }

    fn slot(&self) -> Slot {
        Slot { transactions: AtomicU64::new(0), latencies: Mutex::new(Latencies::new(self.classes.len())) }
    }

    fn watch(
        &self,
        slots: &[Slot],
        duration: Duration,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&Turn) -> Result<()>,
    ) -> Result<Turn> {
        let mut all = Latencies::new(self.classes.len());
        // Transactions from before the last session got a core do not count.
        slots.iter().filter_map(|s| s.latencies.try_lock()).for_each(|mut early| early.clear());
        let total = || slots.iter().map(|s| s.transactions.load(Ordering::Relaxed)).sum::<u64>();
        // Read together: with a thousand sessions this thread may wait for seconds to get a core
        // again.
        let look = || (Instant::now(), cpu::process(), total());
        let (begin, cpu, before) = look();
        let (mut last, mut used, mut counted) = (begin, cpu, before);
        let mut next = begin;
        while !stop.load(Ordering::Acquire) {
            next += Duration::from_secs(1);
            let end = begin + duration;
            // A rest of less than half a second is part of the second before.
            let until = if end < next + Duration::from_millis(500) { end } else { next };
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            let (now, cpu_now, transactions) = look();
            let mut latencies = Latencies::new(self.classes.len());
            // The latencies of a session that was preempted while it recorded are taken the next
            // time. With many sessions a wait for it would last a whole round of the scheduler.
            for mut taken in slots.iter().filter_map(|s| s.latencies.try_lock()) {
                latencies.add(&taken);
                taken.clear();
            }
            all.add(&latencies);
            let seconds = (now - last).as_secs_f64();
            let done = (transactions - counted) as f64;
            each(&Turn { seconds, transactions: done, latencies, ..Turn::default() })?;
            (last, used, counted) = (now, cpu_now, transactions);
            if until == end {
                break;
            }
        }
        let (seconds, cpu_seconds) = ((last - begin).as_secs_f64(), Some((used - cpu).as_secs_f64()));
        let transactions = (counted - before) as f64;
        Ok(Turn { seconds, transactions, cpu_seconds, latencies: all, ..Turn::default() })
    }
}

/// The point where all sessions begin together. A thread that leaves a [`std::sync::Barrier`] takes
/// its mutex, one after the other, while the first ones already work: of a thousand sessions on two
/// cores the last one would begin half a minute after the first.
struct Gate {
    /// The thread that opens the gate.
    keeper: Thread,
    /// Sessions that have not arrived yet.
    missing: AtomicUsize,
    open: AtomicBool,
    /// Sessions that have not passed yet.
    waiting: AtomicUsize,
}

impl Gate {
    /// Creates a gate for that many sessions. The calling thread will open it.
    fn new(sessions: usize) -> Gate {
        Gate {
            keeper: std::thread::current(),
            missing: AtomicUsize::new(sessions),
            open: AtomicBool::new(false),
            waiting: AtomicUsize::new(sessions),
        }
    }

    /// Called by each session: returns when the gate is open.
    fn enter(&self) {
        self.count_down(&self.missing);
        while !self.open.load(Ordering::Acquire) {
            std::thread::park();
        }
        self.count_down(&self.waiting);
    }

    fn count_down(&self, left: &AtomicUsize) {
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.keeper.unpark();
        }
    }

    /// Opens the gate when all sessions have arrived. Returns when all have passed, so that the
    /// measurement from then on has the work of all.
    fn open<'t>(&self, sessions: impl Iterator<Item = &'t Thread>) {
        Gate::wait_for(&self.missing);
        self.give_up(sessions);
        Gate::wait_for(&self.waiting);
    }

    /// Lets the sessions pass that are there, for no others will come.
    fn give_up<'t>(&self, sessions: impl Iterator<Item = &'t Thread>) {
        self.open.store(true, Ordering::Release);
        sessions.for_each(Thread::unpark);
    }

    fn wait_for(left: &AtomicUsize) {
        while left.load(Ordering::Acquire) > 0 {
            std::thread::park();
        }
    }
}

fn work(
    session: &Mutex<Box<dyn Session + '_>>,
    slot: &Slot,
    group: u64,
    start: &Gate,
    stop: &AtomicBool,
) -> Result<()> {
    let mut session = session.lock();
    let mut classes: Vec<(usize, u64)> = Vec::new();
    start.enter();
    while !stop.load(Ordering::Acquire) {
        classes.clear();
        let begin = Instant::now();
        let mut last = begin;
        for _ in 0..group {
            let done = session.transaction(&mut |class| {
                let now = Instant::now();
                classes.push((class, nanos(now - last)));
                last = now;
            });
            if let Err(error) = done {
                stop.store(true, Ordering::Release);
                return Err(error);
            }
            slot.transactions.fetch_add(1, Ordering::Relaxed);
        }
        let mut latencies = slot.latencies.lock();
        latencies.record(None, nanos(begin.elapsed()), 1);
        classes.iter().for_each(|&(class, took)| latencies.record(Some(class), took, 1));
    }
    Ok(())
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
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

    #[test]
    fn a_failure_of_a_session_ends_the_turn() {
        let load = Load::new(&["a", "b"], vec![Box::new(Counted(1000)), Box::new(Counted(u64::MAX))]);
        let failure = load.run(Duration::from_secs(3600), &mut |_| Ok(())).unwrap_err();
        assert_eq!(failure.to_string(), "it is over");
    }

    /// As where the system has no more threads: they waited for the others without an end.
    #[test]
    fn sessions_pass_a_gate_that_is_given_up() {
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let session = scope.spawn(|| gate.enter());
            while gate.missing.load(Ordering::Acquire) > 1 {
                std::thread::yield_now();
            }
            gate.give_up([session.thread()].into_iter());
        });
    }

    #[test]
    fn a_turn_counts_every_transaction_and_statement() {
        let load = Load::new(&["a", "b"], vec![Box::new(Counted(u64::MAX))]);
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
