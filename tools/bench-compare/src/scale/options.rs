//! What is measured, and how often.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use super::operation::Operation;
use crate::data::MOST_ROWS;
use crate::engines::{self, Durability};

/// Rows below which a range of 100 and the hot rows would be most of the data.
const LEAST_ROWS: u64 = 1_000;
/// The most threads, the most turns, and the longest one.
const MOST_THREADS: usize = 16_384;
const MOST_TURNS: usize = 10_000;
const LONGEST: Duration = Duration::from_secs(3600);

/// Measures how operations scale with threads
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Engines to run
    #[arg(long, value_delimiter = ',', default_value = "holdfast,lmdb,rocksdb,redb")]
    pub engines: Vec<String>,
    /// Operations to measure
    #[arg(long, value_delimiter = ',', default_value = "get,hot,range,put,rmw,append,mix")]
    pub operations: Vec<Operation>,
    /// What a commit waits for
    #[arg(long, value_delimiter = ',', default_value = "lazy,write,sync")]
    pub modes: Vec<Durability>,
    /// Rows of 100 bytes
    #[arg(long, default_value_t = 2_000_000)]
    pub rows: u64,
    /// Numbers of threads; the default doubles from 1 to 4 times the cores
    #[arg(long, value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Turns of each cell
    #[arg(long, default_value_t = 5)]
    pub turns: usize,
    /// Length of a turn, in seconds
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// End within this many seconds: turns become shorter, and then fewer
    #[arg(long)]
    pub within: Option<u64>,
    /// Where the files are (removed afterwards); the default is memory if there is room for them
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Write the figures to this file, every turn included
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draw throughput by threads into this SVG file
    #[arg(long)]
    pub picture: Option<PathBuf>,
    /// Be the process of this engine (used by the program itself)
    #[arg(long, hide = true)]
    pub child: Option<String>,
}

/// Refuses settings that make no sense.
pub fn check(options: &Options) -> anyhow::Result<()> {
    ensure!(
        (LEAST_ROWS..=MOST_ROWS).contains(&options.rows),
        "--rows is {}, and takes {LEAST_ROWS} to {MOST_ROWS}",
        options.rows
    );
    ensure!((1..=MOST_TURNS).contains(&options.turns), "--turns is {}, and takes 1 to {MOST_TURNS}", options.turns);
    ensure!(
        Duration::try_from_secs_f64(options.seconds).is_ok_and(|t| !t.is_zero() && t <= LONGEST),
        "--seconds is not a length of up to an hour"
    );
    ensure!(
        options.threads.iter().all(|n| (1..=MOST_THREADS).contains(n)),
        "--threads takes numbers from 1 to {MOST_THREADS}"
    );
    ensure!(options.threads.is_sorted_by(|a, b| a < b), "--threads are not in ascending order");
    for engine in &options.engines {
        ensure!(
            !engines::modes(engine).is_empty(),
            "`{engine}` is not measured; there are holdfast, lmdb, rocksdb, redb"
        );
    }
    Ok(())
}

/// 1, 2, 4 ... up to `last`.
pub fn doubling(last: usize) -> Vec<usize> {
    std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n <= last).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    /// Parses these arguments.
    pub fn parsed(args: &str) -> anyhow::Result<Options> {
        Ok(Program::try_parse_from(["scale"].into_iter().chain(args.split_whitespace()))?.options)
    }

    fn checked(args: &str) -> anyhow::Result<Options> {
        let options = parsed(args)?;
        check(&options).map(|()| options)
    }

    #[test]
    fn threads_double() {
        assert_eq!(doubling(8), [1, 2, 4, 8]);
        assert_eq!(doubling(12), [1, 2, 4, 8]);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        assert!(checked("--threads 1,2,4 --modes lazy --operations put,hot").is_ok());
        let refused = |args: &str| checked(args).err().map(|e| e.to_string()).unwrap_or_default();
        for (args, what) in [
            ("--rows 10", "--rows is 10"),
            ("--turns 0", "--turns"),
            ("--seconds nan", "--seconds"),
            ("--threads 4,2", "ascending"),
            ("--threads 0,2", "from 1 to 16384"),
            ("--threads 18446744073709551615", "from 1 to 16384"),
            ("--rows 18446744073709551615", "--rows is 18446744073709551615"),
            ("--turns 18446744073709551615", "--turns is 18446744073709551615"),
            ("--seconds 1e18", "--seconds"),
            ("--engines sqlite", "`sqlite` is not measured"),
        ] {
            assert!(refused(args).contains(what), "{args}: {}", refused(args));
        }
    }
}
