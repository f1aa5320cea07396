//! Damage of a table's file in the last life of a run, beside the sessions.
//!
//! Bits flip on the disk, with the page's old checksum ([`Damage::Flipped`]) or with one that fits
//! ([`Damage::Forged`]).
//!
//! 1. A statement on a damaged table may fail with damage, and one on another table may not. A
//!    flipped bit never shows in a row; a forged page may show anything in its own table.
//! 2. After the life the database opens, whatever was damaged. `verify` finds something in damaged
//!    tables only. A table whose rows cannot be read is among them. A table that it finds sound has
//!    the rows that the history says.
//! 3. Purge comes to its end, although rollbacks may not.
//! 4. A salvage gives rows that a transaction has written, and a sound table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast::{Database, Error, TableDefinition, VerifyOptions};
use holdfast_base::{SpaceId, sim, thread};
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::history::{Coverage, Item, Txn, Version};
use super::life::Life;
use super::plan::{Damage, Dice, Plan};
use super::settings::settings;
use super::struck::{Target, hit};
use super::survivors;
use super::values::table;

/// Damages a page of a table on the disk.
///
/// # Errors
/// None but those of the simulated disk.
pub(super) fn strike(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    let no = dice.below(life.plan.tables as u64) as usize;
    let name = format!("t{no}");
    let Some(info) = life.db().list_tables().into_iter().find(|table| table.name == name) else { return Ok(()) };
    let target = Target { file: info.file, space: SpaceId(info.space_id) };
    // From now on any answer about the table may be damage.
    life.struck.lock().insert(no, target.clone());
    let was_hit = match hit(&life.disk, &life.plan, &target, dice) {
        // The power went meanwhile.
        Err(_) if life.disk.is_dead() => false,
        hit => hit?,
    };
    if was_hit {
        let is_forged = life.plan.damage == Damage::Forged;
        life.coverage.count(if is_forged { "damage: forged page" } else { "damage: flipped bits" });
    }
    Ok(())
}

/// What a life with damage leaves.
pub(super) struct Aftermath<'a> {
    pub disk: &'a CrashDisk,
    pub plan: &'a Plan,
    pub struck: BTreeSet<usize>,
    pub txns: &'a [Txn],
    pub before: &'a BTreeMap<Item, Version>,
    pub closed: bool,
    pub coverage: &'a Arc<Coverage>,
}

impl Aftermath<'_> {
    /// Opens the database, checks it, and salvages what is damaged.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check(&self, dice: &mut Dice) -> anyhow::Result<()> {
        sim::progress();
        let faulty = FaultDisk::new(Arc::new(self.disk.clone()));
        let db = match settings(self.plan, self.disk, &faulty, self.coverage).open("sim") {
            // A forged header can name a newer version of the format.
            Err(Error::Incompatible(_)) if self.plan.damage == Damage::Forged => return Ok(()),
            opened => opened.context("open after damage")?,
        };
        let report = db.verify(&VerifyOptions::default(), &mut |_| {}).context("verify after damage")?;
        let names: BTreeMap<String, usize> = (0..self.plan.tables).map(|no| (format!("t{no}"), no)).collect();
        let mut unsound = BTreeSet::new();
        for finding in &report.findings {
            let no = names.get(&finding.table).filter(|no| self.struck.contains(no));
            unsound.insert(*no.with_context(|| format!("verify finds what was not damaged: {finding:?}"))?);
        }
        let mut found = BTreeMap::new();
        for no in 0..self.plan.tables {
            match survivors::read_table(&db, no) {
                Ok(rows) => found.extend(rows),
                Err(_) if unsound.contains(&no) => self.coverage.count("damage: table unreadable"),
                Err(_) if self.plan.damage == Damage::Forged && self.struck.contains(&no) => {}
                Err(error) => return Err(error.context(format!("verify has found nothing in table {no}"))),
            }
        }
        // A forged page that makes sense is one that nothing can tell.
        let untold = if self.plan.damage == Damage::Forged { self.struck.clone() } else { unsound.clone() };
        let (before, found) = (survivors::without(self.before, &untold), survivors::without(&found, &untold));
        survivors::check(&survivors::rest(self.txns, &untold), &before, &found, self.closed).context("after damage")?;
        self.check_purge(&db)?;
        for no in &unsound {
            self.coverage.count("damage: found by verify");
            self.salvage(&db, *no, dice).with_context(|| format!("salvage of table {no}"))?;
        }
        db.close().context("close after damage")
    }

    /// Purge removes the versions that no view needs, whatever cannot be rolled back.
    fn check_purge(&self, db: &Database) -> anyhow::Result<()> {
        let definition = TableDefinition::<u64, &[u8]>::named("after");
        db.transact(|txn| txn.open_table(&definition)?.insert(0, b"a row").map(drop))?;
        db.transact(|txn| txn.open_table(&definition)?.delete(0).map(drop))?;
        for _ in 0..100 {
            if db.stats().transactions.history_length == 0 {
                return Ok(());
            }
            thread::sleep(Duration::from_secs(1));
        }
        anyhow::bail!("purge has stopped: {} logs wait", db.stats().transactions.history_length)
    }

    fn salvage(&self, db: &Database, no: usize, dice: &mut Dice) -> anyhow::Result<()> {
        let nowhere = CrashDisk::new();
        let faulty = FaultDisk::new(Arc::new(nowhere.clone()));
        let target = settings(self.plan, &nowhere, &faulty, self.coverage).create("salvage")?;
        if dice.percent(70) {
            target.create_table(&table(&format!("t{no}")))?;
        }
        match db.salvage_table(&format!("t{no}"), &target) {
            // The header of the file is what is damaged.
            Err(error) if error.is_damage() => return Ok(()),
            Err(Error::Incompatible(_)) if self.plan.damage == Damage::Forged => return Ok(()),
            result => drop(result?),
        }
        self.coverage.count("damage: salvaged");
        let report = target.verify(&VerifyOptions::default(), &mut |_| {})?;
        ensure!(report.is_clean(), "the salvaged table: {report:?}");
        if self.plan.damage == Damage::Forged {
            return Ok(());
        }
        let written = self.txns.iter().flat_map(Txn::versions);
        let written: BTreeSet<(Item, Version)> =
            written.chain(self.before.iter().map(|(item, version)| (*item, *version))).collect();
        for (item, version) in survivors::read_table(&target, no)? {
            ensure!(written.contains(&(item, version)), "{item:?} is {version:?}, which no transaction has written");
        }
        Ok(())
    }
}
