//! The search for a victim is bounded, and finds the only page that may go.

use crate::common::Cache;
use holdfast_policy::{Policy, PolicyKind, ScanHint, Touch};

const KINDS: [PolicyKind; 3] =
    [PolicyKind::Holdfast, PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 1000 }, PolicyKind::Lru];

fn full(kind: PolicyKind) -> Cache {
    let mut cache = Cache::new(kind, 10_000);
    (0..10_000).for_each(|k| cache.access(k * 10, Touch::new(0, 0)));
    cache
}

#[test]
fn one_call_asks_a_bounded_number_of_times() {
    for kind in KINDS {
        let mut cache = full(kind);
        let mut asked = 0;
        assert_eq!(
            cache.policy.victim(&cache.words, &mut |_| {
                asked += 1;
                false
            }),
            None
        );
        assert!(asked <= 128, "{kind:?} asked {asked} times");
    }
}

#[test]
fn calls_in_a_row_find_the_only_page_that_may_go() {
    for kind in KINDS {
        let mut cache = full(kind);
        let only = cache.slot_of[&99_990];
        let mut calls = 0;
        let found = loop {
            calls += 1;
            if let Some(s) = cache.policy.victim(&cache.words, &mut |s| s == only) {
                break s;
            }
            assert!(calls < 20, "{kind:?}");
        };
        assert_eq!(found, only);
        assert_eq!(cache.policy.stats().resident, 9_999);
    }
}

#[test]
fn the_pages_named_cold_are_the_next_victims() {
    for kind in KINDS {
        let mut cache = full(kind);
        let mut cold = Vec::new();
        cache.policy.peek_cold(64, &cache.words, &mut |s| cold.push(s));
        let victims: Vec<u32> = (0..32).filter_map(|_| cache.policy.victim(&cache.words, &mut |_| true)).collect();
        assert!(victims.iter().all(|v| cold.contains(v)), "{kind:?}: {victims:?} not in {cold:?}");
    }
}

#[test]
fn a_smaller_pool_gives_up_the_surplus_and_a_larger_one_takes_more() {
    for kind in KINDS {
        let mut cache = full(kind);
        cache.policy.set_capacity(100, &cache.words);
        while cache.policy.stats().resident > 100 {
            cache.evict();
        }
        cache.policy.set_capacity(10_000, &cache.words);
        (0..9_000).for_each(|k| cache.access(1_000_000 + k, Touch::new(0, 0)));
        assert_eq!(cache.policy.stats().resident, 9_100, "{kind:?}");
    }
}

#[test]
fn a_rescued_page_of_the_ring_is_found_when_it_is_the_only_one() {
    let mut cache = Cache::new(PolicyKind::Holdfast, 32);
    cache.access(0, Touch::new(0, 0));
    cache.access(1, Touch::new(2, 0).with_scan(ScanHint::Ring));
    cache.touch(1, Touch::new(0, 0));
    let (other, rescued) = (cache.slot_of[&0], cache.slot_of[&1]);
    assert_eq!(cache.policy.victim(&cache.words, &mut |s| s != other), Some(rescued));
}
