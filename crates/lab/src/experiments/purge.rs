//! `purge`: updates in place must not fill the pool with old versions.
//!
//! Dimitri Kravtchuk's dbSTRESS, 2010: 32 sessions, no think time, one UPDATE in place per READ. On
//! MySQL 5.5.4 the free pages fell continuously until old images filled the pool, because purge did
//! not keep up; a newer kernel's scheduler removed the effect.
//!
//! Two databases with the same data run in turns. On one there is no snapshot; on the other one a
//! snapshot is held from the first second to the last, as by a dump in one transaction. The rows
//! that differ between snapshot and newest state at the end of any turn are counted: at most as
//! many versions may have been kept. (At the end of the last turn alone, some of 200,000 rows have
//! by chance the value that the snapshot sees.)

use std::ops::Bound;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use holdfast::{Database, ReadOptions, ReadTransaction};
use holdfast_workload::dbstress::{self, Table};
use serde_json::json;

use crate::claims::{self, Bar, Claim, Evidence};
use crate::document::{Document, Run, metrics};
use crate::figures::{Figures, Grid};
use crate::machine::Machine;
use crate::measure::{Figure, human};
use crate::progress::Progress;
use crate::rig::load::Turn;
use crate::rig::sampler::{Sample, Sampler};
use crate::rig::sessions::{SEL2, UPDATE, dbstress as sessions};
use crate::rig::site::{DiskKind, Settings, Site, Tables};
use crate::turns::{Rounds, in_turns};

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// OBJECTs; HISTORY has 20 rows for each.
    pub objects: u32,
    /// Sessions.
    pub sessions: u32,
    /// Turns of each database.
    pub turns: usize,
    /// Length of a turn.
    pub turn: Duration,
    /// The pool.
    pub pool_bytes: u64,
    /// Seed of data and load.
    pub seed: u64,
}

/// One of the two databases, after its turns.
struct Side {
    name: &'static str,
    turns: Vec<Turn>,
    samples: Vec<Sample>,
}

impl Side {
    fn figure(&self, of: impl Fn(&Turn) -> Option<f64>) -> Option<Figure> {
        Figure::of(&self.turns.iter().filter_map(of).collect::<Vec<_>>())
    }

    /// The samples in a part of the run, from `from` to `to` as shares of it.
    fn part(&self, from: f64, to: f64) -> &[Sample] {
        let n = self.samples.len() as f64;
        &self.samples[(n * from) as usize..(n * to) as usize]
    }

    /// The longest history of the second half, as the time in which as many commits happen.
    fn lag_seconds(&self) -> Option<f64> {
        let longest = self.part(0.5, 1.0).iter().map(|s| s.history).max()?;
        Some(longest as f64 / (self.figure(|t| Some(t.tps()))?.median / 2.0))
    }

    /// The free pages lost from the second quarter of the run to the last.
    fn free_lost(&self) -> Option<f64> {
        let free = |part: &[Sample]| Figure::of(&part.iter().map(|s| s.free_pages as f64).collect::<Vec<_>>());
        Some(free(self.part(0.25, 0.5))?.median - free(self.part(0.75, 1.0))?.median)
    }
}

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If the data cannot be loaded, or a session fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let load = dbstress::Options::light(options.objects, options.sessions, 1);
    progress.step("loading two databases");
    progress.show(&format!("{} objects each", options.objects));
    let tables = Tables::DbStress(load);
    let sites = [0, 1].map(|_| Site::load(&DiskKind::Memory, tables, options.seed));
    let [plain_site, held_site] = sites;
    let (plain_site, held_site) = (plain_site?, held_site?);
    let settings = Settings::pool(options.pool_bytes);
    let (plain, held) = (plain_site.open(&settings)?, held_site.open(&settings)?);
    let frames = plain.cache_stats().0.frames;

    let began = Instant::now();
    let mut samplers = [Sampler::since(&plain, began), Sampler::since(&held, began)];
    let loads = [sessions(&plain, &plain_site, load, options.seed), sessions(&held, &held_site, load, options.seed)];
    progress.step("warming up");
    for (sampler, load) in samplers.iter_mut().zip(&loads) {
        sampler.run("warm-up", load, options.turn, progress)?;
        sampler.samples.clear();
    }
    let snapshot = held.begin_read()?;
    let mut changed = Vec::new();
    progress.step("in turns");
    let names = ["no snapshot", "snapshot held"];
    let turn = |side: usize| {
        let turn = samplers[side].run(names[side], &loads[side], options.turn, progress)?;
        if side == 1 {
            mark_changed(&held, &held_site, &snapshot, &mut changed)?;
        }
        Ok(turn)
    };
    let decided = |turns: &[Vec<Turn>]| Found::decided(&ratios(turns, tps), &ratios(turns, sel2));
    let turns = in_turns(2, Rounds::up_to_twice(options.turns), turn, decided)?;
    let changed = changed.iter().filter(|changed| **changed).count() as u64;
    let charts = vec![
        ("Without a snapshot".to_owned(), samplers[0].charts("No snapshot", &loads[0])),
        ("With a snapshot held all the time".to_owned(), samplers[1].charts("Snapshot held", &loads[1])),
    ];
    let [a, b] = samplers.map(|s| s.samples);
    let mut sides =
        names.into_iter().zip(turns).zip([a, b]).map(|((name, turns), samples)| Side { name, turns, samples });
    let sides = [sides.next(), sides.next()].map(|side| side.expect("two sides had turns"));

    let mut document = Document::new("purge", settings_of(options, frames), Machine::this(None));
    document.title = "Updates in place beside a long snapshot".to_owned();
    document.runs = sides.iter().map(|s| document_run(s, changed)).collect();
    document.claims = claims(&found(&sides, changed, frames));
    document.figures = Figures { lead: lead(options), words: Vec::new(), grids: vec![grid(&sides, changed)], charts };
    let text = document.figures.text();
    Ok((document, text))
}

fn settings_of(options: &Options, frames: u64) -> serde_json::Value {
    json!({
        "workload": "dbSTRESS RW=1, a WRITE is one UPDATE",
        "anti_dead": "slices", "hpk": true, "same_ref": true,
        "objects": options.objects,
        "history_rows": u64::from(options.objects) * u64::from(dbstress::HISTORY_PER_OBJECT),
        "distribution": "uniform",
        "sessions": options.sessions,
        "pool_bytes": options.pool_bytes,
        "pool_pages": frames,
        "turns": options.turns,
        "turn_s": options.turn.as_secs_f64(),
        "disk": "memory",
        "seed": options.seed,
    })
}

fn lead(options: &Options) -> String {
    format!(
        "dbSTRESS, {} sessions without think time, one UPDATE in place per READ. Published in 2010 for MySQL 5.5.4: free pages fall \
         continuously until old page images own the pool, for purge does not keep up. Two databases in turns, on one of which a \
         snapshot is held from the first turn to the last.",
        options.sessions
    )
}

/// Marks the rows of HISTORY, in their order, that differ between the snapshot and the newest
/// state. Both always have the same rows.
fn mark_changed(db: &Database, site: &Site, old: &ReadTransaction, changed: &mut Vec<bool>) -> Result<()> {
    let definition = &site.tables()[Table::History.number().0];
    let new = db.begin_read()?;
    let (old, new) = (old.open_table(definition)?, new.open_table(definition)?);
    let all = (Bound::<Vec<u8>>::Unbounded, Bound::<Vec<u8>>::Unbounded);
    let bounds = (all.0.as_ref().map(Vec::as_slice), all.1.as_ref().map(Vec::as_slice));
    let (mut before, mut after) = (old.cursor(&ReadOptions::default()), new.cursor(&ReadOptions::default()));
    before.seek(bounds)?;
    after.seek(bounds)?;
    let (mut keys, mut rows) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut at = 0;
    while before.next_into(&mut keys[0], &mut rows[0])? {
        if !after.next_into(&mut keys[1], &mut rows[1])? || keys[0] != keys[1] {
            return Err(anyhow!(
                "the snapshot has other rows of HISTORY than the newest state: an UPDATE changes no key"
            ));
        }
        if at == changed.len() {
            changed.push(false);
        }
        changed[at] |= rows[0] != rows[1];
        at += 1;
    }
    Ok(())
}

fn most_versions(side: &Side) -> u64 {
    side.samples.iter().map(|s| s.versions).max().unwrap_or(0)
}

fn tps(turn: &Turn) -> Option<f64> {
    Some(turn.tps())
}

fn sel2(turn: &Turn) -> Option<f64> {
    turn.latencies.class_ms(SEL2, 99.0)
}

/// The ratios of the database with the snapshot to the other one, turn by turn.
fn ratios(turns: &[Vec<Turn>], of: fn(&Turn) -> Option<f64>) -> Vec<f64> {
    turns[0].iter().zip(&turns[1]).filter_map(|(plain, held)| Some(of(held)? / of(plain)?)).collect()
}

/// What the claims are about, on the embedded engine and on servers.
pub(crate) struct Found {
    /// The names of the subjects without and with a snapshot.
    pub names: [String; 2],
    /// The longest history of the second half of either, in seconds of WRITEs.
    pub lag_seconds: [Option<f64>; 2],
    /// The share of the pool that free pages lost without a snapshot.
    pub free_lost: Option<f64>,
    /// Throughput with a snapshot, as a share of that without, turn by turn.
    pub tps: Vec<f64>,
    /// The same of the 99th percentile of SEL2.
    pub p99: Vec<f64>,
    /// Versions kept per row that changed.
    pub versions: Option<f64>,
}

impl Found {
    pub(crate) const TPS: Bar = Bar::AtLeast(0.9);
    pub(crate) const P99: Bar = Bar::AtMost(1.2);

    /// True if more turns would not change what is said of them.
    pub(crate) fn decided(tps: &[f64], p99: &[f64]) -> bool {
        claims::decided(tps, Found::TPS) && claims::decided(p99, Found::P99)
    }
}

fn found(sides: &[Side; 2], changed: u64, frames: u64) -> Found {
    let turns = [sides[0].turns.clone(), sides[1].turns.clone()];
    Found {
        names: [sides[0].name.to_owned(), sides[1].name.to_owned()],
        lag_seconds: [sides[0].lag_seconds(), sides[1].lag_seconds()],
        free_lost: sides[0].free_lost().map(|pages| pages / frames as f64),
        tps: ratios(&turns, tps),
        p99: ratios(&turns, sel2),
        versions: (changed > 0).then(|| most_versions(&sides[1]) as f64 / changed as f64),
    }
}

/// The claims of the experiment. With a snapshot the free pages fall as long as rows change for the
/// first time; the bar on the versions covers that.
pub(crate) fn claims(found: &Found) -> Vec<Claim> {
    let lag = |side: usize| {
        let text = format!("{}: longest history of the second half, in seconds of WRITEs", found.names[side]);
        Claim::new(text, Evidence::once(found.lag_seconds[side]), Bar::AtMost(1.0))
    };
    let lost =
        format!("{}: share of the pool that free pages lost from the second quarter to the last", found.names[0]);
    let tps = "TPS with a snapshot held, as a share of that without";
    let p99 = "p99 of SEL2 on the newest data with a snapshot held, as a share of that without";
    vec![
        lag(0),
        lag(1),
        Claim::new(lost, Evidence::once(found.free_lost), Bar::AtMost(0.01)),
        Claim::new(tps, Evidence::turns(&found.tps), Found::TPS),
        Claim::new(p99, Evidence::turns(&found.p99), Found::P99),
        Claim::new("versions kept per row that changed", Evidence::counted(found.versions), Bar::AtMost(1.0)),
    ]
}

fn document_run(side: &Side, changed: u64) -> Run {
    Run {
        target: "embedded".to_owned(),
        policy: side.name.to_owned(),
        metrics: metrics(json!({
            "tps": side.figure(|t| Some(t.tps())),
            "sel2_p99_ms": side.figure(|t| t.latencies.class_ms(SEL2, 99.0)),
            "update_p99_ms": side.figure(|t| t.latencies.class_ms(UPDATE, 99.0)),
            "lag_s": side.lag_seconds(),
            "free_pages_lost": side.free_lost(),
            "versions_max": most_versions(side),
            "rows_changed": changed,
            "samples": side.samples,
        })),
    }
}

fn grid(sides: &[Side; 2], changed: u64) -> Grid {
    let header = [
        "",
        "TPS",
        "CPU us/txn",
        "SEL2 p99 ms",
        "UPDATE p99 ms",
        "longest history",
        "free pages, first",
        "free pages, last",
        "versions at most",
        "rows changed",
    ];
    let note = "Medians of turns. Rows changed: those of HISTORY that the snapshot saw otherwise than the newest state at the end of a turn.";
    let mut grid = Grid::new("Two databases in turns", 1, &header, note);
    let cell = |f: Option<Figure>| f.map_or_else(|| "-".to_owned(), |f| human(f.median));
    for side in sides {
        let free = |s: Option<&Sample>| s.map_or_else(|| "-".to_owned(), |s| human(s.free_pages as f64));
        grid.rows.push(vec![
            side.name.to_owned(),
            cell(side.figure(|t| Some(t.tps()))),
            cell(side.figure(|t| Some(t.cpu_us()))),
            cell(side.figure(|t| t.latencies.class_ms(SEL2, 99.0))),
            cell(side.figure(|t| t.latencies.class_ms(UPDATE, 99.0))),
            human(side.samples.iter().map(|s| s.history).max().unwrap_or(0) as f64),
            free(side.samples.first()),
            free(side.samples.last()),
            human(most_versions(side) as f64),
            if side.name == sides[1].name { human(changed as f64) } else { "-".to_owned() },
        ]);
    }
    grid
}
