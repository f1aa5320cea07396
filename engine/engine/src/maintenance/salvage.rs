//! Saving what can be read of a damaged table.
//!
//! **Rows.** The tree above them may be what is damaged, so the file is read page by page: every
//! sound page that says it is a leaf of the table's rows gives its rows. A file that redo has set
//! aside is read through the pool like any other, with what the log had for it. A row whose large
//! value cannot be read is counted and left out. Of every row the version is taken that was
//! committed when the salvage began; the newest one, if older versions cannot be read. Of entries
//! that are copied the same. A change may be undone, by its session or in the background, between
//! the copy of its page and the look for the version before it: then both are done again. So are
//! all pages, three times at most, if some were allocated or freed meanwhile: rows may have moved
//! to one that was passed. The report says so if that was the case each time. The snapshot may be
//! given up, to keep old versions to their limit: then rows and entries would be of several
//! moments, and the salvage fails, unless nothing has written to the table since it began, and no
//! transaction without a session is unfinished.
//!
//! **Entries.** The table in the target never has an index that lacks entries. If it is known how
//! entries are made - the program has created the table, or opened it for writing, in the target or
//! in the damaged database - they are made from the rows that were saved. If not, those indexes are
//! copied whose trees are intact, but for entries of rows that were lost; a damaged index is left
//! out of the new table, and named in the report. So is, either way, one with an entry that is too
//! long for the target's pages, whose row is not: the row is saved.

use std::sync::Arc;

use holdfast_base::page::{self, PageType};
use holdfast_base::{IndexId, Lsn, PageNo};
use holdfast_metrics::Local;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::SpaceFile;
use holdfast_tree::node::NodeRef;
use holdfast_txn::{NewValue, TableIndex, Txn, TxnOptions, VersionHeader, values};

use crate::ddl::tables;
use crate::instance::Instance;
use crate::instance::options::WriteOptions;
use crate::maintenance::pieces::is_loss;
use crate::maintenance::report::{OnProgress, VerifyProgress};
use crate::maintenance::salvage_entries::{BATCH, BATCH_ROWS, LOOKS, copy_entries, has_room, is_intact};
use crate::rows::definition::IndexSpec;
use crate::schema::catalog::IndexRecord;
use crate::schema::handle::TableHandle;
use crate::schema::store::indexes_in;
use crate::session::retry;
use crate::session::transaction::Transaction;
use crate::{Error, Result};

/// What a salvage found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Rows written to the target.
    pub rows: u64,
    /// Pages that could not be read. What they held is not known.
    pub lost_pages: u64,
    /// Rows whose large value could not be read.
    pub lost_values: u64,
    /// Rows that the target refused: they repeat a key of a unique index, are too long for its
    /// pages, or their bytes are none of the table's types.
    pub refused_rows: u64,
    /// Pages were allocated or freed during each look at all of them: rows that have moved may be
    /// missing.
    pub unsettled: bool,
    /// Indexes that the new table lacks: they are damaged, and it is not known how their entries
    /// are made from rows, or have entries that are too long for the target's pages.
    pub lost_indexes: Vec<String>,
    /// The name of its file, if the table is saved under that: the one in the catalog is damaged,
    /// and no table can have it.
    pub saved_as: Option<String>,
}

/// A row that was found, and how much of it is kept with its key if it is too large for a page.
pub(crate) struct Row {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    head_len: usize,
    /// The newest version says that there is no such row.
    pub deleted: bool,
}

/// Where the entries of the new table's indexes come from.
enum Entries {
    /// From the rows.
    Made(Vec<Arc<IndexSpec>>),
    /// From these indexes of the damaged table, one for each.
    Copied(Vec<Arc<TableIndex>>),
}

/// Pages between two times that it is told how far a salvage has come.
pub(crate) const PROGRESS_EVERY: u32 = 64;

pub(crate) fn salvage_table(
    reference: &Local<Arc<Instance>>,
    name: &str,
    target: &Local<Arc<Instance>>,
    progress: &OnProgress<'_>,
) -> Result<SalvageReport> {
    let (instance, into): (&Instance, &Instance) = (&***reference, &***target);
    if std::ptr::eq(instance, into) {
        return Err(Error::invalid("a table is saved into another database: here it would lose what is newer"));
    }
    let schema = instance.schema();
    let table = schema.get(name).ok_or_else(|| Error::TableNotFound(name.into()))?;
    let space = table.store.space().or_else(|error| table.store.file.withheld_space().ok_or(error))?;
    let made;
    let indexes = match table.store.all_indexes() {
        [] => {
            // Pages that redo has made are among those that are looked at, as far as the file takes
            // them.
            let _ = instance.pool().flush_space(space.space());
            made = indexes_in(space, &table.record);
            &made
        }
        indexes => indexes,
    };
    let source = Source { instance, table, space, indexes, since: begin_of(space, instance) };
    // The gate does not count a transaction without a session, prepared or unfinished: what it has
    // changed is among the newest versions.
    let quiet = table.store.file.gate.quiet().filter(|_| !instance.txns.has_unfinished());
    let mut view = reference.begin(TxnOptions::snapshot());
    view.take_snapshot();
    let mut report = SalvageReport::default();
    let (copy, entries) = destination(&source, target, &mut view, &mut report)?;
    let specs: &[Arc<IndexSpec>] = if let Entries::Made(specs) = &entries { specs } else { &[] };
    let mut rows = Rows::new(target, &copy, specs);
    for _ in 0..LOOKS {
        let watch = space.watch();
        report = SalvageReport { lost_indexes: report.lost_indexes, ..SalvageReport::default() };
        let pages = space.space().file().len()? / instance.meta.page_size as u64;
        let mut at = VerifyProgress { table: name.into(), pages_done: 0, pages_total: pages };
        for no in 0..u32::try_from(pages).unwrap_or(u32::MAX) {
            if no.is_multiple_of(PROGRESS_EVERY) {
                at.pages_done = u64::from(no);
                progress(&at);
            }
            read_page(&source, &mut view, PageNo(no), &mut rows, &mut report)?;
            source.check_view(&view, quiet)?;
        }
        rows.write(&mut report)?;
        // A split, a merge or a compaction may have moved rows to a page that was passed.
        report.unsettled = !watch.changed().is_empty();
        if !report.unsettled {
            break;
        }
    }
    report.saved_as = (copy.name != table.name).then(|| copy.name.clone());
    if let Entries::Copied(indexes) = &entries {
        for (no, index) in indexes.iter().enumerate() {
            copy_entries(instance, index, &mut view, target, &copy, no)?;
        }
        source.check_view(&view, quiet)?;
    }
    Ok(report)
}

/// The table that is salvaged.
struct Source<'s> {
    instance: &'s Instance,
    table: &'s TableHandle,
    /// Its file, which may be one that nothing else uses.
    space: &'s Arc<SpaceFile>,
    /// Its indexes there, the clustered one first.
    indexes: &'s [Arc<TableIndex>],
    /// Leaves that are older are no part of the table.
    since: Lsn,
}

impl Source<'_> {
    /// Checks that what `view` sees can be told: it was not given up, or the newest versions are
    /// those that it sees. `quiet` is what the gate said before it was opened; `None` if
    /// transactions without a session may have changed the table.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`] if not.
    fn check_view(&self, view: &Txn, quiet: Option<u64>) -> Result<()> {
        let is_unchanged = || quiet.is_some() && self.table.store.file.gate.quiet() == quiet;
        if view.is_view_given_up() && !is_unchanged() { Err(Error::SnapshotTooOld) } else { Ok(()) }
    }
}

/// The age of the oldest leaves that may be part of the table in `space`: those of a load that was
/// given up are not, nor are those of one that is under way.
fn begin_of(space: &SpaceFile, instance: &Instance) -> Lsn {
    let header = space.header(&instance.pool().access(AccessKind::Maintenance));
    header.map_or(Lsn(0), |header| if header.is_filling() { Lsn::MAX } else { header.emptied() })
}

/// The table that takes the rows, created if there is none, and where its entries come from.
fn destination(
    source: &Source<'_>,
    target: &Local<Arc<Instance>>,
    view: &mut Txn,
    report: &mut SalvageReport,
) -> Result<(Arc<TableHandle>, Entries)> {
    let (table, record) = (source.table, &source.table.record);
    let file = record.space.file_name();
    let name = tables::name_to_save(&table.name, &file);
    if let Some(there) = target.schema().get(name) {
        let mismatch = |what: &str| Error::TableMismatch { table: name.into(), what: what.into() };
        if (&there.record.key_type, &there.record.value_type) != (&record.key_type, &record.value_type) {
            return Err(mismatch("the table of that name in the target has other types"));
        }
        let specs = [there, table]
            .map(|handle| handle.store.specs())
            .into_iter()
            .find(|specs| fit(specs, &there.record.indexes));
        let specs = specs.ok_or_else(|| {
            mismatch("the table in the target has indexes, and it is not known how their entries are made; open it for writing first")
        })?;
        return Ok((Arc::clone(there), Entries::Made(specs.to_vec())));
    }
    let specs = table.store.specs();
    let is_made = fit(specs, &record.indexes);
    let (mut records, mut made, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    for (no, (record, index)) in record.indexes.iter().zip(&source.indexes[1..]).enumerate() {
        let is_whole = is_made || tables::check_index_name(&record.name).is_ok() && is_intact(source.instance, index)?;
        if !is_whole || !has_room(source.instance, index, view, target)? {
            report.lost_indexes.push(record.name.clone());
            continue;
        }
        records.push(record.clone());
        made.extend(specs.get(no).cloned());
        copied.push(Arc::clone(index));
    }
    let entries = if is_made { Entries::Made(made) } else { Entries::Copied(copied) };
    Ok((tables::create_like(target, name, table, &records)?, entries))
}

/// True if `specs` say how the entries of these indexes are made.
pub(crate) fn fit(specs: &[Arc<IndexSpec>], indexes: &[IndexRecord]) -> bool {
    let same = |(spec, index): (&Arc<IndexSpec>, &IndexRecord)| {
        (&spec.name, &spec.key_type, spec.unique) == (&index.name, &index.key_type, index.unique)
    };
    specs.len() == indexes.len() && specs.iter().zip(indexes).all(same)
}

/// Appends the rows of a page, if it is a leaf of rows.
fn read_page(
    source: &Source<'_>,
    view: &mut Txn,
    no: PageNo,
    rows: &mut Rows<'_>,
    report: &mut SalvageReport,
) -> Result<()> {
    let Source { instance, table, space, indexes, since } = *source;
    let access = instance.pool().access(AccessKind::Maintenance);
    // A page that was given back may still hold rows of before. If that cannot be told, what it
    // holds is better than nothing.
    if !space.is_marked(no, &access).unwrap_or(true) {
        return Ok(());
    }
    let mut look = 1;
    let (page, versions) = loop {
        let page = match instance.pool().fix_shared(space.space(), no, &access) {
            Ok(page) => page.to_vec(),
            Err(error) if is_loss(&error) => {
                report.lost_pages += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if page::lsn(&page) < since {
            return Ok(());
        }
        let leaf = LeafPage { space, clustered: table.record.clustered, bytes: &page };
        let (versions, all_told) = versions_in(&leaf, view, &indexes[0]);
        if all_told || look == LOOKS {
            break (page, versions);
        }
        look += 1;
    };
    let leaf = LeafPage { space, clustered: table.record.clustered, bytes: &page };
    let mut versions = versions.into_iter();
    let mut seen = |_: &[u8], _: &[u8]| versions.next().flatten();
    leaf_rows(&leaf, &mut seen, &access, report, &mut |row, report| {
        if row.deleted { Ok(()) } else { rows.push(row, report) }
    })
}

/// A page that may be a leaf of the rows.
pub(crate) struct LeafPage<'p> {
    pub space: &'p SpaceFile,
    pub clustered: IndexId,
    pub bytes: &'p [u8],
}

impl<'p> LeafPage<'p> {
    /// True if it says that it is a leaf of the rows.
    fn is_leaf(&self) -> bool {
        let header = page::PageHeader::decode(self.bytes);
        header.is_some_and(|h| h.page_type == PageType::Tree && h.level == 0 && h.index == self.clustered)
    }

    /// The node, if it is sound.
    fn node(&self) -> Option<NodeRef<'p, [u8]>> {
        NodeRef::new(self.bytes, self.clustered).filter(|node| node.check().is_ok())
    }
}

/// Says which version of an entry is taken, by its key and newest version, if any.
type Seen<'a> = dyn FnMut(&[u8], &[u8]) -> Option<Vec<u8>> + 'a;

/// The versions of the entries of a leaf that `view` sees, in the order of [`leaf_rows`]; the
/// newest one where that cannot be told. Whether it could be told of all: if not, they may have
/// changed since the page was read, and the newest one may have been undone.
fn versions_in(leaf: &LeafPage<'_>, view: &mut Txn, index: &TableIndex) -> (Vec<Option<Vec<u8>>>, bool) {
    let (mut versions, mut all_told) = (Vec::new(), true);
    let Some(node) = leaf.node().filter(|_| leaf.is_leaf()) else { return (versions, all_told) };
    for slot in 0..node.count().unwrap_or(0) {
        let (Some(key), Some(newest)) = (node.key(slot), node.payload(slot)) else { continue };
        let mut payload = newest.to_vec();
        let is_there = view.seen_version(index, &key, &mut payload);
        all_told &= is_there.is_some();
        versions.push(match is_there {
            Some(is_there) => is_there.then_some(payload),
            None => Some(newest.to_vec()),
        });
    }
    (versions, all_told)
}

/// Takes a row that was found.
type Take<'t> = dyn FnMut(Row, &mut SalvageReport) -> Result<()> + 't;

/// Gives the rows of a page, if it is a leaf of the rows, to `take`, one after the other: a leaf
/// may lead to large values that take more memory than there is. Rows whose large values cannot be
/// read are counted as lost.
pub(crate) fn leaf_rows(
    leaf: &LeafPage<'_>,
    seen: &mut Seen<'_>,
    access: &Access<'_>,
    report: &mut SalvageReport,
    take: &mut Take<'_>,
) -> Result<()> {
    let LeafPage { space, clustered, bytes } = *leaf;
    if !leaf.is_leaf() {
        return Ok(());
    }
    let Some(node) = leaf.node() else {
        report.lost_pages += 1;
        return Ok(());
    };
    for slot in 0..node.count().unwrap_or(0) {
        let (Some(key), Some(newest)) = (node.key(slot), node.payload(slot)) else { continue };
        let Some(payload) = seen(&key, newest) else { continue };
        let Some((version, body)) = VersionHeader::decode(&payload) else { continue };
        let (mut value, mut head_len) = (Vec::new(), 0);
        if version.overflow && !version.deleted {
            let read = values::decode(body).and_then(|(_, head)| {
                head_len = head.len();
                values::read_unrecovered(space, clustered, body, page::lsn(bytes), access, &mut value)
            });
            if read.is_err() {
                report.lost_values += 1;
                continue;
            }
        } else {
            value.extend_from_slice(body);
        }
        take(Row { key, value, head_len, deleted: version.deleted }, report)?;
    }
    Ok(())
}

/// Rows on their way into the table `copy` of the target, of which a transaction writes so many
/// that it is worth it, and no more.
pub(crate) struct Rows<'t> {
    target: &'t Local<Arc<Instance>>,
    copy: &'t TableHandle,
    specs: &'t [Arc<IndexSpec>],
    rows: Vec<Row>,
    bytes: usize,
}

impl<'t> Rows<'t> {
    pub(crate) fn new(
        target: &'t Local<Arc<Instance>>,
        copy: &'t TableHandle,
        specs: &'t [Arc<IndexSpec>],
    ) -> Rows<'t> {
        Rows { target, copy, specs, rows: Vec::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, row: Row, report: &mut SalvageReport) -> Result<()> {
        self.bytes += row.key.len() + row.value.len();
        self.rows.push(row);
        if self.bytes > BATCH || self.rows.len() > BATCH_ROWS { self.write(report) } else { Ok(()) }
    }

    /// Writes what there is.
    pub(crate) fn write(&mut self, report: &mut SalvageReport) -> Result<()> {
        self.bytes = 0;
        write(self.target, self.copy, self.specs, &mut self.rows, report)
    }
}

/// Writes rows to the table `copy` of the target, in their order: of two with one key the last one
/// counts.
fn write(
    target: &Local<Arc<Instance>>,
    copy: &TableHandle,
    specs: &[Arc<IndexSpec>],
    rows: &mut Vec<Row>,
    report: &mut SalvageReport,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let begin = || Transaction::begin_write(target, &WriteOptions::default());
    let refused = retry::transact(begin, |txn| {
        txn.enter(copy)?;
        let mut refused = 0;
        for row in rows.iter() {
            if row.deleted {
                match txn.delete(copy, specs, &row.key) {
                    // The target has no row of such a key.
                    Err(Error::KeyTooLong { .. }) => {}
                    result => drop(result?),
                }
                continue;
            }
            let value = NewValue::with_head(&row.value, row.head_len);
            match txn.upsert(copy, specs, &row.key, value) {
                Err(Error::DuplicateKey | Error::KeyTooLong { .. } | Error::ValueTooLong { .. }) => refused += 1,
                Err(Error::InvalidArgument(_) | Error::TableMismatch { .. }) => refused += 1,
                result => drop(result?),
            }
        }
        Ok(refused)
    })?;
    report.rows += rows.iter().filter(|row| !row.deleted).count() as u64 - refused;
    report.refused_rows += refused;
    rows.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Lifetime, RawDatabase, RawOptions};
    use crate::{Database, FlushAtCommit, Isolation};

    /// What the change had written was saved as if it had been committed, and a row that such a
    /// change had removed was not saved.
    #[test]
    fn a_change_that_was_undone_since_its_page_was_read_is_noticed() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let table = db.open_table("t").unwrap();
        let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false };
        let mut txn = db.begin(&options).unwrap();
        txn.insert(&table, 0, b"row", b"committed").unwrap();
        txn.commit(FlushAtCommit::Lazy).unwrap();
        drop(txn);

        let instance = &db.database().instance;
        let handle = Arc::clone(instance.schema().get("t").unwrap());
        let (space, clustered) = (handle.store.space().unwrap(), handle.record.clustered);
        let index = &handle.store.all_indexes()[0];
        let access = instance.pool().access(AccessKind::Maintenance);
        let copy = || instance.pool().fix_shared(space.space(), handle.record.root, &access).unwrap().to_vec();
        let mut view = db.database().reference().begin(TxnOptions::snapshot());
        view.take_snapshot();
        let mut look = |bytes: &[u8]| versions_in(&LeafPage { space, clustered, bytes }, &mut view, index);

        let mut change = db.begin(&options).unwrap();
        assert!(change.update(&table, 0, b"row", b"never").unwrap());
        let before = copy();
        let is_committed = |version: &Option<Vec<u8>>| version.as_ref().is_some_and(|v| v.ends_with(b"committed"));
        let (versions, all_told) = look(&before);
        assert!(all_told && versions.iter().all(is_committed), "{versions:?}");
        change.txn().rollback().unwrap();
        assert!(!look(&before).1, "the page has another version now");
        let (versions, all_told) = look(&copy());
        assert!(all_told && versions.iter().all(is_committed), "{versions:?}");
    }
}
