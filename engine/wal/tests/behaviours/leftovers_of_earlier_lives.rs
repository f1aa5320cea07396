//! Intact groups that an earlier life left behind the end of the log are never read as log.

use std::sync::Arc;

use holdfast_base::Lsn;
use holdfast_io::{Disk, MemoryDisk};
use holdfast_wal::EndReason;

use crate::common::*;

/// A log with a torn group of 64 bytes and, behind it, an intact group of life 1.
fn with_leftover() -> (Arc<MemoryDisk>, Lsn, Lsn) {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    append_synced(&wal, b"first life");
    let (torn, leftover) = wal.append(b"torn").unwrap();
    wal.append(b"leftover").unwrap();
    wal.write_to(wal.next_lsn()).unwrap();
    drop(wal);
    let (name, offset) = place(torn);
    patch(disk.as_ref(), &name, offset + 32, 1, |b| b[0] ^= 1);
    (disk, torn, leftover)
}

#[test]
fn a_new_group_that_ends_where_a_leftover_begins_is_the_end() {
    let (disk, torn, leftover) = with_leftover();
    let (wal, _) = recover(&disk).unwrap();
    assert_eq!(append_synced(&wal, b"next"), (torn, leftover));
    drop(wal);
    let (groups, end) = read(&disk).unwrap();
    assert_eq!(groups, [b"first life".to_vec(), b"next".to_vec()]);
    assert_eq!((end.lsn, end.reason), (leftover, EndReason::EarlierEpoch));
    let (wal, groups) = recover(&disk).unwrap();
    assert_eq!(groups.len(), 2);
    assert_eq!(wal.next_lsn(), leftover);
}

#[test]
fn a_checkpoint_right_in_front_of_a_leftover_does_not_revive_it() {
    let (disk, _, leftover) = with_leftover();
    let (wal, _) = recover(&disk).unwrap();
    append_synced(&wal, b"next");
    wal.set_checkpoint(leftover, b"here").unwrap();
    drop(wal);
    for _ in 0..3 {
        let (wal, groups) = recover(&disk).unwrap();
        assert!(groups.is_empty(), "{groups:?}");
        assert_eq!((wal.next_lsn(), wal.checkpoint_lsn()), (leftover, leftover));
    }
}

#[test]
fn a_checkpoint_at_the_end_of_an_earlier_life_keeps_its_groups() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    append_synced(&wal, b"one");
    let (second, _) = append_synced(&wal, b"two");
    drop(wal);
    let (wal, _) = recover(&disk).unwrap();
    append_synced(&wal, b"three");
    wal.set_checkpoint(second, b"").unwrap();
    drop(wal);
    assert_eq!(recover(&disk).unwrap().1, [b"two".to_vec(), b"three".to_vec()]);
}

#[test]
fn the_epoch_survives_the_loss_of_either_slot() {
    for slot in 0..2 {
        let disk = Arc::new(MemoryDisk::new());
        drop(create(&disk));
        let (wal, _) = recover(&disk).unwrap();
        append_synced(&wal, b"second life");
        drop(wal);
        patch(disk.as_ref() as &dyn Disk, "checkpoint", slot * 4096 + 50, 1, |b| b[0] ^= 1);
        let (wal, groups) = recover(&disk).unwrap();
        assert_eq!(groups, [b"second life".to_vec()]);
        assert_eq!(wal.epoch(), 3);
    }
}

#[test]
fn a_group_of_an_epoch_that_the_checkpoint_does_not_know_is_damage() {
    let disk = Arc::new(MemoryDisk::new());
    drop(create(&disk));
    let mut old = vec![0; 8192];
    patch(disk.as_ref(), "checkpoint", 0, 8192, |b| old.copy_from_slice(b));
    let (wal, _) = recover(&disk).unwrap();
    append_synced(&wal, b"second life");
    drop(wal);
    // An old checkpoint file has been put back.
    patch(disk.as_ref(), "checkpoint", 0, 8192, |b| b.copy_from_slice(&old));
    assert!(open(&disk).unwrap_err().to_string().contains("epoch is 2"));
}
