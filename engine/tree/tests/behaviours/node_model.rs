//! A node against a sorted vector: inserts, removals, replacements, patches, rebuilds, at every
//! page size, with keys and payloads up to the limits; a full node always splits so that the new
//! record fits.

use std::collections::BTreeMap;

use holdfast_base::limits::key_len_max;
use holdfast_base::{IndexId, PageId, PageNo, SpaceId};
use holdfast_tree::node::{self, EntryList, NodeRef, payload_len_max, plan_leaf_split, record_len_max, separator};
use holdfast_tree::op::PageOp;
use proptest::prelude::*;

const ID: PageId = PageId { space: SpaceId(16), no: PageNo(7) };
const INDEX: IndexId = IndexId(3);

fn new_leaf(page_size: usize) -> Vec<u8> {
    let mut page = vec![0xaa; page_size];
    PageOp::InitNode { index: INDEX, level: 0 }.apply(ID, &mut page).unwrap();
    page
}

fn node(page: &[u8]) -> NodeRef<'_, [u8]> {
    NodeRef::new(page, INDEX).unwrap()
}

fn content(page: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let n = node(page);
    (0..n.count().unwrap()).map(|i| (n.key(i).unwrap(), n.payload(i).unwrap().to_vec())).collect()
}

fn check(page: &[u8], model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    node(page).check().unwrap();
    assert!(content(page).iter().map(|(k, v)| (k, v)).eq(model.iter()));
    for (i, key) in model.keys().enumerate() {
        let found = node(page).search(key).unwrap();
        assert!(found.exact && found.slot == i);
    }
}

/// Puts as the tree does; false if the node is full.
fn put(page: &mut [u8], key: &[u8], payload: &[u8]) -> bool {
    let found = node(page).search(key).unwrap();
    let slot = found.slot as u16;
    let op = if found.exact {
        PageOp::ReplaceAt { slot, payload }
    } else {
        let skip = node(page).prefix_len().unwrap();
        PageOp::InsertAt { slot, suffix: &key[skip..], payload }
    };
    op.is_welcome(page) && op.apply(ID, page).is_ok()
}

/// Every row of a table grew by a byte, twice: each leaf had room for that after a compaction, and
/// the next row's byte needed another one. To split all leaves would have been faster.
#[test]
fn a_crowded_leaf_is_split_rather_than_compacted_for_every_change() {
    let page_size = 16 << 10;
    let mut page = new_leaf(page_size);
    let keys: Vec<[u8; 4]> =
        (0..1000u32).map(u32::to_be_bytes).take_while(|key| put(&mut page, key, &[1; 60])).collect();
    let where_it_lies = |page: &[u8], slot| node(page).payload(slot).unwrap().as_ptr().addr() - page.as_ptr().addr();
    for room in [0, 40, 400, 4000] {
        let mut page = page.clone();
        (0..room / 60).for_each(|_| PageOp::RemoveAt { slot: 0 }.apply(ID, &mut page).unwrap());
        let first = node(&page).count().unwrap() - 1;
        let (mut grown, mut compacted) = (0, 0);
        for key in keys.iter().rev().skip(1).take(first) {
            let before = where_it_lies(&page, first);
            if !put(&mut page, key, &[2; 61]) {
                break;
            }
            grown += 1;
            compacted += usize::from(where_it_lies(&page, first) != before);
        }
        assert!(compacted <= 1 + grown / 8, "{compacted} compactions for {grown} changes, {room} bytes of room");
    }
}

fn split(page: &mut [u8], key: &[u8], payload_len: usize, rightmost: bool) -> (Vec<u8>, Vec<u8>) {
    let n = node(page);
    let plan = plan_leaf_split(n, key, payload_len, rightmost).unwrap();
    let mut right = new_leaf(page.len());
    let mut entries = EntryList::new();
    for i in plan.at..n.count().unwrap() {
        assert!(n.key(i).unwrap() >= plan.separator);
        entries.push(&n.key(i).unwrap(), n.payload(i).unwrap());
    }
    for i in 0..plan.at {
        assert!(n.key(i).unwrap() < plan.separator);
    }
    let set = PageOp::SetContent { prefix: &[], count: entries.count() as u16, entries: entries.bytes() };
    set.apply(ID, &mut right).unwrap();
    let (to, prefix_len) = (plan.at as u16, n.prefix_len().unwrap() as u16);
    PageOp::Rebuild { from: 0, to, prefix_len }.apply(ID, page).unwrap();
    (plan.separator, right)
}

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, usize),
    Remove(usize),
    Patch(usize, u8),
    Compact,
}

fn key_strategy(page_size: usize) -> impl Strategy<Value = Vec<u8>> {
    let max = key_len_max(page_size);
    prop_oneof![
        6 => prop::collection::vec(0u8..3, 0..8),
        3 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), Just(max)).prop_map(|(b, len)| vec![b; len]),
        1 => (any::<u8>(), 0..=max).prop_map(|(b, len)| vec![b / 128; len]),
    ]
}

fn op_strategy(page_size: usize) -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (key_strategy(page_size), prop_oneof![4 => 0..200usize, 1 => Just(usize::MAX)])
            .prop_map(|(k, len)| Op::Put(k, len)),
        3 => any::<usize>().prop_map(Op::Remove),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(i, b)| Op::Patch(i, b)),
        1 => Just(Op::Compact),
    ]
}

fn run(page_size: usize, ops: Vec<Op>) {
    let mut page = new_leaf(page_size);
    let mut model = BTreeMap::new();
    for (n, op) in ops.into_iter().enumerate() {
        match op {
            Op::Put(key, len) => {
                let payload = vec![n as u8; len.min(payload_len_max(page_size, key.len()))];
                if !put(&mut page, &key, &payload) {
                    let (sep, mut right) = split(&mut page, &key, payload.len(), n % 2 == 0);
                    let right_model = model.split_off(&sep);
                    check(&page, &model);
                    check(&right, &right_model);
                    if key >= sep {
                        std::mem::swap(&mut page, &mut right);
                        model = right_model;
                    }
                    assert!(put(&mut page, &key, &payload), "no room after a split");
                }
                model.insert(key, payload);
            }
            Op::Remove(i) if !model.is_empty() => {
                let key = model.keys().nth(i % model.len()).unwrap().clone();
                PageOp::RemoveAt { slot: (i % model.len()) as u16 }.apply(ID, &mut page).unwrap();
                model.remove(&key);
            }
            Op::Patch(i, byte) if !model.is_empty() => {
                let slot = i % model.len();
                let payload = model.values_mut().nth(slot).unwrap();
                let at = payload.len() / 2;
                let bytes = vec![byte; payload.len() - at];
                PageOp::Patch { slot: slot as u16, offset: at as u16, bytes: &bytes }.apply(ID, &mut page).unwrap();
                payload[at..].fill(byte);
            }
            Op::Compact => {
                let common = model.keys().map(Vec::as_slice).reduce(|a, b| {
                    let len = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                    &a[..len]
                });
                let longest = common.map_or(0, <[u8]>::len) as u16;
                let to = model.len() as u16;
                PageOp::Rebuild { from: 0, to, prefix_len: longest }.apply(ID, &mut page).unwrap();
                check(&page, &model);
                let too_long = PageOp::Rebuild { from: 0, to, prefix_len: longest + 1 };
                assert!(model.len() < 2 || !too_long.check(&page));
                // Here the fences are not kept, so the prefix has to go again.
                let back = PageOp::Rebuild { from: 0, to, prefix_len: 0 };
                back.apply(ID, &mut page).unwrap();
            }
            _ => {}
        }
        check(&page, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn small_pages(ops in prop::collection::vec(op_strategy(4096), 1..150)) {
        run(4096, ops);
    }

    #[test]
    fn medium_pages(ops in prop::collection::vec(op_strategy(16384), 1..150)) {
        run(16384, ops);
    }

    #[test]
    fn large_pages(ops in prop::collection::vec(op_strategy(65536), 1..150)) {
        run(65536, ops);
    }

    #[test]
    fn a_separator_is_between(a in prop::collection::vec(0u8..3, 0..6), b in prop::collection::vec(0u8..3, 0..6)) {
        prop_assume!(a != b);
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        let s = separator(&low, &high);
        prop_assert!(low < s && s <= high && s.len() <= high.len());
    }

    #[test]
    fn torn_pages_do_no_harm(seed in prop::collection::vec(any::<(u16, u8)>(), 1..60), key in key_strategy(4096)) {
        let mut page = new_leaf(4096);
        for i in 0..40u8 {
            put(&mut page, &[i, i, i, i, i], &[i; 30]);
        }
        for (at, byte) in seed {
            page[12 + usize::from(at) % 600] = byte;
        }
        let n = NodeRef::assume(page.as_slice());
        let _ = (n.search(&key), n.child_slot(&key), n.child_slot_before(&key), n.check(), n.used_space());
        for i in 0..70 {
            let _ = (n.key(i), n.payload(i), n.child(i), n.entry_len(i));
        }
        let _ = plan_leaf_split(n, &key, 100, false);
        let _ = node::plan_inner_split(n, 3, false);
        for op in [
            PageOp::InsertAt { slot: 3, suffix: &key, payload: &[1; 700] },
            PageOp::ReplaceAt { slot: 2, payload: &[1; 1700] },
            PageOp::RemoveAt { slot: 5 },
            PageOp::Rebuild { from: 0, to: 9, prefix_len: 2 },
        ] {
            let mut copy = page.clone();
            let _ = op.apply(ID, &mut copy);
        }
    }
}

#[test]
fn the_largest_records_split_at_every_page_size() {
    for page_size in [4096, 8192, 16384, 32768, 65536] {
        let max = key_len_max(page_size);
        for (first, second, third) in [(1u8, 2u8, 3u8), (1, 3, 2), (3, 2, 1), (2, 1, 3)] {
            let mut page = new_leaf(page_size);
            let payload = vec![0; payload_len_max(page_size, max)];
            assert!(put(&mut page, &vec![first; max], &payload));
            assert!(put(&mut page, &vec![second; max], &payload));
            assert!(!put(&mut page, &vec![third; max], &payload));
            let (sep, mut right) = split(&mut page, &vec![third; max], payload.len(), false);
            let side = if vec![third; max] < sep { &mut page } else { &mut right };
            assert!(put(side, &vec![third; max], &payload));
        }
        assert!(record_len_max(page_size) * 2 <= node::body_len(page_size));
    }
}

#[test]
fn ascending_inserts_leave_full_leaves() {
    let mut page = new_leaf(4096);
    let mut key = 0u32;
    while put(&mut page, &key.to_be_bytes(), &[0; 40]) {
        key += 1;
    }
    let before = content(&page).len();
    let (sep, right) = split(&mut page, &key.to_be_bytes(), 40, true);
    assert_eq!(content(&page).len(), before);
    assert!(content(&right).is_empty());
    assert!(sep.as_slice() <= &key.to_be_bytes());
}

#[test]
fn the_middle_of_a_run_splits_behind_the_run() {
    let mut page = new_leaf(4096);
    for i in (0..40u32).map(|i| i * 1000) {
        put(&mut page, &i.to_be_bytes(), &[0; 40]);
    }
    let mut key = 20_000u32;
    loop {
        key += 1;
        if !put(&mut page, &key.to_be_bytes(), &[0; 40]) {
            break;
        }
    }
    let (sep, right) = split(&mut page, &key.to_be_bytes(), 40, false);
    assert!(sep.as_slice() > &key.to_be_bytes()[..]);
    assert_eq!(content(&right)[0].0, 21_000u32.to_be_bytes());
    assert!(put(&mut page, &key.to_be_bytes(), &[0; 40]));
}
