//! One pool size with every number of threads.

use anyhow::Result;
use holdfast::Database;
use holdfast::metrics::Counter;

use super::references::PageMap;
use super::{Options, Outcome, mix, simulated};
use crate::progress::Progress;
use crate::rig::control;
use crate::rig::sampler::Sampler;
use crate::rig::sessions::sysbench;
use crate::rig::site::{Settings, Site};

/// One pool size with one number of threads.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub pool_bytes: u64,
    pub threads: usize,
    pub tps: f64,
    /// The most that CPU and disk allow.
    pub bound: f64,
    pub cpu_us: f64,
    /// Pages of data read, per transaction.
    pub misses: f64,
    pub simulated: f64,
    /// Share of the frames that have no page and that nobody has taken for one.
    pub idle: f64,
    /// Cores that sessions that only compute got, just before.
    pub cores: f64,
    pub free_waits: u64,
    pub p99_ms: Option<f64>,
}

impl Cell {
    pub(super) fn misses_of_simulated(&self) -> Option<f64> {
        (self.simulated >= 0.5).then(|| self.misses / self.simulated)
    }
}

/// What is needed to run cells.
pub(super) struct Run<'a> {
    pub site: &'a Site,
    pub options: &'a Options,
    pub outcome: &'a mut Outcome,
    pub map: &'a PageMap,
    /// Whether the seconds of this pool are charted.
    pub charted: bool,
}

impl Run<'_> {
    /// Runs the cells of one pool size.
    pub(super) fn pool(&mut self, pool_bytes: u64, progress: &mut Progress) -> Result<()> {
        let db = self.site.open(&Settings::pool(pool_bytes))?;
        self.cells(&db, pool_bytes, progress)?;
        db.close()?;
        Ok(())
    }

    fn cells(&mut self, db: &Database, pool_bytes: u64, progress: &mut Progress) -> Result<()> {
        let options = self.options;
        let mut sampler = Sampler::new(db);
        let most = options.threads.iter().copied().max().unwrap_or(1);
        let warmer = sysbench(db, self.site, mix(), options.rows, most.min(16), options.seed + 1);
        warmer.run(options.turn, &mut |_| Ok(()))?;
        let frames = usize::try_from(db.cache_stats().0.frames)?;
        for &threads in &options.threads {
            let cores = control::cores(threads)?;
            let load = sysbench(db, self.site, mix(), options.rows, threads, options.seed);
            let from = sampler.samples.len();
            let before = db.metrics_snapshot();
            let turn = sampler.run(&format!("{threads} threads"), &load, options.turn, progress)?;
            let did = db.metrics_snapshot().delta(&before);
            // Sessions finish their last transaction after the turn: the misses of those are in `did`, too.
            let per_transaction = |n: u64| n as f64 / (turn.transactions + threads as u64 / 2).max(1) as f64;
            let misses = per_transaction(did.get(Counter::PagesRead));
            let idle: u64 = sampler.samples[from..].iter().map(|s| s.idle_pages).sum();
            let simulated = simulated(self.map, options, threads, frames, self.map.pages())?;
            let cell = Cell {
                pool_bytes,
                threads,
                tps: turn.tps(),
                bound: self.bound(threads, cores, turn.cpu_us(), misses),
                cores,
                cpu_us: turn.cpu_us(),
                misses,
                simulated,
                idle: idle as f64 / (sampler.samples.len() - from).max(1) as f64 / frames as f64,
                free_waits: did.get(Counter::FreeWaits),
                p99_ms: turn.latencies.transaction_ms(99.0),
            };
            if self.charted && threads == most {
                self.outcome.charts = sampler.charts("Half the data", &load);
            }
            self.outcome.cells.push(cell);
        }
        Ok(())
    }

    /// The operational law of a closed system: neither processor nor disk can do more than all of its time, and a
    /// session cannot compute while it waits.
    fn bound(&self, threads: usize, cores: f64, cpu_us: f64, misses: f64) -> f64 {
        let of_cpu = cores * 1e6 / cpu_us.max(1e-9);
        let Some(device) = self.outcome.prices.iter().find(|p| p.threads == threads).map(|p| p.device) else {
            return of_cpu;
        };
        let of_disk = device.per_second / misses.max(1e-9);
        // The time of a read when nobody else reads, without the processor time that is in `cpu_us` already.
        let alone = self.outcome.prices.iter().min_by_key(|p| p.threads).map_or(device, |p| p.device);
        let read_us = (1e6 / alone.per_second - alone.cpu_us).max(0.0);
        let of_thread = threads as f64 * 1e6 / (cpu_us + misses * read_us).max(1e-9);
        of_cpu.min(of_disk).min(of_thread)
    }
}
