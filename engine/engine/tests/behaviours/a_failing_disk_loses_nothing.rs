//! The n-th read, write, sync or other call to the disk fails, for every n of a script that touches
//! everything: a clear error or none, never a panic. What was acknowledged is there afterwards, and
//! nothing else is; after a failed sync nothing is acknowledged any more until the database is
//! opened again. Every other failure is followed by a power cut, the rest by a restart of the
//! process; `HOLDFAST_EXHAUSTIVE=1` does both for each.

use std::sync::Arc;

use holdfast::io::Disk;
use holdfast::{Database, Error};
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::script::{Act, Player, World, assert_clear, is_stopped, script, world};
use crate::common::{self, tight_on};

/// Plays the script, repeating a step that failed once the disk is whole again. Returns the states
/// that the database may be in.
fn play(db: &Database, faults: &FaultDisk) -> Vec<World> {
    let mut player = Player::new(db, World::new());
    for act in script() {
        let Err(error) = player.play(&act) else { continue };
        assert_clear(&error);
        if is_stopped(db) {
            return stopped(db, player.world, &act);
        }
        assert!(world(db).unwrap() == player.world, "{act:?} failed ({error}), and yet something of it is there");
        faults.clear();
        player.play(&act).unwrap_or_else(|error| panic!("{act:?} fails again: {error}"));
    }
    vec![player.world]
}

/// Nothing is acknowledged any more. Only a reopen can tell whether the last step has happened.
fn stopped(db: &Database, before: World, last: &Act) -> Vec<World> {
    for result in [db.checkpoint(), db.begin_read().map(drop), db.create_table(&common::script::table("no"))] {
        assert!(matches!(result, Err(Error::Poisoned(_))), "{result:?}");
    }
    let mut after = before.clone();
    last.apply(&mut after);
    vec![before, after]
}

/// The database, opened, is in one of these states, and sound.
fn check(disk: &(impl Disk + Clone + 'static), allowed: &[World]) {
    let db = tight_on(disk).open("test").unwrap();
    let found = world(&db).unwrap();
    assert!(allowed.contains(&found), "something was lost");
    common::assert_sound(&db);
    db.close().unwrap();
}

/// Lets a fault happen at the n-th operation of its kind, for every n.
fn fail_each(fault: impl Fn(u64) -> Fault) {
    for n in 1u64.. {
        let mut fired = false;
        for power_cut in [false, true] {
            if common::exhaustive() || power_cut == n.is_multiple_of(2) {
                fired |= fail_at(fault(n), n, power_cut);
            }
        }
        if !fired {
            assert!(n > 1, "the script never does this");
            return;
        }
    }
}

/// Fails one operation; then looks at what a power cut leaves, or at what a restart of the process
/// finds. Returns whether there was such an operation.
fn fail_at(fault: Fault, n: u64, power_cut: bool) -> bool {
    let crash = CrashDisk::new();
    let faults = FaultDisk::new(Arc::new(crash.clone()));
    drop(tight_on(&faults).create("test").unwrap());
    faults.schedule(fault);
    let allowed = match tight_on(&faults).open("test") {
        Ok(db) => {
            let allowed = play(&db, &faults);
            if n % 4 < 2
                && let Err(error) = db.close()
            {
                assert_clear(&error);
            }
            allowed
        }
        Err(error) => {
            assert_clear(&error);
            vec![World::new()]
        }
    };
    faults.clear();
    if power_cut {
        check(&crash.reboot(n), &allowed)
    } else {
        check(&faults, &allowed)
    }
    faults.fired() > 0
}

fn eio(op: FaultOp) {
    fail_each(|n| Fault::nth(op, n));
}

#[test]
fn reads() {
    eio(FaultOp::Read);
}

#[test]
fn writes() {
    eio(FaultOp::Write);
}

#[test]
fn writes_that_are_torn() {
    fail_each(|n| Fault::nth(FaultOp::Write, n).kind(FaultKind::Torn));
}

#[test]
fn syncs() {
    eio(FaultOp::Sync);
}

#[test]
fn changes_of_files_and_names() {
    [FaultOp::SetLen, FaultOp::Open, FaultOp::Rename, FaultOp::Remove, FaultOp::SyncDir].into_iter().for_each(eio);
}

/// From some moment on there is no room, until a step has failed: for longer files, for new ones,
/// for any write.
#[test]
fn no_room() {
    for op in [FaultOp::SetLen, FaultOp::Open, FaultOp::Write] {
        fail_each(|n| Fault::nth(op, n).kind(FaultKind::Enospc).sticky());
    }
}
