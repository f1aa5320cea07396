//! A tree against a `BTreeMap`: random operations with keys and payloads of all sizes, in pools so
//! small that pages are evicted all the time, and again after the database was closed and opened.

use std::ops::{Bound, RangeBounds};

use holdfast_base::limits::key_len_max;
use holdfast_testkit::SplitMix64;
use holdfast_tree::node::payload_len_max;
use holdfast_tree::{Action, Batch, BatchLimit, Direction, Tree};

use crate::common::*;

fn random_key(rng: &mut SplitMix64, page_size: usize, keys: u64) -> Vec<u8> {
    let n = rng.below(keys);
    match rng.below(10) {
        0..=4 => format!("key/{n:06}").into_bytes(),
        5..=7 => n.to_be_bytes().to_vec(),
        8 => {
            let mut key = vec![b'k'; 40];
            key.extend_from_slice(&n.to_be_bytes());
            key
        }
        _ => {
            let mut key = vec![(n % 251) as u8; key_len_max(page_size) - (n % 3) as usize];
            key[(n % 7) as usize] = 1;
            key
        }
    }
}

fn random_payload(rng: &mut SplitMix64, page_size: usize, key_len: usize) -> Vec<u8> {
    let max = payload_len_max(page_size, key_len);
    let len = match rng.below(20) {
        0 => max,
        1..=3 => rng.below(max as u64) as usize,
        _ => rng.below(100) as usize,
    };
    let byte = rng.next_u64() as u8;
    vec![byte; len.min(max)]
}

fn step(tree: &Tree, model: &mut Model, rng: &mut SplitMix64, page_size: usize, removals: u64, bed: &Bed) {
    let acc = bed.access();
    let key = random_key(rng, page_size, 3000);
    if rng.below(100) < removals {
        let removed = remove(tree, &key, &acc).unwrap().is_some();
        assert_eq!(removed, model.remove(&key).is_some());
        return;
    }
    let payload = random_payload(rng, page_size, key.len());
    let before = model.insert(key.clone(), payload.clone());
    let changed = tree.modify(&key, &acc, &mut |old| {
        assert_eq!(old, before.as_deref());
        Ok(Action::Put(payload.clone()))
    });
    assert!(changed.unwrap().is_some());
    assert_eq!(get(tree, &key, &acc).as_ref(), Some(&payload));
}

fn run(page_size: usize, frames: usize, steps: usize, seed: u64) {
    let mut bed = Bed::new(Setup { page_size, frames, ..Setup::default() });
    let mut tree = bed.new_tree();
    let (mut model, mut rng) = (Model::new(), SplitMix64::new(seed));
    for phase in 0..4 {
        let removals = [20, 50, 85, 30][phase];
        for _ in 0..steps {
            step(&tree, &mut model, &mut rng, page_size, removals, &bed);
        }
        bed.checkpoint();
        assert_equals(&tree, &model, &bed.access());
        bed.verify_clean(&[&tree]);
        if phase % 2 == 1 {
            let root = tree.root();
            drop(tree);
            bed = bed.reopen();
            tree = bed.tree(root);
            assert_equals(&tree, &model, &bed.access());
        }
    }
    seeks_agree(&tree, &model, &mut rng, &bed);
    batches_agree(&tree, &model, &mut rng, &bed);
}

fn seeks_agree(tree: &Tree, model: &Model, rng: &mut SplitMix64, bed: &Bed) {
    let acc = bed.access();
    let mut cursor = tree.cursor(&acc);
    for _ in 0..200 {
        let key = random_key(rng, bed.setup.page_size, 3000);
        let bounds = [Bound::Included(key.as_slice()), Bound::Excluded(key.as_slice())];
        for bound in bounds {
            cursor.seek(bound, Direction::Forward);
            for want in model.range::<[u8], _>((bound, Bound::Unbounded)).take(3) {
                let (key, payload) = cursor.next().unwrap().unwrap();
                assert_eq!((key, payload), (want.0.as_slice(), want.1.as_slice()));
            }
            cursor.seek(bound, Direction::Reverse);
            for want in model.range::<[u8], _>((Bound::Unbounded, bound)).rev().take(3) {
                let (key, payload) = cursor.next().unwrap().unwrap();
                assert_eq!((key, payload), (want.0.as_slice(), want.1.as_slice()));
            }
        }
        assert_eq!(get(tree, &key, &acc).as_ref(), model.get(&key));
    }
}

fn random_bound<'k>(rng: &mut SplitMix64, key: &'k [u8]) -> Bound<&'k [u8]> {
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// Ranges that are read in batches of any size have the content of the model, also where there is
/// nothing.
fn batches_agree(tree: &Tree, model: &Model, rng: &mut SplitMix64, bed: &Bed) {
    let acc = bed.access();
    for _ in 0..12 {
        let (a, b) = (random_key(rng, bed.setup.page_size, 3000), random_key(rng, bed.setup.page_size, 3000));
        let (from, to) = (random_bound(rng, &a), random_bound(rng, &b));
        let key_in = |key: &[u8]| (from, to).contains(key);
        let mut want: Vec<_> = model.iter().filter(|(key, _)| key_in(key)).collect();
        let limit = BatchLimit { entries: 1 + rng.below(200) as usize, bytes: 1 + rng.below(60_000) as usize };
        for direction in [Direction::Forward, Direction::Reverse] {
            let (start, end) = if direction == Direction::Forward { (from, to) } else { (to, from) };
            let mut cursor = tree.cursor(&acc);
            cursor.seek(start, direction);
            let (mut batch, mut more, mut got) = (Batch::default(), true, Vec::new());
            while more {
                batch.clear();
                more = cursor.fill(&mut batch, limit, end).unwrap();
                assert!(batch.len() <= limit.entries && (more || !batch.is_empty() || got.len() == want.len()));
                got.extend((0..batch.len()).map(|i| (batch.get(i).0.to_vec(), batch.get(i).1.to_vec())));
            }
            assert!(got.iter().map(|(key, payload)| (key, payload)).eq(want.iter().copied()), "{direction:?}");
            want.reverse();
        }
    }
}

#[test]
fn with_small_pages() {
    for seed in 0..soak(3) {
        run(4096, 80, 1500, seed);
    }
}

#[test]
fn with_default_pages() {
    for seed in 0..soak(1) {
        run(16384, 80, 1500, seed);
    }
}

#[test]
fn with_large_pages() {
    for seed in 0..soak(1) {
        run(65536, 80, 1000, seed);
    }
}

#[test]
fn when_everything_is_removed_the_tree_is_one_page_again() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    for n in 0..3000u32 {
        put(&tree, &n.to_be_bytes(), &[1; 60], &acc).unwrap();
    }
    assert!(tree.stats(&acc).unwrap().height > 1);
    for n in (0..3000u32).map(|n| n * 1_001 % 3000) {
        remove(&tree, &n.to_be_bytes(), &acc).unwrap();
    }
    for n in 0..3000u32 {
        remove(&tree, &n.to_be_bytes(), &acc).unwrap();
    }
    let stats = tree.stats(&acc).unwrap();
    assert_eq!((stats.height, stats.pages(), stats.entries()), (1, 1, 0));
    bed.verify_clean(&[&tree]);
}
