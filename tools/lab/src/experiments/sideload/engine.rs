//! The runs on the engine in this process.

use std::time::{Duration, Instant};

use anyhow::Result;
use holdfast_workload::sysbench::Mix;
use holdfast_workload::{Scan, TableNo};

use super::options::{BIG, HOT, Options, Planned, Start};
use super::outcome::Outcome;
use super::scale::Scale;
use super::scenario::{Beside, Parts, Run};
use crate::bench::{Bench, Loaded};
use crate::progress::Progress;
use crate::target::{EmbeddedSite, Hint, Policy, TargetSpec};
use crate::turns::Rounds;
use crate::worker::{DumpLoad, OltpLoad, Workers};

/// The ceiling: a pool that holds both tables, under the same load.
pub struct Ceiling {
    /// Its bench, without a load.
    pub bench: Bench<Workers>,
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

/// The longest time in which the dump may turn the pool over twice: ten times what it needs.
const TURN_OVER_MINUTES: f64 = 5.0;
/// The longest time in which OLTP alone may get its table warm.
const WARM_MINUTES: f64 = 20.0;
/// Longest wait for the last pages of the hot table.
const SETTLE_MINUTES: f64 = 2.0;
/// Longer than a walk over a table at full speed.
const FILL: Duration = Duration::from_secs(3600);

impl Stage<'_> {
    fn bench(&self, name: &str, spec: &TargetSpec, interval: Duration) -> Result<Bench<Workers>> {
        let oltp = OltpLoad {
            mix: Mix::READ_ONLY,
            rows: self.scale.hot_rows(),
            distribution: self.options.distribution,
            sessions: self.options.threads,
            rate: None,
            seed: self.options.seed,
        };
        let undeclared = matches!(spec.policy, Policy::Holdfast { hint: Hint::Undeclared | Hint::Off });
        let dump = DumpLoad {
            table: TableNo(1),
            name: BIG.to_owned(),
            scan: if undeclared { Scan::Undeclared } else { Scan::Declared },
            rows_per_second: self.options.dump_rows_per_second,
        };
        let workers = Workers::new(self.site.open_engine(spec)?, self.options.cores.clone(), (oltp, dump));
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
        for (table, name) in [(0, HOT), (1, BIG)] {
            let (table, name) = (TableNo(table), name.to_owned());
            let fill = DumpLoad { table, name, scan: Scan::Undeclared, rows_per_second: None };
            bench.load.dump(fill)?;
            let goal = bench.load.dumps() + 1;
            bench.run_until("load", FILL, self.progress, &mut |workers, _| workers.dumps() >= goal)?;
        }
        bench.load.stop_dump()?;
        let [hot_pages, big_pages] = [HOT, BIG].map(|table| bench.load.pool.resident_of(table, "PRIMARY"));
        bench.load.start_oltp(None)?;
        bench.run("warm-up", self.scale.minutes(0.3), self.progress)?;
        let (from, to) = bench.run("OLTP alone", self.scale.minutes(1.0), self.progress)?;
        bench.load.stop_oltp()?;
        Ok(Ceiling { bench, hot_pages, big_pages, tps_alone: to.since(&from).tps })
    }

    /// Runs one policy.
    pub fn run(&mut self, ceiling: &mut Ceiling, (policy, start, rate): Planned) -> Result<Outcome> {
        let speed = rate.map_or_else(|| "full speed".to_owned(), |rate| format!("{rate:.0} tps asked"));
        self.progress.step(&format!("{policy}, {}, {speed}", start.name()));
        let spec = TargetSpec { policy, pool_bytes: self.scale.pool_bytes(), copy: 0 };
        let mut own = self.bench(&policy.to_string(), &spec, self.scale.sample_interval())?;
        let pages_per_row = ceiling.big_pages as f64 / f64::from(self.scale.big_rows());
        own.load.pages_per_row = pages_per_row;
        let at_the_rate = if rate.is_none() { "" } else { ", at the rate" };
        let full = rate.unwrap_or(ceiling.tps_alone);
        self.progress.picture.begin(&format!("{policy}, {}{at_the_rate}", start.name()), full);
        let parts = self.parts(policy, start, rate);
        let of = Run { parts, own, ceiling: Some(&mut ceiling.bench), progress: self.progress }.run()?;
        Ok(Outcome { dumped_pages: of.dumped_rows * pages_per_row, ..of })
    }

    fn parts(&self, policy: Policy, start: Start, rate: Option<f64>) -> Parts {
        let minutes = |n| self.scale.minutes(n);
        let options = self.options;
        let is_ours = matches!(policy, Policy::Holdfast { .. });
        let few = options.turns.div_ceil(2);
        let rounds = if is_ours { Rounds::up_to_four_times(options.turns) } else { Rounds { least: few, most: few } };
        let turn = minutes(options.turn_minutes);
        Parts {
            subject: policy.to_string(),
            tone: policy.tone(),
            start,
            rate,
            scale: self.scale,
            turn_over: minutes(TURN_OVER_MINUTES),
            patience: minutes(if start == Start::Warm { WARM_MINUTES } else { options.cold_minutes }),
            settle: minutes(SETTLE_MINUTES),
            alone: minutes(if rate.is_none() { 1.0 } else { 0.5 }),
            beside: match rate {
                None => Beside::Turns { rounds, own: turn, ceiling: turn },
                Some(_) => Beside::Halves(minutes(options.rate_minutes / 2.0)),
            },
            start_up: Duration::ZERO,
            after: minutes(0.5),
            enough: Some(self.enough),
            collapse: true,
        }
    }
}
