//! A structure change reserved a frame for each level, and a pool sets a quarter of its frames
//! aside: pools of 16 to 36 frames could be opened, and failed at their first split. The
//! reservation of one change has a bound now, and the smallest pool has four times that.

use holdfast_base::{PageNo, SpaceId};
use holdfast_pool::RESERVED_MAX;
use holdfast_testkit::SplitMix64;
use holdfast_tree::{Lifetime, SpaceFile, overflow};
use holdfast_wal::SpaceClass;

use crate::common::{self, Bed, INDEX, Model, Setup, UUID, assert_equals, put, remove};

/// The fewest frames that a pool may have.
const LEAST: usize = 4 * RESERVED_MAX;

fn smallest() -> Setup {
    Setup { frames: LEAST, ..Setup::default() }
}

/// Long keys that differ at their ends from their neighbours, for long separators and many levels.
fn key(n: u64) -> Vec<u8> {
    let group = (n / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [group.repeat(112), n.to_be_bytes().to_vec()].concat()
}

#[test]
fn splits_and_merges_of_a_high_tree() {
    let bed = Bed::new(smallest());
    let tree = bed.new_tree();
    let acc = bed.access();
    let mut model = Model::new();
    for n in 0..700 {
        put(&tree, &key(n), &[3; 500], &acc).unwrap();
        model.insert(key(n), vec![3; 500]);
    }
    assert!(tree.stats(&acc).unwrap().height > 4);
    assert_equals(&tree, &model, &acc);
    for n in 0..690 {
        remove(&tree, &key(n), &acc).unwrap();
        model.remove(&key(n));
    }
    assert_equals(&tree, &model, &acc);
    bed.verify_clean(&[&tree]);
}

#[test]
fn bulk_loads_relocations_and_long_values() {
    let bed = Bed::new(smallest());
    let tree = bed.new_tree();
    let acc = bed.access();
    let chain = overflow::write_chain(&bed.space, INDEX, &[1; 500_000], PageNo(2), &acc).unwrap();
    let mut loader = tree.bulk_loader(&acc).unwrap();
    (0..2000u32).for_each(|n| loader.push(&n.to_be_bytes(), &[2; 100]).unwrap());
    loader.finish().unwrap();
    overflow::release_chain(&bed.space, INDEX, chain, &acc, SpaceClass::User).unwrap();
    loop {
        let last = bed.space.last_allocated(&acc).unwrap();
        if tree.relocate_page(last, &acc).unwrap().is_none() {
            break;
        }
    }
    assert!(bed.space.shrink(&acc).unwrap().0 > 0);
    bed.verify_clean(&[&tree]);
    let disk = bed.disk.as_ref();
    SpaceFile::create_for(Lifetime::Temporary, &bed.store, disk, SpaceId(17), "t17.hf", UUID).unwrap();
}

#[test]
fn changes_by_many_threads() {
    let bed = Bed::new(Setup { background: true, ..smallest() });
    let tree = bed.new_tree();
    std::thread::scope(|scope| {
        for t in 0..16 {
            let (bed, tree) = (&bed, &tree);
            scope.spawn(move || {
                let mut rng = SplitMix64::new(t);
                for _ in 0..60 {
                    let (acc, n) = (bed.access(), t * 1000 + rng.below(30));
                    let len = 3000 + rng.below(20_000) as usize;
                    let chain = overflow::write_chain(&bed.space, INDEX, &vec![t as u8; len], PageNo(2), &acc).unwrap();
                    put(tree, &key(n), &n.to_be_bytes(), &acc).unwrap();
                    let mut out = Vec::new();
                    overflow::read_chain(&bed.space, INDEX, chain, &acc, &mut out).unwrap();
                    assert!(out.len() == len && out.iter().all(|b| *b == t as u8));
                    overflow::release_chain(&bed.space, INDEX, chain, &acc, SpaceClass::User).unwrap();
                    if rng.below(3) == 0 {
                        remove(tree, &key(n), &acc).unwrap();
                    }
                }
            });
        }
    });
    bed.verify_clean(&[&tree]);
}

#[test]
fn recovery() {
    let bed = Bed::new(smallest());
    let tree = bed.new_tree();
    let (root, acc) = (tree.root(), bed.access());
    for n in 0..300 {
        put(&tree, &key(n), &[3; 50], &acc).unwrap();
    }
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    drop((acc, tree));
    let Bed { setup, disk, store, space } = bed;
    store.pool().shutdown();
    drop((store, space));
    let bed = Bed::open(disk, setup).unwrap();
    let tree = bed.tree(root);
    (0..300).for_each(|n| assert_eq!(common::get(&tree, &key(n), &bed.access()), Some(vec![3; 50])));
}

#[test]
fn a_smaller_one_is_refused() {
    let Err(error) = Bed::create(
        std::sync::Arc::new(holdfast_io::MemoryDisk::new()),
        Setup { frames: LEAST - 1, ..Setup::default() },
    ) else {
        panic!("it was opened");
    };
    assert!(error.to_string().contains("32 pages of 4096 bytes, 131072 bytes, are the least"), "{error}");
}
