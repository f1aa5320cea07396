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

use anyhow::{Result, ensure};
use serde_json::json;

use super::flush;
use super::in_turns::{self, InTurns};
use crate::args::rig::{MIB, RigArgs};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::Grid;
use crate::measure::{Figure, human, or_dash};
use crate::progress::Progress;
use crate::rig::sessions::SEL2;
use crate::server::contender::SMALLEST;
use crate::server::options::size;
use crate::server::turns::cell::{Asked, Cell, Column, grid, p99, tps};
use crate::server::turns::running::There;
use crate::server::turns::side::Settings;
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::embedded::Embedded;
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};

/// The sizes of the experiment.
#[derive(Debug)]
struct Options {
    /// OBJECTs; HISTORY has 20 rows for each.
    objects: u32,
    sessions: u32,
    /// Capacity of the redo log, in bytes.
    log_bytes: u64,
}

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    ensure!(args.log_mib.len() < 2, "freepages takes one capacity: --log-mib MIB");
    let tiny = if args.embedded() { 4 } else { 8 };
    let options = Options {
        objects: args.sized([6_000, 20_000, 50_000, 1_000_000]),
        sessions: args.sized([2, 32, 32, 32]),
        log_bytes: args.log_mib.first().copied().unwrap_or(args.sized([tiny, 16, 16, 256])) * MIB,
    };
    in_turns::run(args, args.plan([2, 2, 4, 6], [2.2, 10.0, 20.0, 60.0]), options, progress)
}

/// Bytes of an OBJECT with its rows of HISTORY in the pages of either engine.
const BYTES_PER_OBJECT: u64 = 4_000;
/// The part of the data that the pool holds.
const POOL_SHARE: f64 = 1.0 / 3.0;
/// What flushing lets the log grow to, as a share of its capacity.
const FULL: f64 = 0.6;

impl Options {
    /// The size of the pool: a third of the data.
    fn pool_bytes(&self) -> u64 {
        ((u64::from(self.objects) * BYTES_PER_OBJECT) as f64 * POOL_SHARE).max(SMALLEST as f64) as u64
    }
}

impl InTurns for Options {
    type Measured = Measured;

    fn workload(&self) -> Workload {
        Workload::DbStress { objects: self.objects }
    }

    fn settings(&self) -> Settings {
        // InnoDB's reserve of free pages shrinks in the same proportion as the pool.
        let (pool_bytes, log_bytes) = (self.pool_bytes(), Some(self.log_bytes));
        Settings { pool_bytes, log_bytes, size: size(pool_bytes), ..Settings::default() }
    }

    /// On files.
    fn embedded(&self, plan: &Plan, progress: &mut Progress) -> Result<(Place, Vec<Embedded>, Measured)> {
        progress.step("loading");
        let mut sides = vec![self.engine("holdfast", &plan.files(), plan, progress)?];
        let words = format!("on files in {}", plan.dir.display());
        let place = Place::embedded(&words, "a sync at every commit", Some(&plan.dir));
        let measured = self.measure(plan, &mut sides, progress)?;
        Ok((place, sides, measured))
    }

    fn fit(&mut self, plan: &Plan, there: &There<'_>) -> Result<Vec<String>> {
        let pool = there.pool_bytes(1.0 / POOL_SHARE, plan)?;
        self.objects = (pool as f64 / POOL_SHARE / BYTES_PER_OBJECT as f64) as u32;
        self.log_bytes = flush::capacity(there.server)?;
        Ok(Vec::new())
    }

    fn measure<S: Subject>(&self, plan: &Plan, sides: &mut [S], progress: &mut Progress) -> Result<Measured> {
        let work = sides[0].work(self.workload(), self.sessions, 1, plan.seed)?;
        progress.plan(plan.cell(sides.len()));
        let mut full = true;
        for side in sides.iter_mut() {
            progress.step(&format!("filling the log, {}", side.name()));
            full &= side.fill_log(&work, FULL * self.log_bytes as f64, progress)?;
        }
        let name = format!("{} sessions", self.sessions);
        let cell = Cell::measure(Asked { name: &[&name], judged: &[] }, sides, &work, plan, progress)?;
        Ok(Measured { cell, full })
    }

    fn findings<S: Subject>(&self, place: Place, Measured { cell, full }: Measured, sides: &[S]) -> Findings {
        let pool_bytes = place.pool_bytes.unwrap_or_else(|| self.pool_bytes());
        let what = format!(
            "dbSTRESS, {} sessions, RW=1, a pool of {} MB for three times as much data, a redo log of {} MB",
            self.sessions,
            pool_bytes >> 20,
            self.log_bytes >> 20
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
        let cells = vec![cell];
        Findings {
            name: ("freepages", "Readers that miss while the log is full"),
            place,
            lead: (what, published.to_owned()),
            words,
            settings: self.workload().settings(json!({
                "mode": "RW=1",
                "sessions": self.sessions,
                "pool_bytes": pool_bytes,
                "log_capacity_bytes": self.log_bytes,
            })),
            grids: vec![stalls_grid(&cells[0], sides), grid("Throughput", &[""], sides, &COLUMNS, &cells)],
            charts: turns::charts(sides),
            claims: claims(full, &cells[0], sides[0].name()),
            cells,
        }
    }
}

/// The turns of all sides, and whether their logs were written round often enough before.
struct Measured {
    cell: Cell,
    full: bool,
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
        let each = turns.iter().flat_map(|turn| &turn.each);
        let each = each.filter_map(|second| Some((second.values[Meter::Commits as usize]?, second.whole())));
        let each: Vec<(f64, usize)> = each.collect();
        let slowest = each.iter().map(|(tps, _)| *tps).reduce(f64::min)?;
        let seconds = each.iter().map(|(_, whole)| whole).sum();
        let without = each.iter().filter(|(tps, _)| *tps <= 0.0).map(|(_, whole)| whole).sum();
        let longest_ms = turns.iter().filter_map(longest_select).fold(0.0, f64::max);
        Some(Stalls { seconds, without, slowest, longest_ms })
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

    /// As where the machine gave the thread that looks no core: it counted as one second.
    #[test]
    fn a_long_look_without_a_transaction_is_as_many_seconds() {
        let mut turn = turn(&[100.0, 0.0, 90.0]);
        turn.each.iter_mut().zip([1.0, 2.9, 2.1]).for_each(|(second, length)| second.length = length);
        let stalls = Stalls::of(&[turn]).unwrap();
        assert_eq!((stalls.seconds, stalls.without), (5, 2));
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
        let options = |objects| Options { objects, sessions: 1, log_bytes: 8 << 20 };
        assert_eq!(options(30_000).pool_bytes(), 40_000_000);
        assert_eq!(options(10).pool_bytes(), SMALLEST);
    }
}
