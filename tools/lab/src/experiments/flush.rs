//! `flush`: flushing without bursts.
//!
//! dbSTRESS RW=1, 2010: MySQL 5.5.4 flushed too eagerly, never using more than half of its redo
//! log; 5.5.6 too lazily: the log ran full, a burst of flushing followed, and throughput dropped.
//! Both show in the checkpoint age. Here the age has to settle at 60 % of the capacity or above and
//! to stay there, while throughput stays even.
//!
//! 1. The log is filled: it is written round more than once, while a modelled disk is as fast as
//!    the real one.
//! 2. The model of the disk is switched on. The load, which may write much less, runs until the
//!    checkpoint follows it.
//! 3. The turns begin, which measure the age of the checkpoint and how even the seconds are.
//!
//! The embedded engine runs on the modelled disk with every capacity, then on files with the
//! smallest. There a loop of small appends with syncs runs at the same time, whose seconds show the
//! unevenness of the disk itself; no claim is made. On private servers the engines run in turns,
//! with dbSTRESS or dbt2. On a server that the user names the capacity is the server's own, and the
//! log is filled with the durability of the server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdfast_server::Cache;
use holdfast_testkit::DiskModel;
use serde_json::json;

use super::in_turns::{self, InTurns, On};
use crate::args::common::DiskArg;
use crate::args::rig::{MIB, RigArgs, Sizes};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::{Grid, Shown};
use crate::measure::{Figure, human, median, or_dash};
use crate::progress::Progress;
use crate::rig::site::{self, DiskKind, Site, described};
use crate::server::contender::Contender;
use crate::server::named::ServerWithSchema;
use crate::server::turns::cell::{Asked, Cell, Column, grid, p99, tps};
use crate::server::turns::running::There;
use crate::server::turns::side::{Data, Settings};
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::stats::Estimate;
use crate::subject::embedded::Embedded;
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};

/// The sizes of the experiment.
#[derive(Debug)]
struct Options {
    /// The workload of the sessions; its second half are WRITEs.
    workload: Workload,
    sessions: u32,
    /// Capacities of the log, in bytes.
    capacities: Vec<u64>,
    /// The time after which the age is looked at while it settles.
    settle: Duration,
    /// The modelled disk, if there is one.
    modelled: Option<DiskModel>,
}

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    let embedded = args.embedded();
    // A disk is made faster than the published one: on servers by five, as in other experiments
    // there.
    let (plan, settle, faster, mib): (_, _, _, Sizes<&[u64]>) = match embedded {
        true => {
            let plan = args.plan([1; 4], [2.0, 10.0, 30.0, 300.0]);
            let settle = Duration::from_secs_f64(args.sized([0.15, 3.0, 10.0, 120.0]));
            let faster = args.sized([100.0, 20.0, 20.0, 1.0]);
            (plan, settle, faster, [&[4], &[32, 256], &[32, 256], &[32, 256, 2048]])
        }
        false => {
            let plan = args.plan([2, 3, 4, 6], [2.2, 8.0, 15.0, 60.0]);
            let settle = plan.turn;
            (plan, settle, 5.0, [&[8], &[32], &[32, 256], &[32, 256, 2048]])
        }
    };
    let mib = if args.log_mib.is_empty() { args.sized(mib) } else { &args.log_mib };
    let modelled = embedded || args.common.disk == Some(DiskArg::Model);
    let options = Options {
        workload: args.workload([300, 10_000, 20_000, 1_000_000]),
        sessions: args.sized([2, 32, 32, 32]),
        capacities: mib.iter().map(|mib| mib * MIB).collect(),
        settle,
        modelled: modelled.then(|| DiskModel::spinning().times_as_fast(faster)),
    };
    in_turns::run(args, plan, options, progress)
}

/// The least age at which the checkpoint has to settle, as a share of the capacity.
const TARGET: f64 = 0.6;
/// Least evenness on a disk that is even itself.
const EVEN: Bar = Bar::AtLeast(0.8);
/// Least evenness on a real disk, which may be uneven itself: as a share of what InnoDB reaches.
const EVEN_OF_OTHER: Bar = Bar::AtLeast(0.95);
/// The checkpoint follows the log if the age moves within a turn by at most this share of what was
/// written. And the longest time until all sides are in that state.
const FOLLOWS: f64 = 0.25;
const SETTLING_MAX: Duration = Duration::from_secs(120);

/// One capacity on one disk.
struct Case {
    name: String,
    capacity: u64,
    /// True if the disk is modelled, and so even itself.
    modelled: bool,
    cell: Cell,
    /// True if the log was written round often enough before.
    full: bool,
}

impl InTurns for Options {
    type Measured = Vec<Case>;

    fn workload(&self) -> Workload {
        self.workload
    }

    fn settings(&self) -> Settings {
        let log_bytes = self.capacities.first().copied();
        Settings { pool_bytes: self.workload.bytes(), log_bytes, ..Settings::default() }
    }

    fn embedded(&self, plan: &Plan, progress: &mut Progress) -> Result<(Place, Vec<Embedded>, Vec<Case>)> {
        let model = DiskKind::Model(self.modelled.context("the embedded engine begins on a modelled disk")?);
        let real = plan.files();
        let smallest = self.capacities.iter().copied().min().context("no capacity")?;
        let mut disks: Vec<_> = self.capacities.iter().map(|&capacity| ("modelled disk", &model, capacity)).collect();
        disks.push(("real disk", &real, smallest));
        let tables = in_turns::tables(self.workload, plan)?;
        let (mut sides, mut cases): (Vec<Embedded>, _) = (Vec::new(), Vec::new());
        progress.plan(self.time(plan, 1) * disks.len() as u32);
        for (disk, kind, capacity) in disks {
            let name = format!("{disk}, log {} MB", capacity >> 20);
            progress.step(&name);
            progress.show("loading");
            let site = Site::load(kind, &tables, progress)?;
            let settings = site::Settings { log_bytes: Some(capacity), ..site::Settings::pool(self.workload.bytes()) };
            match sides.first_mut() {
                Some(side) => side.reopen(site, &settings)?,
                None => sides.push(Embedded::open("holdfast", site, &settings)?),
            }
            let modelled = matches!(kind, DiskKind::Model(_));
            cases.push(self.case(plan, (name, capacity, modelled), &mut sides, progress)?);
        }
        let words = format!("on the modelled disk, and on files in {}", plan.dir.display());
        Ok((Place::embedded(&words, "a sync at every commit", Some(&plan.dir)), sides, cases))
    }

    fn private<'c>(&self, cache: &'c Cache, plan: &'c Plan, progress: &mut Progress) -> Result<On<'c, Options>> {
        let mut sides = turns::sides(cache, plan)?;
        sides.iter_mut().try_for_each(|side| side.load(Data::Of(self.workload), plan.seed, progress))?;
        progress.plan(self.time(plan, sides.len()) * self.capacities.len() as u32);
        let mut cases = Vec::new();
        for &capacity in &self.capacities {
            let (log_bytes, modelled) = (Some(capacity), self.modelled);
            let settings = Settings { log_bytes, size: 1.0, modelled, ..self.settings() };
            let of = (format!("log {} MB", capacity >> 20), capacity, modelled.is_some());
            cases.push(turns::with_servers(&mut sides, &settings, |sides| self.case(plan, of, sides, progress))?);
        }
        Ok((sides, cases))
    }

    fn fit(&mut self, _: &Plan, there: &There<'_>) -> Result<Vec<String>> {
        self.capacities = vec![capacity(there.server)?];
        Ok(Vec::new())
    }

    /// With the log that the subjects have.
    fn measure<S: Subject>(&self, plan: &Plan, sides: &mut [S], progress: &mut Progress) -> Result<Vec<Case>> {
        progress.plan(self.time(plan, sides.len()));
        let cases = self.capacities.iter().map(|&capacity| (format!("log {} MB", capacity >> 20), capacity, false));
        cases.map(|of| self.case(plan, of, sides, progress)).collect()
    }

    fn words(&self, cases: &Vec<Case>) -> Vec<String> {
        cases.iter().flat_map(in_words).collect()
    }

    fn findings<S: Subject>(&self, place: Place, cases: Vec<Case>, sides: &[S]) -> Findings {
        let columns: [Column<'_>; 3] = [("TPS", &tps), ("p99 ms", &p99), ("CPU us/txn", &Turn::cpu_us)];
        let ages = age_grid(&cases, sides);
        let claims = cases.iter().flat_map(|case| case.claims(sides)).collect();
        let words = cases.iter().filter_map(Case::unfilled).collect();
        let cells: Vec<Cell> = cases.into_iter().map(|c| c.cell).collect();
        let published = "Published in 2010: MySQL 5.5.4 never used more than half of its redo log, 5.5.6 let it run full, and TPS dropped with every \
                         burst of flushing. Target here: the checkpoint age settles at 60 % of the capacity or above.";
        let active_set = self.workload.bytes();
        let mode = self.workload.modes().last().map_or("", |mode| mode.0);
        let pool_bytes = place.pool_bytes.unwrap_or(active_set);
        Findings {
            name: ("flush", "Flushing without bursts"),
            place,
            lead: (format!("{}, {mode}, {} sessions", self.workload.name(), self.sessions), published.to_owned()),
            words,
            settings: self.workload.settings(json!({
                "mode": mode,
                "sessions": self.sessions,
                "log_capacities_mib": self.capacities.iter().map(|c| c >> 20).collect::<Vec<_>>(),
                "pool_bytes": pool_bytes,
                "active_set_of_pool": active_set as f64 / pool_bytes as f64,
                "settle_s": self.settle.as_secs_f64(),
                "disk": described(self.modelled),
            })),
            grids: vec![ages, grid("Throughput", &[""], sides, &columns, &cells)],
            charts: turns::charts(sides),
            claims,
            cells,
        }
    }
}

impl Options {
    /// The time of a case with so many sides, without filling the log, if the age settles at once.
    fn time(&self, plan: &Plan, sides: usize) -> Duration {
        self.settle * sides as u32 + plan.cell(sides)
    }

    /// Fills the log of all sides, lets the age settle, and measures them.
    fn case<S: Subject>(
        &self,
        plan: &Plan,
        (name, capacity, modelled): (String, u64, bool),
        sides: &mut [S],
        progress: &mut Progress,
    ) -> Result<Case> {
        let work = sides[0].work(self.workload, self.sessions, 1, plan.seed)?;
        let mut full = true;
        for side in sides.iter_mut() {
            progress.step(&format!("{name}: filling it, {}", side.name()));
            full &= side.fill_log(&work, TARGET * capacity as f64, progress)?;
        }
        settle(sides, &work, self.settle, progress)?;
        sides.iter_mut().try_for_each(S::sync_beside)?;
        let cell = Cell::measure(Asked { name: &[&name], judged: &[] }, sides, &work, plan, progress)?;
        Ok(Case { name, capacity, modelled, cell, full })
    }
}

/// Lets the load run, without counting, until the checkpoint follows it: filling, which writes many
/// times as much, leaves the age elsewhere. In rounds, so that the sides have the same random
/// numbers in the measured turns too.
fn settle<S: Subject>(sides: &mut [S], work: &S::Work, turn: Duration, progress: &mut Progress) -> Result<()> {
    let (began, mut follow) = (Instant::now(), false);
    while !follow && began.elapsed() < SETTLING_MAX {
        follow = true;
        for side in sides.iter_mut() {
            follow &= follows(&side.warm_up(work, turn, progress)?);
        }
    }
    progress.did(turn * sides.len() as u32);
    Ok(())
}

/// True if the checkpoint followed the log in a turn, or if the subject reports no age.
fn follows(turn: &Turn) -> bool {
    let ages = turn.series(Meter::Age);
    let moved = ages.first().zip(ages.last()).map_or(0.0, |(from, to)| (to - from).abs());
    moved <= FOLLOWS * turn.values[Meter::Log as usize].unwrap_or(0.0) * turn.seconds
}

/// The capacity of a server's redo log, in bytes.
pub(super) fn capacity(server: &ServerWithSchema) -> Result<u64> {
    let told = |name| server.before.variable(name);
    let bytes = match server.contender {
        Contender::Holdfast => told("holdfast_log_file_size"),
        Contender::MyRocks => None,
        Contender::InnoDb { .. } | Contender::Released(_) => told("innodb_redo_log_capacity")
            .or_else(|| Some(told("innodb_log_file_size")? * told("innodb_log_files_in_group").unwrap_or(1.0))),
    };
    Ok(bytes.context("the server does not say how large its redo log is")? as u64)
}

/// Shares of the capacity: above the first writers are about to wait, below the second the log is
/// larger than flushing uses.
const NEARLY_FULL: f64 = 0.8;
const LITTLE_USED: f64 = 0.3;

/// Sentences on age and throughput, and what they mean.
fn in_words(case: &Case) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(age) = Figure::of(&case.ages(0)) {
        let used = format!(
            "The checkpoint was {:.0} % of the log's {} MB behind in the median, {:.0} % at most",
            age.median * 100.0,
            case.capacity >> 20,
            age.max * 100.0
        );
        words.push(if age.max > NEARLY_FULL {
            format!("{used}: writers wait for pages to be flushed. A larger log or a higher innodb_io_capacity avoids that.")
        } else if age.median < LITTLE_USED {
            format!("{used}: a large part of the log is never used, and pages are written more often than they would have to be.")
        } else {
            format!("{used}.")
        });
    }
    if let Some(even) = evenness(&case.seconds(0, Meter::Commits)) {
        let dips = case.dips(0).unwrap_or(0.0);
        let quiet = if dips > 0.0 {
            format!("in {dips:.0} seconds throughput dropped by a fifth while the age fell: flushing comes in bursts")
        } else {
            "no drop of throughput coincided with a fall of the age".to_owned()
        };
        words.push(format!(
            "The 5th percentile of the seconds' throughput is {:.0} % of the median; {quiet}.",
            even * 100.0
        ));
    }
    words
}

/// The largest distance of the age from its median, as a share of the median.
fn swing(age: Figure) -> f64 {
    (age.max - age.median).max(age.median - age.min) / age.median
}

/// The seconds in which throughput was a fifth below `median` while the age fell by a fiftieth of
/// the capacity.
fn dips(tps: &[f64], ages: &[f64], median: f64, capacity: u64) -> usize {
    let fell = ages.windows(2).map(|w| w[0] - w[1] > capacity as f64 / 50.0);
    fell.zip(&tps[1.min(tps.len())..]).filter(|(fell, tps)| *fell && **tps < 0.8 * median).count()
}

/// The 5th percentile of the seconds, as a share of their median.
fn evenness(seconds: &[f64]) -> Option<f64> {
    let median = median(seconds)?;
    let mut sorted = seconds.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted[sorted.len() * 5 / 100] / median)
}

impl Case {
    /// The values of a meter in the seconds of a side.
    fn seconds(&self, side: usize, meter: Meter) -> Vec<f64> {
        self.cell.turns[side].iter().flat_map(|turn| turn.series(meter)).collect()
    }

    /// The age of the checkpoint, as a share of the capacity.
    fn ages(&self, side: usize) -> Vec<f64> {
        self.seconds(side, Meter::Age).iter().map(|age| age / self.capacity as f64).collect()
    }

    /// The seconds in which throughput dipped while the age fell, turn by turn.
    fn dips(&self, side: usize) -> Option<f64> {
        let median = median(&self.seconds(side, Meter::Commits))?;
        let of = |turn: &Turn| dips(&turn.series(Meter::Commits), &turn.series(Meter::Age), median, self.capacity);
        Some(self.cell.turns[side].iter().map(of).sum::<usize>() as f64)
    }

    /// The sentence on a log that was not filled in the time there is for it.
    fn unfilled(&self) -> Option<String> {
        (!self.full).then(|| {
            format!(
                "{}: the log was not written round often enough before, so nothing is claimed of it. Flushing may not \
                 be what it is after a longer time.",
                self.name
            )
        })
    }

    /// Claims about Holdfast. Evenness has a bar of its own on the modelled disk, and is compared
    /// with the others on a real one, which may be uneven itself. None are made with a log that was
    /// not filled: the age is what was written so far, whatever flushing does.
    fn claims(&self, sides: &[impl Subject]) -> Vec<Claim> {
        if !self.full {
            return Vec::new();
        }
        let claim = |text: &str, of, bar| Claim::new(format!("{}: {text}", self.name), of, bar);
        let (ages, ours) = (self.ages(0), self.seconds(0, Meter::Commits));
        if !self.seconds(0, Meter::Syncs).is_empty() {
            return Vec::new();
        }
        let farthest = Evidence::once(Figure::of(&ages).map(swing));
        let mut claims = vec![
            claim(
                "checkpoint age, as a share of the capacity",
                Evidence::seconds(Estimate::of(&ages)),
                Bar::AtLeast(TARGET),
            ),
            claim("farthest that the age is from its median", farthest, Bar::AtMost(0.1)),
            claim("seconds in which TPS dips while the age falls", Evidence::once(self.dips(0)), Bar::Exactly(0.0)),
        ];
        if self.modelled {
            let even = Estimate::by(&[&ours], ours.len(), &|parts| evenness(&parts[0]));
            let text = "5th percentile of one-second TPS, as a share of the median";
            claims.push(claim(text, Evidence::seconds(even), EVEN));
            return claims;
        }
        for (other, side) in sides.iter().enumerate().skip(1) {
            let ratio = |parts: &mut [Vec<f64>]| Some(evenness(&parts[0])? / evenness(&parts[1])?);
            let ratio = Estimate::by(&[&ours, &self.seconds(other, Meter::Commits)], ours.len(), &ratio);
            let name = side.name();
            let text = format!("5th percentile of one-second TPS as a share of the median, relative to {name}'s");
            claims.push(claim(&text, Evidence::estimate(ratio), EVEN_OF_OTHER));
        }
        claims
    }
}

fn age_grid(cases: &[Case], sides: &[impl Subject]) -> Grid {
    let note = "One-second samples of the turns, after the log was filled and the checkpoint follows it. Swing: the farthest that the age is from its median, as a share of that. \
                Dips: seconds with a fifth less TPS than the median while the age fell. Syncs: a loop of appends of 512 bytes with a sync each, at the same time on the same disk.";
    type Row<'c> = (&'c Case, usize);
    let rows: Vec<Row<'_>> = cases.iter().flat_map(|case| (0..sides.len()).map(move |side| (case, side))).collect();
    let two = |v: Option<f64>| or_dash(v, |v| format!("{v:.2}"));
    let whole = |v: Option<f64>| or_dash(v, human);
    let seconds = |(case, side): &Row<'_>, meter| case.seconds(*side, meter);
    let age = |(case, side): &Row<'_>| Figure::of(&case.ages(*side));
    let columns: [Shown<'_, Row<'_>>; 12] = [
        ("", &|r| r.0.name.clone()),
        ("", &|r| sides[r.1].name().to_owned()),
        ("TPS", &|r| whole(median(&seconds(r, Meter::Commits)))),
        ("5th pct of median", &|r| two(evenness(&seconds(r, Meter::Commits)))),
        ("age of capacity", &|r| two(age(r).map(|a| a.median))),
        ("least", &|r| two(age(r).map(|a| a.min))),
        ("swing", &|r| two(age(r).map(swing))),
        ("dips", &|r| whole(age(r).and(r.0.dips(r.1)))),
        ("log MB/s", &|r| two(median(&seconds(r, Meter::Log)).map(|b| b / 1e6))),
        ("pages written/s", &|r| whole(median(&seconds(r, Meter::Writes)))),
        ("syncs/s beside", &|r| whole(median(&seconds(r, Meter::Syncs)))),
        ("5th pct of median", &|r| two(evenness(&seconds(r, Meter::Syncs)))),
    ];
    Grid::of("Checkpoint age and evenness", 2, &rows, &columns, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_is_the_fifth_percentile_of_the_median() {
        let mut seconds = vec![100.0; 99];
        seconds.push(1.0);
        assert_eq!(evenness(&seconds), Some(1.0));
        assert_eq!(evenness(&[10.0, 100.0, 100.0]), Some(0.1));
        assert_eq!(evenness(&[]), None);
    }

    /// On a quiet machine its age, which is below the bar since little was written, *failed*.
    #[test]
    fn nothing_is_claimed_of_a_log_that_was_not_filled() {
        let case = |full| Case {
            name: "log 2048 MB".to_owned(),
            capacity: 2048 << 20,
            modelled: true,
            cell: Cell { name: Vec::new(), turns: vec![Vec::new()], memory_mb: Vec::new(), counted: Vec::new() },
            full,
        };
        let none: &[Embedded] = &[];
        assert!(!case(true).claims(none).is_empty() && case(true).unfilled().is_none());
        assert!(case(false).claims(none).is_empty() && case(false).unfilled().is_some());
    }
}
