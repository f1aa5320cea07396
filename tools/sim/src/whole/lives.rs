//! The lives of a run's database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, anyhow, bail, ensure};
use holdfast::metrics::Counter;
use holdfast::raw::RawDatabase;
use holdfast::{Database, ReplacementPolicy, VerifyOptions};
use holdfast_base::time::Instant;
use holdfast_base::{blocking, sim, thread};
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::counters::Counters;
use super::definitions::Definitions;
use super::history::{Coverage, History, Item, Txn, Version};
use super::life::Life;
use super::plan::{BITMAP_EXTENTS, Dice, Plan};
use super::session::Session;
use super::settings::settings;
use super::struck::Struck;
use super::values::table;
use super::{
    bounds, damage, definer, faults, forged, judge, keeper, loads, opens, operator, places, prepared, restart,
};
use super::{shared_files, survivors, tall, temporary, waits, warm_up, xa};

/// What is left of a life, and must be there when the next one begins.
#[derive(Default)]
struct Kept {
    rows: BTreeMap<Item, Version>,
    /// Prepared transactions that wait.
    waiting: Vec<Txn>,
    definitions: Definitions,
    counters: Counters,
}

/// Runs `plan`; returns what happened how often, and the scheduler's account. To be called once in
/// a process.
///
/// # Errors
/// What was wrong.
pub fn run(plan: &Plan) -> anyhow::Result<(BTreeMap<&'static str, u64>, sim::Run)> {
    let coverage = Arc::new(Coverage::default());
    let (scheduler, in_run, of_run) = (plan.scheduler(), plan.clone(), Arc::clone(&coverage));
    let (outcome, run) = sim::run(scheduler, move || lives(&in_run, &of_run));
    outcome?;
    coverage.count(if plan.has_partitions() { "cache: several partitions" } else { "cache: one partition" });
    coverage.count(if plan.policy == ReplacementPolicy::default() { "cache: default policy" } else { "cache: lru" });
    coverage.add("switches of threads", run.switches);
    coverage.add("stalls of threads", run.stalls);
    Ok((coverage.all(), run))
}

fn lives(plan: &Plan, coverage: &Arc<Coverage>) -> anyhow::Result<()> {
    let mut dice = Dice::new(plan.seed ^ 0x11fe);
    let mut disk = CrashDisk::new();
    let mut kept = Kept::default();
    let next_txn = Arc::new(AtomicU64::new(1));
    let mut created = false;
    for number in 0..plan.lives {
        let life = Life {
            plan: plan.clone(),
            history: History::default(),
            coverage: Arc::clone(coverage),
            faulty: FaultDisk::new(Arc::new(disk.clone())),
            left: blocking::Mutex::new(restart::carried(std::mem::take(&mut kept.waiting))),
            definitions: blocking::Mutex::new(std::mem::take(&mut kept.definitions)),
            counters: blocking::Mutex::new(std::mem::take(&mut kept.counters)),
            metadata: Arc::default(),
            disk,
            room: AtomicU64::new(0),
            copies: Mutex::default(),
            struck: Struck::default(),
            is_last: number + 1 == plan.lives,
            db: OnceLock::new(),
            next_txn: Arc::clone(&next_txn),
            wrong: Mutex::default(),
        };
        let before = std::mem::take(&mut kept.rows);
        (disk, kept) =
            one_life(life, &before, &mut dice, &mut created).with_context(|| format!("life {}", number + 1))?;
    }
    Ok(())
}

/// Lives one life that begins with `before`; returns the disk and what it leaves.
fn one_life(
    mut life: Life,
    before: &BTreeMap<Item, Version>,
    dice: &mut Dice,
    created: &mut bool,
) -> anyhow::Result<(CrashDisk, Kept)> {
    let coverage = Arc::clone(&life.coverage);
    let raw = RawDatabase::new(open(&mut life, dice, *created)?);
    if !*created {
        for no in 0..life.plan.tables {
            raw.database().create_table(&table(&format!("t{no}")))?;
        }
        *created = true;
    }
    temporary::drop_left(&raw)?;
    let sound = survivors::read_all(&raw, &life.plan)?;
    ensure!(sound == *before, "the rows are not those that were there: {sound:?}, not {before:?}");
    let _ = life.db.set(raw);
    let full = faults::prepare(&life, dice);
    let life = Arc::new(life);
    let threads = start(&life, dice, full)?;
    for thread in threads {
        let outcome = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
        life.keep(outcome);
    }
    life.faulty.clear();
    if let Some(error) = life.wrong().take() {
        return Err(error);
    }
    xa::enter_left(&life);
    let txns = life.history.txns();
    coverage.add("transactions", txns.len() as u64);
    let (struck, is_last) = (life.struck.tables(), life.is_last);
    judge::judge(&life.struck.rest(&txns), before)?;
    life.definitions.lock().check_gates(&txns)?;
    let life = Arc::try_unwrap(life).map_err(|_| anyhow!("a thread of the life is left"))?;
    let (disk, plan, definitions) = (life.disk.clone(), life.plan.clone(), life.definitions.into_inner());
    let strikes = life.struck;
    let counters = life.counters.into_inner();
    let copies = life.copies.into_inner().unwrap_or_else(PoisonError::into_inner);
    let faults = life.faulty.fired();
    coverage.add("faults of the disk", faults);
    let db = life.db.into_inner().context("the database is open")?;
    count_metrics(db.database(), &plan, &coverage);
    let closed = end(db, &disk, dice, faults, &coverage)?;
    disk.crash_after(u64::MAX);
    if closed && struck.is_empty() {
        warm_up::check(&disk, &plan, &coverage)?;
    }
    let looks = is_last && struck.is_empty() && !plan.limits.no_keeper && dice.percent(35);
    if looks {
        let (disk, plan, txns, coverage) = (&disk, &plan, &txns, &coverage);
        shared_files::Leavings { disk, plan, txns, before, closed, faults, coverage }.check(dice)?;
    }
    let disk = leave(disk, looks || !struck.is_empty(), closed, dice, &coverage);
    if !struck.is_empty() {
        strikes.strike_again(&disk, &plan, dice)?;
        let (disk, plan, txns, coverage) = (&disk, &plan, &txns, &coverage);
        damage::Aftermath { disk, plan, struck, txns, before, closed, coverage }.check(dice)?;
        return Ok((disk.clone(), Kept::default()));
    }
    let seen = opens::look(&disk, &plan, dice, &coverage).context("a read-only open after the life")?;
    let left = Left { txns: txns.clone(), before, closed, definitions, counters, seen };
    // Recovery is looked at by a database of its own, which is left to the next power cut.
    let kept = survive(&disk, &plan, dice, &coverage, left)?;
    for copy in copies {
        copy.check(&txns, before, &plan, dice, &coverage).context("a backup")?;
    }
    Ok((disk.reboot(dice.any()), kept))
}

/// The disk behind a life: after a power cut, or, unless `cut` says that there has to be one, as a
/// process that ends alone leaves it. Then the next one reads what was written and not synced.
fn leave(disk: CrashDisk, cut: bool, closed: bool, dice: &mut Dice, coverage: &Coverage) -> CrashDisk {
    if cut || disk.is_dead() || !dice.percent(50) {
        return disk.reboot(dice.any());
    }
    if !closed {
        coverage.count("life: process ended, the system lives on");
    }
    disk
}

/// Counts what the engine's own counters say has happened.
fn count_metrics(db: &Database, plan: &Plan, coverage: &Coverage) {
    let metrics = db.metrics_snapshot();
    coverage.add("locks: escalated to a table's lock", metrics.get(Counter::LockEscalations));
    coverage.add("log: waits for room", metrics.get(Counter::LogSpaceWaits));
    coverage.add("warm-up: pages loaded", metrics.get(Counter::WarmupLoaded));
    let evicted = metrics.get(Counter::PagesEvictedClean) + metrics.get(Counter::PagesEvictedDirty);
    let evictions = if plan.has_partitions() { "cache: evictions from partitions" } else { "cache: evictions" };
    coverage.add(evictions, evicted);
    if plan.bitmap_extents == BITMAP_EXTENTS {
        coverage.add("space: files with several bitmaps", bounds::with_bitmaps(db) as u64);
    }
}

/// What a life has done, and how it has ended.
struct Left<'a> {
    txns: Vec<Txn>,
    before: &'a BTreeMap<Item, Version>,
    closed: bool,
    definitions: Definitions,
    counters: Counters,
    /// What a read-only open has shown.
    seen: Option<BTreeMap<Item, Version>>,
}

/// Closes the database, or leaves it to the power cut; true if it was closed cleanly.
fn end(db: RawDatabase, disk: &CrashDisk, dice: &mut Dice, faults: u64, coverage: &Coverage) -> anyhow::Result<bool> {
    if disk.is_dead() {
        coverage.count("life: power cut");
        return Ok(false);
    }
    if !dice.percent(50) {
        coverage.count("life: ends without a close");
        return Ok(false);
    }
    match db.close() {
        Ok(()) => {
            coverage.count("life: closed");
            Ok(true)
        }
        Err(_) if faults > 0 || disk.is_dead() => {
            coverage.count("life: close failed");
            Ok(false)
        }
        Err(error) => bail!("close: {error}"),
    }
}

/// Opens the database; the power may go during recovery, too.
fn open(life: &mut Life, dice: &mut Dice, created: bool) -> anyhow::Result<Database> {
    for attempt in 0.. {
        let may_cut = created && !life.plan.limits.no_cuts && attempt < 3 && dice.percent(40);
        if may_cut {
            life.disk.crash_after(dice.below(150));
        }
        let builder = opens::vary(settings(&life.plan, &life.disk, &life.faulty, &life.coverage), &life.plan, dice);
        let opened = if created { builder.open("sim") } else { builder.create("sim") };
        match opened {
            Ok(db) if !life.disk.is_dead() => {
                life.disk.crash_after(u64::MAX);
                return Ok(db);
            }
            // The power went while it was opened, or before it was looked at.
            outcome => {
                let dead = life.disk.is_dead();
                if let Err(error) = &outcome {
                    ensure!(dead, "open: {error}");
                }
                drop(outcome);
                life.coverage.count("open: power cut during recovery");
                life.disk = life.disk.reboot(dice.any());
                life.faulty = FaultDisk::new(Arc::new(life.disk.clone()));
            }
        }
    }
    unreachable!("the loop has no end")
}

/// Recovers what the life left, checks it, and reads it.
fn survive(
    disk: &CrashDisk,
    plan: &Plan,
    dice: &mut Dice,
    coverage: &Arc<Coverage>,
    left: Left<'_>,
) -> anyhow::Result<Kept> {
    sim::progress();
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    let builder = opens::vary(settings(plan, disk, &faulty, coverage), plan, dice);
    let raw = RawDatabase::new(builder.open("sim").context("the open after the life")?);
    let passes = raw.database().metrics_snapshot().get(Counter::RecoveryPasses);
    coverage.add("recovery: passes over the log", passes);
    let mut kept = check_left(&raw, plan, coverage, left).context("after the life")?;
    // Losers are rolled back and logs purged beside it.
    let report = raw.database().verify(&VerifyOptions::default(), &mut |_| {})?;
    ensure!(report.is_clean(), "verify() after the life: {report:?}");
    coverage.count("life: verified");
    if dice.percent(50) {
        kept.waiting = restart::decide_some(&raw, kept.waiting, &mut kept.rows, dice, coverage)?;
    }
    if dice.percent(70) {
        let again = survivors::read_all(&raw, plan)?;
        ensure!(again == kept.rows, "rows changed though no session ran: {again:?}, not {:?}", kept.rows);
        if plan.page_size <= 8192 && dice.percent(20) {
            coverage.count("life: table of few rows compacted");
            tall::thin_out(raw.database(), plan.page_size, dice).context("rows come and go")?;
        }
        tall::check_compaction(raw.database())?;
        bounds::check_rest(raw.database(), kept.waiting.len())?;
        check_idle(&raw, disk, plan, dice, coverage)?;
        if bounds::can_check_limit(plan) && dice.percent(40) {
            bounds::check_limit(&raw, plan, dice, coverage, kept.waiting.len()).context("large values are replaced")?;
        }
        let waits = if dice.percent(10) { Some(waits::Waits::begin(&raw, coverage)?) } else { None };
        let forged = if dice.percent(15) { Some(forged::begin(raw.database())?) } else { None };
        raw.close().context("close after the life")?;
        waits.map_or(Ok(()), |waits| waits.check(Instant::now()))?;
        forged.map_or(Ok(()), |file| forged::check(disk, plan, &file, dice, coverage)).context("a forged version")?;
    } else if dice.percent(50) {
        raw.database().checkpoint().context("a checkpoint after the life")?;
    }
    Ok(kept)
}

/// Checks, now that nothing else runs, what one transaction keeps that does nothing more, and what
/// stays of a table.
fn check_idle(
    raw: &RawDatabase,
    disk: &CrashDisk,
    plan: &Plan,
    dice: &mut Dice,
    coverage: &Coverage,
) -> anyhow::Result<()> {
    if dice.percent(30) {
        bounds::check_idle_writer(raw.database(), dice, coverage).context("an idle writer")?;
    }
    if dice.percent(20) {
        bounds::check_drop(raw, disk, dice, coverage).context("a table goes")?;
    }
    // Where locks become one of the table, that stays.
    if !plan.lacks_lock_memory() && dice.percent(30) {
        prepared::check(raw, dice, coverage).context("a prepared transaction has read rows")?;
    }
    Ok(())
}

/// Checks what a restart has found of what a life has done.
fn check_left(raw: &RawDatabase, plan: &Plan, coverage: &Coverage, left: Left<'_>) -> anyhow::Result<Kept> {
    let Left { mut txns, before, closed, mut definitions, counters, seen } = left;
    loads::check_left(raw, coverage)?;
    temporary::drop_left(raw)?;
    let waiting = restart::settle(&mut txns, &raw.prepared(), closed)?;
    txns.extend(definitions.settle(raw)?);
    let rows = survivors::read_all(raw, plan)?;
    ensure!(seen.is_none_or(|seen| seen == rows), "a read-only open shows other rows than one for writing");
    let numbers: BTreeSet<usize> = definitions.numbers().collect();
    let stays = |item: &Item| !places::is_changing(item.table) || numbers.contains(&item.table);
    txns.iter_mut().for_each(|txn| txn.writes.retain(|write| stays(&write.item)));
    let before = before.iter().filter(|(item, _)| stays(item)).map(|(item, version)| (*item, *version)).collect();
    survivors::check(&txns, &before, &rows, closed)?;
    restart::check_locks(raw, &waiting, coverage)?;
    let counters = counters.settle(raw, &restart::names(raw), closed)?;
    Ok(Kept { rows, waiting, definitions, counters })
}

type Handle = thread::JoinHandle<anyhow::Result<()>>;

/// Starts the threads of a life; `full`: the disk is, for a while.
fn start(life: &Arc<Life>, dice: &mut Dice, full: bool) -> anyhow::Result<Vec<Handle>> {
    let mut threads = Vec::new();
    for number in 0..life.plan.sessions {
        let session = Session::new(Arc::clone(life), number, dice.any());
        threads.push(spawn(life, &format!("session-{number}"), move |_| session.run())?);
    }
    let limits = &life.plan.limits;
    if !limits.no_operator {
        let seed = dice.any();
        threads.push(spawn(life, "operator", move |life| operator::run(life, seed))?);
    }
    if !limits.no_definitions && !life.damages() {
        let seed = dice.any();
        threads.push(spawn(life, "definer", move |life| definer::run(life, seed))?);
    }
    if full || life.damages() || life.plan.evicts || (!limits.no_keeper && dice.percent(50)) {
        let seed = dice.any();
        threads.push(spawn(life, "keeper", move |life| keeper::run(life, seed, full))?);
    }
    Ok(threads)
}

/// Starts a thread, of which the life keeps what it says is wrong.
fn spawn(
    life: &Arc<Life>,
    name: &str,
    body: impl FnOnce(&Arc<Life>) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<Handle> {
    let life = Arc::clone(life);
    Ok(thread::spawn(name, move || {
        let outcome = body(&life);
        life.keep(outcome);
        Ok(())
    })?)
}
