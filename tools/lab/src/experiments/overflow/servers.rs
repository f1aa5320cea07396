//! `overflow` on private servers: sysbench's read-only transaction with ranges of 1,000 rows in
//! pools from a quarter of the data to twice the data, with 1, 8 and 40 clients, Holdfast and
//! InnoDB in turns at equal total memory.
//!
//! InnoDB keeps `innodb_lru_scan_depth` pages free. Here that number shrinks with the pool, so that
//! its share of the pool is the published one.
//!
//! On a server that the user names the pool is the server's own. There the table is larger, the
//! clients read only its first rows, and the active set changes.

use std::time::Duration;

use anyhow::{Context, Result};
use mysql::prelude::Queryable;
use serde_json::json;

use super::options::{Options, RANGE};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::{Chart, Grid, Line};
use crate::measure::{human, or_dash};
use crate::progress::Progress;
use crate::server::contender::SMALLEST;
use crate::server::data::SCHEMA;
use crate::server::load::Oltp;
use crate::server::turns::cell::{Asked, Cell, Column, Judged, Of, grid, p95, tps};
use crate::server::turns::running::{OnServer, There};
use crate::server::turns::side::{Data, Settings, Side};
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};

/// The rows of the published table: InnoDB's reserve of free pages shrinks in the same proportion.
const PUBLISHED_ROWS: f64 = 1e6;
/// The cell with a bar of its own: half of the data in the pool, and 8 clients.
const HALF: (f64, usize) = (0.5, 8);
/// The bar of that cell, and that of all others, as shares of InnoDB's throughput.
const BARS: (Bar, Bar) = (Bar::AtLeast(1.3), Bar::AtLeast(1.0));

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    let cache = turns::equip(progress)?;
    let plan = &options.plan;
    let mut sides = turns::sides(&cache, plan)?;
    let mut cells = Vec::new();
    let data_bytes = measure(options, &mut sides, &mut cells, progress)?;
    let mut findings = findings(options, Place::private(), data_bytes, cells, &sides);
    for table in &mut findings.grids {
        memory_columns(table, &findings.cells, &sides);
    }
    Ok(findings.report(plan, &sides))
}

/// Bytes of a row when the table is made. The real size is queried afterwards.
const ROW_BYTES: f64 = 230.0;

impl OnServer for Options {
    fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    fn settings(&self) -> Settings {
        let most = self.shares.iter().copied().fold(1.0, f64::min);
        let pool_bytes = ((f64::from(self.rows) * ROW_BYTES * most) as u64).max(SMALLEST);
        Settings { pool_bytes, ..Settings::default() }
    }

    fn run_there(&mut self, there: There<'_>, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Findings> {
        let options = self;
        let most = options.shares.iter().copied().reduce(f64::min).context("there is a share")?;
        let pool = there.pool_bytes(1.0 / most, &options.plan)?;
        options.rows = (pool as f64 / most / ROW_BYTES) as u32;
        let plan = &options.plan;
        let mut row_bytes = ROW_BYTES;
        for side in sides.iter_mut() {
            progress.step(&format!("making a table of {} rows", options.rows));
            side.make_tables(Data::Sbtest(options.rows), plan.seed, progress)?;
            row_bytes = column_of_tables(side, "data_length")? as f64 / f64::from(options.rows);
        }
        progress.plan(time(options, sides.len()));
        let mut cells = Vec::new();
        // The smallest active set first: otherwise pages that do not fit would have to be evicted
        // first.
        for &share in options.shares.iter().rev() {
            let rows = ((pool as f64 / share / row_bytes) as u32).clamp(RANGE, options.rows);
            let work = |threads| work(rows, threads, plan.seed);
            Cell::warm_up(sides, &work(WARMERS), plan.turn * WARM_UP, progress)?;
            for &threads in &options.threads {
                let asked = Asked { name: &[&pool_name(share), &threads.to_string()], judged: &[] };
                cells.push(Cell::measure(asked, sides, &work(threads), plan, progress)?);
            }
        }
        let words = in_words(&cells, options);
        let data_bytes = (row_bytes * f64::from(options.rows)) as u64;
        Ok(Findings { words, ..findings(options, there.place, data_bytes, cells, sides) })
    }
}

/// Sentences on the throughput with a small pool, as a share of that with the largest, for every
/// number of clients.
fn in_words(cells: &[Cell], options: &Options) -> Vec<String> {
    let figure = |share: f64, threads: usize, of: Of<'_>| {
        let name = [pool_name(share), threads.to_string()];
        Some(cells.iter().find(|c| c.name == name)?.figure(0, of)?.median)
    };
    let roomy = options.shares.iter().copied().fold(0.0, f64::max);
    let tight = options.shares.iter().copied().fold(f64::INFINITY, f64::min);
    let words = |&threads: &usize| {
        let tps = |share| figure(share, threads, &|t| Some(t.tps()));
        let reads = figure(tight, threads, &|t| t.values[Meter::Reads as usize])?;
        let waits = figure(tight, threads, &|t| t.values[Meter::FreeWaits as usize]).filter(|&w| w >= 1.0);
        let waits = waits.map_or_else(String::new, |w| format!(", and {} waits for a free page", human(w)));
        Some(format!(
            "{threads} client{}: with a pool of {tight} of the active set throughput is {:.1} % of that with {roomy}, at {} pages read per second{waits}.",
            if threads == 1 { "" } else { "s" },
            tps(tight)? / tps(roomy)? * 100.0,
            human(reads)
        ))
    };
    options.threads.iter().filter_map(words).collect()
}

fn findings(options: &Options, place: Place, data_bytes: u64, cells: Vec<Cell>, sides: &[Side<'_>]) -> Findings {
    let columns: [Column<'_>; 4] = [
        ("TPS", &|t| Some(t.tps())),
        ("p95 ms", &p95),
        ("CPU us/txn", &Turn::cpu_us),
        ("pages read/txn", &|t| t.per_transaction(Meter::Reads)),
    ];
    let what = format!(
        "sysbench oltp_read_only with ranges of {RANGE} rows, uniform, on {} MB",
        human(data_bytes as f64 / 1e6)
    );
    let published = "Published in 2016 for a pool of half the data: Percona Server 5.6.27 660 tps, 5.6.28 36 tps. Measured for this project at 8 \
                     threads with 58 % of the data in the pool: MariaDB 10.11 InnoDB 392 tps and 13,400 reads/s of the 69,000 that the disk could \
                     give.";
    let reserve = match place.pool_bytes {
        None => format!("1536 divided by {:.1}, at least 100", size(options)),
        Some(_) => "as it is".to_owned(),
    };
    Findings {
        name: ("overflow", "The active set a little larger than the pool"),
        lead: (what, published.to_owned()),
        words: Vec::new(),
        settings: json!({
            "workload": "sysbench oltp_read_only",
            "range_size": RANGE,
            "distribution": "uniform",
            "rows": options.rows,
            "data_bytes": data_bytes,
            "pools_of_data": options.shares,
            "clients": options.threads,
            "pool_bytes": place.pool_bytes,
            "innodb_lru_scan_depth": reserve,
        }),
        grids: vec![grid("Every pool and number of clients", &["pool", "clients"], sides, &columns, &cells)],
        charts: [
            vec![("Over the size of the pool".to_owned(), over_pools(options, &cells, sides))],
            turns::charts(sides),
        ]
        .concat(),
        claims: claims(&cells, sides),
        place,
        cells,
    }
}

fn bar(share: f64, threads: usize) -> Bar {
    if (share, threads) == HALF { BARS.0 } else { BARS.1 }
}

fn size(options: &Options) -> f64 {
    PUBLISHED_ROWS / f64::from(options.rows)
}

/// Fills `cells`. Returns the bytes of the data.
fn measure(options: &Options, sides: &mut [Side<'_>], cells: &mut Vec<Cell>, progress: &mut Progress) -> Result<u64> {
    let plan = &options.plan;
    let mut settings = Settings { pool_bytes: 64 << 20, size: size(options), ..Settings::default() };
    let mut data_bytes = 0;
    for side in sides.iter_mut() {
        side.load(Data::Sbtest(options.rows), plan.seed, progress)?;
        side.start(&settings)?;
        data_bytes = data_bytes.max(column_of_tables(side, "data_length + index_length")?);
        side.stop()?;
    }
    progress.plan(time(options, sides.len()));
    for &share in &options.shares {
        settings.pool_bytes = ((data_bytes as f64 * share) as u64).max(SMALLEST);
        turns::with_servers(sides, &settings, |sides| {
            let pool = pool_name(share);
            let work = |threads| work(options.rows, threads, plan.seed);
            Cell::warm_up(sides, &work(WARMERS), plan.turn * WARM_UP, progress)?;
            for &threads in &options.threads {
                let judged = Judged::against_others(sides, tps, bar(share, threads));
                let asked = Asked { name: &[&pool, &threads.to_string()], judged: &judged };
                cells.push(Cell::measure(asked, sides, &work(threads), plan, progress)?);
            }
            Ok(())
        })?;
    }
    Ok(data_bytes)
}

/// Clients of the warm-up, and its turns.
const WARMERS: usize = 8;
const WARM_UP: u32 = 2;

/// The longest time of the cells of so many sides.
fn time(options: &Options, sides: usize) -> Duration {
    let plan = &options.plan;
    let a_share = plan.turn * WARM_UP * sides as u32 + plan.cell(sides) * options.threads.len() as u32;
    a_share * options.shares.len() as u32
}

fn work(rows: u32, threads: usize, seed: u64) -> Oltp {
    let mut work = Oltp::read_only(rows, SCHEMA, threads, seed);
    work.asked.push(format!("--range-size={RANGE}"));
    work
}

fn pool_name(share: f64) -> String {
    format!("{share} of the data")
}

/// The sum of a column over the tables.
fn column_of_tables(side: &mut Side<'_>, column: &str) -> Result<u64> {
    let sql = format!(
        "SELECT CAST(SUM({column}) AS UNSIGNED) FROM information_schema.tables WHERE table_schema = '{SCHEMA}'"
    );
    Ok(side.conn()?.query_first::<u64, _>(sql)?.unwrap_or(0))
}

/// Adds the memory of the servers' processes, to show that it is equal.
fn memory_columns(table: &mut Grid, cells: &[Cell], sides: &[Side<'_>]) {
    table.header.extend(sides.iter().map(|side| format!("MB of memory, {}", side.name())));
    for (row, cell) in table.rows.iter_mut().zip(cells) {
        row.extend(cell.memory_mb.iter().map(|mb| or_dash(*mb, human)));
    }
}

fn claims(cells: &[Cell], sides: &[Side<'_>]) -> Vec<Claim> {
    let half = [pool_name(HALF.0), HALF.1.to_string()];
    let mut claims = Vec::new();
    for judged in Judged::against_others(sides, tps, BARS.0) {
        let other = sides[judged.to].name();
        let at_half = cells.iter().find(|c| c.name == half).map_or(Evidence::Nothing, |c| judged.evidence(c));
        let text = format!("half the data in the pool, {} clients: TPS of Holdfast, as a share of {other}'s", HALF.1);
        claims.push(Claim::new(text, at_half, BARS.0));
        let others = cells.iter().filter(|c| c.name != half).map(|c| judged.evidence(c)).collect();
        let text = format!("TPS of Holdfast, as a share of {other}'s, worst of the other cells");
        claims.push(Claim::worst(text, others, BARS.1));
    }
    claims
}

fn over_pools(options: &Options, cells: &[Cell], sides: &[Side<'_>]) -> Vec<Chart> {
    let chart = |threads: &usize| {
        let at = |share: &f64| cells.iter().find(|c| c.name == [pool_name(*share), threads.to_string()]);
        let line = |(n, side): (usize, &Side<'_>)| {
            let point = |share: &f64| Some((*share, at(share)?.figure(n, |t| Some(t.tps()))?.median));
            Line::new(side.name(), options.shares.iter().filter_map(point))
        };
        let title = format!("Throughput, {threads} client{}", if *threads == 1 { "" } else { "s" });
        let lines = sides.iter().enumerate().map(line).collect();
        Chart::over(&title, "pool, of the data", "transactions per second", lines)
    };
    options.threads.iter().map(chart).collect()
}
