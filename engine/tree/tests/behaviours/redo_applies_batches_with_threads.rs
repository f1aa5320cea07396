//! Redo applies a batch of records page by page, with several threads: the tree is the same
//! whatever part of the log a batch holds, and however many pages a thread finds in it.

use std::sync::Arc;

use holdfast_io::Disk;
use holdfast_metrics::Counter;
use holdfast_testkit::{CrashDisk, SplitMix64};

use crate::common::*;

const ROWS: u64 = 6_000;

#[test]
fn batches_of_all_sizes_give_the_same_tree() {
    let setup = Setup { frames: 4096, ..Setup::default() };
    let disk = CrashDisk::new();
    let bed = Bed::create(Arc::new(disk.clone()), setup).unwrap();
    let (tree, mut model, mut rng) = (bed.new_tree(), Model::new(), SplitMix64::new(7));
    let acc = bed.access();
    for n in 0..4 * ROWS {
        let key = format!("{:06}", rng.below(ROWS)).into_bytes();
        // Pages come and go: nodes split, are emptied, and are allocated again.
        if rng.below(10) < 6 {
            let payload = {
                let len = rng.below(300) as usize;
                rng.bytes(len)
            };
            put(&tree, &key, &payload, &acc).unwrap();
            model.insert(key, payload);
        } else {
            remove(&tree, &key, &acc).unwrap();
            model.remove(&key);
        }
        if n == ROWS {
            bed.checkpoint();
        }
    }
    drop(acc);
    let root = tree.root();
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    drop((tree, bed));
    // A quarter of the cache is a batch.
    for frames in [64, 300, 1024, 8192] {
        let disk: Arc<dyn Disk> = Arc::new(disk.reboot(frames as u64));
        let bed = Bed::open(disk, Setup { frames, ..setup }).unwrap();
        assert!(bed.store.metrics().get(Counter::RecoveryGroups) > 2 * ROWS, "there was much to do");
        let tree = bed.tree(root);
        assert_equals(&tree, &model, &bed.access());
        bed.verify_clean(&[&tree]);
    }
}
