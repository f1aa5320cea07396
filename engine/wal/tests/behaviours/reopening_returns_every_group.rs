//! What was appended and flushed comes back in order, over segment borders, laps of the buffer, and
//! several lives.

use std::sync::Arc;

use holdfast_base::{Error, Lsn};
use holdfast_io::MemoryDisk;
use holdfast_metrics::Metrics;
use holdfast_wal::{EndReason, LogReader, SpaceClass, Wal, WalConfig};

use crate::common::*;

#[test]
fn groups_come_back_after_every_stop() {
    let disk = Arc::new(MemoryDisk::new());
    let mut expected = Vec::new();
    let mut wal = create(&disk);
    for life in 0..4u64 {
        for i in 0..300 {
            // Sizes around the borders of words, groups, and the largest possible.
            let len = [8, 31, 32, 33, 100, 1000, 5000, wal.max_payload()][i as usize % 8];
            let bytes = payload(life * 1000 + i, if i < 280 { len.min(5000) } else { len });
            let (start, end) = wal.append(&bytes).unwrap();
            assert_eq!(end.since(start), Wal::group_bytes(bytes.len()));
            assert_eq!(start.0 % 32, 0);
            expected.push(bytes);
        }
        if life % 2 == 0 {
            wal.close().unwrap();
        } else {
            wal.flush_to(wal.next_lsn()).unwrap();
        }
        drop(wal);
        let (again, groups) = recover(&disk).unwrap();
        assert!(groups == expected, "life {life}: {} of {} groups", groups.len(), expected.len());
        assert_eq!(again.epoch() as u64, life + 2);
        wal = again;
    }
    assert!(wal.next_lsn().0 > FIRST + 2 * SEGMENT, "the test crosses segments");
}

#[test]
fn the_empty_log_has_no_groups() {
    let disk = Arc::new(MemoryDisk::new());
    drop(create(&disk));
    let (wal, groups) = recover(&disk).unwrap();
    assert!(groups.is_empty());
    assert_eq!(wal.next_lsn(), Lsn(FIRST));
    assert_eq!(wal.checkpoint_lsn(), Lsn(FIRST));
}

#[test]
fn what_was_not_written_is_gone_and_its_place_is_reused() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let (_, end) = append_synced(&wal, b"kept");
    let (lost, _) = wal.append(b"lost").unwrap();
    assert_eq!(end, lost);
    drop(wal);
    let (wal, groups) = recover(&disk).unwrap();
    assert_eq!(groups, [b"kept".to_vec()]);
    assert_eq!(append_synced(&wal, b"new").0, lost);
    assert_eq!(read(&disk).unwrap().0, [b"kept".to_vec(), b"new".to_vec()]);
}

#[test]
fn recovery_knows_how_far_it_is() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    for i in 0..10 {
        append_synced(&wal, &payload(i, 100));
    }
    let end = wal.next_lsn();
    drop(wal);
    let (wal, mut recovery) = open(&disk).unwrap();
    assert_eq!(recovery.end_lsn(), end);
    assert_eq!(recovery.end().reason, EndReason::Blank);
    assert_eq!(recovery.progress().total, end.0 - FIRST);
    let group = recovery.next().unwrap().unwrap();
    assert_eq!((group.start, group.epoch, group.stamp), (Lsn(FIRST), 1, Lsn(FIRST)));
    let end_of_first = group.end;
    assert_eq!(recovery.progress().done, end_of_first.0 - FIRST);
    // The pool may write pages that carry this LSN.
    wal.flush_to(end_of_first).unwrap();
    assert_eq!(wal.durable_lsn(), end_of_first);
    assert!(wal.append(b"too early").unwrap_err().to_string().contains("before recovery has finished"));
    assert!(wal.reserve(100, SpaceClass::User).is_err());
    assert!(recovery.finish().is_err(), "groups are left");
}

#[test]
fn wrong_places_are_refused() {
    let disk = Arc::new(MemoryDisk::new());
    assert!(matches!(open(&disk), Err(Error::NotADatabase(_))));
    drop(create(&disk));
    let again = Wal::create(disk.clone(), UUID, small(), Metrics::new());
    assert!(matches!(again, Err(Error::AlreadyExists(_))));
    let other = Wal::open(disk.clone(), [9; 16], small(), Metrics::new());
    assert!(matches!(other, Err(Error::DamagedFile { .. })));
    assert!(matches!(LogReader::open(disk.as_ref(), Some([9; 16])), Err(Error::DamagedFile { .. })));
    let pages = WalConfig { page_size: 8192, ..small() };
    let other = Wal::open(disk.clone(), UUID, pages, Metrics::new());
    assert!(matches!(other, Err(Error::DamagedFile { .. })));
    assert_eq!(LogReader::open(disk.as_ref(), None).unwrap().page_size(), 4096);
}

#[test]
fn a_group_beyond_the_limit_is_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let next = wal.next_lsn();
    assert!(matches!(wal.append(&vec![0; wal.max_payload() + 1]), Err(Error::LimitReached(_))));
    assert_eq!(wal.next_lsn(), next);
    append_synced(&wal, &vec![1; wal.max_payload()]);
}

#[test]
fn an_lsn_beyond_the_log_is_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let beyond = wal.next_lsn().advance(32);
    assert!(wal.flush_to(beyond).unwrap_err().is_damage());
    assert!(wal.write_to(beyond).unwrap_err().is_damage());
}

#[test]
fn a_closed_log_takes_nothing() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    wal.append(b"before").unwrap();
    wal.close().unwrap();
    wal.close().unwrap();
    assert!(matches!(wal.append(b"after"), Err(Error::Closed(_))));
    assert!(matches!(wal.reserve(32, SpaceClass::Rollback), Err(Error::Closed(_))));
    assert_eq!(read(&disk).unwrap().0, [b"before".to_vec()]);
}

#[test]
fn the_capacity_may_change_between_lives() {
    let disk = Arc::new(MemoryDisk::new());
    let mut expected = Vec::new();
    drop(create(&disk));
    for (life, capacity_bytes) in [(0, 8 << 20), (1, 4 << 20), (2, 16 << 20), (3, 4 << 20)] {
        let config = WalConfig { capacity_bytes, ..small() };
        let (wal, mut recovery) = Wal::open(disk.clone(), UUID, config, Metrics::new()).unwrap();
        let mut groups = Vec::new();
        while let Some(group) = recovery.next().unwrap() {
            groups.push(group.payload.to_vec());
        }
        recovery.finish().unwrap();
        assert_eq!(groups, expected);
        for i in 0..150 {
            expected.push(payload(life * 1000 + i, 8000));
            append_synced(&wal, expected.last().unwrap());
        }
        if life % 2 == 1 {
            wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
            expected.clear();
        }
        wal.close().unwrap();
    }
}
