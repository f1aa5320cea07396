//! Many threads on few frames: every one makes progress, and no change is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::PageNo;
use holdfast_io::MemoryDisk;
use holdfast_policy::PolicyKind;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::common::{self, Bed, change, read_optimistic, value};

fn run(bed: &Bed, threads: u32, writers: u32, pages: u32, operations: u32) {
    bed.create_many(0);
    (0..pages).for_each(|no| bed.create(no, 0).unwrap());
    let added: Vec<AtomicU64> = (0..pages).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for t in 0..threads {
            let added = &added;
            let body = move || {
                let mut rng = SmallRng::seed_from_u64(u64::from(t));
                for _ in 0..operations {
                    let no = rng.random_range(0..pages);
                    let acc = bed.access();
                    if t < writers {
                        // As a structure change does: frames first, then latches.
                        let _frames = bed.pool.reserve_frames(2, &acc).unwrap();
                        let other = rng.random_range(0..pages);
                        let mut first = bed.pool.fix_exclusive(&bed.space, PageNo(no.min(other)), &acc).unwrap();
                        let v = value(first.bytes()) + 1;
                        change(&bed.pool, &mut first, v).unwrap();
                        added[no.min(other) as usize].fetch_add(1, Ordering::Relaxed);
                        if no != other {
                            let second = bed.pool.fix_shared(&bed.space, PageNo(no.max(other)), &acc).unwrap();
                            value(&second);
                        }
                    } else if rng.random() {
                        read_optimistic(&bed.pool, &bed.space, no, &acc).unwrap();
                    } else {
                        value(&bed.pool.fix_shared(&bed.space, PageNo(no), &acc).unwrap());
                    }
                }
            };
            std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, body).unwrap();
        }
    });
    for no in 0..pages {
        assert_eq!(bed.read(no).unwrap(), added[no as usize].load(Ordering::Relaxed), "page {no}");
    }
    bed.pool.flush_all().unwrap();
    let stats = bed.pool.stats();
    assert_eq!(stats.dirty, 0);
    let resident: usize = bed.pool.residency().values().map(|r| r.pages).sum();
    assert_eq!((resident, stats.resident + stats.free), (stats.resident, stats.frames));
}

fn bed(frames: usize, background: bool, policy: PolicyKind) -> Bed {
    let adjust = |mut c: holdfast_pool::PoolConfig| {
        (c.background, c.policy) = (background, policy);
        c
    };
    Bed::on(Arc::new(MemoryDisk::new()), adjust, frames)
}

#[test]
fn a_few_threads_on_very_few_frames() {
    for background in [false, true] {
        run(&bed(32, background, PolicyKind::Holdfast), 8, 4, 100, 300);
    }
}

#[test]
fn under_each_policy() {
    let midpoint = PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 10 };
    for policy in [PolicyKind::Holdfast, midpoint, PolicyKind::Lru] {
        run(&bed(64, true, policy), 8, 4, 200, 300);
    }
}

/// More partitions than the machine has cores for: a frame passes from one to another while threads
/// still believe in its former page.
#[test]
fn many_partitions_under_each_policy() {
    let midpoint = PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 0 };
    for policy in [PolicyKind::Holdfast, midpoint, PolicyKind::Lru] {
        let adjust = |mut c: holdfast_pool::PoolConfig| {
            (c.background, c.partitions, c.policy) = (true, 8, policy);
            c
        };
        run(&Bed::on(Arc::new(MemoryDisk::new()), adjust, 64), 8, 4, 2000, 1500);
    }
}

/// The same while the pool changes its size and its policy, and a space is closed and opened again
/// and again.
#[test]
fn many_partitions_beside_changes_of_the_pool() {
    let adjust = |mut c: holdfast_pool::PoolConfig| {
        (c.partitions, c.policy, c.max_bytes) = (8, PolicyKind::Lru, 128 * common::PAGE as u64);
        c
    };
    const PAGES: u32 = 1024;
    let bed = Bed::on(Arc::new(MemoryDisk::new()), adjust, 64);
    bed.create_many(PAGES);
    let running = AtomicU64::new(6);
    std::thread::scope(|scope| {
        for t in 0..6 {
            let (bed, running) = (&bed, &running);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(t);
                for _ in 0..5_000 {
                    let no = rng.random_range(0..PAGES);
                    assert_eq!(read_optimistic(&bed.pool, &bed.space, no, &bed.access()).unwrap(), u64::from(no));
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let midpoint = PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 0 };
        for (n, policy) in [PolicyKind::Lru, midpoint, PolicyKind::Holdfast].into_iter().cycle().enumerate() {
            if running.load(Ordering::Relaxed) == 0 {
                break;
            }
            bed.pool.set_policy(policy);
            bed.pool.resize(((48 + 16 * (n % 4)) * common::PAGE) as u64).unwrap();
            let other = common::open_space(&bed.pool, &bed.disk, holdfast_base::SpaceId(100 + n as u32));
            (0..20).for_each(|no| common::create(&bed.pool, &other, no * 64, 1).unwrap());
            bed.pool.close_space(&other, true).unwrap();
        }
    });
    bed.pool.flush_all().unwrap();
    let stats = bed.pool.stats();
    assert_eq!((stats.dirty, stats.resident + stats.free), (0, stats.frames));
}

/// 1,024 connections, 64 of them writing, on the smallest pool: 320 frames (of 4 KiB here, so that
/// the test is short).
#[test]
fn a_thousand_threads_on_the_smallest_pool() {
    run(&bed(320, true, PolicyKind::Holdfast), 1024, 64, 1000, 30);
}
