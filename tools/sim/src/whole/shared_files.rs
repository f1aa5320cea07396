//! Damage of the files that all tables share, after the last life, and a salvage by files alone.
//!
//! Both work on copies of what the life leaves on its disk. Bits flip in one of these files, so
//! that checksums tell: the database shows its rows as they were, or gives an error. After a power
//! cut, and bits of the log that flipped, it may show rows that there were at some time: what was
//! written last is taken for a write that was cut off.
//!
//! An error says that something is damaged. A database that does not open is salvaged by files
//! alone: of one that was closed all rows are saved, of another rows that there were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, ensure};
use holdfast::{Database, Error, Finding, FlushAtCommit, VerifyOptions, VerifyReport};
use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::history::{Coverage, End, Item, Txn, Version};
use super::places;
use super::plan::{Dice, Plan};
use super::settings::settings;
use super::survivors::{self, rest, without};
use super::values::table;

/// What a life has left, and on which disk.
pub(super) struct Leavings<'a> {
    pub disk: &'a CrashDisk,
    pub plan: &'a Plan,
    pub txns: &'a [Txn],
    pub before: &'a BTreeMap<Item, Version>,
    pub closed: bool,
    /// Operations of the disk that have failed.
    pub faults: u64,
    pub coverage: &'a Arc<Coverage>,
}

/// A file that is to be damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Log,
    Undo,
    Catalog,
    Meta,
    Checkpoint,
    Images,
}

const VICTIMS: [Victim; 8] = [
    Victim::Log,
    Victim::Log,
    Victim::Undo,
    Victim::Undo,
    Victim::Catalog,
    Victim::Meta,
    Victim::Checkpoint,
    Victim::Images,
];

impl Victim {
    fn has(self, name: &str) -> bool {
        match self {
            Victim::Log => name.starts_with("wal."),
            Victim::Undo => name == "undo.hf",
            Victim::Catalog => name == "system.hf",
            Victim::Meta => name == "holdfast.meta",
            Victim::Checkpoint => name == "checkpoint",
            Victim::Images => name == "doublewrite",
        }
    }

    fn counts_as(self) -> &'static str {
        match self {
            Victim::Log => "damage: log",
            Victim::Undo => "damage: undo logs",
            Victim::Catalog => "damage: catalog",
            Victim::Meta => "damage: holdfast.meta",
            Victim::Checkpoint => "damage: checkpoint",
            Victim::Images => "damage: double-write images",
        }
    }
}

impl Leavings<'_> {
    /// Damages a copy of the disk and looks at it; salvages it, too.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check(&self, dice: &mut Dice) -> anyhow::Result<()> {
        let copy = self.disk.reboot(dice.any());
        let salvaged = copy.reboot(0);
        let copy = copy.reboot(0);
        let victim = dice.one_of(&VICTIMS);
        let opens = if flip(&copy, victim, dice)? {
            self.coverage.count(victim.counts_as());
            self.open(&copy, victim).context(victim.counts_as())?
        } else {
            true
        };
        if !opens || dice.percent(30) {
            // Before it, an open could have changed the files.
            self.salvage(&salvaged).context("a salvage by files alone")?;
        }
        Ok(())
    }

    /// Opens the damaged database, and compares what it shows; whether it opens.
    fn open(&self, disk: &CrashDisk, victim: Victim) -> anyhow::Result<bool> {
        let faulty = FaultDisk::new(Arc::new(disk.clone()));
        let db = match settings(self.plan, disk, &faulty, self.coverage).open("sim") {
            Ok(db) => db,
            Err(error) => {
                ensure!(is_clear(&error), "open: {error:?}");
                self.coverage.count("damage: open refused");
                return Ok(false);
            }
        };
        let report = db.verify(&VerifyOptions::default(), &mut |_| {}).context("verify")?;
        let (mut found, mut unread) = (BTreeMap::new(), BTreeSet::new());
        for no in 0..self.plan.tables {
            match survivors::read_table(&db, no) {
                Ok(rows) => found.extend(rows),
                Err(error) => {
                    let known = error.downcast_ref::<Error>();
                    ensure!(known.is_some_and(is_clear), "table {no}: {error:?}");
                    self.coverage.count("damage: table unreadable for a shared file");
                    unread.insert(no);
                }
            }
        }
        let is_cut = victim == Victim::Log && !self.closed;
        if is_cut {
            self.check_existed(&found)?;
            unread.extend(self.tables_found(&report));
        }
        let is_shared = |finding: &Finding| matches!(&*finding.table, "the catalog" | "the undo logs");
        if report.is_clean() || is_cut && !report.findings.iter().any(is_shared) {
            unread.extend(self.changing());
            let mut txns = rest(self.txns, &unread);
            if is_cut {
                txns.iter_mut().for_each(forget_that_it_lasts);
            }
            let (before, found) = (without(self.before, &unread), without(&found, &unread));
            survivors::check(&txns, &before, &found, self.closed)?;
        }
        match db.close() {
            Err(error) if !is_clear(&error) => Err(anyhow::Error::new(error).context("close")),
            _ => Ok(true),
        }
    }

    /// The tables that stay, and are named.
    fn tables_found(&self, report: &VerifyReport) -> BTreeSet<usize> {
        let is_named = |no: &usize| report.findings.iter().any(|finding| finding.table == format!("t{no}"));
        (0..self.plan.tables).filter(is_named).collect()
    }

    /// Each version was written by a transaction that there was.
    fn check_existed(&self, found: &BTreeMap<Item, Version>) -> anyhow::Result<()> {
        let written: BTreeSet<(Item, Version)> = self.txns.iter().flat_map(Txn::versions).collect();
        for (item, version) in found {
            let was_there = self.before.get(item) == Some(version);
            ensure!(
                was_there || written.contains(&(*item, *version)),
                "{item:?} is {version:?}, which no transaction has written"
            );
        }
        Ok(())
    }

    /// Saves the rows of the tables' files.
    fn salvage(&self, disk: &CrashDisk) -> anyhow::Result<()> {
        let nowhere = CrashDisk::new();
        let faulty = FaultDisk::new(Arc::new(nowhere.clone()));
        let target = settings(self.plan, &nowhere, &faulty, self.coverage).create("salvage")?;
        for no in 0..self.plan.tables {
            target.create_table(&table(&format!("t{no}")))?;
        }
        let reports = target.salvage_files_on(Arc::new(disk.clone()))?;
        self.coverage.count("salvage: by files alone");
        // What the catalog has may still be in the log.
        for no in (0..self.plan.tables).filter(|_| self.closed) {
            let name = format!("t{no}");
            ensure!(reports.iter().any(|(saved, _)| *saved == name), "table {name} is not saved: {reports:?}");
        }
        let report = target.verify(&VerifyOptions::default(), &mut |_| {})?;
        ensure!(report.is_clean(), "what was salvaged: {report:?}");
        if self.is_whole() {
            self.coverage.count("salvage: by files alone, all rows");
            self.compare(&target)?;
        }
        target.close().context("close")
    }

    /// True if nothing of an unfinished transaction is in the files.
    fn is_whole(&self) -> bool {
        let is_open = |txn: &Txn| matches!(txn.end, End::Prepared(_) | End::InDoubt | End::Unknown);
        self.closed && self.faults == 0 && !self.txns.iter().any(is_open)
    }

    /// The salvaged rows are those that the history says.
    fn compare(&self, target: &Database) -> anyhow::Result<()> {
        let mut found = BTreeMap::new();
        for no in 0..self.plan.tables {
            found.extend(survivors::read_table(target, no)?);
        }
        let changing = self.changing();
        survivors::check(&rest(self.txns, &changing), &without(self.before, &changing), &found, true)
    }

    /// The numbers of the tables whose definitions change: which of them there are is not compared.
    fn changing(&self) -> BTreeSet<usize> {
        let written = self.txns.iter().flat_map(|txn| txn.writes.iter().map(|write| write.item.table));
        written.chain(self.before.keys().map(|item| item.table)).filter(|table| places::is_changing(*table)).collect()
    }
}

/// What was committed last may be lost with the end of the log.
fn forget_that_it_lasts(txn: &mut Txn) {
    if matches!(txn.end, End::Committed(_)) {
        txn.end = End::Committed(FlushAtCommit::Lazy);
    }
}

/// True if an error says that something is damaged.
fn is_clear(error: &Error) -> bool {
    let says = matches!(error, Error::Incompatible(_) | Error::TableNotFound(_) | Error::NotADatabase(_));
    says || error.is_damage()
}

/// Flips bits of the victim where it is not empty; whether it did.
fn flip(disk: &CrashDisk, victim: Victim, dice: &mut Dice) -> anyhow::Result<bool> {
    let names: Vec<String> = disk.list()?.into_iter().filter(|name| victim.has(name)).collect();
    if names.is_empty() {
        return Ok(false);
    }
    let name = &names[dice.below(names.len() as u64) as usize];
    let len = disk.open(name, OpenOptions::new(FileKind::Meta).read_only(true))?.len()?;
    let mut left = 1 + dice.below(3);
    for _ in 0..200 {
        const PIECE: u64 = 256;
        let at = dice.below((len / PIECE).max(1)) * PIECE;
        let bit = dice.any();
        let mut done = false;
        disk.damage(name, at, PIECE.min(len - at) as usize, |bytes| {
            done = bytes.iter().any(|byte| *byte != 0);
            if done {
                let place = bit as usize % bytes.len();
                bytes[place] ^= 1 << (bit >> 40 & 7);
            }
        })?;
        left -= u64::from(done);
        if left == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
