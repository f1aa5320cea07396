//! The load: real sysbench and real mariadb-dump in a loop, as processes that can be stopped and
//! continued.
//!
//! Two servers are measured in turns. During the turn of one, the clients of the other are stopped
//! (SIGSTOP), and with them everything that they cause on that server.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use holdfast_server::Cache;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use super::address::Address;
use super::data::SCHEMA;
use super::statements;
use crate::experiments::sideload::BIG;
use crate::pin::{Cores, Role};
use crate::subject::turn::Latencies;

/// The parameters of sysbench.
#[derive(Clone, Debug)]
pub struct Oltp {
    /// The script: one of sysbench's by name, another one by its path.
    pub script: String,
    /// The arguments of this script.
    pub asked: Vec<String>,
    /// The schema of the tables.
    pub schema: String,
    /// Sessions.
    pub threads: usize,
    /// Transactions per second of all sessions together; `None` for no limit.
    pub rate: Option<f64>,
    /// The distribution of the rows, as sysbench calls it: `uniform`, `special`, `pareto`,
    /// `zipfian`.
    pub distribution: String,
    /// True if statements are prepared.
    pub prepared: bool,
    /// Seed.
    pub seed: u64,
}

impl Oltp {
    /// sysbench's own `oltp_read_only` on a table of `rows` rows.
    pub fn read_only(rows: u32, schema: &str, threads: usize, seed: u64) -> Oltp {
        Oltp {
            script: "oltp_read_only".to_owned(),
            asked: vec!["--tables=1".to_owned(), format!("--table-size={rows}")],
            schema: schema.to_owned(),
            threads,
            rate: None,
            distribution: "uniform".to_owned(),
            prepared: true,
            seed,
        }
    }

    /// sysbench's arguments, up to `run`.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            self.script.clone(),
            "--db-driver=mysql".into(),
            format!("--mysql-db={}", self.schema),
            format!("--threads={}", self.threads),
            format!("--rand-type={}", self.distribution),
            rand_seed(self.seed),
            "--time=0".into(),
            "--events=0".into(),
            "--report-interval=1".into(),
            format!("--db-ps-mode={}", if self.prepared { "auto" } else { "disable" }),
        ];
        arguments.extend(self.asked.iter().cloned());
        arguments.extend(self.rate.map(|rate| format!("--rate={rate:.0}")));
        arguments.push("run".into());
        arguments
    }
}

/// sysbench's option for this seed. It takes a 32-bit number with a sign, and 0 for the time of
/// day, with which no two servers get the same random numbers.
pub(super) fn rand_seed(seed: u64) -> String {
    let largest = u64::from(i32::MAX.unsigned_abs());
    let seed = seed & largest;
    format!("--rand-seed={}", if seed == 0 { largest } else { seed })
}

/// A process that ends when this is dropped, or when the thread that started it ends.
#[derive(Debug)]
struct Owned(Child);

impl Owned {
    fn start(command: Command, what: &str) -> Result<Owned> {
        let mut command = holdfast_server::run::bound_to_us(&command, "KILL");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Owned(command.spawn().with_context(|| format!("{what} could not be started"))?))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // A process that has ended needs no signal.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// sysbench, running.
pub struct Sysbench {
    process: Owned,
    /// 95th percentiles of the seconds since they were last taken, in milliseconds.
    p95: Arc<Mutex<Vec<f64>>>,
    /// The statement times that a script reports.
    latencies: Arc<Mutex<Latencies>>,
    reader: Option<JoinHandle<String>>,
}

impl Sysbench {
    /// Starts it, on the cores of the clients.
    pub fn start(cache: &Cache, address: &Address, oltp: &Oltp) -> Result<Sysbench> {
        let mut command = cache.sysbench_command();
        command.args(address.sysbench()).args(oltp.arguments());
        let mut process = Owned::start(command, "sysbench")?;
        let out = process.0.stdout.take().context("sysbench has an output")?;
        let p95 = Arc::new(Mutex::new(Vec::new()));
        let latencies = Arc::new(Mutex::new(statements::none()));
        let (seen, timed) = (Arc::clone(&p95), Arc::clone(&latencies));
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            for line in BufReader::new(out).lines().map_while(std::io::Result::ok) {
                match interval_p95(&line) {
                    Some(ms) => seen.lock().push(ms),
                    None if statements::record(&line, &mut timed.lock()) => {}
                    None if said.len() < 10_000 => said += &format!("{line}\n"),
                    None => {}
                }
            }
            said
        });
        Ok(Sysbench { process, p95, latencies, reader: Some(reader) })
    }

    /// Fails with its output if sysbench has ended.
    pub fn check(&mut self) -> Result<()> {
        let Some(status) = self.process.0.try_wait()? else { return Ok(()) };
        let said = self.reader.take().and_then(|r| r.join().ok()).unwrap_or_default();
        bail!("sysbench ended ({status}):\n{said}")
    }

    /// Stops it, or continues it.
    pub fn stop(&self, stop: bool) {
        self.process.signal(if stop { Signal::STOP } else { Signal::CONT });
    }

    /// The 95th percentiles of the seconds since the last call, in milliseconds.
    pub fn take_p95(&self) -> Vec<f64> {
        std::mem::take(&mut *self.p95.lock())
    }

    /// The times of the statements since the last call, if the script reports them.
    pub fn take_latencies(&self) -> Latencies {
        std::mem::replace(&mut *self.latencies.lock(), statements::none())
    }
}

/// Lets a script make its tables, or fails with the output of sysbench.
pub fn prepare(cache: &Cache, address: &Address, script: &str, schema: &str, asked: &[String]) -> Result<()> {
    let mut command = cache.sysbench_command();
    command.arg(script).arg("--db-driver=mysql").args(address.sysbench());
    command.arg(format!("--mysql-db={schema}")).args(asked).arg("prepare");
    let output = holdfast_server::run::bound_to_us(&command, "KILL").output().context("sysbench cannot be started")?;
    if !output.status.success() {
        bail!("sysbench could not make the tables: {}", String::from_utf8_lossy(&output.stdout).trim());
    }
    Ok(())
}

/// The 95th percentile in one of sysbench's interval reports, in milliseconds.
fn interval_p95(line: &str) -> Option<f64> {
    let (_, rest) = line.strip_prefix("[ ")?.split_once("lat (ms,95%): ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The current process, and true if it has to be stopped. A process that is started then has to be
/// stopped too.
#[derive(Debug, Default)]
struct Running {
    process: Option<Arc<Owned>>,
    stopped: bool,
}

/// The counts of the dump.
#[derive(Debug, Default)]
struct Dumped {
    bytes: AtomicU64,
    finished: AtomicU64,
    ended: AtomicBool,
    running: Mutex<Running>,
    failure: Mutex<Option<String>>,
}

/// mariadb-dump of the big table, in a loop; its text is counted and discarded.
pub struct Dump {
    dumped: Arc<Dumped>,
    thread: Option<JoinHandle<()>>,
}

impl Dump {
    /// Starts it, on the cores of the clients.
    pub fn start(cache: &Cache, address: &Address, cores: &Cores) -> Dump {
        let dumped = Arc::new(Dumped::default());
        let (cache, address, cores, mine) = (cache.clone(), address.clone(), cores.clone(), Arc::clone(&dumped));
        let thread = std::thread::spawn(move || {
            cores.pin(Role::Clients);
            while !mine.ended.load(Ordering::Acquire) {
                if let Err(error) = dump_once(&cache, &address, &mine) {
                    if !mine.ended.load(Ordering::Acquire) {
                        *mine.failure.lock() = Some(format!("{error:#}"));
                    }
                    return;
                }
                mine.finished.fetch_add(1, Ordering::Release);
            }
        });
        Dump { dumped, thread: Some(thread) }
    }

    /// Bytes of text so far.
    pub fn bytes(&self) -> u64 {
        self.dumped.bytes.load(Ordering::Acquire)
    }

    /// Dumps finished.
    pub fn finished(&self) -> u64 {
        self.dumped.finished.load(Ordering::Acquire)
    }

    /// Fails with its error output if the dump has failed.
    pub fn check(&self) -> Result<()> {
        match self.dumped.failure.lock().as_ref() {
            Some(said) => bail!("mariadb-dump failed: {said}"),
            None => Ok(()),
        }
    }

    /// Stops it, or continues it.
    pub fn stop(&self, stop: bool) {
        let mut running = self.dumped.running.lock();
        running.stopped = stop;
        if let Some(process) = &running.process {
            process.signal(if stop { Signal::STOP } else { Signal::CONT });
        }
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.dumped.ended.store(true, Ordering::Release);
        if let Some(process) = &self.dumped.running.lock().process {
            process.signal(Signal::KILL);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn dump_once(cache: &Cache, address: &Address, dumped: &Dumped) -> Result<()> {
    let mut command = address.dump_command(cache);
    command.args(["--single-transaction", "--quick", SCHEMA, BIG]);
    let mut process = Owned::start(command, "mariadb-dump")?;
    let mut out = process.0.stdout.take().context("mariadb-dump has an output")?;
    let mut err = process.0.stderr.take().context("mariadb-dump has an error output")?;
    let process = Arc::new(process);
    {
        let mut running = dumped.running.lock();
        if dumped.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        if running.stopped {
            process.signal(Signal::STOP);
        }
        running.process = Some(process);
    }
    let mut buffer = vec![0; 256 << 10];
    let mut text = 0;
    loop {
        match out.read(&mut buffer)? {
            0 => break,
            n => {
                text += n;
                dumped.bytes.fetch_add(n as u64, Ordering::Release);
            }
        }
    }
    let mut said = String::new();
    err.read_to_string(&mut said)?;
    let process = dumped.running.lock().process.take();
    let mut process = process.and_then(Arc::into_inner).context("the process has one owner")?;
    let status = process.0.wait()?;
    if !status.success() || text == 0 {
        bail!("{status}: {}", said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_found_in_an_interval_report() {
        let line = "[ 3s ] thds: 1 tps: 2030.12 qps: 32482.94 (r/w/o: 28421.70/0.00/4060.24) lat (ms,95%): 0.55 err/s: 0.00 reconn/s: 0.00";
        assert_eq!(interval_p95(line), Some(0.55));
        assert_eq!(interval_p95("Threads started!"), None);
    }

    #[test]
    fn sysbench_is_told_everything() {
        let oltp = Oltp { rate: Some(300.0), prepared: false, ..Oltp::read_only(100, "s", 4, 1) };
        let arguments = oltp.arguments();
        assert_eq!(arguments.first().map(String::as_str), Some("oltp_read_only"));
        assert_eq!(arguments.last().map(String::as_str), Some("run"));
        assert!(arguments.contains(&"--rate=300".to_owned()) && arguments.contains(&"--db-ps-mode=disable".to_owned()));
        assert!(arguments.contains(&"--table-size=100".to_owned()));
        assert!(arguments.contains(&"--mysql-db=s".to_owned()) && arguments.contains(&"--threads=4".to_owned()));
    }

    /// With 0 each turn of each server had random numbers of its own, and rows of its own.
    #[test]
    fn sysbench_is_never_told_to_seed_by_the_time() {
        let told = [0, 1, 7 << 32, (7 << 32) + 9, u64::MAX].map(rand_seed);
        assert_eq!(told, [2_147_483_647_u64, 1, 2_147_483_647, 9, 2_147_483_647].map(|n| format!("--rand-seed={n}")));
    }
}
