//! A target under load, sampled: what an experiment drives.
//!
//! The thread that drives the experiment is also the sampler. [`Bench::run`] lets the target run
//! for a while, takes a [`Sample`] at each interval, and shows the current TPS. Between calls the
//! target is paused, so that two benches can be measured in turns on the same cores.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use holdfast_io::Clock;
use serde::Serialize;

use crate::experiments::sideload::{BIG, HOT};
use crate::measure::{human, or_dash, per_second};
use crate::progress::Progress;
use crate::target::{PoolState, Target};
use crate::worker::Workers;

/// One moment of a run. Rates are over the time since the sample before.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Seconds of the target's time since the run began.
    pub t: f64,
    pub tps: f64,
    /// Rows dumped per second.
    pub dump_rows_per_s: f64,
    /// Hot-table pages read from disk per second, if the subject reports them.
    pub hot_reads_per_s: Option<f64>,
    /// MB resident, in the order of [`SEGMENTS`].
    pub resident_mb: Vec<f64>,
}

/// A phase of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    pub name: String,
    /// Seconds of the target's time at its start.
    pub from: f64,
    /// Seconds of the target's time at its end.
    pub to: f64,
}

/// The counters at one moment. They only grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Transactions committed.
    pub commits: u64,
    /// Reads of the hot table from disk; `None` if the subject does not report them.
    pub hot_reads: Option<u64>,
    /// Pages made young.
    pub made_young: Option<u64>,
    /// Touches that did not make a page young.
    pub not_young: Option<u64>,
}

/// All counters of a subject at one moment, and the state of its pool where that is read with them.
#[derive(Clone, Debug)]
pub struct Mark<P = ()> {
    /// Seconds of the subject's time.
    pub t: f64,
    pub counters: Counters,
    /// Rows of the dump, or bytes of its text.
    pub dumped: u64,
    pub pool: P,
}

/// The rates between two marks.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub seconds: f64,
    pub tps: f64,
    /// Rows or bytes dumped per second.
    pub dumped_per_s: f64,
}

impl<P> Mark<P> {
    /// The rates since `earlier`.
    pub fn since(&self, earlier: &Mark<P>) -> Window {
        let seconds = self.t - earlier.t;
        let rate = |to: u64, from: u64| per_second(to.saturating_sub(from), seconds);
        Window {
            seconds,
            tps: rate(self.counters.commits, earlier.counters.commits),
            dumped_per_s: rate(self.dumped, earlier.dumped),
        }
    }

    /// Pages made young, and touches that did not make a page young, since `earlier`.
    pub fn young_since(&self, earlier: &Mark<P>) -> Option<(u64, u64)> {
        let (to, from) = (&self.counters, &earlier.counters);
        Some((to.made_young?.saturating_sub(from.made_young?), to.not_young?.saturating_sub(from.not_young?)))
    }

    /// Reads of the hot table since `earlier`.
    pub fn hot_reads_since(&self, earlier: &Mark<P>) -> Option<u64> {
        Some(self.counters.hot_reads?.saturating_sub(earlier.counters.hot_reads?))
    }
}

/// A slice of the pool in charts: an index of a table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Segment {
    pub table: &'static str,
    pub index: &'static str,
}

/// The indexes that are charted.
pub const SEGMENTS: [Segment; 4] = [
    Segment { table: HOT, index: "PRIMARY" },
    Segment { table: HOT, index: "k" },
    Segment { table: BIG, index: "PRIMARY" },
    Segment { table: BIG, index: "k" },
];

/// The samples and phases of a run.
#[derive(Debug)]
pub struct Recording {
    name: String,
    samples: Vec<Sample>,
    phases: Vec<Phase>,
}

impl Recording {
    /// A run of the subject with this name.
    pub fn new(name: &str) -> Recording {
        Recording { name: name.to_owned(), samples: Vec::new(), phases: Vec::new() }
    }

    /// Samples and phases so far.
    pub fn series(&self) -> (&[Sample], &[Phase]) {
        (&self.samples, &self.phases)
    }

    /// From `t` on it is phase `name`.
    pub fn enter(&mut self, name: &str, t: f64) {
        if self.phases.last().is_none_or(|p| p.name != name) {
            self.phases.push(Phase { name: name.to_owned(), from: t, to: t });
        }
    }

    /// The phase has lasted until `t`.
    pub fn leave(&mut self, t: f64) {
        if let Some(phase) = self.phases.last_mut() {
            phase.to = t;
        }
    }

    /// Adds a sample and shows it, with words about the hot table.
    pub fn add(&mut self, sample: Sample, hot_table: &str, progress: &mut Progress) {
        let (tps, dump) = (human(sample.tps), human(sample.dump_rows_per_s));
        progress.show(&format!("{}: {tps} tps, dump {dump} rows/s, hot table {hot_table}", self.name));
        self.samples.push(sample);
    }
}

/// A target with its workers, its samples and phases.
pub struct Bench {
    pub workers: Workers,
    interval: Duration,
    began: f64,
    recording: Recording,
    /// True if its throughput is drawn in the picture of the run.
    pub drawn: bool,
}

impl Bench {
    /// Creates a bench, paused; `interval` is the time between samples.
    pub fn new(workers: Workers, name: &str, interval: Duration) -> Bench {
        workers.pause();
        let began = workers.target().clock().now().as_secs_f64();
        Bench { workers, interval, began, recording: Recording::new(name), drawn: false }
    }

    /// Samples and phases so far.
    pub fn series(&self) -> (&[Sample], &[Phase]) {
        self.recording.series()
    }

    /// Transactions per second since `from`, in `parts` parts of equal length.
    pub fn tps_since(&self, from: &Mark<PoolState>, parts: usize) -> Vec<f64> {
        let rates: Vec<f64> = self.series().0.iter().filter(|s| s.t >= from.t - self.began).map(|s| s.tps).collect();
        let part = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        rates.chunks(rates.len().div_ceil(parts).max(1)).map(part).collect()
    }

    /// All counters now.
    pub fn mark(&self) -> Result<Mark<PoolState>> {
        let (work, target) = (self.workers.work(), self.workers.target());
        let t = target.clock().now().as_secs_f64();
        let commits = work.transactions.load(Ordering::Relaxed);
        let dumped = work.dumped_rows.load(Ordering::Relaxed);
        let pool = target.pool()?;
        let (made_young, not_young) = (Some(pool.made_young), Some(pool.not_young));
        let counters = Counters { commits, hot_reads: Some(pool.disk_reads(HOT)), made_young, not_young };
        Ok(Mark { t, counters, dumped, pool })
    }

    /// Lets the target run for `duration` as part of phase `phase`, or until `enough` returns true
    /// after a sample. Returns true in the second case.
    pub fn run_until(
        &mut self,
        phase: &str,
        duration: Duration,
        progress: &mut Progress,
        enough: &mut dyn FnMut(&Mark<PoolState>) -> bool,
    ) -> Result<bool> {
        let clock = std::sync::Arc::clone(self.workers.target().clock());
        self.workers.resume();
        let end = clock.now() + duration;
        let mut done = false;
        let mut last = self.mark()?;
        self.recording.enter(phase, last.t - self.began);
        while !done && clock.now() < end {
            let left = end.saturating_sub(clock.now());
            std::thread::sleep(self.interval.min(left));
            let mark = self.mark()?;
            self.workers.check()?;
            done = enough(&mark);
            // The rest at the end of a slice is too short for a rate.
            if mark.t - last.t >= self.interval.as_secs_f64() * 0.5 {
                self.sample(&last, &mark, progress);
                last = mark;
            }
        }
        self.workers.pause();
        self.recording.leave(clock.now().as_secs_f64() - self.began);
        Ok(done)
    }

    /// As [`Bench::run_until`], for all of `duration`.
    pub fn run(&mut self, phase: &str, duration: Duration, progress: &mut Progress) -> Result<()> {
        self.run_until(phase, duration, progress, &mut |_| false).map(|_| ())
    }

    fn sample(&mut self, last: &Mark<PoolState>, mark: &Mark<PoolState>, progress: &mut Progress) {
        let window = mark.since(last);
        let sample = Sample {
            t: mark.t - self.began,
            tps: window.tps,
            dump_rows_per_s: window.dumped_per_s,
            hot_reads_per_s: mark.hot_reads_since(last).map(|reads| per_second(reads, window.seconds)),
            resident_mb: SEGMENTS.map(|s| mark.pool.mb(mark.pool.resident_of(s.table, s.index))).to_vec(),
        };
        if self.drawn {
            progress.picture.push(window.tps);
        }
        let hot = mark.pool.mb(mark.pool.resident(HOT));
        let hot = format!("{hot:.1} MB in the pool, {} reads/s of it", or_dash(sample.hot_reads_per_s, human));
        self.recording.add(sample, &hot, progress);
    }
}
