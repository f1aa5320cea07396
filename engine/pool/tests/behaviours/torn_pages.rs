//! Pages torn by a power cut are restored from the double-write file.

use std::ops::Range;
use std::sync::Arc;

use holdfast_base::{Lsn, SpaceId, page};
use holdfast_io::MemoryDisk;
use holdfast_metrics::Counter;
use holdfast_pool::{DoubleWrite, PoolConfig, Space, restore_torn_pages};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::{self, Bed, PAGE, open_space, value};

fn log(bed: &Bed) -> Range<Lsn> {
    bed.wal.checkpoint_lsn()..bed.wal.end_lsn()
}

fn restore(bed: &Bed) -> Vec<u32> {
    let own = |id| Ok((id == bed.space.id()).then(|| bed.space.file().clone()));
    let report = restore_torn_pages(&*bed.disk, PAGE, log(bed), &mut { own }).unwrap();
    report.restored.iter().map(|id| id.no.0).collect()
}

fn home(bed: &Bed, no: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bed.space.file().read_at(no * PAGE as u64, &mut bytes).unwrap();
    bytes
}

fn tear(bed: &Bed, no: u64) {
    bed.space.file().write_at(no * PAGE as u64 + 2048, &[0xee; 2048]).unwrap();
}

#[test]
fn the_newest_image_replaces_a_torn_page() {
    let bed = Bed::new(64);
    bed.create_many(20);
    for round in 1..5 {
        // From here on none of the older images will do.
        bed.pool.checkpoint().unwrap();
        (0..20).for_each(|no| bed.update(no, round).unwrap());
        bed.pool.flush_all().unwrap();
    }
    assert_eq!(restore(&bed), [0; 0]);
    tear(&bed, 3);
    tear(&bed, 11);
    assert_eq!(restore(&bed), [3, 11]);
    let id = bed.space.id();
    for no in [3, 11] {
        assert_eq!(value(&home(&bed, no)), 4);
        page::check(&home(&bed, no), holdfast_base::PageId::new(id, holdfast_base::PageNo(no as u32))).unwrap();
    }
    assert_eq!(restore(&bed), [0; 0], "restoring twice does no harm");
}

#[test]
fn torn_images_and_dropped_spaces_are_passed_over() {
    let bed = Bed::new(64);
    bed.create_many(20);
    tear(&bed, 3);
    let copies = bed.disk.open("doublewrite", holdfast_io::OpenOptions::default()).unwrap();
    for slot in 0..20 {
        copies.write_at(slot * PAGE as u64 + 2048, &[0xee; 512]).unwrap();
    }
    assert_eq!(restore(&bed), [0; 0], "no good image is left");
    let report = restore_torn_pages(&*bed.disk, PAGE, log(&bed), &mut |_| Ok(None)).unwrap();
    assert!(report.restored.is_empty());
}

/// With a file as small as it can be, page 1 torn by a write that failed, and a second space of 300
/// pages.
fn bed_with_a_torn_page() -> (Bed, FaultDisk, Arc<Space>) {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let bed = Bed::on(Arc::new(faults.clone()), |c| PoolConfig { doublewrite_bytes: 0, ..c }, 64);
    bed.create_many(2);
    bed.pool.checkpoint().unwrap();
    let other = open_space(&bed.pool, &bed.disk, SpaceId(17));
    bed.update(1, 77).unwrap();
    faults.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Torn).on("t16.hf"));
    assert!(bed.pool.flush_all().is_err());
    (bed, faults, other)
}

/// The double-write file turns over several times, while page 1 is not written.
fn turn_over(bed: &Bed, other: &Space) {
    let before = bed.metrics.get(Counter::DblwrPagesWritten);
    for no in 0..900 {
        common::create(&bed.pool, other, no % 300, u64::from(no)).unwrap();
        bed.pool.flush_space(other).unwrap();
    }
    assert!(bed.metrics.get(Counter::DblwrPagesWritten) - before > 600);
}

#[test]
fn the_image_of_a_page_whose_write_failed_is_kept() {
    let (bed, _, other) = bed_with_a_torn_page();
    turn_over(&bed, &other);
    assert_eq!(restore(&bed), [1]);
    assert_eq!(value(&home(&bed, 1)), 77);
}

/// A second failure, of the write to the double-write file, does not free the slot of the only good
/// copy.
#[test]
fn it_is_kept_if_the_double_write_file_fails_then() {
    let (bed, faults, other) = bed_with_a_torn_page();
    common::create(&bed.pool, &other, 0, 1).unwrap();
    faults.schedule(Fault::nth(FaultOp::Write, 1).on("doublewrite"));
    assert!(bed.pool.flush_all().is_err());
    turn_over(&bed, &other);
    assert_eq!(restore(&bed), [1]);
    assert_eq!(value(&home(&bed, 1)), 77);
}

/// Images stay until their slot is used again, so the newest one that is left may be older than the
/// page was when a bit rotted in it. Such an image does not replace the page: commits since then
/// would be lost without an error.
#[test]
fn a_stale_image_replaces_nothing() {
    let bed = Bed::new(64);
    bed.create_many(4);
    bed.update(3, 100).unwrap();
    bed.pool.flush_all().unwrap();
    let images = bed.disk.open("doublewrite", holdfast_io::OpenOptions::default()).unwrap();
    let mut old = vec![0; images.len().unwrap() as usize];
    images.read_at(0, &mut old).unwrap();
    bed.pool.checkpoint().unwrap();
    bed.update(3, 200).unwrap();
    bed.pool.flush_all().unwrap();
    bed.pool.checkpoint().unwrap();
    // The slot of the newer image has been used for another page meanwhile.
    images.write_at(0, &old).unwrap();
    tear(&bed, 3);
    let before = home(&bed, 3);
    let file = bed.space.file().clone();
    let report = restore_torn_pages(&*bed.disk, PAGE, log(&bed), &mut |_| Ok(Some(file.clone()))).unwrap();
    assert!(report.restored.is_empty());
    assert_eq!(report.stale.iter().map(|id| id.no.0).collect::<Vec<_>>(), [3]);
    assert_eq!(home(&bed, 3), before);
}

/// The image of just that version repairs the page, however old both are.
#[test]
fn the_very_image_of_a_damaged_page_repairs_it() {
    let bed = Bed::new(64);
    bed.create_many(4);
    bed.pool.checkpoint().unwrap();
    bed.update(3, 200).unwrap();
    bed.pool.flush_all().unwrap();
    bed.pool.checkpoint().unwrap();
    tear(&bed, 3);
    assert_eq!(restore(&bed), [3]);
    assert_eq!(value(&home(&bed, 3)), 200);
}

/// On a disk that may fail: 20 pages, all written and behind the checkpoint.
fn checkpointed() -> (Bed, FaultDisk) {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let bed = Bed::on(Arc::new(faults.clone()), |c| c, 64);
    bed.create_many(20);
    assert_eq!(bed.pool.checkpoint().unwrap(), bed.wal.next_lsn());
    (bed, faults)
}

/// A bad sector below a page that redo does not ask for kept the whole database shut.
#[test]
fn a_page_that_cannot_be_read_is_left_to_its_readers() {
    let (bed, faults) = checkpointed();
    faults.schedule(Fault::nth(FaultOp::Read, 1).on("t16.hf").sticky());
    assert_eq!(restore(&bed), [0; 0]);
    let unreadable = |_| Err(bed.space.file().read_at(0, &mut [0]).unwrap_err());
    let report = restore_torn_pages(&*bed.disk, PAGE, log(&bed), &mut { unreadable }).unwrap();
    assert!(report.restored.is_empty());
}

#[test]
fn a_page_that_cannot_be_read_is_replaced_by_its_image_beyond_the_checkpoint() {
    let (bed, faults) = checkpointed();
    bed.update(3, 77).unwrap();
    bed.pool.flush_all().unwrap();
    tear(&bed, 3);
    faults.schedule(Fault::nth(FaultOp::Read, 4).on("t16.hf"));
    assert_eq!(restore(&bed), [3]);
    assert_eq!((faults.fired(), value(&home(&bed, 3))), (1, 77));
}

/// So did one in the double-write file, of which nothing is needed after a clean close.
#[test]
fn an_image_that_cannot_be_read_matters_if_there_is_something_to_redo() {
    let (bed, faults) = checkpointed();
    let unreadable = || {
        faults.clear();
        faults.schedule(Fault::nth(FaultOp::Read, 1).on("doublewrite"));
        faults.schedule(Fault::nth(FaultOp::Read, 5).on("doublewrite"));
        restore_torn_pages(&*bed.disk, PAGE, log(&bed), &mut |_| Ok(Some(bed.space.file().clone())))
    };
    assert_eq!(unreadable().unwrap().images, 19);
    bed.update(3, 77).unwrap();
    assert!(matches!(unreadable(), Err(holdfast_base::Error::Io { .. })));
    faults.clear();
    bed.pool.flush_all().unwrap();
    bed.pool.checkpoint().unwrap();
    assert!(unreadable().is_ok());
}

/// On the disk it may be torn, though the system gives it back as it was written, and the slot of
/// its image was used again before it had been written once more.
#[test]
fn the_image_of_a_sound_page_that_its_file_does_not_take_again_is_kept() {
    let (bed, faults) = checkpointed();
    bed.update(3, 77).unwrap();
    bed.pool.flush_all().unwrap();
    faults.schedule(Fault::nth(FaultOp::Write, 1).on("t16.hf"));
    let file = bed.space.file().clone();
    let report = restore_torn_pages(&*bed.disk, PAGE, log(&bed), &mut |_| Ok(Some(file.clone()))).unwrap();
    assert!(report.failed.is_empty() && report.restored.is_empty());
    assert_eq!(report.kept.iter().map(|(id, _)| id.no.0).collect::<Vec<_>>(), [3]);
}

/// The whole database was kept shut. What replaced the pages may not be durable, so their images
/// are kept, be they beyond the checkpoint or not.
#[test]
fn a_file_that_cannot_be_synced_fails_alone_and_keeps_its_images() {
    let (bed, faults) = checkpointed();
    bed.update(3, 77).unwrap();
    bed.update(7, 77).unwrap();
    bed.pool.flush_all().unwrap();
    [3, 5].into_iter().for_each(|no| tear(&bed, no));
    faults.schedule(Fault::nth(FaultOp::Sync, 1).on("t16.hf"));
    let file = bed.space.file().clone();
    let report = restore_torn_pages(&*bed.disk, PAGE, log(&bed), &mut |_| Ok(Some(file.clone()))).unwrap();
    assert!(matches!(&report.failed[..], [(id, holdfast_base::Error::Io { .. })] if *id == bed.space.id()));
    assert_eq!(report.restored.iter().map(|id| id.no.0).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(report.kept.iter().map(|(id, _)| id.no.0).collect::<Vec<_>>(), [3, 5, 7]);
}

#[test]
fn without_it_pages_are_written_once() {
    let adjust = |mut c: holdfast_pool::PoolConfig| {
        c.doublewrite = DoubleWrite::Off;
        c
    };
    let bed = Bed::on(std::sync::Arc::new(holdfast_io::MemoryDisk::new()), adjust, 64);
    bed.create_many(20);
    assert_eq!(bed.metrics.get(holdfast_metrics::Counter::DblwrPagesWritten), 0);
    assert!(!bed.disk.exists("doublewrite").unwrap());
}
