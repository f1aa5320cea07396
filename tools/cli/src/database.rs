//! `stat`, `backup`, `compact`: operations of the engine as shell commands.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use clap::Args;
use holdfast::{BackupOptions, Builder, Database, TableInfo, VerifyProgress};
use holdfast_base::limits::{LOG_CAPACITY_DEFAULT, LOG_CAPACITY_MIN};
use holdfast_wal::{CHECKPOINT_FILE, is_log_file};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::output::{self, OutputArgs, say};

/// A database.
#[derive(Debug, Args)]
pub(crate) struct DirArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `holdfast backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  holdfast backup data.hf backups/monday.hf
  holdfast backup data.hf copy.hf --rate 50

The database is only read: what a crash left is recovered in memory. Exit code 3 if the copy lacks a table.
A database that a program has open is backed up by that program (`Database::backup`), while it is in use.")]
pub(crate) struct BackupArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// New directory for the copy
    #[arg(value_name = "NEW_DIR")]
    target: PathBuf,
    /// The most MB to copy per second
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Leave out the tables whose files cannot be used, and list them; exit code 3
    #[arg(long)]
    leave_out_damaged: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Opens a database without changing it. What a crash left is recovered in memory.
pub(crate) fn open_read_only(dir: &Path) -> Result<Database> {
    let (settings, log) = recovering(Database::builder());
    let opened = settings.open_read_only(dir);
    log.finish_and_clear();
    opened.with_context(|| format!("open {}", dir.display()))
}

/// The same settings, with a bar that shows how far the recovery has come.
pub(crate) fn recovering(settings: Builder) -> (Builder, ProgressBar) {
    let log = bar("bytes of log");
    let shown = log.clone();
    let settings = settings.on_recovery_progress(move |p| {
        shown.set_length(p.log_bytes_total);
        shown.set_position(p.log_bytes_done);
    });
    (settings, log)
}

/// Shows how far a work has come that goes through the pages of files.
pub(crate) fn show(progress: &ProgressBar, at: &VerifyProgress) {
    progress.set_length(at.pages_total);
    progress.set_position(at.pages_done);
    progress.set_message(at.table.clone());
}

/// Refuses a directory that takes no new database, or is in that of the database in `dir`, before
/// the command takes its time. `what` needs it.
pub(crate) fn ensure_new(dir: &Path, target: &Path, what: &str) -> Result<()> {
    let below = std::path::absolute(target).with_context(|| format!("create {}", target.display()))?;
    let found = below.ancestors().find_map(|path| path.canonicalize().ok());
    let is_inside = found.zip(dir.canonicalize().ok()).is_some_and(|(found, dir)| found.starts_with(dir));
    let is_empty = match std::fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("create {}", target.display())),
    };
    ensure!(is_empty, "{} is not empty; {what} takes a new or an empty directory", target.display());
    ensure!(!is_inside, "{} is in the database's own directory; {what} takes another one", target.display());
    Ok(())
}

/// The settings for a command that changes the database in `dir`. Its log gets no more space than
/// it has: the disk may be full, and what the program gives it is not known.
pub(crate) fn to_change(dir: &Path) -> Builder {
    let entries = dir.read_dir().into_iter().flatten().filter_map(std::result::Result::ok);
    let is_segment = |name: &str| is_log_file(name) && name != CHECKPOINT_FILE;
    let of_log = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_segment));
    let bytes: u64 = of_log.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
    Database::builder().log_capacity_bytes(bytes.clamp(LOG_CAPACITY_MIN, LOG_CAPACITY_DEFAULT))
}

/// A progress bar that counts `unit`, with an estimate of what is left. indicatif hides it where
/// standard error is no terminal.
pub(crate) fn bar(unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = format!("{{bar:30}} {{pos}}/{{len}} {unit}, {{eta}} left {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// Shows the tables, files and log of a database.
pub(crate) fn stat(args: &DirArgs) -> Result<()> {
    let db = open_read_only(&args.dir)?;
    let stats = db.stats();
    let file_bytes = |name: &str| stats.tables.iter().find(|t| t.name == name).map_or(0, |t| t.file_bytes);
    if args.output.json {
        let table = |table: TableInfo| {
            let indexes: Vec<&str> = table.indexes.iter().map(|i| i.name.as_str()).collect();
            json!({ "name": table.name, "file": table.file, "file_bytes": file_bytes(&table.name), "indexes": indexes })
        };
        let tables: Vec<Value> = db.list_tables().into_iter().map(table).collect();
        let page_size = stats.cache.page_size;
        let (database, status) = (output::path(&args.dir), db.status_text());
        let shown = json!({ "database": database, "page_size": page_size, "tables": tables, "status": status });
        return Ok(say!("{shown:#}")?);
    }
    say!("{}: pages of {} bytes", args.dir.display(), stats.cache.page_size)?;
    say!("{:<32} {:>14}  {:<16} indexes", "table", "file bytes", "file")?;
    for table in db.list_tables() {
        let indexes: Vec<&str> = table.indexes.iter().map(|i| i.name.as_str()).collect();
        say!("{:<32} {:>14}  {:<16} {}", table.name, file_bytes(&table.name), table.file, indexes.join(", "))?;
    }
    Ok(say!("\n{}", db.status_text())?)
}

/// Copies a database without changing it.
pub(crate) fn backup(args: &BackupArgs) -> Result<Outcome> {
    ensure_new(&args.dir, &args.target, "a backup")?;
    let db = open_read_only(&args.dir)?;
    let progress = Arc::new(Mutex::new(bar("bytes")));
    let shown = Arc::clone(&progress);
    let mut options = BackupOptions::new().leave_out_damaged(args.leave_out_damaged).on_progress(move |p| {
        if let Ok(bar) = shown.lock() {
            bar.set_length(p.bytes_total);
            bar.set_position(p.bytes_done);
        }
    });
    if let Some(rate) = args.rate {
        options = options.rate_limit_bytes_per_second(rate.saturating_mul(1_000_000));
    }
    let result = db.backup(&args.target, &options);
    if let Ok(bar) = progress.lock() {
        bar.finish_and_clear();
    }
    let report = result.with_context(|| format!("back up into {}", args.target.display()))?;
    db.close().with_context(|| format!("close {}", args.dir.display()))?;
    let holdfast::BackupReport { files, bytes, log_bytes, lsn, left_out, .. } = &report;
    if args.output.json {
        let (backup, left_out) = (output::path(&args.target), output::findings(left_out));
        let shown = json!({
            "backup": backup, "files": files, "bytes": bytes, "log_bytes": log_bytes, "lsn": lsn, "left_out": left_out,
        });
        say!("{shown:#}")?;
    } else {
        left_out.iter().try_for_each(|lacking| say!("left out {}: {}", lacking.table, lacking.what))?;
        let target = args.target.display();
        say!("{target}: {files} files, {bytes} bytes, and {log_bytes} bytes of log, up to LSN {lsn}")?;
    }
    Ok(Outcome::good_if(left_out.is_empty()))
}

/// Makes the files of a database smaller.
pub(crate) fn compact(args: &DirArgs) -> Result<Outcome> {
    let dir = &args.dir;
    let (settings, log) = recovering(to_change(dir));
    let opened = settings.open(dir);
    log.finish_and_clear();
    let db = opened.with_context(|| format!("open {}", dir.display()))?;
    let progress = bar("pages");
    let report = db.compact_with(&|at| show(&progress, at));
    progress.finish_and_clear();
    let report = report.with_context(|| format!("compact {}", dir.display()))?;
    db.close().with_context(|| format!("close {}", dir.display()))?;
    let holdfast::CompactReport { bytes_before, bytes_after, pages_moved, pages_reclaimed, left_out, .. } = &report;
    if args.output.json {
        let (database, left_out) = (output::path(dir), output::findings(left_out));
        let shown = json!({
            "database": database, "bytes_before": bytes_before, "bytes_after": bytes_after, "pages_moved": pages_moved,
            "pages_reclaimed": pages_reclaimed, "left_out": left_out,
        });
        say!("{shown:#}")?;
    } else {
        left_out.iter().try_for_each(|lacking| say!("left out {}: {}", lacking.table, lacking.what))?;
        say!("{}: {bytes_before} bytes before, {bytes_after} after, {pages_moved} pages moved", dir.display())?;
    }
    Ok(Outcome::good_if(left_out.is_empty()))
}
