//! How operations scale with threads, on Holdfast and its peers.
//!
//! Each operation is a transaction of its own. Each engine is a process of its own, so that the
//! processor time and the context switches of its background threads are counted with those of its
//! sessions. The engines take short turns, in another order each time; the processes whose turn it
//! is not are stopped by a signal, so that work that an engine has deferred falls into its own
//! turns.
//!
//! ```text
//! for each operation and mode: one turn of each engine to warm up, then
//!     for each of the turns: for each number of threads: for each engine
//! ```
//!
//! A figure is the median of its turns; the times of one thread are those within a turn.

mod cells;
mod child;
mod measure;
mod operation;
mod place;
mod table;
mod verdicts;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast_lab::claims::Verdict;
use holdfast_lab::conditions::{Conditions, Watch};
use holdfast_lab::document::write_json;
use holdfast_lab::machine::Machine;
use serde::Serialize;
use serde_json::json;

use crate::engines::{self, Durability};
use cells::Cell;
use operation::Operation;

/// Rows below which a range of 100 and the hot rows would be most of the data.
const LEAST_ROWS: u64 = 1_000;

/// Measures how operations scale with threads
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Engines to run
    #[arg(long, value_delimiter = ',', default_value = "holdfast,lmdb,rocksdb,redb")]
    engines: Vec<String>,
    /// Operations to measure
    #[arg(long, value_delimiter = ',', default_value = "get,hot,range,put,rmw,append,mix")]
    operations: Vec<Operation>,
    /// What a commit waits for
    #[arg(long, value_delimiter = ',', default_value = "lazy,write,sync")]
    modes: Vec<Durability>,
    /// Rows of 100 bytes
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
    /// Numbers of threads; the default doubles from 1 to 4 times the cores
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Turns of each cell
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Length of a turn, in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// End within this many seconds: turns become shorter, and then fewer
    #[arg(long)]
    within: Option<u64>,
    /// Where the files are (removed afterwards); the default is memory if there is room for them
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the figures to this file, every turn included
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw throughput by threads into this SVG file
    #[arg(long)]
    picture: Option<PathBuf>,
    /// Be the process of this engine (used by the program itself)
    #[arg(long, hide = true)]
    child: Option<String>,
}

/// The result, as `--json` writes it.
#[derive(Serialize)]
struct Result {
    experiment: &'static str,
    machine: Machine,
    conditions: Conditions,
    settings: serde_json::Value,
    cells: Vec<Cell>,
    /// Absent where the machine is too small for the bars.
    verdicts: Option<Vec<Verdict>>,
}

/// Runs the measurement, or one engine's part of it.
pub fn run(mut options: Options) -> anyhow::Result<()> {
    if let Some(engine) = &options.child {
        return child::serve(engine, &options);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if options.threads.is_empty() {
        options.threads = doubling(4 * cores);
    }
    check(&options)?;
    let place = place::Place::new(options.dir.as_deref(), &options)?;
    println!("{}", place.says());
    options.dir = Some(place.dir().to_path_buf());
    let watch = Watch::start();
    let measured = measure::run(&mut options)?;
    let conditions = watch.conditions();
    let machine = Machine::this(Some(place.dir()));
    drop(place);
    let verdicts = verdicts::of(&measured, machine.cores, &conditions);
    print!("{}", table::all(&measured, &options, table::width()));
    println!("\n{conditions}");
    match &verdicts {
        Some(verdicts) => print!("\n{}", holdfast_lab::text::verdicts(verdicts)),
        None => println!("\n{}", verdicts::cannot_tell(machine.cores)),
    }
    if let Some(file) = &options.picture {
        let drawn = table::picture(&measured, &options, &machine).svg();
        std::fs::write(file, drawn).with_context(|| format!("could not write {}", file.display()))?;
    }
    if let Some(file) = &options.json {
        let settings = settings(&options);
        write_json(&Result { experiment: "scale", machine, conditions, settings, cells: measured, verdicts }, file)?;
    }
    Ok(())
}

fn settings(options: &Options) -> serde_json::Value {
    let modes: serde_json::Map<_, _> =
        options.engines.iter().map(|engine| (engine.clone(), engines::modes(engine).into())).collect();
    json!({
        "rows": options.rows, "threads": options.threads, "turns": options.turns, "seconds": options.seconds,
        "modes_of_engines": modes,
    })
}

fn check(options: &Options) -> anyhow::Result<()> {
    ensure!(options.rows >= LEAST_ROWS, "--rows is {}, and takes {LEAST_ROWS} or more", options.rows);
    ensure!(options.turns > 0, "--turns is 0, and takes 1 or more");
    ensure!(Duration::try_from_secs_f64(options.seconds).is_ok_and(|t| !t.is_zero()), "--seconds is not a length");
    ensure!(!options.threads.contains(&0), "--threads has a 0, and takes numbers of 1 or more");
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
fn doubling(last: usize) -> Vec<usize> {
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
            ("--threads 0,2", "has a 0"),
            ("--engines sqlite", "`sqlite` is not measured"),
        ] {
            assert!(refused(args).contains(what), "{args}: {}", refused(args));
        }
    }
}
