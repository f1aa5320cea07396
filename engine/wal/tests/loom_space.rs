//! Model check of the admission to the log's space: no waiter waits for ever, and no ticket
//! promises room that does not exist. `RUSTFLAGS="--cfg loom" cargo test --release -p holdfast-wal
//! --test loom_space`
#![cfg(loom)]

use std::sync::Arc;

use holdfast_base::loom_plants::failure_with;
use holdfast_base::{Error, Result};
use holdfast_wal::parts::{Geometry, Log, Position, Sizes, SpaceGate};
use holdfast_wal::{SpaceClass, SpaceTicket, WalConfig};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

struct Model {
    gate: SpaceGate,
    next: AtomicU64,
    checkpoint: AtomicU64,
    closed: AtomicBool,
    /// Whether the checkpointer has been woken.
    woken: Mutex<bool>,
    wakes: Condvar,
    /// The bytes that users may have at once.
    all: u64,
    held: AtomicU64,
}

impl Log for Model {
    fn position(&self) -> Position {
        let (next, checkpoint) = (self.next.load(Ordering::Acquire), self.checkpoint.load(Ordering::Acquire));
        Position { next, checkpoint, prepared: u64::MAX }
    }

    fn prepare(&self, _: u64) -> Result<()> {
        unreachable!("the segments are prepared")
    }

    fn first_end(&self) -> Option<u64> {
        None
    }

    fn check(&self, _: u64, _: SpaceClass) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed("test")) } else { Ok(()) }
    }

    fn wake_checkpointer(&self) {
        *self.woken.lock().unwrap() = true;
        self.wakes.notify_one();
    }
}

impl Model {
    fn reserve(&self, bytes: u64) -> Result<SpaceTicket<'_>> {
        let ticket = match self.gate.try_take_of_plenty(bytes, SpaceClass::User, self) {
            Some(ticket) => ticket,
            None => match self.gate.try_take(bytes, SpaceClass::User, self) {
                Ok(ticket) => ticket,
                Err(_) => self.gate.wait(bytes, SpaceClass::User, self)?,
            },
        };
        let held = self.held.fetch_add(bytes, Ordering::AcqRel) + bytes;
        assert!(held <= self.all, "{held} of {}", self.all);
        Ok(ticket)
    }

    /// Appends so many bytes.
    fn append(&self, bytes: u64) {
        let ticket = self.reserve(bytes).unwrap();
        self.next.fetch_add(bytes, Ordering::AcqRel);
        self.give_back(ticket);
    }

    /// Moves the checkpoint as far as waiters want it, each time that it is woken.
    fn run_checkpointer(&self) {
        loop {
            let mut woken = self.woken.lock().unwrap();
            while !std::mem::take(&mut *woken) {
                woken = self.wakes.wait(woken).unwrap();
            }
            drop(woken);
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            if let Some(age) = self.gate.age_wanted() {
                let wanted = self.next.load(Ordering::Acquire).saturating_sub(age);
                if self.checkpoint.fetch_max(wanted, Ordering::AcqRel) < wanted {
                    self.gate.call_first();
                }
            }
        }
    }

    fn give_back(&self, ticket: SpaceTicket<'_>) {
        self.held.fetch_sub(ticket.bytes(), Ordering::AcqRel);
        drop(ticket);
    }

    fn use_some(&self, bytes: u64) -> Result<()> {
        self.reserve(bytes).map(|ticket| self.give_back(ticket))
    }
}

/// Threads that take so many bytes each and give them back.
fn takers(log: &Arc<Model>, bytes: &[u64]) -> Vec<thread::JoinHandle<Result<()>>> {
    let taker = |&bytes: &u64| {
        let log = log.clone();
        thread::spawn(move || log.use_some(bytes))
    };
    bytes.iter().map(taker).collect()
}

fn joined(takers: Vec<thread::JoinHandle<Result<()>>>) -> Vec<Result<()>> {
    takers.into_iter().map(|taker| taker.join().unwrap()).collect()
}

/// The same, of which this thread is the last: one less takes the checker a fraction of the time.
fn take_in_threads(log: &Arc<Model>, bytes: &[u64]) -> Vec<Result<()>> {
    let (last, others) = bytes.split_last().unwrap();
    let others = takers(log, others);
    let last = log.use_some(*last);
    let mut results = joined(others);
    results.push(last);
    results
}

fn explore(check: impl Fn(Arc<Model>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let geometry = Geometry::new(&WalConfig::default()).unwrap();
        check(Arc::new(Model {
            gate: SpaceGate::new(Arc::new(Sizes::new(geometry)), 0),
            next: AtomicU64::new(0),
            checkpoint: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            woken: Mutex::new(false),
            wakes: Condvar::new(),
            all: geometry.user_limit,
            held: AtomicU64::new(0),
        }));
    });
}

#[test]
fn a_ticket_given_back_lets_the_line_go_on() {
    explore(|log| {
        let all = log.reserve(log.all).unwrap();
        let takers = takers(&log, &[log.all, log.all / 2]);
        log.give_back(all);
        assert!(joined(takers).iter().all(Result::is_ok));
    });
}

/// A ticket of a group, counted by the group, and one that needs all the room.
/// A waiter that registers in between is not called, and sleeps for ever.
#[test]
fn a_drop_that_looks_for_waiters_too_early_is_found() {
    let failure = failure_with("waiters-counted-early", a_ticket_given_back_lets_the_line_go_on);
    assert!(failure.contains("deadlock"), "{failure}");
}

#[test]
fn what_a_group_grants_is_counted_by_those_who_need_its_room() {
    explore(|log| {
        let small = 4096;
        assert!(take_in_threads(&log, &[log.all, small]).iter().all(Result::is_ok));
        assert_eq!(log.gate.promised(), 0);
    });
}

/// The same when the ticket of the group is out already: its drop calls the waiter.
#[test]
fn a_ticket_of_a_group_that_is_given_back_lets_the_line_go_on() {
    explore(|log| {
        let small = log.reserve(4096).unwrap();
        let takers = takers(&log, &[log.all, 4096]);
        log.give_back(small);
        assert!(joined(takers).iter().all(Result::is_ok));
        assert_eq!(log.gate.promised(), 0);
    });
}

/// A group takes a ticket while the first waiter is served. The owner of the ticket yields before
/// it gives the ticket back: that is no preemption.
#[test]
fn what_a_group_grants_is_counted_by_the_waiter_that_is_served() {
    explore(|log| {
        let (first, other) = (log.reserve(4096).unwrap(), log.clone());
        let waiter = takers(&log, &[log.all]);
        let of_group = thread::spawn(move || {
            let ticket = other.reserve(4096).unwrap();
            thread::yield_now();
            other.give_back(ticket);
        });
        log.give_back(first);
        of_group.join().unwrap();
        assert!(joined(waiter).iter().all(Result::is_ok));
        assert_eq!(log.gate.promised(), 0);
    });
}

/// The waiter has not counted what the group grants.
#[test]
fn a_crowded_log_that_is_not_seen_is_found() {
    let failure = failure_with("crowded-not-seen", what_a_group_grants_is_counted_by_the_waiter_that_is_served);
    assert!(failure.contains(" of "), "{failure}");
}

#[test]
fn a_checkpoint_lets_the_line_go_on() {
    explore(|log| {
        // This one is never given back: its bytes are in the log.
        std::mem::forget(log.gate.try_take(log.all, SpaceClass::User, &*log).unwrap());
        let other = log.clone();
        let checkpointer = thread::spawn(move || {
            other.checkpoint.store(other.all, Ordering::Release);
            other.gate.call_first();
        });
        assert!(take_in_threads(&log, &[log.all / 2, log.all / 2]).iter().all(Result::is_ok));
        checkpointer.join().unwrap();
    });
}

/// The log is full, and each thread that appends needs a checkpoint of its own.
#[test]
fn the_first_waiter_wakes_the_checkpointer() {
    explore(|log| {
        log.append(log.all);
        let (checkpointer, other) = (log.clone(), log.clone());
        let checkpointer = thread::spawn(move || checkpointer.run_checkpointer());
        let appender = thread::spawn(move || other.append(other.all / 4));
        log.append(log.all / 4);
        appender.join().unwrap();
        log.closed.store(true, Ordering::Release);
        log.wake_checkpointer();
        checkpointer.join().unwrap();
    });
}

#[test]
fn closing_sends_everybody_home() {
    explore(|log| {
        let all = log.reserve(log.all).unwrap();
        let other = log.clone();
        let closer = thread::spawn(move || {
            other.closed.store(true, Ordering::Release);
            other.gate.call_all();
        });
        assert!(take_in_threads(&log, &[log.all, log.all]).iter().all(Result::is_err));
        closer.join().unwrap();
        log.give_back(all);
    });
}

/// A thread that closes the log waits for the tickets that are out, and none is used behind its
/// back.
#[test]
fn no_ticket_is_used_once_a_closer_has_waited() {
    explore(|log| {
        let (other, over) = (log.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = over.clone();
        let taker = thread::spawn(move || {
            let Ok(ticket) = other.reserve(4096) else { return };
            if other.check(0, SpaceClass::User).is_ok() {
                assert!(!is_over.load(Ordering::Acquire));
            }
            other.give_back(ticket);
        });
        log.closed.swap(true, Ordering::AcqRel);
        log.gate.call_all();
        log.gate.wait_for_tickets();
        over.store(true, Ordering::Release);
        taker.join().unwrap();
        assert_eq!(log.gate.promised(), 0);
    });
}

#[test]
fn who_fails_does_not_hold_up_who_comes_after() {
    explore(|log| {
        // The checker's threads have no scopes, so the gate must outlive them.
        let log: &'static Arc<Model> = Box::leak(Box::new(log));
        let all = log.reserve(log.all).unwrap();
        let other = log.clone();
        let room = thread::spawn(move || {
            other.gate.fail(Error::DiskFull("test".into()));
            other.give_back(all);
        });
        // Those that waited for the checkpoint fail with it; one that came later gets the room.
        for result in take_in_threads(log, &[log.all, log.all]) {
            assert!(matches!(result, Ok(()) | Err(Error::DiskFull(_))));
        }
        room.join().unwrap();
        log.use_some(log.all).unwrap();
    });
}
