//! What is measured, and on which processors.

use std::cell::Cell as Shared;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;

use crate::pairs;

/// What is measured if the options do not say otherwise.
struct Defaults {
    /// In an order in which those that let the tables grow come last, and behind them the one that
    /// empties them.
    workloads: &'static [&'static str],
    threads: &'static [usize],
    flush: &'static [u8],
    binary_log: &'static [bool],
    tables: (u32, u32),
    pairs: usize,
    seconds: u64,
    pool: &'static str,
    log: &'static str,
    patience: Duration,
}

/// With a processor each for the server and its clients.
const ALONE: Defaults = Defaults {
    workloads: &[
        "oltp_point_select",
        "oltp_read_only",
        "oltp_update_non_index",
        "oltp_update_index",
        "oltp_read_write",
        "oltp_insert",
    ],
    threads: &[1, 4, 16],
    flush: &[2],
    binary_log: &[false],
    tables: (4, 100_000),
    pairs: 7,
    seconds: 3,
    pool: "512M",
    log: "512M",
    patience: pairs::PATIENCE,
};

/// With all processors.
const ALL_CORES: Defaults = Defaults {
    workloads: &[
        "oltp_point_select",
        "oltp_read_only",
        "oltp_update_index",
        "oltp_update_non_index",
        "oltp_read_write",
        "oltp_insert",
        "oltp_write_only",
        "oltp_delete",
    ],
    threads: &[1, 8, 16, 32, 64, 256],
    flush: &[2, 1],
    binary_log: &[false, true],
    tables: (8, 250_000),
    pairs: 3,
    seconds: 2,
    pool: "4G",
    log: "2G",
    patience: Duration::from_secs(2),
};

/// Of sixteen processors the server has ten.
const SERVER_SIXTEENTHS: usize = 10;

const MEMORY: &str = "/dev/shm";
/// A name of its own, so that the next run removes what a killed one has left.
const FOLDER: &str = "holdfast-mariadb-bench";

#[derive(Args)]
pub struct Options {
    /// Divide all processors, ten sixteenths for the server and the rest for sysbench; files in
    /// memory, commits of 2 and 1, without and with the binary log, up to 256 connections
    #[arg(long)]
    cores: bool,
    /// Pairs of slices in each cell [default: 7, with --cores 3]
    #[arg(long)]
    pairs: Option<usize>,
    /// Seconds of a slice [default: 3, with --cores 2]
    #[arg(long)]
    seconds: Option<u64>,
    /// Numbers of connections, those first that are measured if the time does not suffice for all
    /// [default: 1,4,16, with --cores 1,8,16,32,64,256]
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Durability of both engines: a commit waits until the log is synced (1), until it is written
    /// (2), or for nothing (0) [default: 2, with --cores 2,1]
    #[arg(long, value_delimiter = ',')]
    flush: Vec<u8>,
    /// The binary log: off, on [default: off, with --cores off,on]
    #[arg(long, value_delimiter = ',', value_parser = on_or_off)]
    binary_log: Vec<bool>,
    /// Tables, and rows of each [default: 4x100000, with --cores 8x250000]
    #[arg(long, value_parser = tables_and_rows)]
    tables: Option<(u32, u32)>,
    /// End within about this many seconds. It is divided among the terms of a commit, then among
    /// the workloads; the numbers of connections that it does not suffice for are not measured
    #[arg(long)]
    within: Option<u64>,
    /// The result as JSON: in place of the table, or into this file beside it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "-", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Use the server and the engine that are there; build and fetch nothing
    #[arg(long)]
    as_is: bool,
    /// Which; all if none is named
    workloads: Vec<String>,
}

impl Options {
    pub fn as_is(&self) -> bool {
        self.as_is
    }

    /// Where JSON goes; `-` is standard output.
    pub fn json(&self) -> Option<&Path> {
        self.json.as_deref()
    }
}

fn tables_and_rows(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('x').and_then(|(tables, rows)| Some((tables.parse().ok()?, rows.parse().ok()?)));
    parts.ok_or_else(|| format!("`{text}` is not like 4x100000"))
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `on` nor `off`")),
    }
}

/// The terms of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub flush: u8,
    pub binary_log: bool,
}

impl Terms {
    pub fn says(&self) -> String {
        let log = if self.binary_log { "with the binary log" } else { "no binary log" };
        format!("flush_log_at_trx_commit={} on both, {log}", self.flush)
    }
}

/// What is measured.
pub struct Plan {
    pub divides_cores: bool,
    pub workloads: Vec<String>,
    pub threads: Vec<usize>,
    pub terms: Vec<Terms>,
    pub tables: (u32, u32),
    pub pairs: usize,
    pub seconds: u64,
    /// Of each engine.
    pub pool: &'static str,
    pub log: &'static str,
    /// Processors, as `taskset` takes them.
    pub server_cores: String,
    pub client_cores: String,
    /// How many these are together.
    pub cores: usize,
    pub in_memory: bool,
    /// How sysbench chooses rows, if not by its default.
    pub rows_are: Option<&'static str>,
    pub patience: Duration,
    deadline: Option<Instant>,
    /// Cells that are done, and the time that they took.
    done: Shared<(u32, Duration)>,
}

impl Plan {
    pub fn new(options: &Options) -> anyhow::Result<Plan> {
        let all = options.cores;
        let defaults = if all { ALL_CORES } else { ALONE };
        let workloads: Vec<String> = defaults.workloads.iter().map(|&name| name.into()).collect();
        let flush = given(&options.flush, defaults.flush);
        let binary_log = given(&options.binary_log, defaults.binary_log);
        let terms =
            binary_log.iter().flat_map(|&binary_log| flush.iter().map(move |&flush| Terms { flush, binary_log }));
        let allowed = if all { allowed()? } else { vec![0, 1] };
        let (server_cores, client_cores) = divide(&allowed);
        let pairs = options.pairs.unwrap_or(defaults.pairs);
        ensure!(pairs > 1, "a spread takes two pairs or more");
        Ok(Plan {
            divides_cores: all,
            workloads: given(&options.workloads, &workloads).to_vec(),
            threads: given(&options.threads, defaults.threads).to_vec(),
            terms: terms.collect(),
            tables: options.tables.unwrap_or(defaults.tables),
            pairs,
            seconds: options.seconds.unwrap_or(defaults.seconds),
            pool: defaults.pool,
            log: defaults.log,
            server_cores,
            client_cores,
            cores: allowed.len(),
            in_memory: all && Path::new(MEMORY).is_dir(),
            rows_are: all.then_some("uniform"),
            patience: defaults.patience,
            deadline: options.within.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            done: Shared::default(),
        })
    }

    /// The server's folder, in the cache or by its full path.
    pub fn dir(&self) -> String {
        if self.in_memory { format!("{MEMORY}/{FOLDER}") } else { "bench".into() }
    }

    /// True if the time does not suffice for another cell.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() + self.cell() > deadline)
    }

    /// The numbers of connections that the time suffices for: an equal part of it for each of
    /// `parts` that are left, this one among them. One is tried in any case.
    pub fn affordable(&self, parts: usize) -> &[usize] {
        let Some(deadline) = self.deadline else { return &self.threads };
        let mine = deadline.saturating_duration_since(Instant::now()) / parts.max(1) as u32;
        let cells = (mine.as_secs_f64() / self.cell().as_secs_f64()) as usize;
        &self.threads[..cells.clamp(1, self.threads.len())]
    }

    /// What a cell takes: those that are done, or its slices, for each of which the clients start
    /// and the server becomes idle.
    fn cell(&self) -> Duration {
        const BESIDE_A_SLICE: Duration = Duration::from_millis(600);
        match self.done.get() {
            (0, _) => (Duration::from_secs(self.seconds) + BESIDE_A_SLICE) * 2 * self.pairs as u32,
            (cells, spent) => spent / cells,
        }
    }

    /// A cell is done.
    pub fn note(&self, took: Duration) {
        let (cells, spent) = self.done.get();
        self.done.set((cells + 1, spent + took));
    }

    /// How long the rest takes, as the end of a line.
    pub fn left(&self) -> String {
        let (cells, _) = self.done.get();
        let all = self.terms.len() * self.workloads.len() * self.threads.len();
        let rest = self.cell() * (all as u32).saturating_sub(cells);
        let rest = self.deadline.map_or(rest, |deadline| rest.min(deadline.saturating_duration_since(Instant::now())));
        format!(" {cells} of {all} cells, about {} s left", rest.as_secs())
    }
}

/// What was given, or the default.
fn given<'a, T>(given: &'a [T], default: &'a [T]) -> &'a [T] {
    if given.is_empty() { default } else { given }
}

/// The processors that this process may use.
fn allowed() -> anyhow::Result<Vec<usize>> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc has no status of this process")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut allowed = listed(list.context("the status has no processors")?.trim()).context("the list is not one")?;
    allowed.truncate(std::thread::available_parallelism()?.get());
    Ok(allowed)
}

/// The server's processors and the clients'. With one both have the same.
fn divide(allowed: &[usize]) -> (String, String) {
    let text = |some: &[usize]| some.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let server = (allowed.len() * SERVER_SIXTEENTHS / 16).clamp(1, allowed.len().max(1));
    match allowed.split_at_checked(server) {
        Some((server, clients)) if !clients.is_empty() => (text(server), text(clients)),
        _ => (text(allowed), text(allowed)),
    }
}

/// The numbers of a list like `0-3,8`.
fn listed(text: &str) -> Option<Vec<usize>> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        out.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(out)
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

    /// The plan of these arguments.
    pub fn plan(args: &str) -> Plan {
        Plan::new(&Program::parse_from(["bench"].into_iter().chain(args.split_whitespace())).options).unwrap()
    }

    #[test]
    fn the_server_has_ten_of_sixteen_processors() {
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(divide(&all), ("0,1,2,3,4,5,6,7,8,9".into(), "10,11,12,13,14,15".into()));
        assert_eq!(divide(&[3, 5]), ("3".into(), "5".into()));
        assert_eq!(divide(&[0]), ("0".into(), "0".into()));
        assert_eq!(listed("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(listed("x"), None);
    }

    #[test]
    fn settings_that_are_not_given_depend_on_the_measurement() {
        let alone = plan("");
        assert_eq!((alone.terms.as_slice(), alone.pairs), (&[Terms { flush: 2, binary_log: false }][..], 7));
        assert_eq!((alone.workloads.len(), alone.server_cores.as_str(), alone.in_memory), (6, "0", false));
        let cores = plan("--cores");
        assert_eq!((cores.workloads.len(), cores.threads.len(), cores.terms.len()), (8, 6, 4));
        let some = plan("--cores --flush 1 --binary-log on --threads 8 --pairs 2 oltp_insert");
        assert_eq!(some.terms, [Terms { flush: 1, binary_log: true }]);
        assert_eq!((some.workloads.as_slice(), some.threads.as_slice()), (&["oltp_insert".to_string()][..], &[8][..]));
    }

    #[test]
    fn a_cell_that_would_end_too_late_is_not_begun() {
        let plan = plan("--cores --within 60");
        assert!(!plan.is_over());
        plan.note(Duration::from_secs(90));
        assert!(plan.is_over() && plan.left().contains("1 of 192 cells"));
    }

    #[test]
    fn what_the_time_does_not_suffice_for_is_left_out_of_each_part() {
        assert_eq!(plan("--cores --threads 64,16,1").affordable(1000), [64, 16, 1], "there is time");
        let plan = plan("--cores --threads 64,16,1 --within 1000 --pairs 2 --seconds 4");
        assert_eq!(plan.affordable(10), [64, 16, 1]);
        assert_eq!((plan.affordable(25), plan.affordable(10_000)), (&[64, 16][..], &[64][..]));
        plan.note(Duration::from_secs(30));
        assert_eq!(plan.affordable(10), [64, 16, 1]);
        assert_eq!(plan.affordable(20), [64], "a cell takes longer than its slices");
    }
}
