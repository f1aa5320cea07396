//! Whether the answers of `lab sideload` can be believed: run after run, alone on the machine and
//! beside two compilers.
//!
//! - `wrong`: beside compilers no run says *fails*, for what they take from the run is no fault of
//!   the engine.
//! - `sure`: alone, every claim *holds* in all runs but one of twenty.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::run::{cargo, check, root, works};

/// Compilers beside a run.
const COMPILERS: usize = 2;

/// `lab sideload`, `runs` times alone and as often beside compilers.
///
/// # Errors
/// If a run does not end, a run beside compilers says *fails*, or more than one of twenty runs
/// alone have a claim that does not hold.
pub fn run(runs: u64) -> anyhow::Result<()> {
    check(&mut cargo("build --quiet --release --package holdfast-cli"))?;
    let folder = root().join("target/verdicts");
    std::fs::create_dir_all(&folder)?;
    let beside = {
        let _compilers = Compilers::start(&folder)?;
        series("beside compilers", runs, &folder)?
    };
    let alone = series("alone", runs, &folder)?;
    for (how, tally) in [("beside compilers", &beside), ("alone", &alone)] {
        println!("{how}: {tally}");
    }
    ensure!(beside.fails == 0, "{} of {runs} runs beside compilers say that a claim fails", beside.fails);
    let unsure = alone.fails + alone.cannot_tell;
    ensure!(unsure * 20 <= runs, "{unsure} of {runs} runs alone have a claim that does not hold");
    Ok(())
}

/// How often a run's worst answer was which.
#[derive(Default, Debug, PartialEq)]
struct Tally {
    holds: u64,
    cannot_tell: u64,
    fails: u64,
    /// The claims that did not hold, and in how many runs.
    claims: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts a run by its document.
    fn count(&mut self, document: &Value) -> anyhow::Result<()> {
        let verdicts = document["verdicts"].as_array().filter(|all| !all.is_empty()).context("no verdicts")?;
        let answers: Vec<_> = verdicts.iter().map(|verdict| verdict["answer"].as_str().unwrap_or("fails")).collect();
        *match answers {
            _ if answers.contains(&"fails") => &mut self.fails,
            _ if answers.contains(&"cannot tell") => &mut self.cannot_tell,
            _ => &mut self.holds,
        } += 1;
        for (verdict, answer) in verdicts.iter().zip(&answers).filter(|(_, answer)| **answer != "holds") {
            let claim = verdict["claim"].as_str().unwrap_or("?");
            *self.claims.entry(format!("{answer}: {claim}")).or_default() += 1;
        }
        Ok(())
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} runs hold, {} cannot tell, {} fail", self.holds, self.cannot_tell, self.fails)?;
        self.claims.iter().try_for_each(|(claim, runs)| write!(f, "\n  {runs} x {claim}"))
    }
}

/// Runs one after the other, each with a seed of its own.
fn series(how: &str, runs: u64, folder: &Path) -> anyhow::Result<Tally> {
    let json = folder.join("sideload.json");
    let mut tally = Tally::default();
    for seed in 1..=runs {
        let mut command = Command::new(root().join("target/release/holdfast"));
        command.args(["lab", "sideload", "--no-report", "--seed", &seed.to_string()]);
        let out = command.arg("--dir").arg(folder).arg("--json").arg(&json).stdin(Stdio::null()).output()?;
        ensure!(out.status.success(), "{command:?}: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
        tally.count(&serde_json::from_slice(&std::fs::read(&json)?)?)?;
        println!("{how}, run {seed} of {runs}: {tally}");
    }
    Ok(tally)
}

/// Compilers that work until this is dropped.
struct Compilers {
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

impl Compilers {
    fn start(folder: &Path) -> anyhow::Result<Compilers> {
        // Else the runs beside compilers are alone.
        ensure!(works(Command::new("rustc").arg("--version")), "rustc cannot be started");
        let source = folder.join("much.rs");
        std::fs::write(&source, much_source())?;
        let stop = Arc::<AtomicBool>::default();
        let workers = (0..COMPILERS).map(|n| {
            let (source, out, stop) = (source.clone(), folder.join(format!("much{n}.o")), Arc::clone(&stop));
            std::thread::spawn(move || compile_on(&source, &out, &stop))
        });
        Ok(Compilers { workers: workers.collect(), stop })
    }
}

impl Drop for Compilers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// Compiles the same file until it is told to stop. A compiler that cannot be started ends it.
fn compile_on(source: &Path, out: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut command = Command::new("rustc");
        command.args(["--crate-type=lib", "-Copt-level=3", "--emit=obj", "-o"]).arg(out).arg(source);
        let Ok(mut compiler) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return };
        while matches!(compiler.try_wait(), Ok(None)) {
            if stop.load(Ordering::Relaxed) {
                // One that has ended by itself cannot be killed, which is as good.
                let _ = compiler.kill();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A file that takes a compiler some seconds.
fn much_source() -> String {
    let mut source = String::new();
    for n in 0..400 {
        let _ = writeln!(
            source,
            "pub fn f{n}(words: &mut Vec<String>, map: &mut std::collections::BTreeMap<u64, Vec<[u64; {size}]>>) {{\n\
             words.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));\n\
             for (at, word) in words.iter().enumerate() {{ map.entry(at as u64 % 7).or_default().push([word.len() as u64; {size}]); }}\n\
             map.retain(|_, all| all.iter().flatten().sum::<u64>() % {modulus} != 0); }}",
            size = n % 16 + 1,
            modulus = n + 2
        );
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(answers: &[&str]) -> Value {
        let verdicts: Vec<_> = answers.iter().map(|answer| json!({"claim": "c", "answer": answer})).collect();
        json!({ "verdicts": verdicts })
    }

    #[test]
    fn a_run_counts_by_its_worst_answer() {
        let mut tally = Tally::default();
        tally.count(&document(&["holds", "holds"])).unwrap();
        tally.count(&document(&["holds", "cannot tell"])).unwrap();
        tally.count(&document(&["cannot tell", "fails", "holds"])).unwrap();
        assert_eq!((tally.holds, tally.cannot_tell, tally.fails), (1, 1, 1));
        assert_eq!(tally.claims["cannot tell: c"], 2);
    }

    #[test]
    fn a_document_without_verdicts_is_an_error() {
        assert!(Tally::default().count(&document(&[])).is_err());
        assert!(Tally::default().count(&json!({})).is_err());
    }
}
