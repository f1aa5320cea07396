//! The child: owns one engine, does what the parent's lines of JSON ask, answers each with a line
//! of JSON.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use holdfast_testkit::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::data;
use crate::engines::{self, Durability, Engine, Session};
use crate::options::Options;
use crate::process;

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

/// What was done, how long that took, and the processor time of the workers.
#[derive(Default)]
struct Done {
    operations: u64,
    time: Duration,
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
        let done = match request {
            Request::Load { large } => {
                engine = None;
                loads += 1;
                let rows = if large { options.large_rows() } else { options.rows };
                let dir = options.dir.join(format!("{name}-{loads}"));
                let begin = Instant::now();
                load(name, &dir, rows, options).map(|loaded| {
                    engine = Some((loaded, rows));
                    Done { operations: rows, time: begin.elapsed(), cpu: Duration::ZERO }
                })
            }
            Request::Slice { work, threads, millis, seed } => {
                let (engine, rows) = engine.as_ref().expect("the parent loads first");
                slice(engine.as_ref(), *rows, work, threads, Duration::from_millis(millis), seed)
            }
        };
        let (error, done) = done.map_or_else(|e| (Some(format!("{e:#}")), Done::default()), |done| (None, done));
        let [seconds, cpu_seconds] = [done.time, done.cpu].map(|time| time.as_secs_f64());
        Reply { operations: done.operations, seconds, cpu_seconds, error }
    })
}

fn load(name: &str, dir: &std::path::Path, rows: u64, options: &Options) -> anyhow::Result<Box<dyn Engine>> {
    let engine = engines::open(name, dir, options.memory_mib << 20)?;
    engine.bulk_load(rows)?;
    Ok(engine)
}

/// Lets `threads` threads work for `length`. Their time begins when all have their sessions: what
/// an engine does to open these, or to change its durability (redb commits then what it has not
/// made durable), is no part of the work.
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
    engine.set_sessions(threads);
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let start = &start;
                scope.spawn(move || -> anyhow::Result<(Instant, Instant, u64, Duration)> {
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
                    Ok((begin, Instant::now(), done, cpu() - cpu_before))
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect();
        let (mut all, mut span) = (Done::default(), None);
        for one in ended {
            let (begin, end, operations, cpu) = one?;
            // From the first that got a core to the last that ended.
            let (first, last) = span.unwrap_or((begin, end));
            span = Some((begin.min(first), end.max(last)));
            (all.operations, all.cpu) = (all.operations + operations, all.cpu + cpu);
        }
        all.time = span.map(|(first, last)| last - first).unwrap_or_default();
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

    /// Takes its time to change its durability, and to open a session.
    struct Slow;

    const LONG: Duration = Duration::from_millis(200);

    impl Engine for Slow {
        fn bulk_load(&self, _: u64) -> anyhow::Result<()> {
            Ok(())
        }

        fn set_durability(&self, _: Durability) -> anyhow::Result<()> {
            std::thread::sleep(LONG);
            Ok(())
        }

        fn session(&self, _: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
            std::thread::sleep(LONG);
            Ok(Box::new(Nothing))
        }
    }

    struct Nothing;

    /// Has the number of its sessions.
    struct Told(std::sync::atomic::AtomicUsize);

    impl Engine for Told {
        fn bulk_load(&self, _: u64) -> anyhow::Result<()> {
            Ok(())
        }

        fn set_sessions(&self, sessions: usize) {
            self.0.store(sessions, std::sync::atomic::Ordering::Relaxed);
        }

        fn session(&self, _: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
            Ok(Box::new(Nothing))
        }
    }

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

    #[test]
    fn the_time_of_a_slice_is_that_of_its_work() {
        let begin = Instant::now();
        let done = slice(&Slow, 1, Work::Get, 2, Duration::from_millis(5), 1).unwrap();
        assert!(begin.elapsed() >= done.time + 2 * LONG, "{:?}", done.time);
        assert!(done.operations > 0 && done.time >= Duration::from_millis(5));
    }

    #[test]
    fn an_engine_is_told_how_many_sessions_share_its_memory() {
        let told = Told(std::sync::atomic::AtomicUsize::new(0));
        slice(&told, 1, Work::Get, 3, Duration::from_millis(1), 1).unwrap();
        assert_eq!(told.0.into_inner(), 3);
    }

    /// The other threads waited for it without an end, and the parent for an answer.
    #[test]
    fn a_session_that_cannot_be_opened_is_an_error() {
        let failed = slice(&Full(false.into()), 1, Work::Get, 3, Duration::from_millis(1), 1);
        assert_eq!(failed.err().map(|error| error.to_string()).unwrap_or_default(), "there is no other session");
    }
}
