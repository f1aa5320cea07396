//! A page that is written again relies on the image that it has in the double-write file, as long
//! as the log reaches back to that.

use std::sync::Arc;

use holdfast_base::codec::get_u64;
use holdfast_base::{PageId, SpaceId, page};
use holdfast_io::{FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::{Counter, Metrics};
use holdfast_pool::{PoolConfig, restore_torn_pages};
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_wal::Wal;

use crate::common::{self, Bed, PAGE, UUID, open_space, put_value, value, wal_config};

/// Slots of an area.
const AREA: u64 = 128;

fn doubled(bed: &Bed) -> u64 {
    bed.metrics.get(Counter::DblwrPagesWritten)
}

fn spared(bed: &Bed) -> u64 {
    bed.metrics.get(Counter::DblwrPagesSpared)
}

fn update_all(bed: &Bed, n: u32, value: u64) {
    (0..n).for_each(|no| bed.update(no, value).unwrap());
    bed.pool.flush_all().unwrap();
}

/// What recovery makes of page `no`: the image, if the page is torn, and then the log from the
/// checkpoint on.
fn recovered(bed: &Bed, no: u32) -> u64 {
    let (_, mut recovery) = Wal::open(bed.disk.clone(), UUID, wal_config(), Metrics::new()).unwrap();
    let file = bed.space.file().clone();
    let log = recovery.checkpoint_lsn()..recovery.end_lsn();
    restore_torn_pages(&*bed.disk, PAGE, log, &mut |_| Ok(Some(file.clone()))).unwrap();
    let id = PageId::new(bed.space.id(), holdfast_base::PageNo(no));
    let mut bytes = vec![0; PAGE];
    file.read_at(u64::from(no) * PAGE as u64, &mut bytes).unwrap();
    page::check(&bytes, id).unwrap();
    while let Some(group) = recovery.next().unwrap() {
        if get_u64(group.payload, 0) == Some(id.to_u64()) && page::lsn(&bytes) < group.end {
            put_value(&mut bytes, get_u64(group.payload, 8).unwrap());
        }
    }
    value(&bytes)
}

fn tear(bed: &Bed, no: u64) {
    bed.space.file().write_at(no * PAGE as u64 + 2048, &[0xee; 2048]).unwrap();
}

#[test]
fn a_page_has_one_image_for_each_checkpoint() {
    let bed = Bed::new(64);
    bed.create_many(20);
    (1..10).for_each(|round| update_all(&bed, 20, round));
    assert_eq!((doubled(&bed), spared(&bed)), (20, 9 * 20));
    bed.pool.checkpoint().unwrap();
    (10..20).for_each(|round| update_all(&bed, 20, round));
    assert_eq!((doubled(&bed), spared(&bed)), (40, 18 * 20));
}

#[test]
fn a_torn_page_recovers_from_an_older_image_and_the_log() {
    let bed = Bed::new(64);
    bed.create_many(20);
    (1..5).for_each(|round| update_all(&bed, 20, round));
    bed.pool.checkpoint().unwrap();
    (5..9).for_each(|round| update_all(&bed, 20, round));
    assert_eq!(doubled(&bed), 40);
    tear(&bed, 7);
    assert_eq!(recovered(&bed, 7), 8);
}

/// A write that failed may have torn the page, and its image is older than the change that made it
/// dirty again: the log has to be kept from the image on.
#[test]
fn a_failed_write_keeps_the_log_from_its_image_on() {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let bed = Bed::on(Arc::new(faults.clone()), |c| c, 64);
    bed.create(0, 0).unwrap();
    let first = bed.wal.next_lsn();
    bed.create(1, 1).unwrap();
    bed.pool.flush_all().unwrap();
    bed.update(1, 50).unwrap();
    bed.pool.flush_all().unwrap();
    bed.update(1, 77).unwrap();
    faults.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Torn).on("t16.hf"));
    assert!(bed.pool.flush_all().is_err());
    assert_eq!(spared(&bed), 2);
    assert_eq!(bed.pool.oldest_dirty(), first);
    assert_eq!(bed.pool.checkpoint().unwrap(), first);
    tear(&bed, 1);
    assert_eq!(recovered(&bed, 1), 77);
}

/// The file is as long as the pages need it, up to the limit; then old images make room, and their
/// pages get new ones.
#[test]
fn the_file_grows_to_its_limit_and_is_used_again() {
    let disk: Arc<dyn holdfast_io::Disk> = Arc::new(MemoryDisk::new());
    let limit = 5 * AREA * PAGE as u64;
    let bed = Bed::on(disk, |c| PoolConfig { doublewrite_bytes: limit, ..c }, 1200);
    let len = || bed.disk.open("doublewrite", OpenOptions::new(FileKind::Data)).unwrap().len().unwrap();
    bed.create_many(100);
    assert_eq!(len(), 2 * AREA * PAGE as u64);
    bed.create_many(350);
    assert_eq!(len(), 3 * AREA * PAGE as u64);
    let before = doubled(&bed);
    update_all(&bed, 350, 1);
    assert_eq!(doubled(&bed), before, "all of them are there");
    bed.create_many(1000);
    assert_eq!(len(), limit);
    update_all(&bed, 1000, 2);
    assert!(doubled(&bed) - before > 1000);
    (0..1000).for_each(|no| assert_eq!(bed.read(no).unwrap(), 2));
    tear(&bed, 999);
    assert_eq!(recovered(&bed, 999), 2);
}

/// Where the disk has no room for a longer file, the pages make do with the areas that there are.
#[test]
fn a_file_that_cannot_grow_is_used_as_it_is() {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let bed = Bed::on(Arc::new(faults.clone()), |c| c, 1200);
    bed.create_many(100);
    faults.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).on("doublewrite").sticky());
    bed.create_many(1000);
    let file = bed.disk.open("doublewrite", OpenOptions::new(FileKind::Data)).unwrap();
    assert_eq!(file.len().unwrap(), 2 * AREA * PAGE as u64);
    faults.clear();
    bed.create_many(1000);
    assert!(file.len().unwrap() > 2 * AREA * PAGE as u64);
}

/// Nothing is known of the images of an earlier life.
#[test]
fn a_new_pool_relies_on_its_own_images_only() {
    let disk = CrashDisk::new();
    let bed = Bed::on(Arc::new(disk.clone()), |c| c, 64);
    bed.create_many(20);
    let Bed { wal, pool, space, .. } = bed;
    pool.close_space(&space, false).unwrap();
    drop((pool, space));
    let metrics = Metrics::new();
    let shared: Arc<dyn holdfast_io::Disk> = Arc::new(disk);
    let pool = holdfast_pool::Pool::new(common::config(&shared, 64), wal, metrics.clone()).unwrap();
    let space = open_space(&pool, &shared, SpaceId(16));
    common::update(&pool, &space, 3, 9).unwrap();
    pool.flush_all().unwrap();
    assert_eq!((metrics.get(Counter::DblwrPagesWritten), metrics.get(Counter::DblwrPagesSpared)), (1, 0));
}
