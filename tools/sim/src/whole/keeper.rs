//! The keeper of a run: backups, second opens, damage, a table of its own, and room on a full disk,
//! beside the sessions and the operator.

use std::time::Duration;

use holdfast_base::{sim, thread};

use super::life::Life;
use super::plan::Dice;
use super::{backups, damage, faults, opens, tall};

/// Works for a while. `full`: the disk is; it is given room.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn run(life: &Life, seed: u64, full: bool) -> anyhow::Result<()> {
    let mut dice = Dice::new(seed);
    if full {
        if !life.faulty.is_scheduled() {
            tall::fill_up(life, &mut dice)?;
        } else if dice.percent(50) {
            tall::work(life, &mut dice)?;
        }
        faults::make_room(life, &mut dice);
    }
    if life.plan.evicts {
        tall::outgrow_cache(life)?;
    }
    let acts = if life.plan.evicts { 10 } else { dice.below(6) };
    for _ in 0..acts {
        if life.plan.limits.no_keeper || life.is_over() {
            break;
        }
        match dice.below(5) {
            _ if life.damages() => damage::strike(life, &mut dice)?,
            _ if life.plan.evicts => tall::work(life, &mut dice)?,
            0 => opens::beside(life, &mut dice)?,
            1 | 2 => tall::work(life, &mut dice)?,
            _ => backups::take(life, &mut dice)?,
        }
        sim::progress();
        let pause = dice.one_of(&[100, 10_000, 300_000]);
        thread::sleep(Duration::from_micros(dice.below(pause)));
    }
    Ok(())
}
