//! The options of the experiment, and its runs.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_workload::dist::Kind;

use super::scale::Scale;
use crate::pin::Cores;
use crate::target::{Hint, Policy};

/// The OLTP table.
pub const HOT: &str = "sbtest1";
/// The table that is dumped.
pub const BIG: &str = "sbtest2";

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes and times.
    pub scale: Scale,
    /// The distribution of the rows that OLTP reads.
    pub distribution: Kind,
    /// OLTP sessions.
    pub threads: usize,
    /// The fixed request rate.
    pub rate: f64,
    /// Rows per second that the dump's client takes; `None` for no limit.
    pub dump_rows_per_second: Option<f64>,
    /// Turns of target and ceiling, without those that decide a claim: up to four times as many.
    pub turns: usize,
    /// The time after which no more turns are given to decide a claim.
    pub enough: Duration,
    /// Length of a turn, in minutes of the experiment.
    pub turn_minutes: f64,
    /// Length of the part beside the dump at the request rate, in minutes of the experiment.
    pub rate_minutes: f64,
    /// The longest time in which a cold hot table may become resident, in minutes of the
    /// experiment.
    pub cold_minutes: f64,
    /// True to run Holdfast also with `scan_hints` off, where the engine does not detect scans
    /// either. No claim is made about that run.
    pub policy_alone: bool,
    /// Directory of the real disk; `None` for the modelled one.
    pub real_disk: Option<PathBuf>,
    /// Cores.
    pub cores: Cores,
    /// Seed of data and load.
    pub seed: u64,
}

/// A run: its policy, the load that starts first, and the rate of OLTP; `None` for full speed.
pub(super) type Planned = (Policy, Start, Option<f64>);

impl Options {
    /// The runs of the experiment in the order of its tables.
    pub(super) fn plan(&self) -> Vec<Planned> {
        let midpoint = |time_ms| Policy::Midpoint { pct: 37, time_ms };
        let holdfast = |hint| Policy::Holdfast { hint };
        let both = || vec![None, Some(self.rate)];
        let mut plan = vec![
            (midpoint(0), both()),
            (midpoint(self.scale.old_blocks_time_ms()), both()),
            (holdfast(Hint::Declared), both()),
            (holdfast(Hint::Undeclared), vec![None]),
        ];
        if self.policy_alone {
            plan.push((holdfast(Hint::Off), vec![None]));
        }
        let starts = |(policy, rates): (Policy, Vec<Option<f64>>)| {
            let start = move |start| rates.clone().into_iter().map(move |rate| (policy, start, rate));
            [Start::Warm, Start::Cold].into_iter().flat_map(start)
        };
        plan.into_iter().flat_map(starts).collect()
    }

    /// The time of a run, about: of a cold start half of what it may take.
    pub(super) fn time(&self, &(policy, start, rate): &Planned) -> Duration {
        let turns = if matches!(policy, Policy::Holdfast { .. }) { self.turns } else { self.turns.div_ceil(2) };
        let beside = rate.map_or_else(|| turns as f64 * self.turn_minutes * 2.0, |_| self.rate_minutes);
        let before = match start {
            Start::Warm => 3.0,
            Start::Cold => 1.0 + self.cold_minutes / 2.0,
        };
        self.scale.minutes(before + beside + 0.5)
    }
}

/// The load that starts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// OLTP runs, then the dump starts.
    #[default]
    Warm,
    /// The dump runs, then OLTP starts.
    Cold,
}

impl Start {
    /// `warm` or `cold`.
    pub fn name(self) -> &'static str {
        match self {
            Start::Warm => "warm",
            Start::Cold => "cold",
        }
    }
}
