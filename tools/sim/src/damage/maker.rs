//! Builds the databases that trials damage: tables with indexes and values on pages of their own,
//! rows that are gone, an unfinished and a prepared transaction, undo that waits for purge, a log
//! behind the last checkpoint.
//!
//! The engine's own threads write to them too, so a base is built under the scheduler of the
//! simulation, in a process of its own: each build gives the same bytes, and a trial repeats on
//! every machine. A kill takes the files at one moment: no other thread runs while they are
//! copied.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast::io::MemoryDisk;
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{Database, FlushAtCommit, WriteOptions};
use holdfast_base::{sim, thread};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::base::{Base, PLANS, Plan, settings};
use super::files;
use super::model::{Table, Tables, value};
use super::tables::{begin_raw, definition, delete_raw, insert_raw};
use crate::same_process::{NO_SETARCH, same_process};
use crate::whole::disk::RunClock;

struct Maker {
    plan: Plan,
    db: Database,
    raw: RawDatabase,
    rng: SmallRng,
    tables: Tables,
}

/// The key of a row. Those of `deep` are long and differ late, so that its inner nodes have few
/// children.
fn key(name: &str, no: u64, page_size: usize) -> String {
    if name == "deep" {
        let group = no / 6;
        return format!("{:02}{}{no:05}", group * 37 % 100, "k".repeat(page_size / 14));
    }
    format!("{name}-{no:05}")
}

impl Maker {
    /// A length: short, a good part of a page, or several pages.
    fn length(&mut self) -> usize {
        let page = self.plan.page_size;
        match self.rng.random_range(0..12) {
            0 => page * 2 + page / 3,
            1 => page * 3 / 5,
            2..=4 => page / 8,
            _ => page / 40,
        }
    }

    fn flush() -> WriteOptions {
        WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy)
    }

    /// Puts version `version` of these rows, in one transaction.
    fn put(&mut self, name: &str, rows: impl Iterator<Item = u64>, version: u64) -> anyhow::Result<()> {
        let page_size = self.plan.page_size;
        let rows: Vec<(String, String)> =
            rows.map(|no| (key(name, no, page_size), value(no, version, self.length()))).collect();
        self.db.transact_with(&Maker::flush(), |txn| {
            let table = txn.open_table(&definition(name))?;
            rows.iter().try_for_each(|(key, value)| table.upsert(key, value).map(drop))
        })?;
        let table = self.tables.get_mut(name).context("the table is known")?;
        rows.into_iter().for_each(|(key, value)| table.put(key, value));
        Ok(())
    }

    fn delete(&mut self, name: &str, rows: impl Iterator<Item = u64>) -> anyhow::Result<()> {
        let keys: Vec<String> = rows.map(|no| key(name, no, self.plan.page_size)).collect();
        self.db.transact_with(&Maker::flush(), |txn| {
            let table = txn.open_table(&definition(name))?;
            keys.iter().try_for_each(|key| table.delete(key).map(drop))
        })?;
        let table = self.tables.get_mut(name).context("the table is known")?;
        keys.iter().for_each(|key| drop(table.rows.remove(key)));
        Ok(())
    }

    fn create(&mut self) -> anyhow::Result<()> {
        for name in ["flat", "deep"] {
            self.db.create_table(&definition(name))?;
        }
        self.db.create_table(&definition("gone"))?;
        self.raw.create_table("raw", &[("entries", false)], b"options", Lifetime::Lasting)?;
        let infos = self.db.list_tables().into_iter().filter(|info| info.name != "gone");
        self.tables = infos
            .map(|info| (info.name.clone(), Table { file: info.file, raw: info.name == "raw", ..Table::default() }))
            .collect();
        Ok(())
    }

    fn fill_raw(&mut self, rows: u64) -> anyhow::Result<()> {
        let table = self.raw.open_table("raw")?;
        let mut txn = begin_raw(&self.raw)?;
        for no in 0..rows {
            let (key, value) = (key("raw", no, 0), value(no, 1, self.length()));
            insert_raw(&mut txn, &table, &key, &value)?;
            self.tables.get_mut("raw").context("the table is known")?.put(key, value);
        }
        Ok(txn.commit(FlushAtCommit::Lazy)?)
    }

    fn prepare(&mut self, rows: u64) -> anyhow::Result<()> {
        let table = self.raw.open_table("raw")?;
        let mut txn = begin_raw(&self.raw)?;
        let length = self.length();
        let model = self.tables.get_mut("raw").context("the table is known")?;
        for no in 0..rows.min(4) {
            let key = key("raw", no, 0);
            delete_raw(&mut txn, &table, &key, &model.rows[&key].clone())?;
            model.locked.insert(key.clone());
            model.prepared.insert(key, None);
        }
        for no in rows..rows + 6 {
            let (key, value) = (key("raw", no, 0), value(no, 9, length));
            insert_raw(&mut txn, &table, &key, &value)?;
            model.note(&key, &value);
            model.prepared.insert(key, Some(value));
        }
        Ok(txn.prepare(b"prepared", FlushAtCommit::Sync)?)
    }

    /// A transaction that will not have ended.
    fn begin_and_leave(&mut self) -> anyhow::Result<holdfast::WriteTransaction> {
        let txn = self.db.begin_write()?;
        for name in ["flat", "deep"] {
            let table = txn.open_table(&definition(name))?;
            for no in (0..8).chain(900..906) {
                let (key, value) = (key(name, no, self.plan.page_size), value(no, 50, self.length()));
                let model = self.tables.get_mut(name).context("the table is known")?;
                if no % 3 == 0 && no < 900 {
                    table.delete(&key)?;
                    model.locked.insert(key);
                } else {
                    table.upsert(&key, &value)?;
                    model.note(&key, &value);
                }
            }
        }
        Ok(txn)
    }

    /// So many commits that an old snapshot gets versions of its own.
    fn keep_versions(&mut self) -> anyhow::Result<()> {
        for version in 100..1_150 {
            let no = 20 + version % 8;
            let (key, value) = (key("flat", no, 0), value(no, version, self.plan.page_size / 40));
            self.db.transact_with(&Maker::flush(), |txn| {
                txn.open_table(&definition("flat"))?.upsert(&key, &value).map(drop)
            })?;
            self.tables.get_mut("flat").context("the table is known")?.put(key, value);
        }
        Ok(())
    }

    fn changes(&mut self, version: u64, commits: usize) -> anyhow::Result<()> {
        for _ in 0..commits {
            let name = if self.rng.random_bool(0.5) { "flat" } else { "deep" };
            let from = self.rng.random_range(8..self.plan.rows);
            let to = (from + 4).min(self.plan.rows);
            if self.rng.random_ratio(1, 4) {
                self.delete(name, from..to)?;
            } else {
                self.put(name, from..to, version)?;
            }
        }
        Ok(())
    }
}

/// Builds base number `no`, as a thread of the scheduler.
fn build(no: usize) -> anyhow::Result<Base> {
    let plan = PLANS[no];
    let disk = MemoryDisk::new();
    let db = settings(Arc::new(disk.clone())).clock(Arc::new(RunClock)).page_size(plan.page_size).create("base")?;
    let (raw, rng) = (RawDatabase::new(db.clone()), SmallRng::seed_from_u64(no as u64));
    let mut maker = Maker { plan, db, raw, rng, tables: Tables::new() };
    maker.create()?;
    maker.put("flat", 0..plan.rows, 1)?;
    maker.put("deep", 0..plan.rows, 1)?;
    maker.fill_raw(plan.rows / 2)?;
    maker.db.drop_table("gone")?;
    maker.db.checkpoint()?;
    let older = files::of_disk(&disk)?.into_iter().filter(|(name, _)| name.ends_with(".hf")).collect();
    let look = maker.db.begin_read()?;
    look.open_table(&definition("flat"))?.first()?;
    maker.changes(2, 12)?;
    if plan.history {
        maker.keep_versions()?;
    }
    maker.db.checkpoint()?;
    maker.changes(3, 8)?;
    let left = maker.begin_and_leave()?;
    maker.prepare(plan.rows / 2)?;
    maker.changes(4, 2)?;
    let Maker { db, raw, tables, .. } = maker;
    raw.flush_log()?;
    let files = if plan.closed {
        db.close()?;
        files::of_disk(&disk)?
    } else {
        // The engine's threads go on for a while.
        thread::sleep(Duration::from_millis(1));
        files::of_disk(&disk)?
    };
    drop((left, look, raw));
    Ok(Base { plan, files, older, tables })
}

/// Writes base number `no` into a directory of that number.
fn save(base: &Base, no: usize, dir: &Path) -> anyhow::Result<()> {
    let dir = dir.join(no.to_string());
    files::save(&base.files, &dir.join("files"))?;
    files::save(&base.older, &dir.join("older"))?;
    Ok(std::fs::write(dir.join("tables"), serde_json::to_vec(&base.tables)?)?)
}

/// Builds base number `no` into the directory of all. To be called once in a process.
///
/// # Errors
/// The errors of the engine and of the system.
pub fn make(no: usize, dir: &Path) -> anyhow::Result<()> {
    let scheduler = sim::Plan {
        seed: no as u64,
        switches_ppm: 2_000,
        stalls_ppm: 0,
        stall_points: 0,
        patience: u64::MAX,
        cores: 2,
        bitmap_extents: usize::MAX,
        planted: None,
    };
    let (base, _) = sim::run(scheduler, move || build(no));
    save(&base?, no, dir)
}

/// Builds all bases into `dir`, each in a process whose addresses are the same each time.
///
/// # Errors
/// The errors of [`make`].
pub fn make_all(dir: &Path) -> anyhow::Result<()> {
    for no in 0..PLANS.len() {
        let mut command = same_process()?;
        let status = command.arg("damage-base").arg(no.to_string()).arg(dir).status().context(NO_SETARCH)?;
        ensure!(status.success(), "base {no} was not built: {status}");
    }
    Ok(())
}
