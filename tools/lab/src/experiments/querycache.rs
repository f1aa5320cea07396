//! `querycache`: the cost of the server's query cache.
//!
//! Published in 2010: sysbench oltp read-only, 1,000,000 rows, 4 threads, 60 s. MySQL 5.0 did 1,309
//! tps, 5.1 did 425; with the query cache off 1,305 and 1,313. Since 5.1.17 the results of prepared
//! statements are cached, sysbench prepares its statements, and their results are not used again:
//! 298,916 were inserted, 291,970 removed for lack of room, 76,349 used at most.
//!
//! A private MariaDB has the table in Holdfast and in InnoDB, both all in memory. In each of the
//! four cells {cache on, off} x {statements prepared, not} the engines run in turns. The judged
//! figure is the ratio within a pair: the cache costs the same on both.
//!
//! On a running or released server one engine has the table. Sessions that use the query cache take
//! turns with sessions that do not; the ratio shows what the cache costs or gives there.
//!
//! Sessions bypass the cache by a setting of the session; no variable of the server is changed for
//! that.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_server::Cache;
use holdfast_workload::scripts::Script;
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::{Value, json};

use crate::args::common::{DiskArg, TargetArg};
use crate::args::rig::{MIB, RigArgs};
use crate::claims::{Bar, Claim};
use crate::document::Document;
use crate::experiments::sideload::HOT;
use crate::figures::{Chart, Grid, Line};
use crate::measure::{count, human};
use crate::progress::Progress;
use crate::server::contender::Contender;
use crate::server::data::{self, SCHEMA};
use crate::server::load::Oltp;
use crate::server::named::ServerWithSchema;
use crate::server::options::{self, with_query_cache};
use crate::server::own::OwnServer;
use crate::server::status::Listed;
use crate::server::turns::cell::{Asked, Cell, Column, Judged, grid, p95, tps};
use crate::server::turns::running::{OnServer, There};
use crate::server::turns::side::{Data, Settings, Side, Up};
use crate::server::turns::workload::script;
use crate::server::turns::{self, Findings, Place, Plan, engine_name};
use crate::subject::{Subject, Turn};

/// The sizes of the experiment.
#[derive(Debug)]
struct Options {
    /// Turns, cores, seed. On private servers its engines are Holdfast and InnoDB.
    plan: Plan,
    /// Rows of the table.
    rows: u32,
    threads: usize,
    /// Size of the query cache, in bytes.
    cache_bytes: u64,
}

/// Runs the experiment. The embedded engine has no query cache, so the default is a private server.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    let common = &args.common;
    ensure!(common.disk != Some(DiskArg::Model), "querycache has its table in memory; leave --disk out");
    ensure!(
        args.engines.is_empty() || matches!(common.target, TargetArg::Server(_)),
        "--engines is for a server of yours; on a private one InnoDB and Holdfast are compared"
    );
    let options = Options {
        plan: args.plan([2, 7, 9, 7], [1.1, 1.0, 4.0, 60.0]),
        rows: args.sized([3_000, 60_000, 200_000, 1_000_000]),
        threads: usize::from(args.threads),
        cache_bytes: args.query_cache_mib * MIB,
    };
    args.anywhere(options, on_private_server, on_private_server, progress)
}

/// The throughput of Holdfast in each cell, as a share of InnoDB's.
const HOLDFAST: Judged = Judged { of: 0, to: 1, figure: tps, bar: Bar::AtLeast(0.97) };
/// Bytes of a row in either engine, with its share of the indexes and room to spare.
const BYTES_PER_ROW: u64 = 420;
/// The part of an engine's cache for everything but the table, on a private server.
const BESIDE_THE_TABLE: u64 = 32 << 20;
/// The least number of rows that the experiment accepts.
const FEWEST_ROWS: u64 = 10_000;

/// Whether the query cache is on, and whether statements are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asking {
    cached: bool,
    prepared: bool,
}

impl Asking {
    const CELLS: [Asking; 4] = [
        Asking { cached: true, prepared: true },
        Asking { cached: true, prepared: false },
        Asking { cached: false, prepared: true },
        Asking { cached: false, prepared: false },
    ];

    fn cache(self) -> &'static str {
        if self.cached { "on" } else { "off" }
    }

    /// The value of sysbench's `--db-ps-mode`.
    fn mode(self) -> &'static str {
        if self.prepared { "auto" } else { "disable" }
    }

    /// The load of this cell, on the table in `schema`.
    fn load(self, cache: &Cache, options: &Options, schema: &str) -> Result<Oltp> {
        let load = Oltp::read_only(options.rows, schema, options.threads, options.plan.seed);
        let script = if self.cached { load.script } else { script(cache, Script::ReadOnlyUncached)? };
        Ok(Oltp { script, prepared: self.prepared, ..load })
    }
}

/// The server's counters of the query cache.
const COUNTERS: [&str; 4] = ["Qcache_hits", "Qcache_inserts", "Qcache_lowmem_prunes", "Qcache_not_cached"];

/// Their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts([u64; COUNTERS.len()]);

impl Counts {
    fn read(conn: &mut Conn) -> Result<Counts> {
        let status = Listed::status(conn, &COUNTERS)?;
        Ok(Counts(COUNTERS.map(|counter| status.number(counter).unwrap_or(0))))
    }

    /// Adds the counts between `from` and `to`. The server's sessions count some of them without a
    /// lock: a session that is preempted in between undoes the counts of the others. A negative
    /// difference counts as 0.
    fn add(&mut self, from: &Counts, to: &Counts) {
        for (sum, (from, to)) in self.0.iter_mut().zip(from.0.iter().zip(to.0)) {
            *sum += to.saturating_sub(*from);
        }
    }

    /// A sentence on the counts.
    fn in_words(&self) -> &'static str {
        let Counts([hits, inserts, _, not_cached]) = *self;
        match (inserts, not_cached) {
            (0, 0) => "not asked",
            (0, _) => "nothing was cached",
            // A result that is worth its room is used at least once.
            _ if hits < inserts => "inserted but hardly ever used",
            _ => "used",
        }
    }

    fn document(&self) -> Value {
        let named = COUNTERS.iter().zip(self.0).map(|(name, value)| (name.to_lowercase(), json!(value)));
        named.chain([("query_cache_was".to_owned(), json!(self.in_words()))]).collect()
    }
}

/// A cell, and the counts of the query cache in the turns of each side.
struct Measured {
    cell: Cell,
    counts: Vec<Counts>,
}

/// Runs the experiment on a private server.
fn on_private_server(options: &Options, progress: &mut Progress) -> Result<Document> {
    let cache = turns::equip(progress)?;
    let mut server = OwnServer::private(&cache, "lab/querycache");
    server.remove()?;
    let measured = on_private(&cache, &mut server, options, progress);
    server.kill();
    server.remove()?;
    measured
}

fn on_private(
    cache: &Cache,
    server: &mut OwnServer<'_>,
    options: &Options,
    progress: &mut Progress,
) -> Result<Document> {
    let plan = &options.plan;
    server.start(&server_options(options), &plan.cores, None).context("start a server")?;
    let address = server.address.clone();
    let mut sides = Vec::new();
    for &contender in &plan.contenders {
        let mut conn = Conn::new(address.options()).context("connect to the server")?;
        load(&mut conn, contender, options, progress)?;
        let running = (address.clone(), Up { conn, pid: server.pid() });
        sides.push(Side::of_running_server(cache, &plan.cores, &engine_name(contender), contender, running));
    }
    progress.plan(time(plan, sides.len()) * Asking::CELLS.len() as u32);
    let mut cells = Vec::new();
    for asking in Asking::CELLS {
        let loads = plan.contenders.iter().map(|&c| asking.load(cache, options, schema(c)));
        let loads = loads.collect::<Result<Vec<_>>>()?;
        cells.push(measure(&[asking.cache(), asking.mode()], &mut sides, &loads, plan, progress)?);
    }
    let claims = cells.iter().map(|m| claim(&m.cell)).collect();
    let mut place = Place::private();
    "both engines in one private server and in memory".clone_into(&mut place.words);
    let words = ["query cache", "db-ps-mode"];
    Ok(Findings { claims, ..findings(options, place, cells, &words, &sides) }.report(plan, &sides))
}

fn server_options(options: &Options) -> Vec<String> {
    let pool = pool_bytes(options);
    let mut list = options::of(Contender::Holdfast, pool, 1.0);
    list.push(format!("--innodb-buffer-pool-size={pool}"));
    list.extend(with_query_cache(options.cache_bytes));
    list
}

/// The cache of an engine that holds the table.
fn pool_bytes(options: &Options) -> u64 {
    u64::from(options.rows) * BYTES_PER_ROW + BESIDE_THE_TABLE
}

fn schema(contender: Contender) -> &'static str {
    match contender {
        Contender::Holdfast => "lab_holdfast",
        Contender::InnoDb { .. } | Contender::MyRocks | Contender::Released(_) => "lab_innodb",
    }
}

fn load(conn: &mut Conn, contender: Contender, options: &Options, progress: &mut Progress) -> Result<()> {
    progress.step(&format!("{}: loading the table", contender.engine()));
    conn.query_drop(format!("CREATE DATABASE {}", schema(contender)))?;
    conn.query_drop(format!("USE {}", schema(contender)))?;
    let mut told = |done: u32| progress.show_part((done.into(), options.rows.into()), "rows");
    data::load_one(conn, (HOT, contender.engine()), options.plan.seed, options.rows, &mut told)
}

/// The names of the sides on a running server.
const SIDES: [&str; 2] = ["query cache asked", "not asked"];

impl OnServer for Options {
    fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    fn settings(&self) -> Settings {
        Settings { pool_bytes: pool_bytes(self), query_cache_bytes: Some(self.cache_bytes), ..Settings::default() }
    }

    fn sides(&self, _: String) -> Vec<String> {
        SIDES.map(str::to_owned).to_vec()
    }

    fn run_there(&mut self, there: There<'_>, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Findings> {
        let There { server: on_server, place, cache } = there;
        let options = self;
        ensure_in_use(on_server)?;
        let room = on_server.pool_bytes / BYTES_PER_ROW;
        ensure!(
            room >= FEWEST_ROWS,
            "the engine's cache has {} MB: too little for a table that is to be in memory",
            on_server.pool_bytes >> 20
        );
        options.rows = options.rows.min(u32::try_from(room).unwrap_or(u32::MAX));
        let plan = &options.plan;
        sides[0].make_tables(Data::Sbtest(options.rows), plan.seed, progress)?;
        progress.plan(time(plan, sides.len()) * 2);
        let mut cells = Vec::new();
        for prepared in [true, false] {
            let loads = [true, false].map(|cached| Asking { cached, prepared }.load(cache, options, SCHEMA));
            let loads = loads.into_iter().collect::<Result<Vec<_>>>()?;
            cells.push(measure(&[Asking { cached: true, prepared }.mode()], sides, &loads, plan, progress)?);
        }
        let words = cells.iter().filter_map(in_words).collect();
        Ok(Findings { words, ..findings(options, place, cells, &["db-ps-mode"], sides) })
    }
}

fn ensure_in_use(on_server: &ServerWithSchema) -> Result<()> {
    let told = |name| on_server.before.setting(name);
    let (Some(kind), Some(bytes)) = (told("query_cache_type"), on_server.before.variable("query_cache_size")) else {
        bail!("the server has no query cache");
    };
    ensure!(
        matches!(kind, "ON" | "1") && bytes > 0.0,
        "the server does not use its query cache (query_cache_type {kind}, query_cache_size {bytes:.0}), so it costs nothing; \
         to see what it would cost, run `lab querycache` without --target, or with --target mysql55"
    );
    Ok(())
}

/// The longest time of a cell with so many sides.
fn time(plan: &Plan, sides: usize) -> Duration {
    plan.turn * sides as u32 + plan.cell(sides)
}

/// Measures all sides under their loads, in turns.
fn measure(
    name: &[&str],
    sides: &mut [Side<'_>],
    loads: &[Oltp],
    plan: &Plan,
    progress: &mut Progress,
) -> Result<Measured> {
    let phase = name.join(", ");
    progress.step(&phase);
    for (side, load) in sides.iter_mut().zip(loads) {
        side.warm_up(load, plan.turn, progress)?;
    }
    let mut counts = vec![Counts::default(); sides.len()];
    let judged = if sides.iter().any(|side| side.contender == Contender::Holdfast) { &[HOLDFAST][..] } else { &[] };
    let mut cell = Cell::of_turns(Asked { name, judged }, sides, plan.rounds, |n, side| {
        let from = Counts::read(side.conn()?)?;
        let turn = side.turn(&loads[n], &phase, plan.turn, progress)?;
        counts[n].add(&from, &Counts::read(side.conn()?)?);
        Ok(turn)
    })?;
    progress.did(time(plan, sides.len()));
    cell.counted = counts.iter().map(Counts::document).collect();
    Ok(Measured { cell, counts })
}

fn claim(cell: &Cell) -> Claim {
    let text = format!("cache {}, db-ps-mode {}: TPS of Holdfast, as a share of InnoDB's", cell.name[0], cell.name[1]);
    Claim::new(text, HOLDFAST.evidence(cell), HOLDFAST.bar)
}

/// A sentence on what the query cache costs or gives on a running server.
fn in_words(Measured { cell, counts }: &Measured) -> Option<String> {
    let (on, off) = (cell.ratio(0, 1, tps)?, cell.ratio(1, 0, tps)?);
    let statements = if cell.name[0] == "auto" { "prepared" } else { "not prepared" };
    let percent = human((on.value - 1.0).abs() * 100.0);
    let effect = if off.likely.low > 1.0 {
        format!("the query cache takes {percent} % of the throughput. query_cache_type = OFF spares that")
    } else if on.likely.low > 1.0 {
        format!("the query cache makes this load {percent} % faster")
    } else {
        format!("what the query cache costs or gives is less than what the turns differ by (middle {:.3})", on.value)
    };
    let [hits, inserts, prunes, not_cached] = counts[0].0.map(count);
    Some(format!(
        "With statements {statements} {effect}. Results inserted: {inserts}, removed for lack of room: {prunes}, \
         used again: {hits}, not cached: {not_cached}."
    ))
}

/// The findings from the cells, whose names are `words`.
fn findings(options: &Options, place: Place, measured: Vec<Measured>, words: &[&str], sides: &[Side<'_>]) -> Findings {
    let columns: [Column<'_>; 3] = [("TPS", &tps), ("p95 ms", &p95), ("CPU us/txn", &Turn::cpu_us)];
    let counters = counters(&measured, words, sides);
    let charts = measured.iter().map(|m| turn_by_turn(&m.cell, words, sides)).collect();
    let cells: Vec<Cell> = measured.into_iter().map(|m| m.cell).collect();
    let what =
        format!("sysbench oltp read-only, {} rows, {} sessions", human(f64::from(options.rows)), options.threads);
    let mut engines: Vec<&str> = sides.iter().map(|side| side.contender.engine()).collect();
    engines.dedup();
    let published = "Published in 2010 for 1,000,000 rows and 4 threads: MySQL 5.0 1,309 tps, 5.1 425 tps; with the query cache off 1,305 and \
                     1,313. 5.1 had begun to cache prepared statements: 298,916 results inserted, 291,970 removed for lack of room, 76,349 \
                     hits at most (5.0: 1,105,842 not cached).";
    Findings {
        name: ("querycache", "The cost of the query cache"),
        lead: (what, published.to_owned()),
        words: Vec::new(),
        settings: json!({
            "workload": "sysbench oltp_read_only",
            "tables_in": engines,
            "rows": options.rows,
            "distribution": "uniform",
            "sessions": options.threads,
            "query_cache_bytes": options.cache_bytes,
            "pool_bytes_of_each_engine": place.pool_bytes.unwrap_or_else(|| pool_bytes(options)),
        }),
        place,
        grids: vec![grid("Cells", words, sides, &columns, &cells), counters],
        charts: [vec![("Turn by turn".to_owned(), charts)], turns::charts(sides)].concat(),
        claims: Vec::new(),
        cells,
    }
}

fn counters(measured: &[Measured], words: &[&str], sides: &[Side<'_>]) -> Grid {
    let mut header = words.to_vec();
    header.extend(["", "hits", "inserts", "lowmem prunes", "not cached", "use of its results"]);
    let note = "The server's counters while the turns lasted.";
    let mut grid = Grid::new("The query cache", words.len() + 1, &header, note);
    for Measured { cell, counts } in measured {
        for (side, counts) in sides.iter().zip(counts) {
            let mut row = cell.name.clone();
            row.push(side.name().to_owned());
            row.extend(counts.0.map(count));
            row.push(counts.in_words().to_owned());
            grid.rows.push(row);
        }
    }
    grid
}

fn turn_by_turn(cell: &Cell, words: &[&str], sides: &[Side<'_>]) -> Chart {
    let line = |(side, turns): (&Side<'_>, &Vec<Turn>)| {
        Line::new(side.name(), (1..).map(f64::from).zip(turns.iter().map(Turn::tps)))
    };
    let named = words.iter().zip(&cell.name).map(|(word, name)| format!("{word} {name}"));
    let title = named.collect::<Vec<_>>().join(", ");
    Chart::over(&title, "turn", "transactions per second", sides.iter().zip(&cell.turns).map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_said_in_words() {
        let words = |hits, inserts, not_cached| Counts([hits, inserts, 0, not_cached]).in_words();
        assert_eq!(words(76_349, 298_916, 0), "inserted but hardly ever used");
        assert_eq!(words(0, 0, 1_105_842), "nothing was cached");
        assert_eq!(words(10, 3, 0), "used");
        assert_eq!(words(0, 0, 0), "not asked");
    }

    #[test]
    fn a_counter_that_fell_counted_nothing() {
        let mut counts = Counts::default();
        counts.add(&Counts([0, 0, 0, 117]), &Counts([3, 0, 0, 5]));
        assert_eq!(counts, Counts([3, 0, 0, 0]));
    }
}
