//! After a close the next open has no log to apply; after a crash it has, says how far it is, and
//! applies it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common;

fn applied_at_open(disk: &CrashDisk) -> u64 {
    let applied = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&applied);
    let builder = common::small().disk(Arc::new(disk.clone())).on_recovery_progress(move |p| {
        assert!(p.log_bytes_done <= p.log_bytes_total);
        seen.store(p.log_bytes_done, Ordering::Relaxed);
    });
    let db = builder.open("test").unwrap();
    common::assert_filled(&db, 0, 2_000);
    applied.load(Ordering::Relaxed)
}

#[test]
fn closed_and_dropped_and_cut_off() {
    let (disk, db) = common::on_crash_disk();
    common::fill(&db, 0, 2_000);
    let cut = disk.reboot(7);
    assert!(applied_at_open(&cut) > 100_000);

    let (disk, db) = common::on_crash_disk();
    common::fill(&db, 0, 2_000);
    db.close().unwrap();
    let closed = applied_at_open(&disk);
    assert!(closed < 4_096, "{closed} bytes");

    let (disk, db) = common::on_crash_disk();
    common::fill(&db, 0, 2_000);
    drop(db);
    let dropped = applied_at_open(&disk);
    assert!(dropped < 4_096, "{dropped} bytes");
}

/// The list of the hot pages is a hint. That it could not be saved failed the close, which then
/// wrote no page and took no checkpoint.
#[test]
fn whether_or_not_the_hot_pages_can_be_saved() {
    for op in [FaultOp::Open, FaultOp::Write, FaultOp::Sync, FaultOp::Rename] {
        let disk = CrashDisk::new();
        let faults = FaultDisk::new(Arc::new(disk.clone()));
        let db = common::create_on(&faults);
        common::fill(&db, 0, 2_000);
        faults.schedule(Fault::nth(op, 1).on("warmup.new").sticky());
        db.close().unwrap();
        assert!(faults.fired() > 0);
        let closed = applied_at_open(&disk);
        assert!(closed < 4_096, "{op:?}: {closed} bytes");
    }
}
