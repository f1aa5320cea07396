//! A removal that cannot read the neighbour of its leaf leaves the leaf empty, and a later removal
//! makes up for it. Behind the last one there was none: the nodes of a tree without entries stayed
//! in use.

use std::sync::Arc;

use holdfast_base::PageNo;
use holdfast_io::MemoryDisk;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};
use holdfast_tree::Tree;
use holdfast_wal::SpaceClass;

use crate::common::*;

/// Keys so long, and apart so late, that inner nodes have few children, and do not fit together
/// before these are fewer.
fn key(n: u16) -> Vec<u8> {
    [&(n / 8).to_be_bytes()[..], &[7; 900], &[n as u8]].concat()
}

fn used(bed: &Bed) -> u32 {
    let info = bed.space.info(&bed.access()).unwrap();
    info.pages - info.free_pages
}

/// A tree of which all rows are gone. Of the removals, all that read a page of a neighbour failed
/// to merge: the pages are not in the pool.
fn emptied(faults: &FaultDisk, rows: u16, payload: &[u8]) -> (Bed, PageNo) {
    let setup = Setup { frames: 64, ..Setup::default() };
    let bed = Bed::create(Arc::new(faults.clone()), setup).unwrap();
    let root = bed.new_tree().root();
    for n in 0..rows {
        put(&bed.tree(root), &key(n), payload, &bed.access()).unwrap();
    }
    let (full, bed) = (used(&bed), bed.reopen());
    for n in 0..rows {
        assert!(get(&bed.tree(root), &key(n), &bed.access()).is_some());
        faults.schedule(Fault::nth(FaultOp::Read, 1).sticky());
        remove(&bed.tree(root), &key(n), &bed.access()).unwrap();
        faults.clear();
    }
    assert!(used(&bed) > full / 4, "{} of {full} pages", used(&bed));
    (bed, root)
}

fn shrink(bed: &Bed, tree: &Tree) {
    tree.shrink_if_empty(&bed.access(), SpaceClass::User).unwrap();
}

#[test]
fn whose_removals_did_not_merge() {
    for (rows, payload) in [(40, &[3; 1000][..]), (300, &[3; 1000]), (1000, &[3; 10])] {
        let (bed, root) = emptied(&FaultDisk::new(Arc::new(MemoryDisk::new())), rows, payload);
        let tree = bed.tree(root);
        shrink(&bed, &tree);
        assert!(used(&bed) <= 4, "{rows} rows: {} pages in use for nothing", used(&bed));
        bed.verify_clean(&[&tree]);
        put(&tree, &key(1), b"row", &bed.access()).unwrap();
        shrink(&bed, &tree);
        assert_eq!(get(&tree, &key(1), &bed.access()).unwrap(), b"row");
    }
}

#[test]
fn and_one_with_an_entry_stays_as_it_is() {
    let (bed, root) = emptied(&FaultDisk::new(Arc::new(MemoryDisk::new())), 300, &[3; 1000]);
    let tree = bed.tree(root);
    put(&tree, &key(299), b"row", &bed.access()).unwrap();
    let before = used(&bed);
    shrink(&bed, &tree);
    assert_eq!(used(&bed), before);
    bed.verify_clean(&[&tree]);
}

/// What was done until an error came stays, and the next call goes on.
#[test]
fn also_after_an_error_and_a_crash() {
    let mut failed = 0;
    for n in 1..40 {
        let disk = CrashDisk::new();
        let faults = FaultDisk::new(Arc::new(disk.clone()));
        let (bed, root) = emptied(&faults, 300, &[3; 1000]);
        let bed = bed.reopen();
        faults.schedule(Fault::nth(FaultOp::Read, n));
        let shrunk = bed.tree(root).shrink_if_empty(&bed.access(), SpaceClass::User);
        failed += usize::from(shrunk.is_err());
        faults.clear();
        bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
        let setup = bed.setup;
        drop(bed);
        let bed = Bed::open(Arc::new(disk.reboot(n)), setup).unwrap();
        bed.verify_clean(&[&bed.tree(root)]);
        shrink(&bed, &bed.tree(root));
        assert!(used(&bed) <= 4, "read {n}: {} pages in use for nothing", used(&bed));
        bed.verify_clean(&[&bed.tree(root)]);
    }
    assert!(failed > 0, "no try met the error");
}
