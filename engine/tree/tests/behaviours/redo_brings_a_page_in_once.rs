//! Where each part of the log has changes of more pages than the cache holds, redo goes through the
//! log several times instead of bringing each page in for every part.

use std::sync::Arc;

use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_metrics::Counter;
use holdfast_testkit::CrashDisk;

use crate::common::*;

const ROWS: u64 = 60_000;
const CHANGES: u64 = 7_000;
/// From row to row: all pages are changed before one is changed again.
const STRIDE: u64 = 151;

fn key(n: u64) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

#[test]
fn a_page_is_brought_in_once_for_all_of_the_log() {
    let setup = Setup { frames: 64, ..Setup::default() };
    let disk = CrashDisk::new();
    let bed = Bed::create(Arc::new(disk.clone()), setup).unwrap();
    let (tree, mut model) = (bed.new_tree(), Model::new());
    let acc = bed.access();
    for n in 0..ROWS {
        put(&tree, &key(n), b"as loaded", &acc).unwrap();
        model.insert(key(n), b"as loaded".to_vec());
    }
    bed.checkpoint();
    for n in 0..CHANGES {
        let (key, payload) = (key(n * STRIDE % ROWS), format!("{n:09}").into_bytes());
        put(&tree, &key, &payload, &acc).unwrap();
        model.insert(key, payload);
    }
    drop(acc);
    let root = tree.root();
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    drop((tree, bed));
    let file = disk.open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
    let pages = file.len().unwrap() / setup.page_size as u64;

    let disk: Arc<dyn Disk> = Arc::new(disk.reboot(1));
    let bed = Bed::open(disk, setup).unwrap();
    let metrics = bed.store.metrics();
    let (read, groups) = (metrics.get(Counter::PagesRead), metrics.get(Counter::RecoveryGroups));
    assert!(pages > 2 * setup.frames as u64, "the cache holds a part of the {pages} pages");
    assert!((CHANGES..2 * CHANGES).contains(&groups), "{groups} groups are counted once");
    assert!(read < 2 * pages, "{read} reads of {pages} pages");
    assert!(metrics.get(Counter::RecoveryPasses) > 1, "the log is read again");
    let tree = bed.tree(root);
    assert_equals(&tree, &model, &bed.access());
    bed.verify_clean(&[&tree]);
}
