//! One thread, several interleaved transactions, a model beside them, and power cuts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use holdfast::{Builder, Database, Error, Savepoint, WriteOptions, WriteTransaction};
use holdfast_testkit::CrashDisk;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::model::{self, Rows, Table, World};

/// Keys that a script uses.
const KEYS: u32 = 400;
/// Transactions open at the same time.
const OPEN: usize = 4;

/// Runs the script of `seed`; returns how many lives the database had.
///
/// # Errors
/// What did not hold.
pub fn run(seed: u64) -> anyhow::Result<u32> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let settings = settings(&mut rng);
    let mut disk = Arc::new(CrashDisk::new());
    let mut allowed = vec![World::new()];
    let lives = rng.random_range(2..=4);
    let mut created = false;
    for life in 0..lives {
        let steps = rng.random_range(20..300);
        let cut = if rng.random_bool(0.9) { Some(rng.random_range(1..600)) } else { None };
        let mut recoveries = 0;
        let db = loop {
            // Recovery is cut as well, a few times, at random points.
            if recoveries < 3 && rng.random_bool(0.4) {
                disk.crash_after(rng.random_range(1..120));
            }
            recoveries += 1;
            let builder = settings.clone().disk(disk.clone());
            let opened = if created { builder.open("sim") } else { builder.create_or_open("sim") };
            match opened {
                Ok(db) => break db,
                Err(_) if disk.is_dead() => disk = Arc::new(disk.reboot(rng.random())),
                Err(error) => bail!("life {life}: open after a power cut: {error}"),
            }
        };
        if !disk.is_dead() {
            created = true;
            let world = model::check(&db, &allowed).with_context(|| format!("life {life}"));
            match world {
                Ok(world) => allowed = vec![world],
                // The cut that was meant for the recovery came while reading back.
                Err(_) if disk.is_dead() => {}
                Err(error) => return Err(error),
            }
        }
        if !disk.is_dead() {
            if let Err(error) = crate::verify(&db)
                && !disk.is_dead()
            {
                return Err(error.context(format!("life {life}")));
            }
            disk.crash_after(cut.unwrap_or(u64::MAX));
            let world = allowed.pop().context("a checked database is in one state")?;
            allowed = Script { db: &db, disk: &disk, rng: &mut rng, world, open: Vec::new(), next_table: life * 10 }
                .play(steps)
                .with_context(|| format!("life {life}"))?;
        }
        let mut open = Some(db);
        if !disk.is_dead() && rng.random_bool(0.3) {
            let closed = open.take().map_or(Ok(()), Database::close);
            if let Err(error) = closed
                && !disk.is_dead()
            {
                bail!("life {life}: close: {error}");
            }
        }
        // Without a clean close the power goes here at the latest, before the handle is dropped.
        disk = Arc::new(disk.reboot(rng.random()));
    }
    let db = settings.clone().disk(disk.clone()).create_or_open("sim").context("the last open")?;
    model::check(&db, &allowed).context("the last life")?;
    crate::verify(&db)?;
    Ok(lives)
}

fn settings(rng: &mut SmallRng) -> Builder {
    let page_size = [4096, 8192, 16384][rng.random_range(0..3)];
    Database::builder()
        .page_size(page_size)
        .cache_size_bytes(5 << 20)
        .log_capacity_bytes(4 << 20)
        .log_buffer_bytes(64 << 10)
}

/// An open transaction and what it sees.
struct Open {
    txn: WriteTransaction,
    /// The snapshot with the transaction's own changes.
    view: World,
    /// The changes alone, in order of their keys.
    changes: Vec<(String, Vec<u8>, Option<Vec<u8>>)>,
    savepoints: Vec<(Savepoint, World, usize)>,
}

struct Script<'a> {
    db: &'a Database,
    disk: &'a CrashDisk,
    rng: &'a mut SmallRng,
    /// What is committed.
    world: World,
    open: Vec<Open>,
    next_table: u32,
}

/// How a step ended.
enum Step {
    Done,
    /// The disk crashed: the database may be in one of these states.
    Crashed(Vec<World>),
}

impl Script<'_> {
    /// Plays `steps` steps, or until the disk crashes; returns the states that are allowed
    /// afterwards.
    fn play(mut self, steps: u32) -> anyhow::Result<Vec<World>> {
        for _ in 0..steps {
            if self.disk.is_dead() {
                break;
            }
            match self.step() {
                Ok(Step::Done) => {}
                Ok(Step::Crashed(allowed)) => return Ok(allowed),
                Err(_) if self.disk.is_dead() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(vec![self.world])
    }

    fn step(&mut self) -> anyhow::Result<Step> {
        let dice = self.rng.random_range(0..100);
        if self.open.is_empty() || (dice < 6 && self.open.len() < OPEN) {
            return self.begin();
        }
        if dice < 8 && self.open.is_empty() {
            return self.ddl();
        }
        let which = self.rng.random_range(0..self.open.len());
        match dice {
            0..70 => self.change(which),
            70..78 => self.read(which),
            78..81 => self.savepoint(which),
            81 => self.resize_log(),
            82 => self.write_pages(),
            83..85 => self.rollback_to(which),
            85..97 => self.commit(which),
            _ => {
                let open = self.open.swap_remove(which);
                open.txn.rollback()?;
                if self.open.is_empty() && self.rng.random_bool(0.3) { self.ddl() } else { Ok(Step::Done) }
            }
        }
    }

    fn begin(&mut self) -> anyhow::Result<Step> {
        if self.world.is_empty() {
            return self.ddl();
        }
        let options = WriteOptions::new().lock_wait_timeout(Duration::ZERO);
        let txn = self.db.begin_write_with(&options)?;
        // The first statement fixes the snapshot.
        let name = self.world.keys().next().context("there is a table")?.clone();
        txn.open_table(&Table::named(&*name))?.get(b"no such key")?;
        self.open.push(Open { txn, view: self.world.clone(), changes: Vec::new(), savepoints: Vec::new() });
        Ok(Step::Done)
    }

    /// Gives the log another capacity, whatever is going on.
    fn resize_log(&mut self) -> anyhow::Result<Step> {
        self.db.set_log_capacity_bytes(self.rng.random_range(4 << 20..12 << 20))?;
        Ok(Step::Done)
    }

    /// Has pages written that have been written before, with a checkpoint and, more often, without
    /// one: what is to be verified is written first.
    fn write_pages(&mut self) -> anyhow::Result<Step> {
        if self.rng.random_bool(0.3) {
            self.db.checkpoint()?;
        } else {
            crate::verify(self.db)?;
        }
        Ok(Step::Done)
    }

    /// Creates, drops or renames a table; no transaction is open.
    fn ddl(&mut self) -> anyhow::Result<Step> {
        let mut after = self.world.clone();
        let names: Vec<String> = after.keys().cloned().collect();
        let result = if names.len() < 3 {
            self.next_table += 1;
            let name = format!("t{}", self.next_table);
            after.insert(name.clone(), Rows::new());
            self.db.create_table(&Table::named(&*name))
        } else {
            let name = &names[self.rng.random_range(0..names.len())];
            let rows = after.remove(name).context("the table is in the model")?;
            if self.rng.random_bool(0.5) {
                self.db.drop_table(name)
            } else {
                self.next_table += 1;
                let to = format!("t{}", self.next_table);
                after.insert(to.clone(), rows);
                self.db.rename_table(name, &to)
            }
        };
        match result {
            Ok(()) => {
                self.world = after;
                Ok(Step::Done)
            }
            Err(_) if self.disk.is_dead() => Ok(Step::Crashed(vec![self.world.clone(), after])),
            Err(error) => bail!("ddl: {error}"),
        }
    }

    fn change(&mut self, which: usize) -> anyhow::Result<Step> {
        let (name, key) = self.pick(which)?;
        let value = self.value();
        let open = &mut self.open[which];
        let table = open.txn.open_table(&Table::named(&*name))?;
        let rows = open.view.get_mut(&name).context("the table is in the view")?;
        let before = rows.get(&key).cloned();
        let existed = before.is_some();
        let (result, after) = match self.rng.random_range(0..4) {
            0 => (table.insert(&key, &value).map(|()| false), Some(value)),
            1 => (table.upsert(&key, &value), Some(value)),
            2 => (table.update(&key, &value), before.as_ref().map(|_| value)),
            _ => (table.delete(&key), None),
        };
        drop(table);
        match result {
            Ok(_) if after == before && !existed => {}
            Ok(_) => {
                match &after {
                    Some(value) => rows.insert(key.clone(), value.clone()),
                    None => rows.remove(&key),
                };
                open.changes.push((name, key, after));
            }
            Err(Error::DuplicateKey) => ensure!(existed || self.changed_since(which, &name, &key), "a false duplicate"),
            Err(Error::LockTimeout) => {}
            Err(Error::Conflict | Error::Deadlock) => {
                let open = self.open.swap_remove(which);
                open.txn.rollback()?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Step::Done)
    }

    /// True if another transaction committed a row that the transaction's snapshot does not have.
    fn changed_since(&self, which: usize, name: &str, key: &[u8]) -> bool {
        let committed = self.world.get(name).and_then(|rows| rows.get(key));
        committed != self.open[which].view[name].get(key)
    }

    fn read(&mut self, which: usize) -> anyhow::Result<Step> {
        let (name, key) = self.pick(which)?;
        let open = &self.open[which];
        let rows = &open.view[&name];
        let table = open.txn.open_table(&Table::named(&*name))?;
        let found = table.get(&key)?;
        ensure!(found.as_ref() == rows.get(&key), "a transaction does not see its snapshot of {key:?} in {name}");
        let found = table.range(&key[..]..)?.take(20).collect::<Result<Vec<_>, _>>()?;
        let expected = rows.range(key..).take(20).map(|(k, v)| (k.clone(), v.clone()));
        ensure!(found.into_iter().eq(expected), "a range differs from the snapshot");
        Ok(Step::Done)
    }

    fn savepoint(&mut self, which: usize) -> anyhow::Result<Step> {
        let open = &mut self.open[which];
        let savepoint = open.txn.savepoint()?;
        open.savepoints.push((savepoint, open.view.clone(), open.changes.len()));
        Ok(Step::Done)
    }

    fn rollback_to(&mut self, which: usize) -> anyhow::Result<Step> {
        let open = &mut self.open[which];
        if open.savepoints.is_empty() {
            return Ok(Step::Done);
        }
        let at = self.rng.random_range(0..open.savepoints.len());
        open.savepoints.truncate(at + 1);
        let (savepoint, view, changes) = &open.savepoints[at];
        open.txn.rollback_to(savepoint)?;
        open.view = view.clone();
        open.changes.truncate(*changes);
        Ok(Step::Done)
    }

    fn commit(&mut self, which: usize) -> anyhow::Result<Step> {
        let open = self.open.swap_remove(which);
        let mut after = self.world.clone();
        for (name, key, value) in open.changes {
            let rows = after.get_mut(&name).context("the table is in the model")?;
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        match open.txn.commit() {
            Ok(()) => {
                self.world = after;
                Ok(Step::Done)
            }
            Err(_) if self.disk.is_dead() => Ok(Step::Crashed(vec![self.world.clone(), after])),
            Err(error) => bail!("commit: {error}"),
        }
    }

    /// A table and a key; keys of all lengths.
    fn pick(&mut self, which: usize) -> anyhow::Result<(String, Vec<u8>)> {
        let names: Vec<&String> = self.open[which].view.keys().collect();
        ensure!(!names.is_empty(), "a transaction began without a table");
        let name = names[self.rng.random_range(0..names.len())].clone();
        let n = self.rng.random_range(0..KEYS);
        let mut key = format!("{n:05}").into_bytes();
        if n % 17 == 0 {
            key.resize(900, b'k');
        }
        Ok((name, key))
    }

    /// A value: mostly small, sometimes of several pages.
    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.random_range(0..100) {
            0..85 => self.rng.random_range(0..200),
            85..97 => self.rng.random_range(200..3_000),
            97..99 => self.rng.random_range(3_000..40_000),
            _ => self.rng.random_range(40_000..200_000),
        };
        vec![self.rng.random(); len]
    }
}
