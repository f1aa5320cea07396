//! `sideload`: a dump beside OLTP.
//!
//! OLTP runs on a small table that fits into the pool; a dump of a big table that does not fit runs
//! in a loop beside it. Published in 2011 on InnoDB: 330 requests/s alone, 2 beside the dump, and
//! with the delay that is the default today 325, if the small table is warm. A small table that is
//! cold when the dump runs never becomes resident with that delay. The system has two stable
//! states, so every policy is started in both: *warm* (OLTP first) and *cold* (the dump first), at
//! full speed and at the request rate of the published machine.
//!
//! The reference is the *ceiling*: a pool that holds both tables, under the same load on the same
//! cores in the same minute. Target and ceiling run in turns of a second or less. Each is paused
//! (clock included) while the other runs, and their ratio is taken turn by turn. So processor,
//! memory and noise cancel out, and the effect of the cache remains.
//!
//! [`scale`] describes how the experiment is made smaller, and why its outcome stays the same.

mod claims;
mod engine;
mod figures;
pub mod options;
pub(crate) mod outcome;
pub mod scale;
mod scenario;
pub(crate) mod servers;
pub(crate) mod shares;
mod warming;

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use claims::{PolicyOutcome, claims};
use engine::{Ceiling, Stage};
use figures::{Reference, TITLE, figures};
use options::Planned;
pub use options::{BIG, HOT, Options, Start};
use outcome::Outcome;
pub use warming::RULE as WARM;

use crate::bench::SEGMENTS;
use crate::document::{Document, Run, merged};
use crate::machine::Machine;
use crate::picture::Picture;
use crate::pin::Role;
use crate::progress::Progress;
use crate::target::{Content, EMBEDDED, EmbeddedSite, Hint, Policy, TableSpec, described, disk};

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    let scale = options.scale;
    progress.step("loading the tables");
    progress.show(&format!("{} and {} rows", scale.hot_rows(), scale.big_rows()));
    let site = &load(options, progress)?;
    site.set_slow(false);
    // The sampling thread runs on another core than the OLTP sessions.
    options.cores.pin(Role::Background);
    progress.picture = Picture::new("Transactions per second, of those with a pool that holds both tables:");
    let mut stage = Stage { site, scale, options, progress, enough: Instant::now() + options.enough };
    let mut ceiling = stage.ceiling()?;
    let mut plan: Vec<_> = options.plan().into_iter().enumerate().collect();
    // What the experiment is about comes first, and is on the terminal within seconds.
    plan.sort_by_key(|(_, run)| !shows_the_point(run));
    stage.progress.plan(plan.iter().map(|(_, run)| options.time(run)).sum());
    let mut outcomes = Vec::new();
    for (place, run) in plan {
        outcomes.push((place, (run.0, stage.run(&mut ceiling, run)?)));
        stage.progress.did(options.time(&run));
    }
    outcomes.sort_by_key(|(place, _)| *place);
    let outcomes: Vec<PolicyOutcome> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    let machine = Machine::this(options.real_disk.as_deref());
    let mut document = Document::new("sideload", settings(options), machine);
    document.runs.push(ceiling_run(&ceiling));
    let run = |(_, o): &PolicyOutcome| o.run(EMBEDDED, json!({"dumped_pages": o.dumped_pages}));
    document.runs.extend(outcomes.iter().map(run));
    document.claims = claims(&outcomes, options.real_disk.is_none());
    let shown: Vec<&Outcome> = outcomes.iter().map(|(_, outcome)| outcome).collect();
    let reference = Reference::new(BOTH, ceiling.tps_alone, ceiling.bench.series());
    document.title = TITLE.to_owned();
    Ok(document.with_figures(figures(&scale.in_words(), Vec::new(), &shown, Some(&reference), "")))
}

/// The name of the ceiling.
const BOTH: &str = "a pool that holds both tables";

/// Loads table 0, [`HOT`], and table 1, [`BIG`], in two copies.
fn load(options: &Options, progress: &mut Progress) -> Result<EmbeddedSite> {
    let scale = options.scale;
    let table = |name, seed, rows| TableSpec { name, seed, content: Content::Sbtest(rows) };
    let tables =
        [table(HOT, options.seed, scale.hot_rows()), table(BIG, options.seed.wrapping_add(1), scale.big_rows())];
    let disk = disk(options.real_disk.as_deref(), scale.disk());
    let loaded = EmbeddedSite::load(&disk, &tables, 2, scale.ceiling_bytes(), options.cores.clone(), progress);
    loaded.context("load the tables")
}

/// True for the cold start that collapses, and for the one that does not.
fn shows_the_point(&(policy, start, rate): &Planned) -> bool {
    let shown = matches!(policy, Policy::Midpoint { time_ms: 0, .. } | Policy::Holdfast { hint: Hint::Declared });
    shown && start == Start::Cold && rate.is_none()
}

fn settings(options: &Options) -> Value {
    let scale = options.scale;
    let more = json!({
        "disk": described(options.real_disk.is_none().then(|| scale.disk())),
        "distribution": options.distribution.to_string(),
        "mix": "oltp_read_only",
        "range_size": 100,
        "oltp_threads": options.threads,
        "rate_tps": options.rate,
        "dump_rows_per_s": options.dump_rows_per_second,
        "turns": options.turns,
        "turn_s": scale.minutes(options.turn_minutes).as_secs_f64(),
        "cold_limit_s": scale.minutes(options.cold_minutes).as_secs_f64(),
        "pinned": options.cores.pins(),
        "warm": WARM,
        "seed": options.seed,
    });
    merged(scale.describe(), more)
}

fn ceiling_run(ceiling: &Ceiling) -> Run {
    let (samples, phases) = ceiling.bench.series();
    let metrics = json!({
        "role": "ceiling",
        "tps_alone": ceiling.tps_alone,
        "hot_pages": ceiling.hot_pages,
        "big_pages": ceiling.big_pages,
        "segments": SEGMENTS,
        "samples": samples,
        "phases": phases,
    });
    Run::new(EMBEDDED, BOTH, metrics)
}
