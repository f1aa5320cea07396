//! The keeper of a run: backups, second opens, and room on a full disk, beside the sessions and the
//! operator.

use std::time::Duration;

use holdfast_base::{sim, thread};

use super::life::Life;
use super::plan::Dice;
use super::{backups, faults, opens};

/// Works for a while. `full`: the disk is; it is given room.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn run(life: &Life, seed: u64, full: bool) -> anyhow::Result<()> {
    let mut dice = Dice::new(seed);
    if full {
        faults::make_room(life, &mut dice);
    }
    for _ in 0..dice.below(4) {
        if life.plan.limits.no_keeper || life.is_over() {
            break;
        }
        match dice.below(3) {
            0 => opens::beside(life, &mut dice)?,
            _ => backups::take(life, &mut dice)?,
        }
        sim::progress();
        let pause = dice.one_of(&[100, 10_000, 300_000]);
        thread::sleep(Duration::from_micros(dice.below(pause)));
    }
    Ok(())
}
