//! After any sequence of calls each resident page is in exactly one queue, and victims are pages
//! that may go.

use std::collections::BTreeSet;

use crate::common::Table;
use holdfast_policy::{Policy, PolicyKind, Queue, ScanHint, Slot, Touch, TouchEffect, TouchRules, Words, build};
use proptest::prelude::*;

const SLOTS: u32 = 48;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Touch(Slot),
    Dirty(Slot),
    /// Refuses slots whose number is divisible by this.
    Victim(u32),
    Remove(Slot),
    Resize(usize),
    ChangeKind(PolicyKind),
}

fn kind() -> impl Strategy<Value = PolicyKind> {
    prop_oneof![
        3 => Just(PolicyKind::Holdfast),
        2 => (0u8..=100, 0u32..20)
            .prop_map(|(old_blocks_pct, old_blocks_time_ms)| PolicyKind::MidpointLru { old_blocks_pct, old_blocks_time_ms }),
        1 => Just(PolicyKind::Lru),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0u64..90).prop_map(Op::Insert),
        20 => (0..SLOTS).prop_map(Op::Touch),
        2 => (0..SLOTS).prop_map(Op::Dirty),
        8 => (1u32..6).prop_map(Op::Victim),
        2 => (0..SLOTS).prop_map(Op::Remove),
        1 => (1usize..64).prop_map(Op::Resize),
        1 => kind().prop_map(Op::ChangeKind),
    ]
}

fn touch() -> impl Strategy<Value = Touch> {
    let scan = prop_oneof![3 => Just(ScanHint::None), 2 => Just(ScanHint::Ring), 1 => Just(ScanHint::Admit)];
    (scan, 0u32..4, 0u32..8).prop_map(|(scan, statement, step)| Touch { scan, statement, tick: step * step })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_page_is_in_one_queue(kind in kind(), ops in prop::collection::vec((op(), touch()), 0..300)) {
        let words = Table(vec![Default::default(); SLOTS as usize]);
        let mut policy = build(kind, 32);
        let mut resident: BTreeSet<Slot> = BTreeSet::new();
        let mut now = 0u32;
        for (op, mut t) in ops {
            now += t.tick;
            t.tick = now;
            match op {
                Op::Insert(key) => {
                    if let Some(free) = (0..SLOTS).find(|s| !resident.contains(s)) {
                        policy.insert(free, key, &t, &words);
                        resident.insert(free);
                    }
                }
                Op::Touch(s) => match policy.touch(words.load(s), policy.clock(), &t) {
                    TouchEffect::Store(word) => words.store(s, word),
                    TouchEffect::Locked => policy.touch_locked(s, &t, &words),
                    TouchEffect::None | TouchEffect::NotYoung => {}
                },
                Op::Dirty(s) => {
                    if let TouchEffect::Store(word) = policy.rules().dirtied(words.load(s)) {
                        words.store(s, word);
                    }
                }
                Op::Victim(refuse) => {
                    let found = policy.victim(&words, &mut |s| s % refuse != 0);
                    match found {
                        Some(s) => {
                            prop_assert!(s % refuse != 0, "{s} was refused");
                            prop_assert!(resident.remove(&s), "{s} was not resident");
                        }
                        None => prop_assert!(resident.iter().all(|s| s % refuse == 0)),
                    }
                }
                Op::Remove(s) => {
                    policy.remove(s, &words);
                    resident.remove(&s);
                }
                Op::Resize(frames) => policy.set_capacity(frames, &words),
                Op::ChangeKind(kind) => {
                    policy.change_kind(kind, &|s| u64::from(s), &t, &words);
                }
            }
            let mut listed = Vec::new();
            policy.residents(&mut |s| listed.push(s));
            let as_set: BTreeSet<Slot> = listed.iter().copied().collect();
            prop_assert_eq!(listed.len(), as_set.len(), "a page is listed twice");
            prop_assert_eq!(&as_set, &resident);
            let in_queue = |q: Queue| (0..SLOTS).filter(|&s| TouchRules::queue(words.load(s)) == q).count();
            let stats = policy.stats();
            prop_assert_eq!(in_queue(Queue::None), SLOTS as usize - resident.len());
            prop_assert_eq!(stats.resident, resident.len());
            prop_assert_eq!(stats.small, in_queue(Queue::Small));
            prop_assert_eq!(stats.main, in_queue(Queue::Main));
            prop_assert_eq!(stats.ring, in_queue(Queue::Ring));
            prop_assert_eq!(stats.old, in_queue(Queue::Old));
            prop_assert!(stats.ghost <= 2 * policy.capacity());
            let mut cold = Vec::new();
            policy.peek_cold(10, &words, &mut |s| cold.push(s));
            prop_assert!(cold.len() <= 10 && cold.iter().all(|s| resident.contains(s)));
            prop_assert_eq!(cold.iter().collect::<BTreeSet<_>>().len(), cold.len());
            policy.hot(&words, &mut |s| assert!(resident.contains(&s)));
            prop_assert_eq!(TouchRules::from_bits(policy.rules().to_bits()), policy.rules());
        }
    }
}
