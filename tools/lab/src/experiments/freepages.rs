//! `freepages`: is there a free frame for a reader that misses while the log is full.
//!
//! A server whose page cleaner flushes for the checkpoint does not free frames meanwhile: readers
//! that miss wait for it, and for seconds no transaction ends (MariaDB's reports MDEV-33053,
//! MDEV-34265, MDEV-36226, MDEV-26055). So the pool has a third of the data, the redo log is small,
//! and every session both reads rows that are not resident and changes some: dbSTRESS RW=1.
//!
//! 1. The log is filled, as in `flush`.
//! 2. In the turns every second without a transaction is counted, and the longest SELECT of rows of
//!    HISTORY is noted: it waits for its frames and for the disk, but neither for the log nor for a
//!    lock. No such wait for a frame was longer.
//!
//! Every second of Holdfast has a transaction, or the claim fails.

use anyhow::{Context, Result};
use holdfast_workload::dbstress;
use serde_json::json;

use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::experiments::flush;
use crate::figures::Grid;
use crate::measure::{Figure, human, or_dash};
use crate::progress::Progress;
use crate::rig::sessions::SEL2;
use crate::rig::site::{self, Site};
use crate::rig::tables::dbstress_tables;
use crate::server::contender::SMALLEST;
use crate::server::options::size;
use crate::server::turns::cell::{Asked, Cell, Column, grid, p99, tps};
use crate::server::turns::running::{OnServer, There};
use crate::server::turns::side::{Data, Settings, Side};
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::embedded::Embedded;
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// OBJECTs; HISTORY has 20 rows for each.
    pub objects: u32,
    /// Sessions.
    pub sessions: u32,
    /// Capacity of the redo log, in bytes.
    pub log_bytes: u64,
}

/// Bytes of an OBJECT with its rows of HISTORY in the pages of either engine.
const BYTES_PER_OBJECT: u64 = 4_000;
/// The part of the data that the pool holds.
const POOL_SHARE: f64 = 1.0 / 3.0;
/// What flushing lets the log grow to, as a share of its capacity.
const FULL: f64 = 0.6;

impl Options {
    fn workload(&self) -> Workload {
        Workload::DbStress { objects: self.objects }
    }

    /// The size of the pool: a third of the data.
    pub fn pool_bytes(&self) -> u64 {
        ((u64::from(self.objects) * BYTES_PER_OBJECT) as f64 * POOL_SHARE).max(SMALLEST as f64) as u64
    }
}

/// Runs the experiment on the embedded engine, on files.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    progress.step("loading");
    progress.show(&format!("{} objects", options.objects));
    let tables = dbstress_tables(dbstress::Options::light(options.objects, options.sessions, 1), options.plan.seed);
    let kind = options.plan.files();
    let settings = site::Settings { log_bytes: Some(options.log_bytes), ..site::Settings::pool(options.pool_bytes()) };
    let site = Site::load(&kind, &tables, progress)?;
    let mut sides = [Embedded::open("holdfast", site, &settings)?];
    let words = format!("on files in {}", options.plan.dir.display());
    let place = Place::embedded(&words, "a sync at every commit", Some(&options.plan.dir));
    let measured = measure(options, &mut sides, progress)?;
    Ok(findings(options, place, measured, &sides).report(&options.plan, &sides))
}

/// Runs the experiment on private servers.
pub fn on_servers(options: &Options, progress: &mut Progress) -> Result<Document> {
    let cache = turns::equip(progress)?;
    let plan = &options.plan;
    let mut sides = turns::sides(&cache, plan)?;
    for side in &mut sides {
        side.load(Data::Of(options.workload()), plan.seed, progress)?;
        side.start(&options.settings())?;
    }
    let measured = measure(options, &mut sides, progress)?;
    Ok(findings(options, Place::private(), measured, &sides).report(plan, &sides))
}

impl OnServer for Options {
    fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    fn settings(&self) -> Settings {
        // InnoDB's reserve of free pages shrinks in the same proportion as the pool.
        let (pool_bytes, log_bytes) = (self.pool_bytes(), Some(self.log_bytes));
        Settings { pool_bytes, log_bytes, size: size(pool_bytes), ..Settings::default() }
    }

    fn run_there(&mut self, there: There<'_>, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Findings> {
        let (options, on_server) = (self, there.server);
        let pool = there.pool_bytes(1.0 / POOL_SHARE, &options.plan)?;
        options.objects = (pool as f64 / POOL_SHARE / BYTES_PER_OBJECT as f64) as u32;
        options.log_bytes = flush::capacity(&on_server.before, on_server.contender)
            .context("the server does not say how large its redo log is")?;
        for side in sides.iter_mut() {
            progress.step(&format!("making tables for {} objects", options.objects));
            side.make_tables(Data::Of(options.workload()), options.plan.seed, progress)?;
        }
        let measured = measure(options, sides, progress)?;
        Ok(Findings { claims: Vec::new(), ..findings(options, there.place, measured, sides) })
    }
}

/// The turns of all sides, and whether their logs were written round often enough before.
struct Measured {
    cell: Cell,
    full: bool,
}

fn measure<S: Subject>(options: &Options, sides: &mut [S], progress: &mut Progress) -> Result<Measured> {
    let plan = &options.plan;
    let work = sides[0].work(options.workload(), options.sessions, 1, plan.seed)?;
    progress.plan(plan.cell(sides.len()));
    let mut full = true;
    for side in sides.iter_mut() {
        progress.step(&format!("filling the log, {}", side.name()));
        full &= side.fill_log(&work, FULL * options.log_bytes as f64, progress)?;
    }
    let name = format!("{} sessions", options.sessions);
    let cell = Cell::measure(Asked { name: &[&name], judged: &[] }, sides, &work, plan, progress)?;
    Ok(Measured { cell, full })
}

/// What the turns of a side say of its waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stalls {
    /// Seconds, and those of them in which no transaction ended.
    seconds: usize,
    without: usize,
    /// Throughput of the slowest second.
    slowest: f64,
    /// The longest SELECT, in milliseconds.
    longest_ms: f64,
}

impl Stalls {
    /// `None` if the side reports no second.
    fn of(turns: &[Turn]) -> Option<Stalls> {
        let seconds: Vec<f64> = turns.iter().flat_map(|turn| turn.series(Meter::Commits)).collect();
        let slowest = seconds.iter().copied().reduce(f64::min)?;
        let without = seconds.iter().filter(|&&tps| tps <= 0.0).count();
        let longest_ms = turns.iter().filter_map(longest_select).fold(0.0, f64::max);
        Some(Stalls { seconds: seconds.len(), without, slowest, longest_ms })
    }
}

/// The longest SELECT of rows of HISTORY in a turn, in milliseconds.
fn longest_select(turn: &Turn) -> Option<f64> {
    turn.latencies.class_ms(SEL2, 100.0)
}

fn p999(turn: &Turn) -> Option<f64> {
    turn.latencies.transaction_ms(99.9)
}

const COLUMNS: [Column<'static>; 5] = [
    ("TPS", &tps),
    ("p99 ms", &p99),
    ("p99.9 ms", &p999),
    ("pages read/txn", &|t| t.per_transaction(Meter::Reads)),
    ("waits for a frame/s", &|t| t.values[Meter::FreeWaits as usize]),
];

fn findings(options: &Options, place: Place, measured: Measured, sides: &[impl Subject]) -> Findings {
    let Measured { cell, full } = measured;
    let pool_bytes = place.pool_bytes.unwrap_or_else(|| options.pool_bytes());
    let what = format!(
        "dbSTRESS, {} sessions, RW=1, a pool of {} MB for three times as much data, a redo log of {} MB",
        options.sessions,
        pool_bytes >> 20,
        options.log_bytes >> 20
    );
    let published = "Published from 2023 to 2025 (MDEV-33053, MDEV-34265, MDEV-36226): a page cleaner that flushes for the checkpoint frees no \
                     frames, and InnoDB stands still for seconds.";
    let mut words = in_words(&cell, sides);
    if !full {
        words.push(
            "The log was not written round often enough before, so nothing is claimed: flushing may be more even than \
             after a longer time."
                .to_owned(),
        );
    }
    Findings {
        name: ("freepages", "Readers that miss while the log is full"),
        place,
        lead: (what, published.to_owned()),
        words,
        settings: options.workload().settings(json!({
            "mode": "RW=1",
            "sessions": options.sessions,
            "pool_bytes": pool_bytes,
            "log_capacity_bytes": options.log_bytes,
        })),
        grids: vec![stalls_grid(&cell, sides), grid("Throughput", &[""], sides, &COLUMNS, std::slice::from_ref(&cell))],
        charts: turns::charts(sides),
        claims: claims(full, &cell, sides[0].name()),
        cells: vec![cell],
    }
}

/// A sentence on each side's waits.
fn in_words(cell: &Cell, sides: &[impl Subject]) -> Vec<String> {
    let sentence = |(side, turns): (&_, &Vec<Turn>)| {
        let Stalls { seconds, without, longest_ms, .. } = Stalls::of(turns)?;
        let name = Subject::name(side);
        Some(format!(
            "{name}: no transaction ended in {without} of {seconds} seconds; the longest SELECT took {} ms.",
            human(longest_ms)
        ))
    };
    sides.iter().zip(&cell.turns).filter_map(sentence).collect()
}

/// The claim, which is about Holdfast. A machine that stands still itself may cause such a second.
/// None is made with a log that was not filled: writers that have room in it are in no reader's
/// way.
fn claims(full: bool, cell: &Cell, name: &str) -> Vec<Claim> {
    if !full {
        return Vec::new();
    }
    let without = cell.turns.first().and_then(|turns| Stalls::of(turns)).map(|stalls| stalls.without as f64);
    let text = format!("{name}: seconds without a transaction");
    vec![Claim::new(text, Evidence::once(without), Bar::Exactly(0.0))]
}

fn stalls_grid(cell: &Cell, sides: &[impl Subject]) -> Grid {
    let header =
        ["", "seconds", "without a transaction", "slowest second, TPS", "longest SELECT ms", "least free frames"];
    let note = "Over all turns. The longest SELECT bounds the longest wait for a frame from above: it waits for \
                the disk too. Free frames: the least of all seconds.";
    let mut grid = Grid::new("Seconds and waits", 1, &header, note);
    for (side, turns) in sides.iter().zip(&cell.turns) {
        let Some(stalls) = Stalls::of(turns) else { continue };
        let free: Vec<f64> = turns.iter().flat_map(|turn| turn.series(Meter::Free)).collect();
        grid.rows.push(vec![
            side.name().to_owned(),
            stalls.seconds.to_string(),
            stalls.without.to_string(),
            human(stalls.slowest),
            human(stalls.longest_ms),
            or_dash(Figure::of(&free), |f| human(f.min)),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Second;

    fn turn(tps: &[f64]) -> Turn {
        let second = |tps: &f64| {
            let mut second = Second::default();
            second.values[Meter::Commits as usize] = Some(*tps);
            second
        };
        Turn { each: tps.iter().map(second).collect(), ..Turn::default() }
    }

    #[test]
    fn a_second_without_a_transaction_is_counted() {
        let stalls = Stalls::of(&[turn(&[100.0, 0.0, 0.0]), turn(&[50.0, 1.0])]).unwrap();
        assert_eq!((stalls.seconds, stalls.without, stalls.slowest), (5, 2, 0.0));
        assert_eq!(Stalls::of(&[turn(&[])]), None, "a side that reports nothing stood still for unknown seconds");
    }

    /// It *held* that no second passes without a transaction while the log is full, of a log that
    /// was not.
    #[test]
    fn nothing_is_claimed_of_a_log_that_was_not_filled() {
        let turns = vec![vec![turn(&[100.0, 90.0])]];
        let cell = Cell { name: Vec::new(), turns, memory_mb: Vec::new(), counted: Vec::new() };
        assert_eq!(claims(true, &cell, "holdfast").len(), 1);
        assert!(claims(false, &cell, "holdfast").is_empty());
    }

    #[test]
    fn the_pool_is_a_third_of_the_data() {
        let options = |objects| Options { plan: Plan::default(), objects, sessions: 1, log_bytes: 8 << 20 };
        assert_eq!(options(30_000).pool_bytes(), 40_000_000);
        assert_eq!(options(10).pool_bytes(), SMALLEST);
    }
}
