//! A child process under load on real files, killed with SIGKILL.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use holdfast::Database;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bank;

/// Kills a child `rounds` times and audits the bank after each.
///
/// # Errors
/// What did not hold.
pub fn run(rounds: u32, seed: u64) -> anyhow::Result<()> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let dir = tempfile::tempdir()?;
    let dir = dir.path().join("bank.hf");
    let db = settings().create(&dir)?;
    bank::open_accounts(&db)?;
    db.close()?;
    let acknowledged: Vec<AtomicU64> = (0..bank::THREADS).map(|_| AtomicU64::new(0)).collect();
    let mut total = 0;
    for round in 0..rounds {
        total += one(&dir, rng.random(), rng.random_range(20..800), &acknowledged)?;
        let db = settings().open(&dir).with_context(|| format!("round {round}: open after the kill"))?;
        bank::audit(&db, &acknowledged).with_context(|| format!("round {round}"))?;
        crate::verify(&db).with_context(|| format!("round {round}"))?;
        // Half of the time the parent leaves as if it had been killed, too: nothing is written any
        // more.
        if round % 2 == 0 {
            db.close()?;
        }
    }
    println!("{rounds} kills, {total} acknowledged commits: none lost");
    Ok(())
}

/// Runs a child and kills it after `commits` acknowledged commits.
fn one(dir: &Path, seed: u64, commits: u64, acknowledged: &[AtomicU64]) -> anyhow::Result<u64> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("kill-child")
        .arg(dir)
        .arg(seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start the child")?;
    let lines = BufReader::new(child.stdout.take().context("the child has a stdout")?).lines();
    let mut seen = 0;
    for line in lines {
        // A line cut off by the kill was never an acknowledgement.
        let Some((thread, n)) = parse(&line?) else { break };
        acknowledged[thread].fetch_max(n, Ordering::SeqCst);
        seen += 1;
        if seen == commits {
            child.kill()?;
        }
    }
    child.wait()?;
    ensure!(seen >= commits, "the child ended by itself after {seen} commits");
    Ok(seen)
}

fn parse(line: &str) -> Option<(usize, u64)> {
    let (thread, n) = line.strip_suffix('.')?.split_once(' ')?;
    Some((thread.parse().ok()?, n.parse().ok()?))
}

/// The child: moves money until it is killed, and writes a line for each commit after it was
/// acknowledged.
///
/// # Errors
/// What did not hold.
pub fn child(dir: &Path, seed: u64) -> anyhow::Result<()> {
    let db = settings().open(dir)?;
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..bank::THREADS)
            .map(|thread| {
                let (db, out) = (&db, &out);
                scope.spawn(move || {
                    bank::work(db, thread, seed ^ thread, &|| false, &mut |n| {
                        let mut out = out.lock().expect("no thread panics while it writes a line");
                        // The parent is gone when this fails, and then it does not matter.
                        let _ = writeln!(out, "{thread} {n}.").and_then(|()| out.flush());
                    })
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}

fn settings() -> holdfast::Builder {
    Database::builder().cache_size_bytes(5 << 20).log_capacity_bytes(8 << 20)
}
