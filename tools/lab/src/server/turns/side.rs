//! One of the servers that are measured in turns.
//!
//! A private server is stopped (SIGSTOP) during the turns of another one, its background work
//! included. So work that an engine delays falls into its own next turn. Clients are new in every
//! turn, so that no latency contains the time of the others.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use holdfast_server::Cache;
use holdfast_server::process::processor_time;
use holdfast_workload::rng::Rng;
use mysql::Conn;
use mysql::prelude::Queryable;
use rustix::process::{Pid, Signal, kill_process};

use super::workload::{Workload, script};
use crate::experiments::sideload::HOT;
use crate::pin::Cores;
use crate::progress::Progress;
use crate::rig::memory;
use crate::server::address::Address;
use crate::server::contender::Contender;
use crate::server::data::{self, SCHEMA};
use crate::server::load::{self, Oltp, Sysbench};
use crate::server::options;
pub use crate::server::options::Settings;
use crate::server::own::OwnServer;
use crate::server::slow_disk::SlowDisk;
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

/// A server and its measurements.
pub struct Side<'c> {
    cache: &'c Cache,
    cores: &'c Cores,
    series: Series,
    /// Engine of the tables.
    pub contender: Contender,
    address: Address,
    /// `None` for a server that runs already.
    own: Option<OwnServer<'c>>,
    /// The running server.
    up: Option<Up>,
    snapshot: Option<Conn>,
    /// The workload of its tables.
    tables: Option<Workload>,
    /// True if it runs on a modelled disk.
    on_model: bool,
    /// The options of its starts.
    starts: Vec<Vec<String>>,
}

/// A running server.
pub struct Up {
    /// A connection for queries.
    pub conn: Conn,
    /// Its process, if it is known.
    pub pid: Option<u32>,
}

/// The longest time until the first transaction of a turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time from the first transaction to the measurement.
const SETTLE: Duration = Duration::from_millis(200);

impl<'c> Side<'c> {
    /// Returns a private server without data.
    pub fn private(cache: &'c Cache, cores: &'c Cores, name: &str, contender: Contender) -> Result<Side<'c>> {
        let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let own = OwnServer::of(cache, contender, &letters.to_lowercase())?;
        own.remove()?;
        Ok(Side::new(cache, cores, name, contender, own.address.clone(), Some(own)))
    }

    /// Returns a running server. It is neither started nor stopped, and is not paused.
    pub fn of_running_server(
        cache: &'c Cache,
        cores: &'c Cores,
        name: &str,
        contender: Contender,
        (address, up): (Address, Up),
    ) -> Side<'c> {
        let mut side = Side::new(cache, cores, name, contender, address, None);
        side.up = Some(up);
        side
    }

    fn new(
        cache: &'c Cache,
        cores: &'c Cores,
        name: &str,
        contender: Contender,
        address: Address,
        own: Option<OwnServer<'c>>,
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
            starts: Vec::new(),
        }
    }

    fn own(&self) -> Result<&OwnServer<'c>> {
        self.own.as_ref().with_context(|| format!("{} is not a server of the lab's own", self.name()))
    }

    /// Starts it and pauses it.
    pub fn start(&mut self, settings: &Settings) -> Result<()> {
        let options = options::of_own(self.contender, settings);
        let disk = settings.modelled.map(|model| SlowDisk { model, later: true });
        self.start_with(&options, disk)?;
        if !self.starts.contains(&options) {
            self.starts.push(options);
        }
        self.pause(true);
        Ok(())
    }

    fn start_with(&mut self, options: &[String], disk: Option<SlowDisk>) -> Result<()> {
        self.on_model = disk.is_some();
        let name = self.name().to_owned();
        let own = self.own.as_mut().with_context(|| format!("{name} is not a server of the lab's own"))?;
        own.start(options, self.cores, disk).with_context(|| format!("start a server for {name}"))?;
        let pid = own.pid();
        self.up = Some(Up { conn: Conn::new(self.address.options()).context("connect to the server")?, pid });
        Ok(())
    }

    /// Shuts it down.
    pub fn stop(&mut self) -> Result<()> {
        self.pause(false);
        self.up = None;
        self.own.as_mut().map_or(Ok(()), OwnServer::shut_down)
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.up = None;
        self.own.iter_mut().for_each(OwnServer::kill);
    }

    /// Its process, while it runs and if it is known.
    pub fn process(&self) -> Option<u32> {
        self.up.as_ref()?.pid
    }

    /// Pauses a private server, or continues it.
    pub fn pause(&self, still: bool) {
        let pid = self.process().filter(|_| self.own.is_some());
        if let Some(pid) = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // A server that has ended needs no signal; the next query reports it.
            let _ = kill_process(pid, if still { Signal::STOP } else { Signal::CONT });
        }
    }

    /// The connection for queries. Continues the server.
    pub fn conn(&mut self) -> Result<&mut Conn> {
        self.pause(false);
        self.up.as_mut().map(|up| &mut up.conn).context("the server is not running")
    }

    /// Another connection, in the schema of the tables.
    pub fn connect(&self) -> Result<Conn> {
        self.pause(false);
        Conn::new(self.address.options().db_name(Some(SCHEMA))).context("connect to the server")
    }

    /// Creates schema and tables. The server is started for it, and shut down.
    pub fn load(&mut self, data: Data, seed: u64, progress: &mut Progress) -> Result<()> {
        progress.step(&format!("{}: making the tables", self.name()));
        self.own()?.make_data()?;
        let mut options = options::of(self.contender, LOAD_POOL, 1.0);
        options.push("--innodb-flush-log-at-trx-commit=0".to_owned());
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
                asked.extend([format!("--mysql-storage-engine={engine}"), load::rand_seed(seed)]);
                load::prepare(cache, &address, &script(cache, workload.script())?, SCHEMA, &asked)?;
            }
            Data::Sbtest(rows) => {
                let mut told = |done: u32| progress.show_part((done.into(), rows.into()), "rows");
                let conn = self.conn()?;
                conn.query_drop(format!("USE {SCHEMA}"))?;
                data::load_one(conn, (HOT, engine), seed, rows, &mut told)?;
            }
        }
        Ok(())
    }

    /// Copies the data of another side; neither runs.
    pub fn copy_of(&self, other: &Side<'_>) -> Result<()> {
        other.own()?.copy_data_to(self.own()?)
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
        processor_time(self.process()?).ok().map(|used| used.as_secs_f64())
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
        let work = Oltp { seed: self.series.seed_of_turn(work.seed), ..work.clone() };
        let mut client = Sysbench::start(self.cache, &self.address, &work)?;
        self.wait_for_transactions(&mut client)?;
        let (_, _) = (client.take_latencies(), client.take_p95());
        let (first, cpu, began) = (self.read()?, self.cpu_seconds(), Instant::now());
        let (mut last, mut at, mut each) = (first, began, Vec::new());
        while began.elapsed() < duration {
            std::thread::sleep(Duration::from_secs(1).min(duration.saturating_sub(began.elapsed())));
            let (now, seconds) = (self.read()?, at.elapsed().as_secs_f64());
            at = Instant::now();
            client.check()?;
            if seconds > 0.5 {
                let values = meters::between(&last, &now, seconds);
                let t = began.elapsed().as_secs_f64();
                let second = Second { t, length: seconds, values, ..Second::default() };
                progress.show(&format!("{}, {phase}: {}", self.name(), meters::in_words(&second.values)));
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
            each,
            ..Turn::default()
        };
        drop(client);
        self.series.add(phase, &turn);
        self.pause(true);
        Ok(turn)
    }

    fn started_with(&self) -> Option<String> {
        (!self.starts.is_empty()).then(|| options::in_words(&self.starts))
    }

    fn memory_mb(&self) -> Option<f64> {
        memory::resident_bytes(Some(self.process()?)).ok().map(|bytes| bytes as f64 / 1e6)
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

    fn fill_log(&mut self, work: &Oltp, lap: f64, progress: &mut Progress) -> Result<bool> {
        self.durable(0)?;
        let full = self.write_log(LAPS * lap, work.seed, progress)?;
        self.durable(1)?;
        if self.on_model {
            self.own()?.slow_down()?;
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
        let variable = self.contender.variable("flush_log_at_trx_commit");
        Ok(self.conn()?.query_drop(format!("SET GLOBAL {variable} = {level}"))?)
    }

    /// Updates rows in random order on connections of its own, until `enough` bytes of log are
    /// written. False if there was not enough time.
    fn write_log(&mut self, enough: f64, seed: u64, progress: &mut Progress) -> Result<bool> {
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
                result = self.written().map(|now| {
                    progress.show_part((((now - before) / 1e6) as u64, (enough / 1e6) as u64), "MB of log");
                    now - before >= enough
                });
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
const FILLING_MAX: Duration = Duration::from_secs(120);
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
        if let Some(mut own) = self.own.take() {
            // Its data is removed with the experiment, so it is not shut down.
            own.kill();
            let _ = own.remove();
        }
    }
}

fn delta(from: &Values, to: &Values, meter: Meter) -> f64 {
    to[meter as usize].zip(from[meter as usize]).map_or(0.0, |(to, from)| to - from)
}

/// The cache of a server that makes tables.
const LOAD_POOL: u64 = 256 << 20;
