//! The tests that are known not to pass: `mariadb/mtr/rewritten`, a line for each with its class
//! and the reason.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use anyhow::{Context, bail, ensure};

use super::super::runner::{Outcome, Results};
use holdfast_server::run::root;

/// Why a test does not pass.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// It needs something that the engine does not have: its name.
    Missing(String),
    /// What differs is not a difference in what the engine does for its user.
    Harmless,
    /// It is about InnoDB itself.
    Innodb,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Missing(what) => write!(f, "missing:{what}"),
            Class::Harmless => f.write_str("harmless"),
            Class::Innodb => f.write_str("innodb"),
        }
    }
}

impl std::str::FromStr for Class {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Class> {
        match text.split_once(':') {
            None if text == "harmless" => Ok(Class::Harmless),
            None if text == "innodb" => Ok(Class::Innodb),
            Some(("missing", what)) if !what.is_empty() => Ok(Class::Missing(what.to_string())),
            _ => bail!("`{text}` is none of the classes missing:<feature>, harmless, innodb"),
        }
    }
}

#[derive(Debug)]
pub struct Known {
    pub class: Class,
    pub reason: String,
}

/// The tests; one that runs in several combinations stands there by its name alone, or as
/// `suite.test,combination`.
pub struct Table(BTreeMap<String, Known>);

impl Table {
    pub fn read() -> anyhow::Result<Table> {
        Table::parse(&fs::read_to_string(root().join("mariadb/mtr/rewritten"))?)
    }

    fn parse(text: &str) -> anyhow::Result<Table> {
        let mut table = BTreeMap::new();
        for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let mut parts = line.splitn(3, ' ');
            let (Some(test), Some(class), Some(reason)) = (parts.next(), parts.next(), parts.next()) else {
                bail!("not `test class reason`: {line}");
            };
            let class = class.parse().with_context(|| line.to_string())?;
            let before = table.insert(test.to_string(), Known { class, reason: reason.to_string() });
            ensure!(before.is_none(), "{test} stands there twice");
        }
        Ok(Table(table))
    }

    fn find(&self, test: &str) -> Option<&Known> {
        self.0.get(test).or_else(|| self.0.get(without_combination(test)))
    }

    /// Failed tests that are not there.
    pub fn unknown<'r>(&self, results: &'r Results) -> Vec<&'r str> {
        let failed = results.iter().filter(|(_, outcome)| **outcome == Outcome::Fail);
        failed.map(|(test, _)| test.as_str()).filter(|test| self.find(test).is_none()).collect()
    }

    /// Tests that are there and pass, in all combinations if none is named.
    pub fn passing(&self, results: &Results) -> Vec<&str> {
        let passes = |known: &str| {
            let of_it = || results.iter().filter(|(test, _)| *test == known || without_combination(test) == known);
            of_it().any(|(_, o)| *o == Outcome::Pass) && of_it().all(|(_, o)| *o != Outcome::Fail)
        };
        self.0.keys().map(String::as_str).filter(|known| passes(known)).collect()
    }

    /// Tests of these suites that are there, but not among `tests`: no run would show that a reason
    /// has gone.
    pub fn not_among(&self, suites: &[String], tests: &[String]) -> Vec<&str> {
        let of_suite =
            |test: &str| suites.iter().any(|s| test.strip_prefix(s.as_str()).is_some_and(|t| t.starts_with('.')));
        let is_among = |test: &str| tests.iter().any(|t| t == without_combination(test));
        self.0.keys().map(String::as_str).filter(|test| of_suite(test) && !is_among(test)).collect()
    }

    /// Class -> how many tests of the table.
    pub fn counts(&self) -> BTreeMap<&Class, usize> {
        let mut counts = BTreeMap::new();
        for known in self.0.values() {
            *counts.entry(&known.class).or_insert(0) += 1;
        }
        counts
    }

    /// A line for every failed test that is there.
    pub fn explain(&self, results: &Results) {
        for (test, _) in results.iter().filter(|(_, outcome)| **outcome == Outcome::Fail) {
            if let Some(known) = self.find(test) {
                println!("known   {test}: {}: {}", known.class, known.reason);
            }
        }
    }
}

fn without_combination(test: &str) -> &str {
    test.split_once(',').map_or(test, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(of: &[(&str, Outcome)]) -> Results {
        of.iter().map(|(test, outcome)| (test.to_string(), *outcome)).collect()
    }

    #[test]
    fn the_table_can_be_read() {
        assert!(Table::read().unwrap().counts().values().sum::<usize>() > 0);
    }

    #[test]
    fn the_users_guide_says_what_is_missing() {
        let guide = fs::read_to_string(root().join("docs/user/mariadb.md")).unwrap();
        for class in Table::read().unwrap().counts().keys() {
            if let Class::Missing(what) = class {
                assert!(guide.contains(&format!("`{what}`")), "{what}");
            }
        }
    }

    #[test]
    fn lines_without_a_class_or_a_reason_are_refused() {
        for text in ["main.a\n", "main.a harmless\n", "main.a fault it is one\n", "main.a missing: x\n"] {
            assert!(Table::parse(text).is_err(), "{text}");
        }
        assert!(Table::parse("main.a innodb x\nmain.a harmless y\n").is_err());
    }

    #[test]
    fn a_listed_test_that_is_not_run_is_told() {
        let table = Table::parse("main.a innodb x\nmain.b,row innodb x\nmain.c innodb x\nrpl.d innodb x\n").unwrap();
        let strings = |of: &[&str]| of.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        assert_eq!(table.not_among(&strings(&["main", "rp"]), &strings(&["main.a", "main.b"])), ["main.c"]);
    }

    #[test]
    fn a_failure_that_is_not_listed_and_a_listed_test_that_passes_are_told() {
        let table = Table::parse("main.a harmless x\nmain.b,row missing:y x\nmain.c innodb x\n").unwrap();
        let results = results(&[
            ("main.a", Outcome::Pass),
            ("main.b,row", Outcome::Fail),
            ("main.b,stmt", Outcome::Fail),
            ("main.c,row", Outcome::Pass),
            ("main.c,stmt", Outcome::Fail),
            ("main.d", Outcome::Fail),
        ]);
        assert_eq!(table.unknown(&results), ["main.b,stmt", "main.d"]);
        assert_eq!(table.passing(&results), ["main.a"]);
    }
}
