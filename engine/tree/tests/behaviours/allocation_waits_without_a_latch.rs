//! An allocation that found no frame for a bitmap waited with the latch of page 0, and might choose
//! page 0's own latch to wait for: all threads hung. Frames are reserved before the first latch:
//! while all frames are busy, page 0 is free.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};

use holdfast_base::PageNo;
use holdfast_tree::{OverflowRef, Tree, overflow};
use holdfast_wal::SpaceClass;

use crate::common::{Bed, INDEX, Setup};

const FRAMES: usize = 32;
/// Times that the test yields to let the worker come to its wait. If the worker needs more, the
/// test sees less, and does not fail.
const TURNS: usize = 20_000;

/// Runs `work` while page 0 is in the pool, no bitmap is, and every other frame is latched, each by
/// a thread of its own.
fn while_all_frames_are_busy(work: fn(&Bed, OverflowRef)) {
    let bed = Arc::new(Bed::new(Setup { frames: FRAMES, ..Setup::default() }));
    let (pool, space) = (bed.store.pool(), bed.space.space());
    let acc = bed.access();
    let chain = overflow::write_chain(&bed.space, INDEX, &[1; 200_000], PageNo(2), &acc).unwrap();
    bed.checkpoint();
    let end = Arc::new(Barrier::new(FRAMES));
    let mut holders = Vec::new();
    for no in (chain.first.0..).take(FRAMES - 1) {
        let ((tell, told), bed, end) = (channel(), bed.clone(), end.clone());
        holders.push(std::thread::spawn(move || {
            let acc = bed.access();
            let _page = bed.store.pool().fix_shared(bed.space.space(), PageNo(no), &acc).unwrap();
            tell.send(()).unwrap();
            end.wait();
        }));
        told.recv().unwrap();
        drop(pool.fix_shared(space, PageNo(0), &acc).unwrap());
    }
    assert!(pool.is_resident(space, PageNo(0)) && !pool.is_resident(space, PageNo(1)));
    let ((tell, told), worker_bed) = (channel(), bed.clone());
    let worker = std::thread::spawn(move || {
        tell.send(()).unwrap();
        work(&worker_bed, chain);
    });
    told.recv().unwrap();
    (0..TURNS).for_each(|_| std::thread::yield_now());
    let page_0 = pool.is_resident(space, PageNo(0)).then(|| pool.fix_optimistic(space, PageNo(0), &acc).is_some());
    assert_ne!(page_0, Some(false), "page 0 is latched while a frame is waited for");
    end.wait();
    holders.into_iter().chain([worker]).for_each(|thread| thread.join().unwrap());
    bed.store.wal().check_poisoned().unwrap();
}

#[test]
fn when_a_long_value_is_written() {
    while_all_frames_are_busy(|bed, _| {
        overflow::write_chain(&bed.space, INDEX, &[2; 5000], PageNo(2), &bed.access()).unwrap();
    });
}

#[test]
fn when_a_long_value_is_given_up() {
    while_all_frames_are_busy(|bed, chain| {
        overflow::release_chain(&bed.space, INDEX, chain, &bed.access(), SpaceClass::User).unwrap();
    });
}

#[test]
fn when_pages_are_given_back() {
    while_all_frames_are_busy(|bed, chain| {
        bed.space.free_pages(&[chain.first], SpaceClass::User, &bed.access()).unwrap();
    });
}

#[test]
fn when_a_tree_is_made() {
    while_all_frames_are_busy(|bed, _| {
        Tree::create(&bed.space, INDEX, &bed.access()).unwrap();
    });
}

#[test]
fn when_a_file_becomes_shorter() {
    while_all_frames_are_busy(|bed, _| {
        bed.space.shrink(&bed.access()).unwrap();
    });
}
