//! `iobound`: the same workload, ten times the pages.
//!
//! dbSTRESS, 2010: with AntiDEAD at 200 instead of 2000 each session visits ten times as many OBJECTs. All engines peaked at the in-memory
//! throughput and then fell far deeper than a miss explains, even when the file system held every byte: the engine's page management
//! was the limit, not the disk.
//!
//! Three databases: in memory with everything in the pool; on files past the system's cache and on files through it, both with a pool of a tenth of
//! what is visited, as if AntiDEAD were 2000. Past the cache the pages that the engine reads per second are compared, turn by turn, with what the same number of
//! threads get that only read. Through it, with what is left of the in-memory throughput after the copy of each page has been
//! paid: a read of a cached page, measured in turns as well.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast::metrics::Counter;
use holdfast::{Database, FlushMethod};
use holdfast_workload::dbstress::{self, AntiDead, Table};
use serde_json::json;

use crate::document::{Bar, Document, Run, Verdict, metrics};
use crate::figures::{Chart, Figures, Grid};
use crate::machine::Machine;
use crate::measure::{Figure, human};
use crate::progress::Progress;
use crate::rig::control::{self, Rate};
use crate::rig::load::{Load, Turn};
use crate::rig::sampler::Sampler;
use crate::rig::sessions::dbstress as sessions;
use crate::rig::site::{DiskKind, Settings, Site, Tables};

/// Everything that can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// OBJECTs.
    pub objects: u32,
    /// Sessions.
    pub sessions: u32,
    /// Turns of each.
    pub turns: usize,
    /// Length of a turn.
    pub turn: Duration,
    /// Directory of the disk.
    pub dir: PathBuf,
    /// Seed of data and load.
    pub seed: u64,
}

/// AntiDEAD of the published runs: in memory, and ten times the pages.
const WIDTHS: [u32; 2] = [2000, 200];
/// Page size of the database.
const PAGE_BYTES: usize = 16 << 10;
/// The modes, and WRITEs per READ of each.
const MODES: [(&str, u32); 2] = [("read-only", 0), ("RW=1", 1)];

/// One workload on files, beside the loop of reads and the in-memory figure.
struct Case {
    mode: &'static str,
    method: &'static str,
    turns: Vec<Beside>,
    memory: Turn,
    pool_bytes: u64,
    visited_bytes: u64,
    charts: Vec<Chart>,
}

/// A turn of the engine and one of the loop.
struct Beside {
    engine: Turn,
    reads: u64,
    reads_loop: Rate,
    cores: f64,
}

impl Beside {
    fn reads_per_s(&self) -> f64 {
        self.reads as f64 / self.engine.seconds
    }

    fn misses(&self) -> f64 {
        self.reads as f64 / (self.engine.transactions as f64).max(1.0)
    }
}

impl Case {
    fn median(&self, of: impl Fn(&Beside) -> f64) -> f64 {
        Figure::of(&self.turns.iter().map(of).collect::<Vec<_>>()).map_or(f64::NAN, |f| f.median)
    }

    /// Pages that the engine reads, of those that the loop reads.
    fn of_device(&self) -> f64 {
        self.median(|b| b.reads_per_s() / b.reads_loop.per_second)
    }

    /// Throughput, of what is left in memory after the copies have been paid.
    fn of_memory(&self) -> f64 {
        self.median(|b| {
            let left = b.cores * 1e6 / (self.memory.cpu_us() + b.misses() * b.reads_loop.cpu_us);
            b.engine.tps() / left
        })
    }
}

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If the data cannot be loaded, or a session fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let load = |width, rw_ratio| dbstress::Options {
        anti_dead: AntiDead::Blocks(width),
        ..dbstress::Options::light(options.objects, options.sessions, rw_ratio)
    };
    let tables = Tables::DbStress(load(WIDTHS[1], 0));
    progress.step("in memory");
    progress.show("loading");
    let memory_site = Site::load(&DiskKind::Memory, tables, options.seed)?;
    let (mut memory, mut visited) = (Vec::new(), 0);
    for width in WIDTHS {
        for (mode, rw_ratio) in MODES {
            let db = memory_site.open(&Settings::pool(u64::from(options.objects) * 8000 + (32 << 20)))?;
            let turn = warm_turn(&sessions(&db, &memory_site, load(width, rw_ratio), options.seed), options)?;
            progress.show(&format!("AntiDEAD {width}, {mode}: {} tps", human(turn.tps())));
            visited = resident_bytes(&db);
            memory.push((width, mode, turn));
            db.close()?;
        }
    }
    drop(memory_site);
    let pool_bytes = (visited / 10).max(5 << 20);
    let methods =
        [("past the system's cache", FlushMethod::ODirect), ("through the system's cache", FlushMethod::Fsync)];
    let mut cases = Vec::new();
    for (method, flush) in methods {
        progress.step(method);
        progress.show("loading");
        let kind = DiskKind::Real { dir: options.dir.clone(), method: flush };
        let site = Site::load(&kind, tables, options.seed)?;
        let path =
            site.path().context("a real disk has a directory")?.join(site.file(name_of_history()).unwrap_or_default());
        for (mode, rw_ratio) in MODES {
            let db = site.open(&Settings::pool(pool_bytes))?;
            let sessions = sessions(&db, &site, load(WIDTHS[1], rw_ratio), options.seed);
            let in_memory = memory.iter().find(|m| m.0 == WIDTHS[1] && m.1 == mode).context("no figure in memory")?;
            let direct = flush == FlushMethod::ODirect;
            let (turns, charts) = beside(&db, &sessions, &path, direct, mode, options, progress)?;
            drop(sessions);
            let (memory, visited_bytes) = (in_memory.2.clone(), visited);
            cases.push(Case { mode, method, turns, memory, pool_bytes, visited_bytes, charts });
            db.close()?;
        }
    }
    let mut document =
        Document::new("iobound", settings(options, pool_bytes, visited), Machine::this(Some(&options.dir)));
    document.title = "The same workload, ten times the pages".to_owned();
    document.runs = cases.iter().map(document_run).collect();
    document.verdicts = verdicts(&cases);
    let charts = cases.iter().map(|c| (format!("{}, {}", c.mode, c.method), c.charts.clone())).collect();
    document.figures = Figures { lead: lead(options), grids: vec![memory_grid(&memory), grid(&cases)], charts };
    let text = format!("{}{}", document.figures.text(), crate::text::verdicts(&document.verdicts));
    Ok((document, text))
}

fn name_of_history() -> &'static str {
    dbstress::table_names(true)[Table::History.number().0]
}

fn resident_bytes(db: &Database) -> u64 {
    let (cache, _) = db.cache_stats();
    cache.resident_pages * cache.page_size as u64
}

fn warm_turn(load: &Load<'_>, options: &Options) -> Result<Turn> {
    load.run(options.turn, &mut |_| Ok(()))?;
    load.run(options.turn, &mut |_| Ok(()))
}

/// The engine and the loop in turns.
fn beside(
    db: &Database,
    load: &Load<'_>,
    path: &Path,
    direct: bool,
    mode: &str,
    options: &Options,
    progress: &mut Progress,
) -> Result<(Vec<Beside>, Vec<Chart>)> {
    let mut sampler = Sampler::new(db);
    sampler.run("warm-up", load, options.turn, progress)?;
    let threads = options.sessions as usize;
    let mut turns = Vec::new();
    for _ in 0..options.turns {
        let cores = control::cores(threads)?;
        let before = db.metrics_snapshot();
        let engine = sampler.run(mode, load, options.turn, progress)?;
        let reads = db.metrics_snapshot().delta(&before).get(Counter::PagesRead);
        let reads_loop = control::reads(path, PAGE_BYTES, direct, threads, options.turn)?;
        turns.push(Beside { engine, reads, reads_loop, cores });
    }
    Ok((turns, sampler.charts(mode, load)))
}

fn lead(options: &Options) -> String {
    format!(
        "dbSTRESS, {} sessions, AntiDEAD 200 instead of 2000, so that ten times as many objects are visited; a pool of a tenth of their pages. \
         Published in 2010: all engines peak at the in-memory 20,000 TPS read-only and 35,000 at RW=1, then fall to 10,000 with the smaller \
         pool, even with every byte in the file system's cache.",
        options.sessions
    )
}

fn settings(options: &Options, pool_bytes: u64, visited: u64) -> serde_json::Value {
    json!({
        "workload": "dbSTRESS, read-only and RW=1, a WRITE is one UPDATE",
        "anti_dead": WIDTHS, "hpk": true, "same_ref": true, "distribution": "uniform",
        "objects": options.objects,
        "sessions": options.sessions,
        "pool_bytes": pool_bytes,
        "visited_bytes": visited,
        "active_set_of_pool": visited as f64 / pool_bytes as f64,
        "turns": options.turns,
        "turn_s": options.turn.as_secs_f64(),
        "seed": options.seed,
    })
}

fn verdicts(cases: &[Case]) -> Vec<Verdict> {
    let verdict = |case: &Case| {
        if case.method.starts_with("past") {
            let claim =
                format!("{}: pages read per second past the system's cache, of a loop that only reads", case.mode);
            return Verdict::new(claim, Some(case.of_device()), Bar::AtLeast(0.85));
        }
        let claim =
            format!("{}: TPS with pages from the system's cache, of those in memory less the copies", case.mode);
        Verdict::new(claim, Some(case.of_memory()), Bar::AtLeast(0.8))
    };
    cases.iter().map(verdict).collect()
}

fn document_run(case: &Case) -> Run {
    Run {
        target: "embedded".to_owned(),
        policy: format!("{}, {}", case.mode, case.method),
        metrics: metrics(json!({
            "pool_bytes": case.pool_bytes,
            "visited_bytes": case.visited_bytes,
            "tps": case.median(|b| b.engine.tps()),
            "memory_tps": case.memory.tps(),
            "reads_per_s": case.median(Beside::reads_per_s),
            "loop_reads_per_s": case.median(|b| b.reads_loop.per_second),
            "loop_cpu_us": case.median(|b| b.reads_loop.cpu_us),
            "misses_per_transaction": case.median(Beside::misses),
            "of_device": case.of_device(),
            "of_memory_less_copies": case.of_memory(),
        })),
    }
}

fn memory_grid(memory: &[(u32, &'static str, Turn)]) -> Grid {
    let header = ["", "AntiDEAD", "TPS", "CPU us/txn", "p99 ms"];
    let mut grid = Grid::new("In memory", 1, &header, "");
    for (width, mode, turn) in memory {
        let p99 = turn.latencies.transaction_ms(99.0).map_or_else(|| "-".to_owned(), human);
        grid.rows.push(vec![(*mode).to_owned(), width.to_string(), human(turn.tps()), human(turn.cpu_us()), p99]);
    }
    grid
}

fn grid(cases: &[Case]) -> Grid {
    let header = [
        "",
        "files",
        "pool MB",
        "visited MB",
        "TPS",
        "in memory",
        "CPU us/txn",
        "misses/txn",
        "reads/s",
        "loop reads/s",
        "loop CPU us",
        "of loop",
        "of memory less copies",
    ];
    let note = "Loop: as many threads as there are sessions that do nothing but read pages of HISTORY at random, synchronously, in turns with \
                the engine. In memory less copies: cores / (CPU of a transaction in memory + misses x CPU of a read in the loop).";
    let mut grid = Grid::new("A tenth of the pages in the pool", 2, &header, note);
    for c in cases {
        grid.rows.push(vec![
            c.mode.to_owned(),
            c.method.to_owned(),
            human(c.pool_bytes as f64 / 1e6),
            human(c.visited_bytes as f64 / 1e6),
            human(c.median(|b| b.engine.tps())),
            human(c.memory.tps()),
            human(c.median(|b| b.engine.cpu_us())),
            human(c.median(Beside::misses)),
            human(c.median(Beside::reads_per_s)),
            human(c.median(|b| b.reads_loop.per_second)),
            human(c.median(|b| b.reads_loop.cpu_us)),
            format!("{:.2}", c.of_device()),
            format!("{:.2}", c.of_memory()),
        ]);
    }
    grid
}
