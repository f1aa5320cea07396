//! What is in backups.
//!
//! A backup goes to a disk of its own, which fails and loses power like the database's. It holds a
//! state of the database between its begin and its end: every commit that was acknowledged before
//! it began, none that was asked for after it ended, no transaction in part, and with each
//! transaction those that came before it. One that failed is refused, or is as good as one that did
//! not.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, ensure};
use holdfast::Error;
use holdfast::raw::RawDatabase;
use holdfast_base::sim;
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::history::{Coverage, End, Item, Txn, Version};
use super::plan::{Dice, Plan};
use super::settings::settings;
use super::{fault, places, survivors};

/// A backup that was begun.
pub(super) struct Copy {
    pub disk: CrashDisk,
    pub begun: u64,
    pub ended: u64,
    /// The engine said so.
    pub complete: bool,
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
                faulty.schedule(fault::draw(dice));
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
