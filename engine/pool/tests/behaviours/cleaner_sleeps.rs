//! The cleaner is awake for dirty pages that are about to be evicted, not for evictions.

use holdfast_metrics::Counter;

use crate::common::Bed;

const FRAMES: u32 = 8192;
const PAGES: u32 = 2 * FRAMES;

/// Twice as many pages as frames, all clean but the first, which is hot.
fn bed() -> Bed {
    let bed = Bed::with_threads(FRAMES as usize);
    bed.create_many(PAGES);
    bed.heat(1);
    bed.update(0, 0).unwrap();
    bed
}

/// Reads a page, and lets the cleaner do what that has asked of it: how often it is woken does not
/// depend on when the threads run.
fn read(bed: &Bed, no: u32) -> u64 {
    let value = bed.read(no).unwrap();
    while !bed.pool.cleaner_rests() {
        std::thread::yield_now();
    }
    value
}

fn evictions(bed: &Bed) -> u64 {
    bed.metrics.get(Counter::PagesEvictedClean) + bed.metrics.get(Counter::PagesEvictedRing)
}

/// One page is dirty and in constant use. Evictions of clean pages beside it, 400 batches in a
/// second of a dump, do not wake the cleaner, which would find nothing to write and take a core
/// from other threads.
#[test]
fn a_hot_dirty_page_does_not_keep_the_cleaner_awake() {
    let bed = bed();
    let (woken, evicted) = (bed.metrics.get(Counter::CleanerWakeups), evictions(&bed));
    for no in (1..PAGES).chain(1..PAGES) {
        read(&bed, no);
        read(&bed, 0);
    }
    assert_eq!(bed.pool.stats().dirty, 1);
    let evicted = evictions(&bed) - evicted;
    assert!(evicted > u64::from(FRAMES));
    // Seen in advance are 448 evictions at a time, after the first few.
    let woken = bed.metrics.get(Counter::CleanerWakeups) - woken;
    assert!(woken < evicted / 300, "woken {woken} times by {evicted} evictions");
}

#[test]
fn cold_dirty_pages_are_written_after_a_long_rest() {
    let bed = bed();
    (1..PAGES).for_each(|no| assert_eq!(read(&bed, no), u64::from(no)));
    (1..PAGES).rev().step_by(3).take(1_000).for_each(|no| bed.update(no, u64::from(no)).unwrap());
    let written = |bed: &Bed| bed.metrics.get(Counter::FlushedLru);
    let before = written(&bed);
    let passes = (0..3).take_while(|_| {
        (1..PAGES).for_each(|no| assert_eq!(read(&bed, no), u64::from(no)));
        written(&bed) == before
    });
    assert!(passes.count() < 3, "the cleaner sleeps on");
}
