//! `scan`: one report query over a big table between small queries.
//!
//! Published in 2009 on InnoDB plugin 1.0.5: pool 20 MB, dbt2's `new_order` (9 MB) and `stock` (125
//! MB). `SELECT SUM(no_w_id) FROM new_order` takes 0.18 s cold and 0.02 s again. After one `SELECT
//! SUM(s_quantity) FROM stock WHERE s_data LIKE 'a%'` it takes 0.20 s with `old_blocks_pct=90,
//! old_blocks_time=0`: the table was evicted. With `pct=5, time=5` it stays at 0.02 s. Too long a
//! time is bad too: pages are evicted before they can become young.
//!
//! The sequence is run for those two settings; for the default `pct` with a delay that no page
//! outlives, where each scan evicts more of what is behind the midpoint; and for Holdfast with all
//! defaults. No query declares a scan. The judged figure is the share of `new_order`'s pages that
//! the small query reads again after the scan. It does not depend on the machine; the times are in
//! the table. After every query the monitor's lines are printed, with rates over the query's time,
//! as InnoDB prints them.
//!
//! The sizes are small enough to be run as published. Quick mode divides tables and pool by 2 and
//! makes the disk twice as fast. `old_blocks_time` stays, since it only has to be between the time
//! of a leaf and the time between two small queries.

pub(crate) mod servers;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use holdfast_testkit::DiskModel;
use serde::Serialize;
use serde_json::{Value, json};

use crate::claims::{self, Bar, Claim, Evidence};
use crate::document::{Document, Run};
use crate::figures::{Chart, Figures, Form, Grid, Line, Listing, Shown};
use crate::machine::Machine;
use crate::measure::{Figure, human, or_dash, per_second};
use crate::pin::{Cores, Role};
use crate::progress::Progress;
use crate::target::{
    Content, EMBEDDED, EmbeddedSite, Hint, Policy, PoolState, Query, Site, TableSpec, Target, TargetSpec, described,
    disk,
};
use crate::turns::{self, Rounds};

/// The small table.
pub const SMALL: &str = "new_order";
/// The big one.
pub const BIG: &str = "stock";
/// An `old_blocks_time` that no page outlives, in milliseconds.
const TOO_LONG_MS: u32 = 60_000;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Divisor of the sizes.
    pub factor: f64,
    /// Warehouses whose `new_order` takes up to 9 MB, before it is divided.
    pub new_order_warehouses: f64,
    /// Times that scan and small query are repeated.
    pub repetitions: usize,
    /// Directory of the real disk; `None` for the modelled one.
    pub real_disk: Option<PathBuf>,
    /// Cores.
    pub cores: Cores,
    /// Seed of the data.
    pub seed: u64,
}

impl Options {
    /// The pool: 20 MB.
    pub fn pool_bytes(&self) -> u64 {
        (((20u64 << 20) as f64 / self.factor) as u64).max(5 << 20)
    }

    /// Warehouses of `new_order`.
    pub fn small_warehouses(&self) -> u32 {
        (self.new_order_warehouses / self.factor).round().max(1.0) as u32
    }

    /// Warehouses whose `stock` takes 125 to 140 MB.
    pub fn big_warehouses(&self) -> u32 {
        (4.0 / self.factor).round().max(1.0) as u32
    }

    fn disk(&self) -> DiskModel {
        DiskModel::spinning().times_as_fast(self.factor)
    }

    fn settings(&self) -> Value {
        json!({
            "factor": self.factor,
            "pool_bytes": self.pool_bytes(),
            "new_order_warehouses": self.small_warehouses(),
            "stock_warehouses": self.big_warehouses(),
            "repetitions": self.repetitions,
            "disk": described(self.real_disk.is_none().then(|| self.disk())),
            "pinned": self.cores.pins(),
            "seed": self.seed,
        })
    }
}

/// A policy with the claim about it.
struct Case {
    policy: Policy,
    about: &'static str,
    /// The scan after which it is judged.
    when: When,
    /// Bar on the share of the small table's pages that are read again after the scan.
    bar: Bar,
}

/// One of the repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    First,
    Last,
    Worst,
}

fn cases() -> [Case; 4] {
    let midpoint = |pct, time_ms| Policy::Midpoint { pct, time_ms };
    let case = |policy, about, when, bar| Case { policy, about, when, bar };
    [
        case(midpoint(90, 0), "washed out by the scan", When::First, Bar::AtLeast(0.9)),
        case(midpoint(5, 5), "kept by the midpoint and a delay", When::First, Bar::AtMost(0.05)),
        case(midpoint(37, TOO_LONG_MS), "too long a delay: never young", When::Last, Bar::AtLeast(0.25)),
        case(Policy::Holdfast { hint: Hint::Undeclared }, "all defaults", When::Worst, Bar::AtMost(0.01)),
    ]
}

/// One query of the sequence, with the monitor's figures.
#[derive(Clone, Debug, Serialize)]
struct Step {
    query: &'static str,
    seconds: f64,
    /// Pages of the query's table read from disk.
    pages_read: u64,
    result: f64,
    /// MB of the pool that the tables have, if the target reports it.
    resident_mb: Option<[f64; 2]>,
    monitor: String,
}

/// The sequence of one policy.
struct Sequence {
    case: Case,
    /// The name of the policy on this target.
    name: String,
    /// True if a claim is made about it: only about the project's policies.
    judged: bool,
    steps: Vec<Step>,
    small_pages: u64,
    pool_mb: f64,
}

const SMALL_COLD: &str = "small query, cold";
const SMALL_WARM: &str = "small query, again";
const SCAN: &str = "report over the big table";
const SMALL_AFTER: &str = "small query after the report";
const SMALL_LAST: &str = "small query once more";

impl Sequence {
    fn seconds(&self, query: &str) -> Option<Figure> {
        let times: Vec<f64> = self.steps.iter().filter(|s| s.query == query).map(|s| s.seconds).collect();
        Figure::of(&times)
    }

    /// Share of the small table's pages that are read again after the scan. Where none was read
    /// cold, reads were not counted, and no later one is known.
    fn read_again(&self) -> Option<f64> {
        let after = self.steps.iter().filter(|s| s.query == SMALL_AFTER && self.small_pages > 0);
        let mut shares = after.map(|s| s.pages_read as f64 / self.small_pages as f64);
        match self.case.when {
            When::First => shares.next(),
            When::Last => shares.next_back(),
            When::Worst => shares.reduce(f64::max),
        }
    }
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    progress.step("loading the tables");
    progress.show(&format!("{SMALL} and {BIG}"));
    let (small, big) = (Content::NewOrder(options.small_warehouses()), Content::Stock(options.big_warehouses()));
    let tables = [(SMALL, small), (BIG, big)].map(|(name, content)| TableSpec { name, seed: options.seed, content });
    let load_pool = options.pool_bytes() * 16;
    let site = EmbeddedSite::load(
        &disk(options.real_disk.as_deref(), options.disk()),
        &tables,
        1,
        load_pool,
        options.cores.clone(),
        progress,
    );
    let site = site.context("load the tables")?;
    site.set_slow(true);
    run_on(&[&site], options, progress)
}

/// Runs the experiment on loaded data of one target: table 0 is [`SMALL`], table 1 [`BIG`].
fn run_on(sites: &[&dyn Site], options: &Options, progress: &mut Progress) -> Result<Document> {
    let mut sequences = Vec::new();
    let all = |site| cases().into_iter().map(move |case| (site, case));
    let all: Vec<(&&dyn Site, Case)> =
        sites.iter().flat_map(all).filter(|(site, case)| site.has(case.policy)).collect();
    progress.plan_parts(all.len());
    for (site, case) in all {
        progress.step(&site.policy_name(case.policy));
        sequences.push(sequence(*site, case, options, progress)?);
        progress.did_part();
    }
    let first = sites.first().context("there is a site")?;
    let machine = Machine::this(options.real_disk.as_deref());
    let mut document = Document::new(&format!("scan{}", suffix(*first)), options.settings(), machine);
    document.runs = sequences.iter().map(|s| document_run(*first, s)).collect();
    document.claims = claims(&sequences);
    document.title = "One report query between small queries".to_owned();
    Ok(document.with_figures(figures(&sequences)))
}

/// The suffix of the experiment's name, so that its report has a file of its own.
fn suffix(site: &dyn Site) -> String {
    if is_embedded(site) { String::new() } else { format!("-{}", site.target_name()) }
}

fn is_embedded(site: &dyn Site) -> bool {
    site.target_name() == EMBEDDED
}

fn sequence(site: &dyn Site, case: Case, options: &Options, progress: &mut Progress) -> Result<Sequence> {
    let spec = TargetSpec { policy: case.policy, pool_bytes: options.pool_bytes(), copy: 0 };
    let target = site.open(&spec)?;
    let (small, big) = (Query::SumNewOrder, Query::SumStock);
    let mut ask = |list: &[(&'static str, Query)]| -> Result<Vec<Step>> {
        let one = |(name, query): &(&'static str, Query)| {
            let step = step(&*target, name, *query, &options.cores)?;
            progress.show(&format!("{name}: {} s", human(step.seconds)));
            Ok(step)
        };
        list.iter().map(one).collect()
    };
    let mut steps = ask(&[(SMALL_COLD, small), (SMALL_WARM, small)])?;
    let mut rounds = Rounds { least: options.repetitions, most: options.repetitions };
    if matches!(case.policy, Policy::Holdfast { .. }) {
        rounds.most = MOST_REPETITIONS.max(options.repetitions);
    }
    let round = |_| ask(&[(SCAN, big), (SMALL_AFTER, small), (SMALL_LAST, small)]);
    let turns = turns::alone(rounds, round, |turns| claims::decided(&slower(turns.iter().flatten()), SLOWER))?;
    steps.extend(turns.into_iter().flatten());
    let small_pages = steps.first().map_or(0, |s| s.pages_read);
    let pool = target.pool()?;
    let name = site.policy_name(case.policy);
    let judged = is_embedded(site) || matches!(case.policy, Policy::Holdfast { .. });
    Ok(Sequence { case, name, judged, steps, small_pages, pool_mb: pool.mb(pool.pool_pages) })
}

/// Runs one query on a thread of its own, as a client would.
fn step(target: &(dyn Target + Sync), name: &'static str, query: Query, cores: &Cores) -> Result<Step> {
    let before = target.pool()?;
    let began = Instant::now();
    let asked = std::thread::scope(|scope| {
        let ask = || {
            cores.pin(Role::Oltp(0));
            target.query(query).with_context(|| name)
        };
        scope.spawn(ask).join()
    });
    let seconds = began.elapsed().as_secs_f64();
    let result = asked.map_err(|_| anyhow!("the query panicked"))??;
    let after = target.pool()?;
    let table = if name == SCAN { BIG } else { SMALL };
    let resident = |table| after.mb(after.resident(table));
    Ok(Step {
        query: name,
        seconds,
        pages_read: after.disk_reads(table).saturating_sub(before.disk_reads(table)),
        result,
        resident_mb: (!after.indexes.is_empty()).then(|| [resident(SMALL), resident(BIG)]),
        monitor: monitor(&before, &after, seconds),
    })
}

/// The monitor's lines about the pool, with rates over the last `seconds`.
fn monitor(before: &PoolState, after: &PoolState, seconds: f64) -> String {
    let rate = |f: fn(&PoolState) -> u64| per_second(f(after).saturating_sub(f(before)), seconds);
    let gets = after.gets.saturating_sub(before.gets);
    let per_mille = |n: u64| (n * 1000).checked_div(gets).unwrap_or(0);
    let young = per_mille(after.made_young - before.made_young);
    let not_young = per_mille(after.not_young - before.not_young);
    let reads = per_mille(after.pages_read - before.pages_read);
    let hit_rate = if gets == 0 {
        "No buffer pool page gets since the last printout".to_owned()
    } else {
        format!(
            "Buffer pool hit rate {} / 1000, young-making rate {young} / 1000 not {not_young} / 1000",
            1000u64.saturating_sub(reads)
        )
    };
    format!(
        "Database pages     {}\nOld database pages {}\nPages made young {}, not young {}\n\
         {:.2} youngs/s, {:.2} non-youngs/s\nPages read {}, created {}, written {}\n\
         {:.2} reads/s, {:.2} creates/s, {:.2} writes/s\n{hit_rate}\n",
        after.database_pages,
        after.old_pages,
        after.made_young,
        after.not_young,
        rate(|p| p.made_young),
        rate(|p| p.not_young),
        after.pages_read,
        after.pages_created,
        after.pages_written,
        rate(|p| p.pages_read),
        rate(|p| p.pages_created),
        rate(|p| p.pages_written),
    )
}

/// The longest time of the small query after the scan under Holdfast, as a multiple of its time
/// once more.
const SLOWER: Bar = Bar::AtMost(1.5);
/// So many repetitions at most, until that is decided.
const MOST_REPETITIONS: usize = 12;

/// The times of the small query after the scan, as multiples of its times once more.
fn slower<'s>(steps: impl Iterator<Item = &'s Step> + Clone) -> Vec<f64> {
    let of = |query| steps.clone().filter(move |s| s.query == query).map(|s| s.seconds);
    of(SMALL_AFTER).zip(of(SMALL_LAST)).map(|(after, last)| after / last).collect()
}

fn claims(sequences: &[Sequence]) -> Vec<Claim> {
    let again = |s: &Sequence| {
        let text = format!(
            "{} ({}): share of the small table's pages that the small query reads again after the report",
            s.name, s.case.about
        );
        Claim::new(text, Evidence::counted(s.read_again()), s.case.bar)
    };
    let mut claims: Vec<Claim> = sequences.iter().filter(|s| s.judged).map(again).collect();
    if let Some(holdfast) = sequences.iter().find(|s| matches!(s.case.policy, Policy::Holdfast { .. })) {
        let text = "holdfast: time of the small query after the report, as a multiple of its time once more";
        claims.push(Claim::new(text, Evidence::turns(&slower(holdfast.steps.iter())), SLOWER));
    }
    claims
}

const QUERIES: [&str; 5] = [SMALL_COLD, SMALL_WARM, SCAN, SMALL_AFTER, SMALL_LAST];

fn document_run(site: &dyn Site, s: &Sequence) -> Run {
    let seconds = QUERIES.map(|query| json!({"query": query, "seconds": s.seconds(query)}));
    let metrics = json!({
        "about": s.case.about,
        "seconds": seconds,
        "read_again": s.read_again(),
        "pool_mb": s.pool_mb,
        "segments": [{"table": SMALL, "index": "PRIMARY"}, {"table": BIG, "index": "PRIMARY"}],
        "steps": s.steps,
    });
    Run::new(site.target_name(), &s.name, metrics)
}

const LEAD: &str = "A small table is queried twice, then a report goes over a big table that does not fit into the pool, then the \
                    small table is queried again. A cache that resists scans answers that last query from memory.";

fn figures(sequences: &[Sequence]) -> Figures {
    let seconds = |s: &Sequence, query| or_dash(s.seconds(query), |f| format!("{} s", human(f.median)));
    let times = QUERIES.map(|query| move |s: &Sequence| seconds(s, query));
    let mut columns: Vec<Shown<'_, Sequence>> =
        vec![("policy", &|s| s.name.clone()), ("", &|s| s.case.about.to_owned())];
    columns.extend(QUERIES.iter().zip(&times).map(|(query, time)| (*query, time as &dyn Fn(&Sequence) -> String)));
    columns.push(("read again", &|s| or_dash(s.read_again(), |share| format!("{:.1} %", share * 100.0))));
    let note = "Read again: the share of the small table's pages that the small query reads again after the report.";
    let bar = |s: &Sequence, query: &str| {
        Some(Line::new(&s.name, [(0.0, s.seconds(query)?.median)]).toned(s.case.policy.tone()))
    };
    let chart = |query: &&str| {
        let bars = sequences.iter().filter_map(|s| bar(s, query)).collect();
        Chart { form: Form::Bars, ..Chart::over(query, "", "s", bars) }
    };
    let monitor = |s: &Sequence| Listing {
        title: format!("The monitor after every query, {}: {}", s.name, s.case.about),
        parts: s
            .steps
            .iter()
            .map(|step| format!("{}: {} s\n{}", step.query, human(step.seconds), step.monitor))
            .collect(),
        printed: QUERIES.len(),
    };
    Figures {
        lead: LEAD.to_owned(),
        grids: vec![Grid::of("Time of each query", 2, sequences, &columns, note)],
        charts: vec![("Time of each query".to_owned(), QUERIES.iter().map(chart).collect())],
        listings: sequences.iter().map(monitor).collect(),
        ..Figures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Answer;
    use crate::conditions::Conditions;

    fn pool(gets: u64, reads: u64, young: u64) -> PoolState {
        PoolState { database_pages: 9, gets, pages_read: reads, made_young: young, ..PoolState::default() }
    }

    #[test]
    fn the_monitor_speaks_innodbs_language() {
        let text = monitor(&pool(1000, 10, 0), &pool(3000, 30, 4), 2.0);
        assert!(text.contains("Database pages     9\n"), "{text}");
        assert!(text.contains("Pages made young 4, not young 0\n2.00 youngs/s, 0.00 non-youngs/s"), "{text}");
        assert!(text.contains("10.00 reads/s"), "{text}");
        assert!(text.ends_with("hit rate 990 / 1000, young-making rate 2 / 1000 not 0 / 1000\n"), "{text}");
        assert!(monitor(&pool(1, 1, 1), &pool(1, 1, 1), 1.0).contains("No buffer pool page gets"));
    }

    #[test]
    fn each_case_has_its_verdict() {
        let step = |query, seconds, pages_read| Step {
            query,
            seconds,
            pages_read,
            result: 0.0,
            resident_mb: None,
            monitor: String::new(),
        };
        let sequences: Vec<Sequence> = cases()
            .into_iter()
            .map(|case| {
                let again = if matches!(case.bar, Bar::AtLeast(_)) { 98 } else { 0 };
                let steps = vec![
                    step(SMALL_COLD, 0.2, 100),
                    step(SMALL_WARM, 0.02, 0),
                    step(SCAN, 4.0, 9000),
                    step(SMALL_AFTER, 0.021, again),
                    step(SMALL_LAST, 0.02, 0),
                ];
                Sequence { name: case.policy.to_string(), judged: true, case, steps, small_pages: 100, pool_mb: 20.0 }
            })
            .collect();
        let all: Vec<_> = claims(&sequences).iter().map(|c| c.judge(&Conditions::quiet_machine())).collect();
        assert_eq!(all.len(), 5);
        assert_eq!(claims::worst(&all), Answer::Holds, "{all:#?}");
        let shown = figures(&sequences);
        let (text, charts) = (shown.text(), &shown.charts[0].1);
        assert!(text.contains("98.0 %") && text.contains("report over the big table: 4.00 s"), "{text}");
        assert_eq!((charts.len(), charts[0].lines.len()), (5, 4));
        // As if reads were not counted: that none was counted after the report shows nothing.
        assert!(sequences.into_iter().all(|s| Sequence { small_pages: 0, ..s }.read_again().is_none()));
    }
}
