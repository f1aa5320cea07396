//! Policies and their settings change at run time; the pages stay.

use holdfast_base::PageNo;
use holdfast_metrics::Counter;
use holdfast_policy::PolicyKind;

use crate::common::Bed;

#[test]
fn pages_stay_when_the_policy_changes() {
    let bed = Bed::new(64);
    bed.create_many(60);
    for kind in [
        PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 1000 },
        PolicyKind::MidpointLru { old_blocks_pct: 5, old_blocks_time_ms: 0 },
        PolicyKind::Lru,
        PolicyKind::Holdfast,
    ] {
        let resident =
            |bed: &Bed| (0..200).filter(|&no| bed.pool.is_resident(&bed.space, PageNo(no))).collect::<Vec<_>>();
        let before = resident(&bed);
        bed.pool.set_policy(kind);
        assert_eq!(bed.pool.stats().policy.resident, before.len());
        assert_eq!(resident(&bed), before);
        (0..60).for_each(|no| assert_eq!(bed.read(no).unwrap(), u64::from(no)));
        (60..200).for_each(|no| bed.create(no, 1).unwrap());
        bed.create_many(60);
        assert_eq!(bed.pool.per_row_touches(), kind != PolicyKind::Holdfast);
    }
}

/// A policy counts from its own beginning; the metrics must not fall back to zero with it.
#[test]
fn counters_go_on_when_the_policy_changes() {
    let bed = Bed::new(64);
    let young = || {
        bed.pool.publish_metrics();
        bed.pool.metrics().get(Counter::PagesMadeYoung)
    };
    bed.pool.set_policy(PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 0 });
    bed.create_many(200);
    (0..200).for_each(|no| assert_eq!(bed.read(no).unwrap(), u64::from(no)));
    (190..200).for_each(|no| assert_eq!(bed.read(no).unwrap(), u64::from(no)));
    let before = young();
    assert!(before > 0);
    assert_eq!(young(), before, "what is counted is not counted again");
    bed.pool.set_policy(PolicyKind::Holdfast);
    assert_eq!(bed.pool.stats().policy.made_young, 0);
    assert_eq!(young(), before);
}

#[test]
fn a_listing_shows_every_resident_page_once() {
    let bed = Bed::new(64);
    bed.create_many(60);
    bed.pool.flush_all().unwrap();
    bed.create(7, 1).unwrap();
    let mut pages = Vec::new();
    bed.pool.each_page(&mut |page, _| {
        if page.id.space == bed.space.id() {
            pages.push((page.id.no.0, page.dirty_since.is_some()));
        }
    });
    pages.sort_unstable();
    let resident = (0..60).filter(|&no| bed.pool.is_resident(&bed.space, PageNo(no)));
    assert_eq!(pages, resident.map(|no| (no, no == 7)).collect::<Vec<_>>());
    assert!(pages.len() > 30);
}
