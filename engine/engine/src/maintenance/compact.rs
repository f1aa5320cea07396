//! Making files smaller while they are in use.
//!
//! First what a crash lost is freed: pages of large values that nothing leads to, since the crash
//! came between writing them and writing the row, or between forgetting them and freeing them. Only
//! the newest rows can be asked, so that is done while no old version is kept, and nothing has
//! written to the table, loaded it or built an index of it from before the walk over the trees
//! until after the walk over the bitmaps, since pages are allocated before anything leads to them;
//! otherwise it is left for another time. What nothing leads to then, nothing can lead to later.
//!
//! Table by table: the last node of the file is moved into the first free page, by one
//! mini-transaction each, until the last page cannot be moved (a root, or a part of a large value)
//! or nothing in front of it is free. Then the page count is lowered, and after a checkpoint, when
//! no log record can ask for the pages any more, the file is cut.
//!
//! Others change definitions meanwhile. Only while a node is moved they wait: of an index that the
//! table loses, the pages are freed by the session that drops it. An index that comes or goes while
//! the trees are walked is a build, and nothing is freed then.
//!
//! A table that is damaged, or whose damage shows on the way, is left as it is then and named in
//! the report with the page, as is one that the device does not return; the others go on. So is a
//! table that the walk over the trees finds unsound: a node that is moved by what a wrong parent or
//! a wrong entry says would be harder to save.

use std::sync::Arc;

use holdfast_base::{Lsn, PageNo, page};
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::{PageFinding, PageSet, SpaceFile};
use holdfast_wal::SpaceClass;

use crate::instance::Instance;
use crate::maintenance::pieces::is_loss;
use crate::maintenance::report::{Finding, OnProgress, VerifyProgress};
use crate::maintenance::verify::check_trees;
use crate::schema::handle::TableHandle;
use crate::{Error, Result};

/// What a compaction did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompactReport {
    /// Bytes of the tables' files before.
    pub bytes_before: u64,
    /// Bytes of the tables' files after.
    pub bytes_after: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Pages given back that a crash had lost.
    pub pages_reclaimed: u64,
    /// Tables that were not compacted, or not to the end, because they are damaged or cannot be
    /// used, and why.
    pub left_out: Vec<Finding>,
}

pub(crate) fn compact(instance: &Instance, progress: &OnProgress<'_>) -> Result<CompactReport> {
    instance.check_writable()?;
    // Another one would move nodes between the look at a tree and that at the allocation.
    let _compacting = instance.compacting.lock();
    // What cannot be purged keeps its space.
    if instance.purge_now().is_err() {
        instance.check()?;
    }
    let schema = instance.schema();
    let mut report = CompactReport::default();
    // Held to the end: the file of a table that nothing holds is closed when it is dropped.
    let mut shrunk: Vec<(Arc<TableHandle>, Lsn)> = Vec::new();
    // Those whose files count: others may have taken the places of tables since it began.
    let mut looked_at: Vec<Arc<TableHandle>> = Vec::new();
    let pages = |table: &TableHandle| {
        let bytes = table.store.space().and_then(|space| space.space().file().len()).unwrap_or(0);
        bytes / instance.meta.page_size as u64
    };
    // Asked for once: others may make the files longer meanwhile.
    let sizes: Vec<u64> = schema.tables().map(|table| pages(table)).collect();
    let mut at = VerifyProgress { pages_total: sizes.iter().sum(), ..VerifyProgress::default() };
    let mut behind = 0;
    for (listed, size) in schema.tables().zip(sizes) {
        (at.table, at.pages_done) = (listed.name.clone(), behind);
        behind += size;
        progress(&at);
        let now = instance.schema();
        let Some(table) = now.get(&listed.name) else { continue };
        looked_at.push(Arc::clone(table));
        // Each page that is moved is one less to look at, from the end of the file.
        let mut moved = || {
            at.pages_done = behind.min(at.pages_done + 1);
            progress(&at);
        };
        match compact_table(instance, table, &mut report, &mut moved) {
            Ok(Some(lsn)) => shrunk.push((Arc::clone(table), lsn)),
            Ok(None) => {}
            Err(error) if !is_loss(&error) && !matches!(error, Error::Incompatible(_)) => return Err(error),
            Err(error) => report.left_out.push(Finding { table: table.name.clone(), what: error.to_string() }),
        }
    }
    cut(instance, &shrunk, &mut report)?;
    for table in looked_at {
        if let Ok(space) = table.store.space() {
            // Of one that is left out it may not be known.
            report.bytes_after += space.space().file().len().unwrap_or(0);
        }
    }
    Ok(report)
}

/// Makes files shorter, each once the checkpoint has passed the log position beside its table.
fn cut(instance: &Instance, shrunk: &[(Arc<TableHandle>, Lsn)], report: &mut CompactReport) -> Result<()> {
    if shrunk.is_empty() {
        return Ok(());
    }
    instance.checkpoint()?;
    let checkpoint = instance.wal().checkpoint_lsn();
    let access = instance.pool().access(AccessKind::Maintenance);
    for (table, lsn) in shrunk.iter().filter(|(table, _)| !table.store.file.is_dropped()) {
        match table.store.space().and_then(|space| space.truncate_file(*lsn, checkpoint, &access)) {
            Ok(_) => {}
            Err(error) if is_loss(&error) => {
                report.left_out.push(Finding { table: table.name.clone(), what: error.to_string() });
            }
            // It is being dropped, unless the database is closed.
            Err(Error::Closed(_)) => instance.check()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Compacts one table. If its file can be cut: the log position that the checkpoint must have
/// passed.
fn compact_table(
    instance: &Instance,
    table: &TableHandle,
    report: &mut CompactReport,
    moved: &mut dyn FnMut(),
) -> Result<Option<Lsn>> {
    let space = table.store.space()?;
    report.bytes_before += space.space().file().len()?;
    let access = instance.pool().access(AccessKind::Maintenance);
    table.store.indexes()?;
    space.whole_pages(&access)?;
    space.check_end(&access)?;
    report.pages_reclaimed += reclaim(instance, table, space, &access)?;
    while move_last(instance, table, space, &access)? {
        report.pages_moved += 1;
        moved();
    }
    space.shrink(&access)?;
    // It may have been longer than its page count before: a crash came before it was cut.
    Ok(space.has_tail(&access)?.then(|| instance.wal().next_lsn()))
}

/// Gives back pages that nothing leads to, if that can be told. How many.
///
/// # Errors
/// Damage that the walk over the trees finds.
fn reclaim(instance: &Instance, table: &TableHandle, space: &SpaceFile, access: &Access<'_>) -> Result<u64> {
    let gate = &table.store.file.gate;
    let Some(entered) = gate.quiet() else { return Ok(0) };
    // An index that came between the look at the definitions and this one is in none of the trees
    // that are walked. One that comes from here on is a build, which the gate tells.
    if table.store.check_current(&table.name).is_err() {
        return Ok(0);
    }
    if !instance.txns.keeps_nothing_old_of(space.id())? {
        return Ok(0);
    }
    let (reached, mut found) = walk(instance, table, space, access)?;
    // The pause stands for a look at the bitmaps of a large file.
    let early = holdfast_base::planted!("new-pages-count-as-lost")
        && gate.quiet() == Some(entered)
        && holdfast_base::planted!("new-pages-count-as-lost", pause = 20);
    let lost = space.unreached(&reached, access)?;
    if found.is_empty() {
        instance.txns.verify_unreached(space, lost.iter().copied(), access, &mut |finding| found.push(finding))?;
    } else {
        // As a check does, this believes what it finds again.
        let again = walk(instance, table, space, access)?.1;
        found.retain(|finding| again.contains(finding));
        if found.is_empty() {
            return Ok(0);
        }
    }
    // What came meanwhile has allocated pages that nothing leads to yet.
    if !early && gate.quiet() != Some(entered) {
        return Ok(0);
    }
    if let Some(finding) = found.into_iter().next() {
        return Err(instance.store.damaged(finding.page, finding.what));
    }
    space.free_pages(&lost, SpaceClass::User, access)?;
    Ok(lost.len() as u64)
}

/// What the trees of a table lead to, and what is wrong with them.
fn walk(
    instance: &Instance,
    table: &TableHandle,
    space: &SpaceFile,
    access: &Access<'_>,
) -> Result<(PageSet, Vec<PageFinding>)> {
    let watch = space.watch();
    let (mut reached, mut found) = (PageSet::new(), Vec::new());
    check_trees(&instance.txns, table.store.all_indexes())(access, &mut reached, &mut |finding| found.push(finding))?;
    let changed = watch.changed();
    found.retain(|finding| !changed.contains(finding.page.no));
    Ok((reached, found))
}

/// Moves the last node of the file to the front, if there is room; whether it did.
fn move_last(instance: &Instance, table: &TableHandle, space: &SpaceFile, access: &Access<'_>) -> Result<bool> {
    instance.check()?;
    let _ddl = instance.ddl.lock();
    if table.store.check_current(&table.name).is_err() || table.store.file.is_dropped() {
        return Ok(false);
    }
    let last = space.last_allocated(access)?;
    let guard = instance.pool().fix_shared(space.space(), last, access)?;
    let header = page::PageHeader::decode(&guard);
    drop(guard);
    let Some(index) = header.and_then(|h| table.store.index_of(h.index)) else { return Ok(false) };
    Ok(is_moved(index.tree().relocate_page(last, access)?, last))
}

fn is_moved(to: Option<PageNo>, from: PageNo) -> bool {
    to.is_some_and(|to| to < from)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::raw::{IndexSource, Lifetime, RawDatabase};
    use crate::{Database, VerifyOptions};

    const ENTRIES: u64 = 4_000;

    /// A compaction had looked the table up just before the index was entered in the catalog, and
    /// asked the gate just after the change had ended. It walked over the trees of before, and gave
    /// the pages of the new one away.
    #[test]
    fn pages_of_an_index_that_came_since_the_table_was_looked_up_are_not_lost() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let instance = Arc::clone(&db.database().instance);
        let before = Arc::clone(instance.schema().get("t").unwrap());
        let mut alter = db.begin_alter("t", &[("k", false)], false, Duration::ZERO).unwrap();
        for key in 0..ENTRIES {
            let entry = [key.to_be_bytes(), key.to_be_bytes()].concat();
            alter.push(0, &entry, entry.len(), &[8]).unwrap();
        }
        alter.finish().unwrap();
        alter.become_table(&[IndexSource::Added(0)], b"").unwrap();
        db.commit_alters(&mut [&mut alter], &[], Duration::ZERO).unwrap();
        drop(alter);
        instance.purge_now().unwrap();
        assert!(instance.txns.keeps_nothing_old().unwrap(), "else nothing is given back in any case");
        let access = instance.pool().access(AccessKind::Maintenance);
        assert_eq!(reclaim(&instance, &before, before.store.space().unwrap(), &access).unwrap(), 0);
        drop(access);
        let report = db.database().verify(&VerifyOptions::new().entries(false), &mut |_| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        assert_eq!(report.entries, ENTRIES);
    }

    /// A compaction met a table that had been made anew since it began, and held its file alone.
    /// The file was closed when the table was dropped, and no other file was cut.
    #[test]
    fn a_table_that_is_dropped_before_its_file_is_cut_is_left_out() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        let instance = Arc::clone(&db.database().instance);
        let mut shrunk = Vec::new();
        for name in ["kept", "gone"] {
            db.create_table(name, &[], b"", Lifetime::Lasting).unwrap();
            let table = Arc::clone(instance.schema().get(name).unwrap());
            // As a crash leaves it, before it is cut.
            let file = table.store.space().unwrap().space().file();
            file.set_len(file.len().unwrap() + 100 * instance.meta.page_size as u64).unwrap();
            let lsn = compact_table(&instance, &table, &mut CompactReport::default(), &mut || ()).unwrap().unwrap();
            shrunk.insert(0, (table, lsn));
        }
        db.drop_table("gone", Duration::ZERO).unwrap();
        cut(&instance, &shrunk, &mut CompactReport::default()).unwrap();
        let access = instance.pool().access(AccessKind::Maintenance);
        assert!(!shrunk[1].0.store.space().unwrap().has_tail(&access).unwrap());
    }
}
