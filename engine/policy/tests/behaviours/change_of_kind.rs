//! The policy can be changed at run time without losing a page.

use crate::common::Cache;
use holdfast_policy::{Policy, PolicyKind, Queue, Touch};

#[test]
fn all_pages_move_over_in_their_order() {
    let mut cache = Cache::new(PolicyKind::Lru, 100);
    (0..100).for_each(|k| cache.access(k, Touch::new(0, 0)));
    let mut before = Vec::new();
    cache.policy.residents(&mut |s| before.push(s));
    let kinds = [
        PolicyKind::MidpointLru { old_blocks_pct: 5, old_blocks_time_ms: 0 },
        PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 7 },
        PolicyKind::Holdfast,
        PolicyKind::Lru,
    ];
    for kind in kinds {
        cache.policy.change_kind(kind, &|s| u64::from(s), &Touch::default(), &cache.words);
        let mut after = Vec::new();
        cache.policy.residents(&mut |s| after.push(s));
        assert_eq!(cache.policy.kind(), kind);
        if let PolicyKind::MidpointLru { .. } = kind {
            // Pages enter `midpoint_lru` in the middle, so the order differs and the pages are the
            // same.
            after.sort_unstable();
            before.sort_unstable();
            assert_eq!(after, before);
            before.clear();
            cache.policy.residents(&mut |s| before.push(s));
        } else {
            assert_eq!(after, before);
        }
    }
}

#[test]
fn a_touch_with_the_rules_of_the_former_policy_changes_nothing() {
    let mut cache = Cache::new(PolicyKind::Holdfast, 100);
    (0..100).for_each(|k| cache.access(k, Touch::new(0, 0)));
    let stale = cache.policy.rules();
    cache.policy.change_kind(PolicyKind::Lru, &|s| u64::from(s), &Touch::default(), &cache.words);
    let word = cache.words.0[3].get();
    assert_eq!(stale.touch(word, || 1000, &Touch::new(1, 1000)), holdfast_policy::TouchEffect::None);
    assert_eq!(stale.dirtied(word), holdfast_policy::TouchEffect::None);
    assert_eq!(cache.queue(0), Queue::Young);
}
