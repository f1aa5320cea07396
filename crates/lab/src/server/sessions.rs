//! `sessions` on private servers: dbSTRESS (or dbt2) with 1 to 256 clients, read-only and RW=1,
//! Holdfast beside InnoDB in turns, all in memory.
//! The cost of so many threads on the machine, and that of the server, is the same for both
//! engines; the difference is the engines'. On a server that the user names: the same with one
//! engine.

use std::time::Duration;

use anyhow::Result;
use holdfast_server::Cache;
use serde_json::json;

use super::named::ServerWithSchema;
use super::turns::cell::{Asked, Cell, Judged, Of, grid, p99, tps};
use super::turns::side::{Data, Settings, Side};
use super::turns::workload::Workload;
use super::turns::{self, Findings, Place, Plan};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::{Chart, Line};
use crate::measure::human;
use crate::progress::Progress;
use crate::subject::{Subject, Turn};

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// The workload of the sessions.
    pub workload: Workload,
    /// Numbers of sessions.
    pub counts: Vec<u32>,
}

/// Up to this many sessions throughput has a bar; runs with more only have to complete.
const MOST: u32 = 256;
/// Least throughput at any number of sessions, as a share of InnoDB's.
const SHARE: Bar = Bar::AtLeast(0.97);
/// Longest 99th percentile with the most sessions, as a share of InnoDB's.
const P99: Bar = Bar::AtMost(1.1);
/// Time in which the caches fill.
const WARM_UP: Duration = Duration::from_secs(3);

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If packages are not available, a server does not start, or a client fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let cache = turns::equip(progress)?;
    let plan = &options.plan;
    let mut sides = turns::sides(&cache, plan)?;
    let settings = Settings { pool_bytes: options.workload.bytes(), size: 1.0, ..Settings::default() };
    for side in &mut sides {
        side.load(Data::Of(options.workload), plan.seed, progress)?;
        side.start(&settings)?;
    }
    let cells = measure(options, &cache, &mut sides, progress)?;
    Ok(findings(options, Place::private(), cells, &sides).report(plan, &sides))
}

/// Runs it on a server that the user names.
///
/// # Errors
/// If the server or a client fails.
pub(super) fn on_running_server(
    options: &mut Options,
    on_server: &ServerWithSchema,
    place: Place,
    cache: &Cache,
    sides: &mut [Side<'_>],
    progress: &mut Progress,
) -> Result<Findings> {
    let mut words = Vec::new();
    if let Some(room) = on_server.before.variable("max_connections").map(|most| most - SPARE) {
        let asked = options.counts.len();
        options.counts.retain(|&n| f64::from(n) <= room);
        if options.counts.len() < asked {
            words.push(format!("More sessions than {room:.0} do not fit into the server's max_connections."));
        }
    }
    for side in sides.iter_mut() {
        side.make_tables(Data::Of(options.workload), options.plan.seed, progress)?;
    }
    let cells = measure(options, cache, sides, progress)?;
    let mut findings = findings(options, place, cells, sides);
    words.extend(options.workload.modes().iter().filter_map(|(mode, _)| fall(mode, &findings.cells)));
    findings.words = words;
    Ok(findings)
}

/// Connections that are left to other clients and to the lab itself.
const SPARE: f64 = 20.0;

/// A sentence on where throughput is highest, and how much is left with the most sessions.
fn fall(mode: &str, cells: &[Cell]) -> Option<String> {
    let rates: Vec<(u32, f64)> = cells
        .iter()
        .filter(|c| c.name[0] == mode)
        .filter_map(|c| Some((sessions_of(c), c.figure(0, |t| Some(t.tps()))?.median)))
        .collect();
    let &(best, highest) = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let &(most, last) = rates.last()?;
    let share = last / highest;
    let rest = if most == best {
        "the most that were tried".to_owned()
    } else {
        format!("with {most} it is {:.0} % of that", share * 100.0)
    };
    Some(format!("{mode}: throughput is highest with {best} sessions ({} tps); {rest}.", human(highest)))
}

/// Measures all numbers of sessions in all modes.
fn measure(options: &Options, cache: &Cache, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Vec<Cell>> {
    let plan = &options.plan;
    let work = |sessions, rw_ratio| options.workload.load(cache, sessions, rw_ratio, plan.seed);
    Cell::warm_up(sides, &work(8, 0)?, plan.turn.min(WARM_UP), progress)?;
    let mut cells = Vec::new();
    for &(mode, rw_ratio) in options.workload.modes() {
        for &sessions in &options.counts {
            let mut judged = Judged::against_others(sides, tps, SHARE);
            judged.extend(Judged::against_others(sides, p99, P99));
            judged.truncate(if sessions <= MOST { judged.len() } else { 0 });
            let asked = Asked { name: &[mode, &sessions.to_string()], judged: &judged };
            cells.push(Cell::measure(asked, sides, &work(sessions, rw_ratio)?, plan, progress)?);
        }
    }
    Ok(cells)
}

fn findings(options: &Options, place: Place, cells: Vec<Cell>, sides: &[Side<'_>]) -> Findings {
    let columns: [turns::cell::Column<'_>; 3] =
        [("TPS", &|t| Some(t.tps())), ("p99 ms", &p99), ("CPU us/txn", &Turn::cpu_us)];
    let active_set = options.workload.bytes();
    let pool_bytes = place.pool_bytes.unwrap_or(active_set);
    let published = "Published in 2010: throughput falls continuously from 32 sessions on; a limit of 32 threads cost more than it gave \
                     until 256.";
    Findings {
        name: ("sessions", "1 to 256 sessions"),
        place,
        lead: (format!("{} in memory", options.workload.name()), published.to_owned()),
        words: Vec::new(),
        settings: options.workload.settings(json!({
            "modes": options.workload.modes().iter().map(|mode| mode.0).collect::<Vec<_>>(),
            "sessions": options.counts,
            "pool_bytes": pool_bytes,
            "active_set_of_pool": active_set as f64 / pool_bytes as f64,
        })),
        grids: vec![grid("Engines by number of sessions", &["", "sessions"], sides, &columns, &cells)],
        charts: [
            vec![("Over the number of sessions".to_owned(), over_sessions(options.workload, &cells, sides))],
            turns::charts(sides),
        ]
        .concat(),
        claims: claims(options.workload, &cells, sides),
        cells,
    }
}

fn sessions_of(cell: &Cell) -> u32 {
    cell.name.get(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Claims against every other engine.
fn claims(workload: Workload, cells: &[Cell], sides: &[Side<'_>]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for &(mode, _) in workload.modes() {
        let of_mode = || cells.iter().filter(move |c| c.name[0] == mode && sessions_of(c) <= MOST);
        for judged in Judged::against_others(sides, tps, SHARE) {
            let other = sides[judged.to].name();
            let text = format!("{mode}: TPS of Holdfast, as a share of {other}'s, worst number of sessions");
            claims.push(Claim::worst(text, of_mode().map(|c| judged.evidence(c)).collect(), SHARE));
            let most = of_mode().max_by_key(|c| sessions_of(c));
            let sessions = most.map_or(0, sessions_of);
            let text = format!("{mode}: p99 at {sessions} sessions, as a share of {other}'s");
            let judged = Judged { figure: p99, ..judged };
            claims.push(Claim::new(text, most.map_or(Evidence::Nothing, |c| judged.evidence(c)), P99));
        }
    }
    claims
}

fn over_sessions(workload: Workload, cells: &[Cell], sides: &[Side<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    let figures: [(&str, &str, Of<'_>); 2] =
        [("Throughput", "transactions per second", &|t| Some(t.tps())), ("99th percentile", "milliseconds", &p99)];
    for &(mode, _) in workload.modes() {
        for (title, unit, of) in figures {
            let point = |c: &Cell, side| Some((f64::from(sessions_of(c)).log2(), c.figure(side, of)?.median));
            let line = |(n, side): (usize, &Side<'_>)| Line {
                name: side.name().to_owned(),
                points: cells.iter().filter(|c| c.name[0] == mode).filter_map(|c| point(c, n)).collect(),
                dashed: false,
            };
            let lines = sides.iter().enumerate().map(line).collect();
            charts.push(Chart::over(&format!("{title}, {mode}"), "sessions, as a power of 2", unit, lines));
        }
    }
    charts
}
