//! A process ends while it prepares a segment: the file is there, with its header, in the system's
//! cache. The next process takes it for a part of the log. A power cut took the file's name, or its
//! header, and all commits in it.

use std::sync::Arc;

use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::*;

/// Appends groups of 10,000 bytes until that fails; how many.
fn append_all(wal: &holdfast_wal::Wal) -> u64 {
    let mut groups = 0;
    while wal.append(&payload(groups, 10_000)).is_ok() {
        groups += 1;
        wal.flush_to(wal.next_lsn()).unwrap();
    }
    groups
}

/// The last segment that was prepared is not durable when its process ends because of `fault`.
fn check(fault: Fault, lose: bool) {
    for seed in 0..8 {
        let crash = Arc::new(CrashDisk::new());
        let faulty = Arc::new(FaultDisk::new(crash.clone()));
        let wal = create(&faulty);
        faulty.schedule(fault.clone());
        let groups = append_all(&wal);
        assert_eq!(faulty.fired(), 1);
        drop(wal);
        if lose {
            crash.lose_unsynced("wal.000006");
        }
        // The next one has no room for more segments.
        let full = Arc::new(FaultDisk::new(crash.clone()));
        full.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).sticky());
        let (wal, found) = recover(&full).unwrap();
        assert_eq!(found.len() as u64, groups);
        // More than is left of the segment before it.
        for n in groups..groups + 10 {
            append_synced(&wal, &payload(n, 10_000));
        }
        drop(wal);
        let (_, found) = recover(&Arc::new(crash.reboot(seed))).unwrap();
        assert_eq!(found.len() as u64, groups + 10, "seed {seed}");
    }
}

#[test]
fn with_its_name() {
    check(Fault::nth(FaultOp::SyncDir, 1), false);
}

#[test]
fn with_its_header() {
    check(Fault::nth(FaultOp::Sync, 1).on("wal.000006"), true);
}
