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

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use self::cell::{Bench, Cell, MISSES, OF_BOUND, Size, Turn};
pub use self::options::Options;
pub(crate) use self::options::RANGE;
use self::options::SMALLEST;
use self::price::{PRICE, Price};
use self::references::PageMap;
use crate::claims::{Bar, Claim, Evidence};
use crate::document::{Document, Run};
use crate::figures::{Chart, Figures, Grid, Line, Shown};
use crate::machine::Machine;
use crate::measure::{Figure, human, median, or_dash};
use crate::progress::Progress;
use crate::rig::control::PageLoop;
use crate::rig::site::{Settings, Site};
use crate::rig::tables::{Content, TableSpec};
use crate::target::EMBEDDED;

/// The results.
struct Outcome {
    data_bytes: u64,
    prices: Vec<Price>,
    cells: Vec<Cell>,
    charts: Vec<Chart>,
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    progress.step("loading the table");
    progress.show(&format!("{} rows", options.rows));
    let kind = options.plan.files();
    let table = TableSpec { name: "sbtest", seed: options.plan.seed, content: Content::Sbtest(options.rows) };
    let site = Site::load(&kind, &[table])?;
    let outcome = measure(&site, options, progress)?;
    let machine = Machine::this(Some(&options.plan.dir));
    let settings = json!({
        "workload": "sysbench oltp_read_only",
        "range_size": RANGE,
        "distribution": "uniform",
        "rows": options.rows,
        "data_bytes": outcome.data_bytes,
        "threads": options.threads,
        "turn_s": options.plan.turn.as_secs_f64(),
        "disk": kind.describe(),
        "seed": options.plan.seed,
    });
    let mut document = Document::new("overflow", settings, machine);
    document.title = "The active set a little larger than the pool".to_owned();
    document.runs = outcome.cells.iter().map(document_run).collect();
    document.claims = claims(&outcome, options);
    Ok(document.with_figures(figures(&outcome)))
}

fn measure(site: &Site, options: &Options, progress: &mut Progress) -> Result<Outcome> {
    let file = site.file("sbtest").ok_or_else(|| anyhow!("the table has no file"))?.to_owned();
    let db = site.open(&Settings::pool(64 << 20))?;
    let map = PageMap::read(&db, site.disk().as_ref(), "sbtest", &file).context("map the pages of the table")?;
    let data_bytes = (map.pages() * db.cache_stats().0.page_size) as u64;
    db.close()?;
    let path = site.path().context("a real disk has a directory")?.join(&file);
    let mut outcome = Outcome { data_bytes, prices: Vec::new(), cells: Vec::new(), charts: Vec::new() };
    progress.step("the price of a miss");
    let page_bytes = 16 << 10;
    let frames = SMALLEST as usize / page_bytes;
    let bare = PageLoop { path: &path, page_bytes, direct: true, writes: None, frames, work_us: 0.0 };
    outcome.prices = price::prices(site, options, &bare, progress)?;
    let sizes = options.shares.iter().map(|share| ((data_bytes as f64 * share) as u64).max(SMALLEST));
    let mut pools: Vec<u64> = [SMALLEST].into_iter().chain(sizes).collect();
    pools.dedup();
    let bench = Bench { site, options, map: &map, bare };
    for bytes in pools {
        progress.step(&format!("pool {} MB", human(bytes as f64 / 1e6)));
        let charted = (bytes as f64 / data_bytes as f64 - 0.5).abs() < 0.01;
        let (cells, charts) = bench.pool(Size { bytes, tight: bytes < data_bytes, charted }, progress)?;
        outcome.cells.extend(cells);
        outcome.charts.extend(charts);
    }
    Ok(outcome)
}

fn document_run(cell: &Cell) -> Run {
    let metrics = json!({
        "pool_bytes": cell.pool_bytes,
        "threads": cell.threads,
        "tps": cell.median(|turn| turn.tps),
        "bound_tps": cell.median(|turn| turn.bound),
        "of_bound": cell.median(Turn::of_bound),
        "of_bound_by_turn": cell.turns.iter().map(Turn::of_bound).collect::<Vec<_>>(),
        "cpu_us_per_transaction": cell.median(|turn| turn.cpu_us),
        "misses_per_transaction": cell.median(|turn| turn.misses),
        "simulated_misses_per_transaction": cell.simulated,
        "bare_reads_per_s": cell.median(|turn| turn.device),
        "cores": cell.median(|turn| turn.cores),
        "idle_share": cell.idle,
        "free_waits": cell.free_waits,
        "p99_ms": cell.median(|turn| turn.p99_ms),
    });
    Run::new(EMBEDDED, "holdfast", metrics)
}

fn claims(outcome: &Outcome, options: &Options) -> Vec<Claim> {
    let mut claims = Vec::new();
    let tight = || outcome.cells.iter().filter(|c| c.pool_bytes < outcome.data_bytes);
    for &threads in &options.threads {
        let s = if threads == 1 { "" } else { "s" };
        let mut claim =
            |text: &str, of, bar| claims.push(Claim::worst(format!("{threads} thread{s}: {text}"), of, bar));
        let of = tight().filter(|c| c.threads == threads).filter_map(Cell::misses_of_simulated);
        let of = of.map(|turns| Evidence::turns(&turns)).collect();
        claim("misses as a share of the simulator's for the same references, worst pool", of, MISSES);
        let cells = outcome.cells.iter().filter(|c| c.threads == threads);
        let of = cells.map(|c| Evidence::turns(&c.each(Turn::of_bound))).collect();
        claim("throughput as a share of what CPU and disk allow, worst pool", of, OF_BOUND);
        let prices = outcome.prices.iter().filter(|p| p.threads == threads);
        let of = prices.map(|p| Evidence::turns(&p.ratios)).collect();
        claim("CPU of a miss, as a multiple of a bare O_DIRECT read", of, PRICE);
    }
    claims.push(Claim::worst(
        "share of the frames that hold no page and are not taken for one, worst cell",
        tight().map(|c| Evidence::Once(c.idle)).collect(),
        Bar::AtMost(0.01),
    ));
    claims
}

fn figures(outcome: &Outcome) -> Figures {
    let lead = format!(
        "sysbench oltp read-only with ranges of {RANGE} rows, uniform, on {} MB in pools of all sizes, past the system's cache. \
         Published in 2016 for a pool of half the data: Percona Server 5.6.27 660 tps, 5.6.28 36 tps; re-tests 5.5 212, 5.6 4, rolled \
         back 68, 5.7 46 to 239. Measured for this project at 8 threads with 58 % of the data in the pool: MariaDB 10.11 InnoDB 392 tps and 13,400 reads/s of the 69,000 \
         that the disk could give, about 40 us of CPU on each miss.",
        human(outcome.data_bytes as f64 / 1e6)
    );
    let note = "Bound: the least of cores / CPU per transaction, device rate / misses, threads / (CPU + misses x time of a read). \
                Bare reads: the device's rate, a loop just before and just after each turn. Cores: what sessions that only compute got just before. \
                Idle: frames without a page that are not taken for one. Medians of turns.";
    let columns: [Shown<'_, Cell>; 15] = [
        ("pool MB", &|c| human(c.pool_bytes as f64 / 1e6)),
        ("of data", &|c| format!("{:.2}", c.pool_bytes as f64 / outcome.data_bytes as f64)),
        ("threads", &|c| c.threads.to_string()),
        ("TPS", &|c| human(c.median(|turn| turn.tps))),
        ("bound", &|c| human(c.median(|turn| turn.bound))),
        ("of bound", &|c| format!("{:.2}", c.median(Turn::of_bound))),
        ("p99 ms", &|c| human(c.median(|turn| turn.p99_ms))),
        ("bare reads/s", &|c| or_dash(Some(c.median(|turn| turn.device)).filter(|&rate| rate > 0.0), human)),
        ("cores", &|c| format!("{:.2}", c.median(|turn| turn.cores))),
        ("CPU us/txn", &|c| human(c.median(|turn| turn.cpu_us))),
        ("misses/txn", &|c| human(c.median(|turn| turn.misses))),
        ("simulated", &|c| human(c.simulated)),
        ("ratio", &|c| or_dash(c.misses_of_simulated().and_then(|of| median(&of)), |ratio| format!("{ratio:.3}"))),
        ("idle %", &|c| format!("{:.2}", c.idle * 100.0)),
        ("waits for a frame", &|c| human(c.free_waits as f64)),
    ];
    let grid = Grid::of("Every pool and number of threads", 0, &outcome.cells, &columns, note);
    let note = "Bare: pages of the table's file at random places, O_DIRECT, no engine. Misses: point selects in the smallest pool, \
                less what the same select costs with all data in the pool. In turns; medians.";
    let ratio = |r: Figure| format!("{:.2} ({:.2} to {:.2})", r.median, r.min, r.max);
    let columns: [Shown<'_, Price>; 7] = [
        ("threads", &|p| p.threads.to_string()),
        ("bare reads/s", &|p| human(p.device.per_second)),
        ("CPU us/read", &|p| human(p.device.cpu_us)),
        ("misses/s", &|p| human(p.misses_per_s)),
        ("CPU us/miss", &|p| human(p.miss_us)),
        ("of a bare read", &|p| or_dash(Figure::of(&p.ratios), ratio)),
        ("CPU us/hit", &|p| human(p.hit_us)),
    ];
    let price = Grid::of("The price of a miss", 0, &outcome.prices, &columns, note);
    let mut charts = vec![("Over the size of the pool".to_owned(), over_pools(outcome))];
    charts.push(("Half the data in the pool, second by second".to_owned(), outcome.charts.clone()));
    Figures { lead, words: Vec::new(), grids: vec![grid, price], charts }
}

fn over_pools(outcome: &Outcome) -> Vec<Chart> {
    let line = |name: String, threads: usize, dashed, y: &dyn Fn(&Cell) -> f64| Line {
        name,
        points: outcome
            .cells
            .iter()
            .filter(|c| c.threads == threads)
            .map(|c| (c.pool_bytes as f64 / 1e6, y(c)))
            .collect(),
        dashed,
    };
    let mut charts = Vec::new();
    for p in &outcome.prices {
        let n = p.threads;
        let measured = line("TPS".into(), n, false, &|c| c.median(|turn| turn.tps));
        let tps = vec![measured, line("bound".into(), n, true, &|c| c.median(|turn| turn.bound))];
        let title = format!("Throughput, {n} thread{}", if n == 1 { "" } else { "s" });
        charts.push(Chart::over(&title, "MB of pool", "transactions per second", tps));
        let measured = line("measured".into(), n, false, &|c| c.median(|turn| turn.misses));
        let misses = vec![measured, line("simulated".into(), n, true, &|c| c.simulated)];
        let title = format!("Misses, {n} thread{}", if n == 1 { "" } else { "s" });
        charts.push(Chart::over(&title, "MB of pool", "misses per transaction", misses));
    }
    charts
}
