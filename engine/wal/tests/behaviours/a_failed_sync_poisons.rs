//! After a failed write or sync of the log nothing succeeds any more, and every waiter gets the
//! error.

use std::sync::Arc;
use std::thread;

use holdfast_base::Error;
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_wal::SpaceClass;

use crate::common::*;

fn faulty() -> (Arc<FaultDisk>, Arc<holdfast_wal::Wal>) {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    (disk, wal)
}

fn assert_poisoned<T: std::fmt::Debug>(result: Result<T, Error>, why: &str) {
    match result {
        Err(Error::Poisoned(reason)) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_sync_hides_behind_no_later_success() {
    let (disk, wal) = faulty();
    let (_, durable) = append_synced(&wal, b"one");
    let (_, end) = wal.append(b"two").unwrap();
    disk.schedule(Fault::nth(FaultOp::Sync, 1));
    assert_poisoned(wal.flush_to(end), "could not be synced");
    assert_poisoned(wal.flush_to(end), "could not be synced");
    assert_poisoned(wal.flush_to(durable), "could not be synced");
    assert_poisoned(wal.write_to(end), "could not be synced");
    assert_poisoned(wal.append(b"three"), "could not be synced");
    assert_poisoned(wal.reserve(100, SpaceClass::Checkpoint), "could not be synced");
    assert_poisoned(wal.set_checkpoint(end, b""), "could not be synced");
    assert_eq!(wal.durable_lsn(), durable);
}

#[test]
fn a_failed_write_poisons() {
    let (disk, wal) = faulty();
    let (_, end) = wal.append(b"one").unwrap();
    disk.schedule(Fault::nth(FaultOp::Write, 1));
    assert!(wal.flush_to(end).is_err());
    assert_poisoned(wal.check_poisoned(), "could not be written");
}

#[test]
fn a_failed_sync_of_the_checkpoint_poisons() {
    let (disk, wal) = faulty();
    let (_, end) = append_synced(&wal, b"one");
    disk.schedule(Fault::nth(FaultOp::Sync, 1).on("checkpoint"));
    assert!(wal.set_checkpoint(end, b"").is_err());
    assert_poisoned(wal.check_poisoned(), "checkpoint could not be synced");
}

/// The file was tried again, and a later sync of it passed for one of everything.
#[test]
fn a_failed_sync_of_a_new_segment_poisons() {
    for op in [FaultOp::Sync, FaultOp::SyncDir] {
        let (disk, wal) = faulty();
        disk.schedule(Fault::nth(op, 1));
        assert!(wal.reserve(wal.user_limit(), SpaceClass::User).is_err());
        assert_poisoned(wal.check_poisoned(), "could not be synced");
    }
}

#[test]
fn whoever_waits_for_durability_is_told() {
    let (disk, wal) = faulty();
    disk.schedule(Fault::nth(FaultOp::Sync, 3).sticky());
    let failed = thread::scope(|s| {
        let commit = || {
            for i in 0..1000 {
                let (_, end) = wal.append(&payload(i, 50)).ok()?;
                wal.flush_to(end).ok()?;
            }
            Some(())
        };
        let threads: Vec<_> = (0..6).map(|_| s.spawn(commit)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).filter(Option::is_none).count()
    });
    assert_eq!(failed, 6);
}

#[test]
fn whoever_waits_for_space_is_told() {
    let (_disk, wal) = faulty();
    let all = wal.reserve(wal.user_limit(), SpaceClass::User).unwrap();
    thread::scope(|s| {
        let waiter = s.spawn(|| wal.reserve(1000, SpaceClass::User));
        wal.shared_poison().set("something else broke");
        assert_poisoned(waiter.join().unwrap(), "something else broke");
    });
    drop(all);
}
