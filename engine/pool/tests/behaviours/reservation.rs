//! Frames set aside for structure changes: bounded, first come first served, given back.

use holdfast_base::{Error, PageNo};
use holdfast_pool::RESERVED_MAX;

use crate::common::Bed;

#[test]
fn reserved_frames_are_used_and_the_rest_goes_back() {
    let bed = Bed::new(40);
    bed.create_many(60);
    let acc = bed.access();
    let reserved = bed.pool.reserve_frames(8, &acc).unwrap();
    let before = bed.pool.stats();
    let pages: Vec<_> = (100..105).map(|no| bed.pool.fix_new(&bed.space, PageNo(no), &acc).unwrap()).collect();
    assert_eq!(bed.pool.stats().resident, before.resident + 5, "nothing had to be evicted");
    drop(pages);
    drop(reserved);
    let stats = bed.pool.stats();
    assert_eq!(stats.resident + stats.free, 40);
    assert!(stats.free >= 8);
}

#[test]
fn a_page_can_be_made_while_every_other_one_is_latched() {
    let bed = Bed::new(32);
    bed.create_many(32);
    let acc = bed.access();
    let _frames = bed.pool.reserve_frames(2, &acc).unwrap();
    let resident: Vec<u32> = (0..32).filter(|&no| bed.pool.is_resident(&bed.space, PageNo(no))).collect();
    let other = bed.access();
    let held: Vec<_> =
        resident.iter().map(|&no| bed.pool.fix_exclusive(&bed.space, PageNo(no), &other).unwrap()).collect();
    drop(bed.pool.fix_new(&bed.space, PageNo(100), &acc).unwrap());
    drop(held);
}

#[test]
fn all_together_take_at_most_a_quarter() {
    let bed = Bed::new(40);
    let acc = bed.access();
    assert!(matches!(bed.pool.reserve_frames(11, &acc), Err(Error::LimitReached(_))));
    drop(bed.pool.reserve_frames(10, &acc).unwrap());
    let reserved = bed.pool.reserve_frames(9, &acc).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let acc = bed.access();
            drop(bed.pool.reserve_frames(2, &acc).unwrap());
        });
        while bed.metrics.get(holdfast_metrics::Counter::ReservationWaits) == 0 {
            std::thread::yield_now();
        }
        drop(reserved);
        waits.join().unwrap();
    });
}

#[test]
fn who_ends_serves_all_in_line_for_whom_there_is_room() {
    let bed = Bed::new(40);
    let acc = bed.access();
    let reserved = bed.pool.reserve_frames(10, &acc).unwrap();
    // They keep what they get until all have it: the end of one does not serve the next.
    let all_have_it = std::sync::Barrier::new(5);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let acc = bed.access();
                let _frames = bed.pool.reserve_frames(2, &acc).unwrap();
                all_have_it.wait();
            });
        }
        while bed.metrics.get(holdfast_metrics::Counter::ReservationWaits) < 5 {
            std::thread::yield_now();
        }
        drop(reserved);
    });
}

#[test]
fn a_reservation_is_as_large_again_after_a_refill() {
    let bed = Bed::new(32);
    bed.create_many(60);
    let acc = bed.access();
    let frames = bed.pool.reserve_frames(RESERVED_MAX, &acc).expect("so many can be had in the smallest pool");
    for no in 100..105 {
        drop(bed.pool.fix_new(&bed.space, PageNo(no), &acc).unwrap());
    }
    assert_eq!(acc.reserved_frames(), RESERVED_MAX - 5);
    frames.refill().unwrap();
    assert_eq!(acc.reserved_frames(), RESERVED_MAX);
}
