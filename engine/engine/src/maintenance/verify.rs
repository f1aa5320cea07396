//! Checking a whole database, beside everything else that uses it.
//!
//! For each table, and for the engine's own spaces:
//! 1. What is dirty is written, then every page of the file that is allocated is read from disk and
//!    its checksum and address compared. A free page may hold anything, and may be allocated after
//!    it was read: what is wrong counts only if it is still there when the page was written.
//! 2. The undo logs, the version tree and every tree are walked with the key ranges that parents
//!    give their children, large values included; each page may be reached once, and has to be
//!    allocated. The version header of each entry has to be one that a transaction can have
//!    written. A page to which nothing leads must not lead to the root of its index.
//! 3. At one snapshot, every index has to have the entries that the rows give, if the program has
//!    told how they are made (by creating the table, or opening it for writing): their sums are
//!    compared, and entry by entry where those differ. If it has not, every entry has to lead to a
//!    row; whether rows lack entries cannot be told, and the report names the index. The sum of the
//!    keys of all rows says it of an index that has one entry for each row. Only where the sums
//!    differ is the row of each entry looked for: in the order of the index, so that a look reads a
//!    page of a table that the cache does not hold. A table that is being filled is not compared:
//!    its rows and entries come one after the other. A snapshot that is given up, to keep old
//!    versions to their limit, is followed by another one, and then the report names the table.
//!
//! Others allocate and free pages meanwhile, so step 2 does not judge a page that was allocated or
//! freed during its look, and what it finds is believed only if it is found again, and again.
//!
//! A page that the device does not return, or does not take, is reported like one that is damaged:
//! of its table, and the check goes on with the others. A table whose file the system refuses to
//! this user is reported as that.

use std::sync::Arc;

use holdfast_base::HashSet;
use holdfast_base::PageNo;
use holdfast_io::AlignedBuf;
use holdfast_metrics::local;
use holdfast_pool::{Access, AccessKind, Space};
use holdfast_tree::{PageSet, Severity, SpaceFile};
use holdfast_txn::{TableIndex, TxnSystem};

use crate::instance::Instance;
use crate::maintenance::pieces::{is_loss, read_piece};
use crate::maintenance::report::{Finding, VerifyOptions, VerifyProgress, VerifyReport};
use crate::maintenance::sums;
use crate::rows::definition::IndexSpec;
use crate::rows::entries;
use crate::schema::handle::TableHandle;
use crate::session::transaction::Transaction;
use crate::{Error, Result};

/// Walks over all that leads from page to page in a space, and counts rows and entries.
pub(crate) type Walk<'a> =
    dyn FnMut(&Access<'_>, &mut PageSet, &mut dyn FnMut(holdfast_tree::PageFinding)) -> Result<(u64, u64)> + 'a;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;
/// Reads of a page that does not check out: a write may be under way.
const READ_ATTEMPTS: u32 = 16;
/// Times that a difference between trees and allocation, or a wrong page, has to be seen.
const LOOKS: usize = 3;
/// Snapshots at which a table's entries are compared with its rows, if each is given up on the way.
const SNAPSHOTS: usize = 3;

pub(crate) fn verify(
    instance: &Arc<Instance>,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(&VerifyProgress),
) -> Result<VerifyReport> {
    instance.check()?;
    if options.max_findings == 0 {
        return Err(Error::invalid("max_findings = 0 would find nothing; choose at least 1"));
    }
    if instance.read_only {
        // Nothing else changes then what is counted. A loser that cannot be rolled back is found
        // below.
        let _ = instance.txns.roll_back_losers();
        let all = instance.schema().tables().flat_map(|table| table.record.index_ids()).collect::<Vec<_>>();
        let _ = instance.txns.wait_for_rollbacks(&all, &instance.wait(instance.settings.lock_wait_timeout));
    }
    let schema = instance.schema();
    let mut tables = Vec::new();
    if options.tables.is_empty() {
        tables.extend(schema.tables().cloned());
    }
    for (at, name) in options.tables.iter().enumerate() {
        if options.tables[..at].contains(name) {
            continue;
        }
        tables.push(Arc::clone(schema.get(name).ok_or_else(|| Error::TableNotFound(name.clone()))?));
    }
    let spaces = tables.iter().filter_map(|t| t.store.space().ok());
    let pages = |space: &Arc<SpaceFile>| space.space().file().len().unwrap_or(0) / instance.meta.page_size as u64;
    let pages_total = spaces.map(pages).sum();
    let at = VerifyProgress { pages_total, ..VerifyProgress::default() };
    let mut run = Run { instance, options, progress, at, report: VerifyReport::default() };
    if options.tables.is_empty() {
        run.at.pages_total += pages(&instance.system) + pages(&instance.undo);
        run.foreign_files()?;
        run.pages("the catalog", &instance.system)?;
        run.pages("the undo logs", &instance.undo)?;
        let catalog = [Arc::clone(&instance.catalog.index)];
        let mut walk = check_trees(&instance.txns, &catalog);
        run.structure("the catalog", &instance.system, &mut |access, reached, sink| {
            walk(access, reached, sink).map(|_| (0, 0))
        })?;
        run.structure("the undo logs", &instance.undo, &mut |access, reached, sink| {
            instance.txns.verify(access, reached, sink).map(|_| (0, 0))
        })?;
    }
    for table in &tables {
        run.table(table)?;
    }
    Ok(run.report)
}

struct Run<'a> {
    instance: &'a Arc<Instance>,
    options: &'a VerifyOptions,
    progress: &'a mut dyn FnMut(&VerifyProgress),
    at: VerifyProgress,
    report: VerifyReport,
}

impl Run<'_> {
    /// Reports a table that cannot be read.
    fn lost(&mut self, table: &str, error: &Error) {
        if error.is_refusal() {
            self.report.refused.push(Finding { table: table.into(), what: error.to_string() });
        } else {
            self.find(table, error);
        }
    }

    fn find(&mut self, table: &str, what: impl std::fmt::Display) {
        let finding = Finding { table: table.into(), what: what.to_string() };
        if !self.report.findings.contains(&finding) {
            self.report.findings.push(finding);
        }
    }

    fn too_many(&self, before: usize) -> bool {
        self.report.findings.len() >= before.saturating_add(self.options.max_findings)
    }

    /// Files named like those of tables that are none's, and files that the log has passed over.
    fn foreign_files(&mut self) -> Result<()> {
        for name in &self.instance.foreign_files {
            if self.instance.disk.exists(name)? {
                self.find(name, "no table has this file, and it is not known to be a leftover; move it away");
            }
        }
        for (name, error) in &self.instance.unread_log {
            if self.instance.disk.exists(name)? {
                self.lost(name, error);
            }
        }
        Ok(())
    }

    /// A table as it is defined when the check ends: pages of indexes that it loses meanwhile
    /// become free, and pages of other indexes, while the check reads them. Of one that is dropped
    /// meanwhile nothing is reported: purge and rollback pass over what its transactions did.
    fn table(&mut self, table: &Arc<TableHandle>) -> Result<()> {
        let mut table = Arc::clone(table);
        loop {
            let before = self.report.clone();
            let checked = self.definition(&table);
            if table.store.check_current(&table.name).is_ok() && !table.store.file.is_dropped() {
                return checked;
            }
            self.report = before;
            let now = self.instance.schema().tables().find(|now| now.record.table_id == table.record.table_id).cloned();
            // If it is not there any more, there is nothing to check.
            let Some(now) = now else { return Ok(()) };
            table = now;
        }
    }

    /// A table by one of its definitions.
    fn definition(&mut self, table: &Arc<TableHandle>) -> Result<()> {
        let before = self.report.findings.len();
        let store = &table.store;
        let space = match store.space() {
            Ok(space) => Arc::clone(space),
            Err(error) => {
                self.lost(&table.name, &error);
                return Ok(());
            }
        };
        match self.pages(&table.name, &space) {
            Err(error) if is_loss(&error) => {
                self.lost(&table.name, &error);
                return Ok(());
            }
            read => read?,
        }
        self.structure(&table.name, &space, &mut *check_trees(&self.instance.txns, store.all_indexes()))?;
        if let Some(error) = space.space().damaged()
            && self.report.findings.len() == before
        {
            // A user met damage that is not there any more; the table cannot be used before the
            // next open.
            self.find(&table.name, error);
        }
        // With damaged pages the comparison would only repeat that.
        if self.options.entries && self.report.findings.len() == before {
            self.unfilled_entries(table)?;
        }
        Ok(())
    }

    /// Step 3, unless a load fills the table.
    fn unfilled_entries(&mut self, table: &TableHandle) -> Result<()> {
        let gate = &table.store.file.gate;
        let before = (self.report.findings.len(), self.report.half_checked.len());
        for _ in 0..SNAPSHOTS {
            self.report.findings.truncate(before.0);
            let Some(filled) = gate.unfilled() else { return Ok(()) };
            let compared = self.entries(table);
            if gate.unfilled() != Some(filled) {
                self.report.findings.truncate(before.0);
                self.report.half_checked.truncate(before.1);
                if matches!(compared, Err(Error::SnapshotTooOld)) {
                    return Ok(());
                }
            }
            match compared {
                Err(Error::SnapshotTooOld) => self.report.half_checked.truncate(before.1),
                // A row that cannot be read, is none, or is none of the table's types.
                Err(error) if is_loss(&error) || matches!(error, Error::InvalidArgument(_)) => {
                    self.find(&table.name, error);
                    return Ok(());
                }
                compared => return compared,
            }
        }
        let what = "its index entries were not compared with its rows: changes of other transactions kept so many \
                    old versions that each of several snapshots was given up";
        self.report.not_compared.push(Finding { table: table.name.clone(), what: what.into() });
        Ok(())
    }

    /// Step 1: every page of the file.
    fn pages(&mut self, name: &str, space: &SpaceFile) -> Result<()> {
        let before = self.report.findings.len();
        if !self.is_written(name, space)? {
            return Ok(());
        }
        let file = space.space().file();
        let page_size = self.instance.meta.page_size;
        let mut buf = AlignedBuf::zeroed(PIECE);
        let mut at = 0u64;
        self.at.table = name.into();
        loop {
            self.instance.txns.check_session()?;
            let left = file.len()?.saturating_sub(at) / page_size as u64 * page_size as u64;
            let n = left.min(PIECE as u64) as usize;
            if n == 0 || self.too_many(before) {
                return Ok(());
            }
            buf.resize(n);
            let is_read = match read_piece(file.as_ref(), at, &mut buf) {
                Ok(false) => continue,
                // Each page is read by itself then.
                Err(error) if is_loss(&error) => false,
                read => read?,
            };
            let mut suspects = Vec::new();
            for (i, bytes) in buf.chunks_exact_mut(page_size).enumerate() {
                let no = PageNo((at / page_size as u64) as u32 + i as u32);
                if !is_read || self.recheck(space.space(), no, bytes)?.is_some() {
                    suspects.push(no);
                }
                self.report.pages += 1;
                self.at.pages_done += 1;
            }
            self.judge(name, space, suspects)?;
            at += n as u64;
            self.at.pages_total = self.at.pages_total.max(self.at.pages_done);
            (self.progress)(&self.at);
        }
    }

    /// Writes what is dirty in a space. False if its file cannot be written, which is reported:
    /// then the file tells nothing of the pages.
    fn is_written(&mut self, name: &str, space: &SpaceFile) -> Result<bool> {
        match self.instance.pool().flush_space(space.space()) {
            Err(error @ Error::Io { .. }) if space.space().has_failed_write() && self.instance.check().is_ok() => {
                self.find(name, error);
                Ok(false)
            }
            written => written.map(|()| true),
        }
    }

    /// Reports those of the pages, which did not check out, that are allocated and do not check out
    /// after they were written either, at each of several looks: a page may be allocated at one
    /// look and free at the next, and then nothing writes it.
    fn judge(&mut self, name: &str, space: &SpaceFile, mut suspects: Vec<PageNo>) -> Result<()> {
        let pool = self.instance.pool();
        let is_allocated = |no: PageNo| space.is_allocated(no, &pool.access(AccessKind::Maintenance)).unwrap_or(true);
        let mut bytes = AlignedBuf::zeroed(self.instance.meta.page_size);
        let mut found = Vec::new();
        for _ in 0..LOOKS {
            suspects.retain(|no| is_allocated(*no));
            if suspects.is_empty() {
                return Ok(());
            }
            if !self.is_written(name, space)? {
                return Ok(());
            }
            found.clear();
            for no in std::mem::take(&mut suspects) {
                let at = u64::from(no.0) * bytes.len() as u64;
                let wrong = match read_piece(space.space().file().as_ref(), at, &mut bytes) {
                    Ok(false) => None,
                    Err(error) if is_loss(&error) => Some(error),
                    read => read.and_then(|_| self.recheck(space.space(), no, &mut bytes))?,
                };
                if let Some(error) = wrong {
                    suspects.push(no);
                    found.push((no, error));
                }
            }
        }
        found.into_iter().filter(|(no, _)| is_allocated(*no)).for_each(|(_, error)| self.find(name, error));
        Ok(())
    }

    /// What is wrong with page `no`, whose bytes were read into `bytes`; reads it again before it
    /// says so.
    fn recheck(&self, space: &Space, no: PageNo, bytes: &mut [u8]) -> Result<Option<Error>> {
        let file = space.file();
        let mut wrong = None;
        for _ in 0..READ_ATTEMPTS {
            match self.instance.pool().check_page(space, bytes, no) {
                Ok(_) => return Ok(None),
                Err(error) => wrong = Some(error),
            }
            holdfast_base::thread::yield_now();
            if let Err(error) = file.read_at(u64::from(no.0) * bytes.len() as u64, bytes) {
                // It was cut meanwhile.
                let is_cut = file.len()? < (u64::from(no.0) + 1) * bytes.len() as u64;
                return if !is_cut && !is_loss(&error) { Err(error) } else { Ok((!is_cut).then_some(error)) };
            }
        }
        Ok(wrong)
    }

    /// Step 2: what leads from page to page, and the allocation.
    fn structure(&mut self, name: &str, space: &SpaceFile, walk: &mut Walk<'_>) -> Result<()> {
        let mut look = self.agreed_look(space, walk);
        for _ in 1..LOOKS {
            if look.as_ref().is_err_and(is_loss) {
                look = self.agreed_look(space, walk);
            }
        }
        let look = match look {
            Err(error) if is_loss(&error) => {
                self.find(name, error);
                return Ok(());
            }
            look => look?,
        };
        self.report.rows += look.rows;
        self.report.entries += look.entries;
        self.report.unreached_pages += look.unreached.len();
        let mut sorted: Vec<String> = look.found.into_iter().collect();
        sorted.sort();
        sorted.into_iter().take(self.options.max_findings).for_each(|what| self.find(name, what));
        Ok(())
    }

    /// What each of several looks shows.
    fn agreed_look(&self, space: &SpaceFile, walk: &mut Walk<'_>) -> Result<Look> {
        let mut look = self.look(space, walk)?;
        for _ in 1..LOOKS {
            if look.found.is_empty() && look.unreached.is_empty() {
                break;
            }
            look = self.look(space, walk)?.agreeing_with(&look);
        }
        Ok(look)
    }

    fn look(&self, space: &SpaceFile, walk: &mut Walk<'_>) -> Result<Look> {
        let access = self.instance.pool().access(AccessKind::Maintenance);
        let watch = space.watch();
        let (mut reached, mut look, mut found) = (PageSet::new(), Look::default(), Vec::new());
        (look.rows, look.entries) = walk(&access, &mut reached, &mut |finding| found.push(finding))?;
        space.verify(&reached, &access, &mut |finding| match finding.severity {
            Severity::Leak => {
                look.unreached.insert(finding.page.no);
            }
            _ => found.push(finding),
        })?;
        let mut find = |finding| found.push(finding);
        self.instance.txns.verify_unreached(space, look.unreached.iter(), &access, &mut find)?;
        let changed = watch.changed();
        look.unreached.remove_all(&changed);
        found.retain(|finding| finding.page.space != space.id() || !changed.contains(finding.page.no));
        look.found.extend(found.iter().map(ToString::to_string));
        Ok(look)
    }

    /// Step 3: entries against rows, at one snapshot.
    fn entries(&mut self, table: &TableHandle) -> Result<()> {
        let transaction = Transaction::begin_read(&local(Arc::clone(self.instance)))?;
        let specs = table.store.specs();
        if specs.is_empty() {
            let names = table.record.indexes.iter().map(|index| (table.name.clone(), index.name.clone()));
            self.report.half_checked.extend(names);
            let unpaired = sums::unpaired(&transaction, table)?;
            return self.each_entry(&transaction, table, specs, &unpaired);
        }
        if sums::differ(&transaction, table, specs)? {
            let all: Vec<usize> = (0..table.record.indexes.len()).collect();
            self.each_entry(&transaction, table, specs, &all)?;
            self.each_row(&transaction, table, specs)?;
        }
        Ok(())
    }

    /// The row of every entry of these indexes, and whether it gives the entry, as far as that is
    /// known.
    fn each_entry(
        &mut self,
        transaction: &Transaction,
        table: &TableHandle,
        specs: &[Arc<IndexSpec>],
        indexes: &[usize],
    ) -> Result<()> {
        let before = self.report.findings.len();
        let (mut key, mut value, mut row) = (Vec::new(), Vec::new(), Vec::new());
        for &no in indexes {
            let index = &table.record.indexes[no];
            let mut cursor = transaction.index_cursor(table, no)?;
            while cursor.next(&mut key, &mut value)? && !self.too_many(before) {
                self.instance.txns.check_session()?;
                let Some((index_key, row_key)) = entries::split_entry(&key, &value) else {
                    self.find(&table.name, format!("index `{}` has an entry without a row's key", index.name));
                    continue;
                };
                if !transaction.get(table, row_key, &mut row)? {
                    let what =
                        format!("index `{}` has an entry for the row {}, which is not there", index.name, hex(row_key));
                    self.find(&table.name, what);
                } else if let Some(spec) = specs.get(no)
                    && !spec.keys(row_key, &row)?.iter().any(|k| k == index_key)
                {
                    let what =
                        format!("index `{}` has an entry that the row {} does not give", index.name, hex(row_key));
                    self.find(&table.name, what);
                }
            }
        }
        Ok(())
    }

    /// The entries of every row.
    fn each_row(&mut self, transaction: &Transaction, table: &TableHandle, specs: &[Arc<IndexSpec>]) -> Result<()> {
        let before = self.report.findings.len();
        let (mut key, mut row) = (Vec::new(), Vec::new());
        let mut cursor = transaction.row_cursor(table)?;
        while cursor.next(&mut key, &mut row)? && !self.too_many(before) {
            self.instance.txns.check_session()?;
            for (no, spec) in specs.iter().enumerate() {
                for index_key in spec.keys(&key, &row)? {
                    if !transaction.has_entry(table, no, &index_key, &key)? {
                        self.find(
                            &table.name,
                            format!("index `{}` lacks an entry of the row {}", spec.name, hex(&key)),
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

/// What one look at a space has shown.
#[derive(Default)]
struct Look {
    rows: u64,
    entries: u64,
    found: HashSet<String>,
    unreached: PageSet,
}

impl Look {
    /// Of what is wrong, only what an earlier look has shown too.
    fn agreeing_with(mut self, earlier: &Look) -> Look {
        self.found.retain(|what| earlier.found.contains(what));
        self.unreached.keep_common(&earlier.unreached);
        self
    }
}

/// The walk over the trees of a table, the one of the rows first, that also judges the version
/// headers of the entries.
pub(crate) fn check_trees<'a>(txns: &'a TxnSystem, indexes: &'a [Arc<TableIndex>]) -> Box<Walk<'a>> {
    Box::new(move |access, reached, sink| {
        let mut counts = (0, 0);
        for (i, index) in indexes.iter().enumerate() {
            let counted = txns.verify_index(index, access, reached, sink)?;
            if i == 0 { counts.0 += counted } else { counts.1 += counted }
        }
        Ok(counts)
    })
}

/// The first bytes of a key, for messages.
fn hex(key: &[u8]) -> String {
    let shown: String = key.iter().take(24).map(|b| format!("{b:02x}")).collect();
    if key.len() > 24 { format!("{shown}...") } else { shown }
}

#[cfg(test)]
mod tests {
    use holdfast_wal::SpaceClass;

    use super::*;
    use crate::Database;
    use crate::raw::{Lifetime, RawDatabase};

    /// Checks the structure of the catalog with this walk.
    fn structure(db: &RawDatabase, walk: &mut Walk<'_>) -> VerifyReport {
        let instance = &db.database().instance;
        let (options, mut progress) = (VerifyOptions::new(), |_: &VerifyProgress| {});
        let (at, report) = (VerifyProgress::default(), VerifyReport::default());
        let mut run = Run { instance, options: &options, progress: &mut progress, at, report };
        run.structure("the catalog", &instance.system, walk).unwrap();
        run.report
    }

    /// Checks the structure of the catalog, where the first `blind` walks come too early to see
    /// what is there.
    fn unreached_pages(db: &RawDatabase, blind: usize) -> (usize, u64) {
        let instance = &db.database().instance;
        let catalog = [Arc::clone(&instance.catalog.index)];
        let mut walks = 0;
        let mut walk =
            |access: &Access<'_>, reached: &mut PageSet, sink: &mut dyn FnMut(holdfast_tree::PageFinding)| {
                walks += 1;
                if walks <= blind { Ok((0, 0)) } else { check_trees(&instance.txns, &catalog)(access, reached, sink) }
            };
        let pages = structure(db, &mut walk).unreached_pages;
        (walks, pages)
    }

    /// With a finding in one table the check of each table behind it broke off before the first
    /// page, without a word: the sum was one less than the findings that there were.
    #[test]
    fn the_largest_number_of_findings_is_no_limit() {
        let db = Database::in_memory().unwrap();
        let (mut options, mut progress) = (VerifyOptions::new(), |_: &VerifyProgress| {});
        options.max_findings = usize::MAX;
        let (at, report) = (VerifyProgress::default(), VerifyReport::default());
        let mut run = Run { instance: &db.instance, options: &options, progress: &mut progress, at, report };
        run.find("t", "damage");
        assert!(!run.too_many(run.report.findings.len()));
    }

    #[test]
    fn a_page_that_is_freed_at_every_look_is_not_damaged() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let instance = &db.database().instance;
        let (store, system) = (&instance.store, &instance.system);
        let catalog = [Arc::clone(&instance.catalog.index)];
        let mut walks = 0;
        let mut walk =
            |access: &Access<'_>, reached: &mut PageSet, sink: &mut dyn FnMut(holdfast_tree::PageFinding)| {
                walks += 1;
                // A page that another thread allocates, and frees after the walk was there.
                let frames = system.reserve_alloc(PageNo(0), 1, access)?;
                let mut mtr = store.begin(store.reserve(256, SpaceClass::User)?, access);
                let no = system.alloc_page(&mut mtr, PageNo(0))?;
                mtr.commit()?;
                drop(frames);
                assert!(reached.insert(no));
                system.free_pages(&[no], SpaceClass::User, access)?;
                check_trees(&instance.txns, &catalog)(access, reached, sink)
            };
        let report = structure(&db, &mut walk);
        assert!(report.is_clean(), "{:?}", report.findings);
        assert!(walks > 0);
    }

    #[test]
    fn pages_are_lost_if_every_look_says_so() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        assert_eq!(unreached_pages(&db, 0), (1, 0));
        assert_eq!(unreached_pages(&db, 1), (2, 0));
        assert_eq!(unreached_pages(&db, 2), (3, 0));
        let (walks, pages) = unreached_pages(&db, LOOKS);
        assert_eq!(walks, LOOKS);
        assert!(pages > 0);
    }
}
