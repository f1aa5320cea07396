//! Engines on private servers in turns, and one engine on a server that the user names: the common
//! parts of the experiments in turns. An experiment supplies its tables, its load, its cells and
//! its verdicts.
//!
//! | module | what |
//! |---|---|
//! | `side` | one of the servers: loaded, started, given turns, standing still in between |
//! | `cell` | the turns of all sides under one load, their ratios, and the table of them |
//! | [`workload`] | what the sessions do, on which tables |
//! | [`running`] | the same experiments on a running server |
//!
//! Every private side has a cache of the same size, O_DIRECT, a sync at every commit and no binary
//! log. The first side is Holdfast's.

pub(crate) mod cell;
mod plan;
pub mod running;
pub(crate) mod side;
pub mod workload;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use holdfast_server::{Cache, Release, apt};
use serde_json::{Value, json};

pub use self::plan::Plan;
use self::side::Side;
use super::contender::{Contender, Engine};
pub use super::contender::{INNODB, engine_name};
use crate::claims::Claim;
use crate::document::{Document, Run, merged};
use crate::figures::{Chart, Figures, Grid, Line};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::subject::meters::Meter;
use crate::subject::{Second, Subject};
use crate::target::EMBEDDED;

/// The engines in the order of the sides: Holdfast, InnoDB, and MyRocks and other servers if asked
/// for.
pub fn contenders(asked: &[Engine]) -> Vec<Contender> {
    let asked = if asked.is_empty() { &[Engine::Holdfast, Engine::Innodb][..] } else { asked };
    let here =
        [(Engine::Holdfast, Contender::Holdfast), (Engine::Innodb, INNODB), (Engine::Myrocks, Contender::MyRocks)];
    let released = Release::ALL.map(|release| (Engine::Released(release), Contender::Released(release)));
    let order = here.into_iter().chain(released);
    order.filter(|(engine, _)| asked.contains(engine)).map(|(_, contender)| contender).collect()
}

/// Fetches and builds everything that private servers and their clients need.
pub fn equip(progress: &mut Progress) -> Result<Cache> {
    let cache = Cache::of_the_project();
    progress.step("building the engine for the server");
    holdfast_server::build(&cache).context("the engine for the server could not be built")?;
    apt::fetch_sysbench(&cache)?;
    Ok(cache)
}

/// Returns a private server for each engine, without data.
pub fn sides<'c>(cache: &'c Cache, plan: &'c Plan) -> Result<Vec<Side<'c>>> {
    plan.contenders.iter().map(|&c| Side::private(cache, &plan.cores, &engine_name(c), c)).collect()
}

/// Starts all servers, calls `work`, and shuts them down.
pub(crate) fn with_servers<T>(
    sides: &mut [Side<'_>],
    settings: &side::Settings,
    work: impl FnOnce(&mut [Side<'_>]) -> Result<T>,
) -> Result<T> {
    sides.iter_mut().try_for_each(|side| side.start(settings))?;
    let done = work(sides)?;
    sides.iter_mut().try_for_each(Side::stop)?;
    Ok(done)
}

/// The groups of charts over time: one per meter, with a line per side over the time of its own
/// turns; and what only one kind of side reports.
pub fn charts<S: Subject>(sides: &[S]) -> Vec<(String, Vec<Chart>)> {
    let line = |side: &S, meter: Meter| {
        let point = |s: &Second| Some((s.t, s.values[meter as usize]?));
        let points: Vec<_> = side.series().seconds.iter().filter_map(point).collect();
        (points.len() > 1).then(|| Line::new(side.name(), points))
    };
    let spans = sides.first().map(|side| side.series().spans.clone()).unwrap_or_default();
    let chart = |meter: Meter| {
        let lines: Vec<Line> = sides.iter().filter_map(|side| line(side, meter)).collect();
        (!lines.is_empty()).then(|| Chart::over_time(meter.title(), meter.unit(), lines, spans.clone()))
    };
    let own = sides.iter().map(|side| (format!("Second by second, {}", side.name()), side.series().own_charts()));
    let common = ("Second by second".to_owned(), Meter::all().filter_map(chart).collect());
    [common].into_iter().chain(own).filter(|(_, charts): &(_, Vec<Chart>)| !charts.is_empty()).collect()
}

/// What an experiment runs on.
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
    /// The directory of the data, if it is on files.
    pub dir: Option<PathBuf>,
}

impl Place {
    /// Private servers.
    pub fn private() -> Place {
        let conditions = "a sync at every commit; O_DIRECT; no binary log".to_owned();
        Place {
            target: "mariadb",
            words: "on private servers in turns".to_owned(),
            conditions,
            pool_bytes: None,
            pid: None,
            dir: Some(holdfast_server::run::root()),
        }
    }

    /// The engine in this process, `words` in texts, with its data in `dir` if it is on files.
    pub fn embedded(words: &str, conditions: &str, dir: Option<&Path>) -> Place {
        let (words, conditions, dir) = (words.to_owned(), conditions.to_owned(), dir.map(Path::to_owned));
        Place { target: EMBEDDED, words, conditions, pool_bytes: None, pid: None, dir }
    }
}

/// The results of an experiment, before they are a document.
pub struct Findings {
    /// Its name, and the title of its report, without the server.
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
    /// The document.
    pub fn report(self, plan: &Plan, sides: &[impl Subject]) -> Document {
        let common = json!({
            "engines": sides.iter().map(Subject::name).collect::<Vec<_>>().join(", "),
            "turns_of_each": plan.rounds.least,
            "turns_until_decided": plan.rounds.most,
            "turn_s": plan.turn.as_secs_f64(),
            "durability": self.place.conditions,
            "sessions_are": if self.place.target == EMBEDDED { "threads of the process" } else { "sysbench's, with prepared statements" },
            "pinned": plan.cores.pins(),
            "seed": plan.seed,
        });
        let machine = Machine::this(self.place.dir.as_deref());
        let target = self.place.target;
        let [name, on] =
            if target == EMBEDDED { ["", ""].map(str::to_owned) } else { [format!("-{target}"), ON.to_owned()] };
        let mut settings = merged(self.settings, common);
        for side in sides {
            if let Some(options) = side.started_with() {
                settings[format!("options of {}", side.name())] = json!(options);
            }
        }
        let mut document = Document::new(&format!("{}{name}", self.name.0), settings, machine);
        document.title = format!("{}{on}", self.name.1);
        document.runs = self.cells.iter().flat_map(|c| c.runs(target, sides)).collect();
        document.runs.extend(sides.iter().map(|side| series(target, side)));
        document.claims = self.claims;
        let (what, published) = self.lead;
        let lead = format!("{what}, {}. {published}", self.place.words);
        document.with_figures(Figures {
            lead,
            words: self.words,
            grids: self.grids,
            charts: self.charts,
            ..Figures::default()
        })
    }
}

/// The end of the title of a report about servers.
const ON: &str = ", on a server";

/// The seconds of a side.
fn series(target: &str, side: &impl Subject) -> Run {
    let of = |meter: Meter| -> Value {
        side.series().seconds.iter().map(|s| json!([s.t, s.values[meter as usize]])).collect::<Vec<_>>().into()
    };
    let named = Meter::all().map(|m| (format!("{}, {}", m.title(), m.unit()), of(m))).collect();
    Run::new(target, side.name(), json!({ "seconds": Value::Object(named) }))
}
