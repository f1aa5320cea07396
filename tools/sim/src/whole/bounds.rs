//! Bounds on what is kept: old versions stay within their limit, and at rest nothing is kept that
//! no transaction needs.
//!
//! What the engine counts is not believed alone: the pages that its files use are compared with
//! what is live.

use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{Database, Error, Isolation, ReadTransaction, SpaceStats, Stats, TableDefinition, WriteOptions};
use holdfast_base::limits::EXTENT_PAGES;
use holdfast_base::{sim, thread};
use holdfast_io::Disk;
use holdfast_testkit::CrashDisk;

use super::history::Coverage;
use super::plan::{BITMAP_EXTENTS, Dice, Plan};

type Values = TableDefinition<u64, &'static [u8]>;

/// Begins with what [`super::temporary::drop_left`] drops.
const NAME: &str = "z bounds";

/// A limit that a run gets to.
const SMALL_LIMIT: u64 = 4 << 20;

/// Pages of which those that wait, or are of trees and bitmaps, are little beside it.
const SMALL_PAGE: usize = 8192;

/// The undo space at rest: its directory, the first pages that stay for the next transactions, the
/// header and the bitmap, and the root of the version tree.
const UNDO_AT_REST: u64 = 80;

/// Pages that a bitmap covers at least.
const BITMAP_PAGES: u64 = BITMAP_EXTENTS as u64 * EXTENT_PAGES as u64;

/// Pages of logs that wait before a committer helps purge, and those of trees and bitmaps.
const SOME_PAGES: u64 = 128;

/// How long a change of a table that nothing uses waits at most.
const WAIT: Duration = Duration::from_secs(10);

/// Waits until nothing is to be purged, and checks what is kept then. `prepared`: transactions that
/// wait; no other is open.
///
/// # Errors
/// What is kept although nothing needs it.
pub(super) fn check_rest(db: &Database, prepared: usize) -> anyhow::Result<()> {
    let is_at_rest = || {
        let now = db.stats().transactions;
        now.history_length == 0 && now.version_bytes == 0 && now.versions == 0 && now.recovering == 0
    };
    until(db, "purge comes to its end", is_at_rest)?;
    let now = db.stats().transactions;
    ensure!(now.read_views == 0, "at rest {} snapshots are held", now.read_views);
    ensure!(now.active <= prepared as u64, "at rest {} transactions are open, {prepared} prepared", now.active);
    if prepared == 0 {
        ensure!(now.locks == 0, "at rest {} locks are held", now.locks);
        until(db, "the undo space has what it keeps", || used_pages(db, "undo.hf") <= UNDO_AT_REST)?;
    }
    Ok(())
}

/// Checks that a transaction at READ COMMITTED that has changed a row keeps no snapshot between its
/// statements, nor one for a range that it has closed. No other transaction has a snapshot.
///
/// # Errors
/// What is kept although nothing needs it.
pub(super) fn check_idle_writer(db: &Database, dice: &mut Dice, coverage: &Coverage) -> anyhow::Result<()> {
    coverage.count("bounds: an idle writer at read committed");
    let definition = Values::named(NAME);
    db.create_table(&definition)?;
    let put =
        |row: u64, byte: u8| db.transact(|txn| txn.open_table(&definition)?.upsert(row, [byte].as_slice()).map(drop));
    (0..4).try_for_each(|row| put(row, 1))?;
    let idle = db.begin_write_with(&WriteOptions::new().isolation(Isolation::ReadCommitted))?;
    idle.open_table(&definition)?.upsert(0, [2].as_slice())?;
    for byte in 3..6 {
        let closes_a_range = dice.percent(50);
        if closes_a_range {
            let count = dice.below(4) as usize;
            let read = idle.open_table(&definition)?.range(0..4)?.take(count).collect::<holdfast::Result<Vec<_>>>()?;
            ensure!(read.len() == count, "a range of four rows has {}", read.len());
        } else {
            ensure!(idle.open_table(&definition)?.get(1)?.is_some(), "a row is not there");
        }
        let views = db.stats().transactions.read_views;
        let what = if closes_a_range { "range" } else { "row" };
        ensure!(views == 0, "{views} snapshots are held for a {what} that an idle transaction has read");
        put(1, byte)?;
    }
    idle.rollback()?;
    db.drop_table(NAME)?;
    Ok(())
}

/// Checks that a table whose numbers were used gives its file back when it goes, whichever layer
/// takes it away.
///
/// # Errors
/// The errors of the engine; if the file stays.
pub(super) fn check_drop(
    raw: &RawDatabase,
    disk: &CrashDisk,
    dice: &mut Dice,
    coverage: &Coverage,
) -> anyhow::Result<()> {
    coverage.count("bounds: a table goes whose numbers were used");
    raw.create_table(NAME, &[], &[], Lifetime::Lasting)?;
    raw.open_table(NAME)?.take_mark(0, 1)?;
    let (db, other) = (raw.database(), RawDatabase::new(raw.database().clone()));
    let file = db.list_tables().into_iter().find(|table| table.name == NAME).context("the table")?.file;
    let empties = match dice.below(4) {
        0 => other.drop_table(NAME, WAIT).map(|()| false),
        1 => other.truncate_table(NAME, WAIT).map(|()| true),
        _ => db.drop_table(NAME).map(|()| false),
    }?;
    until(db, "the file of a table that is gone is, too", || disk.exists(&file).is_ok_and(|there| !there))?;
    if empties {
        db.drop_table(NAME)?;
    }
    Ok(())
}

/// True if [`check_limit`] can tell.
pub(super) fn can_check_limit(plan: &Plan) -> bool {
    plan.version_limit <= SMALL_LIMIT && plan.page_size <= SMALL_PAGE
}

/// Replaces large values over and over, beside a snapshot or not, and checks that old versions stay
/// within their limit, that no page is lost, and that nothing is kept in the end. No other
/// transaction is open.
///
/// # Errors
/// What exceeds its bound.
pub(super) fn check_limit(
    raw: &RawDatabase,
    plan: &Plan,
    dice: &mut Dice,
    coverage: &Coverage,
    prepared: usize,
) -> anyhow::Result<()> {
    let db = raw.database();
    coverage.count("bounds: large values are replaced");
    // What a crash has lost is not what is looked for.
    db.compact().context("a compaction before")?;
    let definition = Values::named(NAME);
    db.create_table(&definition)?;
    let (rows, bytes) = (1 + dice.below(4), dice.one_of(&[20_000, 80_000, 300_000]));
    let mut values = Replaced { db, plan, definition, rows, bytes };
    values.replace(0, rows)?;
    let view = if dice.percent(50) { Some(db.begin_read()?) } else { None };
    if view.is_some() {
        coverage.count("bounds: beside a snapshot");
    }
    let rounds = 5 * plan.version_limit / 2 / (rows * bytes as u64);
    for n in 0..rounds * rows {
        values.replace(n % rows, 1)?;
        values.check()?;
        sim::progress();
    }
    if let Some(view) = view {
        values.check_given_up(&view)?;
    }
    check_rest(db, prepared)?;
    let compacted = db.compact().context("a compaction")?;
    ensure!(compacted.pages_reclaimed == 0, "{} pages are lost without a crash", compacted.pages_reclaimed);
    if dice.percent(50) {
        values.end_of_snapshot(coverage)?;
        check_rest(db, prepared).context("behind the end of a snapshot")?;
    } else {
        values.beside_idle_writer(coverage)?;
    }
    db.drop_table(NAME)?;
    Ok(())
}

/// A table of large values.
struct Replaced<'a> {
    db: &'a Database,
    plan: &'a Plan,
    definition: Values,
    rows: u64,
    bytes: usize,
}

impl Replaced<'_> {
    /// Gives `count` rows from `first` on another value.
    fn replace(&mut self, first: u64, count: u64) -> holdfast::Result<()> {
        let value = vec![first as u8; self.bytes];
        self.db.transact(|txn| {
            let table = txn.open_table(&self.definition)?;
            (first..first + count).try_for_each(|row| table.upsert(row, value.as_slice()).map(drop))
        })
    }

    /// Ends a snapshot that has held back a few transactions, while nothing commits.
    fn end_of_snapshot(&mut self, coverage: &Coverage) -> anyhow::Result<()> {
        coverage.count("bounds: a snapshot ends when nothing commits");
        let view = self.db.begin_read()?;
        self.replace(0, 1)?;
        // The purge thread sees that there is nothing to do, and sleeps.
        thread::sleep(Duration::from_secs(10));
        drop(view);
        Ok(())
    }

    /// Checks that a snapshot stays while more is kept for an older one, which does not give way,
    /// than the limit allows.
    fn beside_idle_writer(&mut self, coverage: &Coverage) -> anyhow::Result<()> {
        coverage.count("bounds: a snapshot beside an idle writer");
        self.bytes = 300_000;
        let (first, count) = (self.rows, 3 * self.plan.version_limit / 2 / self.bytes as u64);
        let replace_all = |values: &mut Self| (first..first + count).try_for_each(|row| values.replace(row, 1));
        replace_all(self)?;
        let idle = self.db.begin_write()?;
        let table = idle.open_table(&self.definition)?;
        table.upsert(first + count, [7].as_slice())?;
        ensure!(table.get(first)?.is_some_and(|value| value.len() == self.bytes), "a row is not there");
        replace_all(self)?;
        let younger = self.db.begin_read()?;
        let read = younger.open_table(&self.definition)?;
        for n in 0..10 {
            // Few rows: what is kept for the younger one is little.
            self.replace(first + n % 2, 1)?;
            thread::sleep(Duration::from_secs(1));
            sim::progress();
        }
        let len = read.get(first).context("a snapshot younger than that of an idle writer")?.map(|value| value.len());
        ensure!(len == Some(self.bytes), "the younger snapshot shows {len:?}");
        Ok(())
    }

    /// Compares what is used with what is live and the limit.
    fn check(&self) -> anyhow::Result<()> {
        let page = self.plan.page_size as u64;
        let value = (self.bytes as u64).next_multiple_of(page) + page;
        let file = self.db.list_tables().into_iter().find(|table| table.name == NAME).context("the table")?.file;
        let stats = self.db.stats();
        let used = (pages_of(&stats, &file) + pages_of(&stats, "undo.hf")) * page;
        // A committer may have purged less than it has added, for it does so in slices.
        let most = (self.rows + 4) * value + 5 * self.plan.version_limit / 4 + SOME_PAGES * page;
        let counted = stats.transactions.version_bytes;
        ensure!(used <= most, "{used} bytes are used by {} values of {}; {counted} are old", self.rows, self.bytes);
        Ok(())
    }

    /// Checks that `view`, for which more was kept than the limit allows, has been given up.
    fn check_given_up(&self, view: &ReadTransaction) -> anyhow::Result<()> {
        match view.open_table(&self.definition).and_then(|table| table.get(0)) {
            Ok(Some(value)) => ensure!(value.len() == self.bytes, "a value of {} bytes", value.len()),
            Err(Error::SnapshotTooOld) => {}
            other => anyhow::bail!("a snapshot shows {other:?}"),
        }
        Ok(())
    }
}

fn used_pages(db: &Database, file: &str) -> u64 {
    pages_of(&db.stats(), file)
}

/// The pages of a file that are in use, without the bitmaps behind its first one.
fn pages_of(stats: &Stats, file: &str) -> u64 {
    let bitmaps = |space: &SpaceStats| (space.used_pages + space.free_pages) / BITMAP_PAGES;
    let of = stats.spaces.iter().find(|space| space.file == file);
    of.map_or(0, |space| space.used_pages.saturating_sub(bitmaps(space)))
}

/// The files that have several bitmaps.
pub(super) fn with_bitmaps(db: &Database) -> usize {
    db.stats().spaces.iter().filter(|space| space.used_pages + space.free_pages > BITMAP_PAGES).count()
}

/// Waits until `holds` does.
///
/// # Errors
/// If that takes longer than purge may take.
pub(super) fn until(db: &Database, what: &str, holds: impl Fn() -> bool) -> anyhow::Result<()> {
    for _ in 0..600 {
        if holds() {
            return Ok(());
        }
        sim::progress();
        thread::sleep(Duration::from_millis(500));
    }
    let stats = db.stats();
    anyhow::bail!("in five minutes it has not come to this: {what}; {:?}, {:?}", stats.transactions, stats.spaces)
}
