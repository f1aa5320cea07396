//! The tables that a life has damaged, and the damage of their files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast::{Error, VerifyReport};
use holdfast_base::page::{self, HEADER_LEN, PageHeader, PageType};
use holdfast_base::{PageId, PageNo, SpaceId};
use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_testkit::CrashDisk;

use super::flow::Stop;
use super::history::Txn;
use super::plan::{Damage, Dice, Plan};
use super::survivors;

/// The tables that a life has damaged, and their files.
#[derive(Default)]
pub(super) struct Struck(Mutex<BTreeMap<usize, Target>>);

/// The file of a table.
#[derive(Clone)]
pub(super) struct Target {
    pub file: String,
    pub space: SpaceId,
}

impl Struck {
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Target>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables by number.
    pub fn tables(&self) -> BTreeSet<usize> {
        self.lock().keys().copied().collect()
    }

    /// Damages more pages of these tables, now that the life is over.
    ///
    /// # Errors
    /// None but those of the simulated disk.
    pub fn strike_again(&self, disk: &CrashDisk, plan: &Plan, dice: &mut Dice) -> anyhow::Result<()> {
        let targets: Vec<Target> = self.lock().values().cloned().collect();
        for target in targets {
            let most = dice.one_of(&[1, 4, 10]);
            for _ in 0..dice.below(most) {
                hit(disk, plan, &target, dice)?;
            }
        }
        Ok(())
    }

    fn contains(&self, no: usize) -> bool {
        self.tables().contains(&no)
    }

    /// What a statement on table `no` that ended like this means.
    pub fn judge(&self, plan: &Plan, no: usize, result: Result<(), Stop>) -> Result<(), Stop> {
        let Err(stop) = result else { return Ok(()) };
        let is_damage = matches!(&stop, Stop::Error(error) if error.is_damage());
        let excused = is_damage || plan.damage == Damage::Forged && !matches!(&stop, Stop::Error(e) if is_final(e));
        match stop {
            _ if excused && self.contains(no) => Err(Stop::Damaged),
            Stop::Error(error) if is_damage => {
                Err(Stop::Wrong(anyhow::Error::new(error).context(format!("table {no} was not damaged"))))
            }
            stop => Err(stop),
        }
    }

    /// True if the table of this name is damaged, and an answer about it may be this error.
    pub fn excuses(&self, plan: &Plan, name: &str, error: &anyhow::Error) -> bool {
        let is_damage = error.downcast_ref::<Error>().is_some_and(Error::is_damage);
        (is_damage || plan.damage == Damage::Forged) && self.is_named(name)
    }

    /// True if everything in a report is about damaged tables.
    pub fn explains(&self, report: &VerifyReport) -> bool {
        report.findings.iter().all(|finding| self.is_named(&finding.table))
    }

    fn is_named(&self, name: &str) -> bool {
        self.tables().iter().any(|no| name == format!("t{no}"))
    }

    /// The history of all other tables.
    pub fn rest(&self, txns: &[Txn]) -> Vec<Txn> {
        survivors::rest(txns, &self.tables())
    }
}

fn is_final(error: &Error) -> bool {
    super::disk::ends_life(error)
}

/// Damages a page that is in use, if one is found; whether it was.
pub(super) fn hit(disk: &CrashDisk, plan: &Plan, target: &Target, dice: &mut Dice) -> anyhow::Result<bool> {
    let (size, is_forged) = (plan.page_size as u64, plan.damage == Damage::Forged);
    let file = disk.open(&target.file, OpenOptions::new(FileKind::Data).read_only(true))?;
    let pages = (file.len()? / size).max(1);
    for _ in 0..20 {
        let no = dice.below(pages);
        let id = PageId::new(target.space, PageNo(no as u32));
        let bits: Vec<u64> = (0..=dice.below(3)).map(|_| dice.any()).collect();
        // Most pages are parts of large values.
        let any_page = dice.percent(40);
        let mut done = false;
        let change = |bytes: &mut [u8]| {
            let is_node = PageHeader::decode(bytes).is_some_and(|header| header.page_type == PageType::Tree);
            if page::is_blank(bytes) || page::check(bytes, id).is_err() || !(is_node || any_page) {
                return;
            }
            let from = if is_forged { HEADER_LEN } else { 0 };
            for bit in &bits {
                let at = from + *bit as usize % (bytes.len() - from);
                bytes[at] ^= 1 << (bit >> 40 & 7);
            }
            if is_forged {
                page::seal(bytes);
            }
            done = true;
        };
        disk.damage(&target.file, no * size, size as usize, change)?;
        if done {
            if dice.percent(60) {
                lose_images(disk, size, id)?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes the images of a page out of the double-write file: otherwise the next open repairs it.
fn lose_images(disk: &CrashDisk, size: u64, id: PageId) -> anyhow::Result<()> {
    const IMAGES: &str = "doublewrite";
    if !disk.exists(IMAGES)? {
        return Ok(());
    }
    let len = disk.open(IMAGES, OpenOptions::new(FileKind::Data).read_only(true))?.len()?;
    for at in (0..len / size).map(|slot| slot * size) {
        disk.damage(IMAGES, at, size as usize, |bytes| {
            if PageHeader::decode(bytes).is_some_and(|header| header.id == id) {
                bytes.fill(0);
            }
        })?;
    }
    Ok(())
}
