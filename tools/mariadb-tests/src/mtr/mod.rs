//! The server's own test suites, run on this engine.
//!
//! `mariadb-test-run.pl` needs a tree that it can write to: a tree of links to the unpacked
//! packages. Suites that run the same tests on several engines get this one by their `combinations`
//! file. `mariadb/mtr/differences` lists the tests that are known not to pass, each with the
//! reason; a run fails if any other one does. For the suite storage_engine see [`baseline`], for
//! suites that are about InnoDB [`rewritten`].

mod baseline;
mod farm;
mod rewritten;
mod runner;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use holdfast_server::Cache;
use holdfast_server::run::root;

use farm::farm;
pub use rewritten::Options as Rewritten;
use runner::{Outcome, Results, Run};

/// Run when none is named.
const SUITES: [&str; 2] = ["engines/iuds", "engines/funcs"];

/// Tests of engines/iuds that take seconds together.
pub const QUICK: [&str; 6] = ["insert_time", "insert_year", "update_time", "update_year", "delete_time", "delete_year"];

/// What makes a server of the suites use this engine. It opens a file for each table, and some
/// tests make many.
const COMBINATION: &str = "[holdfast]
plugin-load-add=ha_holdfast.so
plugin-maturity=experimental
default-storage-engine=holdfast
loose-holdfast-buffer-pool-size=16M
open-files-limit=8192
partition
";

/// Runs suites, or single tests of them, as they are or rewritten.
pub fn run_as(cache: &Cache, suites: &[String], tests: &[String], options: &Rewritten) -> anyhow::Result<()> {
    if options.rewritten { rewritten::run(cache, suites, tests, options) } else { run(cache, suites, tests) }
}

/// Runs suites, or single tests of them.
pub fn run(cache: &Cache, suites: &[String], tests: &[String]) -> anyhow::Result<()> {
    let farm = farm(cache, "mtr")?;
    let known = differences()?;
    let baseline = suites.iter().any(|s| s == baseline::SUITE);
    // It has a baseline of InnoDB and options of its own.
    ensure!(!baseline || suites.len() == 1, "the suite {} is run by itself, not together with others", baseline::SUITE);
    let suites: Vec<String> = match suites {
        [] => SUITES.map(String::from).to_vec(),
        _ if baseline => baseline::PARTS.map(String::from).to_vec(),
        _ => suites.to_vec(),
    };
    if baseline {
        baseline::record(cache, &farm)?;
        baseline::expect_differences(&farm, &known)?;
    }
    for suite in &suites {
        let combinations = farm.join("mysql-test/suite").join(suite).join("combinations");
        ensure!(combinations.parent().is_some_and(Path::exists), "there is no suite {suite}");
        // A link to the packages' own: it is replaced, not written through.
        let _ = fs::remove_file(&combinations);
        fs::write(&combinations, COMBINATION)?;
    }
    let results = Run::of_suites(&farm, &suites, tests, baseline.then_some("HOLDFAST"), false).start(cache)?;
    if baseline {
        baseline::show_differences(cache, &farm, &results)?;
    }
    judge(&results, &known, &cache.path("mtr.log"))
}

fn judge(results: &Results, known: &BTreeMap<String, String>, log: &Path) -> anyhow::Result<()> {
    let count = |outcome| results.values().filter(|o| **o == outcome).count();
    let failed = results.iter().filter(|(_, o)| **o == Outcome::Fail).map(|(test, _)| test);
    let mut unknown = Vec::new();
    for test in failed {
        // Of a test whose differences are known line by line, others are not.
        match known.get(test).filter(|_| !baseline::is_known(test)) {
            Some(reason) => println!("known   {test}: {reason}"),
            None => unknown.push(test.as_str()),
        }
    }
    let passes = |test: &str| results.get(test) == Some(&Outcome::Pass) && !baseline::is_known(test);
    for test in known.keys().filter(|t| passes(t)) {
        println!("passes  {test}, although it is listed as known not to");
    }
    let (pass, fail) = (count(Outcome::Pass), count(Outcome::Fail));
    println!("{pass} pass, {fail} fail, {} skipped; log: {}", count(Outcome::Skipped), log.display());
    ensure!(pass + fail > 0, "no test was run");
    if unknown.is_empty() { Ok(()) } else { bail!("{} tests fail: {}", unknown.len(), unknown.join(", ")) }
}

/// The tests that are known not to pass: `suite.test reason` on a line.
fn differences() -> anyhow::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(root().join("mariadb/mtr/differences"))?;
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let pair = |line: &str| line.split_once(' ').map(|(test, reason)| (test.to_string(), reason.trim().to_string()));
    lines.map(|l| pair(l).with_context(|| format!("a difference without a reason: {l}"))).collect()
}
