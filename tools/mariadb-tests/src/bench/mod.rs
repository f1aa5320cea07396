//! Holdfast beside InnoDB: sysbench's workloads in memory, in turns, in one server process.
//!
//! Both engines have a pool that holds all data, write past the page cache and have the same
//! durability. A pair is a short slice on one engine and one on the other, in an order that changes
//! from pair to pair. Before each slice the server is idle again, so that neither engine pays for
//! work that the other has deferred. The result is the ratio within a pair.
//!
//! By default the server and its clients have a processor each, and there is no binary log. With
//! `--cores` they divide all processors, ten sixteenths to the server; the files are in memory;
//! each durability is measured without the binary log and with it, on a server that starts empty.

mod plan;
mod report;
mod sysbench;

use std::time::{Duration, Instant};

use anyhow::Context;
use holdfast_server::{Cache, Server, apt};

use super::pairs::{Engine, on_both, one_pair};
pub use plan::Options;
use plan::{Plan, Terms};
use report::{Bars, Cell, NotMeasured, Report};
use sysbench::{Sysbench, schema};

const PORT: u16 = 13366;
/// Beyond the clients: this program's own connections.
const CONNECTIONS_BESIDE: usize = 100;

/// Runs the comparison and prints it.
pub fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    let plan = Plan::new(options)?;
    if !options.as_is() {
        apt::fetch_sysbench(cache)?;
    }
    let dir = plan.dir();
    let server = Server::new(cache, &dir).bound_to_us();
    let (mut reports, mut not_measured) = (Vec::new(), Vec::new());
    for (n, &terms) in plan.terms.iter().enumerate() {
        if plan.is_over() {
            let all =
                |workload: &String| NotMeasured { terms, workload: workload.clone(), threads: plan.threads.clone() };
            not_measured.extend(plan.workloads.iter().map(all));
            continue;
        }
        server.up(PORT, true, &server_options(&plan, &terms))?;
        let result = measure(&server, &plan, terms, plan.terms.len() - n);
        server.down()?;
        let report = result?;
        not_measured.extend(report.not_measured(&plan));
        reports.push(report);
    }
    if plan.in_memory {
        server.remove()?;
    }
    report::publish(&plan, &reports, &not_measured, options.json())
}

/// Equal terms, as far as there are settings for them.
fn server_options(plan: &Plan, terms: &Terms) -> Vec<String> {
    let connections = plan.threads.iter().max().copied().unwrap_or_default() + CONNECTIONS_BESIDE;
    let mut options = vec![format!("--max-connections={connections}"), "--performance-schema=OFF".into()];
    if terms.binary_log {
        options.extend(["--log-bin=binlog", "--binlog-format=ROW", "--server-id=1"].map(String::from));
        options.push(format!("--sync-binlog={}", u8::from(terms.flush == 1)));
    } else {
        options.push("--skip-log-bin".into());
    }
    options.extend(on_both(&[
        format!("buffer-pool-size={}", plan.pool),
        format!("log-file-size={}", plan.log),
        format!("flush-log-at-trx-commit={}", terms.flush),
        "flush-method=O_DIRECT".into(),
    ]));
    options
}

/// Measures under these terms, the first of `terms_left`.
fn measure(server: &Server<'_>, plan: &Plan, terms: Terms, terms_left: usize) -> anyhow::Result<Report> {
    let pid = server.pid()?;
    sysbench::pin(pid, &plan.server_cores)?;
    let sysbench = Sysbench::new(server, plan, pid);
    for engine in Engine::ALL {
        server.query(&format!("CREATE DATABASE {}", schema(engine)))?;
        sysbench.prepare(engine)?;
    }
    let version = server.query("SELECT VERSION()")?;
    let mut report = Report { version, terms, tables: plan.tables, bars: Bars::of(plan.cores), cells: Vec::new() };
    for (at, workload) in plan.workloads.iter().enumerate() {
        let parts = terms_left * plan.workloads.len() - at;
        for (n, &threads) in plan.affordable(parts).iter().enumerate() {
            if plan.is_over() {
                break;
            }
            let cell = one_cell(&sysbench, plan, workload, threads, n == 0 || !plan.divides_cores)
                .with_context(|| format!("{workload} at {threads} threads"))?;
            eprintln!("{}{}", cell.line(), plan.left());
            report.cells.push(cell);
        }
        if terms.binary_log {
            // It would fill the memory.
            server.query("RESET MASTER")?;
        }
    }
    Ok(report)
}

fn one_cell(
    sysbench: &Sysbench<'_>,
    plan: &Plan,
    workload: &str,
    threads: usize,
    warm_up: bool,
) -> anyhow::Result<Cell> {
    let begun = Instant::now();
    let slice = |engine| sysbench.slice(engine, workload, threads, Duration::from_secs(plan.seconds));
    if warm_up {
        // Not counted.
        Engine::ALL.into_iter().try_for_each(|engine| slice(engine).map(drop))?;
    }
    let pairs = (0..plan.pairs).map(|pair| one_pair(pair, slice)).collect::<anyhow::Result<Vec<_>>>()?;
    plan.note(begun.elapsed());
    Ok(Cell::new(workload, threads, &pairs))
}
