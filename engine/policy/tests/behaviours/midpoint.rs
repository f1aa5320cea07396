//! `midpoint_lru` behaves and counts as InnoDB does.

use crate::common::Cache;
use holdfast_policy::{Policy, PolicyKind, Queue, Touch};

fn cache(pct: u8, time: u32) -> Cache {
    let kind = PolicyKind::MidpointLru { old_blocks_pct: pct, old_blocks_time_ms: time };
    let mut cache = Cache::new(kind, 2000);
    // More than the pool, so that evictions have begun.
    (0..4000).for_each(|k| cache.load(1_000_000 + k, Touch::new(0, 0)));
    cache
}

fn at(tick: u32) -> Touch {
    Touch::new(0, tick)
}

#[test]
fn the_old_sublist_has_its_share() {
    for pct in [5, 37, 90, 95] {
        let stats = cache(pct, 0).policy.stats();
        let share = stats.old * 100 / stats.resident;
        assert!(share.abs_diff(usize::from(pct)) <= 2, "{pct} % asked, {share} % old");
    }
}

#[test]
fn without_a_delay_the_first_touch_makes_a_page_young() {
    let mut cache = cache(37, 0);
    cache.load(1, at(0));
    assert_eq!(cache.queue(1), Queue::Old);
    cache.touch(1, at(0));
    assert_eq!(cache.queue(1), Queue::Young);
    assert_eq!((cache.policy.stats().made_young, cache.policy.stats().not_young + cache.not_young), (1, 0));
}

#[test]
fn touches_before_the_delay_are_counted_and_move_nothing() {
    let mut cache = cache(37, 1000);
    cache.access(1, at(5000));
    (1..60).for_each(|i| cache.touch(1, at(5000 + i)));
    cache.touch(1, at(5999));
    assert_eq!(cache.queue(1), Queue::Old);
    assert_eq!((cache.policy.stats().made_young, cache.policy.stats().not_young + cache.not_young), (0, 61));
    cache.touch(1, at(6000));
    assert_eq!(cache.queue(1), Queue::Young);
    assert_eq!((cache.policy.stats().made_young, cache.policy.stats().not_young + cache.not_young), (1, 61));
}

#[test]
fn a_young_page_near_the_front_is_not_moved_again() {
    let mut cache = cache(37, 0);
    cache.access(1, at(0));
    let clock = cache.policy.clock();
    let word = cache.words.0[cache.slot_of[&1] as usize].get();
    let rules = cache.policy.rules();
    // A quarter of the young sublist: 2000 * 0.63 / 4.
    assert_eq!(rules.touch(word, || clock + 314, &at(0)), holdfast_policy::TouchEffect::None);
    assert_eq!(rules.touch(word, || clock + 315, &at(0)), holdfast_policy::TouchEffect::Locked);
    assert_eq!(cache.policy.stats().made_young, 1, "moves of young pages are not counted");
}

#[test]
fn nothing_is_counted_before_the_first_eviction() {
    let kind = PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 1000 };
    let mut cache = Cache::new(kind, 2000);
    (0..2000).for_each(|k| cache.access(k, at(0)));
    (0..2000).for_each(|k| cache.touch(k, at(5000)));
    assert_eq!((cache.policy.stats().made_young, cache.policy.stats().not_young + cache.not_young), (0, 0));
}

#[test]
fn a_large_old_sublist_without_a_delay_is_washed_out_and_a_small_one_with_a_delay_is_not() {
    let left = |pct, time| {
        let mut cache = cache(pct, time);
        let hot = 0..80u64;
        for tick in [10_000, 20_000, 30_000] {
            hot.clone().for_each(|k| cache.access(k, at(tick)));
        }
        // A scan of ten pools, two touches a page.
        (0..20_000).for_each(|k| (0..2).for_each(|_| cache.access(2_000_000 + k, at(30_001))));
        cache.holds(hot)
    };
    assert_eq!(left(90, 0), 0);
    assert_eq!(left(5, 5000), 80);
}

#[test]
fn with_too_long_a_delay_a_page_is_gone_before_it_may_become_young() {
    let mut cache = cache(5, 5000);
    for tick in [10_000, 20_000, 30_000] {
        // Five times as many pages as the old sublist holds.
        (0..500).for_each(|k| cache.access(k, at(tick)));
    }
    assert_eq!(cache.policy.stats().made_young, 0);
}
