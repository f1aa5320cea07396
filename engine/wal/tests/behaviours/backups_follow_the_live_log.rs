//! The tail follows the live log while segments are recycled, and its copy opens as a log.

use std::sync::Arc;
use std::thread;

use holdfast_base::Lsn;
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_wal::LogCopy;

use crate::common::*;

fn len_of(disk: &MemoryDisk, name: &str) -> u64 {
    disk.open(name, OpenOptions::new(FileKind::Log)).unwrap().len().unwrap()
}

#[test]
fn the_tail_returns_what_is_written_and_no_more() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    append_synced(&wal, b"one");
    let mut tail = wal.tail(Lsn(FIRST)).unwrap();
    assert_eq!(tail.next().unwrap().unwrap().payload, b"one");
    assert!(tail.next().unwrap().is_none());
    let (_, end) = wal.append(b"two").unwrap();
    assert!(tail.next().unwrap().is_none(), "only in the buffer");
    wal.write_to(end).unwrap();
    assert_eq!(tail.next().unwrap().unwrap().payload, b"two");
    assert_eq!(tail.position(), end);
    assert!(wal.tail(end.advance(32)).is_err());
}

#[test]
fn the_tail_keeps_its_segments_while_the_checkpoint_moves_on() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let mut tail = wal.tail(Lsn(FIRST)).unwrap();
    for i in 0..1000 {
        append_synced(&wal, &payload(i, 9000));
        if i % 50 == 49 {
            wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
        }
    }
    for i in 0..1000 {
        assert!(tail.next().unwrap().unwrap().payload == payload(i, 9000), "group {i}");
    }
    assert!(tail.next().unwrap().is_none());
    let held = disk.list().unwrap().len();
    drop(tail);
    wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
    assert!(disk.list().unwrap().len() < held);
    assert!(wal.tail(Lsn(FIRST)).is_err(), "that is gone now");
}

/// It kept them until the log was closed, and the files grew without bound.
#[test]
fn a_tail_that_is_refused_keeps_no_segments() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    assert!(wal.tail(wal.next_lsn().advance(32)).is_err());
    for i in 0..1000 {
        append_synced(&wal, &payload(i, 9000));
        if i % 50 == 49 {
            wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
        }
    }
    let bytes: u64 = disk.list().unwrap().iter().map(|name| len_of(&disk, name)).sum();
    assert!(bytes <= wal.capacity() + 8192, "{bytes} bytes of segments, and the checkpoint file");
}

#[test]
fn a_copy_made_under_load_opens_as_a_log() {
    let (disk, target) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryDisk::new()));
    drop(create(&disk));
    let (wal, _) = recover(&disk).unwrap();
    append_synced(&wal, b"before the backup");
    let start = wal.next_lsn();
    let mut tail = wal.tail(start).unwrap();
    let mut copy = LogCopy::create(target.clone(), UUID, &small(), start).unwrap();
    thread::scope(|s| {
        let writer = s.spawn(|| {
            for i in 0..300 {
                append_synced(&wal, &payload(i, 5000));
            }
        });
        while !writer.is_finished() || tail.position() < wal.written_lsn() {
            match tail.next().unwrap() {
                Some(group) => copy.push(&group).unwrap(),
                None => thread::yield_now(),
            }
        }
    });
    copy.finish(b"for the copy").unwrap();
    let (_, mut recovery) = open(&target).unwrap();
    assert_eq!(recovery.checkpoint_payload(), b"for the copy");
    assert_eq!(recovery.checkpoint_lsn(), start);
    for i in 0..300 {
        assert!(recovery.next().unwrap().unwrap().payload == payload(i, 5000));
    }
    assert!(recovery.next().unwrap().is_none());
    recovery.finish().unwrap();
    let (wal, groups) = recover(&target).unwrap();
    assert_eq!((groups.len(), wal.epoch()), (300, 4));
    append_synced(&wal, b"a life of its own");
}

#[test]
fn a_copy_takes_groups_in_order_only() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    append_synced(&wal, b"one");
    append_synced(&wal, b"two");
    let mut tail = wal.tail(Lsn(FIRST)).unwrap();
    let mut copy = LogCopy::create(Arc::new(MemoryDisk::new()), UUID, &small(), Lsn(FIRST)).unwrap();
    tail.next().unwrap();
    assert!(copy.push(&tail.next().unwrap().unwrap()).is_err());
}
