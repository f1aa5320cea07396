//! A full disk failed the last step of a bulk load, and its pages stayed allocated: nothing knew
//! them any more.

mod common;

use std::sync::Arc;

use common::{Bed, FILE, Setup};
use holdfast_base::{Error, Result};
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_tree::Tree;

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
