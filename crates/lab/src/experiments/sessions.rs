//! `sessions`: 1, 2, 4 ... 256 concurrent users.
//!
//! Published in 2010: throughput falls continuously from 32 sessions on, and
//! innodb_thread_concurrency=32, which was meant to help, cost more than it gave up to 256
//! sessions. Here dbSTRESS, read-only and RW=1, runs in turns with a control: as many threads that
//! use the processor time of one session's transaction and do nothing else. That time is measured
//! while the other cores compute. What the control loses with more threads is a property of the
//! machine; the engine may lose a twentieth more. The database is in memory, so sessions never wait
//! for a disk.

use std::time::Duration;

use anyhow::Result;
use holdfast::metrics::{Snapshot, WaitClass};
use holdfast_workload::dbstress;
use serde_json::json;

use crate::claims::{self, Bar, Claim, Evidence};
use crate::document::{Document, Run, metrics};
use crate::figures::{Chart, Figures, Grid, Line};
use crate::machine::Machine;
use crate::measure::{Figure, human};
use crate::progress::Progress;
use crate::rig::control::{burners, core_to_core, price};
use crate::rig::cpu;
use crate::rig::load::Turn;
use crate::rig::sampler::Sampler;
use crate::rig::sessions::dbstress as dbstress_load;
use crate::rig::site::{DiskKind, Settings, Site, Tables};
use crate::turns::{self, Rounds};

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// OBJECTs.
    pub objects: u32,
    /// Numbers of sessions.
    pub counts: Vec<u32>,
    /// Turns of engine and control with more than 64 sessions.
    pub turns: usize,
    /// The length of a turn. Up to 64 sessions each gets a core every tenth of a second. These have
    /// a dozen turns of a quarter of this length, since a shared machine's speed changes from
    /// second to second.
    pub turn: Duration,
    /// Seed of data and load.
    pub seed: u64,
}

impl Options {
    /// The number and length of the turns with that many sessions.
    fn turns(&self, sessions: u32) -> (Rounds, Duration) {
        let (least, turn) = if sessions <= FEW { (SHORT_TURNS, self.turn / 4) } else { (self.turns, self.turn) };
        (Rounds::up_to_twice(least), turn)
    }
}

/// One number of sessions in one mode.
struct Step {
    mode: &'static str,
    sessions: u32,
    turns: Vec<Pair>,
    waits: Vec<(&'static str, f64)>,
}

/// A turn of the engine and one of the control.
struct Pair {
    engine: Turn,
    control: Control,
    /// The core-to-core time just after the engine's, if there are two cores.
    core_to_core_ns: Option<f64>,
}

/// A turn of the control, and the time that its transaction was meant to take. The loop is measured
/// before it runs, and on a shared machine the same loop takes up to twice as long a second later.
/// The figures are converted to those of a loop that took the intended time.
struct Control {
    turn: Turn,
    price_us: f64,
}

impl Control {
    fn tps(&self) -> f64 {
        self.turn.tps() * self.turn.cpu_us() / self.price_us
    }

    fn p99_ms(&self) -> Option<f64> {
        self.turn.latencies.transaction_ms(99.0).map(|ms| ms * self.price_us / self.turn.cpu_us())
    }
}

fn p99_ms(turn: &Turn) -> Option<f64> {
    turn.latencies.transaction_ms(99.0)
}

impl Step {
    /// The median over the turns.
    fn median(&self, of: impl Fn(&Pair) -> Option<f64>) -> f64 {
        self.figure(of).map_or(f64::NAN, |f| f.median)
    }

    fn figure(&self, of: impl Fn(&Pair) -> Option<f64>) -> Option<Figure> {
        Figure::of(&each(&self.turns, of))
    }
}

fn each(turns: &[Pair], of: impl Fn(&Pair) -> Option<f64>) -> Vec<f64> {
    turns.iter().filter_map(of).collect()
}

impl Pair {
    fn tps_ratio(&self) -> Option<f64> {
        Some(self.engine.tps() / self.control.tps())
    }

    fn p99_ratio(&self) -> Option<f64> {
        Some(p99_ms(&self.engine)? / self.control.p99_ms()?)
    }
}

/// Up to this many sessions turns are short, and there are more of them.
const FEW: u32 = 64;
const SHORT_TURNS: usize = 12;
/// Up to this many sessions throughput and latency have a bar; runs with more only have to
/// complete.
const MOST: u32 = 256;
/// Transactions that are timed together: a transaction takes some 20 microseconds, a time slice of
/// the scheduler 2 to 3 milliseconds.
const GROUP: u64 = 10;
/// The modes, and WRITEs per READ of each.
const MODES: [(&str, u32); 2] = [("read-only", 0), ("RW=1", 1)];

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If the data cannot be loaded, or a session fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    progress.step("loading");
    progress.show(&format!("{} objects", options.objects));
    let tables = Tables::DbStress(dbstress::Options::light(options.objects, 1, 1));
    let site = Site::load(&DiskKind::Memory, tables, options.seed)?;
    let db = site.open(&Settings::pool(u64::from(options.objects) * 8000 + (32 << 20)))?;
    let (mut steps, mut charts) = (Vec::new(), Vec::new());
    for (mode, rw_ratio) in MODES {
        let mut sampler = Sampler::new(&db);
        let load = |sessions| dbstress::Options::light(options.objects, sessions, rw_ratio);
        let alone = dbstress_load(&db, &site, load(1), options.seed);
        alone.run(options.turn, &mut |_| Ok(()))?;
        for &sessions in &options.counts {
            progress.step(&format!("{mode}, {sessions} sessions"));
            let engine = dbstress_load(&db, &site, load(sessions), options.seed).in_groups_of(GROUP);
            let before = db.metrics_snapshot();
            let (rounds, length) = options.turns(sessions);
            // The cost of one session's transaction now, with as many cores at work as in the
            // turns.
            let beside = cpu::cores().min(sessions as usize) - 1;
            let price = || price(&alone, beside, options.turn / 4);
            let mut before_us = price()?;
            let pair = |_| {
                let engine = sampler.run(&sessions.to_string(), &engine, length, progress)?;
                let core_to_core_ns = core_to_core().map(|figure| figure.median);
                let control = burners(before_us, sessions as usize).in_groups_of(GROUP);
                let turn = control.run(length, &mut |_| Ok(()))?;
                let after_us = price()?;
                let price_us = f64::midpoint(before_us, after_us);
                before_us = after_us;
                Ok(Pair { engine, control: Control { turn, price_us }, core_to_core_ns })
            };
            let turns = turns::alone(rounds, pair, |turns| decided(sessions, turns))?;
            let waits = waits(&db.metrics_snapshot().delta(&before), &turns);
            if Some(&sessions) == options.counts.last() {
                charts.push((format!("Second by second, {mode}"), sampler.charts(mode, engine.classes())));
            }
            steps.push(Step { mode, sessions, turns, waits });
        }
    }
    let mut document = Document::new("sessions", settings(options), Machine::this(None));
    document.title = "1 to 256 sessions".to_owned();
    document.runs = steps.iter().map(document_run).collect();
    document.claims = claims(&steps);
    charts.insert(0, ("Over the number of sessions".to_owned(), over_sessions(&steps)));
    document.figures =
        Figures { lead: lead(), words: Vec::new(), grids: vec![grid(&steps), wait_grid(&steps)], charts };
    let text = document.figures.text();
    Ok((document, text))
}

/// Microseconds waited per transaction, by class.
fn waits(did: &Snapshot, turns: &[Pair]) -> Vec<(&'static str, f64)> {
    let transactions: u64 = turns.iter().map(|t| t.engine.transactions).sum();
    let per_transaction = |class: &WaitClass| did.wait(*class).total.as_secs_f64() * 1e6 / transactions.max(1) as f64;
    WaitClass::ALL.iter().map(|class| (class.name(), per_transaction(class))).collect()
}

fn lead() -> String {
    "dbSTRESS in memory, in turns with a control: as many threads that use the processor time of one session's transaction and do \
     nothing else. Published in 2010: throughput falls continuously from 32 sessions on; a limit of 32 threads cost more than it gave \
     until 256."
        .to_owned()
}

fn settings(options: &Options) -> serde_json::Value {
    json!({
        "workload": "dbSTRESS, read-only and RW=1, a WRITE is one UPDATE",
        "anti_dead": "slices", "hpk": true, "same_ref": true, "distribution": "uniform",
        "objects": options.objects,
        "sessions": options.counts,
        "turns": options.turns,
        "turn_s": options.turn.as_secs_f64(),
        "quarters_of_turns_up_to": FEW,
        "turns_up_to_that": SHORT_TURNS,
        "timed_together": GROUP,
        "disk": "memory",
        "active_set_of_pool": "all of it fits",
        "seed": options.seed,
    })
}

const TPS: Bar = Bar::AtLeast(0.95);
const P99: Bar = Bar::AtMost(1.5);

/// True if more turns would not change what is said of this number of sessions.
fn decided(sessions: u32, turns: &[Pair]) -> bool {
    sessions > MOST
        || claims::decided(&each(turns, Pair::tps_ratio), TPS) && claims::decided(&each(turns, Pair::p99_ratio), P99)
}

fn claims(steps: &[Step]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (mode, _) in MODES {
        let of_mode = || steps.iter().filter(move |s| s.mode == mode && s.sessions <= MOST);
        let tps = of_mode().map(|s| Evidence::turns(&each(&s.turns, Pair::tps_ratio))).collect();
        let text = format!("{mode}: TPS as a share of the control's, worst number of sessions");
        claims.push(Claim::worst(text, tps, TPS));
        let most = of_mode().next_back();
        let sessions = most.map_or(0, |s| s.sessions);
        let text = format!("{mode}: p99 of {GROUP} transactions at {sessions} sessions, as a share of the control's");
        let p99 = most.map_or(Evidence::Nothing, |s| Evidence::turns(&each(&s.turns, Pair::p99_ratio)));
        claims.push(Claim::new(text, p99, P99));
    }
    claims
}

fn document_run(step: &Step) -> Run {
    Run {
        target: "embedded".to_owned(),
        policy: format!("{}, {} sessions", step.mode, step.sessions),
        metrics: metrics(json!({
            "mode": step.mode,
            "sessions": step.sessions,
            "tps": step.figure(|p| Some(p.engine.tps())),
            "control_tps": step.figure(|p| Some(p.control.tps())),
            "p99_ms": step.figure(|p| p99_ms(&p.engine)),
            "control_p99_ms": step.figure(|p| p.control.p99_ms()),
            "core_to_core_ns": step.figure(|p| p.core_to_core_ns),
            "wait_us_per_transaction": step.waits,
        })),
    }
}

fn grid(steps: &[Step]) -> Grid {
    let header = [
        "",
        "sessions",
        "TPS",
        "control",
        "of control",
        "p99 ms",
        "control",
        "of control",
        "CPU us/txn",
        "control",
        "core to core ns",
    ];
    let note = "Medians of turns; latencies are of ten transactions in a row. The control's transaction costs what the engine's cost with one session just before and after (the mean) while the other cores computed, background threads included (where the loop cost more or less on the busy machine, it is counted at that price); \
                with one session the engine can be faster than its control, because those threads have another core. Core to core: until a core sees what another one has written, just after each turn.";
    let mut grid = Grid::new("Engine and control", 1, &header, note);
    let ratio = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
    for s in steps {
        grid.rows.push(vec![
            s.mode.to_owned(),
            s.sessions.to_string(),
            human(s.median(|p| Some(p.engine.tps()))),
            human(s.median(|p| Some(p.control.tps()))),
            ratio(s.figure(Pair::tps_ratio).map(|f| f.median)),
            human(s.median(|p| p99_ms(&p.engine))),
            human(s.median(|p| p.control.p99_ms())),
            ratio(s.figure(Pair::p99_ratio).map(|f| f.median)),
            human(s.median(|p| Some(p.engine.cpu_us()))),
            human(s.median(|p| Some(p.control.price_us))),
            s.figure(|p| p.core_to_core_ns).map_or_else(|| "-".to_owned(), |ns| human(ns.median)),
        ]);
    }
    grid
}

fn wait_grid(steps: &[Step]) -> Grid {
    let names: Vec<&str> = steps.first().map(|s| s.waits.iter().map(|w| w.0).collect()).unwrap_or_default();
    let mut header = vec!["", "sessions"];
    header.extend(&names);
    let mut grid = Grid::new("Waits, microseconds per transaction", 1, &header, "");
    for s in steps {
        let mut row = vec![s.mode.to_owned(), s.sessions.to_string()];
        row.extend(s.waits.iter().map(|w| human(w.1)));
        grid.rows.push(row);
    }
    grid
}

fn over_sessions(steps: &[Step]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (mode, _) in MODES {
        let line = |name: &str, dashed, y: &dyn Fn(&Step) -> f64| Line {
            name: name.to_owned(),
            points: steps.iter().filter(|s| s.mode == mode).map(|s| (f64::from(s.sessions).log2(), y(s))).collect(),
            dashed,
        };
        let x = "sessions, as a power of 2";
        let lines = vec![
            line("engine", false, &|s| s.median(|p| Some(p.engine.tps()))),
            line("control", true, &|s| s.median(|p| Some(p.control.tps()))),
        ];
        charts.push(Chart::over(&format!("Throughput, {mode}"), x, "transactions per second", lines));
        let lines = vec![
            line("engine", false, &|s| s.median(|p| p99_ms(&p.engine))),
            line("control", true, &|s| s.median(|p| p.control.p99_ms())),
        ];
        charts.push(Chart::over(&format!("99th percentile, {mode}"), x, "milliseconds", lines));
    }
    charts
}
