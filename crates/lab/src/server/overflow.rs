//! `overflow` on private servers: sysbench's read-only transaction with ranges of 1,000 rows in pools from a quarter of the data to
//! twice the data, with 1, 8 and 40 clients, Holdfast beside InnoDB in turns at equal total memory.
//!
//! InnoDB keeps free what `innodb_lru_scan_depth` says; that shrinks with the pool here, as the published share of it does.

use anyhow::Result;
use mysql::prelude::Queryable;
use serde_json::json;

use super::data::SCHEMA;
use super::load::Oltp;
use super::turns::cell::{Cell, Column, grid, p95};
use super::turns::meters::Meter;
use super::turns::side::{Data, Settings, Side, Turn};
use super::turns::{self, Findings, Plan};
use crate::document::{Bar, Document, Verdict};
use crate::experiments::overflow::RANGE;
use crate::figures::{Chart, Grid, Line};
use crate::measure::human;
use crate::progress::Progress;

/// Everything that can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// Rows of the table.
    pub rows: u32,
    /// Pools, as shares of the data.
    pub shares: Vec<f64>,
    /// Clients.
    pub threads: Vec<usize>,
}

/// Rows of the published table: InnoDB's reserve of free pages shrinks as the table does.
const PUBLISHED_ROWS: f64 = 1e6;
/// What the smallest pool of either engine is not below.
const SMALLEST: u64 = 6 << 20;
/// The cell with a bar of its own: half of the data in the pool, and 8 clients.
const HALF: (f64, usize) = (0.5, 8);
/// The bar there, and that of all others, of InnoDB's throughput.
const BARS: (f64, f64) = (1.3, 1.0);

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If packages cannot be had, a server does not come up, or a client fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let cache = turns::equip(progress)?;
    let plan = &options.plan;
    let mut sides = turns::sides(&cache, plan)?;
    let mut cells = Vec::new();
    let data_bytes = measure(options, &mut sides, &mut cells, progress)?;
    let columns: [Column<'_>; 4] = [
        ("TPS", &|t| Some(t.tps())),
        ("p95 ms", &p95),
        ("server's CPU us/txn", &Turn::cpu_us),
        ("pages read/txn", &|t| t.per_transaction(Meter::Reads)),
    ];
    let mut table = grid("Every pool and number of clients", &["pool", "clients"], &sides, &columns, &cells);
    memory_columns(&mut table, &cells, &sides);
    let findings = Findings {
        name: ("overflow-mariadb", "The active set a little larger than the pool, on a server"),
        target: "mariadb",
        lead: format!(
            "sysbench oltp_read_only with ranges of {RANGE} rows, uniform, on {} MB, on private servers in turns. Published in 2016 for a pool of half the \
             data: Percona Server 5.6.27 660 tps, 5.6.28 36 tps. Measured for this project at 8 threads with 58 % of the data in the pool: \
             MariaDB 10.11 InnoDB 392 tps and 13,400 reads/s of the 69,000 that the disk could give.",
            human(data_bytes as f64 / 1e6)
        ),
        settings: json!({
            "workload": "sysbench oltp_read_only",
            "range_size": RANGE,
            "distribution": "uniform",
            "rows": options.rows,
            "data_bytes": data_bytes,
            "pools_of_data": options.shares,
            "clients": options.threads,
            "innodb_lru_scan_depth": format!("1536 divided by {:.1}, at least 100", size(options)),
        }),
        grids: vec![table],
        charts: vec![
            ("Over the size of the pool".to_owned(), over_pools(options, &cells, &sides)),
            ("Second by second".to_owned(), turns::charts(&sides)),
        ],
        verdicts: verdicts(&cells, &sides),
        cells,
    };
    Ok(findings.report(plan, &sides))
}

fn size(options: &Options) -> f64 {
    PUBLISHED_ROWS / f64::from(options.rows)
}

/// Fills `cells`; returns the bytes of the data.
fn measure(options: &Options, sides: &mut [Side<'_>], cells: &mut Vec<Cell>, progress: &mut Progress) -> Result<u64> {
    let plan = &options.plan;
    let mut settings = Settings { pool_bytes: 64 << 20, size: size(options), ..Settings::default() };
    let mut data_bytes = 0;
    for side in sides.iter_mut() {
        side.load(Data::Sbtest(options.rows), plan.seed, progress)?;
        side.start(&settings)?;
        data_bytes = data_bytes.max(bytes_of_data(side)?);
        side.stop()?;
    }
    let mut seed = plan.seed;
    for &share in &options.shares {
        settings.pool_bytes = ((data_bytes as f64 * share) as u64).max(SMALLEST);
        for side in sides.iter_mut() {
            side.start(&settings)?;
        }
        let pool = pool_name(share);
        // Every cell has references of its own: what another one left in the pool is no help.
        let mut work = |threads| {
            seed += 100;
            work(options, threads, seed)
        };
        Cell::warm_up(sides, &work(WARMERS), plan.turn * 2, progress)?;
        for &threads in &options.threads {
            cells.push(Cell::measure(&[&pool, &threads.to_string()], sides, &work(threads), plan, progress)?);
        }
        for side in sides.iter_mut() {
            side.stop()?;
        }
    }
    Ok(data_bytes)
}

/// Clients of the warm-up.
const WARMERS: usize = 8;

fn work(options: &Options, threads: usize, seed: u64) -> Oltp {
    let mut work = Oltp::read_only(options.rows, SCHEMA, threads, seed);
    work.asked.push(format!("--range-size={RANGE}"));
    work
}

fn pool_name(share: f64) -> String {
    format!("{share} of the data")
}

/// Bytes of the tables, indexes included.
fn bytes_of_data(side: &mut Side<'_>) -> Result<u64> {
    let sql = format!(
        "SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables WHERE table_schema = '{SCHEMA}'"
    );
    Ok(side.conn()?.query_first::<u64, _>(sql)?.unwrap_or(0))
}

/// What the servers' processes have in memory, all of it: whether the memory is equal.
fn memory_columns(table: &mut Grid, cells: &[Cell], sides: &[Side<'_>]) {
    table.header.extend(sides.iter().map(|side| format!("MB of memory, {}", side.name)));
    for (row, cell) in table.rows.iter_mut().zip(cells) {
        row.extend(cell.memory_mb.iter().map(|mb| mb.map_or_else(|| "-".to_owned(), human)));
    }
}

fn verdicts(cells: &[Cell], sides: &[Side<'_>]) -> Vec<Verdict> {
    let half = [pool_name(HALF.0), HALF.1.to_string()];
    let mut verdicts = Vec::new();
    for (other, side) in sides.iter().enumerate().skip(1) {
        let tps = |c: &Cell| Some(c.ratio(0, other, |t| Some(t.tps()))?.median);
        let at_half = cells.iter().find(|c| c.name == half).and_then(tps);
        let claim = format!("half the data in the pool, {} clients: TPS of Holdfast, of {}'s", HALF.1, side.name);
        verdicts.push(Verdict::new(claim, at_half, Bar::AtLeast(BARS.0)));
        let worst = cells.iter().filter(|c| c.name != half).filter_map(tps).reduce(f64::min);
        let claim = format!("TPS of Holdfast, of {}'s, worst of the other cells", side.name);
        verdicts.push(Verdict::new(claim, worst, Bar::AtLeast(BARS.1)));
    }
    verdicts
}

fn over_pools(options: &Options, cells: &[Cell], sides: &[Side<'_>]) -> Vec<Chart> {
    let chart = |threads: &usize| {
        let at = |share: &f64| cells.iter().find(|c| c.name == [pool_name(*share), threads.to_string()]);
        let line = |(n, side): (usize, &Side<'_>)| {
            let point = |share: &f64| Some((*share, at(share)?.figure(n, |t| Some(t.tps()))?.median));
            Line { name: side.name.clone(), points: options.shares.iter().filter_map(point).collect(), dashed: false }
        };
        let title = format!("Throughput, {threads} client{}", if *threads == 1 { "" } else { "s" });
        let lines = sides.iter().enumerate().map(line).collect();
        Chart::over(&title, "pool, of the data", "transactions per second", lines)
    };
    options.threads.iter().map(chart).collect()
}
