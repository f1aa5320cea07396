//! The lives of a run's database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, anyhow, bail, ensure};
use holdfast::{Builder, Database, VerifyOptions};
use holdfast_base::{sim, thread};
use holdfast_io::{CrashDisk, FaultDisk};

use super::disk::{RunClock, SlowDisk};
use super::history::{Coverage, History, Item, Version};
use super::plan::{Dice, Plan};
use super::session::{Session, table};
use super::{backups, faults, judge, keeper, opens, operator, survivors};

/// What the threads of a life share.
pub(super) struct Life {
    pub plan: Plan,
    pub history: History,
    pub coverage: Arc<Coverage>,
    pub disk: CrashDisk,
    pub faulty: FaultDisk,
    /// The moment from which on a disk that was full has room again; 0: it was never full, or is.
    pub room: AtomicU64,
    /// Backups that were begun.
    pub copies: Mutex<Vec<backups::Copy>>,
    db: OnceLock<Database>,
    next_txn: Arc<AtomicU64>,
    wrong: Mutex<Option<anyhow::Error>>,
}

impl Life {
    pub fn db(&self) -> &Database {
        self.db.get().expect("a life begins with an open database")
    }

    pub fn next_txn(&self) -> u64 {
        self.next_txn.fetch_add(1, Ordering::Relaxed)
    }

    /// True if the power is off, or something wrong was found.
    pub fn is_over(&self) -> bool {
        self.disk.is_dead() || self.wrong().is_some()
    }

    fn wrong(&self) -> std::sync::MutexGuard<'_, Option<anyhow::Error>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is room on the disk from now on.
    pub fn has_room(&self) {
        self.room.store(self.history.tick(), Ordering::Relaxed);
    }

    /// Keeps a backup to look at after the life.
    pub fn keep_copy(&self, copy: backups::Copy) {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
    }

    /// Keeps the first thing that was wrong.
    pub fn keep(&self, outcome: anyhow::Result<()>) {
        if let Err(error) = outcome {
            self.wrong().get_or_insert(error);
        }
    }
}

/// Runs `plan`; returns what happened how often, and the scheduler's account. To be called once in a process.
///
/// # Errors
/// What was wrong.
pub fn run(plan: &Plan) -> anyhow::Result<(BTreeMap<&'static str, u64>, sim::Run)> {
    let coverage = Arc::new(Coverage::default());
    let (scheduler, in_run, of_run) = (plan.scheduler(), plan.clone(), Arc::clone(&coverage));
    let (outcome, run) = sim::run(scheduler, move || lives(&in_run, &of_run));
    outcome?;
    coverage.add("switches of threads", run.switches);
    coverage.add("stalls of threads", run.stalls);
    Ok((coverage.all(), run))
}

fn lives(plan: &Plan, coverage: &Arc<Coverage>) -> anyhow::Result<()> {
    let mut dice = Dice::new(plan.seed ^ 0x11fe);
    let mut disk = CrashDisk::new();
    let mut rows = BTreeMap::new();
    let next_txn = Arc::new(AtomicU64::new(1));
    let mut created = false;
    for number in 0..plan.lives {
        let life = Life {
            plan: plan.clone(),
            history: History::default(),
            coverage: Arc::clone(coverage),
            faulty: FaultDisk::new(Arc::new(disk.clone())),
            disk,
            room: AtomicU64::new(0),
            copies: Mutex::default(),
            db: OnceLock::new(),
            next_txn: Arc::clone(&next_txn),
            wrong: Mutex::default(),
        };
        let (after, survived) =
            one_life(life, &rows, &mut dice, &mut created).with_context(|| format!("life {}", number + 1))?;
        (disk, rows) = (after, survived);
    }
    Ok(())
}

/// Lives one life that begins with `before`; returns the disk and the rows that it leaves.
fn one_life(
    mut life: Life,
    before: &BTreeMap<Item, Version>,
    dice: &mut Dice,
    created: &mut bool,
) -> anyhow::Result<(CrashDisk, BTreeMap<Item, Version>)> {
    let coverage = Arc::clone(&life.coverage);
    let db = open(&mut life, dice, *created)?;
    if !*created {
        for no in 0..life.plan.tables {
            db.create_table(&table(no))?;
        }
        *created = true;
    }
    let sound = survivors::read_all(&db, &life.plan)?;
    ensure!(sound == *before, "the rows are not those that were there: {sound:?}, not {before:?}");
    let _ = life.db.set(db);
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
    let txns = life.history.txns();
    coverage.add("transactions", txns.len() as u64);
    judge::judge(&txns, before)?;
    let life = Arc::try_unwrap(life).map_err(|_| anyhow!("a thread of the life is left"))?;
    let (disk, plan) = (life.disk.clone(), life.plan.clone());
    let copies = life.copies.into_inner().unwrap_or_else(PoisonError::into_inner);
    let faults = life.faulty.fired();
    coverage.add("faults of the disk", faults);
    let db = life.db.into_inner().context("the database is open")?;
    let closed = end(db, &disk, dice, faults, &coverage)?;
    disk.crash_after(u64::MAX);
    let disk = if closed && dice.percent(50) { disk } else { disk.reboot(dice.any()) };
    let seen = opens::look(&disk, &plan, dice, &coverage).context("a read-only open after the life")?;
    // Recovery is looked at by a database of its own, which is left to the next power cut.
    let after = survive(&disk, &plan, dice, &coverage)?;
    ensure!(seen.is_none_or(|seen| seen == after), "a read-only open shows other rows than one for writing");
    survivors::check(&txns, before, &after, closed).context("after the life")?;
    for copy in copies {
        copy.check(&txns, before, &plan, dice, &coverage).context("a backup")?;
    }
    Ok((disk.reboot(dice.any()), after))
}

/// Closes the database, or leaves it to the power cut; true if it was closed cleanly.
fn end(db: Database, disk: &CrashDisk, dice: &mut Dice, faults: u64, coverage: &Coverage) -> anyhow::Result<bool> {
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

/// The settings of the run for a database on `faulty`, which lies over `disk`.
pub(super) fn settings(plan: &Plan, disk: &CrashDisk, faulty: &FaultDisk, coverage: &Arc<Coverage>) -> Builder {
    Database::builder()
        .page_size(plan.page_size)
        .cache_size_bytes(plan.cache_bytes)
        .cache_size_max_bytes(plan.cache_bytes * 2)
        .log_capacity_bytes(plan.log_bytes)
        .log_buffer_bytes(64 << 10)
        .snapshot_isolation(plan.snapshot_isolation)
        .version_limit_bytes(plan.version_limit)
        .clock(Arc::new(RunClock))
        .disk(Arc::new(SlowDisk::new(faulty, disk, coverage)))
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
) -> anyhow::Result<BTreeMap<Item, Version>> {
    sim::progress();
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    let db = opens::vary(settings(plan, disk, &faulty, coverage), plan, dice)
        .open("sim")
        .context("the open after the life")?;
    let rows = survivors::read_all(&db, plan)?;
    // Losers are rolled back and logs purged beside it.
    let report = db.verify(&VerifyOptions::default(), &mut |_| {})?;
    ensure!(report.is_clean(), "verify() after the life: {report:?}");
    coverage.count("life: verified");
    if dice.percent(70) {
        let again = survivors::read_all(&db, plan)?;
        ensure!(again == rows, "rows changed though no session ran");
        db.close().context("close after the life")?;
    }
    Ok(rows)
}

type Handle = thread::JoinHandle<anyhow::Result<()>>;

/// Starts the threads of a life; `full`: the disk is, for a while.
fn start(life: &Arc<Life>, dice: &mut Dice, full: bool) -> anyhow::Result<Vec<Handle>> {
    let mut threads = Vec::new();
    for number in 0..life.plan.sessions {
        let (session, of_thread) = (Session::new(Arc::clone(life), number, dice.any()), Arc::clone(life));
        let body = move || {
            let outcome = session.run();
            if let Err(error) = outcome {
                of_thread.keep(Err(error));
            }
            Ok(())
        };
        threads.push(thread::spawn(&format!("session-{number}"), body)?);
    }
    if !life.plan.limits.no_operator {
        let (of_thread, seed) = (Arc::clone(life), dice.any());
        let body = move || {
            let outcome = operator::run(&of_thread, seed);
            of_thread.keep(outcome);
            Ok(())
        };
        threads.push(thread::spawn("operator", body)?);
    }
    if full || (!life.plan.limits.no_keeper && dice.percent(50)) {
        let (of_thread, seed) = (Arc::clone(life), dice.any());
        let body = move || {
            let outcome = keeper::run(&of_thread, seed, full);
            of_thread.keep(outcome);
            Ok(())
        };
        threads.push(thread::spawn("keeper", body)?);
    }
    Ok(threads)
}
