//! One of the servers that are measured in turns.
//!
//! A private server is stopped (SIGSTOP) during the turns of another one, its background work
//! included. So work that an engine delays falls into its own next turn. Clients are new in every
//! turn, so that no latency contains the time of the others.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use holdfast_server::{Cache, Server};
use holdfast_workload::rng::Rng;
use mysql::Conn;
use mysql::prelude::Queryable;
use rustix::process::{Pid, Signal, kill_process};

use super::workload::{Workload, script};
use crate::experiments::sideload::HOT;
use crate::measure::human;
use crate::pin::{Cores, Role};
use crate::progress::Progress;
use crate::server::address::Address;
use crate::server::contender::Contender;
use crate::server::data::{self, SCHEMA};
use crate::server::load::{self, Oltp, Sysbench};
use crate::subject::meters::{self, Meter, Values};
use crate::subject::{Second, Series, Subject, Turn};

/// The tables of an experiment.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    /// The tables of a script.
    Of(Workload),
    /// sysbench's table with that many rows.
    Sbtest(u32),
}

/// The settings of a private server.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Size of the cache, in bytes.
    pub pool_bytes: u64,
    /// Capacity of the redo log, in bytes; `None` for the default.
    pub log_bytes: Option<u64>,
    /// The divisor of the published pool.
    pub size: f64,
    /// True if files are read and written through the system's cache instead of past it.
    pub buffered: bool,
    /// Seek and bytes per second of a modelled disk, if there is one. It is as fast as the real one
    /// until its log is filled.
    pub modelled: Option<(Duration, u64)>,
}

/// A server and its measurements.
pub struct Side<'c> {
    cache: &'c Cache,
    cores: &'c Cores,
    series: Series,
    /// Engine of the tables.
    pub contender: Contender,
    address: Address,
    /// `None` for a server that the user names.
    own: Option<Own<'c>>,
    /// The running server.
    up: Option<Up>,
    snapshot: Option<Conn>,
    /// The workload of its tables.
    tables: Option<Workload>,
    /// True if it runs on a modelled disk.
    on_model: bool,
}

/// A server that runs already, with the schema of the tables.
pub struct Running {
    /// The address for clients.
    pub address: Address,
    /// A connection for queries.
    pub conn: Conn,
    /// Its process, if it is known.
    pub pid: Option<u32>,
}

/// A private server.
struct Own<'c> {
    /// The folder of its files in the cache folder.
    folder: String,
    server: Server<'c>,
}

impl Own<'_> {
    /// The modelled disk is slow while this file exists.
    fn slow_disk(&self) -> PathBuf {
        self.server.data_dir().with_extension("slow")
    }
}

/// A running server.
struct Up {
    /// A connection for queries.
    conn: Conn,
    /// Its process, if it is known.
    pid: Option<Pid>,
}

impl Up {
    fn new(conn: Conn, pid: Option<u32>) -> Up {
        Up { conn, pid: pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) }
    }
}

/// The private servers listen on their sockets only; the port makes their names differ.
const PORT: u16 = 13393;
/// The longest time until the first transaction of a turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time from the first transaction to the measurement.
const SETTLE: Duration = Duration::from_millis(200);

impl<'c> Side<'c> {
    /// Returns a private server without data.
    pub fn private(cache: &'c Cache, cores: &'c Cores, name: &str, contender: Contender) -> Result<Side<'c>> {
        let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let folder = format!("lab/{}", letters.to_lowercase());
        let server = Server::new(cache, &folder).bound_to_us();
        server.remove()?;
        let address = Address::Socket(server.socket_path());
        Ok(Side::new(cache, cores, name, contender, address, Some(Own { folder, server })))
    }

    /// Returns a running server. It is neither started nor stopped, and is not paused.
    pub fn of_running_server(
        cache: &'c Cache,
        cores: &'c Cores,
        name: &str,
        contender: Contender,
        running: Running,
    ) -> Side<'c> {
        let mut side = Side::new(cache, cores, name, contender, running.address, None);
        side.up = Some(Up::new(running.conn, running.pid));
        side
    }

    fn new(
        cache: &'c Cache,
        cores: &'c Cores,
        name: &str,
        contender: Contender,
        address: Address,
        own: Option<Own<'c>>,
    ) -> Side<'c> {
        Side {
            cache,
            cores,
            series: Series::new(name),
            contender,
            address,
            own,
            up: None,
            snapshot: None,
            tables: None,
            on_model: false,
        }
    }

    fn own(&self) -> Result<&Own<'c>> {
        self.own.as_ref().with_context(|| format!("{} is not a server of the lab's own", self.name()))
    }

    /// Starts it and pauses it.
    pub fn start(&mut self, settings: &Settings) -> Result<()> {
        let mut options = self.contender.options(settings.pool_bytes, settings.size);
        options.extend(FOR_MANY_SESSIONS.map(str::to_owned));
        if settings.buffered {
            options.extend(self.contender.buffered().map(str::to_owned));
        }
        if let Some(bytes) = settings.log_bytes {
            options.push(format!("--innodb-log-file-size={bytes}"));
            options.push(format!("--loose-holdfast-log-file-size={bytes}"));
        }
        self.start_with(&options, settings.modelled)?;
        self.pause(true);
        Ok(())
    }

    fn start_with(&mut self, options: &[String], modelled: Option<(Duration, u64)>) -> Result<()> {
        self.on_model = modelled.is_some();
        let own = self.own()?;
        // Processes inherit the cores of the thread that starts them.
        self.cores.pin(Role::Server);
        let up = match modelled {
            Some((seek, rate)) => {
                let (server, switch) = (Server::new(self.cache, &own.folder).bound_to_us(), own.slow_disk());
                // The file may not exist.
                let _ = std::fs::remove_file(&switch);
                crate::server::slow_disk::on_slow_disk(server, self.cores, seek, rate, Some(&switch))
                    .and_then(|server| server.up(PORT, false, options))
            }
            None => own.server.up(PORT, false, options),
        };
        self.cores.pin(Role::Clients);
        up.with_context(|| format!("start a server for {}", self.name()))?;
        let pid = own.server.pid()?;
        self.up = Some(Up::new(Conn::new(self.address.options()).context("connect to the server")?, Some(pid)));
        Ok(())
    }

    /// Shuts it down.
    pub fn stop(&mut self) -> Result<()> {
        self.pause(false);
        match self.up.take() {
            Some(_) => self.own()?.server.down(),
            None => Ok(()),
        }
    }

    /// Pauses a private server, or continues it.
    pub fn pause(&self, still: bool) {
        if let Some(pid) = self.pid().filter(|_| self.own.is_some()) {
            // A server that has ended needs no signal; the next query reports it.
            let _ = kill_process(pid, if still { Signal::STOP } else { Signal::CONT });
        }
    }

    /// The connection for queries. Continues the server.
    pub fn conn(&mut self) -> Result<&mut Conn> {
        self.pause(false);
        self.up.as_mut().map(|up| &mut up.conn).context("the server is not running")
    }

    fn pid(&self) -> Option<Pid> {
        self.up.as_ref()?.pid
    }

    /// Another connection, in the schema of the tables.
    pub fn connect(&self) -> Result<Conn> {
        self.pause(false);
        Conn::new(self.address.options().db_name(Some(SCHEMA))).context("connect to the server")
    }

    /// Creates schema and tables. The server is started for it, and shut down.
    pub fn load(&mut self, data: Data, seed: u64, progress: &mut Progress) -> Result<()> {
        progress.step(&format!("{}: making the tables", self.name()));
        let mut options = self.contender.options(LOAD_POOL, 1.0);
        options.extend(["--skip-networking", "--innodb-flush-log-at-trx-commit=0"].map(str::to_owned));
        options.push("--loose-holdfast-flush-log-at-trx-commit=0".to_owned());
        self.start_with(&options, None)?;
        self.conn()?.query_drop(format!("CREATE DATABASE {SCHEMA}"))?;
        self.make_tables(data, seed, progress)?;
        for statement in self.contender.settle() {
            self.conn()?.query_drop(statement)?;
        }
        self.stop()
    }

    /// Creates the tables in the existing schema.
    pub fn make_tables(&mut self, data: Data, seed: u64, progress: &mut Progress) -> Result<()> {
        let engine = self.contender.engine();
        let (cache, address) = (self.cache, self.address.clone());
        match data {
            Data::Of(workload) => {
                self.tables = Some(workload);
                let mut asked = workload.sizes();
                asked.extend([format!("--mysql-storage-engine={engine}"), format!("--rand-seed={seed}")]);
                load::prepare(cache, &address, &script(cache, workload.script())?, SCHEMA, &asked)?;
            }
            Data::Sbtest(rows) => {
                let mut told = |done| progress.show(&format!("{done} of {rows} rows"));
                let conn = self.conn()?;
                conn.query_drop(format!("USE {SCHEMA}"))?;
                data::load_one(conn, (HOT, engine), seed, rows, &mut told)?;
            }
        }
        Ok(())
    }

    /// Copies the data of another side; neither runs.
    pub fn copy_of(&self, other: &Side<'_>) -> Result<()> {
        other.own()?.server.copy_data_to(&self.own()?.server)
    }

    /// When the first session commits, all sessions are connected.
    fn wait_for_transactions(&mut self, client: &mut Sysbench) -> Result<()> {
        let (before, began) = (self.read()?, Instant::now());
        while delta(&before, &self.read()?, Meter::Commits) < 1.0 {
            client.check()?;
            anyhow::ensure!(began.elapsed() < PATIENCE, "{}: no transaction in {PATIENCE:?}", self.name());
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }

    /// Reads the server's own figures.
    pub fn read(&mut self) -> Result<Values> {
        let contender = self.contender;
        meters::read(self.conn()?, contender)
    }

    fn cpu_seconds(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?.as_raw_nonzero())).ok()?;
        // The name in parentheses may contain any character. User and system time are the 12th and
        // 13th field behind it.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
        Some(ticks / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Subject for Side<'_> {
    type Work = Oltp;

    fn series(&self) -> &Series {
        &self.series
    }

    fn series_mut(&mut self) -> &mut Series {
        &mut self.series
    }

    fn work(&self, workload: Workload, sessions: u32, rw_ratio: u32, seed: u64) -> Result<Oltp> {
        workload.load(self.cache, sessions, rw_ratio, seed)
    }

    fn turn(&mut self, work: &Oltp, phase: &str, duration: Duration, progress: &mut Progress) -> Result<Turn> {
        self.pause(false);
        self.series.turns += 1;
        let work = Oltp { seed: work.seed + self.series.turns, ..work.clone() };
        let mut client = Sysbench::start(self.cache, &self.address, &work)?;
        self.wait_for_transactions(&mut client)?;
        let (_, _) = (client.take_latencies(), client.take_p95());
        let (first, cpu, began) = (self.read()?, self.cpu_seconds(), Instant::now());
        let (mut last, mut at, mut each) = (first, began, Vec::new());
        let begin = self.series.ran;
        while began.elapsed() < duration {
            std::thread::sleep(Duration::from_secs(1).min(duration.saturating_sub(began.elapsed())));
            let (now, seconds) = (self.read()?, at.elapsed().as_secs_f64());
            at = Instant::now();
            client.check()?;
            if seconds > 0.5 {
                let second =
                    Second { t: begin + began.elapsed().as_secs_f64(), values: meters::between(&last, &now, seconds) };
                progress.show(&format!("{}, {phase}: {}", self.name(), in_words(&second.values)));
                each.push(second);
            }
            last = now;
        }
        let seconds = (at - began).as_secs_f64();
        let turn = Turn {
            seconds,
            transactions: delta(&first, &last, Meter::Commits),
            cpu_seconds: self.cpu_seconds().zip(cpu).map(|(to, from)| to - from),
            values: meters::between(&first, &last, seconds),
            latencies: client.take_latencies(),
            p95_ms: client.take_p95(),
            waits_us: Vec::new(),
            each,
        };
        drop(client);
        self.series.add(phase, &turn);
        self.pause(true);
        Ok(turn)
    }

    fn memory_mb(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?.as_raw_nonzero())).ok()?;
        let kib = crate::machine::field(&status, "VmRSS")?.split_whitespace().next()?.parse::<f64>().ok()?;
        Some(kib * 1024.0 / 1e6)
    }

    fn hold_snapshot(&mut self) -> Result<()> {
        let mut conn = self.connect()?;
        conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        conn.query_drop("SELECT COUNT(*) FROM zone")?;
        self.snapshot = Some(conn);
        self.pause(true);
        Ok(())
    }

    fn rows_changed(&mut self) -> Result<u64> {
        self.pause(false);
        let mut snapshot = self.snapshot.take().context("no snapshot is held")?;
        let (old, new) = (digests(&mut snapshot)?, digests(&mut self.connect()?)?);
        let (seen, now) = (old.len(), new.len());
        anyhow::ensure!(seen == now, "the snapshot sees {seen} rows of HISTORY, a new one {now}");
        self.pause(true);
        Ok(old.iter().zip(&new).filter(|(a, b)| a != b).count() as u64)
    }

    fn fill_log(&mut self, work: &Oltp, lap: f64, _: &mut Progress) -> Result<bool> {
        self.durable(0)?;
        let full = self.write_log(LAPS * lap, work.seed)?;
        self.durable(1)?;
        if self.on_model {
            let switch = self.own()?.slow_disk();
            std::fs::write(&switch, "").with_context(|| format!("make {}", switch.display()))?;
        }
        self.pause(true);
        Ok(full)
    }
}

impl Side<'_> {
    /// Sets the durability of a commit of a private server: 0 or 1.
    fn durable(&mut self, level: u8) -> Result<()> {
        if self.own.is_none() {
            return Ok(());
        }
        let variable = match self.contender {
            Contender::Holdfast => "holdfast_flush_log_at_trx_commit",
            Contender::InnoDb { .. } => "innodb_flush_log_at_trx_commit",
            Contender::MyRocks => "rocksdb_flush_log_at_trx_commit",
        };
        Ok(self.conn()?.query_drop(format!("SET GLOBAL {variable} = {level}"))?)
    }

    /// Updates rows in random order on connections of its own, until `enough` bytes of log are
    /// written. False if there was not enough time.
    fn write_log(&mut self, enough: f64, seed: u64) -> Result<bool> {
        let workload = self.tables.context("the tables are made")?;
        let (before, began) = (self.written()?, Instant::now());
        let connections = (0..FILLERS).map(|_| self.connect()).collect::<Result<Vec<_>>>()?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let filler = |(n, conn)| {
                let (rng, stop) = (Rng::for_part(seed, n), &stop);
                scope.spawn(move || update_everywhere(conn, workload, rng, stop))
            };
            let fillers: Vec<_> = (0..).zip(connections).map(filler).collect();
            let mut result = Ok(false);
            while matches!(result, Ok(false)) && began.elapsed() < FILLING_MAX {
                std::thread::sleep(Duration::from_millis(100));
                result = self.written().map(|now| now - before >= enough);
            }
            stop.store(true, Ordering::Release);
            for filler in fillers {
                let ended = filler.join().unwrap_or_else(|_| Err(anyhow!("a thread that fills the log panicked")));
                result = result.and_then(|full| ended.map(|()| full));
            }
            result
        })
    }

    fn written(&mut self) -> Result<f64> {
        Ok(self.read()?[Meter::Log as usize].unwrap_or(0.0))
    }
}

/// Longest time for filling the log.
pub const FILLING_MAX: Duration = Duration::from_secs(120);
/// Laps of the log, as far as flushing lets it grow. In the first lap, pages are written ahead of
/// time; in the second, in time. One more, since a block of the log that is written again counts
/// again.
const LAPS: f64 = 3.0;
/// Connections that fill the log. With many of them the log grows faster than pages can be written,
/// and late pages stay late together, a lap later.
const FILLERS: u64 = 2;

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

impl Drop for Side<'_> {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            // Its data is removed with the experiment, so it is not shut down.
            if self.up.take().is_some() {
                let _ = own.server.kill();
            }
            let _ = own.server.remove();
        }
    }
}

fn delta(from: &Values, to: &Values, meter: Meter) -> f64 {
    to[meter as usize].zip(from[meter as usize]).map_or(0.0, |(to, from)| to - from)
}

fn in_words(values: &Values) -> String {
    let shown =
        [(Meter::Commits, "tps"), (Meter::History, "history"), (Meter::Free, "free pages"), (Meter::Reads, "reads/s")];
    let word = |(meter, unit): (Meter, &str)| values[meter as usize].map(|v| format!("{} {unit}", human(v)));
    shown.into_iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

/// The cache of a server that makes tables.
const LOAD_POOL: u64 = 256 << 20;

/// Options for hundreds of sessions that connect at the same moment, the same for all engines.
pub const FOR_MANY_SESSIONS: [&str; 6] = [
    "--skip-networking",
    "--max-connections=1100",
    "--back-log=1100",
    "--table-open-cache=8000",
    "--thread-cache-size=300",
    "--max-prepared-stmt-count=100000",
];
