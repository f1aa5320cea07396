//! Runs many trials in child processes, watches over them, and makes a failing trial smaller.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::base::{DRAWN, PLANS};
use super::child::describe;
use super::judge::Became;
use super::kinds::KINDS;
use super::spec::Trial;

/// The longest that a trial may take, on a machine that has other work: it takes a tenth of a
/// second or so.
const LONGEST: Duration = Duration::from_secs(60);
/// Where bases are kept, from the directory of the build.
const BASES: &str = "damage-bases";

/// What a process answered to a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Became(Became),
    /// Nothing could be damaged in that way.
    Nothing,
    Failed(String),
}

/// A process that runs trials.
struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// What it wrote on standard error.
    words: Receiver<String>,
}

impl Worker {
    fn start(bases: &Path) -> anyhow::Result<Worker> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("damage-child")
            .arg(bases)
            // Else each thread reserves address space of its own.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("could not start a process for trials")?;
        let (input, output) =
            (child.stdin.take().context("it has a stdin")?, child.stdout.take().context("it has a stdout")?);
        let errors = child.stderr.take().context("it has a stderr")?;
        let ((line, lines), (word, words)) = (channel(), channel());
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|text| line.send(text).is_ok());
        });
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = BufReader::new(errors).read_to_string(&mut text);
            word.send(text)
        });
        let mut worker = Worker { child, input, lines, words };
        let ready = worker.lines.recv_timeout(LONGEST).ok();
        if ready.as_deref() != Some("ready") {
            bail!("a process for trials does not start: {}", worker.last_words());
        }
        Ok(worker)
    }

    /// Runs a trial. After a failure that ended it the worker is of no use any more: `None` in its
    /// place.
    fn run(mut self, trial: &Trial) -> (Option<Worker>, Answer) {
        if writeln!(self.input, "{trial}").and_then(|()| self.input.flush()).is_err() {
            let words = self.last_words();
            return (None, Answer::Failed(words));
        }
        match self.lines.recv_timeout(LONGEST) {
            Ok(line) => (Some(self), parse(&line)),
            Err(RecvTimeoutError::Timeout) => {
                let words = self.last_words();
                (None, Answer::Failed(format!("hangs: no answer within {LONGEST:?} {words}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let words = self.last_words();
                (None, Answer::Failed(words))
            }
        }
    }

    /// Ends the process and says how it ended.
    fn last_words(&mut self) -> String {
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        let words = self.words.recv().unwrap_or_default();
        format!("the process ended, {status}\n{words}")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Answer {
    if line == "none" {
        return Answer::Nothing;
    }
    let became = line.strip_prefix("ok ").and_then(|name| Became::ALL.into_iter().find(|became| became.name() == name));
    became.map_or_else(|| Answer::Failed(line.strip_prefix("failed ").unwrap_or(line).to_owned()), Answer::Became)
}

/// The directory of the bases: beside the program.
fn bases() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().context("the program is in a directory")?.join(BASES))
}

/// Builds all bases, by this program as it is built for the simulation: see `maker`.
fn build(dir: &Path) -> anyhow::Result<()> {
    println!("building the databases, under the scheduler of the simulation");
    let _ = std::fs::remove_dir_all(dir);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = here.join("../../target/sim");
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "holdfast-sim", "--target-dir"])
        .arg(target)
        .args(["--", "damage-bases"])
        .arg(dir)
        .current_dir(here)
        .env("RUSTFLAGS", "--cfg sim")
        .status()
        .context("`cargo` does not start")?;
    ensure!(status.success(), "the databases could not be built: {status}");
    Ok(())
}

/// Which trials are run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How many.
    pub trials: u64,
    /// The seed of the first one.
    pub first: u64,
    /// How many at the same time.
    pub jobs: usize,
    /// True to go on after a failure.
    pub all: bool,
}

/// What became of damages, by kind.
type Table = BTreeMap<usize, BTreeMap<Became, u64>>;

/// Runs one trial again; bases of an earlier run are used if there are any.
///
/// # Errors
/// If it fails.
pub fn one(trial: &Trial) -> anyhow::Result<()> {
    let dir = bases()?;
    if !dir.join((PLANS.len() - 1).to_string()).join("tables").exists() {
        build(&dir)?;
    }
    println!("{}", describe(&dir, trial)?);
    match Worker::start(&dir)?.run(trial).1 {
        Answer::Failed(why) => bail!("{trial}: {why}"),
        answer => println!("{trial}: {answer:?}"),
    }
    Ok(())
}

/// Runs the trials of the seeds from `run.first` on; the first that fails is made smaller, and the
/// line that repeats it is printed.
///
/// # Errors
/// If one fails, or a kind of damage was never done in many trials.
pub fn many(run: Run) -> anyhow::Result<()> {
    let begun = Instant::now();
    let dir = bases()?;
    build(&dir)?;
    let bar = ProgressBar::new(run.trials)
        .with_style(ProgressStyle::with_template("damage {bar:40} {pos}/{len} trials, {per_sec}, {eta} left")?);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let (next, stop) = (AtomicU64::new(run.first), AtomicBool::new(false));
    let (table, failed) = (Mutex::new(Table::new()), Mutex::new(Vec::new()));
    let work = || -> anyhow::Result<()> {
        let mut worker = None;
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= run.first + run.trials {
                break;
            }
            let trial = Trial::draw(seed);
            let own = worker.take().map_or_else(|| Worker::start(&dir), Ok)?;
            let (left, answer) = own.run(&trial);
            worker = left;
            match answer {
                Answer::Nothing => {}
                Answer::Became(became) => count(&mut lock(&table), &trial, became),
                Answer::Failed(why) => {
                    stop.store(!run.all, Ordering::Relaxed);
                    lock(&failed).push((seed, trial, why.clone()));
                    if run.all {
                        println!("{seed}: {}: {}", Trial::draw(seed), headline(&why));
                    }
                }
            }
            bar.inc(1);
            let done = seed - run.first + 1;
            if bar.is_hidden() && done.is_multiple_of(500) {
                println!("damage: {done} of {} trials, {:.0?}", run.trials, begun.elapsed());
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..run.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic here"))
    })?;
    bar.finish_and_clear();
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by_key(|(seed, ..)| *seed);
    if let Some((seed, trial, why)) = failed.into_iter().next() {
        return report(&dir, seed, trial, why);
    }
    let seconds = begun.elapsed().as_secs_f64();
    show(&table.into_inner().unwrap_or_else(PoisonError::into_inner), run.trials)?;
    println!("{} trials in {seconds:.0} s, {:.1} a second: nothing wrong", run.trials, run.trials as f64 / seconds);
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(table: &mut Table, trial: &Trial, became: Became) {
    for (kind, _) in &trial.damages {
        *table.entry(*kind).or_default().entry(became).or_default() += 1;
    }
}

/// Prints what became of the damages of each kind.
fn show(table: &Table, trials: u64) -> anyhow::Result<()> {
    println!("{:<18} {:>8} {:>8} {:>8} {:>8}", "damage", "refused", "reported", "error", "harmless");
    let mut missed = Vec::new();
    for (kind, named) in KINDS.iter().enumerate() {
        let of = |became| table.get(&kind).and_then(|row| row.get(&became)).copied().unwrap_or(0);
        let row = Became::ALL.map(of);
        println!("{:<18} {:>8} {:>8} {:>8} {:>8}", named.name, row[0], row[1], row[2], row[3]);
        if row.iter().sum::<u64>() == 0 {
            missed.push(named.name);
        }
    }
    ensure!(missed.is_empty() || trials < 1_000, "never done: {}", missed.join(", "));
    Ok(())
}

/// Makes a failing trial smaller and reports it.
fn report(dir: &Path, seed: u64, trial: Trial, why: String) -> anyhow::Result<()> {
    let (mut small, mut said) = (trial, why);
    let fails = |trial: &Trial| -> anyhow::Result<Option<String>> {
        Ok(match Worker::start(dir)?.run(trial).1 {
            Answer::Failed(why) => Some(why),
            _ => None,
        })
    };
    let mut n = 0;
    while small.damages.len() > 1 && n < small.damages.len() {
        let mut fewer = small.clone();
        fewer.damages.remove(n);
        match fails(&fewer)? {
            Some(why) => (small, said, n) = (fewer, why, 0),
            None => n += 1,
        }
    }
    for base in DRAWN..PLANS.len() {
        let smaller = Trial { base, ..small.clone() };
        if let Some(why) = fails(&smaller)? {
            (small, said) = (smaller, why);
            break;
        }
    }
    println!("{}", describe(dir, &small)?);
    bail!("seed {seed}: {said}\nrepeat it with: cargo run -p holdfast-sim -- damage --trial {small}")
}

/// The line of a failure that says the most.
fn headline(why: &str) -> String {
    let line = why.lines().find(|line| line.starts_with("panic")).or_else(|| why.lines().next()).unwrap_or_default();
    let next = why.lines().skip_while(|l| *l != line).nth(1).unwrap_or_default();
    if line.starts_with("panic") { format!("{line} {next}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        for became in Became::ALL {
            assert_eq!(parse(&format!("ok {}", became.name())), Answer::Became(became));
        }
        assert_eq!(parse("none"), Answer::Nothing);
        assert_eq!(parse("failed rows are lost"), Answer::Failed("rows are lost".into()));
        assert_eq!(headline("the process ended\npanic: at x\nwhy"), "panic: at x why");
    }

    #[test]
    fn each_damage_of_a_trial_is_counted() {
        let mut table = Table::new();
        let trial = Trial { base: 0, life: 0, damages: vec![(1, 0), (2, 0)] };
        count(&mut table, &trial, Became::Reported);
        count(&mut table, &trial, Became::Harmless);
        assert_eq!(table[&1], BTreeMap::from([(Became::Reported, 1), (Became::Harmless, 1)]));
        assert_eq!(table.len(), 2);
        assert!(show(&table, 1_000).is_err() && show(&table, 10).is_ok());
    }
}
