//! A version by a transaction that there never was, which a check has to find beside a writer.
//!
//! It is forged in a copy of what a closed database leaves: in a table without indexes, so that
//! nothing but the look at its entries tells. The writer changes another table: now and then, and
//! all the time while the table with the forged version is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use holdfast::{Database, FlushAtCommit, TableDefinition, VerifyOptions, VerifyProgress, VerifyReport};
use holdfast_base::page::{self, PageHeader, PageType};
use holdfast_base::{sim, thread};
use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::history::Coverage;
use super::plan::{Dice, Plan};
use super::settings::settings;
use crate::damage::layout::{VERSION_HEADER, records};

type Numbers = TableDefinition<u64, u64>;

/// Begins with what [`super::temporary::drop_left`] drops.
const NAME: &str = "z forged";

const ROWS: u64 = 20;

/// How long the writer waits between two commits while other files are read.
const PAUSE: Duration = Duration::from_micros(500);

/// Makes the table, which the next open drops; its file. The database is closed behind it.
///
/// # Errors
/// The errors of the engine.
pub(super) fn begin(db: &Database) -> anyhow::Result<String> {
    let definition = Numbers::named(NAME);
    db.create_table(&definition)?;
    db.transact(|txn| {
        let rows = txn.open_table(&definition)?;
        (0..ROWS).try_for_each(|row| rows.insert(row, row))
    })?;
    Ok(db.list_tables().into_iter().find(|table| table.name == NAME).context("the table")?.file)
}

/// Forges a version in a copy of the closed database on `disk`, and has it checked.
///
/// # Errors
/// If it is not found, or anything else is; the errors of the engine.
pub(super) fn check(
    disk: &CrashDisk,
    plan: &Plan,
    file: &str,
    dice: &mut Dice,
    coverage: &Arc<Coverage>,
) -> anyhow::Result<()> {
    let copy = disk.reboot(0);
    forge(&copy, plan, file, dice)?;
    coverage.count("damage: version by no transaction");
    let faulty = FaultDisk::new(Arc::new(copy.clone()));
    let db = settings(plan, &copy, &faulty, coverage).open("sim").context("open")?;
    let report = verify_beside_writer(&db)?;
    let is_found = report.findings.iter().any(|finding| finding.table == NAME);
    let is_alone = report.findings.iter().all(|finding| finding.table == NAME);
    ensure!(is_found && is_alone, "a version by no transaction is in table `{NAME}`; verify(): {report:?}");
    db.close().context("close")
}

/// Changes the number of the writer of one row.
fn forge(disk: &CrashDisk, plan: &Plan, file: &str, dice: &mut Dice) -> anyhow::Result<()> {
    let (size, nth) = (plan.page_size, dice.below(ROWS) as usize);
    let len = disk.open(file, OpenOptions::new(FileKind::Data).read_only(true))?.len()?;
    for at in (0..len).step_by(size) {
        let mut done = false;
        disk.damage(file, at, size, |bytes| {
            let header = PageHeader::decode(bytes).filter(|_| !page::is_blank(bytes));
            if !header.is_some_and(|header| header.page_type == PageType::Tree && header.level == 0) {
                return;
            }
            let found = records(bytes).get(nth).map(|record| record.payload);
            if let Some((begin, _)) = found.filter(|(_, len)| *len >= VERSION_HEADER) {
                // One of its higher bytes.
                bytes[begin + 6] = 1;
                page::seal(bytes);
                done = true;
            }
        })?;
        if done {
            return Ok(());
        }
    }
    Err(anyhow!("no page of {file} has row {nth}"))
}

/// Checks the database while another thread commits.
fn verify_beside_writer(db: &Database) -> anyhow::Result<VerifyReport> {
    const BESIDE: &str = "z beside";
    db.create_table(&Numbers::named(BESIDE))?;
    let [is_over, is_near] = [false; 2].map(|no| Arc::new(AtomicBool::new(no)));
    let (told, near, writer) = (Arc::clone(&is_over), Arc::clone(&is_near), db.clone());
    let thread = thread::spawn("writer", move || -> holdfast::Result<()> {
        for n in 0.. {
            if told.load(Ordering::Relaxed) {
                break;
            }
            let txn = writer.begin_write()?;
            txn.open_table(&Numbers::named(BESIDE))?.upsert(0, n)?;
            txn.commit_with(FlushAtCommit::Lazy)?;
            sim::progress();
            if !near.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    })?;
    let mut note = |at: &VerifyProgress| {
        is_near.store(at.table == NAME, Ordering::Relaxed);
        if at.table == NAME {
            // The writer's pause ends before the table is looked at.
            thread::sleep(PAUSE);
        }
    };
    let report = db.verify(&VerifyOptions::default(), &mut note);
    is_over.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| anyhow!("the writer panicked"))?.context("the writer")?;
    report.context("verify")
}
