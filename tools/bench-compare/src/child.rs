//! The child: owns one engine, does what the parent's lines of JSON ask, answers each with a line
//! of JSON.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use holdfast_testkit::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::data;
use crate::engines::{self, Durability, Engine, Session};
use crate::{Options, process};

/// What one slice does.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Get,
    Range,
    DurableCommit,
    ReadModifyWrite,
}

#[derive(Serialize, Deserialize, Debug)]
pub enum Request {
    /// Open an empty database and load it.
    Load { large: bool },
    /// Work on the loaded data for a while.
    Slice { work: Work, threads: usize, millis: u64, seed: u64 },
}

#[derive(Serialize, Deserialize, Debug)]
pub struct Reply {
    /// Operations done (rows, for a load).
    pub operations: u64,
    pub seconds: f64,
    /// Processor time of the threads that did them; 0 for a load.
    pub cpu_seconds: f64,
    /// What went wrong.
    pub error: Option<String>,
}

/// What was done, and the processor time of the workers.
#[derive(Default)]
struct Done {
    operations: u64,
    cpu: Duration,
}

/// Processor time of the calling thread.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Serves requests until the parent closes the pipe.
pub fn serve(name: &str, options: &Options) -> anyhow::Result<()> {
    let mut engine: Option<(Box<dyn Engine>, u64)> = None;
    let mut loads = 0;
    process::serve(|request| {
        let begin = Instant::now();
        let done = match request {
            Request::Load { large } => {
                engine = None;
                loads += 1;
                let rows = if large { options.large_rows() } else { options.rows };
                let dir = options.dir.join(format!("{name}-{loads}"));
                load(name, &dir, rows, options).map(|loaded| {
                    engine = Some((loaded, rows));
                    Done { operations: rows, cpu: Duration::ZERO }
                })
            }
            Request::Slice { work, threads, millis, seed } => {
                let (engine, rows) = engine.as_ref().expect("the parent loads first");
                slice(engine.as_ref(), *rows, work, threads, Duration::from_millis(millis), seed)
            }
        };
        let seconds = begin.elapsed().as_secs_f64();
        match done {
            Ok(done) => {
                Reply { operations: done.operations, seconds, cpu_seconds: done.cpu.as_secs_f64(), error: None }
            }
            Err(error) => Reply { operations: 0, seconds, cpu_seconds: 0.0, error: Some(format!("{error:#}")) },
        }
    })
}

fn load(name: &str, dir: &std::path::Path, rows: u64, options: &Options) -> anyhow::Result<Box<dyn Engine>> {
    let engine = engines::open(name, dir, options.memory_mib << 20)?;
    engine.bulk_load(rows)?;
    Ok(engine)
}

fn slice(
    engine: &dyn Engine,
    rows: u64,
    work: Work,
    threads: usize,
    length: Duration,
    seed: u64,
) -> anyhow::Result<Done> {
    let durability = if work == Work::DurableCommit { Durability::Sync } else { Durability::Write };
    engine.set_durability(durability)?;
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let start = &start;
                scope.spawn(move || -> anyhow::Result<Done> {
                    // The others wait for this thread, whatever came of it.
                    let session = engine.session(durability);
                    start.wait();
                    let (mut session, mut dice) = (session?, SplitMix64::new(seed ^ (thread as u64) << 48));
                    let (begin, cpu_before) = (Instant::now(), cpu());
                    let mut done = 0;
                    while begin.elapsed() < length {
                        // The clock is read once in a while only, or it would be measured too.
                        for _ in 0..if work == Work::Get { 64 } else { 1 } {
                            step(session.as_mut(), work, dice.below(rows), done)?;
                            done += 1;
                        }
                    }
                    Ok(Done { operations: done, cpu: cpu() - cpu_before })
                })
            })
            .collect();
        let mut all = Done::default();
        for worker in workers {
            let one = worker.join().expect("a worker does not panic")?;
            (all.operations, all.cpu) = (all.operations + one.operations, all.cpu + one.cpu);
        }
        Ok(all)
    })
}

fn step(session: &mut dyn Session, work: Work, row: u64, done: u64) -> anyhow::Result<()> {
    let key = data::key(row);
    match work {
        Work::Get => anyhow::ensure!(session.get(&key)?.is_some(), "row {row} is missing"),
        Work::Range => anyhow::ensure!(session.range(&key, data::RANGE_ROWS)? > 0, "no rows from {row} on"),
        Work::DurableCommit => session.put(&key, &data::value(row, done + 1))?,
        Work::ReadModifyWrite => session.read_modify_write(&key)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has one session.
    struct Full(std::sync::atomic::AtomicBool);

    struct Nothing;

    impl Engine for Full {
        fn bulk_load(&self, _: u64) -> anyhow::Result<()> {
            Ok(())
        }

        fn session(&self, _: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
            let is_first = !self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
            anyhow::ensure!(is_first, "there is no other session");
            Ok(Box::new(Nothing))
        }
    }

    impl Session for Nothing {
        fn get(&mut self, _: &[u8]) -> anyhow::Result<Option<u8>> {
            Ok(Some(0))
        }

        fn range(&mut self, _: &[u8], count: usize) -> anyhow::Result<usize> {
            Ok(count)
        }

        fn put(&mut self, _: &[u8], _: &[u8]) -> anyhow::Result<()> {
            Ok(())
        }

        fn read_modify_write(&mut self, _: &[u8]) -> anyhow::Result<()> {
            Ok(())
        }
    }

    /// The other threads waited for it without an end, and the parent for an answer.
    #[test]
    fn a_session_that_cannot_be_opened_is_an_error() {
        let failed = slice(&Full(false.into()), 1, Work::Get, 3, Duration::from_millis(1), 1);
        assert_eq!(failed.err().map(|error| error.to_string()).unwrap_or_default(), "there is no other session");
    }
}
