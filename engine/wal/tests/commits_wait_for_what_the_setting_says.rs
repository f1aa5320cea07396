//! `flush_log_at_trx_commit`: 1 waits for durability, 2 for the system, 0 for nothing; close leaves
//! all durable.

mod common;

use std::sync::Arc;

use common::*;
use holdfast_io::MemoryDisk;
use holdfast_metrics::Metrics;
use holdfast_wal::{FlushAtCommit, Wal, WalConfig};

#[test]
fn each_mode_waits_for_its_own() {
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let (_, end) = wal.append(b"one").unwrap();
    wal.commit_to(end).unwrap();
    assert!(wal.durable_lsn() >= end);
    wal.set_flush_at_commit(FlushAtCommit::Write);
    let (_, end) = wal.append(b"two").unwrap();
    wal.commit_to(end).unwrap();
    assert!(wal.written_lsn() >= end);
    wal.set_flush_at_commit(FlushAtCommit::Lazy);
    let (_, end) = wal.append(b"three").unwrap();
    wal.commit_to(end).unwrap();
    assert_eq!(wal.flush_at_commit(), FlushAtCommit::Lazy);
    wal.close().unwrap();
    assert!(wal.durable_lsn() >= end);
}

#[test]
fn lazy_commits_become_durable_by_themselves() {
    let disk = Arc::new(MemoryDisk::new());
    let config = WalConfig { flush: FlushAtCommit::Lazy, ..small() };
    let wal = Wal::create(disk, UUID, config, Metrics::new()).unwrap();
    let (_, end) = wal.append(b"one").unwrap();
    wal.commit_to(end).unwrap();
    while wal.durable_lsn() < end {
        std::thread::yield_now();
    }
}

#[test]
fn dropping_a_lazy_log_ends_its_thread() {
    let disk = Arc::new(MemoryDisk::new());
    let config = WalConfig { flush: FlushAtCommit::Write, ..small() };
    let wal = Wal::create(disk.clone(), UUID, config, Metrics::new()).unwrap();
    let weak = Arc::downgrade(&wal);
    drop(wal);
    while weak.upgrade().is_some() {
        std::thread::yield_now();
    }
}
