//! `holdfast-sim`: crashes databases on purpose and looks at what is left.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::bail;
use clap::{Parser, Subcommand};
use holdfast_sim::{bank, damage, kill, recovery, script};
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Parser)]
#[command(about = "Crashes databases on purpose and checks what is left", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Power cuts on a simulated disk that forgets, tears and reorders what was not synced
    Crash {
        /// How many seeds to run
        #[arg(long, default_value_t = 1_000)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Run this seed only, and print what it does
        #[arg(long)]
        seed: Option<u64>,
        /// Seeds that run at the same time
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// A child process on a real directory, killed with SIGKILL under load
    Kill {
        /// How many times
        #[arg(long, default_value_t = 20)]
        rounds: u32,
        /// Seed of the moments and the load
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Sessions, an operator and the engine's threads under a seeded scheduler, on a disk that
    /// fails
    #[cfg(sim)]
    Whole {
        /// How many seeds to run
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Run this seed only, in this process
        #[arg(long)]
        seed: Option<u64>,
        /// Seeds that run at the same time
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Plant each fault of a list in turn, and see how many seeds it takes to find it
        #[arg(long)]
        plants: bool,
        /// With `--plants`: only the faults that are found within so many seeds
        #[arg(long, default_value_t = u64::MAX)]
        within: u64,
        #[command(flatten)]
        limits: holdfast_sim::whole::plan::Limits,
    },
    /// Fields, pages and files damaged with knowledge of the format, and the database used then
    Damage {
        /// How many trials to run
        #[arg(long, default_value_t = 1_000)]
        trials: u64,
        /// The seed of the first one
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Run this trial only, on the bases of the last run, and print what it damages
        #[arg(long)]
        trial: Option<damage::spec::Trial>,
        /// Trials that run at the same time
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Go on after a failure
        #[arg(long)]
        keep_going: bool,
    },
    /// The child of `damage`
    #[command(hide = true)]
    DamageChild {
        /// The bases
        dir: PathBuf,
    },
    /// Builds what `damage` damages
    #[cfg(sim)]
    #[command(hide = true)]
    DamageBases {
        /// Where
        dir: PathBuf,
    },
    /// The child of `damage-bases`
    #[cfg(sim)]
    #[command(hide = true)]
    DamageBase {
        /// Which
        no: usize,
        /// Where
        dir: PathBuf,
    },
    /// How long recovery takes, for log tails of these sizes
    Recovery {
        /// Sizes of the tail, in MiB
        #[arg(long, value_delimiter = ',', default_value = "64,256,1024")]
        tails_mib: Vec<u64>,
        #[command(flatten)]
        shape: recovery::Shape,
    },
    /// The child of `recovery`
    #[command(hide = true)]
    RecoveryChild {
        /// The database
        dir: PathBuf,
        /// Size of the tail
        tail_mib: u64,
        #[command(flatten)]
        shape: recovery::Shape,
    },
    /// The child of `kill`
    #[command(hide = true)]
    KillChild {
        /// The database
        dir: PathBuf,
        /// Seed of the load
        seed: u64,
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Crash { seed: Some(seed), .. } => {
            let lives = run_seed(seed)?;
            println!("seed {seed}: {lives} lives, nothing lost");
            Ok(())
        }
        Command::Crash { seeds, first, seed: None, jobs } => crash(first..first + seeds, jobs),
        #[cfg(sim)]
        Command::Whole { seed: Some(seed), limits, .. } => holdfast_sim::whole::runner::one(seed, &limits),
        #[cfg(sim)]
        Command::Whole { plants: true, jobs, within, limits, .. } => {
            holdfast_sim::whole::runner::plants(jobs, within, &limits)
        }
        #[cfg(sim)]
        Command::Whole { seeds, first, seed: None, jobs, limits, .. } => {
            holdfast_sim::whole::runner::many(first..first + seeds, jobs, &limits)
        }
        Command::Kill { rounds, seed } => kill::run(rounds, seed),
        Command::Damage { trial: Some(trial), .. } => damage::runner::one(&trial),
        Command::Damage { trials, seed, trial: None, jobs, keep_going } => {
            damage::runner::many(damage::runner::Run { trials, first: seed, jobs, all: keep_going })
        }
        Command::DamageChild { dir } => damage::child::serve(&dir),
        #[cfg(sim)]
        Command::DamageBases { dir } => damage::maker::make_all(&dir),
        #[cfg(sim)]
        Command::DamageBase { no, dir } => damage::maker::make(no, &dir),
        Command::Recovery { tails_mib, shape } => recovery::run(&tails_mib, &shape),
        Command::RecoveryChild { dir, tail_mib, shape } => recovery::child(&dir, tail_mib, &shape),
        Command::KillChild { dir, seed } => kill::child(&dir, seed),
    }
}

/// Even seeds interleave transactions on one thread, odd ones run threads that move money.
fn run_seed(seed: u64) -> anyhow::Result<u32> {
    if seed.is_multiple_of(2) { script::run(seed) } else { bank::run(seed) }
}

fn crash(seeds: std::ops::Range<u64>, jobs: usize) -> anyhow::Result<()> {
    let bar = ProgressBar::new(seeds.end - seeds.start).with_style(ProgressStyle::with_template(
        "crash simulation {bar:40} {pos}/{len} seeds, {per_sec}, {eta} left",
    )?);
    let (next, lives, stop) = (AtomicU64::new(seeds.start), AtomicU64::new(0), AtomicBool::new(false));
    let failures = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1))
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds.end {
                            break;
                        }
                        match run_seed(seed) {
                            Ok(n) => drop(lives.fetch_add(u64::from(n), Ordering::Relaxed)),
                            Err(error) => {
                                stop.store(true, Ordering::Relaxed);
                                failures.push((seed, error));
                            }
                        }
                        bar.inc(1);
                    }
                    failures
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker does not panic")).collect::<Vec<_>>()
    });
    bar.finish_and_clear();
    if let Some((seed, error)) = failures.into_iter().next() {
        bail!("seed {seed}: {error:#}\nrepeat it with: cargo run --release -p holdfast-sim -- crash --seed {seed}");
    }
    let n = seeds.end - seeds.start;
    println!("{n} seeds, {} power cuts: nothing acknowledged was lost, nothing half done was left", lives.into_inner());
    Ok(())
}
