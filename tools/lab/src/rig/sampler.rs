//! A sample of everything once a second, and the charts of it, all on one time axis.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use holdfast::metrics::{Counter, Gauge, Snapshot, WaitClass};
use holdfast::{CacheStats, Database};

use super::control::SyncLoop;
use super::load::{Load, Second, Turn};
use crate::figures::{Chart, Line, Span};
use crate::measure::{human, per_second};
use crate::progress::Progress;
use crate::subject::meters::{Meter, Values};

/// One second.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Seconds since the sampler was created, pauses of the load included.
    pub t: f64,
    /// Rates and gauges.
    pub values: Values,
    /// 99th percentile of transactions, in milliseconds.
    pub p99_ms: Option<f64>,
    /// 99th percentile of each statement class, in milliseconds.
    pub class_p99_ms: Vec<Option<f64>>,
    pub cache: CacheStats,
    /// Resident pages of each table, by name; the rest (undo, system) under the last name.
    pub tables: Vec<(String, u64)>,
    /// The log's capacity, in bytes.
    pub capacity_bytes: u64,
    /// Pages written per second: ahead of eviction, for the checkpoint, by threads that needed a
    /// frame.
    pub flushed_per_s: [f64; 3],
    /// Seconds waited per second, by class.
    pub waits: Vec<(&'static str, f64)>,
}

impl Sample {
    /// The value of a meter that the engine reports.
    pub fn value(&self, meter: Meter) -> f64 {
        self.values[meter as usize].unwrap_or(0.0)
    }
}

/// The classes of waits that are charted.
const WAITS: [WaitClass; 7] = [
    WaitClass::Latch,
    WaitClass::Lock,
    WaitClass::Log,
    WaitClass::LogSpace,
    WaitClass::Frame,
    WaitClass::ReadIo,
    WaitClass::StructureChange,
];

/// Samples one database.
pub struct Sampler {
    db: Database,
    began: Instant,
    last: Snapshot,
    /// The log's capacity, in bytes. No experiment changes it while a load runs.
    capacity_bytes: u64,
    /// The samples so far.
    pub samples: Vec<Sample>,
    phases: Vec<Span>,
    /// A loop of syncs, and its count at the last sample.
    beside: Option<(SyncLoop, u64)>,
}

impl Sampler {
    /// Creates a sampler whose time begins now.
    pub fn new(db: &Database) -> Sampler {
        Sampler::since(db, Instant::now())
    }

    /// Creates a sampler whose time began at `began`, so that several share one axis.
    pub fn since(db: &Database, began: Instant) -> Sampler {
        Sampler {
            db: db.clone(),
            began,
            last: db.metrics_snapshot(),
            capacity_bytes: db.stats().log.capacity_bytes,
            samples: Vec::new(),
            phases: Vec::new(),
            beside: None,
        }
    }

    /// Samples another database from now on, without a loop beside it.
    pub fn follow(&mut self, db: &Database) {
        (self.db, self.beside) = (db.clone(), None);
        self.capacity_bytes = db.stats().log.capacity_bytes;
    }

    /// Starts a loop of syncs in `dir`.
    pub fn sync_beside(&mut self, dir: &Path) -> Result<()> {
        self.beside = Some((SyncLoop::start(dir)?, 0));
        Ok(())
    }

    /// Seconds since its time began.
    pub fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Runs `load` for `duration` as phase `phase`, with a sample a second.
    pub fn run(&mut self, phase: &str, load: &Load<'_>, duration: Duration, progress: &mut Progress) -> Result<Turn> {
        self.run_while(phase, load, duration, progress, &|| Ok(()))
    }

    /// As [`Sampler::run`], and asks `goes_on` after each sample: its error ends the load.
    pub fn run_while(
        &mut self,
        phase: &str,
        load: &Load<'_>,
        duration: Duration,
        progress: &mut Progress,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<Turn> {
        self.last = self.db.metrics_snapshot();
        if let Some((syncs, before)) = &mut self.beside {
            *before = syncs.count();
        }
        let from = self.now();
        let turn = load.run(duration, &mut |second| {
            let sample = self.sample(load, second);
            progress.show(&line(phase, &sample));
            self.samples.push(sample);
            goes_on()
        });
        let to = self.now();
        self.phases.push(Span { from, to, label: phase.to_owned() });
        turn
    }

    fn sample(&mut self, load: &Load<'_>, second: &Second) -> Sample {
        let now = self.db.metrics_snapshot();
        let (cache, tables) = self.db.cache_stats();
        let delta = |counter| now.get(counter).saturating_sub(self.last.get(counter));
        let rate = |counter| per_second(delta(counter), second.seconds);
        let mut resident: Vec<(String, u64)> =
            tables.iter().map(|t| (t.name.clone(), t.indexes.iter().map(|i| i.resident_pages).sum())).collect();
        let known: u64 = resident.iter().map(|t| t.1).sum();
        resident.push(("undo and system".to_owned(), cache.resident_pages.saturating_sub(known)));
        let waited = |class: WaitClass| {
            let spent = now.wait(class).total.saturating_sub(self.last.wait(class).total);
            (class.name(), spent.as_secs_f64() / second.seconds.max(1e-9))
        };
        let known = [
            (Meter::Commits, per_second(second.transactions, second.seconds)),
            (Meter::History, now.gauge(Gauge::HistoryListLength) as f64),
            (Meter::Versions, now.gauge(Gauge::VersionsStored) as f64),
            (Meter::Age, now.gauge(Gauge::CheckpointAge) as f64),
            (Meter::Log, rate(Counter::LogAppended)),
            (Meter::Free, cache.free_frames as f64),
            (Meter::Dirty, cache.dirty_pages as f64),
            (Meter::Reads, rate(Counter::PagesRead)),
            (Meter::Writes, rate(Counter::PagesWritten)),
        ];
        let mut values = [None; Meter::ALL.len()];
        known.into_iter().for_each(|(meter, value)| values[meter as usize] = Some(value));
        values[Meter::Syncs as usize] = self.beside.as_mut().map(|(syncs, before)| {
            let count = syncs.count();
            per_second(count - std::mem::replace(before, count), second.seconds)
        });
        let sample = Sample {
            t: self.now(),
            values,
            p99_ms: second.latencies.transaction_ms(99.0),
            class_p99_ms: (0..load.classes().len()).map(|c| second.latencies.class_ms(c, 99.0)).collect(),
            cache,
            tables: resident,
            capacity_bytes: self.capacity_bytes,
            flushed_per_s: [Counter::FlushedLru, Counter::FlushedCheckpoint, Counter::FlushedEviction].map(rate),
            waits: WAITS.map(waited).to_vec(),
        };
        self.last = now;
        sample
    }

    /// The samples as charts, `name` in their titles; `classes` are those of the statements.
    pub fn charts(&self, name: &str, classes: &[&str]) -> Vec<Chart> {
        let time = |title: &str, unit: &str, lines: Vec<Line>| {
            Chart::over_time(&format!("{name}: {title}"), unit, lines, self.phases.clone())
        };
        let line = |label: &str, value: &dyn Fn(&Sample) -> f64| self.line(label, value);
        let classes = classes.iter().enumerate();
        let latency = classes.map(|(n, class)| line(class, &|s| s.class_p99_ms[n].unwrap_or(0.0))).collect();
        // By name, since other tables may be created and dropped.
        let tables =
            self.samples.first().into_iter().flat_map(|s| &s.tables).map(|(label, _)| {
                line(label, &|s| s.tables.iter().find(|t| t.0 == *label).map_or(0.0, |t| t.1 as f64))
            });
        let waits = WAITS.iter().enumerate().map(|(n, class)| line(class.name(), &|s| s.waits[n].1));
        let age = line("checkpoint age", &|s| s.value(Meter::Age) / 1e6);
        let limits = [("capacity", 1e6), ("60 % of it", 1e6 / 0.6)];
        let limits =
            limits.map(|(label, part)| Line { dashed: true, ..line(label, &|s| s.capacity_bytes as f64 / part) });
        let flushed = ["ahead of eviction", "for the checkpoint", "by threads that needed a frame"];
        let flushed = flushed.iter().enumerate().map(|(n, cause)| line(cause, &|s| s.flushed_per_s[n]));
        vec![
            time("throughput", "transactions per second", vec![line("TPS", &|s| s.value(Meter::Commits))]),
            time("99th percentile by statement", "milliseconds", latency),
            time(
                "frames",
                "pages",
                vec![
                    line("free", &|s| s.value(Meter::Free)),
                    line("free and not taken", &|s| s.cache.idle_frames as f64),
                    line("clean", &|s| s.cache.resident_pages.saturating_sub(s.cache.dirty_pages) as f64),
                    line("dirty", &|s| s.value(Meter::Dirty)),
                    line("small queue (old)", &|s| s.cache.old_pages as f64),
                    line("scan ring", &|s| s.cache.ring_pages as f64),
                ],
            ),
            time("content of the pool", "pages", tables.collect()),
            time("log", "MB", [age].into_iter().chain(limits).collect()),
            time("pages flushed by cause", "pages per second", flushed.collect()),
            time(
                "history and versions",
                "count",
                vec![
                    line("history length", &|s| s.value(Meter::History)),
                    line("versions", &|s| s.value(Meter::Versions)),
                ],
            ),
            time("waits, all sessions together", "seconds per second", waits.collect()),
            time(
                "disk",
                "pages per second",
                vec![line("read", &|s| s.value(Meter::Reads)), line("written", &|s| s.value(Meter::Writes))],
            ),
        ]
    }

    fn line(&self, label: &str, value: &dyn Fn(&Sample) -> f64) -> Line {
        Line::new(label, self.samples.iter().map(|s| (s.t, value(s))))
    }
}

fn line(phase: &str, s: &Sample) -> String {
    format!(
        "{phase}: {} tps, p99 {} ms, {} free and {} dirty pages, age {} MB, history {}, {} reads/s",
        human(s.value(Meter::Commits)),
        human(s.p99_ms.unwrap_or(0.0)),
        human(s.value(Meter::Free)),
        human(s.value(Meter::Dirty)),
        human(s.value(Meter::Age) / 1e6),
        human(s.value(Meter::History)),
        human(s.value(Meter::Reads)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The age at which statements wait was drawn as the capacity, and 60 % of it as the target.
    #[test]
    fn the_capacity_is_that_of_the_log() {
        let db = |mib: u64| Database::builder().log_capacity_bytes(mib << 20).in_memory().unwrap();
        let mut sampler = Sampler::new(&db(16));
        assert_eq!(sampler.capacity_bytes, 16 << 20);
        sampler.follow(&db(32));
        assert_eq!(sampler.capacity_bytes, 32 << 20);
    }
}
