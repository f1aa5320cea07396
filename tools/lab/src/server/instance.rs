//! A server under load.
//!
//! The server's time is the time in which its clients run. They are stopped during a pause, so that
//! two servers can be measured in turns on the same cores, and while the server lists the content
//! of its pool.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_server::Cache;

use super::address::Address;
use super::contender::Contender;
use super::load::{Dump, Oltp, Sysbench};
use super::own::OwnServer;
use super::probe::Probe;
use crate::bench::{Counters, Loaded, SEGMENTS, by_segment};
use crate::measure::median;
use crate::pin::Cores;
use crate::target::Resident;

/// Pages of the pool per sample between two listings of it, since a listing of InnoDB's pool takes
/// long.
const PAGES_PER_LISTING: u64 = 4096;

/// The parameters of an instance.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The engine of the tables, which is its name in texts.
    pub contender: Contender,
    /// Size of its pool, in bytes.
    pub pool_bytes: u64,
    /// Rows of the big table.
    pub big_rows: u32,
    /// True if the content of the pool is listed.
    pub listed: bool,
    /// What sysbench does.
    pub oltp: Oltp,
}

/// A server with its clients.
pub struct Instance<'c> {
    cache: &'c Cache,
    cores: &'c Cores,
    address: Address,
    spec: Spec,
    /// A connection for queries.
    pub probe: Probe,
    oltp: Option<Sysbench>,
    dump: Option<Dump>,
    /// Bytes of the dumps that were stopped.
    dumped_before: u64,
    /// For how long the clients ran before they were let run the last time.
    ran: Duration,
    /// Since when they run.
    runs_since: Option<Instant>,
    bytes_per_row: f64,
    /// Samples from one listing of the pool to the next; `None` for no listing.
    listing_every: Option<u64>,
    listed: Vec<f64>,
    /// The private server; `None` for one that the lab did not start. It is killed behind its
    /// clients: nothing was written, and its data is removed with the experiment.
    server: Option<OwnServer<'c>>,
}

/// An estimate until the first dump has ended.
const BYTES_PER_ROW: f64 = 205.0;
/// How often a dump goes through as many pages as the pool has, about.
const TURNOVERS_OF_A_DUMP: f64 = 6.0;

impl<'c> Instance<'c> {
    /// Measures `server`, which runs.
    pub fn of_own(cache: &'c Cache, cores: &'c Cores, server: OwnServer<'c>, spec: Spec) -> Result<Instance<'c>> {
        let mut instance = Instance::attach(cache, cores, server.address.clone(), spec)?;
        instance.server = Some(server);
        Ok(instance)
    }

    /// Connects to a running server.
    pub fn attach(cache: &'c Cache, cores: &'c Cores, address: Address, spec: Spec) -> Result<Instance<'c>> {
        let probe = Probe::new(&address, spec.contender)?;
        Ok(Instance {
            cache,
            cores,
            address,
            probe,
            oltp: None,
            dump: None,
            dumped_before: 0,
            ran: Duration::ZERO,
            runs_since: None,
            bytes_per_row: BYTES_PER_ROW,
            listing_every: spec.listed.then(|| (spec.pool_bytes / (16 << 10) / PAGES_PER_LISTING).max(1)),
            listed: vec![0.0; SEGMENTS.len()],
            spec,
            server: None,
        })
    }

    /// Shuts the server down, so that its data can be copied.
    pub fn shut_down(mut self) -> Result<()> {
        (self.oltp, self.dump) = (None, None);
        self.server.as_mut().map_or(Ok(()), OwnServer::shut_down)
    }

    fn stop_clients(&self, stop: bool) {
        self.oltp.iter().for_each(|oltp| oltp.stop(stop));
        self.dump.iter().for_each(|dump| dump.stop(stop));
    }

    /// Dumps finished since the dump was started.
    fn dumps(&self) -> u64 {
        self.dump.as_ref().map_or(0, Dump::finished)
    }
}

impl Loaded for Instance<'_> {
    fn start_oltp(&mut self, rate: Option<f64>) -> Result<()> {
        let sysbench = Sysbench::start(self.cache, &self.address, &Oltp { rate, ..self.spec.oltp.clone() })?;
        sysbench.stop(true);
        self.oltp = Some(sysbench);
        Ok(())
    }

    fn stop_oltp(&mut self) -> Result<()> {
        self.oltp = None;
        Ok(())
    }

    fn start_dump(&mut self) -> Result<()> {
        self.stop_dump()?;
        let dump = Dump::start(self.cache, &self.address, self.cores);
        dump.stop(true);
        self.dump = Some(dump);
        Ok(())
    }

    fn stop_dump(&mut self) -> Result<()> {
        self.dumped_before += self.dump.take().map_or(0, |dump| dump.bytes());
        Ok(())
    }

    fn set_running(&mut self, runs: bool) {
        self.stop_clients(!runs);
        self.ran += self.runs_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.runs_since = runs.then(Instant::now);
    }

    fn now(&self) -> f64 {
        (self.ran + self.runs_since.map_or(Duration::ZERO, |since| since.elapsed())).as_secs_f64()
    }

    fn counters(&mut self) -> Result<Counters> {
        self.oltp.as_mut().map_or(Ok(()), Sysbench::check)?;
        let log = || self.server.as_ref().map(OwnServer::log_tail).unwrap_or_default();
        self.dump.as_ref().map_or(Ok(()), Dump::check).with_context(log)?;
        let dumped = self.dumped_before + self.dump.as_ref().map_or(0, Dump::bytes);
        Ok(Counters { dumped, ..self.probe.counters()? })
    }

    fn rows(&self, dumped: f64) -> f64 {
        dumped / self.bytes_per_row
    }

    fn pool_turnovers(&self) -> f64 {
        self.dumps() as f64 * TURNOVERS_OF_A_DUMP
    }

    /// The next dump has begun meanwhile; half an interval of it is little against the whole.
    fn turned_over(&mut self, dumped: u64) -> Result<()> {
        ensure!(self.dumps() > 0, "one dump takes longer than {:.0} s", self.now());
        self.bytes_per_row = dumped as f64 / f64::from(self.spec.big_rows);
        Ok(())
    }

    fn take_p95(&mut self) -> Option<f64> {
        median(&self.oltp.as_ref().map(Sysbench::take_p95).unwrap_or_default())
    }

    fn resident(&mut self) -> Result<Vec<Resident>> {
        self.probe.resident()
    }

    /// Lists the pool's content, if that is due.
    fn listed(&mut self, n: usize) -> Result<Vec<f64>> {
        if self.listing_every.is_some_and(|every| (n as u64).is_multiple_of(every)) {
            self.set_running(false);
            let resident = self.resident()?;
            self.set_running(true);
            self.listed = by_segment(&resident);
        }
        Ok(self.listed.clone())
    }
}
