//! Touches that belong to the visit that brought a page in do not prove it.

use crate::common::Cache;
use holdfast_policy::{Policy, PolicyKind, Queue, Touch};

/// 1,000 frames, 899 of them with proven pages: small has 100, the window is 50 insertions.
fn warm() -> Cache {
    let mut cache = Cache::new(PolicyKind::Holdfast, 1000);
    for tick in [0, 1000] {
        (0..950).for_each(|k| cache.access(10_000_000 + k * 1000, Touch::new(0, tick)));
    }
    (950..1200).for_each(|k| cache.access(10_000_000 + k * 1000, Touch::new(0, 0)));
    assert_eq!(cache.policy.stats().main, 899);
    cache
}

/// Inserts page 1, then `insertions` others, touches page 1 with `t`, and inserts until page 1 has
/// left small.
fn fate(insertions: u64, first: Touch, again: Touch) -> Queue {
    let mut cache = warm();
    cache.access(1, first);
    (0..insertions).for_each(|k| cache.access(20_000_000 + k * 1000, Touch::new(0, again.tick)));
    cache.touch(1, again);
    (0..200).for_each(|k| cache.access(30_000_000 + k * 1000, Touch::new(0, again.tick)));
    cache.queue(1)
}

#[test]
fn a_touch_counts_only_after_half_of_small_has_passed() {
    assert_eq!(fate(49, Touch::new(0, 0), Touch::new(0, 1000)), Queue::None);
    assert_eq!(fate(50, Touch::new(0, 0), Touch::new(0, 1000)), Queue::Main);
}

#[test]
fn ticks_prolong_the_window_up_to_three_quarters_of_small() {
    assert_eq!(fate(60, Touch::new(0, 0), Touch::new(0, 9)), Queue::None);
    assert_eq!(fate(60, Touch::new(0, 0), Touch::new(0, 10)), Queue::Main);
    assert_eq!(fate(80, Touch::new(0, 0), Touch::new(0, 1)), Queue::Main);
}

#[test]
fn the_statement_that_brought_a_page_in_never_counts() {
    assert_eq!(fate(70, Touch::new(5, 0), Touch::new(5, 1000)), Queue::None);
    assert_eq!(fate(70, Touch::new(5, 0), Touch::new(6, 1000)), Queue::Main);
}

#[test]
fn a_page_that_comes_back_while_remembered_goes_to_main() {
    let mut cache = warm();
    cache.access(1, Touch::new(0, 0));
    (0..500).for_each(|k| cache.access(20_000_000 + k * 1000, Touch::new(0, 0)));
    assert_eq!(cache.queue(1), Queue::None);
    cache.access(1, Touch::new(0, 0));
    assert_eq!(cache.queue(1), Queue::Main);
    assert_eq!(cache.policy.stats().ghost_hits, 1);
}

#[test]
fn a_hot_page_is_not_stored_to() {
    let mut cache = warm();
    cache.access(1, Touch::new(0, 0));
    (0..500).for_each(|k| cache.access(20_000_000 + k * 1000, Touch::new(0, 0)));
    cache.access(1, Touch::new(0, 0));
    (0..5).for_each(|i| cache.touch(1, Touch::new(0, 100 * (i + 1))));
    let word = cache.words.0[cache.slot_of[&1] as usize].get();
    let no_clock = || unreachable!("a hit on main reads the shared clock");
    let effect = cache.policy.rules().touch(word, no_clock, &Touch::new(0, 1000));
    assert_eq!(effect, holdfast_policy::TouchEffect::None);
}

/// How many of a hundred pages that were read once are remembered after a scan of `pages` that
/// takes sixty touches a page.
fn remembered_after(pages: impl Iterator<Item = u64>) -> u64 {
    let mut cache = warm();
    let once: Vec<u64> = (0..100).map(|k| 50_000_000 + k * 1000).collect();
    once.iter().for_each(|&k| cache.access(k, Touch::new(0, 0)));
    for page in pages {
        (0..60).for_each(|_| cache.access(page, Touch::new(0, 0)));
    }
    once.iter().for_each(|&k| cache.access(k, Touch::new(0, 0)));
    cache.policy.stats().ghost_hits
}

/// The scan is of five times the pool.
#[test]
fn an_undeclared_scan_is_remembered_apart_and_makes_nobody_forgotten() {
    assert_eq!(remembered_after(0..5000), 100);
}

/// Its pages were no run, and took the places of all others in the ghost.
#[test]
fn so_is_one_that_reads_the_table_from_its_end() {
    assert_eq!(remembered_after((0..5000).rev()), 100);
}

/// An index has its pages in extents of 64, with those of others in between, so each extent is a
/// run. The beginnings of all of them took the places of all others in the ghost.
#[test]
fn so_is_one_whose_pages_lie_in_extents() {
    assert_eq!(remembered_after((0..5000).map(|i| i / 64 * 256 + i % 64)), 100);
}

#[test]
fn a_burst_on_a_proven_page_counts_once() {
    let mut cache = warm();
    cache.access(1, Touch::new(0, 0));
    (0..500).for_each(|k| cache.access(20_000_000 + k * 1000, Touch::new(0, 0)));
    cache.access(1, Touch::new(0, 0));
    let word = |cache: &Cache| cache.words.0[cache.slot_of[&1] as usize].get();
    cache.touch(1, Touch::new(3, 100));
    let once = word(&cache);
    (0..60).for_each(|i| cache.touch(1, Touch::new(3, 100 + i)));
    (0..9).for_each(|i| cache.touch(1, Touch::new(4, 100 + i)));
    assert_eq!(word(&cache), once);
    cache.touch(1, Touch::new(4, 110));
    assert_ne!(word(&cache), once);
}
