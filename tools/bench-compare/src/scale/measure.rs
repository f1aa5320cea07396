//! The parent: starts the engines' processes and hands out the turns.

use std::io::IsTerminal;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use holdfast_lab::measure::count;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::Signal;

use super::cells::{Cell, Sample, Work};
use super::child::{Reply, Request, Turn};
use super::options::Options;
use crate::process::{self, Process};

/// What a turn takes beside its length: threads are started, tables are emptied, a last operation
/// ends.
const BESIDE_A_TURN: f64 = 0.04;
/// Turns that `--within` does not shorten further before it leaves some out: the interval of three
/// turns is too wide for a verdict, whatever their length.
const SHORT_TURN: f64 = 0.1;
const LEAST_TURN: f64 = 0.05;
const LEAST_TURNS: usize = 3;

/// The process of an engine; stopped but in its turns.
struct Contender {
    name: String,
    process: Process,
}

impl Contender {
    fn start(name: &str, options: &Options) -> anyhow::Result<Contender> {
        let mut command = Command::new(process::own_program()?);
        command.args(["scale", "--child", name, "--rows", &options.rows.to_string(), "--dir"]);
        command.arg(options.dir.as_ref().context("the folder is chosen")?);
        let process = Process::start(&mut command).with_context(|| format!("{name} could not be started"))?;
        Ok(Contender { name: name.to_string(), process })
    }

    /// Lets the engine run until it has answered.
    fn ask(&mut self, request: &Request) -> anyhow::Result<Reply> {
        self.process.signal(Signal::CONT)?;
        let reply: Reply = self.process.exchange(request)?;
        self.process.signal(Signal::STOP)?;
        if let Some(error) = reply.error {
            bail!("{error}");
        }
        Ok(reply)
    }

    fn end(self) {
        let _ = self.process.signal(Signal::CONT);
        self.process.end();
    }
}

/// Loads all engines and measures everything. `options` tell afterwards what the turns were like.
pub fn run(options: &mut Options) -> anyhow::Result<Vec<Cell>> {
    let begun = Instant::now();
    let mut contenders = Vec::new();
    for name in &options.engines {
        let mut contender = Contender::start(name, options)?;
        let loaded = contender.ask(&Request::Load).with_context(|| format!("{name} could not be loaded"))?;
        eprintln!("{name}: {} rows loaded in {:.1} s", count(options.rows), loaded.seconds);
        contenders.push(contender);
    }
    let works = Work::all(&options.operations, &options.modes);
    let cells = works.len() * options.threads.len() * contenders.len();
    if let Some(within) = options.within {
        let left = Duration::from_secs(within).saturating_sub(begun.elapsed()).as_secs_f64();
        // The turns that warm up are like a turn of one number of threads.
        let warm_up = works.len() * contenders.len();
        (options.turns, options.seconds) = fit(left, cells, warm_up, options.turns, options.seconds);
    }
    let mut progress = Progress::new(works.len() * (options.turns * options.threads.len() + 1) * contenders.len());
    let mut measured = Vec::with_capacity(cells);
    for work in works {
        let cells = measure(&mut contenders, work, options, &mut progress)
            .with_context(|| format!("{} was not measured", work.title()))?;
        measured.extend(cells);
        progress.say(&work.title());
    }
    progress.bar.finish_and_clear();
    contenders.into_iter().for_each(Contender::end);
    Ok(measured)
}

/// Number and length of the turns that take `left` seconds at most, if that can be.
fn fit(left: f64, cells: usize, warm_up: usize, turns: usize, seconds: f64) -> (usize, f64) {
    let length = |turns: usize| left / (cells * turns + warm_up).max(1) as f64 - BESIDE_A_TURN;
    let mut turns = turns;
    while turns > LEAST_TURNS && length(turns) < SHORT_TURN.min(seconds) {
        turns -= 1;
    }
    (turns, length(turns).clamp(LEAST_TURN, seconds.max(LEAST_TURN)))
}

/// One operation at all numbers of threads on all engines.
fn measure(
    contenders: &mut [Contender],
    work: Work,
    options: &Options,
    progress: &mut Progress,
) -> anyhow::Result<Vec<Cell>> {
    let counts = &options.threads;
    let mut samples = vec![vec![Vec::with_capacity(options.turns); counts.len()]; contenders.len()];
    let most = counts.last().copied().context("there is a number of threads")?;
    for contender in contenders.iter_mut() {
        one_turn(contender, work, most, 0, options, progress)?;
    }
    for turn in 0..options.turns {
        for (column, &threads) in counts.iter().enumerate() {
            for place in 0..contenders.len() {
                let engine = (place + turn) % contenders.len();
                let sample = one_turn(&mut contenders[engine], work, threads, turn as u64 + 1, options, progress)?;
                samples[engine][column].push(sample);
            }
        }
    }
    let one = counts.iter().position(|&threads| threads == 1);
    let cells = contenders.iter().zip(samples).flat_map(|(contender, rows)| {
        let of_one = one.map(|column| rows[column].clone());
        let cell = move |(turns, &threads): (Vec<Sample>, &usize)| {
            Cell::new(work, &contender.name, threads, turns, of_one.as_deref())
        };
        rows.into_iter().zip(counts).map(cell).collect::<Vec<_>>()
    });
    Ok(cells.collect())
}

fn one_turn(
    contender: &mut Contender,
    work: Work,
    threads: usize,
    seed: u64,
    options: &Options,
    progress: &mut Progress,
) -> anyhow::Result<Sample> {
    let Work { operation, durability } = work;
    let turn = Turn { operation, durability, threads, seconds: options.seconds, seed };
    progress.turn(|| format!("{}, {threads} threads, {}", work.title(), contender.name));
    let reply = contender.ask(&Request::Turn(turn));
    let reply = reply.with_context(|| format!("{} failed with {threads} threads", contender.name))?;
    Ok(Sample::of(&reply))
}

/// A bar on a terminal, a line for each operation elsewhere.
struct Progress {
    bar: ProgressBar,
    terminal: bool,
    begun: Instant,
}

impl Progress {
    fn new(turns: usize) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(turns as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos} of {len} turns, {eta} left: {msg}") {
            bar.set_style(style);
        }
        Progress { bar, terminal, begun: Instant::now() }
    }

    /// A turn begins.
    fn turn(&self, what: impl FnOnce() -> String) {
        if self.terminal {
            self.bar.set_message(what());
        }
        self.bar.inc(1);
    }

    /// An operation is measured.
    fn say(&self, what: &str) {
        if !self.terminal {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
            let left = remaining(self.begun.elapsed(), done, all);
            eprintln!("{what}: measured; {done} of {all} turns, about {} left", HumanDuration(left));
        }
    }
}

/// What `all` turns take beyond the time of those `done`.
fn remaining(spent: Duration, done: u64, all: u64) -> Duration {
    spent.mul_f64(all.saturating_sub(done) as f64 / done.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_become_shorter_and_then_fewer() {
        assert_eq!(fit(1e9, 10, 2, 5, 1.0), (5, 1.0));
        let (turns, seconds) = fit(26.0, 10, 2, 5, 1.0);
        assert!(turns == 5 && (seconds - 0.46).abs() < 1e-9, "{turns} {seconds}");
        let (turns, seconds) = fit(7.8, 10, 2, 5, 1.0);
        assert!(turns == 5 && (seconds - 0.11).abs() < 1e-9, "{turns} {seconds}");
        let (turns, seconds) = fit(4.8, 10, 2, 5, 1.0);
        assert!(turns == 3 && (seconds - 0.11).abs() < 1e-9, "{turns} {seconds}");
        assert_eq!(fit(0.0, 10, 2, 5, 1.0), (3, LEAST_TURN));
        assert_eq!(fit(1e9, 10, 2, 1, 0.01), (1, LEAST_TURN));
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done() {
        assert_eq!(remaining(Duration::from_secs(10), 1, 4), Duration::from_secs(30));
        assert_eq!(remaining(Duration::from_secs(10), 4, 4), Duration::ZERO);
    }
}
