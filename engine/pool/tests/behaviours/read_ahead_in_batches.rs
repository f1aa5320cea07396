//! Pages read ahead are read together, in one pass of the disk's arm, and one that is bad leaves
//! the others alone.

use std::sync::Arc;

use holdfast_base::{PageNo, SpaceId};
use holdfast_io::{ManualClock, MemoryDisk};
use holdfast_pool::AccessKind;
use holdfast_testkit::{DiskModel, FaultDisk, ModelDisk};

use crate::common::{Bed, PAGE, file_name};

fn pages(range: std::ops::Range<u32>) -> Vec<PageNo> {
    range.map(PageNo).collect()
}

fn resident(bed: &Bed, range: std::ops::Range<u32>) -> usize {
    range.filter(|&no| bed.pool.is_resident(&bed.space, PageNo(no))).count()
}

/// 600 pages on disk, the first ones no longer in the pool of 256 frames.
fn bed(disk: Arc<dyn holdfast_io::Disk>) -> Bed {
    let bed = Bed::on(disk, |c| c, 256);
    bed.create_many(600);
    assert_eq!(resident(&bed, 0..100), 0);
    bed
}

#[test]
fn neighbours_cost_one_seek() {
    let disk = ModelDisk::new(Arc::new(MemoryDisk::new()), DiskModel::spinning(), Arc::new(ManualClock::new()));
    let bed = bed(Arc::new(disk.clone()));
    let before = disk.traffic()[&file_name(SpaceId(16))];
    bed.pool.prefetch(&bed.space, &pages(10..26), &bed.pool.access(AccessKind::Range));
    let after = disk.traffic()[&file_name(SpaceId(16))];
    assert_eq!(resident(&bed, 10..26), 16);
    assert_eq!((after.reads - before.reads, after.seeks - before.seeks), (16, 1));
}

#[test]
fn a_bad_page_does_not_take_the_others_along() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let bed = bed(Arc::new(disk.clone()));
    disk.flip_bit(&file_name(SpaceId(16)), 15 * PAGE as u64 + 900, 1).unwrap();
    bed.pool.prefetch(&bed.space, &pages(10..20), &bed.pool.access(AccessKind::Range));
    assert_eq!(resident(&bed, 10..20), 9);
    assert!(!bed.pool.is_resident(&bed.space, PageNo(15)));
    assert!(bed.read(15).is_err(), "a thread that asks for it is told");
    assert!((10..15).all(|no| bed.read(no).is_ok_and(|value| value == u64::from(no))));
}

#[test]
fn a_page_past_the_end_does_not_take_the_others_along() {
    let bed = bed(Arc::new(MemoryDisk::new()));
    let mut wanted = pages(30..34);
    wanted.push(PageNo(5_000));
    bed.pool.prefetch(&bed.space, &wanted, &bed.pool.access(AccessKind::Range));
    assert_eq!(resident(&bed, 30..34), 4);
    assert!(!bed.pool.is_resident(&bed.space, PageNo(5_000)));
}
