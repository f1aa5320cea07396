//! A page hit against a pointer chase over the same pages, and two threads against two processes.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use holdfast_base::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::bed::{Bench, chase_pages, chase_pointers, in_memory};

const STEPS: u64 = 200_000;
const ROUNDS: usize = 41;
/// Pages of each thread's, or process's, own.
const OWN_PAGES: u32 = 4096;

/// Processor time of the calling thread per step, in nanoseconds: what others do on the machine
/// meanwhile counts only as far as they take the caches.
fn per_step(f: impl FnOnce() -> u64) -> f64 {
    let before = clock_gettime(ClockId::ThreadCPUTime);
    black_box(f());
    let after = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = (after.tv_sec - before.tv_sec) as f64 * 1e9 + (after.tv_nsec - before.tv_nsec) as f64;
    nanos / STEPS as f64
}

/// The middle of `samples`, and the samples a quarter from either end.
fn quartiles(mut samples: Vec<f64>) -> (f64, f64, f64) {
    samples.sort_by(f64::total_cmp);
    let at = |part: usize| samples[samples.len() * part / 4];
    (at(2), at(1), at(3))
}

fn shown((median, low, high): (f64, f64, f64)) -> String {
    format!("{median:.2} ({low:.2}-{high:.2})")
}

/// The two chases in turns, and the ratios of neighbours.
pub fn hit(pages: u32) -> Result<()> {
    let bench = in_memory(pages, 1)?;
    let at = bench.start(0)?;
    let rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| (per_step(|| chase_pointers(at, STEPS)), per_step(|| chase_pages(&bench, 0, STEPS))))
        .collect();
    let of = |f: fn(&(f64, f64)) -> f64| shown(quartiles(rounds.iter().map(f).collect()));
    println!(
        "{pages:>6} pages: pointer chase {} ns, page hit {} ns, ratio {}",
        of(|r| r.0),
        of(|r| r.1),
        of(|r| r.1 / r.0)
    );
    Ok(())
}

/// Nails the calling thread to the `n`-th of the processors that it may use.
fn pin(n: usize) -> Result<()> {
    let error = |e: rustix::io::Errno| Error::io("pin", "a thread", e.into());
    let allowed = sched_getaffinity(None).map_err(error)?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let mut one = CpuSet::new();
    one.set(usable[n % usable.len()]);
    sched_setaffinity(None, &one).map_err(error)
}

fn one_slice(bench: &Bench, first: u64) -> f64 {
    chase_pages(bench, first, 10_000);
    per_step(|| chase_pages(bench, first, STEPS))
}

/// A process of its own with a pool of its own: for each line on its input, a slice of work and a
/// line with its time.
pub fn serve(processor: usize) -> Result<()> {
    pin(processor)?;
    let bench = in_memory(OWN_PAGES, 1)?;
    println!("ready");
    for line in std::io::stdin().lines() {
        line.map_err(|e| Error::io("read", "the parent's request", e))?;
        println!("{}", one_slice(&bench, 0));
    }
    Ok(())
}

struct Process {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Process {
    fn start(processor: usize) -> std::io::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", &processor.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("the child has no pipes"));
        };
        let mut process = Process { child, requests, replies: BufReader::new(replies) };
        process.reply()?;
        Ok(process)
    }

    fn reply(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        Ok(line)
    }

    fn request(&mut self) -> std::io::Result<()> {
        writeln!(self.requests, "go")
    }

    fn time(&mut self) -> std::io::Result<f64> {
        self.reply()?.trim().parse().map_err(std::io::Error::other)
    }

    fn stop(self) -> std::io::Result<()> {
        let Process { mut child, requests, .. } = self;
        drop(requests);
        child.wait().map(drop)
    }
}

/// The mean of two threads on different pages of one pool, nailed to a processor each.
fn two_threads(shared: &Bench) -> Result<f64> {
    let times: Vec<Result<f64>> = std::thread::scope(|scope| {
        let start = |n: usize| {
            scope.spawn(move || {
                pin(n)?;
                Ok(one_slice(shared, n as u64 * u64::from(OWN_PAGES)))
            })
        };
        [0, 1].map(start).map(|thread| thread.join().expect("a worker does not panic")).into_iter().collect()
    });
    Ok(times.into_iter().sum::<Result<f64>>()? / 2.0)
}

fn two_processes(processes: &mut [Process]) -> std::io::Result<f64> {
    processes.iter_mut().try_for_each(Process::request)?;
    Ok(processes.iter_mut().map(Process::time).sum::<std::io::Result<f64>>()? / 2.0)
}

/// Two threads on different pages of one pool, in turns with two processes that have a pool each.
pub fn threads() -> Result<()> {
    let error = |e| Error::io("run", "a second process", e);
    let shared = in_memory(2 * OWN_PAGES, 2)?;
    let mut processes = [0, 1].map(Process::start).into_iter().collect::<std::io::Result<Vec<_>>>().map_err(error)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push((two_processes(&mut processes).map_err(error)?, two_threads(&shared)?));
    }
    processes.into_iter().try_for_each(Process::stop).map_err(error)?;
    let of = |f: fn(&(f64, f64)) -> f64| shown(quartiles(rounds.iter().map(f).collect()));
    println!(
        "two processes {} ns per hit, two threads on one pool {} ns, ratio {}",
        of(|r| r.0),
        of(|r| r.1),
        of(|r| r.1 / r.0)
    );
    Ok(())
}
