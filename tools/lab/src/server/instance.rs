//! A server under load, sampled.
//!
//! The server's time is the time in which its clients run. Between two calls of
//! [`Instance::run_until`] they are stopped, so that two servers can be measured in turns on the
//! same cores. They are also stopped while the server lists the content of its pool.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdfast_server::Cache;

use super::address::Address;
use super::contender::Contender;
use super::load::{Dump, Oltp, Sysbench};
use super::own::OwnServer;
use super::probe::Probe;
use crate::bench::{Mark, Phase, Recording, SEGMENTS, Sample};
use crate::experiments::sideload::outcome::mb_of;
use crate::measure::{human, per_second};
use crate::pin::Cores;
use crate::progress::Progress;
use crate::target::Resident;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(500);
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
}

/// A server with its clients.
pub struct Instance<'c> {
    cache: &'c Cache,
    cores: &'c Cores,
    address: Address,
    /// A connection for queries.
    pub probe: Probe,
    oltp: Option<Sysbench>,
    dump: Option<Dump>,
    /// Bytes of the dumps that were stopped.
    dumped_before: u64,
    ran: f64,
    bytes_per_row: f64,
    big_rows: u32,
    /// Samples from one listing of the pool to the next; `None` for no listing.
    listing_every: Option<u64>,
    listed: Vec<f64>,
    recording: Recording,
    /// The private server; `None` for one that the lab did not start. It is killed behind its
    /// clients: nothing was written, and its data is removed with the experiment.
    server: Option<OwnServer<'c>>,
}

/// An estimate until the first dump has ended.
const BYTES_PER_ROW: f64 = 205.0;

impl<'c> Instance<'c> {
    /// Measures `server`, which runs.
    pub fn of_own(cache: &'c Cache, cores: &'c Cores, server: OwnServer<'c>, spec: &Spec) -> Result<Instance<'c>> {
        let mut instance = Instance::attach(cache, cores, server.address.clone(), spec)?;
        instance.server = Some(server);
        Ok(instance)
    }

    /// Connects to a running server.
    pub fn attach(cache: &'c Cache, cores: &'c Cores, address: Address, spec: &Spec) -> Result<Instance<'c>> {
        let probe = Probe::new(&address, spec.contender)?;
        Ok(Instance {
            cache,
            cores,
            address,
            probe,
            oltp: None,
            dump: None,
            dumped_before: 0,
            ran: 0.0,
            bytes_per_row: BYTES_PER_ROW,
            big_rows: spec.big_rows,
            listing_every: spec.listed.then(|| (spec.pool_bytes / (16 << 10) / PAGES_PER_LISTING).max(1)),
            listed: vec![0.0; SEGMENTS.len()],
            recording: Recording::new(&spec.contender.to_string()),
            server: None,
        })
    }

    /// Shuts the server down, so that its data can be copied.
    pub fn shut_down(mut self) -> Result<()> {
        self.stop_oltp();
        self.stop_dump();
        self.server.as_mut().map_or(Ok(()), OwnServer::shut_down)
    }

    /// Starts sysbench, stopped.
    pub fn start_oltp(&mut self, oltp: &Oltp) -> Result<()> {
        let sysbench = Sysbench::start(self.cache, &self.address, oltp)?;
        sysbench.stop(true);
        self.oltp = Some(sysbench);
        Ok(())
    }

    /// Ends sysbench.
    pub fn stop_oltp(&mut self) {
        self.oltp = None;
    }

    /// Starts the dump, stopped.
    pub fn start_dump(&mut self) {
        let dump = Dump::start(self.cache, &self.address, self.cores);
        dump.stop(true);
        self.dump = Some(dump);
    }

    /// Ends the dump.
    pub fn stop_dump(&mut self) {
        self.dumped_before += self.dump.take().map_or(0, |dump| dump.bytes());
    }

    /// Dumps finished since the dump was started.
    pub fn dumps(&self) -> u64 {
        self.dump.as_ref().map_or(0, Dump::finished)
    }

    /// Sets the length of a dump, which is known once one has ended.
    pub fn learn_length(&mut self, bytes: u64) {
        self.bytes_per_row = bytes as f64 / f64::from(self.big_rows);
    }

    /// Seconds of a dump at that many bytes a second.
    pub fn dump_seconds(&self, bytes_per_second: f64) -> f64 {
        f64::from(self.big_rows) * self.bytes_per_row / bytes_per_second.max(1.0)
    }

    /// The rows in that many bytes of the dump.
    pub fn rows(&self, bytes: f64) -> f64 {
        bytes / self.bytes_per_row
    }

    /// 95th percentiles of sysbench's seconds since the last call, in milliseconds.
    pub fn take_p95(&self) -> Vec<f64> {
        self.oltp.as_ref().map(Sysbench::take_p95).unwrap_or_default()
    }

    /// Samples and phases so far.
    pub fn series(&self) -> (&[Sample], &[Phase]) {
        self.recording.series()
    }

    /// All counters now, while the server's time is stopped.
    pub fn mark(&mut self) -> Result<Mark> {
        self.mark_at(self.ran)
    }

    fn mark_at(&mut self, t: f64) -> Result<Mark> {
        let dumped = self.dumped_before + self.dump.as_ref().map_or(0, Dump::bytes);
        Ok(Mark { t, counters: self.probe.counters()?, dumped, pool: () })
    }

    /// The content of the cache.
    pub fn resident(&mut self) -> Result<Vec<Resident>> {
        self.probe.resident()
    }

    /// Lets the clients run for `duration` as part of phase `phase`, or until `enough` returns true
    /// for a mark. Returns the marks at the start and at the end, and true in the second case.
    pub fn run_until(
        &mut self,
        phase: &str,
        duration: Duration,
        progress: &mut Progress,
        enough: &mut dyn FnMut(&Instance<'c>, &Mark) -> bool,
    ) -> Result<(Mark, Mark, bool)> {
        self.recording.enter(phase, self.ran);
        let first = self.mark()?;
        let before = self.ran;
        let began = Instant::now();
        // The time for which the clients were stopped meanwhile.
        let mut listing = Duration::ZERO;
        let ran = |listing: Duration| began.elapsed().saturating_sub(listing);
        self.stop_clients(false);
        let mut last = first.clone();
        let mut done = false;
        while !done && ran(listing) < duration {
            std::thread::sleep(INTERVAL.min(duration.saturating_sub(ran(listing))));
            let mark = self.mark_at(before + ran(listing).as_secs_f64())?;
            self.check_clients()?;
            done = enough(self, &mark);
            if mark.t - last.t >= INTERVAL.as_secs_f64() * 0.5 {
                listing += self.list()?;
                self.sample(&last, &mark, progress);
                last = mark;
            }
        }
        let end = self.mark_at(before + ran(listing).as_secs_f64())?;
        self.stop_clients(true);
        self.ran = end.t;
        self.recording.leave(end.t);
        Ok((first, end, done))
    }

    /// As [`Instance::run_until`], for all of `duration`.
    pub fn run(&mut self, phase: &str, duration: Duration, progress: &mut Progress) -> Result<(Mark, Mark)> {
        self.run_until(phase, duration, progress, &mut |_, _| false).map(|(first, end, _)| (first, end))
    }

    fn stop_clients(&self, stop: bool) {
        if let Some(oltp) = &self.oltp {
            oltp.stop(stop);
        }
        if let Some(dump) = &self.dump {
            dump.stop(stop);
        }
    }

    fn check_clients(&mut self) -> Result<()> {
        if let Some(oltp) = &mut self.oltp {
            oltp.check()?;
        }
        let log = || self.server.as_ref().map(OwnServer::log_tail).unwrap_or_default();
        self.dump.as_ref().map_or(Ok(()), Dump::check).with_context(log)
    }

    /// Lists the pool's content, if a listing is due, while the clients are stopped. Returns for
    /// how long they were.
    fn list(&mut self) -> Result<Duration> {
        let samples = self.series().0.len() as u64;
        if !self.listing_every.is_some_and(|every| samples.is_multiple_of(every)) {
            return Ok(Duration::ZERO);
        }
        let began = Instant::now();
        self.stop_clients(true);
        let resident = self.resident()?;
        self.stop_clients(false);
        self.listed = SEGMENTS.map(|s| mb_of(&resident, s.table, s.index)).to_vec();
        Ok(began.elapsed())
    }

    fn sample(&mut self, last: &Mark, mark: &Mark, progress: &mut Progress) {
        let window = mark.since(last);
        let sample = Sample {
            t: mark.t,
            tps: window.tps,
            dump_rows_per_s: self.rows(window.dumped_per_s),
            hot_reads_per_s: mark.hot_reads_since(last).map(|reads| per_second(reads, window.seconds)),
            resident_mb: self.listed.clone(),
        };
        // The block cache of MyRocks does not say what it holds.
        let is_told = self.listed.iter().any(|&mb| mb > 0.0);
        let listed = self.listing_every.filter(|_| is_told).map(|_| self.listed[0]);
        let hot = of_hot_table(sample.hot_reads_per_s, listed);
        self.recording.add(sample, &hot, progress);
    }
}

/// What is known of the hot table: reads per second, and MB in the pool.
fn of_hot_table(reads: Option<f64>, listed: Option<f64>) -> String {
    let mb = listed.map_or_else(String::new, |mb| format!(", {mb:.1} MB of it in the pool"));
    let reads = reads.map_or_else(|| "of unknown reads".to_owned(), |n| format!("read {} times a second", human(n)));
    reads + &mb
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Counters;

    /// A server that does not report its reads was told to read nothing, second by second.
    #[test]
    fn reads_that_a_server_does_not_report_are_no_zero() {
        assert_eq!(of_hot_table(None, Some(2.0)), "of unknown reads, 2.0 MB of it in the pool");
        assert_eq!(of_hot_table(Some(0.0), None), "read 0 times a second");
        let counters = |hot_reads| Counters { hot_reads, ..Counters::default() };
        let mark = |t: f64, hot_reads| Mark { t, counters: counters(hot_reads), dumped: 0, pool: () };
        assert_eq!(mark(1.0, None).hot_reads_since(&mark(0.0, None)), None);
        assert_eq!(mark(1.0, Some(9)).hot_reads_since(&mark(0.0, Some(4))), Some(5));
    }
}
