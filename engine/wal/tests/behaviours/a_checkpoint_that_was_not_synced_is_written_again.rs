//! The sync of a checkpoint fails, and its process ends: the slot is in the system's cache, or only
//! a part of it on the disk. The next process takes it for the newest one. It wrote the next slot
//! over the only one on the disk; if its sync failed, too, a power cut left no intact slot.

use std::sync::Arc;

use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common::*;

const GROUPS: u64 = 5;

/// Opens the log, while each sync of the checkpoint from the `nth` one on fails.
fn open_in_vain(crash: &Arc<CrashDisk>, nth: u64) {
    let faulty = Arc::new(FaultDisk::new(crash.clone()));
    faulty.schedule(Fault::nth(FaultOp::Sync, nth).on("checkpoint").sticky());
    assert!(recover(&faulty).is_err());
    assert!(faulty.fired() > 0);
}

#[test]
fn before_the_next_one_is() {
    for seed in 0..64 {
        for nth in 1..=3 {
            let crash = Arc::new(CrashDisk::new());
            let wal = create(&Arc::new(FaultDisk::new(crash.clone())));
            for n in 0..GROUPS {
                append_synced(&wal, &payload(n, 1_000));
            }
            drop(wal);
            open_in_vain(&crash, nth);
            open_in_vain(&crash, nth);
            let after = Arc::new(crash.reboot(seed));
            let found = recover(&after).map(|(_, found)| found.len() as u64);
            assert_eq!(found.map_err(|error| error.to_string()), Ok(GROUPS), "seed {seed}, sync {nth}");
        }
    }
}
