//! `iobound` on private servers: dbSTRESS that visits ten times as many objects, with everything in
//! the pool and with a pool of a tenth of the visited pages, Holdfast and InnoDB in turns, on files
//! past the system's cache and on files through it.
//!
//! Through the cache, the system supplies the bytes, so the loss of throughput is the cost of the
//! engine's page management. Read-only and RW=1.

use anyhow::{Context, Result};
use holdfast::FlushMethod;
use holdfast_server::{Cache, Release, apt};
use serde_json::json;

use super::{METHODS, Options, PUBLISHED, WIDTHS};
use crate::claims::{Bar, Claim};
use crate::document::Document;
use crate::progress::Progress;
use crate::server::contender::{Contender, INNODB, SMALLEST, engine_name};
use crate::server::health::Health;
use crate::server::load::Oltp;
use crate::server::released;
use crate::server::status::Listed;
use crate::server::turns::cell::{Asked, Cell, Column, Judged, grid, p99, tps};
use crate::server::turns::side::{Data, Settings, Side};
use crate::server::turns::workload::MODES;
use crate::server::turns::{self, Findings, Place, Plan};
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};

/// The published pool: InnoDB's reserve of free pages shrinks in the same proportion.
const PUBLISHED_POOL: f64 = 8e9;
/// Page size of both engines.
const PAGE_BYTES: u64 = 16 << 10;
/// The pool that holds everything, and one of a tenth of it.
const POOLS: [&str; 2] = ["holds all", "small"];
/// The bar: with the small pool not below another engine.
const SHARE: Bar = Bar::AtLeast(1.0);

impl Options {
    fn load(&self, cache: &Cache, rw_ratio: u32, width: u32) -> Result<Oltp> {
        let mut load = self.workload().load(cache, self.sessions, rw_ratio, self.plan.seed)?;
        load.asked.push(format!("--anti-dead={width}"));
        Ok(load)
    }
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Document> {
    let cache = turns::equip(progress)?;
    let mut sides = turns::sides(&cache, &options.plan)?;
    let measured = measure(options, &cache, &mut sides, progress)?;
    Ok(findings(options, Place::private(), measured, &sides).report(&options.plan, &sides))
}

/// Runs it on a released server, which has no other beside it: no claim is made.
pub fn run_released(server: Release, options: &Options, progress: &mut Progress) -> Result<Document> {
    let cache = Cache::of_the_project();
    let mut sides = [Side::private(&cache, &options.plan.cores, &engine_name(INNODB), Contender::Released(server))?];
    apt::fetch_sysbench(&cache)?;
    let measured = measure(options, &cache, &mut sides, progress)?;
    let variables = turns::running::settings(&measured.variables, sides[0].contender);
    let place = Place { target: server.target(), words: format!("on {}", server.name()), ..Place::private() };
    let mut document = findings(options, place, measured, &sides).report(&options.plan, &sides);
    document.settings["server"] = variables;
    Ok(released::with_options(document, server, &sides[0].started_with().unwrap_or_default()))
}

/// The cells, and what else is known of the servers.
struct Measured {
    cells: Vec<Cell>,
    /// The most pages that one of the servers visited, in bytes.
    visited: u64,
    /// Variables of the first server, with the large pool.
    variables: Health,
}

fn measure(options: &Options, cache: &Cache, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Measured> {
    for side in sides.iter_mut() {
        side.load(Data::Of(options.workload()), options.plan.seed, progress)?;
    }
    let plan = &options.plan;
    let cells = METHODS.len() * MODES.len() * (WIDTHS.len() + 1);
    progress.plan((plan.turn * sides.len() as u32 + plan.cell(sides.len())) * cells as u32);
    let mut measured = Measured { cells: Vec::new(), visited: 0, variables: Health::default() };
    for (method, flush) in METHODS {
        let buffered = flush == FlushMethod::Fsync;
        let roomy = settings(options.workload().bytes(), buffered);
        turns::with_servers(sides, &roomy, |sides| {
            for (mode, rw_ratio) in MODES {
                for width in WIDTHS {
                    let load = options.load(cache, rw_ratio, width)?;
                    let name = [method, mode, POOLS[0], &width.to_string()];
                    measured.cells.push(cell(&name, sides, &load, plan, progress)?);
                }
            }
            measured.visited = 0;
            for side in sides.iter_mut() {
                measured.visited = measured.visited.max(resident_bytes(side)?);
            }
            measured.variables = Health::read(sides[0].conn()?)?;
            Ok(())
        })?;
        let small = settings(small_pool(measured.visited), buffered);
        turns::with_servers(sides, &small, |sides| {
            for (mode, rw_ratio) in MODES {
                let load = options.load(cache, rw_ratio, WIDTHS[1])?;
                let name = [method, mode, POOLS[1], &WIDTHS[1].to_string()];
                measured.cells.push(cell(&name, sides, &load, plan, progress)?);
            }
            Ok(())
        })?;
    }
    Ok(measured)
}

fn small_pool(visited: u64) -> u64 {
    (visited / 10).max(SMALLEST)
}

fn settings(pool_bytes: u64, buffered: bool) -> Settings {
    Settings { pool_bytes, buffered, size: PUBLISHED_POOL / pool_bytes as f64, ..Settings::default() }
}

fn cell(name: &[&str], sides: &mut [Side<'_>], load: &Oltp, plan: &Plan, progress: &mut Progress) -> Result<Cell> {
    progress.step(&name.join(", "));
    Cell::warm_up(sides, load, plan.turn, progress)?;
    let mut judged = Judged::against_others(sides, tps, SHARE);
    judged.retain(|_| name.contains(&POOLS[1]));
    Cell::measure(Asked { name, judged: &judged }, sides, load, plan, progress)
}

/// Bytes of pages in a server's cache; 0 if the server does not report it.
fn resident_bytes(side: &mut Side<'_>) -> Result<u64> {
    if side.contender == Contender::MyRocks {
        return Ok(0);
    }
    let variable = side.contender.variable("buffer_pool_pages_data");
    let pages: Option<u64> = Listed::status(side.conn()?, &[&variable])?.number(&variable);
    Ok(pages.with_context(|| format!("the server does not say {variable}"))? * PAGE_BYTES)
}

fn findings(options: &Options, mut place: Place, measured: Measured, sides: &[Side<'_>]) -> Findings {
    let Measured { cells, visited, .. } = measured;
    let columns: [Column<'_>; 4] = [
        ("TPS", &|t| Some(t.tps())),
        ("p99 ms", &p99),
        ("CPU us/txn", &Turn::cpu_us),
        ("pages read/txn", &|t| t.per_transaction(Meter::Reads)),
    ];
    "a sync at every commit; no binary log".clone_into(&mut place.conditions);
    let what = format!(
        "dbSTRESS, {} sessions, AntiDEAD {} instead of {}, so that ten times as many objects are visited, {} MB of pages; a pool of {} MB, and a small one of {} MB",
        options.sessions,
        WIDTHS[1],
        WIDTHS[0],
        visited >> 20,
        options.workload().bytes() >> 20,
        small_pool(visited) >> 20
    );
    let words = ["files", "mode", "pool", "AntiDEAD"];
    Findings {
        name: ("iobound", "The same workload, ten times the pages"),
        place,
        lead: (what, PUBLISHED.to_owned()),
        words: in_words(&cells, sides),
        settings: options.workload().settings(json!({
            "anti_dead": WIDTHS,
            "sessions": options.sessions,
            "visited_bytes": visited,
            "pool_bytes": [options.workload().bytes(), small_pool(visited)],
        })),
        grids: vec![grid("Both kinds of files, both modes, both pools", &words, sides, &columns, &cells)],
        charts: turns::charts(sides),
        claims: claims(&cells, sides),
        cells,
    }
}

/// The cells with the small pool, each with the cell where everything is in the pool.
fn pairs(cells: &[Cell]) -> impl Iterator<Item = (&Cell, &Cell)> {
    let small = cells.iter().filter(|c| c.name[2] == POOLS[1]);
    small.filter_map(|small| {
        let same = |c: &&Cell| c.name[2] == POOLS[0] && [0, 1, 3].iter().all(|&word| c.name[word] == small.name[word]);
        Some((small, cells.iter().find(same)?))
    })
}

/// A sentence on the throughput that each engine keeps with the small pool.
fn in_words(cells: &[Cell], sides: &[Side<'_>]) -> Vec<String> {
    let tps = |cell: &Cell, side| Some(cell.figure(side, |t| Some(t.tps()))?.median);
    let sentence = |(small, roomy): (&Cell, &Cell)| {
        let left = |(n, side): (usize, &Side<'_>)| {
            Some(format!("{} keeps {:.0} % of its throughput", side.name(), tps(small, n)? / tps(roomy, n)? * 100.0))
        };
        let left: Vec<String> = sides.iter().enumerate().filter_map(left).collect();
        format!("{}, {}: with the small pool {}.", small.name[0], small.name[1], left.join(", "))
    };
    pairs(cells).map(sentence).collect()
}

fn claims(cells: &[Cell], sides: &[Side<'_>]) -> Vec<Claim> {
    let of = |judged: Judged| {
        let claim = move |(small, _): (&Cell, &Cell)| {
            let (files, mode, other) = (&small.name[0], &small.name[1], &sides[judged.to].name());
            let text = format!("{files}, {mode}, small pool: TPS of Holdfast, as a share of {other}'s");
            Claim::new(text, judged.evidence(small), SHARE)
        };
        pairs(cells).map(claim)
    };
    Judged::against_others(sides, tps, SHARE).into_iter().flat_map(of).collect()
}
