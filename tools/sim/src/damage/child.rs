//! The process that runs trials: one line in, one line out. What ends it, or keeps it from
//! answering, is the trial's fault.

use std::io::{BufRead, Write};
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::base::{self, Base, PLANS};
use super::kinds::KINDS;
use super::life;
use super::spec::Trial;

/// Bytes of address space: trials need a few hundred MiB of it, for threads' stacks above all.
const MEMORY: u64 = 2 << 30;

/// Runs the trials that come on standard input.
///
/// # Errors
/// The errors of the bases and of the streams; a trial's are answers.
pub fn serve(bases: &Path) -> anyhow::Result<()> {
    let bases = (0..PLANS.len()).map(|no| base::load(no, bases)).collect::<anyhow::Result<Vec<Base>>>()?;
    limit();
    let mut out = std::io::stdout();
    writeln!(out, "ready")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{}", answer(&bases, &line?.parse()?))?;
        out.flush()?;
    }
    Ok(())
}

/// Limits memory, and lets every panic, on whatever thread, end the process.
fn limit() {
    let hard = getrlimit(Resource::As).maximum;
    // Where it cannot be limited, a trial that takes too much still shows, later.
    let _ = setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: hard });
    std::panic::set_hook(Box::new(|info| {
        eprintln!("panic: {info}\n{}", std::backtrace::Backtrace::force_capture());
        std::process::abort();
    }));
}

/// `ok BECAME`, `none`, or `failed` and why, with what was damaged, in one line.
fn answer(bases: &[Base], trial: &Trial) -> String {
    match life::run(&bases[trial.base], trial) {
        Ok((_, done)) if done.is_empty() => "none".to_owned(),
        Ok((became, _)) => format!("ok {}", became.name()),
        Err(error) => format!("failed {}", format!("{error:#}").replace('\n', " ")),
    }
}

/// What a trial damages, for people.
///
/// # Errors
/// The errors of reading the base.
pub fn describe(dir: &Path, trial: &Trial) -> anyhow::Result<String> {
    let base = base::load(trial.base, dir)?;
    let (_, done) = life::damage(&base, trial);
    let lines: Vec<String> = done.iter().map(|d| format!("  {} [{:?}, {:?}]", d.what, d.target, d.leeway)).collect();
    let kinds: Vec<&str> = trial.damages.iter().map(|(kind, _)| KINDS[*kind].name).collect();
    Ok(format!("base {} {:?}, {}:\n{}", trial.base, base.plan, kinds.join(" and "), lines.join("\n")))
}
