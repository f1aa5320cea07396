//! Opens of a database in other ways: with other settings, for reading, a second time.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use holdfast::raw::RawDatabase;
use holdfast::{Builder, Database, Error, ReplacementPolicy, VerifyOptions};
use holdfast_io::Disk;
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::disk::ends_life;
use super::history::{Coverage, Item, Version};
use super::life::Life;
use super::plan::{Dice, Plan};
use super::settings::settings;
use super::survivors;

/// Changes settings that may differ from open to open.
pub(super) fn vary(builder: Builder, plan: &Plan, dice: &mut Dice) -> Builder {
    if plan.evicts || dice.percent(60) {
        return builder;
    }
    let cache = plan.cache_bytes + dice.below(plan.cache_bytes);
    let policies = [ReplacementPolicy::Lru, ReplacementPolicy::default(), plan.policy, plan.policy];
    builder
        .cache_size_bytes(cache)
        .cache_size_max_bytes(plan.cache_bytes * (2 + dice.below(2)))
        .log_capacity_bytes((4 << 20) + dice.below(12 << 20))
        .log_buffer_bytes((64 << 10) << dice.below(5))
        .replacement_policy(dice.one_of(&policies))
        .scan_hints(dice.percent(50))
}

/// A second open of the open database is refused, and a creation over it.
///
/// # Errors
/// If it is not.
pub(super) fn beside(life: &Life, dice: &mut Dice) -> anyhow::Result<()> {
    life.coverage.count("keeper: second open");
    let builder = settings(&life.plan, &life.disk, &life.faulty, &life.coverage);
    let refused = match dice.below(3) {
        0 => builder.open("sim"),
        1 => builder.open_read_only("sim"),
        _ => builder.create("sim"),
    };
    match refused {
        Ok(_) => bail!("a second open of an open database succeeds"),
        Err(Error::AlreadyOpen(_) | Error::AlreadyExists(_)) => Ok(()),
        Err(error) if ends_life(&error) || life.is_over() => Ok(()),
        Err(Error::Io { .. }) if life.faulty.fired() > 0 => Ok(()),
        Err(error) => bail!("a second open: {error}"),
    }
}

/// Looks at the closed or crashed database on `disk` in ways that must not change it; the rows, if
/// they were read.
///
/// # Errors
/// What was wrong.
pub(super) fn look(
    disk: &CrashDisk,
    plan: &Plan,
    dice: &mut Dice,
    coverage: &Arc<Coverage>,
) -> anyhow::Result<Option<BTreeMap<Item, Version>>> {
    if plan.limits.no_keeper || !dice.percent(30) {
        return Ok(None);
    }
    let (before, files) = (disk.operations(), disk.list()?);
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    let builder = || settings(plan, disk, &faulty, coverage);
    let other_size = if plan.page_size == 4096 { 8192 } else { 4096 };
    let refused = builder().page_size(other_size).open("sim").map(drop);
    ensure!(matches!(refused, Err(Error::InvalidArgument(_))), "an open with another page size: {refused:?}");
    let refused = builder().create("sim").map(drop);
    ensure!(matches!(refused, Err(Error::AlreadyExists(_))), "a creation over a database: {refused:?}");
    let raw = RawDatabase::new(vary(builder(), plan, dice).open_read_only("sim").context("read-only")?);
    let beside = dice.percent(50).then(|| builder().open_read_only("sim")).transpose().context("a second reader")?;
    let refused = builder().open("sim").map(drop);
    ensure!(matches!(refused, Err(Error::AlreadyOpen(_))), "an open for writing beside readers: {refused:?}");
    let rows = survivors::read_all(&raw, plan)?;
    check_reader(raw.database(), dice.percent(50))?;
    if let Some(beside) = beside {
        let beside = RawDatabase::new(beside);
        ensure!(survivors::read_all(&beside, plan)? == rows, "two readers of one database see different rows");
    }
    raw.close()?;
    ensure!((disk.operations(), disk.list()?) == (before, files), "a read-only open has changed the disk");
    coverage.count("open: read-only");
    Ok(Some(rows))
}

/// What a database that is open for reading says.
fn check_reader(db: &Database, verify: bool) -> anyhow::Result<()> {
    let refused = db.begin_write().map(drop);
    ensure!(matches!(refused, Err(Error::ReadOnly(_))), "a transaction that writes: {refused:?}");
    if verify {
        let report = db.verify(&VerifyOptions::default(), &mut |_| {})?;
        ensure!(report.is_clean(), "verify() of a read-only open: {report:?}");
    }
    Ok(())
}
