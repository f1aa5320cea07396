//! `sessions`: 1, 2, 4 ... 256 concurrent users.
//!
//! Published in 2010: throughput falls continuously from 32 sessions on, and
//! innodb_thread_concurrency=32, which was meant to help, cost more than it gave up to 256
//! sessions. Here dbSTRESS runs read-only and with RW=1, all in memory, so sessions never wait for
//! a disk.
//!
//! The embedded engine runs in turns with a control: as many threads that use the processor time of
//! one session's transaction and do nothing else. What the control loses with more threads is a
//! property of the machine; the engine may lose a twentieth more. Private servers run in turns with
//! dbSTRESS or dbt2: the cost of so many threads on the machine, and that of the server, is the
//! same for all engines. On a server that the user names one engine runs.

use std::time::Duration;

use anyhow::Result;
use holdfast_workload::dbstress;
use serde_json::json;

use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::{Chart, Grid, Line};
use crate::measure::{human, or_dash};
use crate::progress::Progress;
use crate::rig::site::{self, DiskKind, Site};
use crate::rig::tables::dbstress_tables;
use crate::server::turns::cell::{Asked, Cell, Column, Judged, Of, grid, p99, tps};
use crate::server::turns::running::{OnServer, There};
use crate::server::turns::side::{Data, Settings, Side};
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::embedded::Embedded;
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};
use crate::turns::Rounds;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// The workload of the sessions.
    pub workload: Workload,
    /// Numbers of sessions.
    pub counts: Vec<u32>,
    /// Turns of a quarter of the length up to [`FEW`] sessions, if there are such: each session
    /// gets a core every tenth of a second, and a shared machine's speed changes from second to
    /// second.
    pub short_turns: Option<usize>,
}

/// Up to this many sessions turns may be short.
pub const FEW: u32 = 64;
/// Up to this many sessions throughput and latency have the same bars. With more, throughput has
/// one of its own.
const MOST: u32 = 256;
const CROWD: Bar = Bar::AtLeast(0.9);
/// Transactions of the embedded engine that are timed together: a transaction takes some 20
/// microseconds, a time slice of the scheduler 2 to 3 milliseconds.
const GROUP: u64 = 10;
/// Time in which the caches fill.
const WARM_UP: Duration = Duration::from_secs(3);

/// What is claimed of the first side.
struct Bars {
    /// Least throughput with up to [`MOST`] sessions, as a share of the others'.
    tps: Bar,
    /// Longest 99th percentile with the most of those, as a share of the others'.
    p99: Bar,
    /// What is timed.
    timed: String,
}

impl Bars {
    fn against_control() -> Bars {
        Bars { tps: Bar::AtLeast(0.95), p99: Bar::AtMost(1.5), timed: format!(" of {GROUP} transactions") }
    }

    fn against_engines() -> Bars {
        Bars { tps: Bar::AtLeast(0.97), p99: Bar::AtMost(1.1), timed: String::new() }
    }
}

impl Options {
    /// The turns of so many sessions.
    fn plan_of(&self, sessions: u32) -> Plan {
        let plan = self.plan.clone();
        match self.short_turns.filter(|_| sessions <= FEW) {
            Some(n) => Plan { rounds: Rounds::up_to_twice(n), turn: plan.turn / 4, ..plan },
            None => plan,
        }
    }
}

/// Runs the experiment on the embedded engine.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    let Workload::DbStress { objects } = options.workload else { anyhow::bail!("dbt2 runs on servers") };
    progress.step("loading");
    progress.show(&format!("{objects} objects"));
    let tables = dbstress_tables(dbstress::Options::light(objects, 1, 1), options.plan.seed);
    let site = Site::load(&DiskKind::Memory, &tables, progress)?;
    let settings = site::Settings::pool(options.workload.bytes());
    let engine = Embedded::open("holdfast", site, &settings)?.timed_in_groups_of(GROUP);
    let control = engine.control("the control", options.plan.turn / 4);
    let mut sides = [engine, control];
    let bars = Bars::against_control();
    let cells = measure(options, &bars, &mut sides, progress)?;
    let waits = wait_grid(&cells);
    let place = Place::embedded("in turns with a control that only computes", "in memory", None);
    let mut findings = findings(options, place, &bars, cells, &sides);
    add_columns(&mut findings.grids[0], &findings.cells);
    findings.grids.push(waits);
    Ok(findings.report(&options.plan, &sides))
}

/// Runs the experiment on private servers.
pub fn on_servers(options: &Options, progress: &mut Progress) -> Result<Document> {
    let cache = turns::equip(progress)?;
    let plan = &options.plan;
    let mut sides = turns::sides(&cache, plan)?;
    for side in &mut sides {
        side.load(Data::Of(options.workload), plan.seed, progress)?;
        side.start(&options.settings())?;
    }
    let bars = Bars::against_engines();
    let cells = measure(options, &bars, &mut sides, progress)?;
    Ok(findings(options, Place::private(), &bars, cells, &sides).report(plan, &sides))
}

impl OnServer for Options {
    fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    fn settings(&self) -> Settings {
        Settings { pool_bytes: self.workload.bytes(), size: 1.0, ..Settings::default() }
    }

    fn run_there(&mut self, there: There<'_>, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Findings> {
        let options = self;
        let mut words = Vec::new();
        if let Some(room) = there.server.before.variable("max_connections").map(|most| most - SPARE) {
            let asked = options.counts.len();
            options.counts.retain(|&n| f64::from(n) <= room);
            if options.counts.len() < asked {
                words.push(format!("More sessions than {room:.0} do not fit into the server's max_connections."));
            }
        }
        for side in sides.iter_mut() {
            side.make_tables(Data::Of(options.workload), options.plan.seed, progress)?;
        }
        let bars = Bars::against_engines();
        let cells = measure(options, &bars, sides, progress)?;
        let mut findings = findings(options, there.place, &bars, cells, sides);
        words.extend(options.workload.modes().iter().filter_map(|(mode, _)| fall(mode, &findings.cells)));
        findings.words = words;
        Ok(findings)
    }
}

/// Connections that are left to other clients and to the lab itself.
const SPARE: f64 = 20.0;

/// A sentence on where throughput is highest, and how much is left with the most sessions.
fn fall(mode: &str, cells: &[Cell]) -> Option<String> {
    let rates: Vec<(u32, f64)> = cells
        .iter()
        .filter(|c| c.name[0] == mode)
        .filter_map(|c| Some((sessions_of(c), c.figure(0, tps)?.median)))
        .collect();
    let &(best, highest) = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let &(most, last) = rates.last()?;
    let rest = if most == best {
        "the most that were tried".to_owned()
    } else {
        format!("with {most} it is {:.0} % of that", last / highest * 100.0)
    };
    Some(format!("{mode}: throughput is highest with {best} sessions ({} tps); {rest}.", human(highest)))
}

/// Measures all numbers of sessions in all modes.
fn measure<S: Subject>(options: &Options, bars: &Bars, sides: &mut [S], progress: &mut Progress) -> Result<Vec<Cell>> {
    let (plan, mut cells) = (&options.plan, Vec::new());
    let work = sides[0].work(options.workload, 8, 0, plan.seed)?;
    let (modes, warm_up) = (options.workload.modes(), plan.turn.min(WARM_UP));
    let plans: Vec<(u32, Plan)> = options.counts.iter().map(|&n| (n, options.plan_of(n))).collect();
    let cells_of_a_mode: Duration = plans.iter().map(|(_, plan)| plan.cell(sides.len())).sum();
    progress.plan(warm_up * sides.len() as u32 + cells_of_a_mode * modes.len() as u32);
    Cell::warm_up(sides, &work, warm_up, progress)?;
    for &(mode, rw_ratio) in modes {
        for &(sessions, ref plan) in &plans {
            let mut judged = Judged::against_others(sides, tps, if sessions <= MOST { bars.tps } else { CROWD });
            if sessions <= MOST {
                judged.extend(Judged::against_others(sides, p99, bars.p99));
            }
            let work = sides[0].work(options.workload, sessions, rw_ratio, plan.seed)?;
            let asked = Asked { name: &[mode, &sessions.to_string()], judged: &judged };
            cells.push(Cell::measure(asked, sides, &work, plan, progress)?);
        }
    }
    Ok(cells)
}

fn findings(options: &Options, place: Place, bars: &Bars, cells: Vec<Cell>, sides: &[impl Subject]) -> Findings {
    let columns: [Column<'_>; 3] = [("TPS", &tps), ("p99 ms", &p99), ("CPU us/txn", &Turn::cpu_us)];
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
            "quarters_of_turns_up_to": options.short_turns.map(|_| FEW),
            "turns_up_to_that": options.short_turns,
            "p99_is": format!("that{}", bars.timed),
            "pool_bytes": pool_bytes,
            "active_set_of_pool": active_set as f64 / pool_bytes as f64,
        })),
        grids: vec![grid("Subjects by number of sessions", &["", "sessions"], sides, &columns, &cells)],
        charts: [
            vec![("Over the number of sessions".to_owned(), over_sessions(options.workload, &cells, sides))],
            turns::charts(sides),
        ]
        .concat(),
        claims: claims(options.workload, bars, &cells, sides),
        cells,
    }
}

fn sessions_of(cell: &Cell) -> u32 {
    cell.name.get(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Claims against every other side.
fn claims(workload: Workload, bars: &Bars, cells: &[Cell], sides: &[impl Subject]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for &(mode, _) in workload.modes() {
        let of_mode = || cells.iter().filter(move |c| c.name[0] == mode && sessions_of(c) <= MOST);
        for judged in Judged::against_others(sides, tps, bars.tps) {
            let other = sides[judged.to].name();
            let text = format!("{mode}: TPS of Holdfast, as a share of {other}'s, worst number of sessions");
            claims.push(Claim::worst(text, of_mode().map(|c| judged.evidence(c)).collect(), bars.tps));
            let most = of_mode().max_by_key(|c| sessions_of(c));
            let sessions = most.map_or(0, sessions_of);
            let text = format!("{mode}: p99{} at {sessions} sessions, as a share of {other}'s", bars.timed);
            let judged = Judged { figure: p99, ..judged };
            claims.push(Claim::new(text, most.map_or(Evidence::Nothing, |c| judged.evidence(c)), bars.p99));
            let crowds = cells.iter().filter(|c| c.name[0] == mode && sessions_of(c) > MOST);
            claims.extend(crowds.map(|cell| crowd(mode, cell, Judged { figure: tps, ..judged }, other)));
        }
    }
    claims
}

/// The claim about more than [`MOST`] sessions.
fn crowd(mode: &str, cell: &Cell, judged: Judged, other: &str) -> Claim {
    let text = format!("{mode}: TPS of Holdfast at {} sessions, as a share of {other}'s", sessions_of(cell));
    Claim::new(text, judged.evidence(cell), CROWD)
}

/// Adds what only the embedded engine and its control have.
fn add_columns(table: &mut Grid, cells: &[Cell]) {
    table.header.extend(["p99, of the control's".to_owned(), "core to core ns".to_owned()]);
    for (row, cell) in table.rows.iter_mut().zip(cells) {
        let far = cell.figure(0, |t| t.values[Meter::CoreToCore as usize]);
        row.push(or_dash(cell.ratio(0, 1, p99), |r| format!("{:.2}", r.value)));
        row.push(or_dash(far, |ns| human(ns.median)));
    }
    table.note.push_str(
        " Latencies are of ten transactions in a row. The control's transaction costs what the engine's cost with one session just before and after (the mean) while \
         the other cores computed, background threads included (where the loop cost more or less on the busy machine, it is counted at that price); with one session the \
         engine can be faster than its control, because those threads have another core. Core to core: until a core sees what another one has written, just after each turn.",
    );
}

/// Microseconds waited per transaction of the engine, by class.
fn wait_grid(cells: &[Cell]) -> Grid {
    let turns = |cell: &Cell| cell.turns[0].clone();
    let classes = cells.first().map(|c| turns(c)[0].waits_us.clone()).unwrap_or_default();
    let header: Vec<&str> = ["", "sessions"].into_iter().chain(classes.iter().map(|class| class.0)).collect();
    let mut grid = Grid::new("Waits, microseconds per transaction", 1, &header, "");
    for cell in cells {
        let transactions: f64 = turns(cell).iter().map(|t| t.transactions).sum();
        let waited = |n: usize| turns(cell).iter().map(|t| t.waits_us[n].1).sum::<f64>() / transactions.max(1.0);
        grid.rows.push(cell.name.iter().cloned().chain((0..classes.len()).map(|n| human(waited(n)))).collect());
    }
    grid
}

fn over_sessions<S: Subject>(workload: Workload, cells: &[Cell], sides: &[S]) -> Vec<Chart> {
    let mut charts = Vec::new();
    let figures: [(&str, &str, Of<'_>); 2] =
        [("Throughput", "transactions per second", &tps), ("99th percentile", "milliseconds", &p99)];
    for &(mode, _) in workload.modes() {
        for (title, unit, of) in figures {
            let point = |c: &Cell, side| Some((f64::from(sessions_of(c)).log2(), c.figure(side, of)?.median));
            let of_mode = || cells.iter().filter(move |c| c.name[0] == mode);
            let line = |(n, side): (usize, &S)| Line::new(side.name(), of_mode().filter_map(|c| point(c, n)));
            let lines = sides.iter().enumerate().map(line).collect();
            charts.push(Chart::over(&format!("{title}, {mode}"), "sessions, as a power of 2", unit, lines));
        }
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Answer;
    use crate::conditions::Conditions;

    /// They had no bar.
    #[test]
    fn more_than_256_sessions_may_lose_a_tenth() {
        let answer = |tps: f64| {
            let of = |tps: f64| move |n| Turn { seconds: 1.0, transactions: tps + f64::from(n), ..Turn::default() };
            let turns = [tps, 1000.0].map(|tps| (0..10).map(of(tps)).collect()).to_vec();
            let name = ["RW=1", "1024"].map(str::to_owned).to_vec();
            let cell = Cell { name, turns, memory_mb: Vec::new(), counted: Vec::new() };
            let judged = Judged { of: 0, to: 1, figure: self::tps, bar: CROWD };
            let claim = crowd("RW=1", &cell, judged, "the control");
            assert_eq!(claim.text, "RW=1: TPS of Holdfast at 1024 sessions, as a share of the control's");
            claim.judge(&Conditions::quiet_machine()).answer
        };
        assert_eq!([0.92, 0.88].map(|share| answer(share * 1000.0)), [Answer::Holds, Answer::Fails]);
    }
}
