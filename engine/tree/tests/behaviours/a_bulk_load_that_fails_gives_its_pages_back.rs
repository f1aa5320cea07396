//! A full disk failed the last step of a bulk load, and its pages stayed allocated: nothing knew
//! them any more. One that had failed before went on with what was left of its nodes once there was
//! room again, and the keys of the root were not in order: that stopped the database.

use std::sync::Arc;

use holdfast_base::{Error, Result};
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_tree::Tree;

use crate::common::{Bed, FILE, Setup};

/// A new file with an empty tree, on a disk that gives nothing more.
fn full() -> (Arc<FaultDisk>, Bed, Tree) {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let bed = Bed::create(disk.clone(), Setup::default()).unwrap();
    let tree = bed.new_tree();
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).on(FILE).sticky());
    (disk, bed, tree)
}

fn free_pages(bed: &Bed) -> u32 {
    bed.space.info(&bed.access()).unwrap().free_pages
}

/// Whether so many entries can be loaded. Whatever their number, the end of the load needs more
/// pages than what comes before.
fn load(bed: &Bed, tree: &Tree, entries: u32) -> Result<u64> {
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap();
    for n in 0..entries {
        loader.push(&n.to_be_bytes(), &[1; 200]).unwrap();
    }
    loader.finish()
}

#[test]
fn in_its_last_step() {
    // Fewer entries than a leaf takes come with each attempt.
    let failed = (1..).find_map(|tens| {
        let (_, bed, tree) = full();
        let before = free_pages(&bed);
        load(&bed, &tree, tens * 10).err().map(|error| (error, before, bed, tree))
    });
    let (error, before, bed, tree) = failed.unwrap();
    assert!(matches!(error, Error::DiskFull(_)), "{error:?}");
    assert_eq!(free_pages(&bed), before);
    bed.verify_clean(&[&tree]);
    load(&bed, &tree, 10).unwrap();
    bed.verify_clean(&[&tree]);
}

#[test]
fn in_the_middle_and_does_not_go_on() {
    let (disk, bed, tree) = full();
    let before = free_pages(&bed);
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap();
    let error = (0u32..).find_map(|n| loader.push(&n.to_be_bytes(), &[1; 200]).err()).unwrap();
    assert!(matches!(error, Error::DiskFull(_)), "{error:?}");
    disk.clear();
    assert!(matches!(loader.push(&[255; 8], b"the next one"), Err(Error::InvalidArgument(_))));
    assert!(matches!(loader.finish(), Err(Error::InvalidArgument(_))));
    bed.store.wal().check_poisoned().unwrap();
    assert_eq!(free_pages(&bed), before);
    bed.verify_clean(&[&tree]);
}
