//! `soak`: everything at once, for a long time.
//!
//! dbSTRESS RW=1 on files runs together with a dump of the largest table in a loop, tables that are
//! created, loaded, renamed and dropped, snapshots that are held for a while, and a pool that grows
//! and shrinks. The faults that it looks for are slow: memory that is not freed, files that grow
//! without the data growing, latencies that rise, a row that a dump misses. So the last quarter of
//! the run is compared with the second, and at the end everything is checked.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use holdfast::{Database, Finding, VerifyOptions};
use holdfast_workload::dbstress::{self, Table};
use holdfast_workload::{Rows, Scan, TableNo};
use serde_json::json;

use crate::args::rig::{MIB, RigArgs};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::figures::Grid;
use crate::measure::{human, median, or_dash};
use crate::progress::Progress;
use crate::rig::memory;
use crate::rig::sampler::Sampler;
use crate::rig::sessions::Sessions;
use crate::rig::site::{Settings, Site};
use crate::rig::tables::{dbstress_tables, definition};
use crate::server::turns::cell::Cell;
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::stats::{Estimate, middle};
use crate::subject::meters::Meter;
use crate::subject::turn::{Second, Series, Turn};
use crate::target::embedded::EmbeddedRows;

/// The sizes of the experiment.
#[derive(Debug)]
struct Options {
    /// One turn, and the seed.
    plan: Plan,
    /// OBJECTs; HISTORY has 20 rows for each.
    objects: u32,
    sessions: u32,
    /// The pool; it grows to twice that and back.
    pool_bytes: u64,
}

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    let options = Options {
        plan: args.plan([1; 4], [5.0, 40.0, 300.0, 1800.0]),
        objects: args.sized([1_000, 10_000, 20_000, 20_000]),
        sessions: args.sized([2, 16, 16, 16]),
        pool_bytes: args.sized([8, 16, 32, 32]) * MIB,
    };
    everything(&options, progress)
}

/// Rows of the tables that are created and dropped.
const PASSING_ROWS: u32 = 2000;
/// The time for which a snapshot is held, and a size of the pool kept.
const HELD: Duration = Duration::from_secs(2);

/// The counts of the jobs beside the load.
#[derive(Default)]
struct Done {
    dumps: AtomicU64,
    missing_rows: AtomicU64,
    tables: AtomicU64,
    snapshots: AtomicU64,
    resizes: AtomicU64,
}

/// The common inputs of the jobs.
#[derive(Clone, Copy)]
struct Scene<'a> {
    db: &'a Database,
    site: &'a Site,
    options: &'a Options,
    done: &'a Done,
}

/// What is wrong can be looked at afterwards: the data of a run that fails or finds something is
/// kept.
fn everything(options: &Options, progress: &mut Progress) -> Result<Document> {
    let load = dbstress::Options::light(options.objects, options.sessions, 1);
    progress.step("loading");
    progress.show(&format!("{} objects", options.objects));
    let kind = options.plan.files();
    let mut site = Site::load(&kind, &dbstress_tables(load, options.plan.seed), progress)?;
    let outcome = match measure(options, load, &site, progress) {
        Ok(outcome) => outcome,
        Err(error) => return Err(error.context(format!("the data is kept in {}", kept(&mut site)))),
    };
    let mut words = outcome.findings_in_words();
    if outcome.is_wrong() {
        words.push(format!("The data is kept in {}.", kept(&mut site)));
    }
    let mut series = Series::new("holdfast");
    series.add("soak", &outcome.turn);
    let sides = [series];
    Ok(findings(options, outcome, words, &sides).report(&options.plan, &sides))
}

/// Keeps the data, and says where it is.
fn kept(site: &mut Site) -> String {
    site.keep().map_or_else(|| "no directory".to_owned(), |dir| dir.display().to_string())
}

fn measure(options: &Options, load: dbstress::Options, site: &Site, progress: &mut Progress) -> Result<Outcome> {
    let db = site.open(&Settings::pool(options.pool_bytes))?;
    let done = Done::default();
    let mut load = Sessions::DbStress(load).load(&db, site, options.plan.seed, 1)?;
    let mut sampler = Sampler::new(&db);
    progress.plan(options.plan.turn);
    progress.step("everything at once");
    let scene = Scene { db: &db, site, options, done: &done };
    let dir = site.path().context("a real disk has a directory")?;
    let turn = beside(scene, |goes_on| {
        sampler.run("soak", &mut load, options.plan.turn, progress, &mut |second| {
            second.values[Meter::Memory as usize] = Some(memory::resident_bytes(None)? as f64);
            second.values[Meter::Files as usize] = Some(file_bytes(dir)? as f64);
            goes_on()
        })
    })?;
    let log_bytes = db.stats().log.capacity_bytes as f64;
    drop((sampler, load));
    progress.did(options.plan.turn);
    progress.step("checking every page, row and entry");
    let report = db.verify(&VerifyOptions::default(), &mut |at| {
        progress.show_part((at.pages_done, at.pages_total), "pages");
    })?;
    // What was left out may be wrong.
    let findings = report.findings.iter().chain(report.unchecked()).cloned().collect();
    db.close()?;
    Ok(Outcome { turn, log_bytes, findings, done })
}

/// Runs `load` together with all jobs. The first failure ends all of them: the load asks once a
/// second whether it goes on.
fn beside(scene: Scene<'_>, load: impl FnOnce(&dyn Fn() -> Result<()>) -> Result<Turn>) -> Result<Turn> {
    let jobs: [fn(Scene<'_>, &Pace) -> Result<()>; 4] = [dump, tables_come_and_go, snapshots, resize];
    std::thread::scope(|scope| {
        let mut stops = Vec::new();
        let mut pace = || {
            let (stop, stopped) = channel();
            stops.push(stop);
            Pace(stopped)
        };
        let running: Vec<_> = jobs
            .map(|job| (job, pace()))
            .into_iter()
            .map(|(job, pace)| scope.spawn(move || job(scene, &pace)))
            .collect();
        // Without a failure they end only when they are stopped.
        let goes_on = || {
            let ended = running.iter().any(ScopedJoinHandle::is_finished);
            ensure!(!ended, "a job beside the load has ended");
            Ok(())
        };
        let turn = load(&goes_on);
        drop::<Vec<Sender<()>>>(stops);
        let mut failure = Ok(());
        for job in running {
            failure = failure.and(job.join().unwrap_or_else(|_| Err(anyhow!("a job beside the load panicked"))));
        }
        failure?;
        turn
    })
}

/// Tells a job when to end.
struct Pace(Receiver<()>);

impl Pace {
    /// Waits. True if the job goes on.
    fn wait(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}

fn history() -> TableNo {
    Table::History.number()
}

/// Reads HISTORY from end to end. UPDATEs do not change the number of rows.
fn dump(scene: Scene<'_>, pace: &Pace) -> Result<()> {
    let all = u64::from(scene.options.objects) * u64::from(dbstress::HISTORY_PER_OBJECT);
    let mut rows = EmbeddedRows::new(scene.db, scene.site.tables());
    while pace.wait(Duration::ZERO) {
        let mut seen = Seen::default();
        let mut sink = |key: &[u8], _: &[u8]| {
            seen.row(key);
            Ok(true)
        };
        rows.begin(true).map_err(|f| anyhow!("the dump: {f}"))?;
        rows.range(history(), None, None, Scan::Declared, &mut sink).map_err(|f| anyhow!("the dump: {f}"))?;
        rows.commit().map_err(|f| anyhow!("the dump: {f}"))?;
        scene.done.dumps.fetch_add(1, Ordering::Relaxed);
        scene.done.missing_rows.fetch_add(seen.wrong(all), Ordering::Relaxed);
    }
    Ok(())
}

/// What a dump has seen.
#[derive(Default)]
struct Seen {
    rows: u64,
    /// Rows that do not come behind the one before: seen already, or in no order.
    again: u64,
    last: Vec<u8>,
}

impl Seen {
    fn row(&mut self, key: &[u8]) {
        self.again += u64::from(self.rows > 0 && key <= self.last.as_slice());
        self.rows += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// Of `all` rows, those that were missed, or seen twice.
    fn wrong(&self, all: u64) -> u64 {
        all.abs_diff(self.rows - self.again) + self.again
    }
}

/// Creates a table with its rows, renames it, and drops it.
fn tables_come_and_go(scene: Scene<'_>, pace: &Pace) -> Result<()> {
    let row = [7; 100];
    while pace.wait(Duration::from_millis(50)) {
        scene.db.create_table_with(&definition("passing", false), |loader| {
            (0..PASSING_ROWS).try_for_each(|n| loader.push(n.to_be_bytes().as_slice(), row.as_slice()))
        })?;
        scene.db.rename_table("passing", "gone")?;
        scene.db.drop_table("gone")?;
        scene.done.tables.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Holds old versions for a while, then releases them.
fn snapshots(scene: Scene<'_>, pace: &Pace) -> Result<()> {
    loop {
        let snapshot = scene.db.begin_read()?;
        let goes_on = pace.wait(HELD);
        drop(snapshot);
        scene.done.snapshots.fetch_add(1, Ordering::Relaxed);
        if !goes_on {
            return Ok(());
        }
    }
}

/// Grows and shrinks the pool. In the end it has its first size.
fn resize(scene: Scene<'_>, pace: &Pace) -> Result<()> {
    let sizes = [3, 4, 3, 2].map(|halves| scene.options.pool_bytes / 2 * halves);
    for &bytes in sizes.iter().cycle() {
        if !pace.wait(HELD) {
            break;
        }
        scene.db.set_cache_size_bytes(bytes)?;
        scene.done.resizes.fetch_add(1, Ordering::Relaxed);
    }
    Ok(scene.db.set_cache_size_bytes(scene.options.pool_bytes)?)
}

/// The bytes of the files in `dir`. Files may be removed while they are counted.
fn file_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    Ok(entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.blocks() * 512).sum())
}

struct Outcome {
    turn: Turn,
    /// The log's capacity.
    log_bytes: f64,
    findings: Vec<Finding>,
    done: Done,
}

/// The longest history, in seconds of WRITEs, with which purge keeps up.
const LAG: Bar = Bar::AtMost(1.0);
/// The highest age of the checkpoint: flushing keeps it a little above 60 %.
const AGE: Bar = Bar::AtMost(0.66);

/// The 99th percentile of a second, in milliseconds: all of it if no transaction ended, for all
/// sessions waited.
fn p99_of(second: &Second) -> Option<f64> {
    let [tps, p99_ms] = [Meter::Commits, Meter::P99].map(|meter| second.values[meter as usize]);
    if tps.is_some_and(|tps| tps > 0.0) { p99_ms } else { Some(1000.0 * second.length) }
}

/// So many findings are told of.
const TOLD: usize = 10;

/// The median of the last quarter divided by that of the second.
fn trend(values: &[f64]) -> Option<f64> {
    let [second, last] = quarters(values).map(median);
    Some(last? / second?)
}

/// The last quarter of the seconds.
fn of_last(values: &[f64]) -> Evidence {
    let [_, last] = quarters(values);
    Estimate::of(last).map_or_else(|| Evidence::once(last.last().copied()), Evidence::Seconds)
}

/// The second quarter and the last.
fn quarters(values: &[f64]) -> [&[f64]; 2] {
    let n = values.len();
    [&values[n / 4..n / 2], &values[n * 3 / 4..]]
}

impl Outcome {
    /// The 99th percentile of each second, in milliseconds.
    fn p99(&self) -> Vec<f64> {
        self.turn.each.iter().filter_map(p99_of).collect()
    }

    /// The history as the time in which as many WRITEs happen, of which there is one per READ.
    fn lag(&self) -> Vec<f64> {
        self.turn.series(Meter::History).iter().map(|length| length / (self.turn.tps() / 2.0).max(1.0)).collect()
    }

    /// The age of the checkpoint, as a share of the log's capacity.
    fn ages(&self) -> Vec<f64> {
        self.turn.series(Meter::Age).iter().map(|age| age / self.log_bytes).collect()
    }

    /// True if a dump missed rows, or the check found something.
    fn is_wrong(&self) -> bool {
        !self.findings.is_empty() || self.done.missing_rows.load(Ordering::Relaxed) > 0
    }

    fn findings_in_words(&self) -> Vec<String> {
        let told = self.findings.iter().take(TOLD);
        told.map(|finding| format!("The check found in {}: {}", finding.table, finding.what)).collect()
    }

    fn claims(&self) -> Vec<Claim> {
        // A run without a dump has seen nothing of them.
        let has_dumped = self.done.dumps.load(Ordering::Relaxed) > 0;
        let missing = has_dumped.then(|| self.done.missing_rows.load(Ordering::Relaxed) as f64);
        let last = |what: &str| format!("{what}, the last quarter as a share of the second");
        let grown = |meter| Evidence::once(trend(&self.turn.series(meter)));
        let p99 = self.p99();
        let [second, quarter] = quarters(&p99);
        let ratio = |parts: &mut [Vec<f64>]| Some(middle(&parts[1])? / middle(&parts[0])?);
        let trend_of_p99 = Estimate::by(&[second, quarter], quarter.len(), &ratio);
        vec![
            Claim::new(last("memory of the process"), grown(Meter::Memory), Bar::AtMost(1.05)),
            Claim::new(last("size of the files"), grown(Meter::Files), Bar::AtMost(1.05)),
            Claim::new(
                last("99th percentile of a transaction"),
                trend_of_p99.map_or_else(|| Evidence::once(trend(&p99)), Evidence::Seconds),
                Bar::AtMost(1.1),
            ),
            Claim::new("length of the history in the last quarter, in seconds of WRITEs", of_last(&self.lag()), LAG),
            Claim::new(
                "age of the checkpoint in the last quarter, as a share of the log's capacity",
                of_last(&self.ages()),
                AGE,
            ),
            Claim::new("rows that a dump missed or saw twice", Evidence::counted(missing), Bar::Exactly(0.0)),
            Claim::new(
                "findings of a check of everything",
                Evidence::Counted(self.findings.len() as f64),
                Bar::Exactly(0.0),
            ),
        ]
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new("What was done", 1, &["", ""], "");
        let count = |n: &AtomicU64| human(n.load(Ordering::Relaxed) as f64);
        let middle = |values: &[f64]| or_dash(median(values), human);
        let mb = |meter| or_dash(median(&self.turn.series(meter)), |bytes| human(bytes / 1e6));
        let rows = [
            ("transactions", human(self.turn.transactions)),
            ("transactions per second", human(self.turn.tps())),
            ("99th percentile of a second, ms", middle(&self.p99())),
            ("history, transactions", middle(&self.turn.series(Meter::History))),
            ("age of the checkpoint, of the log's capacity", middle(&self.ages())),
            ("dumps of HISTORY", count(&self.done.dumps)),
            ("tables made, loaded, renamed, dropped", count(&self.done.tables)),
            ("snapshots held", count(&self.done.snapshots)),
            ("sizes of the pool", count(&self.done.resizes)),
            ("memory, MB", mb(Meter::Memory)),
            ("files, MB", mb(Meter::Files)),
        ];
        grid.rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        grid
    }

    /// The only cell, with what a document has of the jobs.
    fn cell(self) -> Cell {
        let counted = json!({
            "transactions": self.turn.transactions,
            "dumps": self.done.dumps.load(Ordering::Relaxed),
            "tables": self.done.tables.load(Ordering::Relaxed),
            "snapshots": self.done.snapshots.load(Ordering::Relaxed),
            "resizes": self.done.resizes.load(Ordering::Relaxed),
            "findings": self.findings.len(),
        });
        Cell {
            name: vec!["soak".to_owned()],
            turns: vec![vec![self.turn]],
            memory_mb: vec![None],
            counted: vec![counted],
        }
    }
}

fn findings(options: &Options, outcome: Outcome, words: Vec<String>, sides: &[Series]) -> Findings {
    let what = format!(
        "dbSTRESS RW=1, {} sessions; beside it a dump in a loop, tables that come and go, snapshots, and a pool between one and two times its size, \
         for {:.0} seconds",
        options.sessions,
        options.plan.turn.as_secs_f64()
    );
    let judged = "The last quarter of the run is compared with the second.".to_owned();
    let place = format!("on files in {}", options.plan.dir.display());
    Findings {
        name: ("soak", "Everything at once, for a long time"),
        place: Place::embedded(&place, "a sync at every commit", Some(&options.plan.dir)),
        lead: (what, judged),
        words,
        settings: Workload::DbStress { objects: options.objects }.settings(json!({
            "workload": "dbSTRESS RW=1, a WRITE is one UPDATE",
            "sessions": options.sessions,
            "pool_bytes": options.pool_bytes,
        })),
        grids: vec![outcome.grid()],
        charts: turns::charts(sides),
        claims: outcome.claims(),
        cells: vec![outcome.cell()],
    }
}

#[cfg(test)]
mod tests {
    use holdfast::FlushMethod;

    use super::*;
    use crate::claims::Answer;
    use crate::conditions::Conditions;
    use crate::rig::site::{DiskKind, data_in};

    /// Their number alone is right.
    #[test]
    fn a_row_that_is_seen_twice_does_not_make_up_for_one_that_is_missed() {
        let wrong = |keys: &[u8]| {
            let mut seen = Seen::default();
            keys.iter().for_each(|key| seen.row(&[*key]));
            seen.wrong(3)
        };
        assert_eq!(wrong(&[1, 2, 3]), 0);
        assert_eq!(wrong(&[1, 1, 3]), 2, "the second is missed, the first seen twice");
        assert_eq!(wrong(&[1, 3]), 1);
        assert_eq!(wrong(&[0, 1, 2, 3]), 1);
    }

    /// The load went on to its end, half an hour with `--full`, and the failure was told then.
    #[test]
    fn the_first_failure_of_a_job_ends_the_load() {
        let dir = tempfile::tempdir().unwrap();
        let kind = DiskKind::Real { dir: dir.path().to_owned(), method: FlushMethod::Fsync };
        let site = Site::load(&kind, &dbstress_tables(dbstress::Options::light(10, 1, 1), 1), &mut Progress::hidden())
            .unwrap();
        let options = Options { plan: Plan::default(), objects: 10, sessions: 1, pool_bytes: 8 << 20 };
        let db = site.open(&Settings::pool(options.pool_bytes)).unwrap();
        db.create_table(&definition("passing", false)).unwrap();
        let scene = Scene { db: &db, site: &site, options: &options, done: &Done::default() };
        let load = |goes_on: &dyn Fn() -> Result<()>| -> Result<Turn> {
            loop {
                goes_on()?;
                std::thread::yield_now();
            }
        };
        let error = beside(scene, load).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "table `passing` exists already");
    }

    /// Its data was removed, and of the findings their number was told.
    #[test]
    fn the_data_of_a_run_that_fails_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { dir: dir.path().to_owned(), ..Plan::default() };
        let options = Options { plan, objects: 10, sessions: 1, pool_bytes: 1 };
        let error = everything(&options, &mut Progress::hidden()).unwrap_err();
        let kept = data_in(dir.path());
        assert_eq!(kept.len(), 1);
        assert_eq!(error.to_string(), format!("the data is kept in {}", kept[0].display()));
        assert!(kept[0].join("data.hf").is_dir());
    }

    /// A run of a second with that many transactions, in which nothing else was measured.
    fn outcome(transactions: f64) -> Outcome {
        Outcome {
            turn: Turn { seconds: 1.0, transactions, cpu_seconds: Some(1.0), ..Turn::default() },
            log_bytes: 1.0,
            findings: Vec::new(),
            done: Done::default(),
        }
    }

    #[test]
    fn a_history_that_grows_and_a_log_that_fills_fail() {
        let judged = |history: f64, age: f64| {
            let second = |share: f64| {
                let mut second = Second::default();
                second.values[Meter::History as usize] = Some(history * share);
                second.values[Meter::Age as usize] = Some(age * share);
                second
            };
            let mut outcome = outcome(200.0);
            outcome.turn.each = vec![second(0.01); 30];
            outcome.turn.each.extend((0..10).map(|n| second(1.0 + f64::from(n) / 1e4)));
            let claims = outcome.claims();
            let of = |word: &str| claims.iter().find(|claim| claim.text.contains(word)).unwrap();
            ["history", "checkpoint"].map(|word| of(word).judge(&Conditions::quiet_machine()).answer)
        };
        assert_eq!(judged(50.0, 0.61), [Answer::Holds; 2]);
        assert_eq!(judged(300.0, 0.7), [Answer::Fails; 2]);
    }

    #[test]
    fn a_run_whose_dump_missed_a_row_is_wrong() {
        let outcome = outcome(1.0);
        assert!(!outcome.is_wrong() && outcome.findings_in_words().is_empty());
        outcome.done.missing_rows.store(1, Ordering::Relaxed);
        assert!(outcome.is_wrong());
    }

    /// Seconds in which the engine stood still were left out, and it *held* that latencies stay.
    #[test]
    fn a_second_without_a_transaction_is_a_long_one() {
        let of = |tps, p99_ms| {
            let mut second = Second { length: 2.0, ..Second::default() };
            (second.values[Meter::Commits as usize], second.values[Meter::P99 as usize]) = (Some(tps), p99_ms);
            p99_of(&second)
        };
        assert_eq!(of(100.0, Some(0.5)), Some(0.5));
        assert_eq!(of(0.0, None), Some(2000.0));
        assert_eq!(of(1.0, None), None, "a session that was about to record its time");
    }

    #[test]
    fn a_trend_is_the_last_quarter_against_the_second() {
        assert_eq!(trend(&[9.0, 2.0, 7.0, 3.0]), Some(1.5));
        assert_eq!(trend(&[]), None);
    }
}
