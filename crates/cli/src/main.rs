//! The `holdfast` command.
//!
//! Exit codes: 0 all is well; 1 it could not be done; 2 the arguments are wrong; 3 it was done and the answer is bad
//! news: a claim of an experiment does not hold, or a check found damage.

#![forbid(unsafe_code)]

mod database;
mod inspect;
mod slow_disk;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use holdfast_lab::cli::LabArgs;
use holdfast_trace::cli::SimArgs;

/// Holdfast: a transactional storage engine whose cache cannot be washed out
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  holdfast lab sideload                     watch an LRU cache collapse beside a dump, and Holdfast not notice it
  holdfast lab sideload --quick --check     the same in under a minute; exit code 3 if a claim fails
  holdfast sim --frames 1000,5000 a.lis.gz  miss ratios of all policies over a page trace
  holdfast check data.hf                    is every page of the database what it should be?
  holdfast backup data.hf copy.hf

Exit codes:
  0  all is well
  1  it could not be done
  2  wrong arguments
  3  a claim of an experiment does not hold (with --check), or a check found damage";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the experiments that Holdfast exists to win
    Lab(LabArgs),
    /// Replay page traces through replacement policies, or generate traces
    Sim(SimArgs),
    /// Check every page of a database and what hangs together
    Check(database::CheckArgs),
    /// Show what a database holds: tables, files, log
    Stat(DirArgs),
    /// Copy a database into a new directory
    Backup(database::BackupArgs),
    /// Recover and check a backup, so that it can be opened at once
    Restore(DirArgs),
    /// Move pages to the front of their files and give the rest back to the file system
    Compact(DirArgs),
    /// Show one page
    DumpPage(inspect::PageArgs),
    /// Show the log from its checkpoint on
    DumpLog(inspect::LogArgs),
    /// Run a program as if a folder lay on a spinning disk
    SlowDisk(slow_disk::SlowDiskArgs),
}

/// A database.
#[derive(Debug, clap::Args)]
struct DirArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// What to tell the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Good,
    /// It was done, and the answer is bad news.
    Bad,
}

impl Outcome {
    fn good_if(good: bool) -> Outcome {
        if good { Outcome::Good } else { Outcome::Bad }
    }
}

fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Lab(args) => holdfast_lab::cli::run(&args).map(Outcome::good_if),
        Command::Sim(args) => holdfast_trace::cli::run(args).map(|()| Outcome::Good),
        Command::Check(args) => database::check(&args),
        Command::Stat(args) => database::stat(&args.dir).map(|()| Outcome::Good),
        Command::Backup(args) => database::backup(&args).map(|()| Outcome::Good),
        Command::Restore(args) => database::restore(&args.dir),
        Command::Compact(args) => database::compact(&args.dir).map(|()| Outcome::Good),
        Command::DumpPage(args) => inspect::page(&args),
        Command::SlowDisk(args) => slow_disk::run(&args).map(Outcome::good_if),
        Command::DumpLog(args) => inspect::log(&args),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(3),
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
