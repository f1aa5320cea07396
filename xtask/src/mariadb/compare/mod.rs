//! Random SQL on this engine and on InnoDB in one server, and every answer compared.
//!
//! A scenario is a few tables of any kind and 10 to 60 statements of one to three sessions. A seed
//! and a number name it; what is said next depends on what was answered so far. Compared are rows,
//! errors, warnings, rows affected, which sessions wait for a lock, and at the end the tables,
//! their sums and CHECK TABLE. Now and then the server is killed in between. A difference that is
//! not among the known ones is made smaller, and printed as a script for a client.

mod answer;
mod differences;
mod generate;
mod judge;
mod meaning;
mod plants;
mod play;
mod script;
mod sessions;
mod shrink;
mod tokens;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::bail;
use holdfast_server::server::SOCKET_ONLY;
use holdfast_server::{Cache, Profile, Server, build_as, build_planted};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::generate::scenario;
use self::judge::{Class, Difference};
use self::plants::Planted;
use self::play::{Ending, Stage};
use self::script::Step;
use super::pairs::Engine;

const OPTIONS: [&str; 11] = [
    // What is committed survives the end of the server, which is all that is asked of it here.
    "--holdfast-flush-log-at-trx-commit=2",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-flush-method=nosync",
    "--innodb-buffer-pool-size=32M",
    "--holdfast-buffer-pool-size=32M",
    "--skip-sync-frm",
    "--aria-pagecache-buffer-size=8M",
    "--performance-schema=off",
    "--character-set-server=utf8mb4",
    "--query-cache-type=0",
    "--innodb-stats-auto-recalc=on",
];

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
    #[arg(long)]
    minutes: Option<f64>,
    /// Go on after a difference, show the first of each kind as it is, and count the others
    #[arg(long)]
    go_on: bool,
    /// Plant faults in the engine's shim, one after the other, and see that each is found
    #[arg(long)]
    plants: bool,
}

/// As much of it as takes half a minute.
pub fn short(cache: &Cache) -> anyhow::Result<()> {
    run(cache, &Options { scenarios: 30, seed: 1, first: 0, minutes: None, go_on: false, plants: false })
}

/// As much of it as the long suites have.
pub fn long(cache: &Cache) -> anyhow::Result<()> {
    run(cache, &Options { scenarios: 20_000, seed: 1, first: 0, minutes: None, go_on: false, plants: false })
}

/// Runs it with the engine as it is built already, or with faults planted in it.
pub fn run_as(cache: &Cache, options: &Options, profile: Profile) -> anyhow::Result<()> {
    if options.plants {
        let all = plants::ALL.iter().try_for_each(|planted| find(cache, options, profile, planted));
        build_as(cache, profile)?;
        return all;
    }
    run(cache, options)
}

/// Plants a fault and plays until a scenario differs that does not differ without the fault.
fn find(cache: &Cache, options: &Options, profile: Profile, planted: &Planted) -> anyhow::Result<()> {
    let mut number = 0;
    while number < planted.within {
        build_planted(cache, profile, planted.plant)?;
        let Some((at, difference)) = first_difference(cache, options, number..planted.within)? else { break };
        build_as(cache, profile)?;
        if first_difference(cache, options, at..at + 1)?.is_none() {
            println!("{}: found by scenario {at} ({:?}) in `{}`", planted.what, difference.class, difference.question);
            return Ok(());
        }
        number = at + 1;
    }
    bail!("{}: not found in {} scenarios of seed {}", planted.what, planted.within, options.seed)
}

/// The first of these scenarios that differs, on a server of its own.
fn first_difference(
    cache: &Cache,
    options: &Options,
    numbers: Range<u64>,
) -> anyhow::Result<Option<(u64, Difference)>> {
    let server = Server::new(cache, "compare").bound_to_us();
    let up = |fresh| server.up(SOCKET_ONLY, fresh, &OPTIONS.map(String::from));
    up(true)?;
    let stage = Stage { server: &server, up: &up };
    let mut found = None;
    for number in numbers {
        let (_, ending) = stage.play(&mut *scenario(options.seed, options.first + number))?;
        if let Ending::Differs(difference) = ending {
            found = Some((number, *difference));
            break;
        }
    }
    // A fault may have ended it.
    let _ = server.kill();
    Ok(found)
}

/// Runs it; stops the server again.
fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    let server = Server::new(cache, "compare").bound_to_us();
    let up = |fresh| server.up(SOCKET_ONLY, fresh, &OPTIONS.map(String::from));
    up(true)?;
    let result = Run { stage: Stage { server: &server, up: &up }, options, counts: BTreeMap::new(), found: 0 }.all();
    match &result {
        Ok(()) => server.down()?,
        Err(_) => println!("log of the server:\n{}", server.log_tail()),
    }
    result
}

struct Run<'a, 's, 'c> {
    stage: Stage<'s, 'c>,
    options: &'a Options,
    /// How often scenarios ended in which way.
    counts: BTreeMap<String, u64>,
    found: u64,
}

impl Run<'_, '_, '_> {
    fn all(mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let limit = self.options.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
        let count = if limit.is_some() { u64::MAX } else { self.options.scenarios };
        let bar = progress(limit.is_none().then_some(count))?;
        let (mut done, mut statements, mut told) = (0, 0, Instant::now());
        while done < count && limit.is_none_or(|limit| begun.elapsed() < limit) {
            let number = self.options.first + done;
            statements += self.scenario(number)?;
            done += 1;
            bar.inc(1);
            if bar.is_hidden() && told.elapsed() > Duration::from_secs(20) {
                told = Instant::now();
                println!("{done} scenarios, {statements} statements, {:.0?}", begun.elapsed());
            }
        }
        bar.finish_and_clear();
        for (what, times) in &self.counts {
            println!("{times:>8} {what}");
        }
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        println!(
            "{done} scenarios of seed {} from {} on, {statements} statements, {:.0} scenarios a minute",
            self.options.seed,
            self.options.first,
            done as f64 / minutes
        );
        if self.found > 0 {
            bail!("{} scenarios differ", self.found);
        }
        Ok(())
    }

    /// How many steps it had.
    fn scenario(&mut self, number: u64) -> anyhow::Result<u64> {
        let (steps, ending) = self.stage.play(&mut *scenario(self.options.seed, number))?;
        let count = steps.len() as u64;
        let what = match ending {
            Ending::Same => "the same to the end".to_owned(),
            Ending::Parted(reason) => format!("the same until: {reason}"),
            Ending::Differs(difference) => self.differs(number, steps, *difference)?,
        };
        *self.counts.entry(what).or_default() += 1;
        Ok(count)
    }

    fn differs(&mut self, number: u64, steps: Vec<Step>, difference: Difference) -> anyhow::Result<String> {
        self.found += 1;
        let kind = format!("DIFFERENT: {:?}", difference.class);
        let repeat = format!("cargo xtask mariadb compare 1 --seed {} --first {number}", self.options.seed);
        if difference.class == Class::Lost {
            println!("the server is gone; its log:\n{}", self.stage.server.log_tail());
        }
        if self.options.go_on {
            println!(
                "{kind}: {repeat}\n  {}\n--- Holdfast\n{}--- InnoDB\n{}",
                difference.question, difference.ours, difference.theirs
            );
            return Ok(kind);
        }
        println!("scenario {number} differs ({:?}) in `{}`; it is made smaller", difference.class, difference.question);
        let (mut steps, difference) = shrink::shrink(&self.stage, steps, difference)?;
        let asks = |step: &Step| matches!(step, Step::Say(statement) if statement.sql == difference.question);
        if !steps.last().is_some_and(asks) {
            steps.push(Step::say(0, &difference.question));
        }
        for engine in Engine::ALL {
            println!("\n---- for a client, {}:\n{}", engine.name(), script::text(&steps, engine));
        }
        println!("\n---- Holdfast answers\n{}---- InnoDB answers\n{}", difference.ours, difference.theirs);
        bail!("the engines differ; `{repeat}` repeats it");
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
