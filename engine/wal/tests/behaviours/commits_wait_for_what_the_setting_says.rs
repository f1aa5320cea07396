//! What a commit waits for: durability, the system, or nothing. What is not durable when it returns
//! is so a while later, and when the log is closed.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::Lsn;
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};
use holdfast_wal::{FlushAtCommit, Wal};

use crate::common::*;

fn commit(wal: &Arc<Wal>, durability: FlushAtCommit) -> Lsn {
    let (_, end) = wal.append(b"a commit").unwrap();
    wal.commit_to(end, durability).unwrap();
    end
}

fn wait_until_durable(wal: &Wal, lsn: Lsn) {
    while wal.durable_lsn() < lsn {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_waits_for_its_own() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let end = commit(&wal, FlushAtCommit::Sync);
    assert!(wal.durable_lsn() >= end);
    let end = commit(&wal, FlushAtCommit::Write);
    assert!(wal.written_lsn() >= end);
    let end = commit(&wal, FlushAtCommit::Lazy);
    wal.close().unwrap();
    assert!(wal.durable_lsn() >= end);
}

/// Only a log that was opened for such commits had a thread that flushed it. In a server, where
/// each commit says what it waits for, what was committed with `flush_log_at_trx_commit` 0 or 2
/// became durable with the next commit that waited, if there was one.
#[test]
fn one_that_does_not_wait_becomes_durable_by_itself() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    for durability in [FlushAtCommit::Write, FlushAtCommit::Lazy] {
        let end = commit(&wal, durability);
        wait_until_durable(&wal, end);
    }
}

#[test]
fn a_full_disk_is_tried_again() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    disk.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Enospc));
    let end = commit(&wal, FlushAtCommit::Lazy);
    wait_until_durable(&wal, end);
    assert_eq!(disk.fired(), 1);
}

#[test]
fn dropping_a_log_ends_its_thread() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    commit(&wal, FlushAtCommit::Write);
    let weak = Arc::downgrade(&wal);
    drop(wal);
    while weak.upgrade().is_some() {
        std::thread::yield_now();
    }
}
