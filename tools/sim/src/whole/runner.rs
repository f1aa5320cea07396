//! Runs many seeds, each in a process of its own, and makes a failing one smaller.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::kinds;
use super::plan::{Limits, Plan};
use crate::same_process::{NO_SETARCH, same_process};

/// How one seed ended.
struct Ended {
    passed: bool,
    output: String,
}

/// The most processor time in seconds that one seed may take: a run that loops without a point of
/// the scheduler is ended then. How busy the machine is makes no difference.
const MOST_PROCESSOR_TIME_S: u64 = 120;

/// The longest that one seed may take: a run whose threads wait where the scheduler does not see it
/// is ended then.
const LONGEST: Duration = Duration::from_secs(1200);

/// Runs one seed in this process and prints what happened.
///
/// # Errors
/// What was wrong.
pub fn one(seed: u64, limits: &Limits) -> anyhow::Result<()> {
    let plan = Plan::draw(seed, limits);
    let (coverage, run) = super::run(&plan)?;
    for (what, count) in coverage {
        println!("count {count} {what}");
    }
    println!("{plan:?}");
    println!("trace {:016x} after {} points, {} switches, {:?}", run.trace, run.points, run.switches, run.time);
    Ok(())
}

/// Runs seeds until one fails; that one is made smaller, and the line that repeats it is printed.
///
/// # Errors
/// If a seed fails, or the first seed does not give the same run twice.
pub fn many(seeds: std::ops::Range<u64>, jobs: usize, limits: &Limits) -> anyhow::Result<()> {
    let begun = Instant::now();
    let bar = ProgressBar::new(seeds.end - seeds.start)
        .with_style(ProgressStyle::with_template("simulation {bar:40} {pos}/{len} seeds, {per_sec}, {eta} left")?);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    check_repeats(seeds.start, limits)?;
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (total, failed) = (Mutex::new(BTreeMap::<String, u64>::new()), Mutex::new(None));
    let lock = |e: PoisonError<_>| PoisonError::into_inner(e);
    std::thread::scope(|scope| {
        for job in 0..jobs.max(1) {
            let (next, stop, bar, total, failed) = (&next, &stop, &bar, &total, &failed);
            scope.spawn(move || {
                stay_on_core(job);
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    match start(seed, limits) {
                        Ok(ended) if ended.passed => {
                            add(&mut total.lock().unwrap_or_else(lock), &ended.output);
                        }
                        outcome => {
                            stop.store(true, Ordering::Relaxed);
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((seed, outcome));
                        }
                    }
                    bar.inc(1);
                    let done = seed - seeds.start + 1;
                    if bar.is_hidden() && done.is_multiple_of(500) {
                        println!("simulation: {done} of {} seeds, {:.0?}", seeds.end - seeds.start, begun.elapsed());
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    if let Some((seed, outcome)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return report(seed, outcome?, limits);
    }
    let n = seeds.end - seeds.start;
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (what, count) in &total {
        println!("{count:>12} {what}");
    }
    let missing = if n >= kinds::ENOUGH && limits.is_everything() { kinds::missing(&total) } else { Vec::new() };
    anyhow::ensure!(missing.is_empty(), "in {n} seeds it has never happened: {}", missing.join(", "));
    let seconds = begun.elapsed().as_secs_f64();
    println!("{n} seeds in {seconds:.0} s, {:.1} a second: nothing wrong", n as f64 / seconds);
    Ok(())
}

/// Keeps this thread, and the processes that it starts, on one core: of the threads of a run one
/// runs at a time, and handing the baton to another core costs more than what is done with it.
fn stay_on_core(job: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let Some(&core) = cores.get(job % cores.len().max(1)) else { return };
    let mut own = CpuSet::new();
    own.set(core);
    // Without it a run is as right, and slower.
    let _ = sched_setaffinity(None, &own);
}

/// The faults that the code plants on request (`planted!`), and within how many seeds each is
/// found.
///
/// A change anywhere in the engine moves every schedule, so which seed finds a fault is a matter of
/// chance. The bounds are several times the number of seeds that it takes on average. A fault whose
/// window is a few points of the scheduler wide is planted with a pause. What is not planted, and
/// why, is in `docs/design/simulation.md`.
const PLANTS: [(&str, u64); 64] = [
    ("backup-follows-growth", 1_000),
    ("backup-lacks-the-last-log", 3_000),
    ("checkpoint-passes-dirty-pages", 300),
    ("checksum-not-compared", 1_000),
    ("close-ends-no-waits", 300),
    ("commit-not-awaited", 300),
    ("commits-published-out-of-order", 4_000),
    ("conflict-not-noticed", 300),
    ("dead-values-stay", 300),
    ("double-write-not-synced", 1_000),
    ("ended-writes-wake-no-checkpointer", 1_000),
    ("ends-see-two-moments", 1_000),
    ("failed-data-sync-passed-over", 2_000),
    ("failed-sync-passed-over", 1_000),
    ("few-logs-wait-for-a-commit", 300),
    ("finding-names-the-next-transaction", 1_000),
    ("frame-event-lost", 1_000),
    ("frames-after-latch", 300),
    ("free-pages-kept-back", 1_000),
    ("gate-not-waited-for", 300),
    ("held-view-closed", 300),
    ("id-before-its-page", 1_000),
    ("idle-undo-stays", 300),
    ("index-misses-a-change", 300),
    ("index-range-not-locked", 300),
    ("large-values-not-counted", 300),
    ("lead-lost", 300),
    ("locking-read-of-an-old-version", 300),
    ("losers-stop-purge", 2_000),
    ("new-pages-count-as-lost", 1_000),
    ("nodes-without-a-key-stay", 1_000),
    ("numbers-keep-a-table", 300),
    ("numbers-not-covered", 300),
    ("old-index-entry-stays", 300),
    ("own-rows-at-the-view", 1_000),
    ("page-before-log", 1_000),
    ("page-not-marked", 300),
    ("page-writes-not-synced", 300),
    ("pages-of-a-load-count-as-lost", 1_000),
    ("prepared-keeps-covers", 300),
    ("prepared-keeps-no-table", 300),
    ("prepared-log-keeps-its-mark", 1_000),
    ("prepared-rows-not-locked", 300),
    ("purge-ignores-views", 300),
    ("ranges-not-asked", 1_000),
    ("read-range-given-up", 300),
    ("redo-repeats-changes", 1_000),
    ("redo-stops-at-damage", 1_000),
    ("refused-insert-has-read-nothing", 1_000),
    ("rollback-skips-a-record", 300),
    ("row-wait-passes-a-table-lock", 1_000),
    ("runs-end-early", 300),
    ("snapshot-taken-anew", 300),
    ("stale-page-believed", 300),
    ("statement-keeps-its-view", 300),
    ("steps-take-no-turn", 1_000),
    ("straggler-forgotten", 1_000),
    ("uncommitted-seen", 300),
    ("undone-row-not-locked", 300),
    ("undone-version-believed", 300),
    ("unique-not-asked", 300),
    ("view-before-the-wait", 1_000),
    ("views-give-way-for-nothing", 300),
    ("writer-not-waited-for", 300),
];

/// Plants each fault of [`PLANTS`] that is found within `most` seeds, and fails unless all are
/// found.
///
/// # Errors
/// Which are not found.
pub fn plants(jobs: usize, most: u64, limits: &Limits) -> anyhow::Result<()> {
    let mut missed = Vec::new();
    for (name, within) in PLANTS.into_iter().filter(|(_, within)| *within <= most) {
        let planted = Limits { plant: Some(name.to_owned()), ..limits.clone() };
        match first_failure(0..within, jobs, &planted)? {
            Some((seed, ended)) => println!("{name}: found by seed {seed}: {}", headline(&ended.output)),
            None => {
                println!("{name}: not found within {within} seeds");
                missed.push(name);
            }
        }
    }
    anyhow::ensure!(missed.is_empty(), "the simulation does not find {}", missed.join(", "));
    Ok(())
}

/// The lowest seed that fails, with a few seeds running at the same time.
fn first_failure(seeds: std::ops::Range<u64>, jobs: usize, limits: &Limits) -> anyhow::Result<Option<(u64, Ended)>> {
    let mut at = seeds.start;
    while at < seeds.end {
        let batch = at..seeds.end.min(at + jobs.max(1) as u64);
        at = batch.end;
        let ended = std::thread::scope(|scope| {
            let runs: Vec<_> = batch.map(|seed| (seed, scope.spawn(move || start(seed, limits)))).collect();
            let end = |run: std::thread::ScopedJoinHandle<'_, _>| run.join().expect("a run does not panic here");
            runs.into_iter().map(|(seed, run)| end(run).map(|e| (seed, e))).collect::<anyhow::Result<Vec<_>>>()
        })?;
        if let Some(failed) = ended.into_iter().find(|(_, ended)| !ended.passed) {
            return Ok(Some(failed));
        }
    }
    Ok(None)
}

/// What an output says is wrong, in a line.
fn headline(output: &str) -> String {
    let telling = ["panicked at", "STUCK", "    0: ", "    1: ", "had not ended"];
    let lines: Vec<&str> = output.lines().filter(|line| telling.iter().any(|words| line.contains(words))).collect();
    let last = lines.iter().rev().find(|line| !line.contains("session")).or(lines.last());
    let other = output.lines().rfind(|line| !line.trim().is_empty());
    last.copied().or(other).unwrap_or("it ended without a word").trim().chars().take(160).collect()
}

/// Fails unless a seed gives the same run twice.
fn check_repeats(seed: u64, limits: &Limits) -> anyhow::Result<()> {
    let trace = |ended: &Ended| ended.output.lines().find(|l| l.starts_with("trace")).map(str::to_owned);
    let (first, second) = (start(seed, limits)?, start(seed, limits)?);
    if first.passed && second.passed && trace(&first) != trace(&second) {
        bail!("seed {seed} gives two runs: {:?} and {:?}", trace(&first), trace(&second));
    }
    Ok(())
}

fn add(total: &mut BTreeMap<String, u64>, output: &str) {
    for line in output.lines().filter_map(|line| line.strip_prefix("count ")) {
        if let Some((count, what)) = line.split_once(' ') {
            *total.entry(what.to_owned()).or_default() += count.parse::<u64>().unwrap_or(0);
        }
    }
}

/// Runs a seed in a process whose addresses are the same each time.
fn start(seed: u64, limits: &Limits) -> anyhow::Result<Ended> {
    let mut child = same_process()?
        .args(["whole", "--seed", &seed.to_string()])
        .args(limits.arguments())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(NO_SETARCH)?;
    let most = Rlimit { current: Some(MOST_PROCESSOR_TIME_S), maximum: None };
    prlimit(Pid::from_raw(child.id().cast_signed()), Resource::Cpu, most)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (open, over) = mpsc::channel::<()>();
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        let open = open.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            drop(open);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(out.map(|p| Box::new(p) as Box<dyn Read + Send>));
    let err = read(err.map(|p| Box::new(p) as Box<dyn Read + Send>));
    drop(open);
    // A process that ends closes its pipes.
    let is_late = over.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout);
    if is_late {
        child.kill()?;
    }
    let status = child.wait()?;
    let join = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let mut output = join(out) + &join(err);
    if is_late {
        output += &format!("the run had not ended after {LONGEST:?}\n");
    } else if status.signal() == Some(Signal::XCPU.as_raw()) {
        output += &format!("the run had not ended after {MOST_PROCESSOR_TIME_S} s of processor time\n");
    }
    Ok(Ended { passed: !is_late && status.success(), output })
}

/// Lowers one limit after the other as long as the seed still fails, and says how to repeat it.
fn report(seed: u64, first: Ended, limits: &Limits) -> anyhow::Result<()> {
    eprintln!("seed {seed} fails:\n{}", tail(&first.output));
    let (mut small, mut output) = (limits.clone(), first.output);
    let mut try_with = |small: &mut Limits, change: &dyn Fn(&mut Limits)| -> anyhow::Result<bool> {
        let mut smaller = small.clone();
        change(&mut smaller);
        eprintln!("trying {}", smaller.arguments().join(" "));
        let ended = start(seed, &smaller)?;
        if !ended.passed {
            (*small, output) = (smaller, ended.output);
            return Ok(true);
        }
        Ok(false)
    };
    let switches: [&dyn Fn(&mut Limits); 6] = [
        &|l| l.no_keeper = true,
        &|l| l.no_operator = true,
        &|l| l.no_definitions = true,
        &|l| l.no_faults = true,
        &|l| l.no_stalls = true,
        &|l| l.no_cuts = true,
    ];
    for switch in switches {
        try_with(&mut small, switch)?;
    }
    for lives in 1..small.lives {
        if try_with(&mut small, &|l| l.lives = lives)? {
            break;
        }
    }
    for sessions in [1, 2, 3, 4, 6, 8, 12, 24] {
        if sessions < small.sessions && try_with(&mut small, &|l| l.sessions = sessions)? {
            break;
        }
    }
    while small.transactions > 1 && try_with(&mut small, &|l| l.transactions /= 2)? {}
    let arguments = small.arguments().join(" ");
    bail!("seed {seed}: {}\nrepeat it with: cargo xtask sim --seed {seed} {arguments}", tail(&output))
}

/// The last lines of an output.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.starts_with("count ")).collect();
    lines[lines.len().saturating_sub(120)..].join("\n")
}
