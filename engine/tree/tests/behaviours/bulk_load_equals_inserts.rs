//! Bulk load: the same entries as by single inserts, full leaves in one run of pages, and a tree
//! that can be changed like any other.

use holdfast_base::Error;
use holdfast_testkit::SplitMix64;

use crate::common::*;

fn load(bed: &Bed, n: u32) -> (holdfast_tree::Tree, Model) {
    let tree = bed.new_tree();
    let mut model = Model::new();
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap();
    for i in 0..n {
        let key = format!("{:08}", i * 3).into_bytes();
        let payload = vec![i as u8; 20 + (i % 90) as usize];
        loader.push(&key, &payload).unwrap();
        model.insert(key, payload);
    }
    loader.finish().unwrap();
    drop(acc);
    (tree, model)
}

#[test]
fn the_tree_holds_what_was_loaded() {
    for n in [0, 1, 2, 30, 100, 20_000] {
        let bed = Bed::new(Setup::default());
        let (tree, model) = load(&bed, n);
        assert_equals(&tree, &model, &bed.access());
        bed.verify_clean(&[&tree]);
    }
}

#[test]
fn leaves_are_full_and_in_order() {
    let bed = Bed::new(Setup { page_size: 16384, ..Setup::default() });
    let (tree, _) = load(&bed, 50_000);
    let stats = tree.stats(&bed.access()).unwrap();
    assert!(stats.leaf_fill() > 0.9, "{stats:?}");
    let inserted = Bed::new(Setup { page_size: 16384, ..Setup::default() });
    let other = inserted.new_tree();
    for i in 0..50_000u32 {
        put(&other, format!("{:08}", i * 3).as_bytes(), &vec![0; 20 + (i % 90) as usize], &inserted.access()).unwrap();
    }
    let by_inserts = other.stats(&inserted.access()).unwrap();
    assert!(by_inserts.leaf_fill() > 0.9, "ascending inserts: {by_inserts:?}");
    assert_eq!(by_inserts.entries(), stats.entries());
}

#[test]
fn a_loaded_tree_can_be_changed() {
    let bed = Bed::new(Setup::default());
    let (tree, mut model) = load(&bed, 5000);
    let mut rng = SplitMix64::new(5);
    for _ in 0..4000 {
        let key = format!("{:08}", rng.below(16_000)).into_bytes();
        if rng.below(2) == 0 {
            put(&tree, &key, b"new", &bed.access()).unwrap();
            model.insert(key, b"new".to_vec());
        } else {
            remove(&tree, &key, &bed.access()).unwrap();
            model.remove(&key);
        }
    }
    assert_equals(&tree, &model, &bed.access());
    let root = tree.root();
    drop(tree);
    let bed = bed.reopen();
    let tree = bed.tree(root);
    assert_equals(&tree, &model, &bed.access());
    bed.verify_clean(&[&tree]);
}

#[test]
fn large_keys_make_a_high_tree() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap().fill_factor(100);
    let mut model = Model::new();
    for i in 0..600u32 {
        // Neighbours differ at the end, the next pair at the start: long separators, short
        // prefixes.
        let mut key = (i / 2).to_be_bytes().to_vec();
        key.extend(vec![b'a'; 1000]);
        key.push(i as u8 % 2);
        loader.push(&key, &[1; 900]).unwrap();
        model.insert(key, vec![1; 900]);
    }
    loader.finish().unwrap();
    assert_equals(&tree, &model, &bed.access());
    assert!(tree.stats(&bed.access()).unwrap().height >= 3);
    bed.verify_clean(&[&tree]);
}

#[test]
fn a_prefix_that_ends_in_the_middle_of_a_leaf_does_no_harm() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap().fill_factor(100);
    let mut model = Model::new();
    let mut rng = SplitMix64::new(8);
    for group in 0..60u8 {
        // Long keys that differ at the end only, in runs that fill some part of a leaf.
        let mut key = vec![b'a'; 10];
        key[0] = group;
        key.extend(vec![b'x'; rng.below(900) as usize]);
        for i in 0..rng.below(400) as u32 {
            let mut key = key.clone();
            key.extend_from_slice(&i.to_be_bytes());
            loader.push(&key, &[1; 3]).unwrap();
            model.insert(key, vec![1; 3]);
        }
    }
    loader.finish().unwrap();
    assert_equals(&tree, &model, &bed.access());
    bed.verify_clean(&[&tree]);
}

#[test]
fn unsorted_input_is_refused_and_aborting_gives_everything_back() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap();
    for i in 0..5000u32 {
        loader.push(&i.to_be_bytes(), &[0; 100]).unwrap();
    }
    assert!(matches!(loader.push(&4999u32.to_be_bytes(), b""), Err(Error::DuplicateKey)));
    assert!(matches!(loader.push(&7u32.to_be_bytes(), b""), Err(Error::InvalidArgument(_))));
    loader.abort().unwrap();
    bed.verify_clean(&[&tree]);
    put(&tree, b"a", b"b", &acc).unwrap();
    assert!(tree.bulk_loader(&acc).is_err());
}
