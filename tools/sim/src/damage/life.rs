//! One trial: a base is damaged, opened, checked, read along every way, written to, its
//! definitions are changed, it is closed, opened again, and salvaged.

use std::sync::Arc;

use anyhow::{Context, ensure};
use holdfast::io::{Disk, MemoryDisk};
use holdfast::raw::{IndexSource, RawDatabase};
use holdfast::{Database, Error, FlushAtCommit, Isolation, VerifyOptions, WriteOptions};
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};

use super::base::{Base, settings};
use super::files::{self, Files};
use super::judge::{Became, Judge, is_clear};
use super::kinds::{Done, KINDS, Scene};
use super::layout;
use super::model::{Table, value};
use super::rescue;
use super::spec::Trial;
use super::tables::{
    LOCK_WAIT, RAW_PATHS, TYPED_PATHS, Trouble, begin_raw, definition, insert_raw, raw_entry, read_raw, read_typed,
};

/// Tries in which a damage may find no place.
const PLACES: u32 = 8;

/// Damages the files of a base; what was done.
#[must_use]
pub fn damage(base: &Base, trial: &Trial) -> (Files, Vec<Done>) {
    let pages = layout::pages(&base.files, base.plan.page_size);
    let rng = SmallRng::seed_from_u64(0);
    let mut scene = Scene { base, pages: &pages, files: base.files.clone(), rng, sealed: true };
    let mut done = Vec::new();
    let mut life = SmallRng::seed_from_u64(trial.life);
    let of_images = trial.damages.iter().any(|(kind, _)| KINDS[*kind].name == "double-write");
    if life.random_ratio(3, 4) && !of_images {
        // It would repair pages that were written last.
        scene.files.remove("doublewrite");
    }
    for (kind, seed) in &trial.damages {
        for n in 0..PLACES {
            scene.rng = SmallRng::seed_from_u64(u64::from(*seed) << 8 | u64::from(n));
            scene.sealed = scene.rng.random_ratio(7, 8);
            if let Some(what) = (KINDS[*kind].apply)(&mut scene) {
                done.push(what);
                break;
            }
        }
    }
    (scene.files, done)
}

struct Life<'a> {
    base: &'a Base,
    judge: Judge,
    rng: SmallRng,
    disk: MemoryDisk,
}

/// An open database in both its forms.
struct Open {
    db: Database,
    raw: RawDatabase,
}

/// Runs a trial; what became of it, and what was damaged.
///
/// # Errors
/// What may not be.
pub fn run(base: &Base, trial: &Trial) -> anyhow::Result<(Became, Vec<Done>)> {
    let (files, done) = damage(base, trial);
    if done.is_empty() {
        return Ok((Became::Harmless, done));
    }
    let judge = Judge::new(base.tables.clone(), done.clone());
    let mut life = Life { base, judge, rng: SmallRng::seed_from_u64(trial.life), disk: files::to_disk(&files)? };
    life.live(&files)?;
    Ok((life.judge.became, done))
}

impl Life<'_> {
    fn live(&mut self, files: &Files) -> anyhow::Result<()> {
        let Some(open) = self.open()? else {
            self.judge.became = Became::Refused;
            self.nothing_is_erased(files)?;
            return rescue::files(&self.judge, files, self.base.plan);
        };
        self.nothing_is_erased(files)?;
        self.teach(&open)?;
        match self.rng.random_range(0..4) {
            0 => self.write(&open)?,
            1 => {
                self.read(&open)?;
                self.check(&open)?;
                self.judge.nothing_is_silent()?;
            }
            _ => {
                self.check(&open)?;
                self.read(&open)?;
                self.judge.nothing_is_silent()?;
            }
        }
        self.judge.begin_anew();
        self.change(&open)?;
        let Open { db, raw } = open;
        drop(raw);
        db.close().context("close")?;
        self.end()
    }

    /// The database is opened again.
    fn end(&mut self) -> anyhow::Result<()> {
        let Some(open) = self.open().context("once more")? else { return Ok(()) };
        self.teach(&open)?;
        self.read(&open).context("after it was opened again")?;
        self.check(&open).context("after it was opened again")?;
        if self.rng.random_ratio(1, 3) {
            rescue::tables(&self.judge, &open.db, self.base.plan.page_size)?;
        }
        let Open { db, raw } = open;
        drop(raw);
        db.close().context("close, the second time")
    }

    /// Opens the database; `None` if that is refused, as it may be.
    fn open(&mut self) -> anyhow::Result<Option<Open>> {
        match settings(Arc::new(self.disk.clone())).open("trial") {
            Ok(db) => Ok(Some(Open { raw: RawDatabase::new(db.clone()), db })),
            Err(error) => {
                ensure!(self.judge.is_shared(), "damage of tables keeps the database shut: {error}");
                let is_known = is_clear(&error) || matches!(error, Error::NotADatabase(_));
                ensure!(is_known, "open: {error:?}");
                Ok(None)
            }
        }
    }

    /// Whether the files of tables are there, and as long as they were.
    fn nothing_is_erased(&self, files: &Files) -> anyhow::Result<()> {
        for (name, table) in &self.judge.tables {
            let Some(bytes) = files.get(&table.file) else { continue };
            ensure!(self.disk.exists(&table.file)?, "the file {} of table {name} was removed", table.file);
            let file = self.disk.open(&table.file, holdfast::io::OpenOptions::new(holdfast::io::FileKind::Data))?;
            ensure!(file.len()? >= bytes.len() as u64, "the file {} of table {name} was cut", table.file);
        }
        Ok(())
    }

    /// Tells the database how entries are made from rows.
    fn teach(&mut self, open: &Open) -> anyhow::Result<()> {
        for name in self.names() {
            if !self.judge.tables[&name].raw {
                let txn = open.db.begin_write()?;
                let opened = txn.open_table(&definition(&name)).map(drop);
                self.judge.allow(&name, "opening", opened)?;
            }
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        self.judge.tables.keys().cloned().collect()
    }

    fn check(&mut self, open: &Open) -> anyhow::Result<()> {
        let report = open.db.verify(&VerifyOptions::new(), &mut |_| {});
        let report = report.context("the check could not be done")?;
        self.judge.found(&report)
    }

    fn read(&mut self, open: &Open) -> anyhow::Result<()> {
        for name in self.names() {
            if self.judge.tables[&name].raw {
                self.read_raw(open, &name)?;
            } else {
                self.read_typed(open, &name)?;
            }
        }
        Ok(())
    }

    fn read_typed(&mut self, open: &Open, name: &str) -> anyhow::Result<()> {
        let txn = open.db.begin_read()?;
        for (path, what) in TYPED_PATHS.iter().enumerate() {
            self.judge.read(name, what, read_typed(&txn, name, path))?;
        }
        let keys = self.some_keys(name);
        let Some(table) = self.judge.allow(name, "opening", txn.open_table(&definition(name)))? else { return Ok(()) };
        let point = |key: &String| Ok(table.get(key)?.map(|value| (key.clone(), value)));
        let found = keys.iter().filter_map(|key| point(key).transpose()).collect();
        self.judge_points(name, &keys, found)
    }

    fn read_raw(&mut self, open: &Open, name: &str) -> anyhow::Result<()> {
        let mut txn = begin_raw(&open.raw)?;
        let opened = open.raw.open_table(name);
        let Some(table) = self.judge.allow(name, "opening", opened)? else { return Ok(()) };
        for (path, what) in RAW_PATHS.iter().enumerate() {
            self.judge.read(name, what, read_raw(&mut txn, &table, path))?;
        }
        let keys = self.some_keys(name);
        let mut point = |key: &String| {
            let mut value = Vec::new();
            let found = txn.get(&table, 0, key.as_bytes(), None, &mut value)?;
            Ok(found.then(|| (key.clone(), String::from_utf8_lossy(&value).into_owned())))
        };
        let found = keys.iter().filter_map(|key| point(key).transpose()).collect();
        self.judge_points(name, &keys, found)
    }

    /// Keys of rows that are there, and of some that are not.
    fn some_keys(&mut self, name: &str) -> Vec<String> {
        let table = &self.judge.tables[name];
        let mut keys: Vec<String> = table.rows.keys().cloned().choose_multiple(&mut self.rng, 20);
        keys.extend(table.locked.iter().cloned().choose_multiple(&mut self.rng, 4));
        keys.extend(["", "flat-00000x", "~"].map(String::from));
        keys.sort();
        keys.dedup();
        keys
    }

    /// Point reads are judged as a scan of a table with these keys alone.
    fn judge_points(
        &mut self,
        name: &str,
        keys: &[String],
        found: Result<Vec<(String, String)>, Error>,
    ) -> anyhow::Result<()> {
        let whole = self.judge.tables[name].clone();
        let rows = whole.rows.iter().filter(|(key, _)| keys.contains(key)).map(|(k, v)| (k.clone(), v.clone()));
        let asked = Table { rows: rows.collect(), ..whole.clone() };
        self.judge.tables.insert(name.to_owned(), asked);
        let judged = self.judge.read(name, "rows by key", found.map_err(Trouble::Error));
        self.judge.tables.insert(name.to_owned(), whole);
        judged
    }

    /// Changes rows of every table.
    fn write(&mut self, open: &Open) -> anyhow::Result<()> {
        for name in self.names() {
            for step in 0..5 {
                if self.judge.tables[&name].raw {
                    self.write_raw(open, &name, step)?
                } else {
                    self.write_typed(open, &name, step)?
                }
            }
            self.meet_duplicates(open, &name)?;
        }
        Ok(())
    }

    /// Inserts rows whose index keys other rows have: each insert is refused, and reads what has
    /// refused it. In a typed table that is damaged all rows are tried, since few may be affected;
    /// one of a raw table may wait for an unfinished transaction.
    fn meet_duplicates(&mut self, open: &Open, name: &str) -> anyhow::Result<()> {
        let table = &self.judge.tables[name];
        let free = table.rows.iter().filter(|(key, _)| !table.locked.contains(*key));
        let tries = if self.judge.may_fail(name) && !table.raw { table.rows.len() } else { 1 };
        let values: Vec<String> = free.map(|(_, value)| value.clone()).choose_multiple(&mut self.rng, tries);
        for value in values {
            let is_raw = self.judge.tables[name].raw;
            let inserted = if is_raw { duplicate_raw(open, &value) } else { duplicate_typed(open, name, &value) };
            match inserted {
                // An unfinished transaction may have another entry of the index key.
                Err(Error::DuplicateKey | Error::LockTimeout) => {}
                Ok(()) => ensure!(self.judge.may_fail(name), "table {name}, which is whole, takes a second {value}"),
                failed => drop(self.judge.allow(name, "a refused insert", failed)?),
            }
        }
        Ok(())
    }

    /// The key of a row that no unfinished transaction has changed.
    fn free_key(&mut self, name: &str) -> Option<String> {
        let table = &self.judge.tables[name];
        table.rows.keys().filter(|key| !table.locked.contains(*key)).choose(&mut self.rng).cloned()
    }

    /// A new value: short, or on pages of its own.
    fn new_value(&mut self) -> String {
        let page = self.base.plan.page_size;
        let len = if self.rng.random_ratio(1, 3) { page * 2 + page / 2 } else { self.rng.random_range(0..page / 4) };
        value(self.rng.random_range(10_000..1_000_000_000), 7, len)
    }

    fn write_typed(&mut self, open: &Open, name: &str, step: u32) -> anyhow::Result<()> {
        let new = format!("{name}-9{:05}", self.rng.random_range(0..100_000));
        let key = if step < 2 { Some(new) } else { self.free_key(name) };
        let Some(key) = key else { return Ok(()) };
        let value = (step != 4).then(|| self.new_value());
        let patience = if self.judge.may_fail(name) { LOCK_WAIT } else { LOCK_WAIT * 100 };
        let written = open.db.transact_with(&WriteOptions::new().lock_wait_timeout(patience), |txn| {
            let table = txn.open_table(&definition(name))?;
            match &value {
                Some(value) => table.upsert(&key, value).map(drop),
                None => table.delete(&key).map(drop),
            }
        });
        let written = self.judge.allow(name, "writing", written)?.is_some();
        self.note(name, key, value, written);
        Ok(())
    }

    fn write_raw(&mut self, open: &Open, name: &str, step: u32) -> anyhow::Result<()> {
        let Some(table) = self.judge.allow(name, "opening", open.raw.open_table(name))? else { return Ok(()) };
        let key =
            if step < 3 { Some(format!("raw-9{:05}", self.rng.random_range(0..100_000))) } else { self.free_key(name) };
        let Some(key) = key else { return Ok(()) };
        let value = (step < 3).then(|| self.new_value());
        let old = self.judge.tables[name].rows.get(&key).cloned();
        if value.is_some() && old.is_some() {
            return Ok(());
        }
        let mut txn = begin_raw(&open.raw)?;
        let change = match (&value, &old) {
            (Some(value), _) => insert_raw(&mut txn, &table, &key, value),
            (None, Some(old)) => super::tables::delete_raw(&mut txn, &table, &key, old),
            (None, None) => Ok(()),
        };
        let written = change.and_then(|()| txn.commit(FlushAtCommit::Lazy));
        let written = self.judge.allow(name, "writing", written)?.is_some();
        self.note(name, key, value, written);
        Ok(())
    }

    /// Takes a change, made or not, into the model.
    fn note(&mut self, name: &str, key: String, value: Option<String>, written: bool) {
        let Some(table) = self.judge.tables.get_mut(name) else { return };
        match value {
            Some(value) if written => table.put(key, value),
            Some(value) => table.note(&key, &value),
            None if written => drop(table.rows.remove(&key)),
            None => {}
        }
    }

    /// Everything that changes a database, in some order.
    fn change(&mut self, open: &Open) -> anyhow::Result<()> {
        let old = open.db.begin_read()?;
        let before = self.judge.tables.clone();
        self.write(open)?;
        for name in self.names() {
            if !before[&name].raw && !self.judge.may_fail(&name) {
                let now = std::mem::replace(&mut self.judge.tables, before.clone());
                let read = self.judge.read(&name, "rows", read_typed(&old, &name, 0));
                self.judge.tables = now;
                read.context("through a snapshot of before the writes")?;
            }
        }
        drop(old);
        self.end_prepared(open)?;
        if self.rng.random_bool(0.5) {
            self.define(open)?;
        }
        if self.rng.random_ratio(1, 3) {
            let compacted = open.db.compact();
            self.judge.allow_shared("compact", compacted)?;
        }
        if self.rng.random_ratio(1, 3) {
            open.db.checkpoint().context("checkpoint")?;
        }
        if self.rng.random_ratio(1, 16) {
            rescue::backup(&self.judge, &open.db)?;
        }
        Ok(())
    }

    /// Ends the prepared transaction.
    fn end_prepared(&mut self, open: &Open) -> anyhow::Result<()> {
        let is_listed = open.raw.prepared().iter().any(|xid| xid == b"prepared");
        ensure!(is_listed || self.judge.is_shared(), "the prepared transaction is not listed");
        if !is_listed || self.rng.random_bool(0.3) {
            return Ok(());
        }
        let commits = self.rng.random_bool(0.5);
        let ended = open
            .raw
            .adopt(b"prepared")
            .and_then(|mut txn| if commits { txn.commit(FlushAtCommit::Sync) } else { txn.txn().rollback() });
        let ended = self.judge.allow("raw", "ending the prepared transaction", ended)?.is_some();
        if ended && let Some(table) = self.judge.tables.get_mut("raw") {
            table.end_prepared(commits);
        }
        Ok(())
    }

    /// Creates, fills, renames and drops tables, and adds an index.
    fn define(&mut self, open: &Open) -> anyhow::Result<()> {
        let rows = |table: &mut holdfast::TableLoader<'_, &'static str, &'static str>| {
            (0..20).try_for_each(|no| table.push(&format!("{no:03}"), &value(no, 1, 50)))
        };
        let created = open.db.create_table_with(&definition("new"), rows);
        if self.judge.allow_shared("creating a table", created)?.is_some() {
            let renamed = open.db.rename_table("new", "newer").and_then(|()| {
                let txn = open.db.begin_read()?;
                txn.open_table(&definition("newer"))?.iter()?.try_fold(0, |n, row| row.map(|_| n + 1))
            });
            if let Some(count) = self.judge.allow_shared("reading a new table", renamed)? {
                ensure!(count == 20, "a new table has {count} rows of 20");
            }
            let dropped = open.db.drop_table("newer");
            self.judge.allow_shared("dropping a new table", dropped)?;
        }
        if self.judge.tables["raw"].locked.is_empty() {
            let added = add_index(open);
            self.judge.allow("raw", "adding an index", added)?;
        }
        Ok(())
    }
}

/// Inserts another entry of a raw row's index key, which has to be the only one, and rolls back.
fn duplicate_raw(open: &Open, value: &str) -> Result<(), Error> {
    let table = open.raw.open_table("raw")?;
    let mut txn = begin_raw(&open.raw)?;
    let (entry, length) = raw_entry("raw-duplicate", value);
    txn.insert_unique_or_lock(&table, 1, &entry, usize::from(length[0]), &length, false)
}

/// Inserts a row with the value of another one, and rolls back.
fn duplicate_typed(open: &Open, name: &str, value: &str) -> Result<(), Error> {
    let options = WriteOptions::new().isolation(Isolation::Serializable).lock_wait_timeout(LOCK_WAIT);
    let txn = open.db.begin_write_with(&options)?;
    let table = txn.open_table(&definition(name))?;
    table.upsert(&format!("{name}-duplicate"), value).map(drop)
}

/// Adds an index to the raw table, whose entries are the rows.
fn add_index(open: &Open) -> Result<(), Error> {
    let name = format!("second{}", open.raw.open_table("raw")?.index_name(2).is_some());
    let mut alter = open.raw.begin_alter("raw", &[(&name, false)], false, LOCK_WAIT)?;
    let table = open.raw.open_table("raw")?;
    let mut txn = begin_raw(&open.raw)?;
    let rows = match read_raw(&mut txn, &table, 0) {
        Ok(rows) => rows,
        Err(Trouble::Error(error)) => return Err(error),
        Err(Trouble::Content(what)) => return Err(Error::TableMismatch { table: "raw".into(), what }),
    };
    for (key, _) in rows {
        alter.push(0, key.as_bytes(), key.len(), &[0])?;
    }
    drop(txn);
    alter.finish()?;
    alter.become_table(&[IndexSource::Kept(1), IndexSource::Added(0)], b"options")?;
    open.raw.commit_alters(&mut [&mut alter], &[], LOCK_WAIT)
}
