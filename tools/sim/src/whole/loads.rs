//! Tables that are filled before other threads know them, as a database server fills the copy of a
//! table: created under a name of their own, loaded without undo, and renamed.
//!
//! The rows are those of a transaction that the rename commits. What a power cut leaves under the
//! name of a copy is dropped.

use anyhow::{Context, ensure};
use holdfast::raw::{Lifetime, RawDatabase, RawLoad, RawOptions};
use holdfast::{Error, Isolation, VerifyOptions};

use super::definer::{Definer, Next};
use super::definitions::Tables;
use super::history::Coverage;
use super::places::{self, COPY};
use super::raw_rows::{ENTRY, RawRows, Subject};

/// An entry of one of the table's indexes: its number, key, unique bytes, value.
type Entry = (u32, Vec<u8>, usize, Vec<u8>);

impl Definer {
    /// Fills a table, and makes it table `name` if that does not exist.
    ///
    /// # Errors
    /// An answer of the engine that nothing explains.
    pub(super) fn load(&mut self, name: &str, exists: bool, then: Tables, options: &[u8]) -> anyhow::Result<Next> {
        let copy = format!("{COPY}{}", self.life.next_txn());
        let indexes: Vec<_> = Subject::ALL[..2].iter().map(|s| (s.name(), s.is_unique())).collect();
        let raw = self.life.raw();
        raw.create_table(&copy, &indexes, b"", Lifetime::Lasting)?;
        self.life.coverage.count("definitions: load of a table");
        let rows = self.first_rows(name);
        let twice = (!rows.is_empty() && self.dice.percent(15)).then(|| self.dice.below(rows.len() as u64) as usize);
        let filled = self.fill_copy(&copy, &rows, twice)?;
        ensure!(
            filled == twice.is_none(),
            "a load of {} rows, with {twice:?} twice, is complete: {filled}",
            rows.len()
        );
        let wait = self.wait();
        let raw = self.life.raw();
        if !filled {
            self.life.coverage.count("definitions: duplicate in a load");
            self.life.definitions.lock().forget_loading();
            raw.drop_table(&copy, wait)?;
            return Ok(Next::On);
        }
        self.compare_copy(&copy, &rows)?;
        let refused: fn(&Error) -> bool = |error| matches!(error, Error::TableExists(_) | Error::LockTimeout);
        let next = self.expect(exists, then, refused, |raw| raw.rename_table(&copy, name, &[(name, options)]))?;
        if matches!(next, Next::On) && self.life.raw().tables().iter().any(|(other, _)| *other == copy) {
            self.life.raw().drop_table(&copy, wait)?;
        }
        Ok(next)
    }

    /// Fills the table with the rows, one of them twice; whether it is complete then.
    fn fill_copy(&mut self, copy: &str, rows: &[(u64, Vec<u8>)], twice: Option<usize>) -> anyhow::Result<bool> {
        let table = self.life.raw().open_table(copy)?;
        let mut load = RawLoad::new(&table)?;
        for entry in self.entries(rows, twice) {
            match load.push(entry.0, &entry.1, entry.2, &entry.3[..]) {
                Ok(()) => {}
                Err(Error::DuplicateKey) => return names_duplicate(&load),
                Err(error) => return Err(error.into()),
            }
        }
        if self.dice.percent(30) {
            let seen = self.rows_of(copy)?;
            ensure!(seen.is_empty(), "{} rows are seen before a load is complete", seen.len());
        }
        if self.life.plan.idles() {
            // A compaction meets pages to which nothing leads yet.
            self.let_others_work();
        }
        match load.finish() {
            Ok(()) => Ok(true),
            Err(Error::DuplicateKey) => names_duplicate(&load),
            Err(error) => Err(error.into()),
        }
    }

    /// The rows and their entries, in the order in which they are loaded.
    fn entries(&mut self, rows: &[(u64, Vec<u8>)], twice: Option<usize>) -> Vec<Entry> {
        let mut order: Vec<usize> = (0..rows.len()).chain(twice).collect();
        if self.dice.percent(40) {
            self.life.coverage.count("definitions: load out of order");
            order.sort_by_cached_key(|_| self.dice.any());
        }
        let entries = |at: usize| {
            let (key, value) = &rows[at];
            let row = (0, key.to_be_bytes().to_vec(), 8, value.clone());
            let others = (1..).zip(&Subject::ALL[..2]).map(move |(no, subject)| {
                let (entry, unique) = subject.entry(*key, value);
                (no, entry, unique, ENTRY.to_vec())
            });
            std::iter::once(row).chain(others)
        };
        order.into_iter().flat_map(entries).collect()
    }

    pub(super) fn rows_of(&self, name: &str) -> anyhow::Result<Vec<(u64, Vec<u8>)>> {
        let raw = self.life.raw();
        let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: true };
        RawRows::open(raw, name, 0, &[])?.compare(&mut raw.begin(&options)?)
    }

    /// The table has the rows, and its indexes theirs.
    pub(super) fn compare_copy(&self, copy: &str, rows: &[(u64, Vec<u8>)]) -> anyhow::Result<()> {
        let found = self.rows_of(copy).context("a table that was loaded")?;
        ensure!(found == rows, "a table that was loaded with {} rows has {}", rows.len(), found.len());
        Ok(())
    }
}

/// A table whose load a crash has cut short is empty and sound, and one whose load was complete is
/// sound.
///
/// # Errors
/// If it is not.
pub(super) fn check_left(raw: &RawDatabase, coverage: &Coverage) -> anyhow::Result<()> {
    for (name, _) in raw.tables().iter().filter(|(name, _)| places::is_filled(name)) {
        coverage.count("life: ended in a load");
        let report = raw.database().verify(&VerifyOptions::new().table(name), &mut |_| {})?;
        ensure!(report.is_clean(), "a table whose load was cut short: {report:?}");
    }
    Ok(())
}

/// A load that was refused says for which entry.
fn names_duplicate(load: &RawLoad) -> anyhow::Result<bool> {
    ensure!(load.duplicate().is_some(), "a load was refused for a duplicate, and names none");
    Ok(false)
}
