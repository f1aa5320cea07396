//! Declared scans and read-ahead stay within the scan budget.

use std::sync::Arc;

use holdfast_base::PageNo;
use holdfast_io::MemoryDisk;
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;

use crate::common::{Bed, PAGE};

fn hot_pages_resident(bed: &Bed) -> usize {
    (0..60).filter(|&no| bed.pool.is_resident(&bed.space, PageNo(no))).count()
}

/// 60 hot pages in a pool of 80 frames.
fn warm() -> Bed {
    let bed = Bed::new(80);
    bed.create_many(600);
    bed.heat(60);
    assert_eq!(hot_pages_resident(&bed), 60);
    bed
}

#[test]
fn a_declared_scan_washes_nothing_out() {
    let bed = warm();
    let acc = bed.pool.access(AccessKind::Scan);
    acc.begin_scan(540);
    assert!(acc.is_ring_scan());
    for no in 60..600 {
        drop(bed.pool.fix_shared(&bed.space, PageNo(no), &acc).unwrap());
    }
    acc.end_scan();
    assert_eq!(hot_pages_resident(&bed), 60);
    assert!(bed.pool.stats().policy.ring <= 11);
    assert!(bed.metrics.get(Counter::PagesEvictedRing) > 400);
}

#[test]
fn a_small_scan_is_an_ordinary_access() {
    let bed = warm();
    let acc = bed.pool.access(AccessKind::Scan);
    acc.begin_scan(20);
    assert!(!acc.is_ring_scan());
}

#[test]
fn read_ahead_brings_pages_and_counts_what_was_useless() {
    for (background, threads) in [(false, 2), (true, 2), (true, 0)] {
        let adjust = |mut c: holdfast_pool::PoolConfig| {
            (c.background, c.read_ahead_threads) = (background, threads);
            c
        };
        let bed = Bed::on(Arc::new(MemoryDisk::new()), adjust, 64);
        bed.create_many(300);
        let acc = bed.pool.access(AccessKind::Range);
        // Which pages stay depends on which were clean when room was needed: with the cleaner at
        // work, on its timing.
        let missing = |no: &PageNo| !bed.pool.is_resident(&bed.space, *no);
        let pages: Vec<PageNo> = (0..300).map(PageNo).filter(missing).take(4).collect();
        // Read-ahead takes no frame that it would have to wait for, and the cleaner may be writing
        // one now.
        while !pages.iter().all(|&no| bed.pool.is_resident(&bed.space, no)) {
            bed.pool.prefetch(&bed.space, &pages, &acc);
            bed.pool.wait_for_prefetch();
            assert!(background || bed.metrics.get(Counter::ReadAhead) == 4);
        }
        assert_eq!(bed.metrics.get(Counter::ReadAhead), 4);
        for &no in &pages[..2] {
            drop(bed.pool.fix_shared(&bed.space, no, &acc).unwrap());
        }
        assert_eq!(acc.reads(), 0, "they were there");
        bed.pool.close_space(&bed.space, false).unwrap();
        assert_eq!(bed.metrics.get(Counter::ReadAheadEvicted), 2);
    }
}

#[test]
fn read_ahead_of_pages_that_are_not_there_harms_nobody() {
    let bed = Bed::new(64);
    bed.create_many(10);
    bed.space.file().set_len(50 * PAGE as u64).unwrap();
    let acc = bed.pool.access(AccessKind::Range);
    bed.pool.prefetch(&bed.space, &[PageNo(20), PageNo(9999)], &acc);
    assert!(bed.space.damaged().is_none());
    assert_eq!(bed.metrics.get(Counter::ReadAhead), 0);
    assert_eq!(bed.pool.stats().resident, 10);
}

/// Neighbours belong to one partition. What was read ahead for a scan was counted against the room
/// of all partitions together, and a partition of less than eight frames counted as one of eight.
#[test]
fn read_ahead_keeps_to_the_room_of_small_partitions() {
    let adjust = |mut c: holdfast_pool::PoolConfig| {
        c.partitions = 8;
        c
    };
    let bed = Bed::on(Arc::new(MemoryDisk::new()), adjust, 1024);
    bed.create_many(200);
    assert_eq!(bed.pool.farthest_ahead(), 12);
    bed.pool.resize(32 * PAGE as u64).unwrap();
    assert_eq!(bed.pool.farthest_ahead(), 0);
    let missing = |no: &PageNo| !bed.pool.is_resident(&bed.space, *no);
    let pages: Vec<PageNo> = (0..200).map(PageNo).filter(missing).take(8).collect();
    let acc = bed.pool.access(AccessKind::Range);
    assert_eq!(bed.pool.prefetch(&bed.space, &pages, &acc), 2);
}
