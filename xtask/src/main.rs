//! `cargo xtask ...`: every chore of the project is one command, and CI runs the same ones.
//!
//! Each suite has a budget in minutes; a suite that outgrows it is reported at the end, so that the
//! time from a change to an answer does not creep up unseen. A failed suite ends the run with its
//! own output last.

#![forbid(unsafe_code)]

mod suites;

use clap::{Parser, Subcommand};
use holdfast_chores::{bench, fuzz, release, run, simulation};
use holdfast_mariadb_tests as mariadb;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the tests: format, lints, documentation, unit and integration tests, examples, crashes,
    /// damage, the simulation of the whole engine, model checkers, the lab's report, MariaDB.
    /// `test quick` runs what fits into two minutes
    Test {
        /// The long suites as well: Miri, sanitizers, 100,000 seeds of crashes and of the whole
        /// engine, a quarter of an hour of fuzzing, hours of random SQL, recovery of a 1 GiB log
        /// tail, packages, the lab
        #[arg(long)]
        all: bool,
        /// Only these suites. A word that is the name of none stands for all whose names contain
        /// it, `quick` for those before a commit
        only: Vec<String>,
    },
    /// Run the benchmarks of the engine's own parts (page hit, page miss, log append, tree
    /// operations)
    Bench {
        #[command(subcommand)]
        what: Option<bench::What>,
    },
    /// Fuzz one target, or all of them, for some seconds each
    Fuzz {
        /// Seconds for each target
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
        seconds: u32,
        /// The targets; all when none is named
        targets: Vec<String>,
    },
    /// Simulate the whole engine under a seeded scheduler, e.g. `--seeds 1000`, or `--seed 7` for
    /// one run
    Sim {
        /// Passed on to the simulation; `--help` lists its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check the source itself: lengths, circles of imports, words, names, what documents name
    Tidy {
        /// Passed on; `--help` lists the options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure what the page about performance tells, and write its tables and its picture
    Perf {
        /// Passed on; `--help` lists the options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The engine inside a MariaDB server: build, private servers, tests
    Mariadb {
        /// Build the engine with debug assertions, from what the tests have built already: for
        /// tests, not for benchmarks
        #[arg(long)]
        dev: bool,
        #[command(subcommand)]
        what: mariadb::What,
    },
    /// Build the documentation, warnings are errors
    Doc,
    /// Write the small databases of the present version of the file format, which every later
    /// version has to open
    Fixtures,
}

fn main() -> anyhow::Result<()> {
    std::env::set_current_dir(run::root())?;
    match Cli::parse().command {
        Command::Test { all, only } => suites::run(all, &only),
        Command::Bench { what } => bench::run(what),
        Command::Fuzz { seconds, targets } => fuzz::run(seconds, &targets),
        Command::Sim { args } => simulation::run(&args),
        Command::Tidy { args } => run::check(run::cargo("run --quiet --package holdfast-tidy --").args(args)),
        Command::Perf { args } => run::check(run::cargo("run --quiet --release --package holdfast-perf --").args(args)),
        Command::Mariadb { dev, what } => {
            mariadb::run(what, if dev { holdfast_server::Profile::Dev } else { holdfast_server::Profile::Release })
        }
        Command::Doc => suites::doc(),
        Command::Fixtures => release::fixtures(),
    }
}
