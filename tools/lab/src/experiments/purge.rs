//! `purge`: updates in place must not fill the pool with old versions.
//!
//! Dimitri Kravtchuk's dbSTRESS, 2010: 32 sessions, no think time, one UPDATE in place per READ. On
//! MySQL 5.5.4 the free pages fell continuously until old images filled the pool, because purge did
//! not keep up; a newer kernel's scheduler removed the effect.
//!
//! Two subjects with the same data run in turns: databases of the embedded engine, or private
//! servers, two for each engine. On one there is no snapshot; on the other one a snapshot is held
//! from the first turn to the last, as by a dump in one transaction. The rows that differ between
//! snapshot and newest state are counted: at most as many versions may have been kept. On a server
//! that the user names the two parts follow each other: first without a snapshot, then with one.

use anyhow::Result;
use holdfast_server::Cache;
use holdfast_workload::dbstress;
use serde_json::json;

use super::in_turns::{self, InTurns, On};
use crate::args::rig::{MIB, RigArgs};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::{Grid, Shown};
use crate::measure::{human, median, or_dash};
use crate::progress::Progress;
use crate::rig::sessions::{SEL2, UPDATE};
use crate::rig::site::DiskKind;
use crate::server::turns::cell::{Asked, Cell, Column, Judged, Of, grid, tps};
use crate::server::turns::running::There;
use crate::server::turns::side::{Data, Settings, Side};
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan, engine_name};
use crate::subject::embedded::Embedded;
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};

/// The sizes of the experiment.
#[derive(Debug)]
struct Options {
    /// OBJECTs; HISTORY has 20 rows for each.
    objects: u32,
    sessions: u32,
    /// The cache of each subject.
    pool_bytes: u64,
}

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    let (turns, tiny, pools) = match args.embedded() {
        true => (7, 0.15, [32, 192, 384, 16_384]),
        false => (6, 2.2, [32, 128, 256, 16_384]),
    };
    let options = Options {
        objects: args.sized([500, 10_000, 20_000, 1_000_000]),
        sessions: args.sized([3, 32, 32, 32]),
        pool_bytes: args.sized(pools) * MIB,
    };
    in_turns::run(args, args.plan([3, turns, 10, 12], [tiny, 3.0, 6.0, 10.0]), options, progress)
}

impl Options {
    /// Everything except the tables and the verdicts on them.
    fn common(&self, place: Place, cells: Vec<Cell>, sides: &[impl Subject]) -> Findings {
        let what = format!("dbSTRESS, {} sessions without think time, one UPDATE in place per READ", self.sessions);
        let published = "Published in 2010 for MySQL 5.5.4: free pages fall continuously until old page images own the pool, for purge does not keep up.";
        let pool_bytes = place.pool_bytes.unwrap_or(self.pool_bytes);
        Findings {
            name: ("purge", "Updates in place beside a long snapshot"),
            place,
            lead: (what, published.to_owned()),
            words: Vec::new(),
            settings: self.workload().settings(json!({
                "mode": "RW=1",
                "history_rows": u64::from(self.objects) * u64::from(dbstress::HISTORY_PER_OBJECT),
                "sessions": self.sessions,
                "pool_bytes": pool_bytes,
                "active_set_of_pool": self.workload().bytes() as f64 / pool_bytes as f64,
                "snapshot": "a transaction that reads, from before the first turn until after the last",
            })),
            grids: Vec::new(),
            charts: turns::charts(sides),
            claims: Vec::new(),
            cells,
        }
    }
}

/// Subjects of an engine: without a snapshot, with one.
const SIDES: usize = 2;
const TPS: Bar = Bar::AtLeast(0.9);
const P99: Bar = Bar::AtMost(1.2);

/// The turns of all subjects, and the rows that changed, for each snapshot.
struct Measured {
    cell: Cell,
    changed: Vec<u64>,
}

impl InTurns for Options {
    type Measured = Measured;

    fn workload(&self) -> Workload {
        Workload::DbStress { objects: self.objects }
    }

    fn settings(&self) -> Settings {
        Settings { pool_bytes: self.pool_bytes, size: 1.0, ..Settings::default() }
    }

    fn embedded(&self, plan: &Plan, progress: &mut Progress) -> Result<(Place, Vec<Embedded>, Measured)> {
        progress.step("loading two databases");
        let mut side = |name| self.engine(name, &DiskKind::Memory, plan, progress);
        let mut sides = vec![side("no snapshot")?, side("snapshot held")?];
        let measured = self.measure(plan, &mut sides, progress)?;
        Ok((Place::embedded("on two databases in turns", "in memory", None), sides, measured))
    }

    fn private<'c>(&self, cache: &'c Cache, plan: &'c Plan, progress: &mut Progress) -> Result<On<'c, Options>> {
        let mut sides = Vec::new();
        for &contender in &plan.contenders {
            let name = engine_name(contender);
            let mut plain = Side::private(cache, &plan.cores, &name, contender)?;
            plain.load(Data::Of(self.workload()), plan.seed, progress)?;
            let mut held = Side::private(cache, &plan.cores, &format!("{name}, snapshot held"), contender)?;
            held.copy_of(&plain)?;
            plain.start(&self.settings())?;
            held.start(&self.settings())?;
            sides.extend([plain, held]);
        }
        let measured = self.measure(plan, &mut sides, progress)?;
        Ok((sides, measured))
    }

    /// Every second subject holds a snapshot.
    fn measure<S: Subject>(&self, plan: &Plan, sides: &mut [S], progress: &mut Progress) -> Result<Measured> {
        let work = sides[0].work(self.workload(), self.sessions, 1, plan.seed)?;
        progress.plan(plan.turn * sides.len() as u32 + plan.cell(sides.len()));
        progress.step("warming up");
        Cell::warm_up(sides, &work, plan.turn, progress)?;
        sides.iter_mut().skip(1).step_by(SIDES).try_for_each(S::hold_snapshot)?;
        let name = format!("{} sessions", self.sessions);
        let judged = [(tps as fn(&Turn) -> Option<f64>, TPS), (sel2, P99)];
        let judged = judged.map(|(figure, bar)| Judged { of: 1, to: 0, figure, bar });
        let cell = Cell::measure(Asked { name: &[&name], judged: &judged }, sides, &work, plan, progress)?;
        progress.step("counting the rows that changed");
        let changed = sides.iter_mut().skip(1).step_by(SIDES).map(S::rows_changed).collect::<Result<Vec<_>>>()?;
        Ok(Measured { cell, changed })
    }

    fn findings<S: Subject>(&self, place: Place, Measured { cell, changed }: Measured, sides: &[S]) -> Findings {
        let grids = vec![
            held_grid(&cell, sides, &changed),
            grid("All subjects", &[""], sides, &COLUMNS, std::slice::from_ref(&cell)),
        ];
        let claims = claims(&cell, sides, &changed, self.pool_bytes);
        Findings { grids, claims, ..self.common(place, vec![cell], sides) }
    }

    /// The one server without a snapshot, then with one.
    fn there(
        &mut self,
        plan: &Plan,
        there: There<'_>,
        sides: &mut [Side<'_>],
        progress: &mut Progress,
    ) -> Result<Findings> {
        let tables = Data::Of(self.workload());
        sides.iter_mut().try_for_each(|side| side.make_tables(tables, plan.seed, progress))?;
        let work = sides[0].work(self.workload(), self.sessions, 1, plan.seed)?;
        progress.plan(plan.turn * sides.len() as u32 + plan.cell(sides.len()) * 2);
        Cell::warm_up(sides, &work, plan.turn, progress)?;
        let plain = Cell::measure(Asked { name: &["no snapshot"], judged: &[] }, sides, &work, plan, progress)?;
        sides[0].hold_snapshot()?;
        let held = Cell::measure(Asked { name: &["a snapshot held"], judged: &[] }, sides, &work, plan, progress)?;
        progress.step("counting the rows that changed");
        let words = in_words(&plain, &held, sides[0].rows_changed()?);
        let cells = vec![plain, held];
        let history: Column<'_> = ("longest history", &longest_history);
        let columns: Vec<Column<'_>> = COLUMNS.into_iter().chain([history]).collect();
        let grids = vec![grid("Without a snapshot and with one", &[""], sides, &columns, &cells)];
        Ok(Findings { grids, words, ..self.common(there.place, cells, sides) })
    }
}

fn longest_history(turn: &Turn) -> Option<f64> {
    turn.series(Meter::History).into_iter().reduce(f64::max)
}

/// The longest history that counts as keeping up, as the time in which as many WRITEs happen.
const LAG_S: f64 = 2.0;

/// Sentences on a server's history and its statements in both cells.
fn in_words(plain: &Cell, held: &Cell, changed: u64) -> Vec<String> {
    let mut words = Vec::new();
    let rate = |cell: &Cell| cell.figure(0, tps).map(|f| f.median);
    let history = |cell: &Cell| cell.figure(0, longest_history).map(|f| f.max);
    if let (Some(longest), Some(tps)) = (history(plain), rate(plain)) {
        let lag = longest / (tps / 2.0).max(1.0);
        words.push(if lag > LAG_S {
            format!(
                "Purge lags: without any snapshot up to {} transactions waited for it, {} seconds of WRITEs. With InnoDB more innodb_purge_threads \
                 help; innodb_max_purge_lag makes writers wait instead.",
                human(longest),
                human(lag)
            )
        } else {
            format!("Purge keeps up: without a snapshot at most {} transactions waited for it.", human(longest))
        });
    }
    if let (Some(ratio), Some(longest)) = (rate(held).zip(rate(plain)).map(|(a, b)| a / b), history(held)) {
        let slower = held.figure(0, sel2).zip(plain.figure(0, sel2)).map_or(f64::NAN, |(a, b)| a.median / b.median);
        words.push(format!(
            "With a snapshot held, throughput was {:.0} % of that without, the 99th percentile of SEL2 {slower:.1} times as long, and the history grew \
             to {} for {} rows that changed: look for transactions that stay open for long.",
            ratio * 100.0,
            human(longest),
            human(changed as f64)
        ));
    }
    words
}

const COLUMNS: [Column<'static>; 4] = [
    ("TPS", &tps),
    ("SEL2 p99 ms", &sel2),
    ("UPDATE p99 ms", &|t| t.latencies.class_ms(UPDATE, 99.0)),
    ("CPU us/txn", &Turn::cpu_us),
];

fn sel2(turn: &Turn) -> Option<f64> {
    turn.latencies.class_ms(SEL2, 99.0)
}

/// The longest history of the second half of the run, as the time in which as many WRITEs happen.
fn lag_seconds(cell: &Cell, sides: &[impl Subject], side: usize) -> Option<f64> {
    let longest = sides[side].series().part(Meter::History, 0.5, 1.0).into_iter().reduce(f64::max)?;
    Some(longest / (cell.figure(side, tps)?.median / 2.0))
}

/// The free pages lost from the second quarter of the run to the last.
fn free_lost(side: &impl Subject) -> Option<f64> {
    let free = |from, to| median(&side.series().part(Meter::Free, from, to));
    Some(free(0.25, 0.5)? - free(0.75, 1.0)?)
}

/// The claims, which are about Holdfast. With a snapshot the free pages fall as long as rows change
/// for the first time; the bar on the versions covers that.
fn claims(cell: &Cell, sides: &[impl Subject], changed: &[u64], pool_bytes: u64) -> Vec<Claim> {
    let lag = |side: usize| {
        let text = format!("{}: longest history of the second half, in seconds of WRITEs", sides[side].name());
        Claim::new(text, Evidence::once(lag_seconds(cell, sides, side)), Bar::AtMost(1.0))
    };
    let name = sides[0].name();
    let lost = format!("{name}: share of the pool that free pages lost from the second quarter to the last");
    let lost_pages = free_lost(&sides[0]).map(|pages| pages / (pool_bytes as f64 / 16384.0));
    let versions = sides[1].series().most(Meter::Versions).zip(changed.first());
    let versions = versions.map(|(kept, &rows)| kept / rows.max(1) as f64);
    let tps_text = "TPS with a snapshot held, as a share of that without";
    let p99_text = "p99 of SEL2 on the newest data with a snapshot held, as a share of that without";
    vec![
        lag(0),
        lag(1),
        Claim::new(lost, Evidence::once(lost_pages), Bar::AtMost(0.01)),
        Claim::new(tps_text, Evidence::turns(&cell.ratios(1, 0, tps)), TPS),
        Claim::new(p99_text, Evidence::turns(&cell.ratios(1, 0, sel2)), P99),
        Claim::new("versions kept per row that changed", Evidence::counted(versions), Bar::AtMost(1.0)),
    ]
}

fn held_grid(cell: &Cell, sides: &[impl Subject], changed: &[u64]) -> Grid {
    let note = "Medians of rounds. Free pages lost: from the second quarter of the run to the last. Rows changed: those of HISTORY that the snapshot saw \
                otherwise than the newest state.";
    let (plain, held) = (|n: &usize| &sides[n * SIDES], |n: &usize| &sides[n * SIDES + 1]);
    let opt = |v: Option<f64>| or_dash(v, human);
    let ratio = |n: &usize, of: Of<'_>| {
        let ratio = cell.ratio(n * SIDES + 1, n * SIDES, of);
        or_dash(ratio, |r| format!("{:.3}", r.value))
    };
    let columns: [Shown<'_, usize>; 9] = [
        ("", &|n| plain(n).name().to_owned()),
        ("TPS, as a share of that without", &|n| ratio(n, &tps)),
        ("p99 of SEL2, as a share of that without", &|n| ratio(n, &sel2)),
        ("longest history without", &|n| opt(plain(n).series().most(Meter::History))),
        ("with", &|n| opt(held(n).series().most(Meter::History))),
        ("free pages lost without", &|n| opt(free_lost(plain(n)))),
        ("with", &|n| opt(free_lost(held(n)))),
        ("versions at most", &|n| opt(held(n).series().most(Meter::Versions))),
        ("rows changed", &|n| opt(changed.get(*n).map(|&rows| rows as f64))),
    ];
    let engines: Vec<usize> = (0..sides.len() / SIDES).collect();
    Grid::of("What a snapshot costs that is held all the time", 1, &engines, &columns, note)
}
