//! What is saved of a damaged database has been there: salvage, and copies.

use std::path::Path;

use anyhow::{Context, ensure};
use holdfast::raw::RawDatabase;
use holdfast::{BackupOptions, Database, Error};

use super::base::{Plan, settings};
use super::files::{self, Files};
use super::judge::{Judge, is_clear};
use super::tables::{Trouble, begin_raw, read_raw, read_typed};

/// A database in memory, with pages of the same size.
fn target(page_size: usize) -> anyhow::Result<Database> {
    let settings = Database::builder().cache_size_bytes(5 << 20).log_capacity_bytes(4 << 20).log_buffer_bytes(64 << 10);
    Ok(settings.page_size(page_size).in_memory()?)
}

/// Each row that was saved has existed, unless a damage has made rows that never were.
fn rows_have_existed(judge: &Judge, saved: &Database) -> anyhow::Result<()> {
    if judge.damages.iter().any(|damage| damage.forged) {
        return Ok(());
    }
    let raw = RawDatabase::new(saved.clone());
    for info in saved.list_tables() {
        let Some(table) = judge.tables.get(&info.name) else { continue };
        let rows = if table.raw {
            read_raw(&mut begin_raw(&raw)?, &raw.open_table(&info.name)?, 0)
        } else {
            read_plain(saved, &info.name)
        };
        let rows =
            rows.map_err(|trouble| anyhow::anyhow!("what was salvaged of {} cannot be read: {trouble:?}", info.name))?;
        for (key, value) in rows {
            ensure!(
                table.has_existed(&key, &value),
                "salvage gives the row {key} of {}, which never was: `{value:.60}`, {} bytes",
                info.name,
                value.len()
            );
        }
    }
    Ok(())
}

/// The rows of a typed table, whatever indexes it has.
fn read_plain(db: &Database, name: &str) -> Result<Vec<(String, String)>, Trouble> {
    let txn = db.begin_read()?;
    let table = txn.open_table(&holdfast::TableDefinition::<&str, &str>::named(name))?;
    table.iter()?.map(|row| row.map_err(Trouble::from)).collect()
}

/// Salvages the tables of an open database.
///
/// # Errors
/// If that fails, or gives what never was.
pub fn tables(judge: &Judge, db: &Database, page_size: usize) -> anyhow::Result<()> {
    let saved = target(page_size)?;
    for info in db.list_tables() {
        match db.salvage_table(&info.name, &saved) {
            Ok(_) => {}
            // Without a file, or with one that is none, there is nothing to be saved.
            Err(error) if judge.may_fail(&info.name) && is_clear(&error) => {}
            Err(error) => anyhow::bail!("salvage of {}: {error}", info.name),
        }
    }
    rows_have_existed(judge, &saved)
}

/// Salvages the files of a database that could not be opened.
///
/// # Errors
/// If that fails, or gives what never was.
pub fn files(judge: &Judge, files: &Files, plan: Plan) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let of_tables = |name: &&String| name.ends_with(".hf") || name.starts_with("holdfast.meta");
    let kept: Files = files.iter().filter(|(name, _)| of_tables(name)).map(|(n, b)| (n.clone(), b.clone())).collect();
    files::save(&kept, dir.path())?;
    let saved = target(plan.page_size)?;
    match saved.salvage_files(dir.path()) {
        // After a kill, pages of large values may be older or newer than the leaves that refer to
        // them.
        Ok(_) if !plan.closed => Ok(()),
        Ok(_) => rows_have_existed(judge, &saved),
        Err(error) => {
            ensure!(is_clear(&error) || matches!(error, Error::NotADatabase(_)), "salvage of the files: {error:?}");
            Ok(())
        }
    }
}

/// Copies the database; a copy that came about holds the tables that are whole.
///
/// # Errors
/// If it does not.
pub fn backup(judge: &Judge, db: &Database) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let copy = dir.path().join("copy");
    if let Err(error) = db.backup(&copy, &BackupOptions::new().leave_out_damaged(true)) {
        ensure!(is_clear(&error), "backup: {error:?}");
        ensure!(judge.tables.keys().any(|table| judge.may_fail(table)), "backup of what is whole: {error}");
        return Ok(());
    }
    compare(judge, &copy).context("in a copy")
}

fn compare(judge: &Judge, dir: &Path) -> anyhow::Result<()> {
    let disk = files::to_disk(&files::load(dir)?)?;
    let db = match settings(std::sync::Arc::new(disk)).open("copy") {
        Ok(db) => db,
        Err(error) => {
            ensure!(judge.is_shared() && is_clear(&error), "open: {error}");
            return Ok(());
        }
    };
    let txn = db.begin_read()?;
    for (name, table) in judge.tables.iter().filter(|(name, table)| !table.raw && !judge.may_fail(name)) {
        let rows = read_typed(&txn, name, 0).map_err(|trouble| anyhow::anyhow!("table {name}: {trouble:?}"))?;
        let rows: super::model::Rows = rows.into_iter().collect();
        ensure!(rows == table.rows, "table {name} has other rows than its original");
    }
    Ok(())
}
