//! The parent: starts the children, hands out the work round robin, prints the table.

use std::process::Command;

use anyhow::Context;
use holdfast_lab::conditions::Watch;
use holdfast_lab::document::write_json;
use holdfast_lab::machine::Machine;
use holdfast_lab::measure::human;

use crate::cgroup::Cgroup;
use crate::child::{Reply, Request, Work};
use crate::engines;
use crate::fio::Fio;
use crate::folder::Folder;
use crate::options::Options;
use crate::process::{self, Process};
use crate::table::{self, Row};

/// Begins the names of the folders with databases.
const NAME: &str = "holdfast-compare-";

/// Why a cell is empty whose engine needs more memory than it may have: a result, no failure.
const OVER_LIMIT: &str = "exceeds the memory limit";

struct Peer {
    name: String,
    process: Process,
    cgroup: Option<Cgroup>,
}

impl Peer {
    fn start(name: &str, options: &Options) -> anyhow::Result<Peer> {
        let cgroup = match Cgroup::new(name, options.memory_mib << 20) {
            Ok(cgroup) => Some(cgroup),
            Err(why) => {
                eprintln!("{name}: runs without a memory limit: {why}");
                None
            }
        };
        // The shell moves itself into the cgroup, then becomes the child: all its memory is
        // counted.
        let join = cgroup.as_ref().map_or(":".to_string(), Cgroup::join_command);
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{join} && exec \"$0\" \"$@\""))
            .arg(process::own_program()?)
            .args(["--child", name])
            .args(["--memory-mib", &options.memory_mib.to_string(), "--rows", &options.rows.to_string()])
            .args(["--large-rows", &options.large_rows().to_string()])
            .arg("--dir")
            .arg(&options.dir);
        let process = Process::start(&mut command).with_context(|| format!("could not start the child for {name}"))?;
        Ok(Peer { name: name.to_string(), process, cgroup })
    }

    /// Operations per second, and per second of processor time, or what the child said went wrong.
    fn ask(&mut self, request: &Request) -> Result<(f64, f64), String> {
        let reply: Reply = self.process.exchange(request).map_err(|error| match &self.cgroup {
            Some(cgroup) if cgroup.has_killed() => OVER_LIMIT.to_owned(),
            _ => format!("{error:#}"),
        })?;
        let operations = reply.operations as f64;
        match reply.error {
            Some(error) => Err(error),
            None => Ok((operations / reply.seconds, operations / reply.cpu_seconds)),
        }
    }

    fn stop(self) {
        self.process.end();
    }
}

/// Runs everything and prints the table.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let watch = Watch::start();
    let folder = Folder::new(&options.dir, NAME)?;
    let options = &Options { dir: folder.path().to_owned(), ..options.clone() };
    let mut columns = options.engines.clone();
    columns.push("fio".to_string());
    let mut rows = Vec::new();

    let mut peers: Vec<Peer> =
        options.engines.iter().map(|name| Peer::start(name, options)).collect::<anyhow::Result<_>>()?;
    rows.push(load(&mut peers, false, &format!("bulk load of {} rows", options.rows)));
    let in_memory = [
        ("random point reads in memory, 1 thread", Work::Get, 1),
        ("random point reads in memory, 2 threads", Work::Get, 2),
        ("100-row range scans in memory, 1 thread", Work::Range, 1),
        ("read-modify-write, 8 threads", Work::ReadModifyWrite, 8),
        ("durable commits, 1 thread", Work::DurableCommit, 1),
        ("durable commits, 8 threads", Work::DurableCommit, 8),
        ("durable commits, 32 threads", Work::DurableCommit, 32),
    ];
    for (name, work, threads) in in_memory {
        let measured = measure(&mut peers, None, name, work, threads, options);
        rows.push(measured.per_second());
        if matches!(work, Work::Get | Work::Range) {
            rows.push(measured.per_processor_second());
        }
    }

    rows.push(load(&mut peers, true, &format!("bulk load of {} rows (4x the memory)", options.large_rows())));
    let fio = Fio::new(&options.dir, options.large_rows() * crate::data::ROW_BYTES)?;
    for threads in [1, 8] {
        let name = format!("random point reads, 4x the memory, {threads} threads");
        rows.push(measure(&mut peers, fio.as_ref(), &name, Work::Get, threads, options).per_second());
    }
    let name = "100-row range scans, 4x the memory, 1 thread";
    rows.push(measure(&mut peers, None, name, Work::Range, 1, options).per_second());

    let machine = Machine::this(Some(&options.dir));
    peers.into_iter().for_each(Peer::stop);
    drop((fio, folder));
    let mut text = table::markdown(&columns, &rows);
    text.push_str(&format!(
        "\nMemory limit {} MiB each; {} slices of {} ms; ",
        options.memory_mib, options.repeats, options.slice_ms
    ));
    text.push_str("medians, ± half the range.\n\n");
    for name in &options.engines {
        text.push_str(&format!("- {name}: {}\n", engines::setup(name)));
    }
    println!("\n{text}");
    if let Some(file) = &options.markdown {
        std::fs::write(file, &text).with_context(|| format!("could not write {}", file.display()))?;
    }
    if let Some(file) = &options.json {
        let settings = serde_json::json!({
            "memory_mib": options.memory_mib, "rows": options.rows, "repeats": options.repeats,
            "slice_ms": options.slice_ms,
        });
        let result = serde_json::json!({
            "experiment": "compare", "machine": machine, "conditions": watch.conditions(),
            "settings": settings, "rows": table::cells(&columns, &rows),
        });
        write_json(&result, file)?;
    }
    let cells = rows.iter().flat_map(|row| &row.cells);
    let failed = cells.filter(|cell| cell.as_ref().is_err_and(|why| why != OVER_LIMIT)).count();
    anyhow::ensure!(failed == 0, "{failed} cells failed; the table says why");
    Ok(())
}

fn load(peers: &mut [Peer], large: bool, name: &str) -> Row {
    let mut cells = Vec::new();
    for peer in peers {
        let cell = peer.ask(&Request::Load { large }).map(|(rate, _)| vec![rate]);
        match &cell {
            Ok(rate) => eprintln!("{name}: {}: {} rows/s", peer.name, human(rate[0])),
            Err(why) => eprintln!("{name}: {}: {why}", peer.name),
        }
        cells.push(cell);
    }
    eprintln!("{name}: done");
    cells.push(Ok(Vec::new()));
    Row { name: name.to_string(), cells }
}

/// One cell's samples: operations per second, and per second of processor time.
type Cell = Result<Vec<(f64, f64)>, String>;

/// Runs all slices of a workload, and the yardstick's, round robin.
fn measure(
    peers: &mut [Peer],
    fio: Option<&Fio>,
    name: &str,
    work: Work,
    threads: usize,
    options: &Options,
) -> Measured {
    let mut cells: Vec<Cell> = vec![Ok(Vec::new()); peers.len() + 1];
    // The first round warms caches up and is not counted.
    for round in 0..=options.repeats {
        eprint!("{name}: round {round} of {}:", options.repeats);
        for (peer, cell) in peers.iter_mut().zip(&mut cells) {
            let request = Request::Slice { work, threads, millis: options.slice_ms, seed: round as u64 };
            let rates = peer.ask(&request);
            eprint!(" {} {}", peer.name, rates.as_ref().map_or("failed".to_string(), |(rate, _)| human(*rate)));
            note(cell, rates, round);
        }
        if let (Some(fio), Some(cell)) = (fio, cells.last_mut()) {
            let rate = fio.reads_per_second(threads, options.slice_ms).map_err(|error| format!("{error:#}"));
            note(cell, rate.map(|rate| (rate, rate)), round);
        }
        eprintln!();
    }
    Measured { name: name.to_string(), cells }
}

fn note(cell: &mut Cell, rates: Result<(f64, f64), String>, round: usize) {
    match (rates, &mut *cell) {
        (Err(why), _) => *cell = Err(why),
        (Ok(rates), Ok(samples)) if round > 0 => samples.push(rates),
        _ => {}
    }
}

struct Measured {
    name: String,
    cells: Vec<Cell>,
}

impl Measured {
    fn row(&self, name: String, which: fn(&(f64, f64)) -> f64) -> Row {
        let cells = self.cells.iter().map(|cell| Ok(cell.as_ref()?.iter().map(which).collect()));
        Row { name, cells: cells.map(|cell: Result<_, &String>| cell.map_err(String::clone)).collect() }
    }

    fn per_second(&self) -> Row {
        self.row(self.name.clone(), |rates| rates.0)
    }

    /// For work that waits for nothing: what the machine's other work does not change.
    fn per_processor_second(&self) -> Row {
        self.row(format!("{}, per second of processor time", self.name), |rates| rates.1)
    }
}
