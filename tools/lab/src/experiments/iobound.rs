//! `iobound`: the same workload, ten times the pages.
//!
//! dbSTRESS, 2010: with AntiDEAD at 200 instead of 2000 each session visits ten times as many
//! OBJECTs. All engines peaked at the in-memory throughput and then fell far deeper than a miss
//! explains, even when the file system held every byte: the engine's page management was the limit,
//! not the disk.
//!
//! The experiment runs on files past the system's cache and on files through it. One database has
//! everything in the pool, another one with the same rows a pool of a tenth of the visited pages.
//! Beside it, as further sides of the same rounds:
//!
//! 1. Past the cache, `fio`, with as many requests under way, in the same proportion, on a file as
//!    large on the same disk. Its pages per second are compared with those that the engine reads
//!    and writes. Pages written to the double-write file count, since the device is the limit.
//! 2. A loop without an engine that does nothing else, which shows the processor time of such a
//!    request. The same loop with a transaction's computation between its pages shows what the disk
//!    gives to busy processors.
//! 3. The database that is all in the pool. Through the cache, throughput is compared with its,
//!    less the copy of each page: the same loop, on cached pages, into as much memory as the pool
//!    has.
//!
//! The log is on the same disk and synced at each commit.

pub mod servers;
pub(crate) mod sizes;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use holdfast::FlushMethod;
use holdfast_workload::dbstress::{self, AntiDead, Table};
use serde_json::json;

use crate::claims::{self, Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::Grid;
use crate::measure::{human, median, or_dash};
use crate::progress::Progress;
use crate::rig::control::{self, PageLoop};
use crate::rig::fio::{Fio, Job};
use crate::rig::sessions::Sessions;
use crate::rig::site::{DiskKind, Settings, Site};
use crate::rig::tables::dbstress_tables;
use crate::server::turns::cell::{Asked, Cell, Column, by_round, grid, p99, tps};
use crate::server::turns::workload::{MODES, Workload};
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::embedded::{Embedded, Work};
use crate::subject::meters::Meter;
use crate::subject::{Series, Subject, Turn};
use crate::turns::Rounds;

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

    /// The sessions on the embedded engine.
    fn work(&self, width: u32, rw_ratio: u32) -> Work {
        Work { sessions: Sessions::DbStress(self.dbstress(width, rw_ratio)), seed: self.plan.seed }
    }

    fn dbstress(&self, width: u32, rw_ratio: u32) -> dbstress::Options {
        let light = dbstress::Options::light(self.objects, self.sessions, rw_ratio);
        dbstress::Options { anti_dead: AntiDead::Blocks(width), ..light }
    }

    /// As many requests under way as there are sessions, with this share of writes.
    fn job<'a>(&self, file: &'a Path, write_share: f64) -> Job<'a> {
        let depth = self.sessions as usize;
        Job { file, page_bytes: PAGE_BYTES, write_share, depth, duration: self.plan.turn }
    }
}

/// AntiDEAD of the published runs: in memory, and ten times the pages.
pub const WIDTHS: [u32; 2] = [2000, 200];
/// Page size of the database.
const PAGE_BYTES: usize = 16 << 10;
/// The ways to the files, with their names.
const METHODS: [(&str, FlushMethod); 2] =
    [("past the system's cache", FlushMethod::ODirect), ("through the system's cache", FlushMethod::Fsync)];

/// The sides of a cell. The busy loop runs past the system's cache only, and so does fio, if there
/// is one.
const SIDES: [&str; 5] = ["holdfast", "all in the pool", "the loop", "the busy loop", "fio"];
const ENGINE: usize = 0;
const IN_POOL: usize = 1;
const LOOP: usize = 2;
const BUSY: usize = 3;
const FIO: usize = 4;

/// Pages read and written per second; those of the double-write file count.
fn pages(turn: &Turn) -> Option<f64> {
    let moved = [Meter::Reads, Meter::Writes, Meter::Doubled].map(|meter| turn.values[meter as usize]);
    Some(moved.iter().flatten().sum())
}

/// The engine's pages per second, as a share of those of fio, or of the loop if there is no fio.
fn of_device(round: &[&Turn]) -> Option<f64> {
    Some(pages(round[ENGINE])? / pages(round.get(FIO).or(round.get(LOOP))?)?)
}

/// Throughput, as a share of the throughput in memory less the copies.
fn of_memory(round: &[&Turn]) -> Option<f64> {
    let (engine, cores) = (round[ENGINE], round[ENGINE].values[Meter::Cores as usize]?);
    let copies_s = pages(engine)? / engine.tps() * round[LOOP].cpu_us()? / 1e6 / cores;
    Some(engine.tps() * (1.0 / round[IN_POOL].tps() + copies_s))
}

/// A figure of a round.
type OfRound = fn(&[&Turn]) -> Option<f64>;

/// The figure of a round that is judged, and its bar.
fn judged(method: &str) -> (OfRound, Bar) {
    if is_direct(method) { (of_device, OF_DEVICE) } else { (of_memory, OF_MEMORY) }
}

/// True if the files are used past the system's cache.
fn is_direct(method: &str) -> bool {
    method == METHODS[0].0
}

/// The cells of the rounds, those with everything in the pool, and bytes of pool and visited pages
/// of the former.
#[derive(Default)]
struct Measured {
    cells: Vec<Cell>,
    memory: Vec<Cell>,
    sizes: Vec<[u64; 2]>,
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    let mut sides = SIDES.map(Series::new);
    let mut measured = Measured::default();
    progress.plan_parts(METHODS.len() * MODES.len());
    for (method, flush) in METHODS {
        progress.step(method);
        progress.show("loading");
        let kind = DiskKind::Real { dir: options.plan.dir.clone(), method: flush };
        let tables = dbstress_tables(options.dbstress(WIDTHS[1], 0), options.plan.seed);
        let site = Arc::new(Site::load(&kind, &tables, progress)?);
        let twin = Arc::new(Site::load(&kind, &tables, progress)?);
        for (mode, rw_ratio) in MODES {
            let roomy = Settings::pool(options.workload().bytes());
            let mut twin = Embedded::open(SIDES[IN_POOL], Arc::clone(&twin), &roomy)?;
            let mut visited = 0;
            for width in WIDTHS {
                measured.memory.push(in_memory([method, mode], (width, rw_ratio), &mut twin, options, progress)?);
                visited = twin.resident_bytes();
            }
            let pool_bytes = (visited / 10).max(5 << 20);
            let engine = Embedded::open(SIDES[ENGINE], Arc::clone(&site), &Settings::pool(pool_bytes))?;
            let path = site.path().context("a real disk has a directory")?;
            let path = path.join(site.file(name_of_history()).context("HISTORY has a file")?);
            let scratch = control::scratch(&path)?;
            let (work, direct) = (options.work(WIDTHS[1], rw_ratio), is_direct(method));
            let (path, scratch) = (path.as_path(), scratch.path());
            let beside = Beside { engine, twin, work, path, scratch, direct, last: Default::default(), options };
            measured.cells.push(beside.measure([method, mode], &mut sides, progress)?);
            measured.sizes.push([pool_bytes, visited]);
            progress.did_part();
        }
    }
    Ok(findings(options, measured, &sides).report(&options.plan, &sides))
}

fn name_of_history() -> &'static str {
    dbstress::table_names(true)[Table::History.number().0]
}

/// The second of two turns with everything in the pool.
fn in_memory(
    [method, mode]: [&str; 2],
    (width, rw_ratio): (u32, u32),
    twin: &mut Embedded,
    options: &Options,
    progress: &mut Progress,
) -> Result<Cell> {
    let (work, turn) = (options.work(width, rw_ratio), options.plan.turn);
    let asked = Asked { name: &[method, mode, &width.to_string()], judged: &[] };
    progress.step(&format!("{}, all in the pool", asked.name.join(", ")));
    twin.warm_up(&work, turn, progress)?;
    let once = Rounds { least: 1, most: 1 };
    Cell::of_turns(asked, std::slice::from_mut(twin), once, |_, twin| twin.turn(&work, "alone", turn, progress))
}

/// The engine with the small pool, and what runs beside it in the same rounds.
struct Beside<'a> {
    engine: Embedded,
    /// The database that is all in the pool.
    twin: Embedded,
    work: Work,
    /// HISTORY's file, which is read, and a file of the same length, which is written.
    path: &'a Path,
    scratch: &'a Path,
    direct: bool,
    /// The last turns of engine and twin, whose proportions the loops take: of reads and writes,
    /// and of pages and transactions.
    last: [Turn; 2],
    options: &'a Options,
}

impl Beside<'_> {
    /// Measures the engine and the loops in turns.
    fn measure(mut self, name: [&str; 2], sides: &mut [Series], progress: &mut Progress) -> Result<Cell> {
        let (phase, options) = (name.join(", "), self.options);
        let plan = &options.plan;
        progress.step(&phase);
        self.engine.warm_up(&self.work, plan.turn, progress)?;
        let count = match &options.fio {
            _ if !self.direct => BUSY,
            Err(_) => FIO,
            Ok(_) => SIDES.len(),
        };
        let turn = |n, side: &mut Series| {
            let turn = self.turn(n, &phase, progress)?;
            side.add(&phase, &turn);
            Ok(turn)
        };
        let (of, bar) = judged(name[0]);
        let decided = |turns: &[Vec<Turn>]| claims::decided(&by_round(turns, of), bar);
        Cell::until(&name, &mut sides[..count], plan.rounds, turn, decided)
    }

    fn turn(&mut self, side: usize, phase: &str, progress: &mut Progress) -> Result<Turn> {
        let (depth, duration) = (self.options.sessions as usize, self.options.plan.turn);
        let pages = pages(&self.last[ENGINE]).unwrap_or(0.0);
        let reads = self.last[ENGINE].values[Meter::Reads as usize].unwrap_or(0.0);
        let write_share = (pages - reads) / pages.max(1e-9);
        let page_loop = PageLoop {
            path: self.path,
            page_bytes: PAGE_BYTES,
            direct: self.direct,
            writes: (write_share > 0.0).then_some((self.scratch, write_share)),
            frames: self.engine.frames(),
            work_us: 0.0,
        };
        match side {
            ENGINE => {
                let cores = control::cores(depth)?;
                let mut turn = self.engine.turn(&self.work, phase, duration, progress)?;
                turn.values[Meter::Cores as usize] = Some(cores);
                self.last[ENGINE] = turn;
            }
            IN_POOL => self.last[IN_POOL] = self.twin.turn(&self.work, phase, duration, progress)?,
            LOOP => return page_loop.run(depth, duration),
            BUSY => {
                // An engine that asked for no page gives the loop no computation to do beside one.
                let transactions_per_page = if pages > 0.0 { self.last[ENGINE].tps() / pages } else { 0.0 };
                let work_us = self.last[IN_POOL].cpu_us().unwrap_or(0.0) * transactions_per_page;
                return PageLoop { work_us, ..page_loop }.run(depth, duration);
            }
            _ => {
                let fio = self.options.fio.as_ref().map_err(|why| anyhow!("there is no fio: {why}"))?;
                return fio.run(&self.options.job(self.scratch, write_share));
            }
        }
        Ok(self.last[side].clone())
    }
}

pub(crate) const PUBLISHED: &str = "Published in 2010: all engines peak at the in-memory 20,000 TPS read-only and 35,000 at RW=1, then fall to 10,000 with the \
                                    smaller pool, even with every byte in the file system's cache.";

const OF_DEVICE: Bar = Bar::AtLeast(0.85);
const OF_MEMORY: Bar = Bar::AtLeast(0.8);

fn findings(options: &Options, measured: Measured, sides: &[Series]) -> Findings {
    let Measured { cells, memory, sizes } = measured;
    let [pool_bytes, visited] = sizes.first().copied().unwrap_or_default();
    let place = format!("on files in {}", options.plan.dir.display());
    let what = format!(
        "dbSTRESS, {} sessions, AntiDEAD 200 instead of 2000, so that ten times as many objects are visited; a pool of a tenth of their pages",
        options.sessions
    );
    let columns: [Column<'_>; 3] = [("TPS", &tps), ("CPU us/txn", &Turn::cpu_us), ("p99 ms", &p99)];
    let in_pool = &sides[IN_POOL..=IN_POOL];
    Findings {
        name: ("iobound", "The same workload, ten times the pages"),
        place: Place::embedded(&place, "a sync at every commit", Some(&options.plan.dir)),
        lead: (what, PUBLISHED.to_owned()),
        words: cells.iter().filter_map(in_words).collect(),
        settings: options.workload().settings(json!({
            "workload": "dbSTRESS, read-only and RW=1, a WRITE is one UPDATE",
            "anti_dead": WIDTHS,
            "sessions": options.sessions,
            "pool_bytes": pool_bytes,
            "visited_bytes": visited,
            "active_set_of_pool": visited as f64 / pool_bytes as f64,
            "fio": options.fio.as_ref().map_or_else(|why| format!("none: {why}"), |fio| fio_in_words(fio, options)),
        })),
        grids: vec![
            grid("Everything in the pool", &["files", "", "AntiDEAD"], in_pool, &columns, &memory),
            transactions_grid(&cells, &sizes, sides),
            pages_grid(&cells, sides, options),
        ],
        charts: turns::charts(sides),
        claims: cells.iter().map(|cell| claim(cell, options)).collect(),
        cells: cells.into_iter().zip(sizes).map(document_cell).collect(),
    }
}

/// A sentence with the pages that each moves past the system's cache: fio, whose processors are
/// idle otherwise, threads that compute, and the engine.
fn in_words(cell: &Cell) -> Option<String> {
    let moves = |side| Some(human(cell.figure(side, pages)?.median));
    let of_fio = |side| Some(format!("{:.2}", median(&cell.ratios(side, FIO, pages))?));
    Some(format!(
        "{}, {}: fio moves {} pages a second; threads without an engine that compute between two pages as long as the transactions do move {} ({} of that), \
         the engine {} ({}).",
        cell.name[1],
        cell.name[0],
        moves(FIO)?,
        moves(BUSY)?,
        of_fio(BUSY)?,
        moves(ENGINE)?,
        of_fio(ENGINE)?,
    ))
}

/// fio's arguments for a turn that only reads.
fn fio_in_words(fio: &Fio, options: &Options) -> String {
    format!("{}: {}", fio.version(), options.job(Path::new(""), 0.0).arguments().join(" "))
}

fn claim(cell: &Cell, options: &Options) -> Claim {
    let (method, mode) = (&cell.name[0], &cell.name[1]);
    let (of, bar) = judged(method);
    let text = if is_direct(method) {
        let yardstick = match &options.fio {
            Ok(_) => "fio's with as many requests under way",
            Err(_) => "those of the loop (there is no fio)",
        };
        format!("{mode}: pages read and written per second past the system's cache, as a share of {yardstick}")
    } else {
        format!("{mode}: TPS with pages from the system's cache, of those in the pool less the copies")
    };
    Claim::new(text, Evidence::turns(&by_round(&cell.turns, of)), bar)
}

/// The cell, with what a document has of the engine alone.
fn document_cell((mut cell, [pool_bytes, visited_bytes]): (Cell, [u64; 2])) -> Cell {
    let each = |meter| cell.figure(ENGINE, |turn| turn.per_transaction(meter));
    cell.counted[ENGINE] = json!({
        "pool_bytes": pool_bytes,
        "visited_bytes": visited_bytes,
        "pages_per_s": cell.figure(ENGINE, pages),
        "writes_per_transaction": each(Meter::Writes),
        "doubled_per_transaction": each(Meter::Doubled),
        "cores": cell.figure(ENGINE, |turn| turn.values[Meter::Cores as usize]),
        "of_device": cell.of_rounds(of_device),
        "of_loop": median(&cell.ratios(ENGINE, LOOP, pages)),
        "of_busy_loop": median(&cell.ratios(ENGINE, BUSY, pages)),
        "of_memory_less_copies": cell.of_rounds(of_memory),
    });
    cell
}

/// The words of a cell's name.
const WORDS: [&str; 2] = ["files", ""];

fn transactions_grid(cells: &[Cell], sizes: &[[u64; 2]], sides: &[Series]) -> Grid {
    let columns: [Column<'_>; 5] = [
        ("TPS", &tps),
        ("CPU us/txn", &Turn::cpu_us),
        ("reads/txn", &|t| t.per_transaction(Meter::Reads)),
        ("writes/txn", &|t| t.per_transaction(Meter::Writes)),
        ("doubled/txn", &|t| t.per_transaction(Meter::Doubled)),
    ];
    let mut grid = grid("A tenth of the pages in the pool", &WORDS, &sides[..=IN_POOL], &columns, cells);
    grid.header.extend(["of that in the pool less copies", "pool MB", "visited MB"].map(str::to_owned));
    for ((row, cell), sizes) in grid.rows.iter_mut().zip(cells).zip(sizes) {
        row.push(or_dash(cell.of_rounds(of_memory), |share| format!("{share:.2}")));
        row.extend(sizes.map(|bytes| human(bytes as f64 / 1e6)));
    }
    grid.note.push_str(
        " All in the pool: the same sessions on a second database with the same rows. Less copies: the time of such a transaction and, for each page that \
         the engine moves, the processor time that it takes the loop below, on the cores that there were. Doubled: pages written to the double-write file, \
         which count as written.",
    );
    grid
}

fn pages_grid(cells: &[Cell], sides: &[Series], options: &Options) -> Grid {
    let fio = match &options.fio {
        Ok(fio) => format!(
            "fio: {}, {} synchronous requests under way, in the engine's proportion of reads and writes, on a file as large as HISTORY's.",
            fio.version(),
            options.sessions
        ),
        Err(why) => format!("There is no fio here ({why}): the loop is the reference."),
    };
    let columns: [Column<'_>; 2] = [("pages/s", &pages), ("CPU us/txn", &Turn::cpu_us)];
    let mut grid = grid("Pages read and written per second", &WORDS, sides, &columns, cells);
    grid.note.push_str(&format!(
        " {fio} The loop: as many threads as there are sessions that do nothing but read pages of HISTORY at random and write pages of a file as \
         large, synchronously, in the same proportion, into and from any page of as much memory as the pool has. The busy loop: the same threads, which \
         compute before each page as long as a transaction with everything in the pool takes for each page that the engine moves. A transaction of these \
         is a page; their proportions are those of the engine's last turn."
    ));
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(of: &[(Meter, f64)]) -> Turn {
        let mut turn = Turn { seconds: 1.0, transactions: 100.0, cpu_seconds: Some(0.01), ..Turn::default() };
        of.iter().for_each(|&(meter, value)| turn.values[meter as usize] = Some(value));
        turn
    }

    #[test]
    fn pages_are_compared_with_fio_or_else_with_the_loop() {
        let engine = turn(&[(Meter::Reads, 30.0), (Meter::Writes, 5.0), (Meter::Doubled, 5.0), (Meter::Cores, 2.0)]);
        let [twin, slow, fast] = [turn(&[]), turn(&[]).of_pages(0.25), turn(&[(Meter::Reads, 400.0)])];
        assert_eq!(of_device(&[&engine, &twin, &slow, &slow, &fast]), Some(0.1));
        assert_eq!(of_device(&[&engine, &twin, &slow, &slow]), Some(0.4));
        // A transaction in the pool takes 10 ms, its 0.4 pages 40 us of two cores.
        let less_copies = of_memory(&[&engine, &twin, &slow]).unwrap();
        assert!((less_copies - 1.002).abs() < 1e-9, "{less_copies}");
    }
}
