//! The policies of a pool's partitions share the words of all slots. When a touch comes late, its
//! slot belongs to another policy. The policy that the touch is reported to must not change that
//! slot.

use std::cell::Cell;

use crate::common::Table;
use holdfast_policy::{Policy, PolicyKind, Slot, Touch, build};

const KINDS: [PolicyKind; 3] =
    [PolicyKind::Holdfast, PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 0 }, PolicyKind::Lru];
const FRAMES: Slot = 40;

fn residents(policy: &dyn Policy) -> Vec<Slot> {
    let mut slots = Vec::new();
    policy.residents(&mut |s| slots.push(s));
    slots
}

/// Even slots belong to the first policy, odd ones to the second, and slot 0 has gone from the
/// first to the second.
#[test]
fn a_late_touch_and_a_late_removal_leave_the_slot_of_another_policy_alone() {
    for kind in KINDS {
        let words = Table(vec![Cell::new(0); FRAMES as usize]);
        // As small as possible: the second policy has slots beyond those of the first.
        let (mut first, mut second) = (build(kind, 1), build(kind, FRAMES as usize));
        let touch = Touch::new(1, 0);
        for s in (0..FRAMES / 2).step_by(2) {
            first.insert(s, u64::from(s), &touch, &words);
        }
        for s in (1..FRAMES).step_by(2) {
            second.insert(s, u64::from(s), &touch, &words);
        }
        first.remove(0, &words);
        second.insert(0, 1000, &touch, &words);
        // One slot of the first is evicted, which lets the lists of `midpoint_lru` move.
        let evicted = first.victim(&words, &mut |_| true).unwrap();
        second.insert(evicted, 1001, &touch, &words);
        let (ours, theirs) = (residents(&first), residents(&second));
        let before: Vec<u64> = words.0.iter().map(Cell::get).collect();
        let late = Touch::new(2, 1_000);
        for &s in &theirs {
            first.touch_locked(s, &late, &words);
            first.remove(s, &words);
        }
        assert_eq!(residents(&first), ours, "{kind:?}");
        assert_eq!(residents(&second), theirs, "{kind:?}");
        assert_eq!(words.0.iter().map(Cell::get).collect::<Vec<_>>(), before, "{kind:?}");
        // Every page still comes out, once.
        let mut out: Vec<Slot> = std::iter::from_fn(|| first.victim(&words, &mut |_| true)).collect();
        out.extend(std::iter::from_fn(|| second.victim(&words, &mut |_| true)));
        out.sort_unstable();
        let mut all = [ours, theirs].concat();
        all.sort_unstable();
        assert_eq!(out, all, "{kind:?}");
    }
}
