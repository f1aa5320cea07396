//! A sample of everything once a second.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use holdfast::metrics::{Counter, Gauge, Snapshot, WaitClass};
use holdfast::{CacheStats, Database, TableStats};

use super::control::SyncLoop;
use super::load::Load;
use crate::measure::per_second;
use crate::progress::Progress;
use crate::subject::meters::{self, Meter, Values};
use crate::subject::turn::{Own, Second, Turn};

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

/// Why pages are flushed.
const FLUSHED: [(&str, Counter); 3] = [
    ("ahead of eviction", Counter::FlushedLru),
    ("for the checkpoint", Counter::FlushedCheckpoint),
    ("by threads that needed a frame", Counter::FlushedEviction),
];

/// Title and unit of a chart.
type Titled = (&'static str, &'static str);

const FRAMES: Titled = ("frames", "pages");
const TABLES: Titled = ("content of the pool", "pages");
const LOG: Titled = ("log", "MB");
const HISTORY: Titled = ("history and versions", "count");
const DISK: Titled = ("disk", "pages per second");
const LATENCY: Titled = ("99th percentile by statement", "milliseconds");
const FLUSHES: Titled = ("pages flushed by cause", "pages per second");
const WAITED: Titled = ("waits, all sessions together", "seconds per second");

/// The meters that are charted: their line, and the factor to its unit.
const METERS: [(Titled, &str, Meter, f64); 9] = [
    (("throughput", "transactions per second"), "TPS", Meter::Commits, 1.0),
    (FRAMES, "free", Meter::Free, 1.0),
    (FRAMES, "free and not taken", Meter::Idle, 1.0),
    (FRAMES, "dirty", Meter::Dirty, 1.0),
    (LOG, "checkpoint age", Meter::Age, 1e-6),
    (HISTORY, "history length", Meter::History, 1.0),
    (HISTORY, "versions", Meter::Versions, 1.0),
    (DISK, "read", Meter::Reads, 1.0),
    (DISK, "written", Meter::Writes, 1.0),
];

/// Samples one database.
pub struct Sampler {
    db: Database,
    last: Snapshot,
    /// The log's capacity, in bytes. No experiment changes it while a load runs.
    capacity_bytes: u64,
    /// A loop of syncs, and its count at the last sample.
    beside: Option<(SyncLoop, u64)>,
}

impl Sampler {
    /// Creates a sampler, without a loop beside the database.
    pub fn new(db: &Database) -> Sampler {
        let (last, capacity_bytes) = (db.metrics_snapshot(), db.stats().log.capacity_bytes);
        Sampler { db: db.clone(), last, capacity_bytes, beside: None }
    }

    /// Starts a loop of syncs in `dir`.
    pub fn sync_beside(&mut self, dir: &Path) -> Result<()> {
        self.beside = Some((SyncLoop::start(dir)?, 0));
        Ok(())
    }

    /// Runs `load` for `duration` as phase `phase`. Gives each sample, one a second, to `further`,
    /// whose error ends the load.
    pub fn run(
        &mut self,
        phase: &str,
        load: &mut Load,
        duration: Duration,
        progress: &mut Progress,
        further: &mut dyn FnMut(&mut Second) -> Result<()>,
    ) -> Result<Turn> {
        let before = self.db.metrics_snapshot();
        self.last = before.clone();
        if let Some((syncs, counted)) = &mut self.beside {
            *counted = syncs.count();
        }
        let (classes, mut each) = (load.classes(), Vec::<Second>::new());
        let turn = load.run(duration, &mut |second| {
            let t = each.last().map_or(0.0, |last| last.t) + second.seconds;
            let mut sample = self.sample(classes, second, t);
            progress.show(&format!("{phase}: {}", meters::in_words(&sample.values)));
            further(&mut sample)?;
            each.push(sample);
            Ok(())
        })?;
        let did = self.db.metrics_snapshot().delta(&before);
        let waited = |class: &WaitClass| (class.name(), did.wait(*class).total.as_secs_f64() * 1e6);
        let waits_us = WaitClass::ALL.iter().map(waited).collect();
        Ok(Turn {
            values: meters::over(each.iter().map(|second| (&second.values, second.length))),
            waits_us,
            each,
            ..turn
        })
    }

    /// The second that ends now, `t` seconds after the turn began.
    fn sample(&mut self, classes: &[&str], second: &Turn, t: f64) -> Second {
        let now = self.db.metrics_snapshot();
        let (cache, tables) = self.db.cache_stats();
        let did = now.delta(&self.last);
        self.last = now;
        let values = self.values(second, &did, &cache);
        Second { t, length: second.seconds, values, own: self.own(classes, second, &did, (&cache, &tables), &values) }
    }

    fn values(&mut self, second: &Turn, did: &Snapshot, cache: &CacheStats) -> Values {
        let rate = |counter| per_second(did.get(counter), second.seconds);
        let syncs = self.beside.as_mut().map(|(syncs, before)| {
            let count = syncs.count();
            per_second(count - std::mem::replace(before, count), second.seconds)
        });
        let known = [
            (Meter::Commits, Some(second.tps())),
            (Meter::P99, second.latencies.transaction_ms(99.0)),
            (Meter::History, Some(did.gauge(Gauge::HistoryListLength) as f64)),
            (Meter::Versions, Some(did.gauge(Gauge::VersionsStored) as f64)),
            (Meter::Age, Some(did.gauge(Gauge::CheckpointAge) as f64)),
            (Meter::Log, Some(rate(Counter::LogAppended))),
            (Meter::Free, Some(cache.free_frames as f64)),
            (Meter::Idle, Some(cache.idle_frames as f64)),
            (Meter::Dirty, Some(cache.dirty_pages as f64)),
            (Meter::Reads, Some(rate(Counter::PagesRead))),
            (Meter::Writes, Some(rate(Counter::PagesWritten))),
            (Meter::Doubled, Some(rate(Counter::DblwrPagesWritten))),
            (Meter::FreeWaits, Some(rate(Counter::FreeWaits))),
            (Meter::Syncs, syncs),
        ];
        let mut values = Values::default();
        known.into_iter().for_each(|(meter, value)| values[meter as usize] = value);
        values
    }

    fn own(
        &self,
        classes: &[&str],
        second: &Turn,
        did: &Snapshot,
        (cache, tables): (&CacheStats, &[TableStats]),
        values: &Values,
    ) -> Vec<Own> {
        let pages = |table: &TableStats| table.indexes.iter().map(|i| i.resident_pages).sum::<u64>();
        let others = cache.resident_pages.saturating_sub(tables.iter().map(pages).sum());
        let clean = cache.resident_pages.saturating_sub(cache.dirty_pages);
        let capacity = self.capacity_bytes as f64 / 1e6;
        let mut own: Vec<Own> = Vec::new();
        let mut add = |chart, line: &str, value: f64, dashed| {
            own.push(Own { chart, line: line.to_owned(), value, dashed });
        };
        for (chart, line, meter, factor) in METERS {
            add(chart, line, values[meter as usize].unwrap_or(0.0) * factor, false);
        }
        add(FRAMES, "clean", clean as f64, false);
        add(FRAMES, "small queue (old)", cache.old_pages as f64, false);
        add(FRAMES, "scan ring", cache.ring_pages as f64, false);
        tables.iter().for_each(|table| add(TABLES, &table.name, pages(table) as f64, false));
        add(TABLES, "undo and system", others as f64, false);
        add(LOG, "capacity", capacity, true);
        add(LOG, "60 % of it", 0.6 * capacity, true);
        for (n, class) in classes.iter().enumerate() {
            add(LATENCY, class, second.latencies.class_ms(n, 99.0).unwrap_or(0.0), false);
        }
        for (cause, counter) in FLUSHED {
            add(FLUSHES, cause, per_second(did.get(counter), second.seconds), false);
        }
        for class in WAITS {
            add(WAITED, class.name(), did.wait(class).total.as_secs_f64() / second.seconds.max(1e-9), false);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The age at which statements wait was drawn as the capacity, and 60 % of it as the target.
    #[test]
    fn the_capacity_is_that_of_the_log() {
        let db = |mib: u64| Database::builder().log_capacity_bytes(mib << 20).in_memory().unwrap();
        assert_eq!([16, 32].map(|mib| Sampler::new(&db(mib)).capacity_bytes), [16 << 20, 32 << 20]);
    }
}
