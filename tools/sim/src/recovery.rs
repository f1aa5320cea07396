//! How long recovery takes: a child fills the log and dies, the parent opens the database and
//! measures.
//!
//! Time should be in proportion to the log's tail, and an open after a clean stop should take the
//! same short time whatever was written before.
//!
//! Three parts of the time are told apart, as they need the cores differently: opening the files,
//! and reading the log and checking it to its end, on one thread; applying it, for which it is read
//! again, on all cores; the rest, which is rolling back and starting.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use holdfast::{Database, FlushAtCommit, TableDefinition, WriteOptions};

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

/// What is recovered.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Shape {
    /// Rows, which are changed over and over
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Bytes of a row
    #[arg(long, default_value_t = 200)]
    row_bytes: usize,
    /// MiB of the cache
    #[arg(long, default_value_t = 512)]
    cache_mib: u64,
}

impl Shape {
    fn settings(&self, tail_mib: u64) -> holdfast::Builder {
        // The checkpoint is held back until most of the capacity is used: twice the tail keeps all
        // of it.
        let log = (2 * tail_mib.max(32)) << 20;
        Database::builder().cache_size_bytes(self.cache_mib << 20).log_capacity_bytes(log)
    }

    /// Of the rows, and of a stride that visits every row before it comes back.
    fn next(&self, n: u64) -> u64 {
        (n + 7_919) % self.rows
    }

    fn row(&self, n: u64) -> Vec<u8> {
        vec![n as u8; self.row_bytes]
    }
}

/// A folder on the project's disk: the one for temporary files may be memory.
fn lab_folder() -> anyhow::Result<&'static Path> {
    let folder = Path::new(".lab");
    std::fs::create_dir_all(folder)?;
    Ok(folder)
}

/// The time of a recovery.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    whole: Duration,
    /// Until the log began to be applied.
    reading: Duration,
    applying: Duration,
}

impl Taken {
    /// Of an open that began at `begin` and is done now; the engine reported at the times `reports`
    /// how far it had come with applying the log, the first time when it began.
    fn of(begin: Instant, now: Instant, reports: &[Instant]) -> Taken {
        let (first, last) = (reports.first().unwrap_or(&now), reports.last().unwrap_or(&now));
        Taken { whole: now - begin, reading: *first - begin, applying: *last - *first }
    }

    fn rest(&self) -> Duration {
        self.whole - self.reading - self.applying
    }
}

/// Opens the database, which recovers it.
fn recover(settings: holdfast::Builder, dir: &Path) -> anyhow::Result<(Database, Taken)> {
    let reports: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = Arc::clone(&reports);
    let note = move |_| noted.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    let begin = Instant::now();
    let db = settings.on_recovery_progress(note).open(dir).context("recovery")?;
    let now = Instant::now();
    let reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((db, Taken::of(begin, now, &reports)))
}

/// Prints the time of recovery for each of these tails.
///
/// # Errors
/// A child or an open that failed; a row that is not as it was left.
pub fn run(tails_mib: &[u64], shape: &Shape) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} core{}, a cache of {} MiB", if cores == 1 { "" } else { "s" }, shape.cache_mib);
    println!(
        "{:>10} {:>12} {:>10} {:>10} {:>8} {:>12} {:>14} {:>14}",
        "tail MiB", "recovery s", "read log", "apply", "rest", "s per GiB", "rows checked", "clean open s"
    );
    for &tail in tails_mib {
        let dir = tempfile::Builder::new().prefix("holdfast-recovery").tempdir_in(lab_folder()?)?;
        let dir = dir.path().join("db");
        // The system would name the loader where that was started with the program as its argument.
        let mut child = Command::new(std::env::args_os().next().context("a program has a name")?);
        child.arg("recovery-child").arg(&dir).arg(tail.to_string());
        child.args([format!("--rows={}", shape.rows), format!("--row-bytes={}", shape.row_bytes)]);
        let status = child.arg(format!("--cache-mib={}", shape.cache_mib)).status();
        ensure!(!status.context("could not start the child")?.success(), "the child was to die");
        let (db, taken) = recover(shape.settings(tail), &dir)?;
        let txn = db.begin_read()?;
        let rows = txn.open_table(&ROWS)?.iter()?.try_fold(0, |rows, row| row.map(|_| rows + 1))?;
        ensure!(rows == shape.rows, "{rows} rows instead of {}", shape.rows);
        drop(txn);
        db.close()?;
        let begin = Instant::now();
        shape.settings(tail).open(&dir)?.close()?;
        let clean = begin.elapsed().as_secs_f64();
        let [whole, reading, applying, rest] =
            [taken.whole, taken.reading, taken.applying, taken.rest()].map(|time| time.as_secs_f64());
        let per_gib = whole / (tail as f64 / 1024.0);
        println!(
            "{tail:>10} {whole:>12.2} {reading:>10.2} {applying:>10.2} {rest:>8.2} {per_gib:>12.2} {rows:>14} {clean:>14.3}"
        );
    }
    Ok(())
}

/// The child: changes rows until the tail is long enough, then dies.
///
/// # Errors
/// Whatever went wrong before that.
pub fn child(dir: &Path, tail_mib: u64, shape: &Shape) -> anyhow::Result<()> {
    let db = shape.settings(tail_mib).create(dir)?;
    db.create_table_with(&ROWS, |rows| (0..shape.rows).try_for_each(|n| rows.push(n, &shape.row(0))))?;
    db.checkpoint()?;
    let mut n = 0;
    while db.stats().log.age_bytes < tail_mib << 20 {
        let txn = db.begin_write_with(&WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy))?;
        {
            let rows = txn.open_table(&ROWS)?;
            for _ in 0..1_000 {
                n = shape.next(n);
                rows.update(n, &shape.row(n | 1))?;
            }
        }
        txn.commit()?;
    }
    let txn = db.begin_write()?;
    txn.open_table(&ROWS)?.update(0, &shape.row(1))?;
    txn.commit()?;
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_recovery_are_the_whole() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let taken = Taken::of(begin, at(10), &[at(2), at(5), at(9)]);
        assert_eq!([taken.whole, taken.reading, taken.applying, taken.rest()].map(|t| t.as_secs()), [10, 2, 7, 1]);
        // Where there was no log to apply, nothing is reported.
        let none = Taken::of(begin, at(3), &[]);
        assert_eq!([none.reading, none.applying, none.rest()].map(|t| t.as_secs()), [3, 0, 0]);
    }

    #[test]
    fn a_recovery_has_three_parts() -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        let dir = dir.path().join("db");
        let shape = Shape { rows: 100, row_bytes: 20, cache_mib: 16 };
        let db = shape.settings(1).create(&dir)?;
        db.create_table_with(&ROWS, |rows| (0..shape.rows).try_for_each(|n| rows.push(n, &shape.row(0))))?;
        db.close()?;
        let (db, taken) = recover(shape.settings(1), &dir)?;
        assert!(taken.reading > Duration::ZERO && taken.rest() > Duration::ZERO, "{taken:?}");
        Ok(db.close()?)
    }
}
