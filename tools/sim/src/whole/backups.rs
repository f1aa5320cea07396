//! Backups beside the sessions. What is in them is checked after the life: see [`super::copies`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{bail, ensure};
use holdfast::{BackupOptions, Error};
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::copies::Copy;
use super::disk::{SlowDisk, ends_life};
use super::fault;
use super::growth::Growing;
use super::life::Life;
use super::plan::Dice;

/// Makes a backup.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn take(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    let disk = CrashDisk::new();
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    if !life.plan.limits.no_cuts && dice.percent(25) {
        disk.crash_after(dice.below(60));
    }
    if !life.plan.limits.no_faults && dice.percent(25) {
        faulty.schedule(fault::draw(dice));
    }
    let mut options = BackupOptions::new().disk(Arc::new(SlowDisk::new(&faulty, &disk, &life.coverage)));
    if dice.percent(40) {
        options = options.rate_limit_bytes_per_second(dice.one_of(&[1 << 20, 8 << 20, 64 << 20]));
    }
    let calls = if dice.percent(10) { dice.below(5) } else { u64::MAX };
    let asked = AtomicU64::new(0);
    let options = options.stop_when(move || asked.fetch_add(1, Ordering::Relaxed) >= calls);
    let growing = if dice.percent(25) { Growing::begin(life, &disk)?.map(Arc::new) } else { None };
    let options = match growing.clone() {
        Some(growing) => options.on_progress(move |_| growing.goes_on()),
        None => options,
    };
    let begun = life.history.tick();
    let result = life.db().backup("copy", &options);
    let ended = life.history.tick();
    let complete = result.is_ok();
    match result {
        Ok(_) => life.coverage.count("backup: made"),
        Err(Error::Interrupted) if calls < u64::MAX => life.coverage.count("backup: interrupted"),
        Err(_) if disk.is_dead() => life.coverage.count("backup: cut by the power"),
        Err(error) if ends_life(&error) || life.is_over() => life.coverage.count("backup: ended with its life"),
        Err(Error::Io { .. } | Error::DiskFull(_)) if faulty.fired() + life.faulty.fired() > 0 => {
            life.coverage.count("backup: failed");
        }
        Err(error) => bail!("backup: {error}"),
    }
    if let Some(growing) = growing.filter(|_| complete) {
        growing.check(life)?;
    }
    if complete && dice.percent(30) {
        refuse_another(life, &disk)?;
    }
    life.keep_copy(Copy { disk, begun, ended, complete });
    Ok(())
}

/// A backup over a backup is refused and leaves it alone.
fn refuse_another(life: &Life, disk: &CrashDisk) -> anyhow::Result<()> {
    let before = disk.operations();
    let again = life.db().backup("copy", &BackupOptions::new().disk(Arc::new(disk.clone())));
    let refused = matches!(again, Err(Error::AlreadyExists(_))) || disk.is_dead() || life.is_over();
    let stopped = again.as_ref().is_err_and(|error| ends_life(error) || life.faulty.fired() > 0);
    ensure!(refused || stopped, "a backup over a backup: {again:?}");
    ensure!(disk.operations() == before, "a backup that was refused has changed the directory");
    Ok(())
}
