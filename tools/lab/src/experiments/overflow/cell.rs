//! One pool size with every number of threads.
//!
//! The turns of a cell alternate with turns of a loop that only reads. So a disk that is faster for
//! some seconds, or that has other users, is measured as the engine had it.

use anyhow::{Result, anyhow};
use holdfast::Database;
use holdfast::metrics::Counter;

use super::options::{Options, mix};
use super::references::{PageMap, Plan, misses_per_transaction};
use crate::claims::{self, Bar};
use crate::figures::Chart;
use crate::measure::median;
use crate::progress::Progress;
use crate::rig::control::{self, PageLoop, Rate};
use crate::rig::sampler::Sampler;
use crate::rig::sessions::sysbench;
use crate::rig::site::{Settings, Site};
use crate::subject::meters::Meter;
use crate::subject::turn::{self, Series};
use crate::turns;

/// One pool size with one number of threads.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub pool_bytes: u64,
    pub threads: usize,
    pub turns: Vec<Turn>,
    /// Pages read per transaction by the policy alone, for the same references.
    pub simulated: f64,
    /// The share of the frames that have no page and are not taken for one.
    pub idle: f64,
    pub free_waits: u64,
}

/// One turn of the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub tps: f64,
    /// The most transactions per second that CPU and disk allow.
    pub bound: f64,
    pub cpu_us: f64,
    /// Pages of data read, per transaction.
    pub misses: f64,
    /// Cores that threads that only compute got, just before.
    pub cores: f64,
    /// Reads per second without an engine, just before and just after; 0 if everything is in the
    /// pool.
    pub device: f64,
    pub p99_ms: f64,
}

impl Turn {
    fn new(threads: usize, turn: &turn::Turn, reads: u64, limits: Limits) -> Turn {
        // Sessions finish their last transaction after the turn, and `reads` includes its misses.
        let misses = reads as f64 / (turn.transactions + threads as f64 / 2.0).max(1.0);
        let cpu_us = turn.cpu_us().unwrap_or(f64::NAN);
        Turn {
            tps: turn.tps(),
            bound: limits.bound(threads, cpu_us, misses),
            cpu_us,
            misses,
            cores: limits.cores,
            device: limits.device.unwrap_or(0.0),
            p99_ms: turn.latencies.transaction_ms(99.0).unwrap_or(0.0),
        }
    }

    /// Throughput as a share of the bound.
    pub(super) fn of_bound(&self) -> f64 {
        self.tps / self.bound
    }
}

impl Cell {
    /// The median over the turns.
    pub(super) fn median(&self, of: impl Fn(&Turn) -> f64) -> f64 {
        median(&self.each(of)).unwrap_or(f64::NAN)
    }

    /// A figure of each turn.
    pub(super) fn each(&self, of: impl Fn(&Turn) -> f64) -> Vec<f64> {
        self.turns.iter().map(of).collect()
    }

    /// Pages read in each turn, as a share of the simulator's, if that reads any.
    pub(super) fn misses_of_simulated(&self) -> Option<Vec<f64>> {
        misses_of(self.simulated, &self.turns)
    }

    /// True if more turns would not change what is said of the cell.
    fn decided(simulated: f64, turns: &[Turn]) -> bool {
        let of_bound: Vec<f64> = turns.iter().map(Turn::of_bound).collect();
        claims::decided(&of_bound, OF_BOUND)
            && misses_of(simulated, turns).is_none_or(|misses| claims::decided(&misses, MISSES))
    }
}

fn misses_of(simulated: f64, turns: &[Turn]) -> Option<Vec<f64>> {
    (simulated >= 0.5).then(|| turns.iter().map(|turn| turn.misses / simulated).collect())
}

/// The most misses, as a share of the simulator's.
pub(super) const MISSES: Bar = Bar::AtMost(1.1);
/// The least throughput, as a share of what CPU and disk allow.
pub(super) const OF_BOUND: Bar = Bar::AtLeast(0.9);

/// The common parts of all pools.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub site: &'a Site,
    pub options: &'a Options,
    pub map: &'a PageMap,
    /// The loop that reads without an engine.
    pub bare: PageLoop<'a>,
}

/// A turn of the loop is this many times shorter.
const SHORTER: u32 = 4;

/// A pool, by the share of the data that it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub bytes: u64,
    /// True if it does not hold all data.
    pub tight: bool,
    /// True if its seconds are charted.
    pub charted: bool,
}

impl Bench<'_> {
    /// Runs the cells of one pool size. Also returns its charts, if it is charted.
    pub(super) fn pool(&self, size: Size, progress: &mut Progress) -> Result<(Vec<Cell>, Vec<Chart>)> {
        let db = self.site.open(&Settings::pool(size.bytes))?;
        let found = self.cells(&db, size, progress)?;
        db.close()?;
        Ok(found)
    }

    fn cells(&self, db: &Database, size: Size, progress: &mut Progress) -> Result<(Vec<Cell>, Vec<Chart>)> {
        let options = self.options;
        let most = options.threads.iter().copied().max().unwrap_or(1);
        let warmer = sysbench(db, self.site, mix(), options.rows, most.min(16), options.plan.seed.wrapping_add(1));
        warmer.run(options.plan.turn * 2, &mut |_| Ok(()))?;
        let alone = self.bare(1, size)?;
        let frames = usize::try_from(db.cache_stats().0.frames)?;
        let (mut sampler, mut series, mut cells) = (Sampler::new(db), Series::new("Half the data"), Vec::new());
        for &threads in &options.threads {
            let load = sysbench(db, self.site, mix(), options.rows, threads, options.plan.seed);
            let (mut free_waits, mut idle, mut device) = (0, Vec::new(), self.bare(threads, size)?);
            let phase = format!("{threads} threads");
            let simulated = simulated(self.map, options, threads, frames, self.map.pages())?;
            let turn = |_| {
                let cores = control::cores(threads)?;
                let before = db.metrics_snapshot();
                let turn = sampler.run(&phase, &load, options.plan.turn, progress)?;
                let did = db.metrics_snapshot().delta(&before);
                free_waits += did.get(Counter::FreeWaits);
                idle.extend(turn.series(Meter::Idle));
                series.add(&phase, &turn);
                let again = self.bare(threads, size)?;
                let around = device.zip(again).map(|(before, after)| Rate::around(before, after));
                let limits = Limits { cores, device: around.map(|rate| rate.per_second), alone };
                device = again;
                Ok(Turn::new(threads, &turn, did.get(Counter::PagesRead), limits))
            };
            let turns = turns::alone(options.plan.rounds, turn, |turns| Cell::decided(simulated, turns))?;
            cells.push(Cell {
                pool_bytes: size.bytes,
                threads,
                simulated,
                idle: idle.iter().sum::<f64>() / idle.len().max(1) as f64 / frames as f64,
                free_waits,
                turns,
            });
        }
        Ok((cells, if size.charted { series.own_charts() } else { Vec::new() }))
    }

    /// The rate of the disk for that many threads that only read, if the engine will have to read.
    fn bare(&self, threads: usize, size: Size) -> Result<Option<Rate>> {
        size.tight.then(|| self.bare.run(threads, self.options.plan.turn / SHORTER)).transpose()
    }
}

/// The misses per transaction of the policy for the same references, simulated.
fn simulated(map: &PageMap, options: &Options, sessions: usize, frames: usize, pages: usize) -> Result<f64> {
    // Enough to fill the cache several times before the measurement.
    let warm = (pages / 8).clamp(400, 20_000);
    let plan = Plan { mix: mix(), rows: options.rows, sessions, transactions: [warm, 1500], seed: options.plan.seed };
    let misses = misses_per_transaction(map, &plan, &[frames])?;
    misses.first().copied().ok_or_else(|| anyhow!("nothing was simulated"))
}

/// The rates without an engine around a turn.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Cores that threads that only compute get.
    cores: f64,
    /// Reads per second of as many threads, and of one.
    device: Option<f64>,
    alone: Option<Rate>,
}

impl Limits {
    /// The operational law of a closed system, in transactions per second: neither processor nor
    /// disk can do more than all of its time, and a thread cannot compute while it waits.
    fn bound(&self, threads: usize, cpu_us: f64, misses: f64) -> f64 {
        let of_cpu = self.cores * 1e6 / cpu_us.max(1e-9);
        let Some((device, alone)) = self.device.zip(self.alone) else { return of_cpu };
        let of_disk = device / misses.max(1e-9);
        // The time of a read without other readers, less the processor time that `cpu_us` contains
        // already.
        let read_us = (1e6 / alone.per_second - alone.cpu_us).max(0.0);
        let of_threads = threads as f64 * 1e6 / (cpu_us + misses * read_us).max(1e-9);
        of_cpu.min(of_disk).min(of_threads)
    }
}
