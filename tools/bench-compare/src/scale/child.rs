//! The process of one engine: loads it, and runs turns.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use holdfast_testkit::SplitMix64;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::operation::{Operation, Worker};
use super::options::Options;
use crate::engines::{self, Appends, Durability};
use crate::process;

/// What a turn is.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Turn {
    pub operation: Operation,
    pub durability: Durability,
    pub threads: usize,
    pub seconds: f64,
    pub seed: u64,
}

#[derive(Serialize, Deserialize, Debug)]
pub enum Request {
    /// Open an empty database and load it.
    Load,
    Turn(Turn),
}

/// What came of a request.
#[derive(Serialize, Deserialize, Default, Debug)]
pub struct Reply {
    /// Operations of the turn, or rows loaded.
    pub operations: u64,
    pub seconds: f64,
    /// Of all threads of the process, those of the engine included.
    pub processor_seconds: f64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// What went wrong.
    pub error: Option<String>,
}

/// Serves requests until the parent closes the pipe.
pub fn serve(name: &str, options: &Options) -> anyhow::Result<()> {
    // A stopped process would not notice that its parent has ended.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let dir = options.dir.as_ref().context("the parent names a folder")?.join(name);
    let mut engine: Option<Box<dyn Appends>> = None;
    let next = AtomicU64::new(0);
    process::serve(|request| {
        let done = match request {
            Request::Load => load(name, &dir, options.rows).map(|(loaded, reply)| {
                engine = Some(loaded);
                reply
            }),
            Request::Turn(turn) => {
                let engine = engine.as_deref().context("the parent loads first");
                engine.and_then(|engine| run(engine, options.rows, &next, turn))
            }
        };
        done.unwrap_or_else(|error| Reply { error: Some(format!("{error:#}")), ..Reply::default() })
    })
}

fn load(name: &str, dir: &std::path::Path, rows: u64) -> anyhow::Result<(Box<dyn Appends>, Reply)> {
    let begin = Instant::now();
    let engine = engines::open_appends(name, dir, memory(rows))?;
    engine.bulk_load(rows)?;
    Ok((engine, Reply { operations: rows, seconds: begin.elapsed().as_secs_f64(), ..Reply::default() }))
}

/// Memory for an engine's caches: room for all rows and for those that a turn appends.
fn memory(rows: u64) -> u64 {
    (rows * 600).max(2 << 30)
}

fn run(engine: &dyn Appends, rows: u64, next: &AtomicU64, turn: Turn) -> anyhow::Result<Reply> {
    engine.set_durability(turn.durability)?;
    if turn.operation == Operation::Append {
        engine.empty_appended()?;
    }
    let length = Duration::try_from_secs_f64(turn.seconds)?;
    let (ready, start, stop) = (AtomicUsize::new(0), Barrier::new(turn.threads + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let work = |thread: u64| {
            let worker = || -> anyhow::Result<Worker<'_>> {
                let session = engine.session(turn.durability)?;
                let appender = engine.appender(turn.durability)?;
                Ok(Worker { session, appender, dice: SplitMix64::new(turn.seed ^ thread << 40), rows, next })
            };
            let worker = worker();
            ready.fetch_add(1, Ordering::Relaxed);
            start.wait();
            operations(worker?, turn.operation, &stop)
        };
        let workers: Vec<_> = (0..turn.threads as u64).map(|thread| scope.spawn(move || work(thread))).collect();
        while ready.load(Ordering::Relaxed) < turn.threads {
            std::thread::sleep(Duration::from_micros(100));
        }
        let (before, begin) = (usage()?, Instant::now());
        start.wait();
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        let seconds = begin.elapsed().as_secs_f64();
        let mut operations = 0;
        for worker in workers {
            operations += worker.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))??;
        }
        let after = usage()?;
        Ok(Reply {
            operations,
            seconds,
            processor_seconds: processor_seconds(&after) - processor_seconds(&before),
            voluntary_switches: (after.voluntary_context_switches() - before.voluntary_context_switches()) as u64,
            involuntary_switches: (after.involuntary_context_switches() - before.involuntary_context_switches()) as u64,
            error: None,
        })
    })
}

/// Carries out operations until `stop`; returns how many ended before it.
fn operations(mut worker: Worker<'_>, operation: Operation, stop: &AtomicBool) -> anyhow::Result<u64> {
    let mut done = 0;
    loop {
        worker.step(operation)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(done);
        }
        done += 1;
    }
}

fn usage() -> anyhow::Result<Usage> {
    getrusage(UsageWho::RUSAGE_SELF).context("the use of the processors cannot be asked for")
}

fn processor_seconds(usage: &Usage) -> f64 {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
