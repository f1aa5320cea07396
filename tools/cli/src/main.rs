//! The `holdfast` command.
//!
//! Exit codes:
//!
//! - 0: success.
//! - 1: the command failed.
//! - 2: the arguments are wrong.
//! - 3: the command succeeded and reports a problem: a claim of an experiment cannot be told here,
//!   or none was judged, files are damaged (whichever command finds that), or a copy lacks a table.
//! - 4: a claim of an experiment fails.
//!
//! `slow-disk` ends with the code of the program that it runs.

#![forbid(unsafe_code)]

mod check;
mod database;
mod inspect;
mod outcome;
mod output;
mod slow_disk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use holdfast_lab::cli::LabArgs;
use holdfast_trace::cli::SimArgs;

use crate::outcome::Outcome;

/// Holdfast: a transactional storage engine whose cache a scan cannot wash out
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  holdfast lab sideload                     watch an LRU cache collapse beside a dump, and Holdfast not notice it
  holdfast lab sideload --quick --check     the same in under a minute; exit code 3 or 4 if a claim does not hold
  holdfast sim --frames 1000,5000 a.lis.gz  miss ratios of all policies over a page trace
  holdfast check data.hf                    is every page of the database what it should be?
  holdfast backup data.hf copy.hf

Exit codes:
  0  success
  1  the command failed
  2  wrong arguments
  3  a claim of an experiment cannot be told on this machine now, or none was judged (with --check),
     files are damaged, or a copy lacks a table
  4  a claim of an experiment fails (with --check)
slow-disk ends with the exit code of the program that it runs.";

const STAT: &str = "\
Nothing in the database is changed. One that was not closed is recovered in memory first.";

const RESTORE: &str = "\
Examples:
  cp -a backups/monday.hf data.hf && holdfast restore data.hf

The backup is recovered where it is: copy it to its place first. Exit code 3 if it is damaged; the message names the first damage.";

const COMPACT: &str = "\
The database must not be open elsewhere; a program that has it open calls `Database::compact`. The log gets no more space than it
has. Pages of large values stay where they are, and so does the first page (the root) of an index: a file is cut behind the last of
these. The root of an index that was added to a table lies behind the rows that the table had then: if most of them are deleted,
the file stays as long as they made it. A table that is copied into a new one, in MariaDB by OPTIMIZE TABLE, leaves all that behind.
Exit code 3 if a table is left out because it is damaged.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run experiments: Holdfast beside other cache policies and other engines
    Lab(LabArgs),
    /// Replay page traces through replacement policies, or generate traces
    Sim(SimArgs),
    /// Check every page of a database, and that pages, entries and rows fit each other
    Check(check::CheckArgs),
    /// Show the tables, files and log of a database
    #[command(after_help = STAT)]
    Stat(database::DirArgs),
    /// Copy a database into a new directory
    Backup(database::BackupArgs),
    /// Recover and check a backup, so that it can be opened at once
    #[command(after_help = RESTORE)]
    Restore(database::DirArgs),
    /// Move pages to the front of their files and give the rest back to the file system
    #[command(after_help = COMPACT)]
    Compact(database::DirArgs),
    /// Show one page
    DumpPage(inspect::PageArgs),
    /// Show the log from its checkpoint on
    DumpLog(inspect::LogArgs),
    /// Run a program as if a folder were on a spinning disk
    SlowDisk(slow_disk::SlowDiskArgs),
}

fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Lab(args) => holdfast_lab::cli::run(&args).map(Outcome::from),
        Command::Sim(args) => holdfast_trace::cli::run(args).map(|()| Outcome::Good),
        Command::Check(args) => check::check(&args),
        Command::Stat(args) => database::stat(&args).map(|()| Outcome::Good),
        Command::Backup(args) => database::backup(&args),
        Command::Restore(args) => check::restore(&args),
        Command::Compact(args) => database::compact(&args),
        Command::DumpPage(args) => inspect::page(&args),
        Command::SlowDisk(args) => slow_disk::run(&args).map(Outcome::Program),
        Command::DumpLog(args) => inspect::log(&args),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(3),
        Ok(Outcome::Fails) => ExitCode::from(4),
        Ok(Outcome::Program(code)) => ExitCode::from(code),
        Err(error) if is_reader_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("holdfast: {}", output::message(&error)));
            if is_damage(&error) { ExitCode::from(3) } else { ExitCode::FAILURE }
        }
    }
}

/// True if a listing ended because its reader closed the pipe.
fn is_reader_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// True if the command failed because of damaged files.
fn is_damage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<holdfast::Error>().is_some_and(holdfast::Error::is_damage)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
