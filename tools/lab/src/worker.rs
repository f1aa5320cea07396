//! The engine in this process under load: OLTP sessions and a dump, which wait at the gates of
//! their [`Load`]s between two transactions or rows while the target is paused.
//!
//! All times are the target's ([`crate::clock::PausableClock`]), which does not pass during a
//! pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use holdfast_io::Clock;
use holdfast_workload::dist::{Distribution, Kind};
use holdfast_workload::dump::{self, Formatter};
use holdfast_workload::rate::{Next, Schedule};
use holdfast_workload::sysbench::{self, Client, Mix};
use holdfast_workload::{Scan, TableNo};

use crate::bench::{Counters, Loaded};
use crate::clock::PausableClock;
use crate::experiments::sideload::HOT;
use crate::pin::{Cores, Role};
use crate::rig::load::{Load, Post, Work, nanos};
use crate::target::embedded::Embedded;
use crate::target::{FREE, PoolState, Resident, Target};

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

/// The workers of one target.
pub struct Workers {
    target: Arc<Embedded>,
    cores: Cores,
    load: (OltpLoad, DumpLoad),
    oltp: Load,
    dump: Load,
    /// Transactions and rows of the loads before these.
    before: [u64; 2],
    /// Dumps finished.
    dumps: Arc<AtomicU64>,
    runs: bool,
    hurries: bool,
    /// The state of the pool when the counters were read last.
    pub pool: PoolState,
    /// Pages per row of the table that is dumped, once they are known.
    pub pages_per_row: f64,
}

impl Workers {
    /// No workers yet.
    pub fn new(target: Embedded, cores: Cores, load: (OltpLoad, DumpLoad)) -> Workers {
        Workers {
            target: Arc::new(target),
            cores,
            load,
            oltp: Load::none(),
            dump: Load::none(),
            before: [0; 2],
            dumps: Arc::default(),
            runs: false,
            hurries: false,
            pool: PoolState::default(),
            pages_per_row: 0.0,
        }
    }

    /// Dumps finished.
    pub fn dumps(&self) -> u64 {
        self.dumps.load(Ordering::Relaxed)
    }

    /// Starts a dump. A running one is stopped first.
    pub fn dump(&mut self, load: DumpLoad) -> Result<()> {
        self.dump.end()?;
        self.before[1] += self.dump.done();
        let (target, cores, dumps) = (Arc::clone(&self.target), self.cores.clone(), Arc::clone(&self.dumps));
        self.dump = Load::start(&[], vec![Box::new(Dump { target, cores, load, dumps })])?;
        self.dump.set_running(self.runs);
        Ok(())
    }
}

impl Loaded for Workers {
    fn start_oltp(&mut self, rate: Option<f64>) -> Result<()> {
        self.oltp.end()?;
        self.before[0] += self.oltp.done();
        let load = OltpLoad { rate, ..self.load.0 };
        let session = |session| -> Box<dyn Work> {
            Box::new(Oltp { target: Arc::clone(&self.target), cores: self.cores.clone(), load, session })
        };
        self.oltp = Load::start(&[], (0..load.sessions).map(session).collect())?;
        self.oltp.set_running(self.runs);
        Ok(())
    }

    fn stop_oltp(&mut self) -> Result<()> {
        self.oltp.end()
    }

    fn start_dump(&mut self) -> Result<()> {
        let load = self.load.1.clone();
        self.dump(DumpLoad { rows_per_second: load.rows_per_second.filter(|_| !self.hurries), ..load })
    }

    fn stop_dump(&mut self) -> Result<()> {
        self.dump.end()
    }

    fn set_running(&mut self, runs: bool) {
        self.runs = runs;
        let loads = [&self.oltp, &self.dump];
        if runs {
            self.target.clock().resume();
        } else {
            // Both, before one is waited for.
            loads.iter().for_each(|load| load.hold());
        }
        loads.iter().for_each(|load| load.set_running(runs));
        if !runs {
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

    fn counters(&mut self) -> Result<Counters> {
        [&mut self.oltp, &mut self.dump].into_iter().filter(|load| load.has_ended()).try_for_each(Load::end)?;
        let commits = self.before[0] + self.oltp.done();
        self.pool = self.target.pool()?;
        let dumped = self.before[1] + self.dump.done();
        let (made_young, not_young) = (Some(self.pool.made_young), Some(self.pool.not_young));
        Ok(Counters { commits, dumped, hot_reads: Some(self.pool.disk_reads(HOT)), made_young, not_young })
    }

    fn pool_turnovers(&self) -> f64 {
        self.dump.done() as f64 * self.pages_per_row / self.pool.pool_pages as f64
    }

    fn take_p95(&mut self) -> Option<f64> {
        self.oltp.take_latencies().transaction_ms(95.0)
    }

    /// That of the pool when the counters were read last.
    fn resident(&mut self) -> Result<Vec<Resident>> {
        let (pages, mb) = (self.pool.free_pages, self.pool.mb(self.pool.free_pages));
        let free = Resident { table: FREE.to_owned(), index: String::new(), pages, mb };
        Ok(self.pool.indexes.iter().cloned().chain([free]).collect())
    }
}

/// The longest sleep between two checks of the gate: while one thread sleeps, the others wait for
/// it at their gates, and the clock runs.
const NAP: Duration = Duration::from_millis(2);

/// A session of the OLTP load.
struct Oltp {
    target: Arc<Embedded>,
    cores: Cores,
    load: OltpLoad,
    session: usize,
}

impl Work for Oltp {
    fn work(&mut self, post: &Post) -> Result<()> {
        self.cores.pin(Role::Oltp(self.session));
        let (load, session, clock) = (self.load, self.session as u64, self.target.clock());
        let mut sql = self.target.sql();
        let distribution = Distribution::new(load.distribution, u64::from(load.rows));
        let mut client = Client::new(load.mix, load.rows, distribution, load.seed, session);
        let share = load.rate.map(|rate| rate / load.sessions as f64);
        let mut schedule = share.map(|rate| Schedule::new(rate, clock.now(), load.seed ^ session));
        while post.pass() {
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
            post.done(1);
            post.latencies().record(None, nanos(latency), 1);
        }
        Ok(())
    }
}

/// Rows between two checks of gate and pace by the dump.
const DUMP_STRIDE: u64 = 256;
/// How far the dump may catch up after a delay.
const DUMP_BURST: Duration = Duration::from_millis(5);

/// Waits for `at`, and at the gate. False if the thread has to end.
fn wait_until(at: Duration, clock: &PausableClock, post: &Post) -> bool {
    while post.pass() {
        let now = clock.now();
        if now >= at {
            return true;
        }
        clock.sleep((at - now).min(NAP));
    }
    false
}

/// The thread of the dump, which counts its rows.
struct Dump {
    target: Arc<Embedded>,
    cores: Cores,
    load: DumpLoad,
    /// Dumps finished.
    dumps: Arc<AtomicU64>,
}

impl Work for Dump {
    fn work(&mut self, post: &Post) -> Result<()> {
        self.cores.pin(Role::Dump);
        let (load, clock) = (&self.load, self.target.clock());
        let mut rows = self.target.rows();
        let mut next = clock.now();
        let pause = load.rows_per_second.map(|rate| Duration::from_secs_f64(DUMP_STRIDE as f64 / rate));
        while post.pass() {
            let mut formatter = Formatter::new(&load.name, sysbench::schema());
            let (mut counted, mut goes_on) = (0, true);
            let written = dump::dump(&mut rows, load.table, &mut formatter, load.scan, &mut |written| {
                if !written.rows.is_multiple_of(DUMP_STRIDE) {
                    return true;
                }
                post.done(written.rows - counted);
                counted = written.rows;
                if let Some(pause) = pause {
                    next = (next + pause).max(clock.now().saturating_sub(DUMP_BURST));
                }
                goes_on = wait_until(next, clock, post);
                goes_on
            });
            let written = written.map_err(|f| anyhow!("dump: {f}"))?;
            post.done(written.rows - counted);
            self.dumps.fetch_add(u64::from(goes_on), Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::sideload::BIG;
    use crate::progress::Progress;
    use crate::rig::site::DiskKind;
    use crate::target::{Content, EmbeddedSite, Hint, Policy, TableSpec, TargetSpec};

    /// The clock ran, and OLTP stood still, until the dump had slept for the rest of its pause.
    #[test]
    fn a_dump_that_waits_for_its_client_does_not_hold_up_a_pause() {
        const PAUSE_SECONDS: f64 = 20.0;
        let table = |name, rows| TableSpec { name, seed: 1, content: Content::Sbtest(rows) };
        let tables = [table(HOT, 10), table(BIG, 4 * DUMP_STRIDE as u32)];
        let (cores, pool_bytes) = (Cores::new(false), 16 << 20);
        let mut progress = Progress::hidden();
        let site = EmbeddedSite::load(&DiskKind::Memory, &tables, 1, pool_bytes, cores.clone(), &mut progress).unwrap();
        let spec = TargetSpec { policy: Policy::Holdfast { hint: Hint::Declared }, pool_bytes, copy: 0 };
        let (distribution, rate) = (Kind::Uniform, DUMP_STRIDE as f64 / PAUSE_SECONDS);
        let oltp = OltpLoad { mix: Mix::READ_ONLY, rows: 10, distribution, sessions: 1, rate: None, seed: 1 };
        let (table, name) = (TableNo(1), BIG.to_owned());
        let dump = DumpLoad { table, name, scan: Scan::Declared, rows_per_second: Some(rate) };
        let mut workers = Workers::new(site.open_engine(&spec).unwrap(), cores, (oltp, dump));
        workers.set_running(true);
        workers.start_dump().unwrap();
        while workers.dump.done() == 0 {
            std::thread::yield_now();
        }
        let from = workers.now();
        workers.set_running(false);
        assert!(workers.now() - from < PAUSE_SECONDS / 2.0);
        workers.stop_dump().unwrap();
    }
}
