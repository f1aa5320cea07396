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
use serde_json::json;

use super::in_turns::{self, InTurns};
use crate::args::rig::{RigArgs, Sizes};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::{Chart, Grid, Line};
use crate::measure::{human, or_dash};
use crate::progress::Progress;
use crate::rig::site::DiskKind;
use crate::server::turns::cell::{Asked, Cell, Column, Judged, Of, grid, p99, tps};
use crate::server::turns::running::There;
use crate::server::turns::side::Settings;
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::embedded::Embedded;
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};
use crate::turns::Rounds;

/// The sizes of the experiment.
#[derive(Debug)]
struct Options {
    /// True beside a control, else beside other engines.
    controlled: bool,
    /// The workload of the sessions.
    workload: Workload,
    /// Numbers of sessions.
    counts: Vec<u32>,
    /// Turns of a quarter of the length up to [`FEW`] sessions, if there are such: each session
    /// gets a core every tenth of a second, and a shared machine's speed changes from second to
    /// second.
    short_turns: Option<usize>,
}

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    let controlled = args.embedded();
    let (plan, objects) = match controlled {
        true => (args.plan([2, 3, 6, 6], [0.15, 0.7, 2.0, 20.0]), 10_000),
        false => (args.plan([2, 3, 5, 5], [1.1, 1.5, 4.0, 20.0]), 5_000),
    };
    let all = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 1024];
    let counts: Sizes<&[u32]> = [&[1, 3], &[1, 2, 8, 32, 128, 256], all, all];
    let options = Options {
        controlled,
        workload: args.workload([300, objects, 20_000, 1_000_000]),
        counts: args.sized(counts).to_vec(),
        short_turns: controlled.then(|| args.sized([2, 12, 12, 12])),
    };
    in_turns::run(args, plan, options, progress)
}

/// Up to this many sessions turns may be short.
const FEW: u32 = 64;
/// Up to this many sessions throughput and latency have the same bars. With more, throughput has
/// one of its own.
const MOST: u32 = 256;
const CROWD: Bar = Bar::AtLeast(0.9);
/// Transactions of the embedded engine that are timed together: a transaction takes some 20
/// microseconds, a time slice of the scheduler 2 to 3 milliseconds.
const GROUP: u64 = 10;
/// Time in which the caches fill.
const WARM_UP: Duration = Duration::from_secs(3);

/// What is claimed of the first side: its least throughput with up to [`MOST`] sessions and its
/// longest 99th percentile with the most of those, as shares of the others', and what is timed.
struct Bars(Bar, Bar, String);

impl Options {
    fn bars(&self) -> Bars {
        match self.controlled {
            true => Bars(Bar::AtLeast(0.95), Bar::AtMost(1.5), format!(" of {GROUP} transactions")),
            false => Bars(Bar::AtLeast(0.97), Bar::AtMost(1.1), String::new()),
        }
    }

    /// The turns of so many sessions.
    fn plan_of(&self, sessions: u32, plan: &Plan) -> Plan {
        match self.short_turns.filter(|_| sessions <= FEW) {
            Some(n) => Plan { rounds: Rounds::up_to_twice(n), turn: plan.turn / 4, ..plan.clone() },
            None => plan.clone(),
        }
    }
}

impl InTurns for Options {
    type Measured = Vec<Cell>;

    fn workload(&self) -> Workload {
        self.workload
    }

    fn settings(&self) -> Settings {
        Settings { pool_bytes: self.workload.bytes(), size: 1.0, ..Settings::default() }
    }

    fn embedded(&self, plan: &Plan, progress: &mut Progress) -> Result<(Place, Vec<Embedded>, Vec<Cell>)> {
        progress.step("loading");
        let engine = self.engine("holdfast", &DiskKind::Memory, plan, progress)?.timed_in_groups_of(GROUP);
        let control = engine.control("the control", plan.turn / 4);
        let mut sides = vec![engine, control];
        let cells = self.measure(plan, &mut sides, progress)?;
        Ok((Place::embedded("in turns with a control that only computes", "in memory", None), sides, cells))
    }

    fn fit(&mut self, _: &Plan, there: &There<'_>) -> Result<Vec<String>> {
        let Some(room) = there.server.before.variable("max_connections").map(|most| most - SPARE) else {
            return Ok(Vec::new());
        };
        let asked = self.counts.len();
        self.counts.retain(|&n| f64::from(n) <= room);
        let less = format!("More sessions than {room:.0} do not fit into the server's max_connections.");
        Ok(if self.counts.len() < asked { vec![less] } else { Vec::new() })
    }

    /// All numbers of sessions in all modes.
    fn measure<S: Subject>(&self, plan: &Plan, sides: &mut [S], progress: &mut Progress) -> Result<Vec<Cell>> {
        let (Bars(least, longest, _), mut cells) = (self.bars(), Vec::new());
        let work = sides[0].work(self.workload, 8, 0, plan.seed)?;
        let (modes, warm_up) = (self.workload.modes(), plan.turn.min(WARM_UP));
        let plans: Vec<(u32, Plan)> = self.counts.iter().map(|&n| (n, self.plan_of(n, plan))).collect();
        let cells_of_a_mode: Duration = plans.iter().map(|(_, plan)| plan.cell(sides.len())).sum();
        progress.plan(warm_up * sides.len() as u32 + cells_of_a_mode * modes.len() as u32);
        Cell::warm_up(sides, &work, warm_up, progress)?;
        for &(mode, rw_ratio) in modes {
            for &(sessions, ref plan) in &plans {
                let mut judged = Judged::against_others(sides, tps, if sessions <= MOST { least } else { CROWD });
                if sessions <= MOST {
                    judged.extend(Judged::against_others(sides, p99, longest));
                }
                let work = sides[0].work(self.workload, sessions, rw_ratio, plan.seed)?;
                let asked = Asked { name: &[mode, &sessions.to_string()], judged: &judged };
                cells.push(Cell::measure(asked, sides, &work, plan, progress)?);
            }
        }
        Ok(cells)
    }

    fn words(&self, cells: &Vec<Cell>) -> Vec<String> {
        self.workload.modes().iter().filter_map(|(mode, _)| fall(mode, cells)).collect()
    }

    fn findings<S: Subject>(&self, place: Place, cells: Vec<Cell>, sides: &[S]) -> Findings {
        let columns: [Column<'_>; 3] = [("TPS", &tps), ("p99 ms", &p99), ("CPU us/txn", &Turn::cpu_us)];
        let mut grids = vec![grid("Subjects by number of sessions", &["", "sessions"], sides, &columns, &cells)];
        if self.controlled {
            add_columns(&mut grids[0], &cells);
            grids.push(wait_grid(&cells));
        }
        let active_set = self.workload.bytes();
        let pool_bytes = place.pool_bytes.unwrap_or(active_set);
        let published = "Published in 2010: throughput falls continuously from 32 sessions on; a limit of 32 threads cost more than it gave \
                         until 256.";
        Findings {
            name: ("sessions", "1 to 256 sessions"),
            place,
            lead: (format!("{} in memory", self.workload.name()), published.to_owned()),
            words: Vec::new(),
            settings: self.workload.settings(json!({
                "modes": self.workload.modes().iter().map(|mode| mode.0).collect::<Vec<_>>(),
                "sessions": self.counts,
                "quarters_of_turns_up_to": self.short_turns.map(|_| FEW),
                "turns_up_to_that": self.short_turns,
                "p99_is": format!("that{}", self.bars().2),
                "pool_bytes": pool_bytes,
                "active_set_of_pool": active_set as f64 / pool_bytes as f64,
            })),
            grids,
            charts: [
                vec![("Over the number of sessions".to_owned(), over_sessions(self.workload, &cells, sides))],
                turns::charts(sides),
            ]
            .concat(),
            claims: claims(self.workload, self.bars(), &cells, sides),
            cells,
        }
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

fn sessions_of(cell: &Cell) -> u32 {
    cell.name.get(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Claims against every other side.
fn claims(workload: Workload, Bars(least, longest, timed): Bars, cells: &[Cell], sides: &[impl Subject]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for &(mode, _) in workload.modes() {
        let of_mode = || cells.iter().filter(move |c| c.name[0] == mode && sessions_of(c) <= MOST);
        for judged in Judged::against_others(sides, tps, least) {
            let other = sides[judged.to].name();
            let text = format!("{mode}: TPS of Holdfast, as a share of {other}'s, worst number of sessions");
            claims.push(Claim::worst(text, of_mode().map(|c| judged.evidence(c)).collect(), least));
            let most = of_mode().max_by_key(|c| sessions_of(c));
            let sessions = most.map_or(0, sessions_of);
            let text = format!("{mode}: p99{timed} at {sessions} sessions, as a share of {other}'s");
            let judged = Judged { figure: p99, ..judged };
            claims.push(Claim::new(text, most.map_or(Evidence::Nothing, |c| judged.evidence(c)), longest));
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
