//! A disk that fails: the thread that asked gets the error, pages stay dirty, nothing is lost, and
//! it goes on afterwards.

use std::sync::Arc;

use holdfast_base::{Error, SpaceId};
use holdfast_io::MemoryDisk;
use holdfast_metrics::Counter;
use holdfast_pool::PoolConfig;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::{self, Bed, PAGE, create, open_space};

const TABLE: &str = "t16.hf";

fn bed(frames: usize) -> (Bed, FaultDisk) {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    (Bed::on(Arc::new(faults.clone()), |c| c, frames), faults)
}

#[test]
fn a_failed_read_is_an_error_once() {
    let (bed, faults) = bed(32);
    bed.create_many(64);
    let free = bed.pool.stats().free;
    faults.schedule(Fault::nth(FaultOp::Read, 1).on(TABLE));
    let no = (0..64).find(|&no| !bed.pool.is_resident(&bed.space, holdfast_base::PageNo(no))).unwrap();
    assert!(matches!(bed.read(no), Err(Error::Io { .. })));
    assert!(bed.space.damaged().is_none());
    assert_eq!(bed.read(no).unwrap(), u64::from(no));
    assert!(bed.pool.stats().free.abs_diff(free) <= 1);
}

#[test]
fn a_flipped_bit_is_damage_of_one_page() {
    let (bed, faults) = bed(32);
    bed.create_many(64);
    (40..64).for_each(|no| assert!(bed.read(no).is_ok()));
    faults.flip_bit(TABLE, 4096 * 5 + 1000, 3).unwrap();
    assert!(matches!(bed.read(5), Err(Error::DamagedPage { .. })));
    assert!(matches!(bed.space.damaged(), Some(Error::DamagedPage { page, .. }) if page.no.0 == 5));
    assert_eq!(bed.read(6).unwrap(), 6);
    assert_eq!(bed.metrics.get(Counter::PagesDamaged), 1);
}

#[test]
fn a_failed_page_write_leaves_the_page_dirty() {
    let (bed, faults) = bed(64);
    bed.create_many(20);
    (0..20).for_each(|no| bed.update(no, 100).unwrap());
    for kind in [FaultKind::Eio, FaultKind::Torn, FaultKind::Enospc] {
        faults.schedule(Fault::nth(FaultOp::Write, 3).kind(kind).on(TABLE));
        assert!(bed.pool.flush_all().is_err());
        assert!(bed.pool.stats().dirty > 0);
    }
    assert!(bed.metrics.get(Counter::FlushFailures) > 0);
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.pool.stats().dirty, 0);
    assert_eq!(bed.pool.checkpoint().unwrap(), bed.wal.next_lsn());
    bed.pool.resize(32 * 4096).unwrap();
    (0..20).for_each(|no| assert_eq!(bed.read(no).unwrap(), 100));
}

#[test]
fn a_full_disk_stops_those_who_need_frames_until_there_is_room() {
    let (bed, faults) = bed(32);
    bed.create_many(80);
    faults.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Enospc).on(TABLE).sticky());
    let mut changed = Vec::new();
    let err = (0..80).find_map(|no| match bed.update(no, 7) {
        Ok(()) => {
            changed.push(no);
            None
        }
        Err(e) => Some(e),
    });
    assert!(matches!(err, Some(Error::DiskFull(_))), "{err:?}");
    assert!(!changed.is_empty());
    faults.clear();
    for no in 0..80 {
        let expected = if changed.contains(&no) { 7 } else { u64::from(no) };
        assert_eq!(bed.read(no).unwrap(), expected);
    }
}

#[test]
fn a_failed_double_write_fails_the_flush_and_nothing_else() {
    let (bed, faults) = bed(64);
    bed.create_many(20);
    // The images of before will not do any more.
    bed.pool.checkpoint().unwrap();
    (0..20).for_each(|no| bed.update(no, 100).unwrap());
    faults.schedule(Fault::nth(FaultOp::Write, 1).on("doublewrite"));
    assert!(bed.pool.flush_all().is_err());
    assert_eq!(bed.pool.stats().dirty, 20);
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.pool.stats().dirty, 0);
}

#[test]
fn a_failed_sync_poisons() {
    for file in [TABLE, "doublewrite"] {
        let (bed, faults) = bed(64);
        bed.create_many(20);
        bed.pool.checkpoint().unwrap();
        bed.update(3, 100).unwrap();
        faults.schedule(Fault::nth(FaultOp::Sync, 1).on(file));
        assert!(bed.pool.flush_all().is_err());
        assert!(matches!(bed.wal.check_poisoned(), Err(Error::Poisoned(_))));
        assert!(bed.pool.flush_all().is_err(), "no later success hides it");
        assert!(bed.pool.checkpoint().is_err());
    }
}

#[test]
fn many_failed_writes_keep_their_good_copies() {
    let (bed, faults) = bed(64);
    bed.create_many(40);
    (0..40).for_each(|no| bed.update(no, 9).unwrap());
    faults.schedule(Fault::nth(FaultOp::Write, 1).on(TABLE).sticky());
    // More than the double-write file has slots: the pages reuse theirs or new ones, and it does
    // not run over.
    for _ in 0..20 {
        assert!(bed.pool.flush_all().is_err());
    }
    faults.clear();
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.pool.stats().dirty, 0);
}

/// The double-write file came to an area whose slots were all kept for one table, and went no
/// further: no page of any table could be written.
#[test]
fn a_table_that_cannot_be_written_keeps_no_other_from_being_written() {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let areas_of_128_slots = |c| PoolConfig { doublewrite_bytes: 4 * 128 * PAGE as u64, ..c };
    let bed = Bed::on(Arc::new(faults.clone()), areas_of_128_slots, 400);
    bed.create_many(128);
    // The images of before will not do any more.
    bed.pool.checkpoint().unwrap();
    (0..128).for_each(|no| bed.update(no, 9).unwrap());
    faults.schedule(Fault::nth(FaultOp::Write, 1).on(TABLE).sticky());
    assert!(bed.pool.flush_all().is_err());
    let other = open_space(&bed.pool, &bed.disk, SpaceId(17));
    for no in 0..1_000 {
        create(&bed.pool, &other, no, u64::from(no)).unwrap();
        bed.pool.flush_space(&other).unwrap();
    }
    faults.clear();
    bed.pool.flush_all().unwrap();
    (0..128).for_each(|no| assert_eq!(bed.read(no).unwrap(), 9));
}

/// The last request counted. Behind a page that could not be written came a batch of good ones: the
/// space had no failed write, and the drop of its table was refused because of that page.
#[test]
fn a_write_has_failed_until_its_page_is_written() {
    let (bed, faults) = bed(200);
    bed.create_many(100);
    (0..100).for_each(|no| bed.update(no, 9).unwrap());
    assert!(!bed.space.has_failed_write());
    faults.schedule(Fault::nth(FaultOp::Write, 1).on(TABLE));
    assert!(bed.pool.flush_all().is_err());
    assert!(bed.pool.stats().dirty < 100 && bed.space.has_failed_write());
    bed.pool.flush_all().unwrap();
    assert!(!bed.space.has_failed_write());
}

/// The device of one table is gone, with nothing under way there. The next checkpoint synced the
/// file, although it had taken no write, and the failure of that stopped the whole database.
#[test]
fn a_file_that_took_no_write_is_not_synced() {
    let (bed, faults) = bed(64);
    bed.create_many(4);
    let checkpoint = bed.pool.checkpoint().unwrap();
    let other = open_space(&bed.pool, &bed.disk, SpaceId(17));
    bed.update(3, 9).unwrap();
    create(&bed.pool, &other, 0, 1).unwrap();
    for op in [FaultOp::Write, FaultOp::Sync] {
        faults.schedule(Fault::nth(op, 1).on(TABLE).sticky());
    }
    assert!(bed.pool.flush_all().is_err());
    assert_eq!(bed.pool.checkpoint().unwrap(), checkpoint, "the page holds it");
    bed.wal.check_poisoned().unwrap();
    bed.pool.flush_space(&other).unwrap();
    faults.clear();
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.pool.checkpoint().unwrap(), bed.wal.next_lsn());
    assert_eq!((bed.read(3).unwrap(), common::read(&bed.pool, &other, 0).unwrap()), (9, 1));
}

/// The error of the sync was taken for one of the batch, and the next batch went on.
#[test]
fn a_failed_sync_of_a_new_double_write_file_poisons() {
    for op in [FaultOp::Sync, FaultOp::SyncDir] {
        let (bed, faults) = bed(64);
        bed.create(0, 1).unwrap();
        // The log is durable, so that the sync is of the other file.
        bed.wal.flush_to(bed.wal.next_lsn()).unwrap();
        faults.schedule(Fault::nth(op, 1));
        assert!(bed.pool.flush_all().is_err());
        assert!(matches!(bed.wal.check_poisoned(), Err(Error::Poisoned(_))), "{op:?}");
    }
}
