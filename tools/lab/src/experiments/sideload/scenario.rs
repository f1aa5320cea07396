//! One run of one policy: warm or cold, at full speed or at the request rate.
//!
//! ```text
//! warm:  one dump | OLTP warms up | OLTP alone |
//!        the dump starts: both, in turns with the ceiling | the dump stops
//! cold:  the dump alone | OLTP starts: both, until the hot table is resident or patience ends |
//!        both, in turns with the ceiling
//! ```
//!
//! Both begin with a dump that turns the pool over: the pool of a server that has been running is
//! full, and an LRU list that has never evicted a page ranks its pages differently.
//!
//! At the request rate there are no turns: throughput is compared with the rate itself.

use std::time::{Duration, Instant};

use anyhow::Result;
use holdfast_workload::sysbench::Mix;
use holdfast_workload::{Scan, TableNo};

use super::options::{BIG, HOT, Options, Planned, Start};
use super::outcome::{FREE, Outcome, Warmth};
use super::scale::Scale;
use super::shares::{self, TURNOVERS};
use super::warming::Warming;
use crate::bench::{self, Bench, Window};
use crate::progress::Progress;
use crate::target::{EmbeddedSite, Hint, Policy, PoolState, Resident, Target, TargetSpec};
use crate::turns::{Rounds, in_turns};
use crate::worker::{DumpLoad, OltpLoad, Workers};

type Mark = bench::Mark<PoolState>;

/// The results of a run of a policy.
#[derive(Clone, Debug)]
pub struct PolicyOutcome {
    /// The policy.
    pub policy: Policy,
    /// TPS beside the dump, by sample, of the second half of a cold start that reached nothing.
    pub tps_in_cold: Vec<f64>,
    /// Pages that the dump went through while pages were made young. In a cold run by the dump
    /// alone, once the pool is full; in a warm run by OLTP and dump.
    pub dumped_pages: f64,
    /// What was measured.
    pub of: Outcome,
}

impl PolicyOutcome {
    /// The factors by which OLTP is slower than `alone` in the samples of a table that did not
    /// become resident.
    pub fn collapse(&self, alone: f64) -> Vec<f64> {
        self.tps_in_cold.iter().map(|tps| alone / tps.max(LEAST_TPS)).collect()
    }
}

/// Less than a transaction in any sample: none counts as this many a second.
const LEAST_TPS: f64 = 0.1;

/// The ceiling: a pool that holds both tables, under the same load.
pub struct Ceiling {
    /// Its bench, paused.
    pub bench: Bench,
    /// Pages of the hot table's clustered index.
    pub hot_pages: u64,
    /// Pages of the big table's clustered index.
    pub big_pages: u64,
    /// TPS without the dump.
    pub tps_alone: f64,
}

/// The common state of all runs.
pub struct Stage<'a> {
    pub site: &'a EmbeddedSite,
    /// Sizes and times.
    pub scale: Scale,
    pub options: &'a Options,
    pub progress: &'a mut Progress,
    /// After this time no more turns are given to decide a claim.
    pub enough: Instant,
}

impl Stage<'_> {
    fn oltp(&self, rate: Option<f64>) -> OltpLoad {
        OltpLoad {
            mix: Mix::READ_ONLY,
            rows: self.scale.hot_rows(),
            distribution: self.options.distribution,
            sessions: self.options.threads,
            rate,
            seed: self.options.seed,
        }
    }

    fn dump(&self, policy: Policy) -> DumpLoad {
        let undeclared = matches!(policy, Policy::Holdfast { hint: Hint::Undeclared | Hint::Off });
        DumpLoad {
            table: TableNo(1),
            name: BIG.to_owned(),
            scan: if undeclared { Scan::Undeclared } else { Scan::Declared },
            rows_per_second: self.options.dump_rows_per_second,
        }
    }

    fn bench(&self, name: &str, spec: &TargetSpec, interval: Duration) -> Result<Bench> {
        let target = self.site.open_engine(spec)?;
        let workers = Workers::new(target, self.options.cores.clone());
        Ok(Bench::new(workers, name, interval))
    }

    /// Opens the ceiling, fills its pool from a fast disk, and measures it without the dump.
    pub fn ceiling(&mut self) -> Result<Ceiling> {
        self.progress.step("ceiling");
        let policy = Policy::Holdfast { hint: Hint::Declared };
        let spec = TargetSpec { policy, pool_bytes: self.scale.ceiling_bytes(), copy: 1 };
        // Reading the state of so large a pool takes time: a few samples per turn are enough.
        let mut bench = self.bench("a pool that holds both tables", &spec, self.scale.sample_interval() * 2)?;
        // An undeclared walk over both tables at full speed fills the pool.
        let fill = |table, name: &str| DumpLoad {
            table: TableNo(table),
            name: name.to_owned(),
            scan: Scan::Undeclared,
            rows_per_second: None,
        };
        for (number, name) in [(0, HOT), (1, BIG)] {
            bench.workers.start_dump(fill(number, name))?;
            self.run_dumps(&mut bench, 1)?;
        }
        bench.workers.stop_dump()?;
        let pool = bench.workers.target().pool()?;
        let (hot_pages, big_pages) = (pool.resident_of(HOT, "PRIMARY"), pool.resident_of(BIG, "PRIMARY"));
        bench.workers.start_oltp(self.oltp(None))?;
        bench.run("warm-up", self.scale.minutes(0.3), self.progress)?;
        let from = bench.mark()?;
        bench.run("OLTP alone", self.scale.minutes(1.0), self.progress)?;
        let tps_alone = bench.mark()?.since(&from).tps;
        bench.workers.start_dump(self.dump(policy))?;
        Ok(Ceiling { bench, hot_pages, big_pages, tps_alone })
    }

    /// Runs until `n` more dumps have ended.
    fn run_dumps(&mut self, bench: &mut Bench, n: u64) -> Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        let goal = bench.workers.work().dumps.load(Relaxed) + n;
        while bench.workers.work().dumps.load(Relaxed) < goal {
            bench.run("load", self.scale.sample_interval(), self.progress)?;
        }
        Ok(())
    }

    /// Runs one policy.
    pub fn run(&mut self, ceiling: &mut Ceiling, (policy, start, rate): Planned) -> Result<PolicyOutcome> {
        let speed = rate.map_or_else(|| "full speed".to_owned(), |rate| format!("{rate:.0} tps asked"));
        self.progress.step(&format!("{policy}, {}, {speed}", start.name()));
        let spec = TargetSpec { policy, pool_bytes: self.scale.pool_bytes(), copy: 0 };
        let bench = self.bench(&policy.to_string(), &spec, self.scale.sample_interval())?;
        let at_the_rate = if rate.is_none() { "" } else { ", at the rate" };
        let full = rate.unwrap_or(ceiling.tps_alone);
        self.progress.picture.begin(&format!("{policy}, {}{at_the_rate}", start.name()), full);
        let run = Running { stage: self, ceiling, bench, policy, rate };
        match start {
            Start::Warm => run.warm(),
            Start::Cold => run.cold(),
        }
    }
}

/// A run in progress.
struct Running<'r, 'a> {
    stage: &'r mut Stage<'a>,
    ceiling: &'r mut Ceiling,
    bench: Bench,
    policy: Policy,
    /// The rate that OLTP is held to; `None` for full speed.
    rate: Option<f64>,
}

/// The longest time in which the dump may turn the pool over twice: ten times what it needs.
const TURN_OVER_MINUTES: f64 = 5.0;
/// Longest wait for the last pages of the hot table.
const SETTLE_MINUTES: f64 = 2.0;

/// The results of the part beside the dump.
#[derive(Default)]
struct Beside {
    own: Vec<Window>,
    ceiling: Vec<Window>,
}

/// The parts of the second half of a cold start that reached nothing: a few transactions each.
const PARTS_OF_COLD: usize = 5;

impl Running<'_, '_> {
    fn minutes(&self, n: f64) -> Duration {
        self.stage.scale.minutes(n)
    }

    fn warm(mut self) -> Result<PolicyOutcome> {
        let measured = self.rate.is_none();
        self.stage.site.set_slow(false);
        let unpaced = DumpLoad { rows_per_second: None, ..self.stage.dump(self.policy) };
        self.turn_over(unpaced, "a dump before")?;
        self.bench.workers.stop_dump()?;
        self.stage.site.set_slow(measured);
        self.bench.workers.start_oltp(self.stage.oltp(None))?;
        self.bench.drawn = true;
        let (warmth, _) = self.until_warm("warm-up", 20.0)?;
        self.stage.site.set_slow(true);
        if self.rate.is_some() {
            self.bench.workers.start_oltp(self.stage.oltp(self.rate))?;
        }
        let before = self.bench.mark()?;
        self.bench.run("OLTP alone", self.minutes(if measured { 1.0 } else { 0.5 }), self.stage.progress)?;
        let alone = self.bench.mark()?;
        self.bench.workers.start_dump(self.stage.dump(self.policy))?;
        self.bench.workers.work().take_latency();
        let beside = self.beside()?;
        let during = self.bench.mark()?;
        let p95_ms = self.p95();
        self.bench.workers.stop_dump()?;
        self.bench.run("OLTP alone again", self.minutes(0.5), self.stage.progress)?;
        let after = self.bench.mark()?;
        self.bench.workers.stop_oltp()?;
        let tps_alone = Some(alone.since(&before).tps);
        let pools = [alone.pool.clone(), during.pool.clone(), after.pool];
        let warmth = measured.then_some(warmth);
        let counted = (&alone, &during);
        Ok(self.outcome(Start::Warm, beside, counted, counted, pools, |o| {
            o.of.p95_ms = Some(p95_ms);
            o.of.tps_alone = tps_alone;
            o.of.warmth = warmth;
        }))
    }

    fn cold(mut self) -> Result<PolicyOutcome> {
        self.stage.site.set_slow(true);
        let opened = self.bench.mark()?;
        let full = self.turn_over(self.stage.dump(self.policy), "dump alone")?;
        let before = self.bench.mark()?;
        self.bench.workers.start_oltp(self.stage.oltp(self.rate))?;
        self.bench.drawn = true;
        let (warmth, half) = self.until_warm("cold start beside the dump", self.stage.options.cold_minutes)?;
        let from = if warmth.reached { self.bench.mark()? } else { half };
        let in_cold = self.bench.tps_since(&from, PARTS_OF_COLD);
        let beside = if warmth.reached {
            self.bench.workers.work().take_latency();
            self.beside()?
        } else {
            self.cold_state(&from)?
        };
        let during = self.bench.mark()?;
        let p95_ms = self.p95();
        self.bench.workers.stop_dump()?;
        self.bench.run("OLTP alone again", self.minutes(0.5), self.stage.progress)?;
        let after = self.bench.mark()?;
        self.bench.workers.stop_oltp()?;
        let dump_alone = Some(self.dump_seconds(&before.since(&opened)));
        let pools = [before.pool.clone(), during.pool.clone(), after.pool];
        Ok(self.outcome(Start::Cold, beside, (&from, &during), (&full, &before), pools, |o| {
            o.of.p95_ms = Some(p95_ms);
            o.of.dump_s_alone = dump_alone;
            o.tps_in_cold = if warmth.reached { o.of.tps_beside.clone() } else { in_cold };
            o.of.warmth = Some(warmth);
        }))
    }

    /// Starts the dump and runs until it has gone through the pool's pages twice. Returns the mark
    /// after the first time, when the pool was full.
    fn turn_over(&mut self, load: DumpLoad, phase: &str) -> Result<Mark> {
        let from = self.bench.mark()?;
        let mut full = from.clone();
        let pool_pages = from.pool.pool_pages as f64;
        let pages_per_row = self.ceiling.big_pages as f64 / f64::from(self.stage.scale.big_rows());
        let pages = |mark: &Mark| (mark.dumped - from.dumped) as f64 * pages_per_row;
        self.bench.workers.start_dump(load)?;
        let patience = self.minutes(TURN_OVER_MINUTES);
        self.bench.run_until(phase, patience, self.stage.progress, &mut |mark| {
            if pages(mark) < pool_pages {
                full = mark.clone();
            }
            pages(mark) >= 2.0 * pool_pages
        })?;
        Ok(full)
    }

    /// Runs until the hot table is warm, for at most `minutes`, and then until it is whole, so that
    /// each read in the measurement is one of a page that was lost. Also returns the mark at half
    /// of `minutes`, if the run got that far.
    fn until_warm(&mut self, phase: &str, minutes: f64) -> Result<(Warmth, Mark)> {
        let from = self.bench.mark()?;
        let mut half = from.clone();
        let half_time = from.t + self.minutes(minutes / 2.0).as_secs_f64();
        let mut warming = Warming::new(&from.counters);
        let patience = self.minutes(minutes);
        let reached = self.bench.run_until(phase, patience, self.stage.progress, &mut |mark| {
            if mark.t < half_time {
                half = mark.clone();
            }
            warming.add(&mark.counters)
        })?;
        let to = self.bench.mark()?;
        let (patience, rows) = (self.minutes(SETTLE_MINUTES), self.stage.scale.hot_rows());
        let whole = &mut |mark: &Mark| {
            warming.add(&mark.counters);
            warming.is_whole(rows)
        };
        let whole = reached && self.bench.run_until(phase, patience, self.stage.progress, whole)?;
        Ok((Warmth { reads: to.hot_reads_since(&from), seconds: to.t - from.t, reached, whole }, half))
    }

    /// Measures a table that did not become resident: the second half of its time, which began at
    /// `half`, and one turn of the ceiling.
    fn cold_state(&mut self, half: &Mark) -> Result<Beside> {
        let mut beside = Beside { own: vec![self.bench.mark()?.since(half)], ceiling: Vec::new() };
        if self.rate.is_none() {
            let turn = self.minutes(self.stage.options.turn_minutes);
            let from = self.ceiling.bench.mark()?;
            self.ceiling.bench.run("OLTP beside the dump", turn, self.stage.progress)?;
            beside.ceiling.push(self.ceiling.bench.mark()?.since(&from));
        }
        Ok(beside)
    }

    /// Runs OLTP and dump: in turns with the ceiling at full speed, for a while at the request
    /// rate.
    fn beside(&mut self) -> Result<Beside> {
        let mut beside = Beside::default();
        let phase = "OLTP beside the dump";
        if self.rate.is_some() {
            let half = self.minutes(self.stage.options.rate_minutes / 2.0);
            self.bench.run(phase, half, self.stage.progress)?;
            // The first half reaches the state that the second half measures.
            let from = self.bench.mark()?;
            self.bench.workers.work().take_latency();
            self.bench.run(phase, half, self.stage.progress)?;
            beside.own.push(self.bench.mark()?.since(&from));
            return Ok(beside);
        }
        let least = self.stage.options.turns;
        let is_ours = matches!(self.policy, Policy::Holdfast { .. });
        let rounds = if is_ours {
            Rounds::up_to_four_times(least)
        } else {
            Rounds { least: least.div_ceil(2), most: least.div_ceil(2) }
        };
        let (enough, rows_per_turnover) = (self.stage.enough, self.rows_per_turnover());
        let decided = |turns: &[Vec<Window>]| {
            let rows: f64 = turns[0].iter().map(|w| w.dumped_per_s * w.seconds).sum();
            rows / rows_per_turnover >= TURNOVERS && (Instant::now() >= enough || shares::decided(&turns[0], &turns[1]))
        };
        let turn = self.minutes(self.stage.options.turn_minutes);
        let run = |side| {
            let bench = if side == 0 { &mut self.bench } else { &mut self.ceiling.bench };
            let from = bench.mark()?;
            bench.run(phase, turn, self.stage.progress)?;
            Ok(bench.mark()?.since(&from))
        };
        let mut turns = in_turns(2, rounds, run, decided)?;
        beside.ceiling = turns.pop().unwrap_or_default();
        beside.own = turns.pop().unwrap_or_default();
        Ok(beside)
    }

    /// Pages that the dump went through between two marks.
    fn dumped_pages(&self, from: &Mark, to: &Mark) -> f64 {
        let rows = (to.dumped - from.dumped) as f64;
        rows / f64::from(self.stage.scale.big_rows()) * self.ceiling.big_pages as f64
    }

    fn turnovers(&self, from: &Mark, to: &Mark) -> f64 {
        (to.dumped - from.dumped) as f64 / self.rows_per_turnover()
    }

    /// Rows of the dump on as many pages as the hot table has.
    fn rows_per_turnover(&self) -> f64 {
        let share = self.ceiling.hot_pages.max(1) as f64 / self.ceiling.big_pages.max(1) as f64;
        f64::from(self.stage.scale.big_rows()) * share
    }

    fn p95(&self) -> f64 {
        self.bench.workers.work().take_latency().value_at_quantile(0.95) as f64 / 1000.0
    }

    fn outcome(
        &self,
        start: Start,
        beside: Beside,
        (from, to): (&Mark, &Mark),
        (young_from, young_to): (&Mark, &Mark),
        pools: [PoolState; 3],
        more: impl FnOnce(&mut PolicyOutcome),
    ) -> PolicyOutcome {
        let (samples, phases) = self.bench.series();
        let tps = |windows: &[Window]| windows.iter().map(|w| w.tps).collect();
        let dump = |windows: &[Window]| windows.iter().map(|w| self.dump_seconds(w)).collect();
        let of = Outcome {
            subject: self.policy.to_string(),
            start,
            rate: self.rate,
            tps_beside: tps(&beside.own),
            ceiling_tps: tps(&beside.ceiling),
            dump_s_beside: dump(&beside.own),
            ceiling_dump_s: dump(&beside.ceiling),
            hot_reads: to.hot_reads_since(from),
            turnovers: self.turnovers(from, to),
            young: young_to.young_since(young_from),
            pool_mb: pools[1].mb(pools[1].pool_pages),
            resident: pools.map(resident),
            samples: samples.to_vec(),
            phases: phases.to_vec(),
            ..Outcome::default()
        };
        let dumped_pages = self.dumped_pages(young_from, young_to);
        let mut outcome = PolicyOutcome { policy: self.policy, tps_in_cold: Vec::new(), dumped_pages, of };
        more(&mut outcome);
        outcome
    }

    /// Seconds of a dump at the pace of a window; infinite if it stood still.
    fn dump_seconds(&self, window: &Window) -> f64 {
        f64::from(self.stage.scale.big_rows()) / window.dumped_per_s
    }
}

/// What is in a pool, its free frames last.
fn resident(pool: PoolState) -> Vec<Resident> {
    let (pages, mb) = (pool.free_pages, pool.mb(pool.free_pages));
    let free = Resident { table: FREE.to_owned(), index: String::new(), pages, mb };
    pool.indexes.into_iter().chain([free]).collect()
}
