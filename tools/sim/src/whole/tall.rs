//! A table of the keeper's own with long keys, so that its trees are high though it has few rows.
//!
//! No session uses it. So a full disk refuses a row only if the table's file is full, and after a
//! compaction less than an extent of it is free.

use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast::{Database, Error, TableDefinition};
use holdfast_base::thread;
use holdfast_testkit::{Fault, FaultKind, FaultOp};

use super::bounds;
use super::disk::ends_life;
use super::life::Life;
use super::plan::Dice;

type Definition = TableDefinition<&'static [u8], &'static [u8]>;

/// Rows that there are at most.
const ROWS: u64 = 600;

/// Rows of a table that is to have many pages.
const MANY_ROWS: u64 = 1_600;

/// Rows of a table that is larger than the smallest cache.
const ROWS_BEYOND_CACHE: u64 = 6_000;

/// Free pages with which a file may end: it is cut at a multiple of this.
const EXTENT: u64 = 64;

const NAME: &str = "tall";

/// Free pages of which ten rows always find enough.
const ENOUGH: u64 = 40;

fn definition() -> Definition {
    TableDefinition::named(NAME)
}

/// A key of about a fifth of a page. Neighbours have most of it in common, and the whole table
/// little.
fn key(n: u64, page_size: usize) -> Vec<u8> {
    let mut key = (n / 8).to_be_bytes()[6..].to_vec();
    key.resize(page_size / 5, b'k');
    key.push(n as u8);
    key
}

/// The table's file, and how many of its pages are free.
fn free_pages(db: &Database) -> (String, u64) {
    let file = db.list_tables().into_iter().find(|table| table.name == NAME).map_or(String::new(), |table| table.file);
    let free = db.stats().spaces.iter().find(|space| space.file == file).map_or(0, |space| space.free_pages);
    (file, free)
}

/// Adds rows, or takes some away.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn work(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    let rows = if life.plan.evicts { ROWS_BEYOND_CACHE } else { ROWS };
    let (from, count, adds) = (dice.below(rows), dice.below(ROWS / 2) + 1, dice.percent(60));
    life.coverage.count(if adds { "keeper: rows with long keys" } else { "keeper: rows with long keys go" });
    change(life, &mut (from..(from + count).min(rows)), adds)
}

/// Makes the table larger than the cache.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn outgrow_cache(life: &Life) -> anyhow::Result<()> {
    let keys = (0..ROWS_BEYOND_CACHE).map(|n| key(n, life.plan.page_size));
    let mut keys: Vec<Vec<u8>> = keys.collect();
    keys.sort_unstable();
    let filled = life.db().create_table_with(&definition(), |loader| {
        keys.iter().try_for_each(|key| loader.push(&**key, [7; 20].as_slice()))
    });
    explain(life, filled)
}

/// Fills the table, makes holes in it, then fills the disk, and adds rows until there is no room
/// for one.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn fill_up(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    change(life, &mut (0..MANY_ROWS), true)?;
    change(life, &mut (0..MANY_ROWS).filter(|n| n / 8 % 3 == 1), false)?;
    // Purge makes room.
    thread::sleep(Duration::from_secs(2));
    life.faulty.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).sticky());
    life.coverage.count("keeper: rows with long keys on a full disk");
    let from = dice.below(MANY_ROWS);
    change(life, &mut (from..MANY_ROWS).chain(0..from).filter(|n| n / 8 % 3 == 1), true)
}

fn change(life: &Life, numbers: &mut dyn Iterator<Item = u64>, adds: bool) -> anyhow::Result<()> {
    if !life.db().list_tables().iter().any(|table| table.name == NAME) {
        explain(life, life.db().create_table(&definition()))?;
    }
    let numbers: Vec<u64> = numbers.collect();
    for batch in numbers.chunks(10) {
        if life.is_over() {
            break;
        }
        let (file, free) = free_pages(life.db());
        let is_full = |outcome: &_| matches!(outcome, Err(Error::DiskFull(what)) if what.contains(&file));
        let mut outcome = change_rows(life, batch, adds);
        if is_full(&outcome) && free >= ENOUGH {
            outcome = change_rows(life, batch, adds);
            let free = free.min(free_pages(life.db()).1);
            ensure!(!is_full(&outcome) || free < ENOUGH, "{outcome:?}, but {free} pages of the table are free");
        }
        explain(life, outcome)?;
    }
    Ok(())
}

fn change_rows(life: &Life, batch: &[u64], adds: bool) -> holdfast::Result<()> {
    let size = life.plan.page_size;
    life.db().transact(|txn| {
        let rows = txn.open_table(&definition())?;
        batch.iter().map(|n| key(*n, size)).try_for_each(|key| match adds {
            true => rows.upsert(&*key, [7; 20].as_slice()).map(drop),
            false => rows.delete(&*key).map(drop),
        })
    })
}

/// Accepts an error that something explains.
pub(super) fn explain(life: &Life, outcome: holdfast::Result<()>) -> anyhow::Result<()> {
    match outcome {
        Ok(()) | Err(Error::LimitReached(_) | Error::TableNotFound(_) | Error::TableExists(_)) => Ok(()),
        Err(error) if ends_life(&error) || life.is_over() => Ok(()),
        Err(Error::Io { .. } | Error::DiskFull(_)) if life.faulty.fired() > 0 => Ok(()),
        Err(error) => Err(anyhow::Error::new(error).context("the keeper's table")),
    }
}

/// Fills the table and leaves few rows, so that nodes have one child, or are empty.
///
/// # Errors
/// The errors of the engine; if what has gone is not purged.
pub(super) fn thin_out(db: &Database, page_size: usize, dice: &mut Dice) -> anyhow::Result<()> {
    if !db.list_tables().iter().any(|table| table.name == NAME) {
        db.create_table(&definition())?;
    }
    let of = dice.one_of(&[3, 5, 8, 12]);
    let kept = 1 + dice.below(of / 2);
    let change = |numbers: &[u64], adds: bool| {
        db.transact(|txn| {
            let rows = txn.open_table(&definition())?;
            numbers.iter().map(|n| key(*n, page_size)).try_for_each(|key| match adds {
                true => rows.upsert(&*key, [7; 20].as_slice()).map(drop),
                false => rows.delete(&*key).map(drop),
            })
        })
    };
    let all: Vec<u64> = (0..MANY_ROWS).collect();
    all.chunks(50).try_for_each(|some| change(some, true))?;
    let most: Vec<u64> = (0..MANY_ROWS).filter(|n| n / 8 % of >= kept).collect();
    most.chunks(50).try_for_each(|some| change(some, false))?;
    bounds::until(db, "purge comes to its end", || db.stats().transactions.history_length == 0)
}

/// Compacts the database, which no session uses, and checks what is left free.
///
/// # Errors
/// If a part of the file stays free.
pub(super) fn check_compaction(db: &Database) -> anyhow::Result<()> {
    if free_pages(db).1 < EXTENT {
        return Ok(());
    }
    db.compact().context("compact")?;
    let (_, free) = free_pages(db);
    ensure!(free < EXTENT, "{free} pages of the table `{NAME}` are free after a compaction");
    Ok(())
}
