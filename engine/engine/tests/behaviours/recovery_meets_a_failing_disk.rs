//! Recovery itself meets a disk that fails, at every operation it does: the open is refused with a
//! clear error, or it succeeds; a later one, when the disk works again, finds everything that was
//! acknowledged.

use std::sync::Arc;

use holdfast::io::MemoryDisk;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::script::{Player, World, assert_clear, script, world};
use crate::common::{self, copy, tight_on};

/// What a power cut leaves behind the script and a transaction that had not ended.
fn left_behind() -> (MemoryDisk, World) {
    let crash = CrashDisk::new();
    let db = tight_on(&crash).create("test").unwrap();
    let mut player = Player::new(&db, World::new());
    script().iter().for_each(|act| player.play(act).unwrap());
    let open = db.begin_write().unwrap();
    let rows = open.open_table(&common::script::table("a")).unwrap();
    for key in 0..60 {
        rows.upsert(key, &common::script::value(key, 50, 2_000)).unwrap();
    }
    db.transact(|txn| txn.open_table(&common::script::table("c"))?.delete(59).map(drop)).unwrap();
    player.world.get_mut("c").unwrap().remove(&59);
    let world = player.world;
    (copy(&crash.reboot(11)), world)
}

fn fail_each(op: FaultOp, kind: FaultKind) {
    let (left, expected) = left_behind();
    for n in 1u64.. {
        let faults = FaultDisk::new(Arc::new(copy(&left)));
        faults.schedule(Fault::nth(op, n).kind(kind));
        match tight_on(&faults).open("test") {
            Ok(db) => {
                if let Ok(found) = world(&db) {
                    assert!(found == expected, "{op:?} {n}: something is missing");
                }
                if n % 2 == 0 {
                    // The checkpoint that this takes must not give up what a failure kept recovery
                    // from doing.
                    let _ = db.close();
                }
            }
            Err(error) => assert_clear(&error),
        }
        let fired = faults.fired() > 0;
        faults.clear();
        let db = tight_on(&faults).open("test").unwrap();
        assert!(world(&db).unwrap() == expected, "{op:?} {n}: something was lost");
        common::assert_sound(&db);
        if !fired {
            break;
        }
    }
}

#[test]
fn reads() {
    fail_each(FaultOp::Read, FaultKind::Eio);
}

#[test]
fn writes() {
    fail_each(FaultOp::Write, FaultKind::Eio);
    fail_each(FaultOp::Write, FaultKind::Enospc);
}

#[test]
fn syncs() {
    fail_each(FaultOp::Sync, FaultKind::Eio);
}

/// A table's file that could not be opened for once was passed over by recovery, and what its log
/// records said was lost with the next checkpoint.
#[test]
fn opens_and_changes_of_files() {
    for op in [FaultOp::Open, FaultOp::SetLen, FaultOp::Rename, FaultOp::Remove, FaultOp::SyncDir] {
        fail_each(op, FaultKind::Eio);
        fail_each(op, FaultKind::Enospc);
    }
}
