//! A subject under load, sampled: what an experiment drives.
//!
//! The thread that drives the experiment is also the sampler. [`Bench::run`] lets the subject run
//! for a while, takes a [`Sample`] at each interval, and shows the current TPS. Between calls the
//! subject is paused, so that two benches can be measured in turns on the same cores.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::experiments::sideload::{BIG, HOT};
use crate::measure::{human, per_second};
use crate::progress::Progress;
use crate::target::{Resident, mb_of};

/// OLTP and a dump in a loop on a subject: the engine in this process, or a server. They begin
/// paused, and do nothing while they are.
pub trait Loaded {
    /// Starts OLTP, held to `rate` transactions a second, if there is one. One that runs is
    /// stopped.
    fn start_oltp(&mut self, rate: Option<f64>) -> Result<()>;

    /// Ends OLTP.
    fn stop_oltp(&mut self) -> Result<()>;

    /// Starts the dump.
    fn start_dump(&mut self) -> Result<()>;

    /// Ends the dump.
    fn stop_dump(&mut self) -> Result<()>;

    /// Lets everything run, or pauses it.
    fn set_running(&mut self, runs: bool);

    /// Prepares something that is not measured: a fast disk, and a dump without a pace. False if
    /// the subject cannot, or if `hurries` is.
    fn hurry(&mut self, _hurries: bool) -> bool {
        false
    }

    /// Seconds of the subject's time, which stands still during a pause.
    fn now(&self) -> f64;

    /// The counters now. Fails if one of its clients has ended.
    fn counters(&mut self) -> Result<Counters>;

    /// The rows in `dumped` of the counters.
    fn rows(&self, dumped: f64) -> f64 {
        dumped
    }

    /// How often the dump has gone through as many pages as the pool has, since it was started. A
    /// subject that counts whole dumps only says so much after each.
    fn pool_turnovers(&self) -> f64;

    /// The dump alone has turned the pool over, and `dumped` was dumped.
    fn turned_over(&mut self, _dumped: u64) -> Result<()> {
        Ok(())
    }

    /// 95th percentile of the transactions since the last call, in milliseconds.
    fn take_p95(&mut self) -> Option<f64>;

    /// The content of the pool, by table and index; empty if the subject does not report it.
    fn resident(&mut self) -> Result<Vec<Resident>>;

    /// MB resident for sample number `n`, in the order of [`SEGMENTS`]. It may be that of an
    /// earlier sample.
    fn listed(&mut self, _n: usize) -> Result<Vec<f64>> {
        Ok(by_segment(&self.resident()?))
    }
}

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
    /// Rows of the dump, or bytes of its text.
    pub dumped: u64,
    /// Reads of the hot table from disk; `None` if the subject does not report them.
    pub hot_reads: Option<u64>,
    /// Pages made young.
    pub made_young: Option<u64>,
    /// Touches that did not make a page young.
    pub not_young: Option<u64>,
}

/// All counters of a subject at one moment.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Seconds of the subject's time since the run began.
    pub t: f64,
    pub counters: Counters,
}

/// The rates between two marks.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub seconds: f64,
    pub tps: f64,
    /// Rows or bytes dumped per second.
    pub dumped_per_s: f64,
}

impl Mark {
    /// The rates since `earlier`.
    pub fn since(&self, earlier: &Mark) -> Window {
        let seconds = self.t - earlier.t;
        let rate = |to: u64, from: u64| per_second(to.saturating_sub(from), seconds);
        Window {
            seconds,
            tps: rate(self.counters.commits, earlier.counters.commits),
            dumped_per_s: rate(self.counters.dumped, earlier.counters.dumped),
        }
    }

    /// Pages made young, and touches that did not make a page young, since `earlier`.
    pub fn young_since(&self, earlier: &Mark) -> Option<(u64, u64)> {
        let (to, from) = (&self.counters, &earlier.counters);
        Some((to.made_young?.saturating_sub(from.made_young?), to.not_young?.saturating_sub(from.not_young?)))
    }

    /// What was dumped since `earlier`.
    pub fn dumped_since(&self, earlier: &Mark) -> u64 {
        self.counters.dumped.saturating_sub(earlier.counters.dumped)
    }

    /// Reads of the hot table since `earlier`.
    pub fn hot_reads_since(&self, earlier: &Mark) -> Option<u64> {
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

/// MB of each segment.
pub fn by_segment(resident: &[Resident]) -> Vec<f64> {
    SEGMENTS.map(|s| mb_of(resident, s.table, s.index)).to_vec()
}

/// A subject with its samples and phases.
pub struct Bench<L> {
    pub load: L,
    name: String,
    interval: Duration,
    /// The subject's time at the beginning.
    began: f64,
    samples: Vec<Sample>,
    phases: Vec<Phase>,
    /// True if its throughput is drawn in the picture of the run.
    pub drawn: bool,
}

impl<L: Loaded> Bench<L> {
    /// Creates a bench, paused; `interval` is the time between samples.
    pub fn new(mut load: L, name: &str, interval: Duration) -> Bench<L> {
        load.set_running(false);
        let (began, name) = (load.now(), name.to_owned());
        Bench { load, name, interval, began, samples: Vec::new(), phases: Vec::new(), drawn: false }
    }

    /// Samples and phases so far.
    pub fn series(&self) -> (&[Sample], &[Phase]) {
        (&self.samples, &self.phases)
    }

    /// Transactions per second since `from`, in `parts` parts of equal length.
    pub fn tps_since(&self, from: &Mark, parts: usize) -> Vec<f64> {
        let rates: Vec<f64> = self.samples.iter().filter(|s| s.t >= from.t).map(|s| s.tps).collect();
        let part = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        rates.chunks(rates.len().div_ceil(parts).max(1)).map(part).collect()
    }

    /// All counters now.
    pub fn mark(&mut self) -> Result<Mark> {
        Ok(Mark { t: self.now(), counters: self.load.counters()? })
    }

    fn now(&self) -> f64 {
        self.load.now() - self.began
    }

    /// Lets the subject run for `duration` as part of phase `phase`, or until `enough` returns true
    /// after a sample. Returns the marks at start and end, and true in the second case.
    pub fn run_until(
        &mut self,
        phase: &str,
        duration: Duration,
        progress: &mut Progress,
        enough: &mut dyn FnMut(&L, &Mark) -> bool,
    ) -> Result<(Mark, Mark, bool)> {
        let from = self.mark()?;
        if self.phases.last().is_none_or(|p| p.name != phase) {
            self.phases.push(Phase { name: phase.to_owned(), from: from.t, to: from.t });
        }
        let end = from.t + duration.as_secs_f64();
        let (mut last, mut done) = (from.clone(), false);
        self.load.set_running(true);
        while !done && self.now() < end {
            let left = Duration::from_secs_f64((end - self.now()).max(0.0));
            std::thread::sleep(self.interval.min(left));
            let mark = self.mark()?;
            done = enough(&self.load, &mark);
            // The rest at the end of a slice is too short for a rate.
            if mark.t - last.t >= self.interval.as_secs_f64() * 0.5 {
                self.sample(&last, &mark, progress)?;
                last = mark;
            }
        }
        self.load.set_running(false);
        let to = self.mark()?;
        self.phases.last_mut().into_iter().for_each(|p| p.to = to.t);
        Ok((from, to, done))
    }

    /// As [`Bench::run_until`], for all of `duration`.
    pub fn run(&mut self, phase: &str, duration: Duration, progress: &mut Progress) -> Result<(Mark, Mark)> {
        self.run_until(phase, duration, progress, &mut |_, _| false).map(|(from, to, _)| (from, to))
    }

    fn sample(&mut self, last: &Mark, mark: &Mark, progress: &mut Progress) -> Result<()> {
        let window = mark.since(last);
        let sample = Sample {
            t: mark.t,
            tps: window.tps,
            dump_rows_per_s: self.load.rows(window.dumped_per_s),
            hot_reads_per_s: mark.hot_reads_since(last).map(|reads| per_second(reads, window.seconds)),
            resident_mb: self.load.listed(self.samples.len())?,
        };
        if self.drawn {
            progress.picture.push(window.tps);
        }
        let (tps, dump, hot) = (human(sample.tps), human(sample.dump_rows_per_s), of_hot_table(&sample));
        progress.show(&format!("{}: {tps} tps, dump {dump} rows/s, hot table {hot}", self.name));
        self.samples.push(sample);
        Ok(())
    }
}

/// What is known of the hot table: reads per second, and MB in the pool.
fn of_hot_table(sample: &Sample) -> String {
    let reads = sample.hot_reads_per_s;
    let reads = reads.map_or_else(|| "of unknown reads".to_owned(), |n| format!("read {} times a second", human(n)));
    // The block cache of MyRocks does not say what it holds.
    let is_told = sample.resident_mb.iter().any(|&mb| mb > 0.0);
    let hot = SEGMENTS.iter().zip(&sample.resident_mb).filter(|(segment, _)| segment.table == HOT);
    let mb = hot.map(|(_, mb)| mb).fold(0.0, |sum, mb| sum + mb);
    if is_told { format!("{reads}, {mb:.1} MB of it in the pool") } else { reads }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that does not report its reads was told to read nothing, second by second.
    #[test]
    fn reads_that_a_server_does_not_report_are_no_zero() {
        let sample = |hot_reads_per_s, mb: [f64; 4]| Sample {
            t: 0.0,
            tps: 0.0,
            dump_rows_per_s: 0.0,
            hot_reads_per_s,
            resident_mb: mb.to_vec(),
        };
        assert_eq!(of_hot_table(&sample(None, [1.5, 0.5, 7.0, 0.0])), "of unknown reads, 2.0 MB of it in the pool");
        assert_eq!(of_hot_table(&sample(Some(0.0), [0.0; 4])), "read 0 times a second");
        let counters = |hot_reads| Counters { hot_reads, ..Counters::default() };
        let mark = |t: f64, hot_reads| Mark { t, counters: counters(hot_reads) };
        assert_eq!(mark(1.0, None).hot_reads_since(&mark(0.0, None)), None);
        assert_eq!(mark(1.0, Some(9)).hot_reads_since(&mark(0.0, Some(4))), Some(5));
    }
}
