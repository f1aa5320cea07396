//! Engines on private servers in turns, and one engine on a server that the user names: the common
//! parts of `sessions`, `purge`, `flush` and `overflow`. An experiment supplies its tables, its
//! load, its cells and its verdicts.
//!
//! | module | what |
//! |---|---|
//! | [`side`] | one of the servers: loaded, started, given turns, standing still in between |
//! | [`meters`] | its own counters, the same questions to every engine |
//! | [`cell`] | the turns of all sides under one load, their ratios, and the table of them |
//! | [`workload`] | what the sessions do, on which tables |
//! | [`running`] | the same experiments on a running server |
//!
//! Every private side has a cache of the same size, O_DIRECT, a sync at every commit and no binary
//! log. The first side is Holdfast's.

pub mod cell;
pub mod meters;
mod plan;
pub mod running;
pub mod side;
pub mod workload;

use anyhow::{Context, Result};
use holdfast_server::{Cache, apt};
use serde_json::{Value, json};

use self::meters::Meter;
pub use self::plan::Plan;
use self::side::Side;
use super::contender::{Contender, Engine};
use crate::claims::Claim;
use crate::document::{Document, Run, metrics};
use crate::figures::{Chart, Figures, Grid, Line};
use crate::machine::Machine;
use crate::progress::Progress;

/// The default `innodb_old_blocks_time`.
const OLD_BLOCKS_TIME_MS: u32 = 1000;

/// The engines in the order of the sides: Holdfast, InnoDB, and MyRocks if asked for.
#[must_use]
pub fn contenders(asked: &[Engine]) -> Vec<Contender> {
    let asked = if asked.is_empty() { &[Engine::Holdfast, Engine::Innodb][..] } else { asked };
    let order = [
        (Engine::Holdfast, Contender::Holdfast),
        (Engine::Innodb, Contender::InnoDb { old_blocks_time_ms: OLD_BLOCKS_TIME_MS }),
        (Engine::Myrocks, Contender::MyRocks),
    ];
    order.into_iter().filter(|(engine, _)| asked.contains(engine)).map(|(_, contender)| contender).collect()
}

/// The engine's name in texts.
#[must_use]
pub fn engine_name(contender: Contender) -> String {
    match contender {
        Contender::InnoDb { .. } => "InnoDB".to_owned(),
        other => other.to_string(),
    }
}

/// Fetches and builds everything that private servers and their clients need.
///
/// # Errors
/// If it is not available.
pub fn equip(progress: &mut Progress) -> Result<Cache> {
    let cache = Cache::of_the_project();
    progress.step("building the engine for the server");
    holdfast_server::build(&cache).context("the engine for the server could not be built")?;
    apt::fetch_sysbench(&cache)?;
    Ok(cache)
}

/// Returns a private server for each engine, without data.
///
/// # Errors
/// If the files of an earlier run cannot be removed.
pub fn sides<'c>(cache: &'c Cache, plan: &'c Plan) -> Result<Vec<Side<'c>>> {
    plan.contenders.iter().map(|&c| Side::private(cache, &plan.cores, &engine_name(c), c)).collect()
}

/// A chart per meter, with a line per side over the time of its own turns.
#[must_use]
pub fn charts(sides: &[Side<'_>]) -> Vec<Chart> {
    let line = |side: &Side<'_>, meter: Meter| {
        let point = |s: &side::Second| Some((s.t, s.values[meter as usize]?));
        let points: Vec<_> = side.seconds.iter().filter_map(point).collect();
        (points.len() > 1).then(|| Line { name: side.name.clone(), points, dashed: false })
    };
    let spans = sides.first().map(|s| joined(&s.spans)).unwrap_or_default();
    let chart = |meter: Meter| {
        let lines: Vec<Line> = sides.iter().filter_map(|side| line(side, meter)).collect();
        (!lines.is_empty()).then(|| Chart::over_time(meter.title(), meter.unit(), lines, spans.clone()))
    };
    Meter::ALL.into_iter().filter_map(chart).collect()
}

/// Spans of the same name that follow one another, joined.
fn joined(spans: &[crate::figures::Span]) -> Vec<crate::figures::Span> {
    let mut all: Vec<crate::figures::Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if last.label == span.label => last.to = span.to,
            _ => all.push(span.clone()),
        }
    }
    all
}

/// The server that an experiment runs on.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name, for the document.
    pub target: &'static str,
    /// Its name in texts.
    pub words: String,
    /// Its durability at commits, and similar conditions.
    pub conditions: String,
    /// The size of the engine's cache, if the server sets it.
    pub pool_bytes: Option<u64>,
    /// The process of a running server, if it is known.
    pub pid: Option<u32>,
}

impl Place {
    /// Private servers.
    #[must_use]
    pub fn private() -> Place {
        let conditions = "a sync at every commit; O_DIRECT; no binary log".to_owned();
        Place {
            target: "mariadb",
            words: "on private servers in turns".to_owned(),
            conditions,
            pool_bytes: None,
            pid: None,
        }
    }
}

/// The results of an experiment, before they are a document.
pub struct Findings {
    /// Its name, and the title of its report.
    pub name: (&'static str, &'static str),
    /// The server that it ran on.
    pub place: Place,
    /// The load, and what was published about it.
    pub lead: (String, String),
    /// Findings as sentences.
    pub words: Vec<String>,
    /// The sizes, speeds and switches of this experiment alone.
    pub settings: Value,
    /// The cells.
    pub cells: Vec<cell::Cell>,
    /// Tables.
    pub grids: Vec<Grid>,
    /// Groups of charts.
    pub charts: Vec<(String, Vec<Chart>)>,
    /// The claims.
    pub claims: Vec<Claim>,
}

impl Findings {
    /// The document, and what is printed.
    #[must_use]
    pub fn report(self, plan: &Plan, sides: &[Side<'_>]) -> (Document, String) {
        let mut settings = metrics(self.settings);
        settings.extend(metrics(json!({
            "engines": sides.iter().map(|side| side.name.as_str()).collect::<Vec<_>>().join(", "),
            "turns_of_each": plan.rounds.least,
            "turns_until_decided": plan.rounds.most,
            "turn_s": plan.turn.as_secs_f64(),
            "durability": self.place.conditions,
            "pinned": plan.cores.pins(),
            "seed": plan.seed,
        })));
        let machine = Machine::this(Some(&holdfast_server::run::root()));
        let target = self.place.target;
        let mut document = Document::new(&format!("{}-{target}", self.name.0), Value::Object(settings), machine);
        document.title = self.name.1.to_owned();
        document.runs = self.cells.iter().flat_map(|c| c.runs(target, sides)).collect();
        document.runs.extend(sides.iter().map(|side| series(target, side)));
        document.claims = self.claims;
        let (what, published) = self.lead;
        let lead = format!("{what}, {}. {published}", self.place.words);
        document.figures = Figures { lead, words: self.words, grids: self.grids, charts: self.charts };
        let text = document.figures.text();
        (document, text)
    }
}

/// The seconds of a side.
fn series(target: &str, side: &Side<'_>) -> Run {
    let of = |meter: Meter| -> Value {
        side.seconds.iter().map(|s| json!([s.t, s.values[meter as usize]])).collect::<Vec<_>>().into()
    };
    let named = Meter::ALL.into_iter().map(|m| (format!("{}, {}", m.title(), m.unit()), of(m))).collect();
    Run {
        target: target.to_owned(),
        policy: side.name.clone(),
        metrics: metrics(json!({ "seconds": Value::Object(named) })),
    }
}
