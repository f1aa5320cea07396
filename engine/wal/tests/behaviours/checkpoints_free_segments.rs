//! The checkpoint: what it stores, what it recycles, what it refuses.

use std::sync::Arc;

use holdfast_base::Lsn;
use holdfast_io::{Disk, MemoryDisk};
use holdfast_metrics::Metrics;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_wal::{Wal, WalConfig};

use crate::common::*;

#[test]
fn recovery_begins_at_the_checkpoint_with_its_payload() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    append_synced(&wal, b"one");
    let (start, _) = append_synced(&wal, b"two");
    wal.set_checkpoint(start, b"state of the floors above").unwrap();
    assert_eq!(wal.checkpoint_lsn(), start);
    drop(wal);
    let (_, mut recovery) = open(&disk).unwrap();
    assert_eq!(recovery.checkpoint_lsn(), start);
    assert_eq!(recovery.checkpoint_payload(), b"state of the floors above");
    assert_eq!(recovery.next().unwrap().unwrap().payload, b"two");
    assert!(recovery.next().unwrap().is_none());
    recovery.finish().unwrap();
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.checkpoint_payload(), b"state of the floors above", "finishing keeps it");
}

#[test]
fn a_checkpoint_flushes_the_log_first() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let (_, end) = wal.append(b"not flushed").unwrap();
    wal.set_checkpoint(end, b"").unwrap();
    assert!(wal.durable_lsn() >= end);
}

#[test]
fn unreasonable_checkpoints_are_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let (start, end) = append_synced(&wal, b"one");
    wal.set_checkpoint(end, b"").unwrap();
    assert!(wal.set_checkpoint(start, b"").is_err(), "back");
    assert!(wal.set_checkpoint(end.advance(32), b"").is_err(), "beyond the end");
    assert!(wal.set_checkpoint(end, &[0; 2049]).is_err(), "payload");
    append_synced(&wal, b"two");
    assert!(wal.set_checkpoint(end.advance(8), b"").is_err(), "within a group");
    wal.set_checkpoint(end, &[1; 2048]).unwrap();
}

#[test]
fn the_files_go_round() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    for i in 0..2000 {
        append_synced(&wal, &payload(i, 9000));
        if i % 20 == 19 {
            wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
        }
        assert!(disk.list().unwrap().len() <= 8);
    }
    assert!(wal.next_lsn().0 > FIRST + 60 * SEGMENT);
    let names = disk.list().unwrap();
    assert!(names.contains(&format!("wal.{:06}", (wal.next_lsn().0 - FIRST) / SEGMENT + 1)), "{names:?}");
    drop(wal);
    let (wal, groups) = recover(&disk).unwrap();
    assert!(groups.is_empty());
    append_synced(&wal, b"on");
    assert_eq!(read(&disk).unwrap().0.len(), 1);
}

#[test]
fn a_checkpoint_at_the_very_end_of_a_segment_can_be_opened() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    // Groups of 4096 bytes fill a segment of 63 * 4096 exactly.
    for i in 0..63 {
        append_synced(&wal, &payload(i, 4096 - 32));
    }
    assert_eq!(wal.next_lsn(), Lsn(FIRST + SEGMENT));
    wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
    drop(wal);
    let (wal, groups) = recover(&disk).unwrap();
    assert!(groups.is_empty());
    append_synced(&wal, b"in the next one");
    drop(wal);
    assert_eq!(recover(&disk).unwrap().1.len(), 1);
}

/// That a file of the log could not be removed was taken for a checkpoint that could not be moved:
/// statements that waited for room failed with that error, although there was room.
#[test]
fn a_file_that_cannot_be_removed_is_removed_later() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    for i in 0..60 {
        append_synced(&wal, &payload(i, 9000));
    }
    // Files of the size of now are of no use any more once the checkpoint has passed them.
    wal.set_capacity(8 << 20).unwrap();
    disk.schedule(Fault::nth(FaultOp::Remove, 1).sticky());
    wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
    assert!(disk.fired() > 0 && disk.list().unwrap().contains(&"wal.000001".to_owned()));
    drop(wal);
    let config = WalConfig { capacity_bytes: 8 << 20, ..small() };
    let (wal, mut recovery) = Wal::open(disk.clone(), UUID, config, Metrics::new()).unwrap();
    assert!(recovery.next().unwrap().is_none());
    recovery.finish().unwrap();
    assert!(disk.list().unwrap().contains(&"wal.000001".to_owned()));
    disk.clear();
    wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
    assert!(!disk.list().unwrap().contains(&"wal.000001".to_owned()));
}
