//! Replays traces through policies and counts misses.

use std::fmt;
use std::str::FromStr;

use holdfast_base::{Error, Result};
use holdfast_policy::PolicyKind;
use serde::Serialize;

use crate::classic::{Arc, Belady, Cache, Clock, Lirs, S3Fifo, Sieve, TinyLfu, TwoQ, next_uses};
use crate::engine::{Pool, Told};
use crate::trace::{Class, Declared, Trace};

/// A policy by name: those of the engine, and those that exist only in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyName {
    /// Belady's optimum.
    Optimum,
    /// The engine's default, with hints of scans and statements.
    Holdfast,
    /// The engine's default, without hints.
    HoldfastNoHint,
    /// The engine's `midpoint_lru` with 37 % old and this delay, in touches.
    MidpointLru {
        /// `old_blocks_time`; a touch takes a millisecond.
        time: u32,
    },
    /// The engine's `lru`.
    Lru,
    /// CLOCK.
    Clock,
    /// 2Q.
    TwoQ,
    /// ARC.
    Arc,
    /// LIRS.
    Lirs,
    /// SIEVE.
    Sieve,
    /// S3-FIFO without a correlation window.
    S3Fifo,
    /// W-TinyLFU with a window of this many percent.
    WTinyLfu {
        /// The window's share.
        window_pct: u8,
    },
}

const NAMES: [(PolicyName, &str); 14] = [
    (PolicyName::Optimum, "optimum"),
    (PolicyName::Holdfast, "holdfast"),
    (PolicyName::HoldfastNoHint, "holdfast_no_hint"),
    (PolicyName::MidpointLru { time: 0 }, "midpoint_lru_0"),
    (PolicyName::MidpointLru { time: 1000 }, "midpoint_lru"),
    (PolicyName::Lru, "lru"),
    (PolicyName::Clock, "clock"),
    (PolicyName::TwoQ, "2q"),
    (PolicyName::Arc, "arc"),
    (PolicyName::Lirs, "lirs"),
    (PolicyName::Sieve, "sieve"),
    (PolicyName::S3Fifo, "s3fifo"),
    (PolicyName::WTinyLfu { window_pct: 1 }, "w_tinylfu"),
    (PolicyName::WTinyLfu { window_pct: 10 }, "w_tinylfu_10"),
];

impl PolicyName {
    /// All policies, in the order of reports.
    pub fn all() -> impl Iterator<Item = PolicyName> {
        NAMES.iter().map(|&(policy, _)| policy)
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(policy, _)| policy == self) {
            Some((_, name)) => f.pad(name),
            None => match self {
                PolicyName::MidpointLru { time } => f.pad(&format!("midpoint_lru_{time}")),
                other => f.pad(&format!("{other:?}")),
            },
        }
    }
}

impl FromStr for PolicyName {
    type Err = Error;

    fn from_str(s: &str) -> Result<PolicyName> {
        if let Some(&(policy, _)) = NAMES.iter().find(|&&(_, name)| name == s) {
            return Ok(policy);
        }
        if let Some(time) = s.strip_prefix("midpoint_lru_").and_then(|t| t.parse().ok()) {
            return Ok(PolicyName::MidpointLru { time });
        }
        let names: Vec<&str> = NAMES.iter().map(|&(_, name)| name).collect();
        Err(Error::invalid(format!("there is no policy {s:?}; choose from {}", names.join(", "))))
    }
}

/// The outcome of one trace, policy and size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The trace's name.
    pub trace: String,
    /// The policy's name.
    pub policy: String,
    /// Frames of the cache.
    pub frames: usize,
    /// Misses divided by touches. If the trace has a background load: of the foreground alone,
    /// after the warm-up.
    pub miss_ratio: f64,
    /// Misses counted.
    #[serde(skip)]
    pub misses: u64,
    /// Touches counted.
    #[serde(skip)]
    pub touches: u64,
}

/// Replays every trace through every policy with every number of frames; rows in that order.
///
/// # Errors
/// [`Error::InvalidArgument`] if a number of frames is below 4 or does not fit in 32 bits.
pub fn run(policies: &[PolicyName], frames: &[usize], traces: &[Trace], declared: Declared) -> Result<Vec<Row>> {
    if let Some(bad) = frames.iter().find(|&&n| n < 4 || n >= u32::MAX as usize) {
        return Err(Error::invalid(format!("a cache of {bad} frames cannot be simulated; give 4 to {}", u32::MAX - 1)));
    }
    let mut rows = Vec::new();
    for trace in traces {
        let next_use = match policies.contains(&PolicyName::Optimum) {
            true => next_uses(&trace.requests, trace.pages()),
            false => Vec::new(),
        };
        for &policy in policies {
            for &frames in frames {
                let mut cache = build(policy, frames, trace, declared, &next_use);
                rows.push(replay(trace, policy, frames, cache.as_mut()));
            }
        }
    }
    Ok(rows)
}

fn build<'a>(
    policy: PolicyName,
    frames: usize,
    trace: &'a Trace,
    declared: Declared,
    next_use: &'a [u32],
) -> Box<dyn Cache + 'a> {
    let pages = trace.pages();
    let engine = |kind, told| Box::new(Pool::new(kind, frames, trace, told));
    match policy {
        PolicyName::Optimum => Box::new(Belady::new(frames, pages, next_use)),
        PolicyName::Holdfast => engine(PolicyKind::Holdfast, Told::All(declared)),
        PolicyName::HoldfastNoHint => engine(PolicyKind::Holdfast, Told::Nothing),
        PolicyName::MidpointLru { time } => {
            engine(PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: time }, Told::Nothing)
        }
        PolicyName::Lru => engine(PolicyKind::Lru, Told::Nothing),
        PolicyName::Clock => Box::new(Clock::new(frames, pages)),
        PolicyName::TwoQ => Box::new(TwoQ::new(frames, pages)),
        PolicyName::Arc => Box::new(Arc::new(frames, pages)),
        PolicyName::Lirs => Box::new(Lirs::new(frames, pages)),
        PolicyName::Sieve => Box::new(Sieve::new(frames, pages)),
        PolicyName::S3Fifo => Box::new(S3Fifo::new(frames, pages)),
        PolicyName::WTinyLfu { window_pct } => Box::new(TinyLfu::new(frames, pages, usize::from(window_pct))),
    }
}

fn replay(trace: &Trace, policy: PolicyName, frames: usize, cache: &mut dyn Cache) -> Row {
    let (mut misses, mut touches) = (0, 0);
    let mut tick = 0u32;
    for (i, r) in trace.requests.iter().enumerate() {
        let hit = cache.request(i, r, tick);
        tick = tick.wrapping_add(u32::from(r.touches));
        if i >= trace.measured_from && r.class == Class::Foreground {
            misses += u64::from(!hit);
            touches += u64::from(r.touches);
        }
    }
    let miss_ratio = misses as f64 / (touches as f64).max(1.0);
    Row { trace: trace.name.clone(), policy: policy.to_string(), frames, miss_ratio, misses, touches }
}
