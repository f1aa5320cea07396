//! An index lets its file grow while less than an eighth of the pages is free. On a full disk that
//! failed with all of these pages free, and nothing took them. A file that cannot grow gives them
//! to its indexes, and to rollbacks as well.

use std::sync::Arc;

use holdfast_base::{Error, PageNo};
use holdfast_io::MemoryDisk;
use holdfast_pool::AccessKind;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_tree::{Action, Tree, overflow};
use holdfast_wal::SpaceClass;

use crate::common::{self, Bed, FILE, INDEX, Setup, put, remove};

/// A table of which every eleventh page or so is free, on a disk that gives nothing more.
fn full() -> (Bed, Tree) {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let bed = Bed::create(disk.clone(), Setup { frames: 1000, ..Setup::default() }).unwrap();
    let tree = bed.new_tree();
    let acc = bed.access();
    for n in 0..20_000u32 {
        put(&tree, &n.to_be_bytes(), &[3; 200], &acc).unwrap();
    }
    let info = bed.space.info(&acc).unwrap();
    for n in (0..20_000u32).filter(|n| n / 100 % 8 == 0) {
        remove(&tree, &n.to_be_bytes(), &acc).unwrap();
    }
    assert!(bed.space.info(&acc).unwrap().free_pages > info.pages / 20);
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).on(FILE).sticky());
    drop(acc);
    (bed, tree)
}

/// How many pages are free when `step` fails for want of disk.
fn free_in_the_end(bed: &Bed, mut step: impl FnMut(u32) -> holdfast_base::Result<()>) -> u32 {
    let error = (0..).find_map(|n| step(n).err());
    assert!(matches!(error, Some(Error::DiskFull(_))), "{error:?}");
    bed.store.wal().check_poisoned().unwrap();
    bed.space.info(&bed.access()).unwrap().free_pages
}

#[test]
fn inserts_take_them() {
    let (bed, tree) = full();
    let acc = bed.access();
    let left = free_in_the_end(&bed, |n| {
        let key = n.wrapping_mul(2_654_435_761).to_be_bytes();
        put(&tree, &key, &[1; 200], &acc).map(drop)
    });
    assert_eq!(left, 0);
    bed.verify_clean(&[&tree]);
}

#[test]
fn rollbacks_take_them() {
    let (bed, tree) = full();
    let acc = bed.store.pool().access(AccessKind::Purge);
    let left = free_in_the_end(&bed, |n| {
        let key = n.wrapping_mul(2_654_435_761).to_be_bytes();
        let mut put = |_: Option<&[u8]>| Ok(Action::Put(vec![1; 200]));
        tree.modify_as(SpaceClass::Rollback, &key, &acc, &mut put).map(drop)
    });
    assert_eq!(left, 0);
}

#[test]
fn bulk_loads_and_long_values_take_them() {
    let (bed, tree) = full();
    let other = bed.space.info(&bed.access()).unwrap().free_pages;
    let acc = bed.access();
    let mut loader_tree = None;
    let left = free_in_the_end(&bed, |n| {
        if n < other / 2 {
            return overflow::write_chain(&bed.space, INDEX, &[5; 4000], PageNo(2), &acc).map(drop);
        }
        let root = Tree::create(&bed.space, holdfast_base::IndexId(6), &acc)?;
        let loaded = loader_tree.insert(Tree::open(&bed.space, holdfast_base::IndexId(6), root));
        let mut loader = loaded.bulk_loader(&acc)?;
        (0..100_000u32).try_for_each(|n| loader.push(&n.to_be_bytes(), &[2; 200]))
    });
    assert_eq!(left, 0);
    assert!(common::get(&tree, &101u32.to_be_bytes(), &acc).is_some());
}
