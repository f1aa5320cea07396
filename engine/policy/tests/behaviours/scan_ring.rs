//! Declared scans go through the ring and leave only pages that other accesses used.

use crate::common::Cache;
use holdfast_policy::{Policy, PolicyKind, Queue, ScanHint, Touch, scan_budget};

const FRAMES: usize = 1000;

fn oltp() -> Touch {
    Touch::new(0, 0)
}

fn scan() -> Touch {
    Touch::new(9, 0).with_scan(ScanHint::Ring)
}

/// A full pool with pages 0..1000, each used by other accesses.
fn full() -> Cache {
    let mut cache = Cache::new(PolicyKind::Holdfast, FRAMES);
    (0..FRAMES as u64).for_each(|k| cache.access(k * 10, oltp()));
    cache
}

#[test]
fn a_scan_takes_no_more_than_its_budget() {
    let mut cache = full();
    for page in 0..20_000 {
        cache.access(1_000_000 + page, scan());
        assert!(cache.policy.stats().ring <= scan_budget(FRAMES) + 1);
    }
    assert!(cache.holds((0..FRAMES as u64).map(|k| k * 10)) >= FRAMES - scan_budget(FRAMES) - 1);
}

#[test]
fn pages_that_the_scan_has_read_are_the_first_to_go() {
    let mut cache = full();
    for page in 0..20_000 {
        cache.load(1_000_000 + page, scan());
        (0..60).for_each(|_| cache.touch(1_000_000 + page, scan()));
    }
    assert!(cache.policy.stats().ring <= 17, "{:?}", cache.policy.stats());
}

#[test]
fn ring_pages_never_enter_the_ghost() {
    let mut cache = full();
    (0..5000).for_each(|page| cache.access(1_000_000 + page, scan()));
    let before = cache.policy.stats();
    (0..5000).for_each(|page| cache.access(1_000_000 + page, oltp()));
    assert_eq!(cache.policy.stats().ghost_hits, before.ghost_hits);
}

#[test]
fn a_page_that_somebody_else_used_or_changed_moves_to_small() {
    let mut cache = full();
    (0..3).for_each(|page| cache.access(1_000_000 + page, scan()));
    cache.touch(1_000_000, oltp());
    cache.dirty(1_000_001);
    (3..2000).for_each(|page| cache.access(1_000_000 + page, scan()));
    assert_eq!(cache.queue(1_000_000), Queue::Small);
    assert_eq!(cache.queue(1_000_001), Queue::Small);
    assert_eq!(cache.queue(1_000_002), Queue::None);
    assert_eq!(cache.policy.stats().ring_rescued, 2);
}

#[test]
fn a_scan_does_not_make_the_pages_hot_that_it_finds() {
    let mut cache = full();
    (0..FRAMES as u64).for_each(|k| cache.touch(k * 10, Touch { tick: 1000, ..scan() }));
    let mut hot = 0;
    cache.policy.hot(&cache.words, &mut |_| hot += 1);
    assert_eq!(hot, 0);
}

#[test]
fn an_admitted_page_goes_the_normal_way() {
    let mut cache = full();
    cache.access(1_000_000, scan().with_scan(ScanHint::Admit));
    assert_eq!(cache.queue(1_000_000), Queue::Small);
}

#[test]
fn a_page_read_ahead_and_then_used_without_a_declared_scan_is_kept_also_for_the_same_statement() {
    let mut cache = full();
    cache.load(1_000_000, scan());
    cache.touch(1_000_000, Touch::new(9, 0));
    (1..2000).for_each(|page| cache.access(1_000_000 + page, scan()));
    assert_eq!(cache.queue(1_000_000), Queue::Small);
}

/// A walk that is no declared scan uses pages that were read ahead. Each time it had used one, the
/// page that it came to next was evicted.
#[test]
fn a_page_that_was_used_takes_none_along_that_is_to_be_read_yet() {
    let mut cache = full();
    (0..40).for_each(|page| cache.load(1_000_000 + page, scan()));
    for page in 0..40 {
        cache.touch(1_000_000 + page, oltp());
        cache.load(2_000_000 + page * 10, oltp());
    }
    assert_eq!(cache.queue(1_000_000), Queue::Small);
    assert_eq!(cache.queue(1_000_039), Queue::Ring);
}

/// A scan comes back to the page that it has read last. That was evicted at once if there were
/// eight pages in the ring that had been read ahead.
#[test]
fn the_pages_that_were_read_last_stay_beside_pages_that_are_to_be_read_yet() {
    let mut cache = full();
    (0..40).for_each(|page| cache.load(1_000_000 + page, scan()));
    for page in 0..40 {
        cache.touch(1_000_000 + page, scan());
        cache.load(2_000_000 + page * 10, oltp());
        assert_eq!(cache.queue(1_000_000 + page), Queue::Ring);
        assert!(page < 9 || cache.queue(1_000_000 + page - 9) == Queue::None, "page {page}");
    }
}
