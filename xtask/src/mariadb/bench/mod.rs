//! Holdfast beside InnoDB: sysbench's workloads in memory, in turns, in one server process.
//!
//! Both engines have a pool that holds all data, write past the page cache and have the same
//! durability; there is no binary log. The server and its clients have a processor each. A pair is
//! a short slice on one engine and one on the other, in an order that changes from pair to pair.
//! Before each slice the server is idle again, so that neither engine pays for work that the other
//! has deferred. The result is the ratio within a pair.

mod report;
mod sysbench;

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use holdfast_server::{Cache, Server, apt};

use super::pairs::{Engine, on_both, one_pair};
use report::{Cell, Report};
use sysbench::Sysbench;

const PORT: u16 = 13366;
const POOL: &str = "512M";
const LOG: &str = "512M";

/// The schema with an engine's tables.
fn schema(engine: Engine) -> &'static str {
    match engine {
        Engine::Holdfast => "bench_holdfast",
        Engine::InnoDb => "bench_innodb",
    }
}

/// The workloads, in an order in which those that let the tables grow come last.
const WORKLOADS: [&str; 6] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_update_non_index",
    "oltp_update_index",
    "oltp_read_write",
    "oltp_insert",
];

#[derive(Args)]
pub struct Options {
    /// Pairs of slices in each cell
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Seconds of a slice
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    threads: Vec<usize>,
    /// Durability of both engines: a commit waits until the log is synced (1), until it is written
    /// (2), or for nothing (0)
    #[arg(long, default_value_t = 2)]
    flush: u8,
    /// Tables, and rows of each
    #[arg(long, default_value = "4x100000", value_parser = tables_and_rows)]
    tables: (u32, u32),
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// Which; all of sysbench's six if none is named
    workloads: Vec<String>,
}

fn tables_and_rows(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('x').and_then(|(tables, rows)| Some((tables.parse().ok()?, rows.parse().ok()?)));
    parts.ok_or_else(|| format!("`{text}` is not like 4x100000"))
}

/// Runs the comparison and prints it.
pub fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    let workloads: Vec<&str> = match options.workloads.as_slice() {
        [] => WORKLOADS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    ensure!(options.pairs > 1, "a spread takes two pairs or more");
    apt::fetch_sysbench(cache)?;
    let server = Server::new(cache, "bench").bound_to_us();
    server.up(PORT, true, &server_options(options.flush))?;
    let result = measure(&server, options, &workloads);
    server.down()?;
    let report = result?;
    println!("{}", if options.json { report.json()? } else { report.markdown() });
    Ok(())
}

/// Equal terms, as far as there are settings for them.
fn server_options(flush: u8) -> Vec<String> {
    let mut options =
        vec!["--skip-log-bin".to_string(), "--max-connections=200".into(), "--performance-schema=OFF".into()];
    options.extend(on_both(&[
        format!("buffer-pool-size={POOL}"),
        format!("log-file-size={LOG}"),
        format!("flush-log-at-trx-commit={flush}"),
        "flush-method=O_DIRECT".into(),
    ]));
    options
}

fn measure(server: &Server<'_>, options: &Options, workloads: &[&str]) -> anyhow::Result<Report> {
    let pid = server.pid()?;
    sysbench::pin(pid, 0)?;
    let sysbench = Sysbench::new(server, options.tables);
    for engine in Engine::ALL {
        server.query(&format!("CREATE DATABASE {}", schema(engine)))?;
        sysbench.prepare(engine)?;
    }
    let mut cells = Vec::new();
    for workload in workloads {
        for &threads in &options.threads {
            let slice = |engine| sysbench.slice(engine, workload, threads, Duration::from_secs(options.seconds), pid);
            // The first ones warm the caches up and are not counted.
            Engine::ALL.into_iter().try_for_each(|engine| slice(engine).map(drop))?;
            let pairs = (0..options.pairs).map(|pair| one_pair(pair, slice)).collect::<anyhow::Result<Vec<_>>>();
            let cell =
                Cell::new(workload, threads, &pairs.with_context(|| format!("{workload} at {threads} threads"))?);
            eprintln!("{}", cell.line());
            cells.push(cell);
        }
    }
    Ok(Report { version: server.query("SELECT VERSION()")?, flush: options.flush, tables: options.tables, cells })
}
