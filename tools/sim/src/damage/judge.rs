//! What may come of a damage, and what may not.
//!
//! - A table that no damage is in, or bears on, is whole: no error, no finding, the rows that were
//!   promised.
//! - Of another table every way to its rows gives these, or an error, or the check reports the
//!   table; but for what the kind of damage excuses ([`Leeway`]).
//! - An error is of a kind that a caller can act on, and says where the damage is.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use holdfast::{Error, VerifyReport};

use super::kinds::{Done, Leeway, Target};
use super::model::{Table, Tables};
use super::tables::{Read, Trouble};

/// What became of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Became {
    Refused,
    Reported,
    Failed,
    Harmless,
}

impl Became {
    /// All, in the order of the table that is printed.
    pub const ALL: [Became; 4] = [Became::Refused, Became::Reported, Became::Failed, Became::Harmless];

    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Became::Refused => "refused",
            Became::Reported => "reported",
            Became::Failed => "error",
            Became::Harmless => "harmless",
        }
    }
}

/// What is known of a trial while it runs.
pub struct Judge {
    pub tables: Tables,
    pub damages: Vec<Done>,
    /// Tables that an error or a finding has named, or has been about.
    reported: BTreeSet<String>,
    /// What differs and has not been reported.
    silent: BTreeMap<String, String>,
    pub became: Became,
}

impl Judge {
    #[must_use]
    pub fn new(tables: Tables, damages: Vec<Done>) -> Judge {
        Judge { tables, damages, reported: BTreeSet::new(), silent: BTreeMap::new(), became: Became::Harmless }
    }

    /// True if a damage is in what all tables share.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.damages.iter().any(|damage| !matches!(damage.target, Target::Table(_)))
    }

    fn bears_on<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Done> {
        self.damages.iter().filter(move |damage| match &damage.target {
            Target::Table(name) => name == table,
            // What the log says may be of any page; what is wrong with its form is found when it
            // is opened.
            Target::Log => damage.leeway > Leeway::Exact,
            Target::Undo | Target::System => true,
        })
    }

    /// True if a damage may show in this table.
    #[must_use]
    pub fn may_fail(&self, table: &str) -> bool {
        self.bears_on(table).next().is_some()
    }

    /// How far its rows may differ without a word.
    #[must_use]
    pub fn leeway(&self, table: &str) -> Leeway {
        self.bears_on(table).map(|damage| damage.leeway).max().unwrap_or(Leeway::Exact)
    }

    /// What came of an operation on a table; `None` if it failed, as it may.
    ///
    /// # Errors
    /// If it may not.
    pub fn allow<T>(&mut self, table: &str, what: &str, result: Result<T, Error>) -> anyhow::Result<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        if !self.may_fail(table) && self.lacks_log_for(&error) {
            return Ok(None);
        }
        ensure!(self.may_fail(table), "{what} of table {table}, which is whole: {error}");
        ensure!(is_clear(&error), "{what} of table {table}: {error:?}");
        self.note(table, Became::Failed);
        Ok(None)
    }

    /// What came of an operation on the whole database.
    ///
    /// # Errors
    /// If it failed, and may not.
    pub fn allow_shared<T>(&mut self, what: &str, result: Result<T, Error>) -> anyhow::Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if self.lacks_log_for(&error) => Ok(None),
            Err(error) => {
                ensure!(self.is_shared(), "{what}, and the damage is in tables alone: {error}");
                ensure!(is_clear(&error), "{what}: {error:?}");
                self.became = self.became.min(Became::Failed);
                Ok(None)
            }
        }
    }

    /// True if the log is full, since it is kept for a table whose header names a newer version.
    fn lacks_log_for(&self, error: &Error) -> bool {
        let is_of_table = |damage: &Done| matches!(damage.target, Target::Table(_));
        matches!(error, Error::Incompatible(_)) && self.damages.iter().any(is_of_table)
    }

    fn note(&mut self, table: &str, became: Became) {
        self.reported.insert(table.to_owned());
        self.became = self.became.min(became);
    }

    /// Takes what a check has found.
    ///
    /// # Errors
    /// If it names what is whole.
    pub fn found(&mut self, report: &VerifyReport) -> anyhow::Result<()> {
        for finding in &report.findings {
            let known = self.tables.contains_key(&finding.table);
            if known {
                ensure!(self.may_fail(&finding.table), "the check names a table that is whole: {finding:?}");
                self.note(&finding.table, Became::Reported);
                continue;
            }
            let is_stranger = finding.table.ends_with(".hf");
            ensure!(self.is_shared() || is_stranger, "the check finds, with damage in tables alone: {finding:?}");
            let all: Vec<String> = self.tables.keys().cloned().collect();
            self.reported.extend(all);
            self.became = self.became.min(Became::Reported);
        }
        Ok(())
    }

    /// Takes what was read of a table.
    ///
    /// # Errors
    /// If it may not be so.
    pub fn read(&mut self, table: &str, path: &str, read: Result<Read, Trouble>) -> anyhow::Result<()> {
        let what = match read {
            Err(Trouble::Error(error)) => {
                return self.allow(table, &format!("reading the {path}"), Err::<(), _>(error)).map(drop);
            }
            Err(Trouble::Content(what)) => Some(what),
            Ok(rows) => differs(&self.tables[table], self.leeway(table), path, rows),
        };
        let Some(what) = what else { return Ok(()) };
        if self.leeway(table) == Leeway::Any {
            return Ok(());
        }
        ensure!(self.may_fail(table), "the {path} of table {table}, which is whole: {what}");
        self.silent.entry(table.to_owned()).or_insert(format!("{path}: {what}"));
        Ok(())
    }

    /// After reads and a check: nothing differs that was not reported.
    ///
    /// # Errors
    /// If something does.
    pub fn nothing_is_silent(&self) -> anyhow::Result<()> {
        for (table, what) in &self.silent {
            if !self.reported.contains(table) {
                bail!("table {table} is not reported as damaged: {what}");
            }
        }
        Ok(())
    }

    /// Forgets what differed: the tables are what writes have made of them.
    pub fn begin_anew(&mut self) {
        self.silent.clear();
    }
}

/// True if an error is one that a caller can act on.
#[must_use]
pub fn is_clear(error: &Error) -> bool {
    match error {
        Error::DamagedPage { .. } => true,
        Error::DamagedFile { file, what } => !file.is_empty() && !what.is_empty(),
        Error::TableMismatch { .. }
        | Error::TableNotFound(_)
        | Error::Incompatible(_)
        | Error::LockTimeout
        | Error::HalfUndone
        // A counter that was set to its end.
        | Error::LimitReached(_)
        | Error::DuplicateKey => true,
        // Of a row that is no row of the table.
        Error::InvalidArgument(what) => what.contains("does not decode"),
        _ => false,
    }
}

/// How rows differ from those of the model, if they differ more than they may.
fn differs(table: &Table, leeway: Leeway, path: &str, mut rows: Read) -> Option<String> {
    if leeway == Leeway::Any {
        return None;
    }
    if path.ends_with("backwards") {
        rows.reverse();
    }
    if path.starts_with("rows") && !rows.is_sorted_by(|a, b| a.0 < b.0) {
        return Some("they are not in order".into());
    }
    let count = rows.len();
    let found: BTreeMap<String, String> = rows.into_iter().collect();
    if found.len() != count {
        return Some("a row is there twice".into());
    }
    let is_free = |key: &String| match leeway {
        Leeway::Exact => false,
        Leeway::Uncommitted => table.locked.contains(key),
        _ => true,
    };
    let wrong = found.iter().find_map(|(key, value)| {
        if table.rows.get(key) == Some(value) || is_free(key) && table.has_existed(key, value) {
            return None;
        }
        Some(match table.rows.get(key) {
            Some(promised) => format!("row {key} is {}, not {}", short(value), short(promised)),
            None => format!("row {key} should not be there"),
        })
    });
    let missing = table.rows.keys().find(|key| !found.contains_key(*key) && !is_free(key));
    wrong.or_else(|| missing.map(|key| format!("row {key} is missing")))
}

fn short(value: &str) -> String {
    format!("`{}` of {} bytes", value.chars().take(24).collect::<String>(), value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        table.put("a".into(), "1".into());
        table.put("a".into(), "2".into());
        table.put("b".into(), "1".into());
        table.note("b", "3");
        table
    }

    fn rows(rows: &[(&str, &str)]) -> Read {
        rows.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn is_right(leeway: Leeway, path: &str, read: &[(&str, &str)]) -> bool {
        differs(&table(), leeway, path, rows(read)).is_none()
    }

    #[test]
    fn each_leeway_allows_what_it_says_and_no_more() {
        let (promised, old, open) = ([("a", "2"), ("b", "1")], [("a", "1"), ("b", "1")], [("a", "2"), ("b", "3")]);
        for leeway in [Leeway::Exact, Leeway::Uncommitted, Leeway::Existed] {
            assert!(is_right(leeway, "rows", &promised));
            assert_eq!(is_right(leeway, "rows", &open), leeway > Leeway::Exact);
            assert_eq!(is_right(leeway, "rows", &old), leeway > Leeway::Uncommitted);
            assert!(!is_right(leeway, "rows", &[("a", "2"), ("b", "never")]));
            assert!(!is_right(leeway, "rows", &[("b", "1"), ("a", "2")]));
            assert!(!is_right(leeway, "by_tag", &[("a", "2"), ("a", "2"), ("b", "1")]));
        }
        assert!(is_right(Leeway::Exact, "rows backwards", &[("b", "1"), ("a", "2")]));
        assert!(!is_right(Leeway::Exact, "rows", &[("a", "2")]));
        assert!(is_right(Leeway::Any, "rows", &[("x", "y"), ("x", "y")]));
    }

    #[test]
    fn a_table_that_is_whole_may_not_fail() {
        let done = |target| Done { what: String::new(), target, leeway: Leeway::Exact, forged: false };
        let tables = Tables::from([("t".to_owned(), table()), ("u".to_owned(), table())]);
        let mut judge = Judge::new(tables.clone(), vec![done(Target::Table("t".into()))]);
        let damage = || Err::<(), _>(Error::damaged_file("t16.hf", "it is"));
        assert!(judge.allow("t", "reading", damage()).unwrap().is_none());
        assert!(judge.allow("u", "reading", damage()).is_err());
        assert!(judge.allow("t", "reading", Err::<(), _>(Error::Poisoned("x".into()))).is_err());
        assert!(judge.read("u", "rows", Ok(Vec::new())).is_err());
        assert_eq!(judge.became, Became::Failed);
        // Not a word was said.
        let mut judge = Judge::new(tables, vec![done(Target::Table("t".into()))]);
        judge.read("t", "rows", Ok(Vec::new())).unwrap();
        assert!(judge.nothing_is_silent().is_err());
    }
}
