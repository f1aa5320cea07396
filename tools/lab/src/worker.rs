//! The engine in this process under load: the threads of a run and the way they are paused.
//! OLTP sessions and the dump stop at a [`Gate`] between two transactions or rows.
//!
//! # Protocol
//! 1. Every worker calls `Gate::pass` again and again.
//! 2. `Gate::pause` returns when all of them wait at the gate, so nothing happens to the target
//!    during a pause.
//! 3. [`Gate::resume`] lets them go on.
//! 4. A worker whose own stop flag is set ends.
//!
//! All times are the target's ([`crate::clock::PausableClock`]), which does not pass during a
//! pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use holdfast_io::Clock;
use holdfast_workload::dist::{Distribution, Kind};
use holdfast_workload::dump::{self, Formatter};
use holdfast_workload::rate::{Next, Schedule};
use holdfast_workload::sysbench::{self, Client, Mix};
use holdfast_workload::{Scan, TableNo};
use parking_lot::{Condvar, Mutex};

use crate::bench::{Counters, Loaded};
use crate::experiments::sideload::HOT;
use crate::pin::{Cores, Role};
use crate::target::embedded::Embedded;
use crate::target::{FREE, PoolState, Resident, Target};

/// The gate where workers wait while their target is paused.
#[derive(Debug, Default)]
struct Gate {
    closed: AtomicBool,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    workers: usize,
    waiting: usize,
}

impl Gate {
    /// Waits while the gate is closed. False if the worker must end.
    fn pass(&self, stop: &AtomicBool) -> bool {
        if self.closed.load(Ordering::Acquire) {
            let mut state = self.state.lock();
            state.waiting += 1;
            self.changed.notify_all();
            while self.closed.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
                self.changed.wait(&mut state);
            }
            state.waiting -= 1;
        }
        !stop.load(Ordering::Acquire)
    }

    /// Closes the gate, and returns when every worker waits at it.
    fn pause(&self) {
        self.closed.store(true, Ordering::Release);
        let mut state = self.state.lock();
        while state.waiting < state.workers {
            self.changed.wait(&mut state);
        }
    }

    /// Opens the gate.
    fn resume(&self) {
        let _state = self.state.lock();
        self.closed.store(false, Ordering::Release);
        self.changed.notify_all();
    }

    fn enter(&self) {
        self.state.lock().workers += 1;
    }

    fn leave(&self) {
        self.state.lock().workers -= 1;
        self.changed.notify_all();
    }

    fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }
}

/// The counts of the workers so far.
#[derive(Debug)]
struct Work {
    transactions: AtomicU64,
    /// Rows dumped.
    dumped_rows: AtomicU64,
    /// Dumps finished.
    dumps: AtomicU64,
    /// Latencies of transactions since they were last taken, in microseconds.
    latency: Mutex<Histogram<u64>>,
}

/// The longest latency that is distinguished, in microseconds: ten minutes.
const LATENCY_MAX_US: u64 = 600_000_000;

impl Work {
    fn new() -> Work {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("the bounds are in order");
        Work {
            transactions: AtomicU64::new(0),
            dumped_rows: AtomicU64::new(0),
            dumps: AtomicU64::new(0),
            latency: Mutex::new(histogram),
        }
    }

    /// Takes the latencies recorded since the last call.
    fn take_latency(&self) -> Histogram<u64> {
        let mut latency = self.latency.lock();
        let taken = latency.clone();
        latency.reset();
        taken
    }
}

/// An OLTP load.
#[derive(Clone, Copy, Debug)]
pub struct OltpLoad {
    pub mix: Mix,
    /// Rows of the hot table.
    pub rows: u32,
    /// The distribution of the rows.
    pub distribution: Kind,
    pub sessions: usize,
    /// Transactions per second of all sessions together, open loop; `None` for as fast as they can.
    pub rate: Option<f64>,
    pub seed: u64,
}

/// A dump in a loop.
#[derive(Clone, Debug)]
pub struct DumpLoad {
    pub table: TableNo,
    pub name: String,
    /// The dump's declaration of its scan.
    pub scan: Scan,
    /// Rows per second that the dump's client takes; `None` for no limit.
    pub rows_per_second: Option<f64>,
}

struct Worker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

/// The workers of one target.
pub struct Workers {
    target: Arc<Embedded>,
    cores: Cores,
    load: (OltpLoad, DumpLoad),
    gate: Arc<Gate>,
    work: Arc<Work>,
    oltp: Vec<Worker>,
    dump: Vec<Worker>,
    hurries: bool,
    /// The state of the pool when the counters were read last.
    pub pool: PoolState,
    /// Pages per row of the table that is dumped, once they are known.
    pub pages_per_row: f64,
    /// Rows dumped when the dump was started.
    dumped_before: u64,
}

/// The parts of a worker thread.
struct Place {
    target: Arc<Embedded>,
    gate: Arc<Gate>,
    work: Arc<Work>,
    stop: Arc<AtomicBool>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

impl Workers {
    /// No workers yet.
    pub fn new(target: Embedded, cores: Cores, load: (OltpLoad, DumpLoad)) -> Workers {
        Workers {
            target: Arc::new(target),
            cores,
            load,
            gate: Arc::new(Gate::default()),
            work: Arc::new(Work::new()),
            oltp: Vec::new(),
            dump: Vec::new(),
            hurries: false,
            pool: PoolState::default(),
            pages_per_row: 0.0,
            dumped_before: 0,
        }
    }

    /// Dumps finished.
    pub fn dumps(&self) -> u64 {
        self.work.dumps.load(Ordering::Relaxed)
    }

    /// Starts a dump. A running one is stopped first.
    pub fn dump(&mut self, load: DumpLoad) -> Result<()> {
        self.stop_dump()?;
        self.dumped_before = self.dumped();
        let cores = self.cores.clone();
        let worker = self.spawn("dump", move |place| {
            cores.pin(Role::Dump);
            dump(place, &load)
        })?;
        self.dump.push(worker);
        Ok(())
    }

    fn spawn(&self, name: &str, body: impl FnOnce(&Place) -> Result<()> + Send + 'static) -> Result<Worker> {
        let stop = Arc::new(AtomicBool::new(false));
        let place = Place {
            target: Arc::clone(&self.target),
            gate: Arc::clone(&self.gate),
            work: Arc::clone(&self.work),
            stop: Arc::clone(&stop),
        };
        self.gate.enter();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || body(&place));
        Ok(Worker { stop, thread: thread.context("start a thread")? })
    }
}

impl Loaded for Workers {
    fn start_oltp(&mut self, rate: Option<f64>) -> Result<()> {
        self.stop_oltp()?;
        let load = OltpLoad { rate, ..self.load.0 };
        for session in 0..load.sessions {
            let cores = self.cores.clone();
            let worker = self.spawn(&format!("oltp-{session}"), move |place| {
                cores.pin(Role::Oltp(session));
                oltp(place, load, session)
            })?;
            self.oltp.push(worker);
        }
        Ok(())
    }

    fn stop_oltp(&mut self) -> Result<()> {
        stop_all(&self.gate, self.oltp.drain(..).collect())
    }

    fn start_dump(&mut self) -> Result<()> {
        let load = self.load.1.clone();
        self.dump(DumpLoad { rows_per_second: load.rows_per_second.filter(|_| !self.hurries), ..load })
    }

    fn stop_dump(&mut self) -> Result<()> {
        stop_all(&self.gate, self.dump.drain(..).collect())
    }

    fn set_running(&mut self, runs: bool) {
        if runs {
            self.target.clock().resume();
            self.gate.resume();
        } else {
            self.gate.pause();
            self.target.clock().pause();
        }
    }

    fn hurry(&mut self, hurries: bool) -> bool {
        self.target.set_slow(!hurries);
        self.hurries = hurries;
        hurries
    }

    fn now(&self) -> f64 {
        self.target.clock().now().as_secs_f64()
    }

    /// A worker ends only when it fails.
    fn check(&mut self) -> Result<()> {
        let ended = |w: &Worker| w.thread.is_finished();
        if self.oltp.iter().any(ended) {
            return self.stop_oltp();
        }
        if self.dump.iter().any(ended) {
            return self.stop_dump();
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<Counters> {
        let commits = self.work.transactions.load(Ordering::Relaxed);
        self.pool = self.target.pool()?;
        let (made_young, not_young) = (Some(self.pool.made_young), Some(self.pool.not_young));
        Ok(Counters { commits, hot_reads: Some(self.pool.disk_reads(HOT)), made_young, not_young })
    }

    fn dumped(&self) -> u64 {
        self.work.dumped_rows.load(Ordering::Relaxed)
    }

    fn pool_turnovers(&self) -> f64 {
        (self.dumped() - self.dumped_before) as f64 * self.pages_per_row / self.pool.pool_pages as f64
    }

    fn take_p95(&mut self) -> Option<f64> {
        Some(self.work.take_latency().value_at_quantile(0.95) as f64 / 1000.0)
    }

    /// That of the pool when the counters were read last.
    fn resident(&mut self) -> Result<Vec<Resident>> {
        let (pages, mb) = (self.pool.free_pages, self.pool.mb(self.pool.free_pages));
        let free = Resident { table: FREE.to_owned(), index: String::new(), pages, mb };
        Ok(self.pool.indexes.iter().cloned().chain([free]).collect())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // A caller that needs the failures has stopped the workers before.
        let _ = self.stop_oltp();
        let _ = self.stop_dump();
    }
}

fn stop_all(gate: &Gate, workers: Vec<Worker>) -> Result<()> {
    workers.iter().for_each(|w| w.stop.store(true, Ordering::Release));
    gate.wake();
    let mut result = Ok(());
    for worker in workers {
        let ended = worker.thread.join().unwrap_or_else(|_| Err(anyhow!("a worker thread panicked")));
        result = result.and(ended);
    }
    result
}

/// The longest sleep between two checks of the gate.
const NAP: Duration = Duration::from_millis(2);

fn oltp(place: &Place, load: OltpLoad, session: usize) -> Result<()> {
    let clock = place.target.clock();
    let mut sql = place.target.sql();
    let distribution = Distribution::new(load.distribution, u64::from(load.rows));
    let mut client = Client::new(load.mix, load.rows, distribution, load.seed, session as u64);
    let seed = load.seed ^ session as u64;
    let mut schedule = load.rate.map(|rate| Schedule::new(rate / load.sessions as f64, clock.now(), seed));
    while place.gate.pass(&place.stop) {
        let now = clock.now();
        let due = match schedule.as_mut().map(|s| s.poll(now)) {
            None => now,
            Some(Next::Due(at)) => at,
            Some(Next::At(at)) => {
                clock.sleep((at - now).min(NAP));
                continue;
            }
        };
        client.event(&mut sql).map_err(|f| anyhow!("OLTP: {f}"))?;
        let latency = clock.now().saturating_sub(due);
        place.work.transactions.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        place.work.latency.lock().saturating_record(micros.max(1));
    }
    Ok(())
}

/// Rows between two checks of gate and pace by the dump.
const DUMP_STRIDE: u64 = 256;
/// How far the dump may catch up after a delay.
const DUMP_BURST: Duration = Duration::from_millis(5);

fn dump(place: &Place, load: &DumpLoad) -> Result<()> {
    let clock = place.target.clock();
    let mut rows = place.target.rows();
    let mut next = clock.now();
    let pause = load.rows_per_second.map(|rate| Duration::from_secs_f64(DUMP_STRIDE as f64 / rate));
    while place.gate.pass(&place.stop) {
        let mut formatter = Formatter::new(&load.name, sysbench::schema());
        let mut counted = 0;
        let written = dump::dump(&mut rows, load.table, &mut formatter, load.scan, &mut |written| {
            if !written.rows.is_multiple_of(DUMP_STRIDE) {
                return true;
            }
            place.work.dumped_rows.fetch_add(written.rows - counted, Ordering::Relaxed);
            counted = written.rows;
            if let Some(pause) = pause {
                let now = clock.now();
                next = (next + pause).max(now.saturating_sub(DUMP_BURST));
                if next > now {
                    clock.sleep(next - now);
                }
            }
            place.gate.pass(&place.stop)
        });
        let written = written.map_err(|f| anyhow!("dump: {f}"))?;
        place.work.dumped_rows.fetch_add(written.rows - counted, Ordering::Relaxed);
        if !place.stop.load(Ordering::Acquire) {
            place.work.dumps.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
