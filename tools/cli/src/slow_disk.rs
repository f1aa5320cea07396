//! `holdfast slow-disk`: any program on a modelled spinning disk.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use holdfast_slowdisk::Disk;
use holdfast_testkit::DiskModel;

use crate::output::note;

/// The longest time to move the arm.
const LONGEST_SEEK_US: u64 = 60_000_000;

/// `holdfast slow-disk`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  holdfast slow-disk --dir data -- sysbench fileio run
  holdfast slow-disk --dir data --while slow -- mariadbd --datadir=data

What waits for the disk is pread, pwrite, fsync and their relatives, as databases use them; read, write and mmap do not.
Ends with the exit code of the program, or with 128 and the number of the signal that killed it; with 1 if the program cannot be
started, or this system does not let it be supervised. Afterwards the requests to the disk are printed on standard error.")]
pub struct SlowDiskArgs {
    /// The folder whose files are on the modelled disk
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Time to move the arm, in microseconds
    #[arg(long, default_value_t = 8000, value_name = "US", value_parser = clap::value_parser!(u64).range(..=LONGEST_SEEK_US))]
    seek_us: u64,
    /// Bytes per second
    #[arg(long, default_value_t = 100_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    bytes_per_second: u64,
    /// The disk is slow only while this file exists
    #[arg(long = "while", value_name = "FILE")]
    switch: Option<PathBuf>,
    /// Cores on which the disk is modelled, so that the model takes no time from the program
    /// [default: the program's]
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the program. Returns its exit code; 128 and the number of the signal if one killed it.
pub fn run(args: &SlowDiskArgs) -> anyhow::Result<u8> {
    anyhow::ensure!(!args.dir.is_file(), "{} is no folder", args.dir.display());
    let (program, arguments) = args.command.split_first().context("no program is named")?;
    let model = DiskModel { seek: Duration::from_micros(args.seek_us), bytes_per_second: args.bytes_per_second };
    let disk = Disk { folder: &args.dir, model, switch: args.switch.as_deref(), cpus: &args.cpus };
    let (status, traffic) = holdfast_slowdisk::run(Command::new(program).args(arguments), &disk)?;
    let holdfast_slowdisk::Traffic { reads, writes, syncs, seeks } = traffic;
    note(&format!("{}: {reads} reads, {writes} writes, {syncs} syncs, {seeks} seeks", args.dir.display()));
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
