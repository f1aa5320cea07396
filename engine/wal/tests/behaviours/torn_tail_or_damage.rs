//! A bad place is the torn tail of the last writes, unless something proves that it was durable.

use std::sync::Arc;

use holdfast_base::Lsn;
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_wal::{EndReason, Wal, WalConfig};

use crate::common::*;

/// A log of `n` groups, each flushed by itself; not closed.
fn flushed_one_by_one(n: u64) -> (Arc<MemoryDisk>, Vec<(Lsn, Lsn)>) {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let ranges = (0..n).map(|i| append_synced(&wal, &payload(i, 70))).collect();
    (disk, ranges)
}

#[test]
fn every_flipped_bit_below_a_later_stamp_is_damage() {
    let (disk, ranges) = flushed_one_by_one(4);
    // The very last group is the undecidable one; the stamp of the last proves all before it.
    for lsn in (ranges[0].0.0..ranges[3].0.0).map(Lsn) {
        let (name, offset) = place(lsn);
        for bit in 0..8 {
            patch(disk.as_ref(), &name, offset, 1, |b| b[0] ^= 1 << bit);
            let err = read(&disk).expect_err("a flipped bit");
            assert!(err.is_damage(), "bit {bit} at {lsn}: {err}");
            assert!(open(&disk).unwrap_err().is_damage());
            patch(disk.as_ref(), &name, offset, 1, |b| b[0] ^= 1 << bit);
        }
    }
    assert_eq!(read(&disk).unwrap().0.len(), 4);
}

#[test]
fn a_flipped_bit_in_the_very_last_flush_is_a_torn_tail() {
    let (disk, ranges) = flushed_one_by_one(4);
    for lsn in (ranges[3].0.0..ranges[3].1.0).map(Lsn) {
        let (name, offset) = place(lsn);
        patch(disk.as_ref(), &name, offset, 1, |b| b[0] ^= 4);
        let (groups, end) = read(&disk).unwrap();
        assert_eq!((groups.len(), end.lsn), (3, ranges[3].0), "at {lsn}");
        patch(disk.as_ref(), &name, offset, 1, |b| b[0] ^= 4);
    }
}

#[test]
fn after_a_clean_close_even_the_last_flush_is_known() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let (start, _) = append_synced(&wal, b"the only one");
    wal.close().unwrap();
    let (name, offset) = place(start);
    patch(disk.as_ref(), &name, offset + 40, 1, |b| b[0] ^= 1);
    let err = open(&disk).unwrap_err();
    assert!(err.is_damage() && err.to_string().contains("durable up to"), "{err}");
}

/// After a clean close no open searches behind the end, so it takes the same time whatever the
/// capacity.
#[test]
fn after_a_clean_close_nothing_is_looked_for_behind_the_end() {
    let disk = Arc::new(MemoryDisk::new());
    // Segments that are larger than what is read at a time.
    let config = WalConfig { capacity_bytes: 64 << 20, ..small() };
    let wal = Wal::create(disk.clone(), UUID, config, Metrics::new()).unwrap();
    let (_, end) = append_synced(&wal, b"the last one");
    wal.close().unwrap();
    let faults = Arc::new(FaultDisk::new(disk));
    // The second read of each would be that of its log; the first is that of its header.
    for number in 2..=5 {
        faults.schedule(Fault::nth(FaultOp::Read, 2).on(format!("wal.{number:06}")).sticky());
    }
    let (groups, found) = read(&faults).unwrap();
    assert_eq!((groups.len(), found.lsn), (1, end));
}

/// The proof of a clean close holds until the next open.
#[test]
fn in_the_life_after_a_clean_close_damage_is_found_again() {
    let disk = Arc::new(MemoryDisk::new());
    create(&disk).close().unwrap();
    let (wal, _) = recover(&disk).unwrap();
    let (torn, _) = append_synced(&wal, b"torn");
    append_synced(&wal, b"a proof that it was durable");
    drop(wal);
    let (name, offset) = place(torn);
    patch(disk.as_ref(), &name, offset + 33, 1, |b| b[0] ^= 1);
    assert!(open(&disk).unwrap_err().is_damage());
}

#[test]
fn later_groups_without_a_later_stamp_prove_nothing() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    append_synced(&wal, b"durable");
    let (torn, _) = wal.append(b"torn").unwrap();
    wal.append(b"complete").unwrap();
    wal.write_to(wal.next_lsn()).unwrap();
    drop(wal);
    let (name, offset) = place(torn);
    patch(disk.as_ref(), &name, offset + 33, 1, |b| b[0] ^= 1);
    let (groups, end) = read(&disk).unwrap();
    assert_eq!(groups, [b"durable".to_vec()]);
    assert_eq!((end.lsn, end.reason), (torn, EndReason::Torn));
    let (_, groups) = recover(&disk).unwrap();
    assert_eq!(groups.len(), 1);
}

#[test]
fn an_erased_stretch_is_found_by_what_follows() {
    let (disk, ranges) = flushed_one_by_one(4000);
    assert!(ranges[3999].0.0 > FIRST + SEGMENT, "the proof lies in the next segment");
    let (name, offset) = place(ranges[5].0);
    patch(disk.as_ref(), &name, offset, (SEGMENT + 4096 - offset) as usize, |b| b.fill(0));
    let err = read(&disk).unwrap_err();
    assert!(err.to_string().contains("says that all below"), "{err}");
}

#[test]
fn a_missing_or_broken_segment_is_damage() {
    let fresh = || {
        let disk = Arc::new(MemoryDisk::new());
        let wal = create(&disk);
        for i in 0..100 {
            append_synced(&wal, &payload(i, 8000));
        }
        disk
    };
    for number in 1..=3 {
        let name = format!("wal.{number:06}");
        let disk = fresh();
        disk.remove(&name).unwrap();
        assert!(open(&disk).unwrap_err().is_damage(), "{name} removed");
        let disk = fresh();
        patch(disk.as_ref(), &name, 20, 1, |b| b[0] ^= 1);
        assert!(open(&disk).unwrap_err().is_damage(), "header of {name} broken");
        let disk = fresh();
        disk.open(&name, OpenOptions::new(FileKind::Log)).unwrap().set_len(9000).unwrap();
        assert!(open(&disk).unwrap_err().is_damage(), "{name} cut off");
    }
    let disk = fresh();
    disk.remove("checkpoint").unwrap();
    assert!(open(&disk).is_err());
}

#[test]
fn an_unused_segment_may_be_broken() {
    // The power was cut while the segment was being prepared.
    let (disk, _) = flushed_one_by_one(3);
    patch(disk.as_ref(), "wal.000003", 0, 4096, |b| b.fill(0x55));
    disk.remove("wal.000005").unwrap();
    let (wal, groups) = recover(&disk).unwrap();
    assert_eq!(groups.len(), 3);
    for i in 0..100 {
        append_synced(&wal, &payload(i, 8000));
    }
    drop(wal);
    assert_eq!(recover(&disk).unwrap().1.len(), 103);
}

#[test]
fn bytes_of_a_user_do_not_pass_for_log() {
    // A payload that contains a whole intact group of another database, at the LSN at which it is
    // stored here.
    let other = Arc::new(MemoryDisk::new());
    let config = small();
    let metrics = holdfast_metrics::Metrics::new();
    let wal = holdfast_wal::Wal::create(other.clone(), [3; 16], config, metrics).unwrap();
    append_synced(&wal, &[0; 32]);
    append_synced(&wal, b"forged");
    append_synced(&wal, b"forged, with a stamp");
    let mut forged = vec![0; 128];
    let file = other.open("wal.000001", OpenOptions::new(FileKind::Log)).unwrap();
    file.read_at(4096 + 64, &mut forged).unwrap();

    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    wal.append(&[0; 32]).unwrap();
    wal.write_to(wal.next_lsn()).unwrap();
    drop(wal);
    patch(disk.as_ref(), "wal.000001", 4096 + 64, 128, |b| b.copy_from_slice(&forged));
    patch(disk.as_ref(), "wal.000001", 4096 + 33, 1, |b| b[0] = 9);
    let (groups, end) = read(&disk).unwrap();
    assert_eq!((groups.len(), end.lsn), (0, Lsn(FIRST)));
}
