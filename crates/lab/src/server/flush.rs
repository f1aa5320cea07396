//! `flush` on private servers: dbSTRESS RW=1 (or dbt2) with redo logs of the same capacity,
//! Holdfast beside InnoDB in turns.
//!
//! The log is filled before the measurement: two connections update rows in random order, until the
//! log has been written round more than once; a modelled disk is as fast as the real one meanwhile.
//! The load itself writes much less; it runs until the checkpoint follows it. Then the turns begin,
//! which measure the age of the checkpoint and how even the seconds are. On a server that the user
//! names the capacity is the server's own, and the log is filled with the durability of the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use holdfast_server::Cache;
use holdfast_workload::rng::Rng;
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::json;

use super::contender::Contender;
use super::health::Health;
use super::load::Oltp;
use super::named::ServerWithSchema;
use super::turns::cell::{Asked, Cell, Column, grid, p99};
use super::turns::meters::Meter;
use super::turns::side::{Data, Settings, Side, Turn};
use super::turns::workload::Workload;
use super::turns::{self, Findings, Place, Plan};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Document;
use crate::experiments::flush::{self, TARGET, evenness, swing};
use crate::figures::Grid;
use crate::measure::{Figure, human};
use crate::progress::Progress;
use crate::stats::Estimate;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines, turns, cores, seed.
    pub plan: Plan,
    /// The workload of the sessions; its second half are WRITEs.
    pub workload: Workload,
    /// Sessions.
    pub sessions: u32,
    /// Capacities of the log, in bytes.
    pub capacities: Vec<u64>,
    /// Seek and bytes per second of a modelled disk, if there is one.
    pub modelled: Option<(Duration, u64)>,
}

/// Least evenness on a real disk, which may be uneven itself: as a share of what InnoDB reaches.
const EVEN_OF_OTHER: f64 = 0.95;
/// Longest time for filling the log.
const FILLING_MAX: Duration = Duration::from_secs(120);
/// The checkpoint follows the log if the age moves within a turn by at most this share of what was
/// written. And the longest time until all sides are in that state.
const FOLLOWS: f64 = 0.25;
const SETTLING_MAX: Duration = Duration::from_secs(120);
/// Laps of the log, as far as flushing lets it grow. In the first lap, pages are written ahead of
/// time; in the second, in time. One more, since a block of the log that is written again counts
/// again.
const LAPS: f64 = 3.0;
/// Connections that fill the log. With many of them the log grows faster than pages can be written,
/// and late pages stay late together, a lap later.
const FILLERS: u64 = 2;

/// One capacity.
struct Case {
    capacity: u64,
    cell: Cell,
}

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If packages are not available, a server does not start, or a client fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let cache = turns::equip(progress)?;
    let plan = &options.plan;
    let mut sides = turns::sides(&cache, plan)?;
    for side in &mut sides {
        side.load(Data::Of(options.workload), plan.seed, progress)?;
    }
    let work = options.workload.load(&cache, options.sessions, 1, plan.seed)?;
    let mut cases = Vec::new();
    for &capacity in &options.capacities {
        let settings = Settings {
            pool_bytes: options.workload.bytes(),
            log_bytes: Some(capacity),
            size: 1.0,
            modelled: options.modelled,
            ..Settings::default()
        };
        let name = format!("log {} MB", capacity >> 20);
        for side in &mut sides {
            progress.step(&format!("{name}: filling it, {}", side.name));
            side.start(&settings)?;
            durable(side, 0)?;
            fill(side, options, capacity)?;
            durable(side, 1)?;
            if options.modelled.is_some() {
                side.slow_disk()?;
            }
            side.pause(true);
        }
        settle(&mut sides, &work, plan.turn, progress)?;
        cases.push(Case {
            capacity,
            cell: Cell::measure(Asked { name: &[&name], judged: &[] }, &mut sides, &work, plan, progress)?,
        });
        for side in &mut sides {
            side.stop()?;
        }
    }
    Ok(findings(options, Place::private(), cases, &sides).report(plan, &sides))
}

/// Runs it on a server that the user names, with the server's own log.
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
    let capacity = capacity(&on_server.before, on_server.contender)
        .context("the server does not say how large its redo log is")?;
    options.capacities = vec![capacity];
    let plan = &options.plan;
    let work = options.workload.load(cache, options.sessions, 1, plan.seed)?;
    let mut full = true;
    for side in sides.iter_mut() {
        side.make_tables(Data::Of(options.workload), plan.seed, progress)?;
        progress.step(&format!("filling the log of {} MB", capacity >> 20));
        full &= fill(side, options, capacity)?;
    }
    settle(sides, &work, plan.turn, progress)?;
    let name = format!("log {} MB", capacity >> 20);
    let case =
        Case { capacity, cell: Cell::measure(Asked { name: &[&name], judged: &[] }, sides, &work, plan, progress)? };
    let mut words = in_words(&case);
    if !full {
        words.push(format!(
            "The log was not written round often enough within {} s: flushing may not be what it is after a longer time.",
            FILLING_MAX.as_secs()
        ));
    }
    Ok(Findings { words, claims: Vec::new(), ..findings(options, place, vec![case], sides) })
}

/// The capacity of a server's redo log, in bytes.
fn capacity(server: &Health, contender: Contender) -> Option<u64> {
    let bytes = match contender {
        Contender::Holdfast => server.variable("holdfast_log_file_size")?,
        Contender::MyRocks => return None,
        Contender::InnoDb { .. } => match server.variable("innodb_redo_log_capacity") {
            Some(bytes) => bytes,
            None => {
                server.variable("innodb_log_file_size")? * server.variable("innodb_log_files_in_group").unwrap_or(1.0)
            }
        },
    };
    Some(bytes as u64)
}

/// Sentences on age and throughput, and what they mean.
fn in_words(case: &Case) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(age) = age(case, 0) {
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
    let (dips, even) = (dips(case, 0).unwrap_or(0.0), even(case, 0));
    if let Some(even) = even {
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

/// Shares of the capacity: above the first writers are about to wait, below the second the log is
/// larger than flushing uses.
const NEARLY_FULL: f64 = 0.8;
const LITTLE_USED: f64 = 0.3;

fn findings(options: &Options, place: Place, cases: Vec<Case>, sides: &[Side<'_>]) -> Findings {
    let columns: [Column<'_>; 3] =
        [("TPS", &|t| Some(t.tps())), ("p99 ms", &p99), ("server's CPU us/txn", &Turn::cpu_us)];
    let mut grids = vec![age_grid(&cases, sides)];
    let claims = cases.iter().flat_map(|c| claims(c, sides, options.modelled.is_some())).collect();
    let cells: Vec<Cell> = cases.into_iter().map(|c| c.cell).collect();
    grids.push(grid("Throughput", &[""], sides, &columns, &cells));
    let published = "Published in 2010: MySQL 5.5.4 never used more than half of its redo log, 5.5.6 let it run full, and TPS dropped with every \
                     burst of flushing.";
    let active_set = options.workload.bytes();
    let mode = options.workload.modes().last().map_or("", |mode| mode.0);
    let pool_bytes = place.pool_bytes.unwrap_or(active_set);
    Findings {
        name: ("flush", "Flushing without bursts, on a server"),
        place,
        lead: (format!("{}, {mode}, {} sessions", options.workload.name(), options.sessions), published.to_owned()),
        words: Vec::new(),
        settings: options.workload.settings(json!({
            "mode": mode,
            "sessions": options.sessions,
            "log_capacities_mib": options.capacities.iter().map(|c| c >> 20).collect::<Vec<_>>(),
            "pool_bytes": pool_bytes,
            "active_set_of_pool": active_set as f64 / pool_bytes as f64,
            "disk": if options.modelled.is_some() { "modelled" } else { "real" },
        })),
        grids,
        charts: vec![("Second by second".to_owned(), turns::charts(sides))],
        claims,
        cells,
    }
}

/// Sets the durability of a commit: 0 or 1.
fn durable(side: &mut Side<'_>, level: u8) -> Result<()> {
    let variable = match side.contender {
        Contender::Holdfast => "holdfast_flush_log_at_trx_commit",
        Contender::InnoDb { .. } => "innodb_flush_log_at_trx_commit",
        Contender::MyRocks => "rocksdb_flush_log_at_trx_commit",
    };
    Ok(side.conn()?.query_drop(format!("SET GLOBAL {variable} = {level}"))?)
}

/// Writes the log round, so that flushing reaches its steady state. False if there was not enough
/// time.
fn fill(side: &mut Side<'_>, options: &Options, capacity: u64) -> Result<bool> {
    let enough = LAPS * TARGET * capacity as f64;
    let (before, began) = (written(side)?, Instant::now());
    let connections = (0..FILLERS).map(|_| side.connect()).collect::<Result<Vec<_>>>()?;
    let (workload, seed, stop) = (options.workload, options.plan.seed, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let filler = |(n, conn)| {
            let (rng, stop) = (Rng::for_part(seed, n), &stop);
            scope.spawn(move || update_everywhere(conn, workload, rng, stop))
        };
        let fillers: Vec<_> = (0..).zip(connections).map(filler).collect();
        let mut result = Ok(false);
        while matches!(result, Ok(false)) && began.elapsed() < FILLING_MAX {
            std::thread::sleep(Duration::from_millis(100));
            result = written(side).map(|now| now - before >= enough);
        }
        stop.store(true, Ordering::Release);
        for filler in fillers {
            let ended = filler.join().unwrap_or_else(|_| Err(anyhow!("a thread that fills the log panicked")));
            result = result.and_then(|full| ended.map(|()| full));
        }
        result
    })
}

/// Lets the load run, without counting, until the checkpoint follows it: filling, which writes many
/// times as much, leaves the age elsewhere. In rounds, so that the sides have the same random
/// numbers in the measured turns too.
fn settle(sides: &mut [Side<'_>], work: &Oltp, turn: Duration, progress: &mut Progress) -> Result<()> {
    let (began, mut follow) = (Instant::now(), false);
    while !follow && began.elapsed() < SETTLING_MAX {
        follow = true;
        for side in sides.iter_mut() {
            follow &= follows(&side.warm_up(work, turn, progress)?);
        }
    }
    Ok(())
}

/// True if the checkpoint followed the log in a turn, or if the server reports no age.
fn follows(turn: &Turn) -> bool {
    let ages: Vec<f64> = turn.each.iter().filter_map(|s| s.values[Meter::Age as usize]).collect();
    let moved = ages.first().zip(ages.last()).map_or(0.0, |(from, to)| (to - from).abs());
    moved <= FOLLOWS * turn.values[Meter::Log as usize].unwrap_or(0.0) * turn.seconds
}

fn written(side: &mut Side<'_>) -> Result<f64> {
    Ok(side.read()?[Meter::Log as usize].unwrap_or(0.0))
}

/// Updates random rows without end. Lock conflicts with the others do not matter.
fn update_everywhere(mut conn: Conn, workload: Workload, mut rng: Rng, stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::Acquire) {
        match conn.query_drop(workload.scattered_update(&mut rng)) {
            Err(mysql::Error::MySqlError(said)) if [1205, 1213].contains(&said.code) => {}
            other => other?,
        }
    }
    Ok(())
}

/// The values of a meter in the seconds of a side, turn by turn.
fn seconds(case: &Case, side: usize, meter: Meter) -> Vec<Vec<f64>> {
    let of_turn = |turn: &Turn| turn.each.iter().filter_map(|s| s.values[meter as usize]).collect();
    case.cell.turns[side].iter().map(of_turn).collect()
}

/// The age of the checkpoint, as a share of the capacity.
fn age(case: &Case, side: usize) -> Option<Figure> {
    Figure::of(&ages(case, side))
}

fn ages(case: &Case, side: usize) -> Vec<f64> {
    seconds(case, side, Meter::Age).concat().iter().map(|a| a / case.capacity as f64).collect()
}

fn rates(case: &Case, side: usize) -> Vec<f64> {
    seconds(case, side, Meter::Commits).concat()
}

fn even(case: &Case, side: usize) -> Option<f64> {
    evenness(&rates(case, side))
}

/// The seconds in which throughput was a fifth below its median while the age fell by a fiftieth of
/// the capacity.
fn dips(case: &Case, side: usize) -> Option<f64> {
    let (rates, ages) = (seconds(case, side, Meter::Commits), seconds(case, side, Meter::Age));
    let median = Figure::of(&rates.concat())?.median;
    let in_turn = |(rates, ages): (&Vec<f64>, &Vec<f64>)| flush::dips(rates, ages, median, case.capacity);
    Some(rates.iter().zip(&ages).map(in_turn).sum::<usize>() as f64)
}

/// Claims about Holdfast. Evenness has a bar of its own on the modelled disk, and is compared with
/// the others on a real one, which may be uneven itself.
fn claims(case: &Case, sides: &[Side<'_>], modelled: bool) -> Vec<Claim> {
    let name = format!("log {} MB", case.capacity >> 20);
    let mut claims = flush::age_claims(&name, &ages(case, 0), dips(case, 0));
    let ours = rates(case, 0);
    if modelled {
        claims.push(flush::even_claim(&name, &ours));
        return claims;
    }
    for (other, side) in sides.iter().enumerate().skip(1) {
        let theirs = rates(case, other);
        let ratio = |parts: &mut [Vec<f64>]| Some(evenness(&parts[0])? / evenness(&parts[1])?);
        let ratio = Estimate::by(&[&ours, &theirs], ours.len(), &ratio);
        let text =
            format!("{name}: 5th percentile of one-second TPS as a share of the median, relative to {}'s", side.name);
        claims.push(Claim::new(text, Evidence::estimate(ratio), Bar::AtLeast(EVEN_OF_OTHER)));
    }
    claims
}

fn age_grid(cases: &[Case], sides: &[Side<'_>]) -> Grid {
    let header = [
        "",
        "",
        "TPS",
        "5th pct of median",
        "age of capacity",
        "least",
        "swing",
        "dips",
        "log MB/s",
        "pages written/s",
    ];
    let note = "One-second samples of the turns, after the log was filled and the checkpoint follows it. Swing: the farthest that the age is from its median, as a share of that. \
                Dips: seconds with a fifth less TPS than the median while the age fell.";
    let mut grid = Grid::new("Checkpoint age and evenness", 2, &header, note);
    let two = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    for case in cases {
        for (n, side) in sides.iter().enumerate() {
            let median = |meter| Figure::of(&seconds(case, n, meter).concat()).map(|f| f.median);
            let (age, whole) = (age(case, n), |v: Option<f64>| v.map_or_else(|| "-".to_owned(), human));
            grid.rows.push(vec![
                format!("log {} MB", case.capacity >> 20),
                side.name.clone(),
                whole(median(Meter::Commits)),
                two(even(case, n)),
                two(age.map(|a| a.median)),
                two(age.map(|a| a.min)),
                two(age.map(swing)),
                whole(age.and(dips(case, n))),
                two(median(Meter::Log).map(|b| b / 1e6)),
                whole(median(Meter::Writes)),
            ]);
        }
    }
    grid
}
