//! Model check of the admission to the log's space: no waiter waits for ever, and no ticket
//! promises room that does not exist. `RUSTFLAGS="--cfg loom" cargo test --release -p holdfast-wal
//! --test loom_space`
#![cfg(loom)]

use std::sync::Arc;

use holdfast_base::{Error, Result};
use holdfast_wal::parts::{Geometry, Position, Sizes, SpaceGate};
use holdfast_wal::{SpaceClass, SpaceTicket, WalConfig};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

struct Log {
    gate: SpaceGate,
    checkpoint: AtomicU64,
    closed: AtomicBool,
    /// The bytes that users may have at once.
    all: u64,
    held: AtomicU64,
}

impl Log {
    fn position(&self) -> Position {
        Position { next: 0, checkpoint: self.checkpoint.load(Ordering::Acquire), prepared: u64::MAX }
    }

    fn stop(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed("test")) } else { Ok(()) }
    }

    fn reserve(&self, bytes: u64) -> Result<SpaceTicket<'_>> {
        let ticket = match self.gate.try_take(bytes, SpaceClass::User, || self.position()) {
            Ok(ticket) => ticket,
            Err(_) => {
                let failures = self.gate.failures();
                let prepare = |_| unreachable!();
                self.gate.wait(bytes, SpaceClass::User, failures, || self.position(), prepare, || self.stop())?
            }
        };
        let held = self.held.fetch_add(bytes, Ordering::AcqRel) + bytes;
        assert!(held <= self.all, "{held} of {}", self.all);
        Ok(ticket)
    }

    fn give_back(&self, ticket: SpaceTicket<'_>) {
        self.held.fetch_sub(ticket.bytes(), Ordering::AcqRel);
        drop(ticket);
    }

    fn use_some(&self, bytes: u64) -> Result<()> {
        self.reserve(bytes).map(|ticket| self.give_back(ticket))
    }
}

/// Each thread takes that many bytes and gives them back. Returns the results.
fn take_in_threads(log: &Arc<Log>, bytes: &[u64]) -> Vec<Result<()>> {
    let threads = bytes.iter().map(|&bytes| {
        let log = log.clone();
        thread::spawn(move || log.use_some(bytes))
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

fn explore(check: impl Fn(Arc<Log>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let geometry = Geometry::new(&WalConfig::default()).unwrap();
        check(Arc::new(Log {
            gate: SpaceGate::new(Arc::new(Sizes::new(geometry)), 0),
            checkpoint: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            all: geometry.user_limit,
            held: AtomicU64::new(0),
        }));
    });
}

#[test]
fn a_ticket_given_back_lets_the_line_go_on() {
    explore(|log| {
        let all = log.reserve(log.all).unwrap();
        let other = log.clone();
        let threads = thread::spawn(move || take_in_threads(&other, &[other.all, other.all / 2]));
        log.give_back(all);
        assert!(threads.join().unwrap().iter().all(Result::is_ok));
    });
}

#[test]
fn a_checkpoint_lets_the_line_go_on() {
    explore(|log| {
        // This one is never given back: its bytes are in the log.
        std::mem::forget(log.gate.try_take(log.all, SpaceClass::User, || log.position()).unwrap());
        let other = log.clone();
        let checkpointer = thread::spawn(move || {
            other.checkpoint.store(other.all, Ordering::Release);
            other.gate.call_first();
        });
        assert!(take_in_threads(&log, &[log.all / 2, log.all / 2]).iter().all(Result::is_ok));
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

#[test]
fn who_fails_does_not_hold_up_who_comes_after() {
    explore(|log| {
        // The checker's threads have no scopes, so the gate must outlive them.
        let log: &'static Arc<Log> = Box::leak(Box::new(log));
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
