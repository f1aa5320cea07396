//! Tables larger than the cache: pages are read again and again, and written to make room. Reads,
//! writes and syncs fail at some of these moments: a clear error, nothing is lost, and it goes on
//! once the disk works again.

use std::sync::Arc;

use holdfast::io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::script::{Act, Player, World, assert_clear, is_stopped, puts, world};
use crate::common::{self, copy, tight_on};

/// About 8 MB of rows.
fn loaded() -> (MemoryDisk, World) {
    let disk = MemoryDisk::new();
    let db = tight_on(&disk).create("test").unwrap();
    let mut player = Player::new(&db, World::new());
    player.play(&Act::LoadLong("a", 7_000)).unwrap();
    let world = player.world;
    db.close().unwrap();
    (disk, world)
}

/// Changes every part of the table, each change a transaction that dirties pages all over the
/// cache.
fn acts() -> Vec<Act> {
    let stripe = |version: u32| {
        (0..70u64).flat_map(move |i| puts(i * 100 + u64::from(version)..i * 100 + u64::from(version) + 1, version, 880))
    };
    (1..20).map(|version| Act::Commit("a", stripe(version).collect())).collect()
}

fn fail_at(left: &MemoryDisk, before: &World, fault: Fault) -> bool {
    let faults = FaultDisk::new(Arc::new(copy(left)));
    let db = tight_on(&faults).open("test").unwrap();
    faults.schedule(fault);
    let mut player = Player::new(&db, before.clone());
    let mut allowed = Vec::new();
    for act in acts() {
        let Err(error) = player.play(&act) else { continue };
        assert_clear(&error);
        if is_stopped(&db) {
            allowed.push(player.world.clone());
            act.apply(&mut player.world);
            break;
        }
        // What was there before is still to be seen, though it takes reads.
        faults.clear();
        assert!(world(&db).unwrap() == player.world, "something of a failed step is there");
        player.play(&act).unwrap();
    }
    allowed.push(player.world);
    drop(db);
    let fired = faults.fired() > 0;
    faults.clear();
    let db = tight_on(&faults).open("test").unwrap();
    assert!(allowed.contains(&world(&db).unwrap()), "something was lost");
    common::assert_sound(&db);
    fired
}

fn fail_some(fault: impl Fn(u64) -> Fault) {
    let (left, before) = loaded();
    let mut n = 1;
    while fail_at(&left, &before, fault(n)) {
        n += if common::exhaustive() { 1 } else { 1 + n / 2 };
    }
    assert!(n > 1, "that never happens");
}

#[test]
fn reads() {
    fail_some(|n| Fault::nth(FaultOp::Read, n));
}

#[test]
fn writes() {
    fail_some(|n| Fault::nth(FaultOp::Write, n));
    fail_some(|n| Fault::nth(FaultOp::Write, n).kind(FaultKind::Torn));
}

#[test]
fn syncs() {
    fail_some(|n| Fault::nth(FaultOp::Sync, n));
}

#[test]
fn no_room() {
    fail_some(|n| Fault::nth(FaultOp::Write, n).kind(FaultKind::Enospc).sticky());
}
