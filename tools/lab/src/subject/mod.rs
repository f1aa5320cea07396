//! The subjects of the experiments in turns: an engine with its tables, whose sessions run a load
//! for a turn.
//!
//! | module | what |
//! |---|---|
//! | [`meters`] | the figures of a second, the same for every subject |
//! | [`embedded`] | the engine in this process |
//!
//! A server, private or not, is a [`Side`](crate::server::turns::side::Side).

pub mod embedded;
pub mod meters;

use std::time::Duration;

use anyhow::Result;

use self::meters::{Meter, Values};
use crate::figures::{Chart, Span};
use crate::progress::Progress;
use crate::rig::load::Latencies;
use crate::server::turns::workload::Workload;

/// A second of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// The end of the second, in seconds of this subject's turns.
    pub t: f64,
    /// Rates and gauges.
    pub values: Values,
}

/// The measurements of a turn.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// How long it was.
    pub seconds: f64,
    pub transactions: f64,
    /// Processor seconds of the engine's process, if the system reports them.
    pub cpu_seconds: Option<f64>,
    /// Rates of the whole turn, gauges at its end.
    pub values: Values,
    /// The times of transactions and statements, if the load reports them.
    pub latencies: Latencies,
    /// sysbench's 95th percentiles of the seconds, in milliseconds.
    pub p95_ms: Vec<f64>,
    /// Microseconds that all sessions together waited, by class, if the engine reports them.
    pub waits_us: Vec<(&'static str, f64)>,
    pub each: Vec<Second>,
}

impl Turn {
    /// Transactions per second.
    pub fn tps(&self) -> f64 {
        self.transactions / self.seconds.max(1e-9)
    }

    /// Processor microseconds of the engine's process per transaction.
    pub fn cpu_us(&self) -> Option<f64> {
        self.cpu_seconds.map(|s| s * 1e6 / self.transactions.max(1.0))
    }

    /// The count of a meter per transaction.
    pub fn per_transaction(&self, meter: Meter) -> Option<f64> {
        self.values[meter as usize].map(|rate| rate / self.tps().max(1e-9))
    }

    /// The values of a meter, second by second.
    pub fn series(&self, meter: Meter) -> Vec<f64> {
        self.each.iter().filter_map(|s| s.values[meter as usize]).collect()
    }
}

/// The turns of a subject so far.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The subject's name in texts.
    pub name: String,
    /// Seconds of all its turns.
    pub ran: f64,
    /// The turns, including warm-ups; each has another seed.
    pub turns: u64,
    /// The seconds of all turns.
    pub seconds: Vec<Second>,
    /// The turns on its time axis.
    pub spans: Vec<Span>,
}

impl Series {
    /// A subject without turns.
    pub fn new(name: &str) -> Series {
        Series { name: name.to_owned(), ..Series::default() }
    }

    /// The seed of the present turn of a run with seed `seed`; behind the greatest one comes 0.
    pub fn seed_of_turn(&self, seed: u64) -> u64 {
        seed.wrapping_add(self.turns)
    }

    /// Adds a turn at the end.
    pub fn add(&mut self, phase: &str, turn: &Turn) {
        let from = self.ran;
        self.ran += turn.seconds;
        self.spans.push(Span { from, to: self.ran, label: phase.to_owned() });
        self.seconds.extend(&turn.each);
    }

    /// The values of a meter in a part of the seconds, given as shares of them.
    pub fn part(&self, meter: Meter, from: f64, to: f64) -> Vec<f64> {
        let n = self.seconds.len() as f64;
        let seconds = &self.seconds[(n * from) as usize..(n * to) as usize];
        seconds.iter().filter_map(|s| s.values[meter as usize]).collect()
    }

    /// The greatest value of a meter.
    pub fn most(&self, meter: Meter) -> Option<f64> {
        self.part(meter, 0.0, 1.0).into_iter().reduce(f64::max)
    }
}

/// An engine that is measured in turns. Between its turns nothing happens to it.
pub trait Subject {
    /// The load of a turn, as the subject's clients take it.
    type Work;

    /// Its turns so far.
    fn series(&self) -> &Series;

    /// See [`Subject::series`].
    fn series_mut(&mut self) -> &mut Series;

    /// Its name in texts.
    fn name(&self) -> &str {
        &self.series().name
    }

    /// The load of `sessions` sessions. In dbSTRESS one WRITE follows every `rw_ratio` READs.
    fn work(&self, workload: Workload, sessions: u32, rw_ratio: u32, seed: u64) -> Result<Self::Work>;

    /// A turn: `work` runs for `duration`, as part of `phase`. Its random numbers differ from those
    /// of all turns before, whichever load they had: the same UPDATE again would change nothing,
    /// and the same read would find its page in the cache.
    fn turn(&mut self, work: &Self::Work, phase: &str, duration: Duration, progress: &mut Progress) -> Result<Turn>;

    /// A turn that is not measured: it leaves no seconds behind, and takes no time in the charts.
    fn warm_up(&mut self, work: &Self::Work, duration: Duration, progress: &mut Progress) -> Result<Turn> {
        let series = self.series();
        let (seconds, spans, ran) = (series.seconds.len(), series.spans.len(), series.ran);
        let turn = self.turn(work, "warm-up", duration, progress)?;
        let series = self.series_mut();
        series.seconds.truncate(seconds);
        series.spans.truncate(spans);
        series.ran = ran;
        Ok(turn)
    }

    /// Megabytes of memory of the engine's process, if it has one of its own.
    fn memory_mb(&self) -> Option<f64>;

    /// Begins a transaction that reads the present state, and holds it.
    fn hold_snapshot(&mut self) -> Result<()>;

    /// The rows of dbSTRESS's HISTORY that the snapshot saw otherwise than the newest state. Ends
    /// the transaction of the snapshot.
    fn rows_changed(&mut self) -> Result<u64>;

    /// Writes the log round under a load such as `work`, so that flushing reaches its steady state;
    /// a modelled disk is fast meanwhile, and slow from then on. `lap` is what flushing lets the
    /// log grow to, in bytes. False if there was not enough time.
    fn fill_log(&mut self, work: &Self::Work, lap: f64, progress: &mut Progress) -> Result<bool>;

    /// From now on a loop of syncs runs beside the turns, if the subject has one on its disk.
    fn sync_beside(&mut self) -> Result<()> {
        Ok(())
    }

    /// Charts of what only this kind of subject reports.
    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Their sum ended a run with `--seed` near the greatest number, in a build with checks.
    #[test]
    fn the_greatest_seed_has_turns_too() {
        let series = Series { turns: 2, ..Series::default() };
        assert_eq!([1, u64::MAX].map(|seed| series.seed_of_turn(seed)), [3, 1]);
    }
}
