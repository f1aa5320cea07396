//! `check` and `restore`: verify a database, and salvage what can be read of a damaged one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use holdfast::raw::RawDatabase;
use holdfast::{Builder, Database, Error, Finding, SalvageReport, VerifyOptions, VerifyReport};
use serde_json::{Value, json};

use crate::database::{DirArgs, bar, ensure_new, open_read_only, recovering, show, to_change};
use crate::outcome::Outcome;
use crate::output::{self, OutputArgs, note, say};

/// `holdfast check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  holdfast check data.hf
  holdfast check data.hf --table orders
  holdfast check data.hf --salvage rescued.hf

Nothing in the database is changed. Exit code 3 if there is damage, found by the check, or because the database cannot be opened, or
if something could not be saved; 1 if the system refuses files to this user, or entries could not be compared with their rows: then it
is not known whether these are damaged.
A database that cannot be opened, and a table whose file has a damaged header, is salvaged from the tables' files alone: the log,
holdfast.meta and the catalog may be lost. A file that the catalog gives to no table is saved as plain bytes, under its own name.")]
pub(crate) struct CheckArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Check this table only; may be repeated
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// Check pages, trees and undo logs only, not every index entry against its row
    #[arg(long)]
    pages_only: bool,
    /// Write what can be read of all tables into a new database in this directory
    #[arg(long, value_name = "NEW_DIR")]
    salvage: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Checks a database and, if asked to, salvages what can be read.
pub(crate) fn check(args: &CheckArgs) -> Result<Outcome> {
    args.salvage.iter().try_for_each(|target| ensure_new(&args.dir, target, "--salvage"))?;
    let db = match open_read_only(&args.dir) {
        Err(error) if can_be_salvaged(&error, args.salvage.is_some()) => {
            return unopened(args, &error);
        }
        opened => opened?,
    };
    let mut options = VerifyOptions::new();
    options.entries = !args.pages_only;
    options.tables.clone_from(&args.table);
    let progress = bar("pages");
    let report = db.verify(&options, &mut |at| show(&progress, at));
    progress.finish_and_clear();
    let mut shown = Shown::new(&args.dir, args.output);
    let mut gaps = Vec::new();
    let is_clean = match report {
        Ok(report) => {
            shown.report(&report)?;
            gaps = not_checked(&report);
            report.findings.is_empty()
        }
        Err(error) if args.salvage.is_some() && is_loss(&error) => {
            shown.broken_off(&error.into())?;
            false
        }
        Err(error) => return Err(error).with_context(|| format!("check {}", args.dir.display())),
    };
    if let Some(target) = &args.salvage {
        salvage(&db, &args.dir, target, &mut shown)?;
    } else if !is_clean {
        note("Restore the damaged tables from a backup, or rescue what can be read: --salvage NEW_DIR");
    }
    let is_good = is_clean && shown.is_whole;
    shown.end()?;
    if is_good && !gaps.is_empty() {
        bail!("not all of {} was checked: {}", args.dir.display(), gaps.join("; "));
    }
    Ok(Outcome::good_if(is_good))
}

/// What a check has left out.
fn not_checked(report: &VerifyReport) -> Vec<String> {
    let names = |left_out: &[Finding]| {
        let names: Vec<_> = left_out.iter().map(|one| one.table.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let refused = names(&report.refused).map(|names| format!("the files of {names} are refused to this user"));
    let not_compared = names(&report.not_compared)
        .map(|names| format!("the index entries of {names} were not compared with the rows"));
    refused.into_iter().chain(not_compared).collect()
}

/// Saves each table of `db`, which is in `dir`.
fn salvage(db: &Database, dir: &Path, target: &Path, shown: &mut Shown<'_>) -> Result<()> {
    let raw = RawDatabase::new(db.clone());
    let rescued = create(target, Database::builder().page_size(raw.page_size()))?;
    for table in db.list_tables() {
        let progress = bar("pages");
        let saved = db.salvage_table_with(&table.name, &rescued, &|at| show(&progress, at));
        progress.finish_and_clear();
        let saved = match saved {
            // The file cannot be used as a table's.
            Err(error) if is_loss(&error) => {
                let saved = salvage_file(&rescued, dir, &table.file);
                saved.map_err(|second| if is_of_table(&second) { error } else { second })
            }
            saved => saved.map(|report| (report.saved_as.clone().unwrap_or_else(|| table.name.clone()), report)),
        };
        shown.outcome(&table.name, saved)?;
    }
    // The record of a table may be damaged: then nothing but the file has its rows.
    for file in raw.files_of_no_table() {
        shown.outcome(file, salvage_file(&rescued, dir, file))?;
    }
    close(rescued, target)
}

/// Saves the table in one file of `dir`.
fn salvage_file(rescued: &Database, dir: &Path, file: &str) -> holdfast::Result<(String, SalvageReport)> {
    let saved = salvage_files(rescued, dir, Some(file))?;
    // There is one, or an error.
    Ok(saved.into_iter().next().unwrap_or_default())
}

fn salvage_files(rescued: &Database, dir: &Path, only: Option<&str>) -> holdfast::Result<Vec<(String, SalvageReport)>> {
    let progress = bar("pages");
    let saved = rescued.salvage_files_with(dir, only, &|at| show(&progress, at));
    progress.finish_and_clear();
    saved
}

/// True if the error of a salvage is one of its table, and the others can be saved.
fn is_of_table(error: &Error) -> bool {
    is_loss(error) || matches!(error, Error::TableMismatch { .. })
}

/// True if files are damaged, of another version, or not returned by the system.
fn is_loss(error: &Error) -> bool {
    error.is_damage() || error.is_unread() || matches!(error, Error::Incompatible(_))
}

/// True if the database cannot be opened because its files are damaged. If it is to be salvaged,
/// also if a newer version wrote it, or a file cannot be opened: that is no damage.
fn can_be_salvaged(error: &anyhow::Error, salvages: bool) -> bool {
    let is_damage = |error: &Error| error.is_damage() || matches!(error, Error::Io { operation: "read", .. });
    let is_salvaged = |error: &Error| is_damage(error) || salvages && is_loss(error);
    error.downcast_ref::<Error>().is_some_and(|error| is_salvaged(error) && !error.is_refusal())
}

/// Reports why a database cannot be opened, and salvages its files if asked to.
fn unopened(args: &CheckArgs, error: &anyhow::Error) -> Result<Outcome> {
    let mut shown = Shown::new(&args.dir, args.output);
    shown.broken_off(error)?;
    if let Some(target) = &args.salvage {
        let rescue = || format!("rescue {}", args.dir.display());
        let page_size = RawDatabase::page_size_of_files(&args.dir).with_context(rescue)?;
        let rescued = create(target, Database::builder().page_size(page_size))?;
        let saved = salvage_files(&rescued, &args.dir, None).with_context(rescue)?;
        saved.iter().try_for_each(|(name, report)| shown.saved(name, report))?;
        close(rescued, target)?;
    }
    shown.end()?;
    Ok(Outcome::Bad)
}

fn create(target: &Path, settings: Builder) -> Result<Database> {
    settings.create(target).with_context(|| format!("create {}", target.display()))
}

fn close(rescued: Database, target: &Path) -> Result<()> {
    rescued.close().with_context(|| format!("close {}", target.display()))
}

/// Recovers and checks a backup, so that it can be opened at once.
pub(crate) fn restore(args: &DirArgs) -> Result<Outcome> {
    let dir = &args.dir;
    if dir.metadata().with_context(|| format!("restore {}", dir.display()))?.is_file() {
        bail!("{} is no directory; give the directory of a backup", dir.display());
    }
    let (settings, log) = recovering(to_change(dir));
    let progress = bar("pages");
    let report = settings.restore_with(dir, &|at| {
        log.finish_and_clear();
        show(&progress, at);
    });
    log.finish_and_clear();
    progress.finish_and_clear();
    let report = report.with_context(|| format!("restore {}", dir.display()))?;
    let mut shown = Shown::new(dir, args.output);
    shown.report(&report)?;
    shown.end()?;
    Ok(Outcome::good_if(report.is_clean()))
}

/// The output of a check: lines as they come, or one JSON object at the end.
struct Shown<'a> {
    dir: &'a Path,
    json: Option<Value>,
    /// All that was to be saved has been.
    is_whole: bool,
}

impl Shown<'_> {
    fn new(dir: &Path, output: OutputArgs) -> Shown<'_> {
        Shown { dir, json: output.json.then(|| json!({ "database": output::path(dir) })), is_whole: true }
    }

    fn report(&mut self, report: &VerifyReport) -> Result<()> {
        if let Some(json) = &mut self.json {
            json["sound"] = json!(report.is_clean());
            json["findings"] = output::findings(&report.findings);
            json["refused"] = output::findings(&report.refused);
            json["not_compared"] = output::findings(&report.not_compared);
            json["pages"] = json!(report.pages);
            json["rows"] = json!(report.rows);
            json["entries"] = json!(report.entries);
            json["unreached_pages"] = json!(report.unreached_pages);
            json["half_checked"] = json!(report.half_checked);
            return Ok(());
        }
        for finding in report.findings.iter().chain(report.unchecked()) {
            say!("{}: {}", finding.table, finding.what)?;
        }
        if !report.half_checked.is_empty() {
            let names: Vec<String> =
                report.half_checked.iter().map(|(table, index)| format!("{table}.{index}")).collect();
            let names = names.join(", ");
            say!(
                "Whether rows lack entries in these indexes, only the program can tell (`Database::verify`): {names}"
            )?;
        }
        let counts = format!("{} pages, {} rows, {} index entries", report.pages, report.rows, report.entries);
        if report.is_clean() {
            say!("{} is sound: {counts}", self.dir.display())?;
        } else if report.findings.is_empty() {
            say!("{} has no damage in what was checked: {counts}", self.dir.display())?;
        } else {
            say!("{} is damaged: {} findings; {counts}", self.dir.display(), report.findings.len())?;
        }
        Ok(())
    }

    /// Reports the damage that is why the database is not opened, or not checked to its end.
    fn broken_off(&mut self, error: &anyhow::Error) -> Result<()> {
        let what = output::message(error);
        match &mut self.json {
            Some(json) => {
                json["sound"] = json!(false);
                json["findings"] = json!([{ "table": null, "what": what }]);
            }
            None => say!("{what}")?,
        }
        Ok(())
    }

    fn saved(&mut self, table: &str, report: &SalvageReport) -> Result<()> {
        let SalvageReport { rows, lost_pages, lost_values, refused_rows, unsettled, lost_indexes, .. } = report;
        self.is_whole &= lost_pages + lost_values + refused_rows == 0 && !unsettled && lost_indexes.is_empty();
        if self.json.is_some() {
            self.add_salvaged(json!({
                "table": table,
                "rows": rows,
                "lost_pages": lost_pages,
                "lost_values": lost_values,
                "refused_rows": refused_rows,
                "unsettled": unsettled,
                "lost_indexes": lost_indexes,
            }));
            return Ok(());
        }
        say!("{table}: {rows} rows rescued, {lost_pages} pages and {lost_values} large values lost")?;
        if *refused_rows > 0 {
            say!(
                "{table}: {refused_rows} rows were refused: they repeat a key of a unique index, are too long for a page, or are not of the \
                 table's types"
            )?;
        }
        if *unsettled {
            say!("{table}: its rows moved between pages all the time; some may be missing")?;
        }
        if !lost_indexes.is_empty() {
            let names = lost_indexes.join(", ");
            say!(
                "{table}: left out the indexes {names}; to have them, let the program create the table in a new database and \
                 copy the rows there with `Database::salvage_table` or `Database::salvage_files`"
            )?;
        }
        Ok(())
    }

    /// Reports what was saved of a table, or why nothing was.
    ///
    /// # Errors
    /// That of the salvage, if the others cannot be saved either.
    fn outcome(&mut self, table: &str, saved: holdfast::Result<(String, SalvageReport)>) -> Result<()> {
        match saved {
            Ok((name, report)) => self.saved(&name, &report),
            Err(error) if is_of_table(&error) => self.nothing_saved(table, &error.into()),
            Err(error) => Err(error).with_context(|| format!("rescue {table}")),
        }
    }

    fn nothing_saved(&mut self, table: &str, error: &anyhow::Error) -> Result<()> {
        let why = output::message(error);
        self.is_whole = false;
        if self.json.is_some() {
            self.add_salvaged(json!({ "table": table, "rows": null, "error": why }));
            return Ok(());
        }
        Ok(say!("{table}: nothing was rescued: {why}")?)
    }

    fn add_salvaged(&mut self, table: Value) {
        let Some(json) = &mut self.json else { return };
        match json["salvaged"].as_array_mut() {
            Some(salvaged) => salvaged.push(table),
            None => json["salvaged"] = json!([table]),
        }
    }

    fn end(self) -> Result<()> {
        self.json.map_or(Ok(()), |json| Ok(say!("{json:#}")?))
    }
}
