//! `overflow`: the active set a little larger than the pool.
//!
//! Published as lp:1631309 in 2016: sysbench oltp read-only, range size 1000, uniform, 1,000,000
//! rows (about 250 MB) in a pool of 128 MB, 8 to 40 threads. Percona Server 5.6.27 did 660 tps,
//! 5.6.28 36: the thread that refilled the free list slept between its passes and adapted the sleep
//! in steps of 50 ms.
//!
//! Here every pool size from 5 MB to twice the data is run with 1, 8 and 40 threads, on files past
//! the system's cache. Of each cell three figures are known without the engine: the misses of its
//! policy for the same references (simulated), the rate of the disk for that many threads that only
//! read, and the processor time of a read. One figure comes from the engine: the processor time of
//! a transaction. From these follows the bound `min(cores / CPU per transaction, device rate /
//! misses per transaction, threads / (CPU + misses x time of a read))`. The last term holds because
//! a thread cannot compute while it waits for its own read. The engine may lose a tenth against the
//! bound.

mod cell;
mod options;
mod price;
mod references;
pub mod servers;
pub(crate) mod sizes;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use self::cell::{BARE, Bench, Case, ENGINE, Limits, MISSES, OF_BOUND, SIDES, cores};
pub use self::options::Options;
pub(crate) use self::options::RANGE;
use self::options::SMALLEST;
use self::price::{PRICE, miss_us, ratio};
use self::references::PageMap;
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::{Chart, Grid, Line, Shown};
use crate::measure::{Figure, human, or_dash};
use crate::progress::Progress;
use crate::rig::control::PageLoop;
use crate::rig::site::{Settings, Site};
use crate::rig::tables::{Content, TableSpec};
use crate::server::turns::cell::{Cell, by_round, p99, tps};
use crate::server::turns::{self, Findings, Place};
use crate::subject::meters::Meter;
use crate::subject::{Series, Turn};

/// The results.
struct Outcome {
    data_bytes: u64,
    /// The price of a miss: a cell for each number of threads.
    prices: Vec<Cell>,
    cases: Vec<Case>,
    /// Charts of the pool that holds half of the data.
    half: Vec<Chart>,
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    progress.step("loading the table");
    progress.show(&format!("{} rows", options.rows));
    let kind = options.plan.files();
    let table = TableSpec { name: "sbtest", seed: options.plan.seed, content: Content::Sbtest(options.rows) };
    let site = Arc::new(Site::load(&kind, &[table], progress)?);
    let mut sides = SIDES.map(Series::new);
    let outcome = measure(&site, options, &mut sides, progress)?;
    let mut findings = findings(outcome, options, &sides);
    findings.settings["disk"] = kind.describe();
    Ok(findings.report(&options.plan, &sides))
}

fn measure(site: &Arc<Site>, options: &Options, sides: &mut [Series], progress: &mut Progress) -> Result<Outcome> {
    let file = site.file("sbtest").ok_or_else(|| anyhow!("the table has no file"))?;
    let db = site.open(&Settings::pool(64 << 20))?;
    let map = PageMap::read(&db, site.disk().as_ref(), "sbtest", file).context("map the pages of the table")?;
    let data_bytes = (map.pages() * db.cache_stats().0.page_size) as u64;
    db.close()?;
    let path = site.path().context("a real disk has a directory")?.join(file);
    let sizes = options.shares.iter().map(|share| ((data_bytes as f64 * share) as u64).max(SMALLEST));
    let mut pools: Vec<u64> = [SMALLEST].into_iter().chain(sizes).collect();
    pools.dedup();
    progress.plan(price::time(options) + cell::time(options) * pools.len() as u32);
    progress.step("the price of a miss");
    let page_bytes = 16 << 10;
    let frames = SMALLEST as usize / page_bytes;
    let bare = PageLoop { path: &path, page_bytes, direct: true, writes: None, frames, work_us: 0.0 };
    let prices = price::prices(site, options, &bare, progress)?;
    progress.did(price::time(options));
    let mut outcome = Outcome { data_bytes, prices, cases: Vec::new(), half: Vec::new() };
    let bench = Bench { site, options, map: &map, data_bytes, bare };
    for bytes in pools {
        let (cases, charts) = bench.pool(bytes, sides, progress)?;
        progress.did(cell::time(options));
        outcome.cases.extend(cases);
        if (bytes as f64 / data_bytes as f64 - 0.5).abs() < 0.01 {
            outcome.half = charts;
        }
    }
    Ok(outcome)
}

/// The cell, with what a document has of the engine alone.
fn document_cell(case: Case) -> Cell {
    let counted = json!({
        "pool_bytes": case.pool_bytes,
        "threads": case.limits.threads,
        "bound_tps": case.median(Limits::bound),
        "of_bound": case.median(Limits::of_bound),
        "of_bound_by_turn": case.each(Limits::of_bound),
        "misses_per_transaction": case.median(Limits::misses),
        "simulated_misses_per_transaction": case.limits.simulated,
        "cores": case.median(|_, round| cores(round)),
        "idle_share": case.idle(),
        "free_waits": case.free_waits(),
    });
    let mut cell = case.cell;
    cell.counted[ENGINE] = counted;
    cell
}

fn claims(outcome: &Outcome, options: &Options) -> Vec<Claim> {
    let mut claims = Vec::new();
    let tight = || outcome.cases.iter().filter(|c| c.pool_bytes < outcome.data_bytes);
    for (&threads, price) in options.threads.iter().zip(&outcome.prices) {
        let s = if threads == 1 { "" } else { "s" };
        let mut claim =
            |text: &str, of, bar| claims.push(Claim::worst(format!("{threads} thread{s}: {text}"), of, bar));
        let of = tight().filter(|c| c.limits.threads == threads).map(|c| c.each(Limits::misses_of_simulated));
        let of = of.filter(|rounds| !rounds.is_empty()).map(|rounds| Evidence::turns(&rounds)).collect();
        claim("misses as a share of the simulator's for the same references, worst pool", of, MISSES);
        let cases = outcome.cases.iter().filter(|c| c.limits.threads == threads);
        let of = cases.map(|c| Evidence::turns(&c.each(Limits::of_bound))).collect();
        claim("throughput as a share of what CPU and disk allow, worst pool", of, OF_BOUND);
        let of = vec![Evidence::turns(&by_round(&price.turns, ratio))];
        claim("CPU of a miss, as a multiple of a bare O_DIRECT read", of, PRICE);
    }
    claims.push(Claim::worst(
        "share of the frames that hold no page and are not taken for one, worst cell",
        tight().map(|c| Evidence::Once(c.idle())).collect(),
        Bar::AtMost(0.01),
    ));
    claims
}

fn findings(outcome: Outcome, options: &Options, sides: &[Series]) -> Findings {
    let what = format!(
        "sysbench oltp read-only with ranges of {RANGE} rows, uniform, on {} MB in pools of all sizes, past the system's cache",
        human(outcome.data_bytes as f64 / 1e6)
    );
    let published = "Published in 2016 for a pool of half the data: Percona Server 5.6.27 660 tps, 5.6.28 36 tps; re-tests 5.5 212, 5.6 4, rolled \
                     back 68, 5.7 46 to 239. Measured for this project at 8 threads with 58 % of the data in the pool: MariaDB 10.11 InnoDB 392 tps and \
                     13,400 reads/s of the 69,000 that the disk could give, about 40 us of CPU on each miss.";
    let words = format!("on files in {}", options.plan.dir.display());
    let charts = vec![
        ("Over the size of the pool".to_owned(), over_pools(&outcome, options)),
        ("Half the data in the pool, second by second".to_owned(), outcome.half.clone()),
    ];
    Findings {
        name: ("overflow", "The active set a little larger than the pool"),
        place: Place::embedded(&words, "a sync at every commit", Some(&options.plan.dir)),
        lead: (what, published.to_owned()),
        words: Vec::new(),
        settings: json!({
            "workload": "sysbench oltp_read_only",
            "range_size": RANGE,
            "distribution": "uniform",
            "rows": options.rows,
            "data_bytes": outcome.data_bytes,
            "threads": options.threads,
        }),
        grids: vec![cases_grid(&outcome), price_grid(&outcome.prices)],
        charts: [charts, turns::charts(sides)].concat(),
        claims: claims(&outcome, options),
        cells: outcome.cases.into_iter().map(document_cell).collect(),
    }
}

fn cases_grid(outcome: &Outcome) -> Grid {
    let note = "Bound: the least of cores / CPU per transaction, device rate / misses, threads / (CPU + misses x time of a read). \
                Bare reads: the device's rate, a loop in the same rounds. Cores: what sessions that only compute got just before. \
                Idle: frames without a page that are not taken for one. Medians of rounds.";
    let two = |of: Option<f64>| or_dash(of, |of| format!("{of:.2}"));
    let columns: [Shown<'_, Case>; 15] = [
        ("pool MB", &|c| human(c.pool_bytes as f64 / 1e6)),
        ("of data", &|c| format!("{:.2}", c.pool_bytes as f64 / outcome.data_bytes as f64)),
        ("threads", &|c| c.limits.threads.to_string()),
        ("TPS", &|c| c.shown(|_, r| tps(r[ENGINE]))),
        ("bound", &|c| c.shown(Limits::bound)),
        ("of bound", &|c| two(c.median(Limits::of_bound))),
        ("p99 ms", &|c| c.shown(|_, r| p99(r[ENGINE]))),
        ("bare reads/s", &|c| c.shown(|_, r| tps(r.get(BARE)?))),
        ("cores", &|c| two(c.median(|_, r| cores(r)))),
        ("CPU us/txn", &|c| c.shown(|_, r| r[ENGINE].cpu_us())),
        ("misses/txn", &|c| c.shown(Limits::misses)),
        ("simulated", &|c| human(c.limits.simulated)),
        ("ratio", &|c| or_dash(c.median(Limits::misses_of_simulated), |ratio| format!("{ratio:.3}"))),
        ("idle %", &|c| format!("{:.2}", c.idle() * 100.0)),
        ("waits for a frame", &|c| human(c.free_waits())),
    ];
    Grid::of("Every pool and number of threads", 0, &outcome.cases, &columns, note)
}

fn price_grid(prices: &[Cell]) -> Grid {
    let note = "Bare: pages of the table's file at random places, O_DIRECT, no engine. Misses: point selects in the smallest pool, \
                less what the same select costs with all data in the pool. In turns; medians.";
    let ratios = |r: Figure| format!("{:.2} ({:.2} to {:.2})", r.median, r.min, r.max);
    let shown = |cell: &Cell, side, of: fn(&Turn) -> Option<f64>| or_dash(cell.figure(side, of), |f| human(f.median));
    let columns: [Shown<'_, Cell>; 7] = [
        ("threads", &|c| c.name[0].clone()),
        ("bare reads/s", &|c| shown(c, price::BARE, tps)),
        ("CPU us/read", &|c| shown(c, price::BARE, Turn::cpu_us)),
        ("misses/s", &|c| shown(c, price::TIGHT, |t| t.values[Meter::Reads as usize])),
        ("CPU us/miss", &|c| or_dash(c.of_rounds(miss_us), human)),
        ("of a bare read", &|c| or_dash(Figure::of(&by_round(&c.turns, ratio)), ratios)),
        ("CPU us/hit", &|c| shown(c, price::ROOMY, Turn::cpu_us)),
    ];
    Grid::of("The price of a miss", 0, prices, &columns, note)
}

fn over_pools(outcome: &Outcome, options: &Options) -> Vec<Chart> {
    type Of<'a> = &'a dyn Fn(&Case) -> Option<f64>;
    let lines = |threads, [measured, reference]: [(&str, Of<'_>); 2]| {
        let line = |(name, y): (&str, Of<'_>)| {
            let cases = outcome.cases.iter().filter(|c| c.limits.threads == threads);
            Line::new(name, cases.filter_map(|c| Some((c.pool_bytes as f64 / 1e6, y(c)?))))
        };
        vec![line(measured), Line { dashed: true, ..line(reference) }]
    };
    let mut charts = Vec::new();
    for &n in &options.threads {
        let named = |what: &str| format!("{what}, {n} thread{}", if n == 1 { "" } else { "s" });
        let tps: [(&str, Of<'_>); 2] =
            [("TPS", &|c| c.median(|_, r| tps(r[ENGINE]))), ("bound", &|c| c.median(Limits::bound))];
        charts.push(Chart::over(&named("Throughput"), "MB of pool", "transactions per second", lines(n, tps)));
        let misses: [(&str, Of<'_>); 2] =
            [("measured", &|c| c.median(Limits::misses)), ("simulated", &|c| Some(c.limits.simulated))];
        charts.push(Chart::over(&named("Misses"), "MB of pool", "misses per transaction", lines(n, misses)));
    }
    charts
}
