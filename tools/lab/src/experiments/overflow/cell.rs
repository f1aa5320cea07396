//! One pool size with every number of threads.
//!
//! The turns of the engine alternate with turns of a loop that only reads. So a disk that is faster
//! for some seconds, or that has other users, is measured as the engine had it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::options::{Options, mix};
use super::references::{PageMap, Plan, misses_per_transaction};
use crate::claims::{self, Bar};
use crate::figures::Chart;
use crate::measure::{human, or_dash};
use crate::progress::Progress;
use crate::rig::control::{self, PageLoop};
use crate::rig::sessions::Sessions;
use crate::rig::site::{Settings, Site};
use crate::server::turns::cell::{Cell, by_round};
use crate::subject::embedded::{Embedded, Work};
use crate::subject::meters::Meter;
use crate::subject::{Series, Subject, Turn};

/// The sides of a cell. The loop runs only where the engine has to read.
pub(super) const SIDES: [&str; 2] = ["holdfast", "bare reads"];
pub(super) const ENGINE: usize = 0;
pub(super) const BARE: usize = 1;

/// The most misses, as a share of the simulator's.
pub(super) const MISSES: Bar = Bar::AtMost(1.1);
/// The least throughput, as a share of what CPU and disk allow.
pub(super) const OF_BOUND: Bar = Bar::AtLeast(0.9);

/// One pool size with one number of threads.
pub(super) struct Case {
    pub cell: Cell,
    pub pool_bytes: u64,
    frames: usize,
    pub limits: Limits,
}

/// What is known of a cell without its turns.
pub(super) struct Limits {
    pub threads: usize,
    /// Pages read per transaction by the policy alone, for the same references.
    pub simulated: f64,
    /// One thread that only reads, if the engine has to read.
    alone: Option<Turn>,
}

impl Limits {
    /// Pages of data read per transaction. Half of the misses of the transactions that are under
    /// way at the end of the turn are counted already.
    pub(super) fn misses(&self, round: &[&Turn]) -> Option<f64> {
        let engine = round[ENGINE];
        let transactions = engine.transactions + self.threads as f64 / 2.0;
        Some(engine.values[Meter::Reads as usize]? * engine.seconds / transactions.max(1.0))
    }

    /// The operational law of a closed system, in transactions per second: neither processor nor
    /// disk can do more than all of its time, and a thread cannot compute while it waits.
    pub(super) fn bound(&self, round: &[&Turn]) -> Option<f64> {
        let (cpu_us, misses) = (round[ENGINE].cpu_us()?, self.misses(round)?);
        let of_cpu = cores(round)? * 1e6 / cpu_us.max(1e-9);
        let Some((bare, alone)) = round.get(BARE).zip(self.alone.as_ref()) else { return Some(of_cpu) };
        let of_disk = bare.tps() / misses.max(1e-9);
        // The time of a read without other readers, less the processor time that `cpu_us` contains
        // already.
        let read_us = (1e6 / alone.tps() - alone.cpu_us()?).max(0.0);
        let of_threads = self.threads as f64 * 1e6 / (cpu_us + misses * read_us).max(1e-9);
        Some(of_cpu.min(of_disk).min(of_threads))
    }

    /// Throughput as a share of the bound.
    pub(super) fn of_bound(&self, round: &[&Turn]) -> Option<f64> {
        Some(round[ENGINE].tps() / self.bound(round)?)
    }

    /// Pages read, as a share of the simulator's, if that reads any.
    pub(super) fn misses_of_simulated(&self, round: &[&Turn]) -> Option<f64> {
        if self.simulated < 0.5 { None } else { Some(self.misses(round)? / self.simulated) }
    }

    /// True if more turns would not change what is said of the cell.
    fn decided(&self, turns: &[Vec<Turn>]) -> bool {
        let misses = by_round(turns, |round| self.misses_of_simulated(round));
        claims::decided(&by_round(turns, |round| self.of_bound(round)), OF_BOUND)
            && (misses.is_empty() || claims::decided(&misses, MISSES))
    }
}

/// Cores that threads that only compute got, just before.
pub(super) fn cores(round: &[&Turn]) -> Option<f64> {
    round[ENGINE].values[Meter::Cores as usize]
}

impl Case {
    /// A figure of the rounds as its median, in words.
    pub(super) fn shown(&self, of: impl Fn(&Limits, &[&Turn]) -> Option<f64>) -> String {
        or_dash(self.median(of), human)
    }

    /// The median over the rounds.
    pub(super) fn median(&self, of: impl Fn(&Limits, &[&Turn]) -> Option<f64>) -> Option<f64> {
        self.cell.of_rounds(|round| of(&self.limits, round))
    }

    /// A figure of each round.
    pub(super) fn each(&self, of: impl Fn(&Limits, &[&Turn]) -> Option<f64>) -> Vec<f64> {
        by_round(&self.cell.turns, |round| of(&self.limits, round))
    }

    /// The share of the frames that have no page and are not taken for one.
    pub(super) fn idle(&self) -> f64 {
        let idle: Vec<f64> = self.cell.turns[ENGINE].iter().flat_map(|turn| turn.series(Meter::Idle)).collect();
        idle.iter().sum::<f64>() / idle.len().max(1) as f64 / self.frames as f64
    }

    /// Waits for a free frame in all turns.
    pub(super) fn free_waits(&self) -> f64 {
        let waits = |turn: &Turn| Some(turn.values[Meter::FreeWaits as usize]? * turn.seconds);
        self.cell.turns[ENGINE].iter().filter_map(waits).sum::<f64>().round()
    }
}

/// The common parts of all pools.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub site: &'a Arc<Site>,
    pub options: &'a Options,
    pub map: &'a PageMap,
    pub data_bytes: u64,
    /// The loop that reads without an engine.
    pub bare: PageLoop<'a>,
}

/// A turn of the loop is this many times shorter.
const SHORTER: u32 = 4;
/// Turns in which the pool fills.
const WARM_UP: u32 = 2;

/// The longest time of a pool size.
pub(super) fn time(options: &Options) -> Duration {
    let turns = options.plan.cell(options.threads.len());
    options.plan.turn * WARM_UP + turns + turns / SHORTER
}

impl Bench<'_> {
    /// Runs the cells of one pool size. Also returns the engine's own charts.
    pub(super) fn pool(
        &self,
        pool_bytes: u64,
        sides: &mut [Series],
        progress: &mut Progress,
    ) -> Result<(Vec<Case>, Vec<Chart>)> {
        let (options, plan, mut cases) = (self.options, &self.options.plan, Vec::new());
        let sessions = |threads| Sessions::Sysbench { mix: mix(), rows: options.rows, threads };
        let mut engine = Embedded::open(SIDES[ENGINE], Arc::clone(self.site), &Settings::pool(pool_bytes))?;
        let most = options.threads.iter().copied().max().unwrap_or(1);
        let warmers = Work { sessions: sessions(most.min(16)), seed: plan.seed.wrapping_add(1) };
        engine.warm_up(&warmers, plan.turn * WARM_UP, progress)?;
        let bare = |threads| self.bare.run(threads, plan.turn / SHORTER);
        let (frames, tight) = (engine.frames(), pool_bytes < self.data_bytes);
        let alone = tight.then(|| bare(1)).transpose()?;
        for &threads in &options.threads {
            let name = [format!("{} MB", human(pool_bytes as f64 / 1e6)), threads.to_string()];
            let phase = format!("pool {}, {threads} threads", name[0]);
            progress.step(&phase);
            let simulated = simulated(self.map, options, threads, frames)?;
            let limits = Limits { threads, simulated, alone: alone.clone() };
            let work = Work { sessions: sessions(threads), seed: plan.seed };
            let turn = |side, series: &mut Series| {
                let turn = if side == BARE {
                    bare(threads)?
                } else {
                    let cores = control::cores(threads)?;
                    let mut turn = engine.turn(&work, &phase, plan.turn, progress)?;
                    turn.values[Meter::Cores as usize] = Some(cores);
                    // They are charted for one pool alone.
                    turn.each.iter_mut().for_each(|second| second.own.clear());
                    turn
                };
                series.add(&phase, &turn);
                Ok(turn)
            };
            let sides = &mut sides[..if tight { SIDES.len() } else { BARE }];
            let name = name.each_ref().map(String::as_str);
            let cell = Cell::until(&name, sides, plan.rounds, turn, |turns| limits.decided(turns))?;
            cases.push(Case { cell, pool_bytes, frames, limits });
        }
        Ok((cases, engine.series().own_charts()))
    }
}

/// The misses per transaction of the policy for the same references, simulated.
fn simulated(map: &PageMap, options: &Options, sessions: usize, frames: usize) -> Result<f64> {
    // Enough to fill the cache several times before the measurement.
    let warm = (map.pages() / 8).clamp(400, 20_000);
    let plan = Plan { mix: mix(), rows: options.rows, sessions, transactions: [warm, 1500], seed: options.plan.seed };
    let misses = misses_per_transaction(map, &plan, &[frames])?;
    misses.first().copied().ok_or_else(|| anyhow!("nothing was simulated"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_least_of_processor_disk_and_waiting_threads() {
        // 100 transactions in a second, each with 10 misses and 1 ms of a core.
        let turn = |transactions, reads| {
            let mut turn =
                Turn { seconds: 1.0, transactions, cpu_seconds: Some(transactions / 1e3), ..Turn::default() };
            (turn.values[Meter::Reads as usize], turn.values[Meter::Cores as usize]) = (Some(reads), Some(2.0));
            turn
        };
        let engine = turn(100.0, 1000.0);
        let bare = |per_second| Turn { cpu_seconds: Some(0.0), ..turn(per_second, 0.0) };
        let limits =
            |threads, alone: f64| Limits { threads, simulated: 10.0, alone: (alone > 0.0).then(|| bare(alone)) };
        let bound = |limits: Limits, device| limits.bound(&[&engine, &bare(device)]).unwrap().round();
        assert_eq!(bound(limits(2, 0.0), 1e6), 2000.0, "all in the pool: two cores");
        assert_eq!(bound(limits(2, 1e3), 1e6), 183.0, "two threads, 11 ms for each transaction, of which 10 wait");
        assert_eq!(bound(limits(2, 1e6), 505.0), 51.0, "the disk");
        let misses = limits(2, 1e3).misses_of_simulated(&[&engine]).unwrap();
        assert!((misses - 100.0 / 101.0).abs() < 1e-9, "one transaction of two threads is half done: {misses}");
    }
}
