//! Power cuts: random changes of a tree, a crash at a random disk operation, redo from the
//! checkpoint. Afterwards the tree holds exactly the changes up to some point that is not before
//! the last one known durable, and is undamaged.

use std::sync::Arc;

use holdfast_base::{Lsn, PageNo};
use holdfast_io::Disk;
use holdfast_testkit::{CrashDisk, SplitMix64};
use holdfast_tree::node::payload_len_max;

use crate::common::*;

#[derive(Clone)]
struct Change {
    key: Vec<u8>,
    payload: Option<Vec<u8>>,
}

fn random_change(rng: &mut SplitMix64, page_size: usize) -> Change {
    let n = rng.below(600);
    let mut key = format!("{n:05}").into_bytes();
    if n.is_multiple_of(9) {
        key.extend(vec![b'x'; 300]);
    }
    let len = if rng.below(30) == 0 { payload_len_max(page_size, key.len()) } else { rng.below(120) as usize };
    let payload = (rng.below(100) < 65).then(|| vec![rng.next_u64() as u8; len]);
    Change { key, payload }
}

fn apply(model: &mut Model, change: &Change) {
    match &change.payload {
        Some(payload) => model.insert(change.key.clone(), payload.clone()),
        None => model.remove(&change.key),
    };
}

/// Works until the power cut. Returns the root, all changes tried, and how many of them are known
/// to be durable.
fn work(disk: &CrashDisk, setup: Setup, rng: &mut SplitMix64, operations: u64) -> (PageNo, Vec<Change>, usize) {
    let bed = Bed::create(Arc::new(disk.clone()), setup).unwrap();
    let tree = bed.new_tree();
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    disk.crash_after(operations);
    let (mut tried, mut durable) = (Vec::new(), 0);
    let acc = bed.access();
    while !disk.is_dead() && tried.len() < 6000 {
        let change = random_change(rng, setup.page_size);
        tried.push(change.clone());
        let done = match &change.payload {
            Some(payload) => put(&tree, &change.key, payload, &acc),
            None => remove(&tree, &change.key, &acc),
        };
        let Ok(end) = done else { continue };
        if rng.below(20) == 0 && bed.store.wal().flush_to(end.unwrap_or(Lsn(0))).is_ok() && end.is_some() {
            durable = tried.len();
        }
        if rng.below(200) == 0 {
            let _ = bed.store.pool().flush_all();
        }
        if rng.below(300) == 0 {
            let _ = bed.store.pool().checkpoint();
        }
    }
    (tree.root(), tried, durable)
}

fn crash_once(seed: u64, page_size: usize) {
    let mut rng = SplitMix64::new(seed);
    let setup = Setup { page_size, frames: 64, log_bytes: 8 << 20, ..Setup::default() };
    let disk = CrashDisk::new();
    let operations = rng.below(900);
    let (root, tried, durable) = work(&disk, setup, &mut rng, operations);
    let after = disk.reboot(rng.next_u64());
    let bed = Bed::open(Arc::new(after.clone()), setup).unwrap();
    check(&bed, root, &tried, durable, seed);
    // A second crash, at once: redo has to be repeatable.
    let again = after.reboot(rng.next_u64());
    drop(bed);
    let disk: Arc<dyn Disk> = Arc::new(again);
    let bed = Bed::open(disk, setup).unwrap();
    check(&bed, root, &tried, durable, seed);
    let tree = bed.tree(root);
    for n in 0..300u32 {
        put(&tree, &n.to_be_bytes(), &[9; 50], &bed.access()).unwrap();
    }
    bed.verify_undamaged(&[&tree]);
}

fn check(bed: &Bed, root: PageNo, tried: &[Change], durable: usize, seed: u64) {
    let tree = bed.tree(root);
    bed.verify_undamaged(&[&tree]);
    let acc = bed.access();
    let found: Model = walk(&tree, Default::default(), &acc).into_iter().collect();
    let mut model = Model::new();
    tried[..durable].iter().for_each(|change| apply(&mut model, change));
    let mut matches = found == model;
    for change in &tried[durable..] {
        if matches {
            break;
        }
        apply(&mut model, change);
        matches = found == model;
    }
    assert!(matches, "seed {seed}: {} entries are no prefix of the changes from {durable} on", found.len());
}

#[test]
fn the_changes_are_a_prefix_with_small_pages() {
    for seed in 0..soak(40) {
        crash_once(seed, 4096);
    }
}

#[test]
fn the_changes_are_a_prefix_with_default_pages() {
    for seed in 100..100 + soak(10) {
        crash_once(seed, 16384);
    }
}

#[test]
fn a_crash_while_redo_is_applied_is_repaired_by_the_next_one() {
    for seed in 200..200 + soak(12) {
        let mut rng = SplitMix64::new(seed);
        let setup = Setup { frames: 64, log_bytes: 8 << 20, ..Setup::default() };
        let disk = CrashDisk::new();
        let operations = 300 + rng.below(500);
        let (root, tried, durable) = work(&disk, setup, &mut rng, operations);
        let mut disk = disk.reboot(rng.next_u64());
        for _ in 0..4 {
            disk.crash_after(rng.below(60));
            let opened = Bed::open(Arc::new(disk.clone()), setup);
            drop(opened);
            disk = disk.reboot(rng.next_u64());
        }
        let bed = Bed::open(Arc::new(disk), setup).unwrap();
        check(&bed, root, &tried, durable, seed);
    }
}
