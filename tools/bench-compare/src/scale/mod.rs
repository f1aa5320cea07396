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
mod options;
mod place;
mod table;
mod verdicts;

use anyhow::Context;
use holdfast_lab::claims::Verdict;
use holdfast_lab::conditions::{Conditions, Watch};
use holdfast_lab::document::write_json;
use holdfast_lab::machine::Machine;
use serde::Serialize;
use serde_json::json;

use crate::engines;
use cells::Cell;
pub use options::Options;
use options::{check, doubling};

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
        Some(verdicts) => print!("\n{}", holdfast_lab::answers::verdicts(verdicts)),
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
