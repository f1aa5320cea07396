//! A pool that is full of dirty pages writes some itself; the log is always ahead of the pages.

use holdfast_base::page;
use holdfast_metrics::Counter;

use crate::common::{Bed, PAGE};

fn all_written_pages_are_covered_by_the_log(bed: &Bed) {
    let file = bed.space.file();
    let mut bytes = vec![0; PAGE];
    for no in 0..file.len().unwrap() / PAGE as u64 {
        file.read_at(no * PAGE as u64, &mut bytes).unwrap();
        assert!(page::lsn(&bytes) <= bed.wal.durable_lsn(), "page {no} went ahead of the log");
    }
}

#[test]
fn dirty_pages_make_room_for_each_other() {
    let bed = Bed::new(32);
    for no in 0..300 {
        bed.create(no, u64::from(no) + 1).unwrap();
        all_written_pages_are_covered_by_the_log(&bed);
    }
    assert!(bed.metrics.get(Counter::FlushedEviction) >= 268);
    for no in 0..300 {
        assert_eq!(bed.read(no).unwrap(), u64::from(no) + 1);
    }
}

#[test]
fn a_flush_leaves_nothing_dirty_and_the_checkpoint_free() {
    let bed = Bed::new(64);
    (0..50).for_each(|no| bed.create(no, 1).unwrap());
    assert!(bed.pool.oldest_dirty() < bed.wal.next_lsn());
    assert!(bed.pool.checkpoint().unwrap() < bed.wal.next_lsn());
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.pool.stats().dirty, 0);
    assert_eq!(bed.pool.checkpoint().unwrap(), bed.wal.next_lsn());
    all_written_pages_are_covered_by_the_log(&bed);
}

#[test]
fn the_checkpoint_waits_for_the_sync_of_written_pages() {
    let bed = Bed::new(32);
    let first = bed.wal.next_lsn();
    for no in 0..80 {
        bed.create(no, 1).unwrap();
    }
    let syncs = bed.metrics.snapshot();
    assert!(bed.metrics.get(Counter::PagesWritten) > 0);
    assert_eq!(bed.pool.oldest_dirty(), first, "written, but not synced: {syncs:?}");
    bed.pool.checkpoint().unwrap();
    assert!(bed.pool.oldest_dirty() > first);
}
