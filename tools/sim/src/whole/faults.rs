//! What goes wrong with the disk.

use std::time::Duration;

use holdfast_base::thread;
use holdfast_testkit::{Fault, FaultKind, FaultOp};

use super::fault;
use super::life::Life;
use super::plan::Dice;

/// Decides what goes wrong with the disk in this life. Returns whether it is full from some moment
/// on, until [`make_room`].
pub(super) fn prepare(life: &Life, dice: &mut Dice) -> bool {
    let limits = &life.plan.limits;
    if !limits.no_cuts && dice.percent(60) {
        let within = dice.one_of(&[40, 200, 600, 2_000]);
        // The log, or the cache, has to fill up first.
        let from = if life.plan.is_crowded() || life.plan.evicts { 2_000 } else { 0 };
        life.disk.crash_after(from + dice.below(within));
    }
    if limits.no_faults || life.damages() || !dice.percent(50) {
        return false;
    }
    if dice.percent(30) {
        if life.plan.page_size <= 8192 && dice.percent(30) {
            // The keeper fills the disk.
            return true;
        }
        let after = dice.one_of(&[1, 4, 16]);
        let full = Fault::nth(FaultOp::SetLen, dice.below(after) + 1).kind(FaultKind::Enospc).sticky();
        life.faulty.schedule(full);
        return true;
    }
    for _ in 0..=dice.below(3) {
        life.faulty.schedule(fault::draw(dice));
    }
    if dice.percent(25) {
        fail_sync_of_table(life, dice);
    }
    false
}

/// One of the first syncs of the file of a table fails: of all syncs most are of the log.
fn fail_sync_of_table(life: &Life, dice: &mut Dice) {
    let name = format!("t{}", dice.below(life.plan.tables as u64));
    let within = dice.one_of(&[2, 8]);
    let nth = dice.below(within) + 1;
    if let Some(table) = life.db().list_tables().into_iter().find(|table| table.name == name) {
        life.faulty.schedule(Fault::nth(FaultOp::Sync, nth).on(table.file));
    }
}

/// After a while there is room again. What begins from then on must not say that there is none.
pub(super) fn make_room(life: &Life, dice: &mut Dice) {
    thread::sleep(Duration::from_micros(dice.one_of(&[2_000, 50_000, 500_000])));
    let fired = life.faulty.fired();
    life.faulty.clear();
    if fired > 0 {
        life.coverage.count("fault: room again");
    }
    life.has_room();
}
