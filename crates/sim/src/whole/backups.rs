//! Backups beside the sessions, and what is in them.
//!
//! A backup goes to a disk of its own, which fails and loses power like the database's. It holds a
//! state of the database between its begin and its end: every commit that was acknowledged before
//! it began, none that was asked for after it ended, no transaction in part, and with each
//! transaction those that came before it. One that failed is refused, or is as good as one that did
//! not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail, ensure};
use holdfast::raw::RawDatabase;
use holdfast::{BackupOptions, Error};
use holdfast_base::sim;
use holdfast_io::{CrashDisk, FaultDisk};

use super::disk::{SlowDisk, ends_life};
use super::history::{Coverage, End, Item, Txn, Version};
use super::life::{Life, settings};
use super::plan::{Dice, Plan};
use super::{faults, places, survivors};

/// A backup that was begun.
pub(super) struct Copy {
    disk: CrashDisk,
    begun: u64,
    ended: u64,
    /// The engine said so.
    complete: bool,
}

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
        faulty.schedule(faults::draw(dice));
    }
    let mut options = BackupOptions::new().disk(Arc::new(SlowDisk::new(&faulty, &disk, &life.coverage)));
    if dice.percent(40) {
        options = options.rate_limit_bytes_per_second(dice.one_of(&[1 << 20, 8 << 20, 64 << 20]));
    }
    let calls = if dice.percent(10) { dice.below(5) } else { u64::MAX };
    let asked = AtomicU64::new(0);
    let options = options.stop_when(move || asked.fetch_add(1, Ordering::Relaxed) >= calls);
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

impl Copy {
    /// Restores the backup, with a power cut or a fault on the way, and checks what is in it.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check(
        mut self,
        txns: &[Txn],
        before: &BTreeMap<Item, Version>,
        plan: &Plan,
        dice: &mut Dice,
        coverage: &Arc<Coverage>,
    ) -> anyhow::Result<()> {
        if self.disk.is_dead() || dice.percent(50) {
            self.disk = self.disk.reboot(dice.any());
        }
        self.disk.crash_after(u64::MAX);
        if !self.restore(plan, dice, coverage)? {
            coverage.count("backup: incomplete, refused");
            return Ok(());
        }
        let faulty = FaultDisk::new(Arc::new(self.disk.clone()));
        let raw = RawDatabase::new(settings(plan, &self.disk, &faulty, coverage).open("copy").context("open")?);
        // Which of the changing tables it holds is not known.
        let stays = |item: &Item| !places::is_changing(item.table);
        let mut found = survivors::read_all(&raw, plan)?;
        found.retain(|item, _| stays(item));
        raw.close().context("close")?;
        let mut known = self.known(txns);
        known.iter_mut().for_each(|txn| txn.writes.retain(|write| stays(&write.item)));
        let before = before.iter().filter(|(item, _)| stays(item)).map(|(item, version)| (*item, *version)).collect();
        survivors::check(&known, &before, &found, true)?;
        coverage.count(if self.complete { "backup: restored" } else { "backup: restored though it had failed" });
        Ok(())
    }

    /// Restores the backup; false if it is none.
    fn restore(&mut self, plan: &Plan, dice: &mut Dice, coverage: &Arc<Coverage>) -> anyhow::Result<bool> {
        for attempt in 0.. {
            sim::progress();
            let faulty = FaultDisk::new(Arc::new(self.disk.clone()));
            if attempt < 3 && !plan.limits.no_cuts && dice.percent(30) {
                self.disk.crash_after(dice.below(150));
            }
            if attempt < 3 && !plan.limits.no_faults && dice.percent(30) {
                faulty.schedule(faults::draw(dice));
            }
            let restored = settings(plan, &self.disk, &faulty, coverage).restore("copy");
            let dead = self.disk.is_dead();
            match restored {
                Ok(report) if !dead => {
                    ensure!(report.is_clean(), "restore says that it is done, and finds {report:?}");
                    self.disk.crash_after(u64::MAX);
                    return Ok(true);
                }
                Err(error) if !dead && faulty.fired() == 0 => {
                    let refused = matches!(error, Error::NotADatabase(_)) || error.is_damage();
                    ensure!(!self.complete && refused, "restore: {error}");
                    return Ok(false);
                }
                _ => coverage.count(if dead { "restore: cut by the power" } else { "restore: failed" }),
            }
            if dead || dice.percent(30) {
                self.disk = self.disk.reboot(dice.any());
            }
        }
        unreachable!("the loop has no end")
    }

    /// The transactions that may be in it; those that were under way when it began may be absent.
    fn known(&self, txns: &[Txn]) -> Vec<Txn> {
        let asked = |txn: &Txn| if txn.asked > 0 { txn.asked } else { txn.writes.last().map_or(0, |write| write.at) };
        let there = txns.iter().filter(|txn| asked(txn) < self.ended);
        there
            .map(|txn| {
                let is_certain = txn.over < self.begun || !matches!(txn.end, End::Committed(_));
                Txn { end: if is_certain { txn.end } else { End::Unknown }, ..txn.clone() }
            })
            .collect()
    }
}
