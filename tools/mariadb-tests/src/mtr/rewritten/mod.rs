//! The server's suites whose tests use InnoDB, with this engine's name in its place.
//!
//! In a farm of their own tests, the files that they include and the expected results are rewritten
//! ([`words`]); of a suite those tests are run that use tables of InnoDB and are not about InnoDB
//! itself ([`choice`]). A test that does not pass has to stand in `mariadb/mtr/rewritten`, with the
//! reason ([`table`]).

mod choice;
mod farm;
mod table;
mod words;

use anyhow::{bail, ensure};
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::SmallRng};

use super::runner::{Outcome, Results, Run};
use choice::Choice;
use holdfast_server::Cache;
use table::{Class, Table};

/// Run when none is named.
const SUITES: [&str; 12] = [
    "handler",
    "sql_sequence",
    "json",
    "period",
    "gcol",
    "vcol",
    "versioning",
    "parts",
    "innodb",
    "main",
    "binlog",
    "rpl",
];

/// Both engines are there; a statement that is to fail for a lock fails soon, and so does a test
/// that hangs.
const OPTIONS: [&str; 12] = [
    // The second one: a test goes on after an error, so that what follows a missing feature is
    // compared as well.
    "--force",
    "--testcase-timeout=3",
    "--mysqld=--plugin-load-add=ha_holdfast.so",
    "--mysqld=--plugin-maturity=experimental",
    "--mysqld=--loose-holdfast-buffer-pool-size=16M",
    "--mysqld=--loose-holdfast-lock-wait-timeout=1",
    "--mysqld=--loose-innodb-lock-wait-timeout=1",
    "--mysqld=--open-files-limit=8192",
    "--mysqld=--lock-wait-timeout=20",
    "--suite-timeout=600",
    // Cores and data of servers that a test ends are not looked at.
    "--mysqld=--skip-core-file",
    "--max-save-datadir=0",
];

/// What is run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Run suites whose tests use InnoDB, with this engine in its place
    #[arg(long)]
    pub rewritten: bool,
    /// Of them, one test in so many, drawn by `--seed`
    #[arg(long, requires = "rewritten", default_value_t = 1)]
    pub part: usize,
    /// Which tests `--part` draws
    #[arg(long, requires = "part", default_value_t = 1)]
    pub seed: u64,
    /// How many tests run at the same time
    #[arg(long, requires = "rewritten", default_value_t = 2)]
    pub parallel: usize,
}

/// Runs suites, or single tests of them.
pub fn run(cache: &Cache, suites: &[String], tests: &[String], options: &Options) -> anyhow::Result<()> {
    let table = Table::read()?;
    let farm = farm::make(cache)?;
    let tests = chosen(cache, &table, suites, tests, options)?;
    let drawn = format!(", one in {}, drawn by the seed {}", options.part, options.seed);
    println!("{} tests{}", tests.len(), if options.part > 1 { &drawn } else { "" });
    let mut arguments: Vec<String> = OPTIONS.map(String::from).to_vec();
    arguments.push(format!("--parallel={}", options.parallel));
    let name = farm::NAME;
    let total = Some(tests.len());
    let run =
        Run { farm: &farm, name, options: arguments, variables: vec![], tests: &tests, total, with_combinations: true };
    let results = run.start(cache)?;
    println!("what the runner says of failed tests: {}", cache.path(format!("{name}-failed")).display());
    let judged = judge(&table, &results);
    if judged.is_err() && options.part > 1 {
        let (part, seed) = (options.part, options.seed);
        println!(
            "the same tests again: cargo xtask mariadb mtr --rewritten --part {part} --seed {seed} {}",
            suites.join(" ")
        );
    }
    judged
}

/// The tests that are to be run, as `suite.test`.
fn chosen(
    cache: &Cache,
    table: &Table,
    suites: &[String],
    tests: &[String],
    options: &Options,
) -> anyhow::Result<Vec<String>> {
    let original = cache.root("usr/share/mysql/mysql-test");
    let mut choice = Choice::default();
    let suites = if suites.is_empty() { SUITES.map(String::from).to_vec() } else { suites.to_vec() };
    for suite in &suites {
        choice.add(&original, suite)?;
    }
    for (reason, left_out) in &choice.left_out {
        println!("{:>4} left out: {reason}", left_out.len());
    }
    let idle = table.not_among(&suites, &choice.tests);
    ensure!(idle.is_empty(), "mariadb/mtr/rewritten lists tests that are not run: {}", idle.join(", "));
    let mut chosen = choice.tests;
    if !tests.is_empty() {
        chosen.retain(|name| tests.iter().any(|t| name == t || name.split_once('.').is_some_and(|(_, n)| n == t)));
    }
    ensure!(options.part > 0, "--part 0: of no parts none can be drawn");
    if options.part > 1 {
        chosen.shuffle(&mut SmallRng::seed_from_u64(options.seed));
        chosen.truncate(chosen.len().div_ceil(options.part));
        chosen.sort();
    }
    ensure!(!chosen.is_empty(), "no test is chosen");
    Ok(chosen)
}

fn judge(table: &Table, results: &Results) -> anyhow::Result<()> {
    table.explain(results);
    for test in table.passing(results) {
        println!("passes  {test}, although it is listed as known not to");
    }
    println!("what the table lists:");
    for (class, count) in table.counts() {
        println!("{count:>4} {class}");
    }
    let missing =
        table.counts().iter().filter(|(class, _)| matches!(class, Class::Missing(_))).map(|(_, n)| n).sum::<usize>();
    let count = |outcome| results.values().filter(|o| **o == outcome).count();
    let (pass, fail) = (count(Outcome::Pass), count(Outcome::Fail));
    println!(
        "{missing} tests need what is missing; of this run {pass} pass, {fail} fail, {} are skipped",
        count(Outcome::Skipped)
    );
    ensure!(pass + fail > 0, "no test was run");
    let unknown = table.unknown(results);
    if unknown.is_empty() { Ok(()) } else { bail!("{} tests fail: {}", unknown.len(), unknown.join(", ")) }
}
