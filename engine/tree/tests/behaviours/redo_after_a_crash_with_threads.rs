//! Power cuts while several threads change one tree and the pool writes and checkpoints in the
//! background: afterwards each thread's keys hold a prefix of that thread's changes, not shorter
//! than the part that it knew to be durable, and the tree is undamaged.

use std::sync::Arc;
use std::thread;

use holdfast_base::PageNo;
use holdfast_testkit::{CrashDisk, SplitMix64};

use crate::common::*;

const THREADS: u64 = 3;
const SETUP: Setup = Setup { page_size: 4096, frames: 96, background: true, log_bytes: 4 << 20 };

/// What one thread did: (key, payload or removal) in order, and how many are known to be durable.
type History = (Vec<(Vec<u8>, Option<Vec<u8>>)>, usize);

fn work(bed: &Bed, root: &holdfast_tree::Tree, disk: &CrashDisk, thread: u64, seed: u64) -> History {
    let mut rng = SplitMix64::new(seed * 31 + thread);
    let (mut changes, mut durable) = (Vec::new(), 0);
    while !disk.is_dead() && changes.len() < 20_000 {
        let acc = bed.access();
        let key = format!("{:05}/{thread}", rng.below(900)).into_bytes();
        let payload = (rng.below(100) < 60).then(|| vec![rng.next_u64() as u8; rng.below(200) as usize]);
        changes.push((key.clone(), payload.clone()));
        let done = match &payload {
            Some(payload) => put(root, &key, payload, &acc),
            None => remove(root, &key, &acc),
        };
        match done {
            Ok(Some(end)) if rng.below(30) == 0 => {
                if bed.store.wal().flush_to(end).is_ok() {
                    durable = changes.len();
                }
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    (changes, durable)
}

fn crash(seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let disk = CrashDisk::new();
    let bed = Bed::create(Arc::new(disk.clone()), SETUP).unwrap();
    let tree = bed.new_tree();
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    disk.crash_after(rng.below(4000));
    let histories: Vec<History> = thread::scope(|scope| {
        let (bed, tree, disk) = (&bed, &tree, &disk);
        let handles: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(bed, tree, disk, t, seed))).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let root = tree.root();
    let after = disk.reboot(rng.next_u64());
    drop((tree, bed));
    let bed = Bed::open(Arc::new(after), SETUP).unwrap();
    check(&bed, root, &histories, seed);
}

fn check(bed: &Bed, root: PageNo, histories: &[History], seed: u64) {
    let tree = bed.tree(root);
    bed.verify_undamaged(&[&tree]);
    let found: Model = walk(&tree, Default::default(), &bed.access()).into_iter().collect();
    for (thread, (changes, durable)) in histories.iter().enumerate() {
        let suffix = format!("/{thread}").into_bytes();
        let own: Model =
            found.iter().filter(|(k, _)| k.ends_with(&suffix)).map(|(k, v)| (k.clone(), v.clone())).collect();
        let mut model = Model::new();
        let mut matches = false;
        for n in 0..=changes.len() {
            matches |= n >= *durable && model == own;
            if let Some((key, payload)) = changes.get(n).filter(|_| !matches) {
                match payload {
                    Some(payload) => model.insert(key.clone(), payload.clone()),
                    None => model.remove(key),
                };
            }
        }
        assert!(matches, "seed {seed}, thread {thread}: no prefix of the changes from {durable} of {}", changes.len());
    }
}

#[test]
fn every_thread_keeps_what_it_knew_to_be_durable() {
    for seed in 0..soak(10) {
        crash(seed);
    }
}
