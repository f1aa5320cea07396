//! `check`, `stat`, `backup`, `restore`, `compact`: what the engine offers, from the shell.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use clap::Args;
use holdfast::{BackupOptions, Database, VerifyOptions, VerifyReport};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Outcome;

/// `holdfast check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  holdfast check data.hf
  holdfast check data.hf --table orders
  holdfast check data.hf --salvage rescued.hf

Nothing in the database is changed. Exit code 3 if there is damage.")]
pub(crate) struct CheckArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Check this table only; may be repeated
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// Check pages only, not every index entry against its row
    #[arg(long)]
    pages_only: bool,
    /// Write what can be read into a new database in this directory
    #[arg(long, value_name = "NEW_DIR")]
    salvage: Option<PathBuf>,
}

/// `holdfast backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  holdfast backup data.hf backups/monday.hf
  holdfast backup data.hf copy.hf --rate 50

A database that a program has open is backed up by that program (`Database::backup`), while it is in use.")]
pub(crate) struct BackupArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// New directory for the copy
    #[arg(value_name = "NEW_DIR")]
    target: PathBuf,
    /// Copy at most so many MB per second
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
}

/// Opens a database without changing it.
fn open_read_only(dir: &Path) -> Result<Database> {
    Database::open_read_only(dir).with_context(|| format!("open {}", dir.display()))
}

/// A bar that counts `unit`; indicatif hides it where standard error is no terminal.
fn bar(unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = format!("{{bar:30}} {{pos}}/{{len}} {unit} {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// Checks a database and, if asked to, saves what can be read.
pub(crate) fn check(args: &CheckArgs) -> Result<Outcome> {
    let db = open_read_only(&args.dir)?;
    let mut options = VerifyOptions::new();
    options.entries = !args.pages_only;
    options.tables.clone_from(&args.table);
    let progress = bar("pages");
    let report = db.verify(&options, &mut |p| {
        progress.set_length(p.pages_total);
        progress.set_position(p.pages_done);
        progress.set_message(p.table.clone());
    });
    progress.finish_and_clear();
    let outcome = findings(&report?, &args.dir);
    if let Some(target) = &args.salvage {
        salvage(&db, target)?;
    } else if outcome == Outcome::Bad {
        eprintln!("Restore the damaged tables from a backup, or rescue what can be read: --salvage NEW_DIR");
    }
    Ok(outcome)
}

fn findings(report: &VerifyReport, dir: &Path) -> Outcome {
    for finding in &report.findings {
        println!("{}: {}", finding.table, finding.what);
    }
    let counts = format!("{} pages, {} rows, {} index entries", report.pages, report.rows, report.entries);
    if !report.half_checked.is_empty() {
        let names: Vec<String> = report.half_checked.iter().map(|(table, index)| format!("{table}.{index}")).collect();
        println!(
            "Whether rows lack entries in these indexes, only the program can tell (`Database::verify`): {}",
            names.join(", ")
        );
    }
    if report.is_clean() {
        println!("{} is sound: {counts}", dir.display());
    } else {
        println!("{} is damaged: {} findings; {counts}", dir.display(), report.findings.len());
    }
    Outcome::good_if(report.is_clean())
}

fn salvage(db: &Database, target: &Path) -> Result<()> {
    let rescued = Database::create(target).with_context(|| format!("create {}", target.display()))?;
    for table in db.list_tables() {
        let report = db.salvage_table(&table.name, &rescued).with_context(|| format!("rescue {}", table.name))?;
        println!(
            "{}: {} rows rescued, {} pages and {} large values lost",
            table.name, report.rows, report.lost_pages, report.lost_values
        );
        if !report.lost_indexes.is_empty() {
            let names = report.lost_indexes.join(", ");
            println!(
                "{}: left out the damaged indexes {names}; to have them, let the program create the table in a new database and \
                 copy the rows there with `Database::salvage_table`",
                table.name
            );
        }
    }
    rescued.close().with_context(|| format!("close {}", target.display()))
}

/// Shows what a database holds.
pub(crate) fn stat(dir: &Path) -> Result<()> {
    let db = open_read_only(dir)?;
    let stats = db.stats();
    println!("{}: pages of {} bytes", dir.display(), stats.cache.page_size);
    println!("{:<32} {:>14}  {:<16} indexes", "table", "file bytes", "file");
    for table in db.list_tables() {
        let bytes = stats.tables.iter().find(|t| t.name == table.name).map_or(0, |t| t.file_bytes);
        let indexes: Vec<&str> = table.indexes.iter().map(|i| i.name.as_str()).collect();
        println!("{:<32} {bytes:>14}  {:<16} {}", table.name, table.file, indexes.join(", "));
    }
    println!("\n{}", db.status_text());
    Ok(())
}

/// Copies a database.
pub(crate) fn backup(args: &BackupArgs) -> Result<()> {
    let db = Database::open(&args.dir).with_context(|| format!("open {}", args.dir.display()))?;
    let progress = Arc::new(Mutex::new(bar("bytes")));
    let shown = Arc::clone(&progress);
    let mut options = BackupOptions::new().on_progress(move |p| {
        if let Ok(bar) = shown.lock() {
            bar.set_length(p.bytes_total);
            bar.set_position(p.bytes_done);
        }
    });
    if let Some(rate) = args.rate {
        options = options.rate_limit_bytes_per_second(rate * 1_000_000);
    }
    let result = db.backup(&args.target, &options);
    if let Ok(bar) = progress.lock() {
        bar.finish_and_clear();
    }
    let report = result.with_context(|| format!("back up into {}", args.target.display()))?;
    println!(
        "{}: {} files, {} bytes, and {} bytes of log, up to LSN {}",
        args.target.display(),
        report.files,
        report.bytes,
        report.log_bytes,
        report.lsn
    );
    db.close().with_context(|| format!("close {}", args.dir.display()))
}

/// Makes a backup ready to use.
pub(crate) fn restore(dir: &Path) -> Result<Outcome> {
    if !dir.is_dir() {
        bail!("{} is no directory; give the directory of a backup", dir.display());
    }
    let report = Database::restore(dir).with_context(|| format!("restore {}", dir.display()))?;
    Ok(findings(&report, dir))
}

/// Makes the files of a database smaller.
pub(crate) fn compact(dir: &Path) -> Result<()> {
    let db = Database::open(dir).with_context(|| format!("open {}", dir.display()))?;
    let report = db.compact().with_context(|| format!("compact {}", dir.display()))?;
    db.close().with_context(|| format!("close {}", dir.display()))?;
    println!(
        "{}: {} bytes before, {} after, {} pages moved",
        dir.display(),
        report.bytes_before,
        report.bytes_after,
        report.pages_moved
    );
    Ok(())
}
