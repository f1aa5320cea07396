//! Random SQL on this engine and on InnoDB in one server, and every answer compared.
//!
//! A scenario is a few tables of any kind and 10 to 60 statements of one to three sessions. A seed
//! and a number name it; what is said next depends on what was answered so far. Compared are rows,
//! errors, warnings, rows affected, which sessions wait for a lock, and at the end the tables,
//! their sums and CHECK TABLE. Now and then the server is killed in between. A difference that is
//! not among the known ones is made smaller, and printed as a script for a client.
//!
//! Where the engines may part, the scenario ends; this engine's tables have to be sound then, too.
//! How many scenarios end by a deadlock that only this engine has is told at the end.

mod altered;
mod answer;
mod by_plan;
mod differences;
mod evidence;
mod forgotten;
mod generate;
mod judge;
mod lanes;
mod lock_waits;
mod lost;
mod meaning;
mod orphans;
mod plans;
mod plants;
mod play;
mod script;
mod sessions;
mod shrink;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::bail;
use holdfast_server::{Cache, Profile, build_as, build_planted};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::generate::Sessions;
use self::judge::{Class, Difference};
use self::lanes::{Lanes, Played};
use self::plants::Planted;
use self::play::{Ending, ONLY_HERE, Stage};
use self::script::Step;
use super::pairs::Engine;

#[derive(clap::Args)]
pub struct Options {
    /// How many scenarios
    #[arg(default_value_t = 1000)]
    scenarios: u64,
    /// Names what happens
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Begin with this scenario of the seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// For so many minutes, however many scenarios that are
    #[arg(long, value_parser = crate::minutes)]
    minutes: Option<f64>,
    /// Go on after a difference, show the first of each kind as it is, and count the others
    #[arg(long)]
    go_on: bool,
    /// Print the script of the first difference whole, and do not make it smaller
    #[arg(long)]
    whole: bool,
    /// A deadlock that only this engine has is a difference, and made smaller
    #[arg(long)]
    deadlocks: bool,
    /// Plant faults in the engine's shim, one after the other, and see that each is found: by
    /// scenarios of a seed of its own
    #[arg(long)]
    plants: bool,
    /// Three sessions at REPEATABLE READ in every scenario
    #[arg(long, conflicts_with = "plants")]
    three: bool,
    /// So many scenarios at once, each on a server of its own; by default twice as many as there
    /// are processors
    #[arg(long)]
    lanes: Option<usize>,
}

impl Options {
    fn of(scenarios: u64) -> Options {
        let (seed, first, minutes, lanes) = (1, 0, None, None);
        let (go_on, whole, deadlocks, plants, three) = (false, false, false, false, false);
        Options { scenarios, seed, first, minutes, go_on, whole, deadlocks, plants, three, lanes }
    }

    /// The scenarios `numbers`, counted from the first one on.
    fn lanes<'a>(&self, cache: &'a Cache, numbers: Range<u64>) -> Lanes<'a> {
        let count = self.lanes.unwrap_or_else(|| 2 * available_parallelism().map_or(1, usize::from)).max(1);
        let numbers = self.first + numbers.start..self.first.saturating_add(numbers.end);
        let (seed, sessions) = (self.seed, self.sessions());
        Lanes { cache, seed, sessions, numbers, until: None, count, judges_deadlocks: self.deadlocks }
    }

    fn sessions(&self) -> Sessions {
        if self.three { Sessions::Three } else { Sessions::Drawn }
    }
}

/// As much of it as takes half a minute.
pub fn short(cache: &Cache) -> anyhow::Result<()> {
    run(cache, &Options::of(30))
}

/// As much of it as the long suites have.
pub fn long(cache: &Cache) -> anyhow::Result<()> {
    run(cache, &Options::of(20_000))?;
    run(cache, &Options { three: true, minutes: Some(MINUTES_OF_THREE), ..Options::of(0) })
}

/// How long the long suites play scenarios of three sessions at REPEATABLE READ.
const MINUTES_OF_THREE: f64 = 120.0;

/// Runs it with the engine as it is built already, or with faults planted in it.
pub fn run_as(cache: &Cache, options: &Options, profile: Profile) -> anyhow::Result<()> {
    if options.plants {
        return find_all(cache, options.lanes, profile);
    }
    run(cache, options)
}

/// Plants each fault, and fails unless all are found. The plugin is without them afterwards.
fn find_all(cache: &Cache, lanes: Option<usize>, profile: Profile) -> anyhow::Result<()> {
    let of = |planted: &Planted| Options { seed: planted.seed, lanes, ..Options::of(planted.within) };
    let found: anyhow::Result<Vec<bool>> =
        plants::ALL.iter().map(|planted| is_found(cache, &of(planted), profile, planted)).collect();
    build_as(cache, profile)?;
    let missed: Vec<_> =
        plants::ALL.iter().zip(found?).filter(|(_, found)| !found).map(|(planted, _)| planted.what).collect();
    if missed.is_empty() { Ok(()) } else { bail!("not found: {}", missed.join("; ")) }
}

/// Looks for one, and tells how that went.
fn is_found(cache: &Cache, options: &Options, profile: Profile, planted: &Planted) -> anyhow::Result<bool> {
    let (begun, what, seed) = (Instant::now(), planted.what, options.seed);
    let found = find(cache, options, profile, planted)?;
    match &found {
        Some((at, Difference { class, question, .. })) => {
            println!(
                "{what}: found by scenario {at} of seed {seed} ({class:?}, {:.0?}) in `{question}`",
                begun.elapsed()
            );
        }
        None => println!("{what}: NOT FOUND in {} scenarios of seed {seed}", planted.within),
    }
    Ok(found.is_some())
}

/// Plants a fault and plays until a scenario differs, by itself and not without the fault.
fn find(
    cache: &Cache,
    options: &Options,
    profile: Profile,
    planted: &Planted,
) -> anyhow::Result<Option<(u64, Difference)>> {
    let mut number = 0;
    while number < planted.within {
        build_planted(cache, profile, planted.plant)?;
        let Some((at, _)) = first_difference(cache, options, number..planted.within)? else { break };
        // A server that one scenario has harmed may be lost in a later one.
        let again = first_difference(cache, options, at..at + 1)?;
        build_as(cache, profile)?;
        if let Some((_, difference)) = again
            && first_difference(cache, options, at..at + 1)?.is_none()
        {
            return Ok(Some((at, difference)));
        }
        number = at + 1;
    }
    Ok(None)
}

/// The first of these scenarios that differs.
fn first_difference(
    cache: &Cache,
    options: &Options,
    numbers: Range<u64>,
) -> anyhow::Result<Option<(u64, Difference)>> {
    let found = Mutex::new(BTreeMap::new());
    options.lanes(cache, numbers).play(|played| {
        let Ending::Differs(difference) = played.ending else { return Ok(true) };
        locked(&found).insert(played.number - options.first, *difference);
        Ok(false)
    })?;
    Ok(locked(&found).pop_first())
}

/// What another lane was at when it panicked is counted, too.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays them, and tells how they ended.
fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    let begun = Instant::now();
    let limit = options.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    let count = if limit.is_some() { u64::MAX } else { options.scenarios };
    let bar = progress(limit.is_none().then_some(count))?;
    let run = Run { options, begun, bar, tally: Mutex::default() };
    let lanes = Lanes { until: limit.map(|limit| begun + limit), ..options.lanes(cache, 0..count) };
    lanes.play(|played| run.told(played))?;
    run.bar.finish_and_clear();
    let tally = locked(&run.tally);
    for (what, times) in &tally.counts {
        println!("{times:>8} {what}");
    }
    if let Some(told) = told_of_deadlocks(&tally.deadlocks, tally.done) {
        println!("{told}");
    }
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    println!(
        "{} scenarios of seed {} from {} on, {} statements, {:.0} scenarios a minute",
        tally.done,
        options.seed,
        options.first,
        tally.statements,
        tally.done as f64 / minutes
    );
    match tally.found {
        0 => Ok(()),
        found => bail!("{found} scenarios differ"),
    }
}

/// How many scenarios of `done` end by a deadlock that only this engine has, and the first of their
/// numbers; nothing if there are none.
fn told_of_deadlocks(numbers: &BTreeSet<u64>, done: u64) -> Option<String> {
    let first: Vec<_> = numbers.iter().take(SHOWN).map(u64::to_string).collect();
    let more = numbers
        .len()
        .checked_sub(SHOWN)
        .filter(|more| *more > 0)
        .map_or_else(String::new, |more| format!(" and {more} more"));
    let per_thousand = 1000.0 * numbers.len() as f64 / done as f64;
    (!numbers.is_empty())
        .then(|| format!("{ONLY_HERE}: {per_thousand:.1} of 1,000 scenarios: {}{more}", first.join(", ")))
}

/// As many numbers of scenarios are shown in a line.
const SHOWN: usize = 20;

/// What is known of the scenarios so far.
#[derive(Default)]
struct Tally {
    /// How often scenarios ended in which way.
    counts: BTreeMap<String, u64>,
    /// Which ones have ended by a deadlock that only this engine has.
    deadlocks: BTreeSet<u64>,
    done: u64,
    statements: u64,
    found: u64,
    /// When that was last told.
    told: Option<Instant>,
}

struct Run<'a> {
    options: &'a Options,
    begun: Instant,
    bar: ProgressBar,
    tally: Mutex<Tally>,
}

impl Run<'_> {
    /// Counts a scenario. False if there are to be no more.
    fn told(&self, played: Played<'_, '_, '_>) -> anyhow::Result<bool> {
        let (what, differs) = match &played.ending {
            Ending::Same => ("the same to the end".to_owned(), false),
            Ending::Parted(reason) => (format!("the same until: {reason}"), false),
            Ending::Differs(difference) => (format!("DIFFERENT: {:?}", difference.class), true),
        };
        let mut tally = locked(&self.tally);
        *tally.counts.entry(what).or_default() += 1;
        if matches!(played.ending, Ending::Parted(ONLY_HERE)) {
            tally.deadlocks.insert(played.number);
        }
        tally.done += 1;
        tally.statements += played.steps.len() as u64;
        tally.found += u64::from(differs);
        let is_first = tally.found == 1;
        self.bar.inc(1);
        if self.bar.is_hidden() && tally.told.unwrap_or(self.begun).elapsed() > Duration::from_secs(20) {
            tally.told = Some(Instant::now());
            println!("{} scenarios, {} statements, {:.0?}", tally.done, tally.statements, self.begun.elapsed());
        }
        drop(tally);
        let Ending::Differs(difference) = played.ending else { return Ok(true) };
        self.show(played.stage, played.number, &difference);
        // A server may be gone before the scenario says anything.
        if is_first && !self.options.go_on && !played.steps.is_empty() {
            self.shrink(played.stage, played.steps, *difference)?;
        }
        Ok(self.options.go_on)
    }

    /// The difference as it is, and the line that repeats it.
    fn show(&self, stage: &Stage<'_, '_>, number: u64, difference: &Difference) {
        if difference.class == Class::Lost {
            println!("the server is gone; its log:\n{}", stage.server.log_tail());
        }
        println!(
            "DIFFERENT: {:?}: cargo xtask mariadb compare 1 --seed {} --first {number}{}\n  {}\n--- Holdfast\n{}--- InnoDB\n{}",
            difference.class,
            self.options.seed,
            if self.options.three { " --three" } else { "" },
            difference.question,
            difference.ours,
            difference.theirs
        );
    }

    /// Makes it smaller and prints it as scripts.
    fn shrink(&self, stage: &Stage<'_, '_>, steps: Vec<Step>, difference: Difference) -> anyhow::Result<()> {
        let (mut steps, difference) = if self.options.whole {
            (steps, difference)
        } else {
            println!("it is made smaller");
            shrink::shrink(stage, steps, difference)?
        };
        let asks = |step: &Step| matches!(step, Step::Say(statement) if statement.sql == difference.question);
        if !difference.question.is_empty() && !steps.last().is_some_and(asks) {
            steps.push(Step::say(0, &difference.question));
        }
        for engine in Engine::ALL {
            println!("\n---- for a client, {}:\n{}", engine.name(), script::text(&steps, engine));
        }
        println!("\n---- Holdfast answers\n{}---- InnoDB answers\n{}", difference.ours, difference.theirs);
        Ok(())
    }
}

fn progress(count: Option<u64>) -> anyhow::Result<ProgressBar> {
    let bar = match count {
        Some(count) => ProgressBar::new(count)
            .with_style(ProgressStyle::with_template("compare {bar:40} {pos}/{len} scenarios, {per_sec}, {eta} left")?),
        None => ProgressBar::no_length()
            .with_style(ProgressStyle::with_template("compare {spinner} {pos} scenarios, {per_sec}, {elapsed}")?),
    };
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    Ok(bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_that_end_by_a_deadlock_of_this_engine_alone_are_listed() {
        assert_eq!(told_of_deadlocks(&BTreeSet::new(), 500), None);
        let told = told_of_deadlocks(&BTreeSet::from([31, 7]), 500).unwrap();
        assert_eq!(told, "a deadlock that only Holdfast has: 4.0 of 1,000 scenarios: 7, 31");
        let told = told_of_deadlocks(&(0..23).collect(), 1_000).unwrap();
        assert!(told.ends_with(", 19 and 3 more"), "{told}");
    }
}
