//! The operator of a run: tables come and go, cache and log change their sizes, checks and
//! checkpoints run beside the sessions.

use std::ops::Bound;
use std::time::Duration;

use anyhow::{bail, ensure};
use holdfast::{Error, Listing, ReplacementPolicy, TableDefinition, VerifyOptions};
use holdfast_base::{sim, thread};

use super::disk::ends_life;
use super::life::Life;
use super::plan::Dice;

/// Works until the sessions have had their time, or the life is over.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn run(life: &Life, seed: u64) -> anyhow::Result<()> {
    let mut dice = Dice::new(seed);
    for _ in 0..dice.below(life.plan.transactions * 2) {
        if life.is_over() {
            break;
        }
        match act(life, &mut dice) {
            Ok(()) => sim::progress(),
            Err(error) => tolerate(life, error)?,
        }
        let most = if life.plan.idles() { life.plan.idle_micros / 2 } else { 5_000 };
        thread::sleep(Duration::from_micros(dice.below(most)));
    }
    Ok(())
}

/// Accepts an error that something explains.
fn tolerate(life: &Life, error: anyhow::Error) -> anyhow::Result<()> {
    let Some(known) = error.downcast_ref::<Error>() else { return Err(error) };
    match known {
        _ if ends_life(known) || life.is_over() => Ok(()),
        Error::LockTimeout
        | Error::TableMismatch { .. }
        | Error::TableNotFound(_)
        | Error::TableExists(_)
        | Error::SnapshotTooOld => Ok(()),
        Error::Io { .. } | Error::DiskFull(_) if life.faulty.fired() > 0 => Ok(()),
        _ => bail!("the operator: {error}"),
    }
}

fn act(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    let db = life.db();
    let count = |what| life.coverage.count(what);
    let compacts = life.plan.idles() && dice.percent(50);
    match if compacts { 5 } else { dice.below(15) } {
        0 => {
            count("operator: checkpoint");
            db.checkpoint()?;
        }
        1 => {
            count("operator: resize of the cache");
            db.set_cache_size_bytes(life.plan.cache_bytes + dice.below(life.plan.cache_bytes))?;
        }
        2 => {
            count("operator: resize of the log");
            db.set_log_capacity_bytes((4 << 20) + dice.below(life.plan.log_bytes))?;
        }
        3 | 4 => {
            count("operator: verify");
            let report = db.verify(&VerifyOptions::default(), &mut |_| {})?;
            ensure!(life.struck.explains(&report) || life.faulty.fired() > 0 || life.is_over(), "verify(): {report:?}");
        }
        5 => {
            count("operator: compact");
            db.compact()?;
        }
        6 => {
            count("operator: replacement policy");
            let lru = ReplacementPolicy::Lru;
            let policy = if dice.percent(50) { lru } else { ReplacementPolicy::default() };
            db.set_replacement_policy(policy)?;
        }
        7 => {
            count("operator: status");
            ensure!(!db.status_text().is_empty(), "the status is empty");
            let _ = (db.stats(), db.metrics_snapshot(), db.latest_deadlock());
            list(life);
        }
        8 => {
            count("operator: scan hints");
            db.set_scan_hints(dice.percent(50));
        }
        9 => sizes(life, dice)?,
        _ => tables(life, dice)?,
    }
    Ok(())
}

/// Reads all listings.
fn list(life: &Life) {
    life.coverage.count("operator: listings");
    for listing in Listing::ALL {
        let mut rows = 0;
        life.db().list(*listing, &mut |_| {
            rows += 1;
            rows < 200
        });
    }
}

/// What is known about the sizes of a table.
fn sizes(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    life.coverage.count("operator: sizes of a table");
    let names: Vec<String> = life.raw().tables().into_iter().map(|(name, _)| name).collect();
    let name = &names[dice.below(names.len() as u64) as usize];
    match look_at_sizes(life, name) {
        Err(error) if life.struck.excuses(&life.plan, name, &error) => Ok(()),
        looked => looked,
    }
}

fn look_at_sizes(life: &Life, name: &str) -> anyhow::Result<()> {
    let table = life.raw().open_table(name)?;
    let (_, _, _) = (table.rows(0)?, table.leaves(0)?, table.file_bytes()?);
    let (low, high) = (5u64.to_be_bytes(), 90u64.to_be_bytes());
    table.estimate(0, Bound::Included(&low), Bound::Excluded(&high))?;
    table.sample(0, 3, &mut |_| {})?;
    let mut first = Vec::new();
    if table.first_key(0, &low, &mut first)? {
        ensure!(first[..] >= low[..], "the first key from {low:?} on is {first:?}");
    }
    Ok(())
}

/// Creates, fills, renames and drops tables of the operator's own.
fn tables(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    let db = life.db();
    let name = |n: u64| format!("own{n}");
    let (one, other) = (name(dice.below(3)), name(dice.below(3)));
    let count = |what| life.coverage.count(what);
    let definition = |name: &str| TableDefinition::<u64, &[u8]>::named(name);
    match dice.below(4) {
        0 => {
            count("operator: create table");
            db.create_table(&definition(&one))?;
        }
        1 => {
            count("operator: rename table");
            db.rename_table(&one, &other)?;
        }
        2 => {
            count("operator: drop table");
            db.drop_table(&one)?;
        }
        _ => {
            count("operator: fill table");
            if !db.list_tables().iter().any(|table| table.name == one) {
                return Ok(());
            }
            let len = dice.below(3_000) as usize;
            db.transact(|txn| {
                let rows = txn.open_table(&definition(&one))?;
                (0..20).try_for_each(|key| rows.upsert(key, &vec![7; len]).map(drop))
            })?;
        }
    }
    Ok(())
}
