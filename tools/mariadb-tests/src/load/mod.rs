//! Fills a table, Holdfast beside InnoDB: `ALTER TABLE ... ENGINE`, and the import of a dump of
//! `mariadb-dump`.
//!
//! One server has both engines, with the same pool, which does not hold the table, the same log,
//! O_DIRECT and the same durability, and no binary log. The rows come from a MyISAM table, which
//! costs both engines the same to read; the dump is made of it. A pair is a load into one engine
//! and one into the other, in an order that changes from pair to pair. Before each load the server
//! is idle, with the source in the system's cache. The result is the ratio within a pair of the
//! times until the statement, or the client, is done.

mod report;
mod source;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use holdfast_server::{Cache, Server};

use super::pairs::{Engine, PATIENCE, on_both, one_pair, processor_time, publish, settle};
use report::{Cell, Report, Slice};
use source::{Source, Way};

const PORT: u16 = 13376;

#[derive(Args)]
pub struct Options {
    /// Size of the table's rows
    #[arg(long, default_value_t = 2048)]
    mib: u64,
    /// Pairs of loads in each cell
    #[arg(long, default_value_t = 3)]
    pairs: usize,
    /// The pool of each engine
    #[arg(long, default_value = "512M")]
    pool: String,
    /// The log of each engine
    #[arg(long, default_value = "512M")]
    log: String,
    /// Durability of both engines: a commit waits until the log is synced (1), until it is written
    /// (2), or for nothing (0)
    #[arg(long, default_value_t = 1)]
    flush: u8,
    /// The result as JSON: in place of the table, or into this file beside it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "-", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Which; `alter` and `import` if none is named
    ways: Vec<Way>,
}

/// Runs the comparison and prints it.
pub fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    let ways = if options.ways.is_empty() { vec![Way::Alter, Way::Import] } else { options.ways.clone() };
    ensure!(options.pairs > 1, "a spread takes two pairs or more");
    let server = Server::new(cache, "load").bound_to_us();
    server.up(PORT, true, &server_options(options))?;
    let result = measure(cache, &server, options, &ways);
    if result.is_err() {
        eprintln!("log of the server:\n{}", server.log_tail());
    }
    server.down()?;
    // It is gigabytes.
    server.remove()?;
    let report = result?;
    publish(&report.markdown(), &report.json(), options.json.as_deref())
}

/// Equal terms, as far as there are settings for them.
fn server_options(options: &Options) -> Vec<String> {
    let mut all = vec!["--skip-log-bin".to_string(), "--performance-schema=OFF".into()];
    all.extend(on_both(&[
        format!("buffer-pool-size={}", options.pool),
        format!("log-file-size={}", options.log),
        format!("flush-log-at-trx-commit={}", options.flush),
        "flush-method=O_DIRECT".into(),
    ]));
    all
}

fn measure(cache: &Cache, server: &Server<'_>, options: &Options, ways: &[Way]) -> anyhow::Result<Report> {
    let pid = server.pid()?;
    eprintln!("making the source of {} MiB", options.mib);
    let source = Source::make(cache, server, options.mib)?;
    let mut cells = Vec::new();
    for &way in ways {
        source.prepare(way)?;
        let mut pairs = Vec::new();
        for pair in 0..options.pairs {
            let slice = |engine| {
                let slice = one_load(&source, way, engine, pid).with_context(|| format!("{way:?} into {engine:?}"))?;
                eprintln!(
                    "{} {}/{} {}: {:.1} s, {:.1} s of the server's processors",
                    name(way),
                    pair + 1,
                    options.pairs,
                    engine.name(),
                    slice.seconds,
                    slice.server_seconds
                );
                Ok(slice)
            };
            pairs.push(one_pair(pair, slice)?);
        }
        cells.push(Cell::new(name(way), source.bytes(), &pairs));
    }
    Ok(Report {
        version: server.query("SELECT VERSION()")?,
        rows: source.rows(),
        bytes: source.bytes(),
        pool: options.pool.clone(),
        log: options.log.clone(),
        flush: options.flush,
        cells,
    })
}

/// The way as the user names it.
fn name(way: Way) -> &'static str {
    match way {
        Way::Alter => "alter",
        Way::Import => "import",
        Way::ImportAtOnce => "import-at-once",
    }
}

/// One load into a new table, which is checked and dropped.
fn one_load(source: &Source<'_>, way: Way, engine: Engine, pid: u32) -> anyhow::Result<Slice> {
    source.set_out(way, engine)?;
    settle(pid, PATIENCE)?;
    let (before, begun) = (processor_time(pid)?, Instant::now());
    source.load(way, engine)?;
    let seconds = begun.elapsed();
    settle(pid, PATIENCE)?;
    let used: Duration = processor_time(pid)? - before;
    source.check_and_drop(engine)?;
    Ok(Slice { seconds: seconds.as_secs_f64(), server_seconds: used.as_secs_f64() })
}
