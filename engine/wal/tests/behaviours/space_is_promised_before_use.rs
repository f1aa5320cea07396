//! Tickets: the limits of the classes, the wait for the checkpoint, first come first served, the
//! throttle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use holdfast_base::{Error, limits};
use holdfast_io::MemoryDisk;
use holdfast_metrics::Metrics;
use holdfast_wal::{SpaceClass, Wal, WalConfig};

use crate::common::*;

fn fresh() -> Arc<Wal> {
    create(&Arc::new(MemoryDisk::new()))
}

fn fill_to_the_limit(wal: &Wal) {
    while let Some(_ticket) = wal.try_reserve(10_048, SpaceClass::User).unwrap() {
        wal.append(&payload(0, 10_000)).unwrap();
    }
}

/// Receives a message each time a thread is going to wait and wakes the checkpointer.
fn calls_of_waiters(wal: &Wal) -> Receiver<()> {
    let (wake, woken) = channel();
    wal.on_growth(|_| u64::MAX / 2, move || wake.send(()).unwrap());
    woken
}

#[test]
fn a_capacity_below_the_minimum_is_refused() {
    let config = WalConfig { capacity_bytes: limits::LOG_CAPACITY_MIN - 1, ..small() };
    let refused = Wal::create(Arc::new(MemoryDisk::new()), UUID, config, Metrics::new());
    assert!(matches!(refused, Err(Error::InvalidArgument(what)) if what.contains("minimum")));
}

#[test]
fn the_log_never_outgrows_its_capacity_and_the_classes_have_their_reserves() {
    let wal = fresh();
    fill_to_the_limit(&wal);
    assert!(wal.age() <= wal.user_limit() && wal.age() + 20_000 > wal.user_limit());
    assert!(wal.try_reserve(10_048, SpaceClass::User).unwrap().is_none());
    let rollback = wal.try_reserve(2 * SEGMENT, SpaceClass::Rollback).unwrap().unwrap();
    assert!(wal.try_reserve(SEGMENT, SpaceClass::Rollback).unwrap().is_none());
    wal.reserve(SEGMENT, SpaceClass::Checkpoint).unwrap();
    drop(rollback);
    wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
    assert_eq!(wal.age(), 0);
    wal.try_reserve(wal.user_limit(), SpaceClass::User).unwrap().unwrap();
}

#[test]
fn more_than_there_can_ever_be_is_refused() {
    let wal = fresh();
    let too_much = wal.user_limit() + 1;
    assert!(matches!(wal.reserve(too_much, SpaceClass::User), Err(Error::LimitReached(_))));
    drop(wal.reserve(too_much, SpaceClass::Rollback).unwrap());
}

#[test]
fn a_ticket_comes_back_and_so_does_one_that_found_no_room() {
    let wal = fresh();
    let ticket = wal.reserve(wal.user_limit() - 64, SpaceClass::User).unwrap();
    assert!(wal.try_reserve(128, SpaceClass::User).unwrap().is_none());
    drop(wal.try_reserve(64, SpaceClass::User).unwrap().expect("what was asked for in vain takes no room"));
    drop(ticket);
    drop(wal.try_reserve(wal.user_limit(), SpaceClass::User).unwrap().unwrap());
}

#[test]
fn a_waiter_wakes_the_checkpointer_and_is_woken_by_it() {
    let wal = fresh();
    fill_to_the_limit(&wal);
    let woken = calls_of_waiters(&wal);
    thread::scope(|s| {
        let waiter = s.spawn(|| wal.reserve(SEGMENT, SpaceClass::User).map(drop));
        woken.recv().unwrap();
        wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn small_requests_do_not_overtake_a_large_one() {
    let wal = fresh();
    let half = wal.reserve(wal.user_limit() / 2, SpaceClass::User).unwrap();
    let woken = calls_of_waiters(&wal);
    let served = AtomicU64::new(0);
    thread::scope(|s| {
        let large = s.spawn(|| {
            let ticket = wal.reserve(wal.user_limit(), SpaceClass::User).unwrap();
            assert_eq!(served.load(Relaxed), 0);
            ticket
        });
        // The large one calls the hook just before it queues. The first refusal proves that it has
        // queued.
        woken.recv().unwrap();
        while wal.try_reserve(32, SpaceClass::User).unwrap().is_some() {
            thread::yield_now();
        }
        let small = s.spawn(|| {
            let ticket = wal.reserve(32, SpaceClass::User).unwrap();
            served.fetch_add(1, Relaxed);
            ticket
        });
        woken.recv().unwrap();
        assert!(wal.try_reserve(32, SpaceClass::Rollback).unwrap().is_some(), "rollback does not queue");
        drop(half);
        drop(large.join().unwrap());
        drop(small.join().unwrap());
    });
    assert_eq!(served.load(Relaxed), 1);
}

#[test]
fn a_checkpoint_serves_all_in_line_for_whom_there_is_room() {
    let wal = fresh();
    fill_to_the_limit(&wal);
    let woken = calls_of_waiters(&wal);
    let share = wal.user_limit() / 4;
    thread::scope(|s| {
        // The threads keep their tickets until all have one, so no ticket comes back and calls the
        // next waiter.
        let in_line: Vec<_> = (0..4).map(|_| s.spawn(|| wal.reserve(share, SpaceClass::User))).collect();
        for _ in &in_line {
            woken.recv().unwrap();
        }
        wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
        let tickets: Vec<_> = in_line.into_iter().map(|waiter| waiter.join().unwrap().unwrap()).collect();
        assert!(wal.try_reserve(share, SpaceClass::User).unwrap().is_none(), "{tickets:?} are all there is");
    });
}

#[test]
fn closing_ends_the_wait() {
    let wal = fresh();
    let all = wal.reserve(wal.user_limit(), SpaceClass::User).unwrap();
    thread::scope(|s| {
        let waiter = s.spawn(|| wal.reserve(1000, SpaceClass::User));
        wal.close().unwrap();
        assert!(matches!(waiter.join().unwrap(), Err(Error::Closed(_))));
    });
    drop(all);
}

#[test]
fn what_was_promised_is_appended_before_the_log_closes() {
    let wal = fresh();
    let ticket = wal.reserve(1_056, SpaceClass::User).unwrap();
    thread::scope(|s| {
        let closer = s.spawn(|| {
            wal.end_promises();
            wal.close().unwrap();
        });
        while !matches!(wal.try_reserve(32, SpaceClass::User), Err(Error::Closed(_))) {
            thread::yield_now();
        }
        wal.append(&payload(7, 1_000)).unwrap();
        drop(ticket);
        closer.join().unwrap();
    });
    assert_eq!(wal.durable_lsn(), wal.next_lsn());
    assert!(matches!(wal.append(b"late"), Err(Error::Closed(_))));
}

#[test]
fn the_throttle_grows_behind_the_age_of_a_steady_load() {
    let wal = fresh();
    let max = WalConfig::default().throttle_max;
    let mut last = Duration::ZERO;
    while let Some(_ticket) = wal.try_reserve(10_048, SpaceClass::User).unwrap() {
        wal.append(&payload(0, 10_000)).unwrap();
        let delay = wal.throttle_delay();
        assert!(delay.is_zero() || wal.age() > wal.capacity() / 100 * 62);
        assert!(delay >= last && delay <= max);
        last = delay;
    }
    assert!(last > max.mul_f64(0.9), "{last:?} near the limit");
    wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
    assert!(wal.throttle_delay().is_zero());
}

#[test]
fn growth_is_announced_once_per_step() {
    let wal = fresh();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    wal.on_growth(
        |_| 10_000,
        move || {
            counted.fetch_add(1, Relaxed);
        },
    );
    for _ in 0..100 {
        wal.append(&[0; 1000]).unwrap();
    }
    let grown = wal.next_lsn().0 - FIRST;
    assert!((grown / 12_000..=grown / 10_000).contains(&calls.load(Relaxed)), "{} calls", calls.load(Relaxed));
}

/// The checkpointer of a log that was made much smaller was woken in steps of the former capacity:
/// by waiters alone.
#[test]
fn the_step_follows_the_capacity() {
    let wal = Wal::create(
        Arc::new(MemoryDisk::new()),
        UUID,
        WalConfig { capacity_bytes: 32 << 20, ..small() },
        Metrics::new(),
    )
    .unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    wal.on_growth(
        |capacity| capacity / 512,
        move || {
            counted.fetch_add(1, Relaxed);
        },
    );
    wal.set_capacity(4 << 20).unwrap();
    calls.store(0, Relaxed);
    for _ in 0..100 {
        wal.append(&[0; 1000]).unwrap();
    }
    assert!((9..=13).contains(&calls.load(Relaxed)), "{} calls in 100 KiB", calls.load(Relaxed));
    wal.set_capacity(32 << 20).unwrap();
    calls.store(0, Relaxed);
    for _ in 0..100 {
        wal.append(&[0; 1000]).unwrap();
    }
    assert!((1..=2).contains(&calls.load(Relaxed)), "{} calls in 100 KiB", calls.load(Relaxed));
}
