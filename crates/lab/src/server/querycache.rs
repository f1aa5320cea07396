//! `querycache`: a cache that hurts.
//!
//! Published in 2010: sysbench oltp read-only, 1,000,000 rows, 4 threads, 60 s. MySQL 5.0 did 1,309 tps, 5.1 did 425; with the query
//! cache off 1,305 and 1,313. Since 5.1.17 prepared statements are cached, sysbench prepares its statements, and their results are never
//! asked for again: 298,916 were inserted, 291,970 thrown out for want of room, 76,349 hit at most.
//!
//! Here one private server holds the table in InnoDB and in Holdfast, both all in memory. In each of the four cells {cache on, off} x
//! {statements prepared, not} the engines run in turns; who comes first changes from pair to pair. Judged is the ratio within a
//! pair: whatever the cache costs, it costs on both.

use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_server::statistics::{Summary, summary};
use holdfast_server::{Cache, Server, apt};
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::json;

use super::address::Address;
use super::contender::{Contender, Engine};
use super::data;
use super::load::{Oltp, Sysbench};
use crate::document::{Bar, Document, Run, Verdict, metrics};
use crate::experiments::sideload::HOT;
use crate::figures::{Chart, Figures, Grid, Line};
use crate::machine::Machine;
use crate::measure::{count, human, per_second};
use crate::pin::{Cores, Role};
use crate::progress::Progress;

/// Everything that can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows of the table.
    pub rows: u32,
    /// Sessions.
    pub threads: usize,
    /// Pairs of turns in each cell.
    pub pairs: usize,
    /// Length of a turn.
    pub turn: Duration,
    /// Size of the query cache while it is on, in bytes.
    pub cache_bytes: u64,
    /// Cores.
    pub cores: Cores,
    /// Seed of data and load.
    pub seed: u64,
}

/// Least that Holdfast may reach of InnoDB: the lower bound of the ratio in each cell.
const SHARE: f64 = 0.97;
/// Bytes of a row in either engine, its share of the indexes and room to spare.
const BYTES_PER_ROW: u64 = 420;
/// The engines, Holdfast first.
const ENGINES: [Engine; 2] = [Engine::Holdfast, Engine::Innodb];

/// One of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    cached: bool,
    prepared: bool,
}

const SETTINGS: [Setting; 4] = [
    Setting { cached: true, prepared: true },
    Setting { cached: true, prepared: false },
    Setting { cached: false, prepared: true },
    Setting { cached: false, prepared: false },
];

impl Setting {
    fn name(self) -> String {
        let (cached, prepared) =
            (if self.cached { "on" } else { "off" }, if self.prepared { "auto" } else { "disable" });
        format!("cache {cached}, db-ps-mode {prepared}")
    }
}

/// The server's counters of the query cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    hits: u64,
    inserts: u64,
    prunes: u64,
    not_cached: u64,
}

impl Counts {
    /// Adds what was counted from `from` to `to`.
    fn add(&mut self, from: &Counts, to: &Counts) {
        self.hits += to.hits - from.hits;
        self.inserts += to.inserts - from.inserts;
        self.prunes += to.prunes - from.prunes;
        self.not_cached += to.not_cached - from.not_cached;
    }

    /// What they say.
    fn in_words(&self) -> &'static str {
        match self {
            Counts { inserts: 0, not_cached: 0, .. } => "not asked",
            Counts { inserts: 0, .. } => "nothing was cached",
            // A result that is worth its place is used once at least.
            Counts { hits, inserts, .. } if hits < inserts => "inserted but hardly ever used",
            _ => "used",
        }
    }
}

/// What one engine did in a cell.
#[derive(Clone, Debug, Default)]
struct Side {
    tps: Vec<f64>,
    counts: Counts,
}

/// One cell: both engines, in the order of [`ENGINES`].
struct Cell {
    setting: Setting,
    sides: [Side; 2],
}

impl Cell {
    fn ratio(&self) -> Option<Summary> {
        let pairs = self.sides[0].tps.iter().zip(&self.sides[1].tps);
        let ratios: Vec<f64> =
            pairs.map(|(ours, theirs)| ours / theirs).filter(|r| r.is_finite() && *r > 0.0).collect();
        (ratios.len() > 1).then(|| summary(&ratios))
    }
}

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If packages cannot be had, the server does not come up, or a client fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let cache = Cache::of_the_project();
    progress.step("building the engine for the server");
    holdfast_server::build(&cache).context("the engine for the server could not be built")?;
    apt::fetch_sysbench(&cache)?;
    let server = Server::new(&cache, "lab/querycache").bound_to_us();
    server.remove()?;
    let cells = measure(&cache, &server, options, progress);
    let _ = server.kill();
    server.remove()?;
    let cells = cells?;
    let settings = json!({
        "workload": "sysbench oltp_read_only",
        "rows": options.rows,
        "distribution": "uniform",
        "sessions": options.threads,
        "pairs": options.pairs,
        "turn_s": options.turn.as_secs_f64(),
        "query_cache_bytes": options.cache_bytes,
        "pool_bytes_of_each_engine": pool_bytes(options),
        "pinned": options.cores.pins(),
        "seed": options.seed,
        "server": server_options(options).join(" "),
    });
    let mut document = Document::new("querycache", settings, Machine::this(Some(&holdfast_server::run::root())));
    document.title = "A cache that hurts".to_owned();
    document.runs = cells.iter().flat_map(document_runs).collect();
    document.verdicts = cells.iter().map(verdict).collect();
    document.figures = figures(options, &cells);
    let text = format!("{}{}", document.figures.text(), crate::text::verdicts(&document.verdicts));
    Ok((document, text))
}

fn pool_bytes(options: &Options) -> u64 {
    u64::from(options.rows) * BYTES_PER_ROW + (32 << 20)
}

fn server_options(options: &Options) -> Vec<String> {
    let mut list = Contender::Holdfast.options(pool_bytes(options), 1.0);
    list.push(format!("--innodb-buffer-pool-size={}", pool_bytes(options)));
    // A server that was started without the cache cannot be given one.
    list.push("--query-cache-type=1".into());
    list.push(format!("--query-cache-size={}", options.cache_bytes));
    list.push("--skip-networking".into());
    list
}

/// The server listens on its socket only; the port is for its name.
const PORT: u16 = 13392;

fn schema(engine: Engine) -> &'static str {
    match engine {
        Engine::Holdfast => "lab_holdfast",
        Engine::Innodb | Engine::Myrocks => "lab_innodb",
    }
}

fn measure(cache: &Cache, server: &Server<'_>, options: &Options, progress: &mut Progress) -> Result<Vec<Cell>> {
    options.cores.pin(Role::Server);
    let up = server.up(PORT, true, &server_options(options));
    options.cores.pin(Role::Clients);
    up.context("start a server")?;
    let address = Address::Socket(server.socket_path());
    let mut conn = Conn::new(address.options()).context("connect to the server")?;
    for engine in ENGINES {
        let name = engine.contenders(1000)[0].engine();
        progress.step(&format!("{name}: loading the table"));
        conn.query_drop(format!("CREATE DATABASE {}", schema(engine)))?;
        conn.query_drop(format!("USE {}", schema(engine)))?;
        let mut told = |done| progress.show(&format!("{done} of {} rows", options.rows));
        data::load_one(&mut conn, (HOT, name), options.seed, options.rows, &mut told)?;
    }
    let mut cells = Vec::new();
    for setting in SETTINGS {
        progress.step(&setting.name());
        let mut bench = Bench { cache, address: &address, conn: &mut conn, options };
        cells.push(bench.cell(setting, progress)?);
    }
    Ok(cells)
}

/// What a cell is measured with.
struct Bench<'a> {
    cache: &'a Cache,
    address: &'a Address,
    conn: &'a mut Conn,
    options: &'a Options,
}

impl Bench<'_> {
    fn cell(&mut self, setting: Setting, progress: &mut Progress) -> Result<Cell> {
        let bytes = if setting.cached { self.options.cache_bytes } else { 0 };
        self.conn.query_drop(format!("SET GLOBAL query_cache_size = {bytes}"))?;
        self.conn.query_drop(format!("SET GLOBAL query_cache_type = {}", u8::from(setting.cached)))?;
        let mut cell = Cell { setting, sides: [Side::default(), Side::default()] };
        // The first turns warm everything up and do not count.
        for side in 0..ENGINES.len() {
            self.turn(setting, side)?;
        }
        for pair in 0..self.options.pairs {
            for side in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
                let (tps, from, to) = self.turn(setting, side)?;
                cell.sides[side].tps.push(tps);
                cell.sides[side].counts.add(&from, &to);
                progress.show(&format!("{}: {} tps", schema(ENGINES[side]), human(tps)));
            }
        }
        Ok(cell)
    }

    /// A turn of one engine: its rate, and the counters before and after.
    fn turn(&mut self, setting: Setting, side: usize) -> Result<(f64, Counts, Counts)> {
        let Options { rows, threads, seed, .. } = *self.options;
        let oltp = Oltp { prepared: setting.prepared, ..Oltp::read_only(rows, schema(ENGINES[side]), threads, seed) };
        let mut sysbench = Sysbench::start(self.cache, self.address, &oltp)?;
        // Connections and prepared statements.
        let began = std::time::Instant::now();
        let first = self.commits()?;
        while self.commits()? == first && began.elapsed() < PATIENCE {
            sysbench.check()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        let (from, before, began) = (self.counts()?, self.commits()?, std::time::Instant::now());
        std::thread::sleep(self.options.turn);
        let (after, seconds) = (self.commits()?, began.elapsed().as_secs_f64());
        let to = self.counts()?;
        sysbench.check()?;
        Ok((per_second(after - before, seconds), from, to))
    }

    fn commits(&mut self) -> Result<u64> {
        let row = self.conn.query_first::<(String, u64), _>("SHOW GLOBAL STATUS LIKE 'Com_commit'")?;
        Ok(row.context("the server counts no commits")?.1)
    }

    fn counts(&mut self) -> Result<Counts> {
        let mut counts = Counts::default();
        for (name, value) in self.conn.query::<(String, u64), _>("SHOW GLOBAL STATUS LIKE 'Qcache_%'")? {
            match name.as_str() {
                "Qcache_hits" => counts.hits = value,
                "Qcache_inserts" => counts.inserts = value,
                "Qcache_lowmem_prunes" => counts.prunes = value,
                "Qcache_not_cached" => counts.not_cached = value,
                _ => {}
            }
        }
        Ok(counts)
    }
}

/// Until the first transaction of a turn.
const PATIENCE: Duration = Duration::from_secs(20);

fn verdict(cell: &Cell) -> Verdict {
    let claim = format!("{}: TPS of Holdfast, of InnoDB's, lower 95 % bound of the pairs", cell.setting.name());
    Verdict::new(claim, cell.ratio().map(|r| r.lower_bound), Bar::AtLeast(SHARE))
}

fn engine_name(side: usize) -> &'static str {
    match ENGINES[side] {
        Engine::Holdfast => "holdfast",
        Engine::Innodb | Engine::Myrocks => "InnoDB",
    }
}

fn document_runs(cell: &Cell) -> Vec<Run> {
    let run = |side: usize| Run {
        target: "mariadb".to_owned(),
        policy: engine_name(side).to_owned(),
        metrics: metrics(json!({
            "query_cache": cell.setting.cached,
            "prepared": cell.setting.prepared,
            "tps": crate::measure::Figure::of(&cell.sides[side].tps),
            "qcache_hits": cell.sides[side].counts.hits,
            "qcache_inserts": cell.sides[side].counts.inserts,
            "qcache_lowmem_prunes": cell.sides[side].counts.prunes,
            "qcache_not_cached": cell.sides[side].counts.not_cached,
            "verdict": cell.sides[side].counts.in_words(),
        })),
    };
    (0..ENGINES.len()).map(run).collect()
}

fn figures(options: &Options, cells: &[Cell]) -> Figures {
    let lead = format!(
        "sysbench oltp read-only, {} rows, {} sessions, both engines in one server and in memory. Published in 2010 for 1,000,000 rows and 4 \
         threads: MySQL 5.0 1,309 tps, 5.1 425 tps; with the query cache off 1,305 and 1,313. 5.1 had begun to cache prepared statements: \
         298,916 results inserted, 291,970 thrown out for want of room, 76,349 hits at most (5.0: 1,105,842 not cached).",
        human(f64::from(options.rows)),
        options.threads
    );
    let header = [
        "query cache",
        "db-ps-mode",
        "Holdfast TPS",
        "InnoDB TPS",
        "ratio, median",
        "least",
        "greatest",
        "lower bound",
    ];
    let note = "Medians of turns; the ratio is that within a pair. Lower bound: at 95 %, one-sided, of the mean of the logarithms.";
    let mut rates = Grid::new("Four cells", 2, &header, note);
    let header = [
        "query cache",
        "db-ps-mode",
        "engine",
        "hits",
        "inserts",
        "lowmem prunes",
        "not cached",
        "what it was good for",
    ];
    let note = "The server's counters while the turns of that engine lasted.";
    let mut counters = Grid::new("The query cache", 3, &header, note);
    let mut charts = Vec::new();
    for cell in cells {
        let (on, mode) =
            (if cell.setting.cached { "on" } else { "off" }, if cell.setting.prepared { "auto" } else { "disable" });
        let median = |side: usize| crate::measure::Figure::of(&cell.sides[side].tps).map_or(f64::NAN, |f| f.median);
        let mut row: Vec<String> = [on, mode].map(str::to_owned).to_vec();
        row.extend([human(median(0)), human(median(1))]);
        row.extend(match cell.ratio() {
            Some(r) => [r.median, r.least, r.greatest, r.lower_bound].map(|v| format!("{v:.3}")),
            None => std::array::from_fn(|_| "-".to_owned()),
        });
        rates.rows.push(row);
        for (side, Side { counts, .. }) in cell.sides.iter().enumerate() {
            let numbers = [counts.hits, counts.inserts, counts.prunes, counts.not_cached].map(count);
            let mut row: Vec<String> = [on, mode, engine_name(side)].map(str::to_owned).to_vec();
            row.extend(numbers);
            row.push(counts.in_words().to_owned());
            counters.rows.push(row);
        }
        let line = |side: usize| Line {
            name: engine_name(side).to_owned(),
            points: (1..).map(f64::from).zip(cell.sides[side].tps.iter().copied()).collect(),
            dashed: false,
        };
        let lines = (0..ENGINES.len()).map(line).collect();
        charts.push(Chart::over(&cell.setting.name(), "turn", "transactions per second", lines));
    }
    Figures { lead, words: Vec::new(), grids: vec![rates, counters], charts: vec![("Turn by turn".to_owned(), charts)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_said_in_words() {
        let words = |hits, inserts, not_cached| Counts { hits, inserts, prunes: 0, not_cached }.in_words();
        assert_eq!(words(76_349, 298_916, 0), "inserted but hardly ever used");
        assert_eq!(words(0, 0, 1_105_842), "nothing was cached");
        assert_eq!(words(10, 3, 0), "used");
        assert_eq!(words(0, 0, 0), "not asked");
    }

    #[test]
    fn only_pairs_with_both_sides_make_a_ratio() {
        let side = |tps: &[f64]| Side { tps: tps.to_vec(), counts: Counts::default() };
        let cell = |ours: &[f64], theirs: &[f64]| Cell { setting: SETTINGS[0], sides: [side(ours), side(theirs)] };
        assert!(cell(&[1.0], &[1.0]).ratio().is_none(), "one pair has no spread");
        assert!(cell(&[1.0, 2.0], &[0.0, 2.0]).ratio().is_none());
        let ratio = cell(&[2.0, 4.0, 3.0], &[1.0, 2.0, 1.5]).ratio().unwrap();
        assert!((ratio.lower_bound - 2.0).abs() < 1e-9);
        assert!(verdict(&cell(&[2.0, 4.0], &[1.0, 2.0])).holds);
    }
}
