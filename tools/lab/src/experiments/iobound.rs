//! `iobound`: the same workload, ten times the pages.
//!
//! dbSTRESS, 2010: with AntiDEAD at 200 instead of 2000 each session visits ten times as many
//! OBJECTs. All engines peaked at the in-memory throughput and then fell far deeper than a miss
//! explains, even when the file system held every byte: the engine's page management was the limit,
//! not the disk.
//!
//! The experiment runs on files past the system's cache and on files through it. One database has
//! everything in the pool, another one with the same rows a pool of a tenth of the visited pages.
//!
//! 1. Past the cache, the pages that the engine reads and writes per second are compared, turn by
//!    turn, with those of `fio` before and after: as many requests under way, in the same
//!    proportion, on a file as large on the same disk. Pages written to the double-write file
//!    count, since the device is the limit.
//! 2. A loop without an engine that does nothing else shows the processor time of such a request.
//!    The same loop with a transaction's computation between its pages shows what the disk gives to
//!    busy processors.
//! 3. Through the cache, throughput is compared with that of the database in the pool before and
//!    after each turn, less the copy of each page: the same loop, on cached pages, into as much
//!    memory as the pool has.
//!
//! The log is on the same disk and synced at each commit.

pub mod servers;

use std::path::Path;

use anyhow::{Context, Result};
use holdfast::metrics::{Counter, Snapshot};
use holdfast::{Database, FlushMethod};
use holdfast_workload::dbstress::{self, AntiDead, Table};
use serde_json::json;

use crate::claims::{self, Bar, Claim, Evidence};
use crate::document::{Document, Run};
use crate::figures::{Chart, Figures, Grid, Shown};
use crate::machine::Machine;
use crate::measure::{human, median, or_dash};
use crate::progress::Progress;
use crate::rig::control::{self, PageLoop, Rate};
use crate::rig::fio::{Fio, Job};
use crate::rig::load::Load;
use crate::rig::sampler::Sampler;
use crate::rig::sessions::dbstress as sessions;
use crate::rig::site::{DiskKind, Settings, Site};
use crate::rig::tables::dbstress_tables;
use crate::server::turns::Plan;
use crate::server::turns::workload::{MODES, Workload};
use crate::subject::turn::{Series, Turn};
use crate::target::EMBEDDED;
use crate::turns;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// OBJECTs.
    pub objects: u32,
    /// Sessions.
    pub sessions: u32,
    /// fio, the reference for that disk, or why there is none: then the loop is the reference.
    pub fio: Result<Fio, String>,
}

impl Options {
    fn workload(&self) -> Workload {
        Workload::DbStress { objects: self.objects }
    }
}

/// AntiDEAD of the published runs: in memory, and ten times the pages.
pub const WIDTHS: [u32; 2] = [2000, 200];
/// Page size of the database.
const PAGE_BYTES: usize = 16 << 10;
/// The ways to the files, with their names.
const METHODS: [(&str, FlushMethod); 2] =
    [("past the system's cache", FlushMethod::ODirect), ("through the system's cache", FlushMethod::Fsync)];

/// One workload on files, the loops, and the database that is all in the pool.
struct Case {
    mode: &'static str,
    method: &'static str,
    turns: Vec<Beside>,
    /// The turns with everything in the pool, for each of [`WIDTHS`], before the other turns.
    memory: Vec<Turn>,
    pool_bytes: u64,
    visited_bytes: u64,
    charts: Vec<Chart>,
}

/// A turn of the engine, and the reference loops around it.
struct Beside {
    engine: Turn,
    moved: Moved,
    around: Yardsticks,
    cores: f64,
}

/// Pages that a turn of the engine moved.
#[derive(Clone, Copy)]
struct Moved {
    reads: u64,
    /// Pages written, and the copies of them that the double-write file got before.
    writes: u64,
    copies: u64,
}

impl Moved {
    fn during(did: &Snapshot) -> Moved {
        Moved {
            reads: did.get(Counter::PagesRead),
            writes: did.get(Counter::PagesWritten),
            copies: did.get(Counter::DblwrPagesWritten),
        }
    }

    fn pages(self) -> u64 {
        self.reads + self.writes + self.copies
    }

    fn write_share(self) -> f64 {
        (self.writes + self.copies) as f64 / self.pages().max(1) as f64
    }
}

/// The reference loops: transactions without misses, pages without an engine.
#[derive(Clone, Copy)]
struct Yardsticks {
    /// Transactions with everything in the pool, on the objects that the small pool visits.
    in_pool: Rate,
    page_loop: Rate,
    /// Past the system's cache: the loop that computes before each page as long as a transaction
    /// with everything in the pool does for each page that the engine moves.
    busy_loop: Option<Rate>,
    /// fio, past the system's cache, if there is one.
    fio: Option<Rate>,
}

impl Yardsticks {
    fn around(before: Yardsticks, after: Yardsticks) -> Yardsticks {
        let around = |(before, after)| Rate::around(before, after);
        Yardsticks {
            in_pool: Rate::around(before.in_pool, after.in_pool),
            page_loop: Rate::around(before.page_loop, after.page_loop),
            busy_loop: before.busy_loop.zip(after.busy_loop).map(around),
            fio: before.fio.zip(after.fio).map(around),
        }
    }
}

impl Beside {
    fn pages_per_s(&self) -> f64 {
        self.moved.pages() as f64 / self.engine.seconds
    }

    /// The engine's pages per second, as a share of those of fio, or else of the loop.
    fn of_device(&self) -> f64 {
        self.around.fio.map_or_else(|| self.of_loop(), |fio| self.pages_per_s() / fio.per_second)
    }

    fn of_loop(&self) -> f64 {
        self.pages_per_s() / self.around.page_loop.per_second
    }

    fn of_busy_loop(&self) -> Option<f64> {
        Some(self.pages_per_s() / self.around.busy_loop?.per_second)
    }

    /// Throughput, as a share of the throughput in memory less the copies.
    fn of_memory(&self) -> f64 {
        let copies_s = self.per_transaction(self.moved.pages()) * self.around.page_loop.cpu_us / 1e6 / self.cores;
        self.engine.tps() * (1.0 / self.around.in_pool.per_second + copies_s)
    }

    fn per_transaction(&self, pages: u64) -> f64 {
        pages as f64 / self.engine.transactions.max(1.0)
    }
}

impl Case {
    fn median(&self, of: impl Fn(&Beside) -> f64) -> f64 {
        self.median_of_known(|b| Some(of(b))).unwrap_or(f64::NAN)
    }

    /// The median over the turns that have the value: some exist only past the system's cache.
    fn median_of_known(&self, of: impl Fn(&Beside) -> Option<f64>) -> Option<f64> {
        median(&self.turns.iter().filter_map(of).collect::<Vec<_>>())
    }

    /// True if the files are used past the system's cache: fio and the busy loop run only there.
    fn is_direct(&self) -> bool {
        self.method == METHODS[0].0
    }

    /// The pages that fio reads and writes per second.
    fn fio_per_s(&self) -> Option<f64> {
        self.median_of_known(|b| Some(b.around.fio?.per_second))
    }

    /// The pages that the busy loop reads and writes per second.
    fn busy_loop_per_s(&self) -> Option<f64> {
        self.median_of_known(|b| Some(b.around.busy_loop?.per_second))
    }

    /// Throughput, as a share of the throughput in memory less the copies.
    fn of_memory(&self) -> f64 {
        self.median(Beside::of_memory)
    }

    /// The figure of a turn that is judged, and its bar.
    fn judged(&self) -> (fn(&Beside) -> f64, Bar) {
        if self.is_direct() { (Beside::of_device, OF_DEVICE) } else { (Beside::of_memory, OF_MEMORY) }
    }
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    let tables = dbstress_tables(load(options, WIDTHS[1], 0), options.plan.seed);
    let mut cases: Vec<Case> = Vec::new();
    for (method, flush) in METHODS {
        progress.step(method);
        progress.show("loading");
        let kind = DiskKind::Real { dir: options.plan.dir.clone(), method: flush };
        let site = Site::load(&kind, &tables)?;
        let twin = Site::load(&kind, &tables)?;
        for mode in MODES {
            cases.push(case(&site, &twin, method, mode, options, progress)?);
        }
    }
    let mut document = Document::new("iobound", settings(options, &cases), Machine::this(Some(&options.plan.dir)));
    document.title = "The same workload, ten times the pages".to_owned();
    document.runs = cases.iter().map(document_run).collect();
    document.claims = claims(&cases, options);
    let charts = cases.iter().map(|c| (format!("{}, {}", c.mode, c.method), c.charts.clone())).collect();
    let words = cases.iter().filter_map(in_words).collect();
    let grids = vec![memory_grid(&cases), transactions_grid(&cases), pages_grid(&cases, options)];
    Ok(document.with_figures(Figures { lead: lead(options), words, grids, charts }))
}

fn load(options: &Options, width: u32, rw_ratio: u32) -> dbstress::Options {
    dbstress::Options {
        anti_dead: AntiDead::Blocks(width),
        ..dbstress::Options::light(options.objects, options.sessions, rw_ratio)
    }
}

/// One mode on one kind of files. All of `twin` is in the pool, all of `site` is not.
fn case(
    site: &Site,
    twin: &Site,
    method: &'static str,
    (mode, rw_ratio): (&'static str, u32),
    options: &Options,
    progress: &mut Progress,
) -> Result<Case> {
    let (mut memory, mut visited_bytes) = (Vec::new(), 0);
    let twin_db = twin.open(&Settings::pool(options.workload().bytes()))?;
    let in_pool = |width| sessions(&twin_db, twin, load(options, width, rw_ratio), options.plan.seed);
    for width in WIDTHS {
        let turn = warm_turn(&in_pool(width), options)?;
        progress.show(&format!("all in the pool, AntiDEAD {width}, {mode}: {} tps", human(turn.tps())));
        visited_bytes = resident_bytes(&twin_db);
        memory.push(turn);
    }
    let pool_bytes = (visited_bytes / 10).max(5 << 20);
    let db = site.open(&Settings::pool(pool_bytes))?;
    let sessions = sessions(&db, site, load(options, WIDTHS[1], rw_ratio), options.plan.seed);
    let path = site.path().context("a real disk has a directory")?;
    let path = path.join(site.file(name_of_history()).context("HISTORY has a file")?);
    let mut case = Case { mode, method, turns: Vec::new(), memory, pool_bytes, visited_bytes, charts: Vec::new() };
    let in_pool = in_pool(WIDTHS[1]);
    let scratch = control::scratch(&path)?;
    let frames = case.pool_bytes as usize / PAGE_BYTES;
    let surroundings = Surroundings {
        in_pool: &in_pool,
        path: &path,
        scratch: scratch.path(),
        direct: case.is_direct(),
        frames,
        options,
    };
    beside(&mut case, &db, &sessions, &surroundings, progress)?;
    drop((sessions, in_pool, scratch));
    db.close()?;
    twin_db.close()?;
    Ok(case)
}

fn name_of_history() -> &'static str {
    dbstress::table_names(true)[Table::History.number().0]
}

fn resident_bytes(db: &Database) -> u64 {
    let (cache, _) = db.cache_stats();
    cache.resident_pages * cache.page_size as u64
}

/// The second of two turns.
fn warm_turn(load: &Load<'_>, options: &Options) -> Result<Turn> {
    load.run(options.plan.turn, &mut |_| Ok(()))?;
    load.run(options.plan.turn, &mut |_| Ok(()))
}

/// Measures the engine and the reference loops in turns.
fn beside(
    case: &mut Case,
    db: &Database,
    load: &Load<'_>,
    surroundings: &Surroundings<'_, '_>,
    progress: &mut Progress,
) -> Result<()> {
    let options = surroundings.options;
    let (mut sampler, mut series) = (Sampler::new(db), Series::new(case.mode));
    let mut turn = |name: &str, progress: &mut Progress| -> Result<(Turn, Moved)> {
        let before = db.metrics_snapshot();
        let engine = sampler.run(name, load, options.plan.turn, progress)?;
        series.add(name, &engine);
        Ok((engine, Moved::during(&db.metrics_snapshot().delta(&before))))
    };
    let (warm, moved) = turn("warm-up", progress)?;
    let mut before = surroundings.yardsticks(&warm, moved)?;
    let beside = |_| {
        let cores = control::cores(options.sessions as usize)?;
        let (engine, moved) = turn(case.mode, progress)?;
        let after = surroundings.yardsticks(&engine, moved)?;
        let around = Yardsticks::around(before, after);
        before = after;
        Ok(Beside { engine, moved, around, cores })
    };
    let (of, bar) = case.judged();
    let decided = |turns: &[Beside]| claims::decided(&turns.iter().map(of).collect::<Vec<_>>(), bar);
    case.turns = turns::alone(options.plan.rounds, beside, decided)?;
    case.charts = series.own_charts();
    Ok(())
}

/// The inputs of the reference loops.
struct Surroundings<'a, 's> {
    /// Sessions on the database that is all in the pool.
    in_pool: &'a Load<'s>,
    /// HISTORY's file, which is read.
    path: &'a Path,
    /// A file of the same length, which is written.
    scratch: &'a Path,
    direct: bool,
    /// The frames of the pool.
    frames: usize,
    options: &'a Options,
}

impl Surroundings<'_, '_> {
    /// Measures the reference loops with the engine's proportions: of reads and writes, and of
    /// pages and transactions.
    fn yardsticks(&self, engine: &Turn, moved: Moved) -> Result<Yardsticks> {
        let (depth, duration, page_bytes) = (self.options.sessions as usize, self.options.plan.turn, PAGE_BYTES);
        let write_share = moved.write_share();
        let in_pool = Rate::of(&self.in_pool.run(duration, &mut |_| Ok(()))?);
        let fio = match &self.options.fio {
            Ok(fio) if self.direct => {
                Some(fio.run(&Job { file: self.scratch, page_bytes, write_share, depth, duration })?)
            }
            _ => None,
        };
        let writes = (write_share > 0.0).then_some((self.scratch, write_share));
        let page_loop =
            PageLoop { path: self.path, page_bytes, direct: self.direct, writes, frames: self.frames, work_us: 0.0 };
        let work_us = in_pool.cpu_us * engine.transactions / moved.pages().max(1) as f64;
        let busy_loop = self.direct.then(|| PageLoop { work_us, ..page_loop }.run(depth, duration)).transpose()?;
        let page_loop = page_loop.run(depth, duration)?;
        Ok(Yardsticks { in_pool, page_loop, busy_loop, fio })
    }
}

pub(crate) const PUBLISHED: &str = "Published in 2010: all engines peak at the in-memory 20,000 TPS read-only and 35,000 at RW=1, then fall to 10,000 with the \
                                    smaller pool, even with every byte in the file system's cache.";

fn lead(options: &Options) -> String {
    format!(
        "dbSTRESS, {} sessions, AntiDEAD 200 instead of 2000, so that ten times as many objects are visited; a pool of a tenth of their pages. \
         {PUBLISHED}",
        options.sessions
    )
}

/// A sentence with the pages that each moves past the system's cache: fio, whose processors are
/// idle otherwise, threads that compute, and the engine.
fn in_words(case: &Case) -> Option<String> {
    let (fio, busy) = (case.fio_per_s()?, case.busy_loop_per_s()?);
    Some(format!(
        "{}, {}: fio moves {} pages a second; threads without an engine that compute between two pages as long as the transactions do move {} ({:.2} of that), \
         the engine {} ({:.2}).",
        case.mode,
        case.method,
        human(fio),
        human(busy),
        busy / fio,
        human(case.median(Beside::pages_per_s)),
        case.median(Beside::of_device),
    ))
}

fn settings(options: &Options, cases: &[Case]) -> serde_json::Value {
    let (pool_bytes, visited) = cases.first().map_or((0, 0), |c| (c.pool_bytes, c.visited_bytes));
    options.workload().settings(json!({
        "workload": "dbSTRESS, read-only and RW=1, a WRITE is one UPDATE",
        "anti_dead": WIDTHS,
        "sessions": options.sessions,
        "pool_bytes": pool_bytes,
        "visited_bytes": visited,
        "active_set_of_pool": visited as f64 / pool_bytes as f64,
        "turns": options.plan.rounds.least,
        "turn_s": options.plan.turn.as_secs_f64(),
        "fio": options.fio.as_ref().map_or_else(|why| format!("none: {why}"), |fio| fio_in_words(fio, options)),
        "seed": options.plan.seed,
    }))
}

/// fio's arguments for a turn that only reads.
fn fio_in_words(fio: &Fio, options: &Options) -> String {
    let (depth, file) = (options.sessions as usize, Path::new(""));
    let job = Job { file, page_bytes: PAGE_BYTES, write_share: 0.0, depth, duration: options.plan.turn };
    format!("{}: {}", fio.version(), job.arguments().join(" "))
}

const OF_DEVICE: Bar = Bar::AtLeast(0.85);
const OF_MEMORY: Bar = Bar::AtLeast(0.8);

fn claims(cases: &[Case], options: &Options) -> Vec<Claim> {
    let claim = |case: &Case| {
        let (of, bar) = case.judged();
        let text = if case.is_direct() {
            let yardstick = match &options.fio {
                Ok(_) => "fio's with as many requests under way",
                Err(_) => "those of the loop (there is no fio)",
            };
            format!(
                "{}: pages read and written per second past the system's cache, as a share of {yardstick}",
                case.mode
            )
        } else {
            format!("{}: TPS with pages from the system's cache, of those in the pool less the copies", case.mode)
        };
        Claim::new(text, Evidence::turns(&case.turns.iter().map(of).collect::<Vec<_>>()), bar)
    };
    cases.iter().map(claim).collect()
}

fn document_run(case: &Case) -> Run {
    let metrics = json!({
        "pool_bytes": case.pool_bytes,
        "visited_bytes": case.visited_bytes,
        "tps": case.median(|b| b.engine.tps()),
        "in_pool_tps": case.median(|b| b.around.in_pool.per_second),
        "in_pool_cpu_us": case.median(|b| b.around.in_pool.cpu_us),
        "pages_per_s": case.median(Beside::pages_per_s),
        "fio_pages_per_s": case.fio_per_s(),
        "fio_cpu_us": case.turns.iter().filter_map(|b| Some(b.around.fio?.cpu_us)).reduce(f64::min),
        "loop_pages_per_s": case.median(|b| b.around.page_loop.per_second),
        "loop_cpu_us": case.median(|b| b.around.page_loop.cpu_us),
        "busy_loop_pages_per_s": case.busy_loop_per_s(),
        "reads_per_transaction": case.median(|b| b.per_transaction(b.moved.reads)),
        "writes_per_transaction": case.median(|b| b.per_transaction(b.moved.writes)),
        "doubled_per_transaction": case.median(|b| b.per_transaction(b.moved.copies)),
        "of_device": case.median(Beside::of_device),
        "of_loop": case.median(Beside::of_loop),
        "of_busy_loop": case.median_of_known(Beside::of_busy_loop),
        "of_memory_less_copies": case.of_memory(),
    });
    Run::new(EMBEDDED, &format!("{}, {}", case.mode, case.method), metrics)
}

fn memory_grid(cases: &[Case]) -> Grid {
    let header = ["", "files", "AntiDEAD", "TPS", "CPU us/txn", "p99 ms"];
    let mut grid = Grid::new("Everything in the pool", 2, &header, "Before the turns below.");
    for (case, (width, turn)) in cases.iter().flat_map(|c| WIDTHS.iter().zip(&c.memory).map(move |m| (c, m))) {
        let figures =
            [human(turn.tps()), or_dash(turn.cpu_us(), human), or_dash(turn.latencies.transaction_ms(99.0), human)];
        let names = [case.mode.to_owned(), case.method.to_owned(), width.to_string()];
        grid.rows.push(names.into_iter().chain(figures).collect());
    }
    grid
}

fn transactions_grid(cases: &[Case]) -> Grid {
    let note = "In the pool: the same sessions on a second database with the same rows, all of them in the pool, before and after each turn of the \
                engine (the mean of the two counts). Less copies: the time of such a transaction and, for each page that the engine moves, the processor time that \
                it takes the loop below, on the cores that there were. Doubled: pages written to the double-write file, which count as written.";
    let columns: [Shown<'_, Case>; 12] = [
        ("", &|c| c.mode.to_owned()),
        ("files", &|c| c.method.to_owned()),
        ("pool MB", &|c| human(c.pool_bytes as f64 / 1e6)),
        ("visited MB", &|c| human(c.visited_bytes as f64 / 1e6)),
        ("TPS", &|c| human(c.median(|b| b.engine.tps()))),
        ("TPS in the pool", &|c| human(c.median(|b| b.around.in_pool.per_second))),
        ("of that less copies", &|c| share(c.of_memory())),
        ("CPU us/txn", &|c| or_dash(c.median_of_known(|b| b.engine.cpu_us()), human)),
        ("CPU us in the pool", &|c| human(c.median(|b| b.around.in_pool.cpu_us))),
        ("reads/txn", &|c| human(c.median(|b| b.per_transaction(b.moved.reads)))),
        ("writes/txn", &|c| human(c.median(|b| b.per_transaction(b.moved.writes)))),
        ("doubled/txn", &|c| human(c.median(|b| b.per_transaction(b.moved.copies)))),
    ];
    Grid::of("A tenth of the pages in the pool", 2, cases, &columns, note)
}

fn pages_grid(cases: &[Case], options: &Options) -> Grid {
    let fio = match &options.fio {
        Ok(fio) => format!(
            "fio: {}, {} synchronous requests under way, in the engine's proportion of reads and writes, on a file as large as HISTORY's.",
            fio.version(),
            options.sessions
        ),
        Err(why) => format!("There is no fio here ({why}): the loop is the reference."),
    };
    let note = format!(
        "{fio} Loop: as many threads as there are sessions that do nothing but read pages of HISTORY at random and write pages of a file as \
         large, synchronously, in the same proportion, into and from any page of as much memory as the pool has. Busy loop: the same threads, which \
         compute before each page as long as a transaction with everything in the pool takes for each page that the engine moves. \
         All of these before and after each turn of the engine (the mean of the two counts)."
    );
    let columns: [Shown<'_, Case>; 10] = [
        ("", &|c| c.mode.to_owned()),
        ("files", &|c| c.method.to_owned()),
        ("engine", &|c| human(c.median(Beside::pages_per_s))),
        ("fio", &|c| or_dash(c.fio_per_s(), human)),
        ("loop", &|c| human(c.median(|b| b.around.page_loop.per_second))),
        ("busy loop", &|c| or_dash(c.busy_loop_per_s(), human)),
        ("engine, of fio's", &|c| or_dash(c.fio_per_s(), |_| share(c.median(Beside::of_device)))),
        ("of the loop's", &|c| share(c.median(Beside::of_loop))),
        ("of the busy loop's", &|c| or_dash(c.median_of_known(Beside::of_busy_loop), share)),
        ("loop, CPU us/page", &|c| human(c.median(|b| b.around.page_loop.cpu_us))),
    ];
    Grid::of("Pages read and written per second", 2, cases, &columns, &note)
}

fn share(of: f64) -> String {
    format!("{of:.2}")
}
