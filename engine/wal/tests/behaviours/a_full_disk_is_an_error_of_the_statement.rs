//! Without room for the next segment, the statement that needs it gets an error, nothing is lost,
//! and the log goes on once there is room.

use std::sync::Arc;

use holdfast_base::Error;
use holdfast_io::{Disk, MemoryDisk};
use holdfast_metrics::Metrics;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_wal::{SpaceClass, Wal, WalConfig};

use crate::common::*;

fn full(disk: &FaultDisk) {
    for op in [FaultOp::SetLen, FaultOp::Write] {
        disk.schedule(Fault::nth(op, 1).kind(FaultKind::Enospc).sticky());
    }
}

#[test]
fn a_ticket_is_refused_and_granted_when_there_is_room() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    for op in [FaultOp::SetLen, FaultOp::Write] {
        disk.clear();
        disk.schedule(Fault::nth(op, 1).kind(FaultKind::Enospc).sticky());
        let err = wal.reserve(2 * SEGMENT + 32, SpaceClass::User).unwrap_err();
        assert!(matches!(err, Error::DiskFull(_)), "{err}");
        wal.check_poisoned().unwrap();
    }
    disk.clear();
    drop(wal.reserve(2 * SEGMENT + 32, SpaceClass::User).unwrap());
    append_synced(&wal, b"it goes on");
    wal.close().unwrap();
    assert_eq!(read(&disk).unwrap().0.len(), 1);
}

#[test]
fn an_append_without_a_ticket_is_refused_before_it_takes_an_lsn() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    // Writing must go on in the prepared segments, so only lengths are refused.
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).sticky());
    let mut groups = 0;
    let err = loop {
        match wal.append(&payload(groups, 8000)) {
            Ok(_) => groups += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(err, Error::DiskFull(_)), "{err}");
    let next = wal.next_lsn();
    assert!(wal.append(&payload(groups, 8000)).is_err());
    assert_eq!(wal.next_lsn(), next);
    wal.flush_to(next).unwrap();
    assert_eq!(read(&disk).unwrap().0.len() as u64, groups);
    disk.clear();
    append_synced(&wal, &payload(groups, 8000));
    assert_eq!(read(&disk).unwrap().0.len() as u64, groups + 1);
}

#[test]
fn rollback_has_room_when_users_have_none() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    full(&disk);
    assert!(wal.reserve(2 * SEGMENT + 32, SpaceClass::User).is_err());
    // Two segments are kept for rollback and purge, a third one for the checkpoint.
    drop(wal.reserve(2 * SEGMENT, SpaceClass::User).unwrap());
    drop(wal.reserve(4 * SEGMENT, SpaceClass::Rollback).unwrap());
    assert!(wal.reserve(4 * SEGMENT + 32, SpaceClass::Rollback).is_err());
    drop(wal.reserve(5 * SEGMENT, SpaceClass::Checkpoint).unwrap());
}

/// A larger capacity was taken at once. What is kept of it was measured in its larger segments,
/// which were not prepared, so rollback and purge had no room any more.
#[test]
fn a_larger_log_is_refused_before_it_takes_the_room_of_rollback() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    append_synced(&wal, b"one");
    let (capacity, files) = (wal.capacity(), disk.list().unwrap());
    // Two segments of the new size are needed. The writes of one: its zeros and its header.
    let writes = (512 << 10) / (16 << 10) + 1;
    let faults = [1, 2].map(|nth| (FaultOp::SetLen, nth)).into_iter();
    for (op, nth) in faults.chain([1, writes, writes + 1, 2 * writes].map(|nth| (FaultOp::Write, nth))) {
        disk.schedule(Fault::nth(op, nth).kind(FaultKind::Enospc).sticky());
        assert!(matches!(wal.set_capacity(8 << 20), Err(Error::DiskFull(_))), "{op:?} {nth}");
        disk.clear();
        assert_eq!((wal.capacity(), disk.list().unwrap()), (capacity, files.clone()));
        full(&disk);
        drop(wal.reserve(4 * SEGMENT - 1000, SpaceClass::Rollback).unwrap());
        drop(wal.reserve(5 * SEGMENT - 1000, SpaceClass::Checkpoint).unwrap());
        disk.clear();
    }
    wal.set_capacity(8 << 20).unwrap();
    full(&disk);
    let larger = 2 * SEGMENT + 4096;
    drop(wal.reserve(larger, SpaceClass::User).unwrap());
    drop(wal.reserve(3 * larger, SpaceClass::Rollback).unwrap());
    drop(wal.reserve(4 * larger, SpaceClass::Checkpoint).unwrap());
    disk.clear();
    for i in 0..300 {
        append_synced(&wal, &payload(i, 8000));
    }
    drop(wal);
    assert_eq!(recover(&disk).unwrap().1.len(), 301);
}

/// A larger capacity given at open was taken at once, too.
#[test]
fn an_open_with_a_larger_log_leaves_rollback_its_room() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    drop(create(&disk));
    let open = || {
        let config = WalConfig { capacity_bytes: 64 << 20, ..small() };
        let (wal, mut recovery) = Wal::open(disk.clone(), UUID, config, Metrics::new()).unwrap();
        assert!(recovery.next().unwrap().is_none());
        recovery.finish().unwrap();
        wal
    };
    // The second one leaves a segment of the new size, as a crash does; the third one finds it.
    for prepared in [0, 1, 0] {
        disk.schedule(Fault::nth(FaultOp::SetLen, 1 + prepared).kind(FaultKind::Enospc).sticky());
        disk.schedule(Fault::nth(FaultOp::Remove, 1).sticky());
        let wal = open();
        assert_eq!(wal.capacity(), small().capacity_bytes);
        drop(wal.reserve(4 * SEGMENT, SpaceClass::Rollback).unwrap());
        drop(wal.reserve(5 * SEGMENT, SpaceClass::Checkpoint).unwrap());
        disk.clear();
    }
    assert_eq!(open().capacity(), 64 << 20);
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).sticky());
    let wal = open();
    assert_eq!(wal.capacity(), 64 << 20, "the room is there");
    drop(wal.reserve(3 * ((4 << 20) - 4096), SpaceClass::Rollback).unwrap());
}

#[test]
fn a_checkpoint_makes_room_without_new_files() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).sticky());
    let mut written = 0;
    for i in 0..400 {
        // Full again and again: the checkpoint recycles segments, which takes no room on the disk.
        match wal.try_reserve(8100, SpaceClass::User) {
            Ok(Some(ticket)) => {
                wal.append(&payload(i, 8000)).unwrap();
                written += 1;
                drop(ticket);
            }
            // It would wait for that.
            Ok(None) => wal.set_checkpoint(wal.next_lsn(), b"").unwrap(),
            Err(e) => panic!("{e}"),
        }
    }
    assert!(written > 300);
    wal.check_poisoned().unwrap();
}

#[test]
fn a_database_on_a_full_disk_can_be_opened() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    for i in 0..60 {
        append_synced(&wal, &payload(i, 8000));
    }
    drop(wal);
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).sticky());
    let (wal, groups) = recover(&disk).unwrap();
    assert_eq!(groups.len(), 60);
    assert!(wal.try_reserve(SEGMENT, SpaceClass::User).unwrap().is_none(), "a checkpoint would make room");
    disk.clear();
    drop(wal.reserve(SEGMENT, SpaceClass::User).unwrap());
}

#[test]
fn a_copy_on_write_disk_that_fills_up_keeps_the_log_in_the_buffer() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    append_synced(&wal, b"one");
    full(&disk);
    let (_, end) = wal.append(b"two").unwrap();
    for _ in 0..3 {
        assert!(matches!(wal.flush_to(end), Err(Error::DiskFull(_))));
        assert!(matches!(wal.write_to(end), Err(Error::DiskFull(_))));
    }
    wal.check_poisoned().unwrap();
    disk.clear();
    wal.flush_to(end).unwrap();
    assert_eq!(read(&disk).unwrap().0, [b"one".to_vec(), b"two".to_vec()]);
}
