//! Policies and their settings change at run time; the pages stay.
#![cfg(not(any(loom, shuttle)))]

mod common;

use common::Bed;
use holdfast_base::PageNo;
use holdfast_policy::PolicyKind;

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
