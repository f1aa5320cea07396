//! `purge` on private servers: updates in place beside a long snapshot, Holdfast and InnoDB, each
//! with a snapshot held and without, four servers in turns.
//!
//! The snapshot is held from the first turn to the last. At the end the rows are counted that
//! differ between snapshot and newest state: at most as many old versions are needed. On a server
//! that the user names the two parts follow each other: first without a snapshot, then with one.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use anyhow::{Context, Result};
use holdfast_server::Cache;
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::json;

use super::turns::cell::{Asked, Cell, Column, Judged, grid, tps};
use super::turns::meters::Meter;
use super::turns::side::{Data, Settings, Side, Turn};
use super::turns::workload::Workload;
use super::turns::{self, Findings, Place, Plan, engine_name};
use crate::document::Document;
use crate::experiments::purge::{Found, claims};
use crate::figures::Grid;
use crate::measure::{Figure, human};
use crate::progress::Progress;
use crate::rig::sessions::{SEL2, UPDATE};

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// OBJECTs.
    pub objects: u32,
    /// Sessions.
    pub sessions: u32,
    /// The cache of each engine.
    pub pool_bytes: u64,
}

impl Options {
    fn workload(&self) -> Workload {
        Workload::DbStress { objects: self.objects }
    }
}

/// Sides of an engine: without a snapshot, with one.
const SIDES: usize = 2;

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If packages are not available, a server does not start, or a client fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let cache = turns::equip(progress)?;
    let (plan, workload) = (&options.plan, options.workload());
    let mut sides = Vec::new();
    let settings = Settings { pool_bytes: options.pool_bytes, size: 1.0, ..Settings::default() };
    for &contender in &plan.contenders {
        let name = engine_name(contender);
        let mut plain = Side::private(&cache, &plan.cores, &name, contender)?;
        plain.load(Data::Of(workload), plan.seed, progress)?;
        let mut held = Side::private(&cache, &plan.cores, &format!("{name}, snapshot held"), contender)?;
        held.copy_of(&plain)?;
        plain.start(&settings)?;
        held.start(&settings)?;
        sides.extend([plain, held]);
    }
    let work = workload.load(&cache, options.sessions, 1, plan.seed)?;
    Cell::warm_up(&mut sides, &work, plan.turn, progress)?;
    let mut snapshots = Vec::new();
    for side in sides.iter_mut().skip(1).step_by(SIDES) {
        snapshots.push(Snapshot::hold(side)?);
    }
    let name = format!("{} sessions", options.sessions);
    let judged = [(tps as fn(&Turn) -> Option<f64>, Found::TPS), (sel2, Found::P99)];
    let judged = judged.map(|(figure, bar)| Judged { of: 1, to: 0, figure, bar });
    let cell = Cell::measure(Asked { name: &[&name], judged: &judged }, &mut sides, &work, plan, progress)?;
    progress.step("counting the rows that changed");
    let mut changed = Vec::new();
    for (side, snapshot) in sides.iter_mut().skip(1).step_by(SIDES).zip(&mut snapshots) {
        changed.push(snapshot.rows_changed(side)?);
        side.pause(true);
    }
    let grids = vec![
        held_grid(&cell, &sides, &changed),
        grid("All four servers", &[""], &sides, &COLUMNS, std::slice::from_ref(&cell)),
    ];
    let claims = claims(&found(&cell, &sides, &changed, options));
    let findings = Findings { grids, claims, ..findings(options, Place::private(), vec![cell], &sides) };
    Ok(findings.report(plan, &sides))
}

/// Runs it on a server that the user names.
///
/// # Errors
/// If the server or a client fails.
pub(super) fn on_running_server(
    options: &Options,
    place: Place,
    cache: &Cache,
    sides: &mut [Side<'_>],
    progress: &mut Progress,
) -> Result<Findings> {
    let (plan, workload) = (&options.plan, options.workload());
    for side in sides.iter_mut() {
        side.make_tables(Data::Of(workload), plan.seed, progress)?;
    }
    let work = workload.load(cache, options.sessions, 1, plan.seed)?;
    Cell::warm_up(sides, &work, plan.turn, progress)?;
    let plain = Cell::measure(Asked { name: &["no snapshot"], judged: &[] }, sides, &work, plan, progress)?;
    let side = sides.first().context("there is one server")?;
    let mut snapshot = Snapshot::hold(side)?;
    let held = Cell::measure(Asked { name: &["a snapshot held"], judged: &[] }, sides, &work, plan, progress)?;
    progress.step("counting the rows that changed");
    let changed = snapshot.rows_changed(&sides[0])?;
    drop(snapshot);
    let words = in_words(&plain, &held, changed);
    let cells = vec![plain, held];
    let history: Column<'_> = ("longest history", &longest_history);
    let columns: Vec<Column<'_>> = COLUMNS.into_iter().chain([history]).collect();
    let grids = vec![grid("Without a snapshot and with one", &[""], sides, &columns, &cells)];
    Ok(Findings { grids, words, ..findings(options, place, cells, sides) })
}

fn longest_history(turn: &Turn) -> Option<f64> {
    turn.each.iter().filter_map(|s| s.values[Meter::History as usize]).reduce(f64::max)
}

/// The longest history that counts as keeping up, as the time in which as many WRITEs happen.
const LAG_S: f64 = 2.0;

/// Sentences on a server's history and its statements in both cells.
fn in_words(plain: &Cell, held: &Cell, changed: u64) -> Vec<String> {
    let mut words = Vec::new();
    let tps = |cell: &Cell| cell.figure(0, |t| Some(t.tps())).map(|f| f.median);
    let history = |cell: &Cell| cell.figure(0, longest_history).map(|f| f.max);
    if let (Some(longest), Some(tps)) = (history(plain), tps(plain)) {
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
    if let (Some(ratio), Some(longest)) = (tps(held).zip(tps(plain)).map(|(a, b)| a / b), history(held)) {
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
    ("TPS", &|t| Some(t.tps())),
    ("SEL2 p99 ms", &sel2),
    ("UPDATE p99 ms", &|t| t.latencies.class_ms(UPDATE, 99.0)),
    ("server's CPU us/txn", &Turn::cpu_us),
];

/// Everything except the tables and the verdicts on them.
fn findings(options: &Options, place: Place, cells: Vec<Cell>, sides: &[Side<'_>]) -> Findings {
    let what = format!("dbSTRESS, {} sessions without think time, one UPDATE in place per READ", options.sessions);
    let published = "Published in 2010 for MySQL 5.5.4: free pages fall continuously until old page images own the pool, for purge does not keep up.";
    let pool_bytes = place.pool_bytes.unwrap_or(options.pool_bytes);
    Findings {
        name: ("purge", "Updates in place beside a long snapshot, on a server"),
        place,
        lead: (what, published.to_owned()),
        words: Vec::new(),
        settings: options.workload().settings(json!({
            "mode": "RW=1",
            "sessions": options.sessions,
            "pool_bytes": pool_bytes,
            "active_set_of_pool": options.workload().bytes() as f64 / pool_bytes as f64,
            "snapshot": "START TRANSACTION WITH CONSISTENT SNAPSHOT before the first turn, open until after the last",
        })),
        grids: Vec::new(),
        charts: vec![("Second by second".to_owned(), turns::charts(sides))],
        claims: Vec::new(),
        cells,
    }
}

fn sel2(turn: &Turn) -> Option<f64> {
    turn.latencies.class_ms(SEL2, 99.0)
}

/// A transaction that reads the state of its beginning.
struct Snapshot(Conn);

impl Snapshot {
    fn hold(side: &Side<'_>) -> Result<Snapshot> {
        let mut conn = side.connect()?;
        conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        conn.query_drop("SELECT COUNT(*) FROM zone")?;
        side.pause(true);
        Ok(Snapshot(conn))
    }

    /// The rows of HISTORY that differ between it and a new reader.
    fn rows_changed(&mut self, side: &Side<'_>) -> Result<u64> {
        side.pause(false);
        let (old, new) = (digests(&mut self.0)?, digests(&mut side.connect()?)?);
        anyhow::ensure!(
            old.len() == new.len(),
            "the snapshot sees {} rows of HISTORY, a new one {}",
            old.len(),
            new.len()
        );
        Ok(old.iter().zip(&new).filter(|(a, b)| a != b).count() as u64)
    }
}

/// A digest of every row of HISTORY, in the order of its key.
fn digests(conn: &mut Conn) -> Result<Vec<u64>> {
    let sql = "SELECT ref_stat, begin_date, end_date, note FROM history ORDER BY ref_object, horder";
    let digest = |row: (String, String, String, String)| {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        hasher.finish()
    };
    conn.query_map(sql, digest).context("read HISTORY")
}

/// The values of a meter in a part of a side's seconds, given as shares.
fn part(side: &Side<'_>, meter: Meter, from: f64, to: f64) -> Vec<f64> {
    let n = side.seconds.len() as f64;
    let seconds = &side.seconds[(n * from) as usize..(n * to) as usize];
    seconds.iter().filter_map(|s| s.values[meter as usize]).collect()
}

/// The longest history of the second half of the run, as the time in which as many WRITEs happen.
fn lag_seconds(cell: &Cell, sides: &[Side<'_>], side: usize) -> Option<f64> {
    let longest = part(&sides[side], Meter::History, 0.5, 1.0).into_iter().reduce(f64::max)?;
    Some(longest / (cell.figure(side, |t| Some(t.tps()))?.median / 2.0))
}

/// The free pages lost from the second quarter of the run to the last.
fn free_lost(side: &Side<'_>) -> Option<f64> {
    let median = |from, to| Some(Figure::of(&part(side, Meter::Free, from, to))?.median);
    Some(median(0.25, 0.5)? - median(0.75, 1.0)?)
}

fn most_versions(side: &Side<'_>) -> Option<f64> {
    part(side, Meter::Versions, 0.0, 1.0).into_iter().reduce(f64::max)
}

/// What the claims, which are on Holdfast, are about.
fn found(cell: &Cell, sides: &[Side<'_>], changed: &[u64], options: &Options) -> Found {
    let pages = options.pool_bytes as f64 / 16384.0;
    Found {
        names: [sides[0].name.clone(), sides[1].name.clone()],
        lag_seconds: [lag_seconds(cell, sides, 0), lag_seconds(cell, sides, 1)],
        free_lost: free_lost(&sides[0]).map(|lost| lost / pages),
        tps: cell.ratios(1, 0, tps),
        p99: cell.ratios(1, 0, sel2),
        versions: most_versions(&sides[1]).zip(changed.first()).map(|(kept, &rows)| kept / rows.max(1) as f64),
    }
}

fn held_grid(cell: &Cell, sides: &[Side<'_>], changed: &[u64]) -> Grid {
    let header = [
        "",
        "TPS, as a share of that without",
        "p99 of SEL2, as a share of that without",
        "longest history without",
        "with",
        "free pages lost without",
        "with",
        "versions at most",
        "rows changed",
    ];
    let note = "Medians of rounds. Free pages lost: from the second quarter of the run to the last. Rows changed: those of HISTORY that the snapshot sees \
                otherwise than the newest state, counted at the end.";
    let mut grid = Grid::new("What a snapshot costs that is held all the time", 1, &header, note);
    let opt = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), human);
    let longest = |side: &Side<'_>| opt(part(side, Meter::History, 0.0, 1.0).into_iter().reduce(f64::max));
    for (n, pair) in sides.chunks_exact(SIDES).enumerate() {
        let (plain, held) = (n * SIDES, n * SIDES + 1);
        let ratio = |of: &dyn Fn(&Turn) -> Option<f64>| {
            cell.ratio(held, plain, of).map_or_else(|| "-".to_owned(), |r| format!("{:.3}", r.value))
        };
        grid.rows.push(vec![
            pair[0].name.clone(),
            ratio(&|t| Some(t.tps())),
            ratio(&sel2),
            longest(&pair[0]),
            longest(&pair[1]),
            opt(free_lost(&pair[0])),
            opt(free_lost(&pair[1])),
            opt(most_versions(&pair[1])),
            changed.get(n).map_or_else(|| "-".to_owned(), |&rows| human(rows as f64)),
        ]);
    }
    grid
}
