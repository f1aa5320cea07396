//! Saving what can be read of files that are no database any more: without `holdfast.meta`, log,
//! catalog or undo logs.
//!
//! Nothing is recovered, and nothing but the files of tables is needed. The page size is what their
//! headers say, or the one at which pages check out. Names and types are those of the catalog's
//! records, as far as pages of `system.hf` can be read; a table without a record is saved as plain
//! bytes under the name of its file, which also stands in for a name that no table can have.
//!
//! **Which pages.** Every sound page that says it is a leaf of the table's rows; without a record
//! these are the leaves of the least index id, which a table gives to its rows first. Files that
//! were not closed cleanly hold leaves of different times: a row may be in an old leaf and in the
//! one that it was moved to, or stay in a leaf that was given back. So leaves are taken in the
//! order of their LSNs and the last one that speaks of a row counts; a leaf is passed over if the
//! allocation bitmap is newer and says that it is free, or if it is older than the end of a load
//! that was given up. What cannot be told: changes that were only
//! in the log are missing, changes of transactions that had not committed are there, and a row that
//! was removed with its leaf may come back.
//!
//! The directory is locked as for reading, and nothing in it is changed.

use std::path::Path;
use std::sync::Arc;

use holdfast_base::limits::{LOG_CAPACITY_MIN, PAGE_SIZE_MAX, is_page_size};
use holdfast_base::page::{self, PageType};
use holdfast_base::{HashMap, IndexId, Lsn, PageId, PageNo, SpaceId};
use holdfast_io::{AlignedBuf, Disk, FileDisk, FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::Local;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::space::SpaceHeader;
use holdfast_tree::{SpaceFile, Store};
use holdfast_wal::{Wal, WalConfig};

use crate::ddl::tables;
use crate::instance::Instance;
use crate::instance::environment::{DOUBLEWRITE, Environment, SYSTEM};
use crate::instance::meta::Meta;
use crate::instance::overlay::OverlayDisk;
use crate::instance::settings::Builder;
use crate::maintenance::pieces::is_loss;
use crate::maintenance::report::{OnProgress, VerifyProgress};
use crate::maintenance::salvage::{LeafPage, PROGRESS_EVERY, Row, Rows, SalvageReport, fit, leaf_rows};
use crate::rows::definition::IndexSpec;
use crate::rows::types::Value;
use crate::schema::catalog::{self, CATALOG, TableRecord};
use crate::schema::handle::TableHandle;
use crate::schema::table_file::space_of;
use crate::session::transaction::Transaction;
use crate::{Error, Result};

/// The disk that is the directory `dir`.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn directory(dir: &Path) -> Result<Arc<dyn Disk>> {
    Ok(Arc::new(FileDisk::open(dir, Builder::default().flush_method)?))
}

/// Saves the tables whose files are on `below`, or the one in the file `only`; a report for each,
/// by name.
pub(crate) fn salvage_files(
    below: Arc<dyn Disk>,
    only: Option<&str>,
    target: &Local<Arc<Instance>>,
    progress: &OnProgress<'_>,
) -> Result<Vec<(String, SalvageReport)>> {
    let settings = Builder::default();
    // The pool opens it to write, and it may be what cannot be opened.
    let disk = OverlayDisk::new(below).without(DOUBLEWRITE);
    let environment = Environment::new(&settings, Arc::new(disk), true)?;
    let disk = &*environment.disk;
    let (mut files, page_size) = files_on(disk)?;
    if let Some(only) = only {
        files.retain(|(_, name)| name == only);
        if files.is_empty() {
            return Err(Error::damaged_file(only, "it is missing"));
        }
    }
    let config = WalConfig { page_size: page_size as u32, capacity_bytes: LOG_CAPACITY_MIN, ..WalConfig::default() };
    // Nothing is logged, but pages are read through a pool, which has a log.
    let wal = Wal::create(Arc::new(MemoryDisk::new()), [0; 16], config, Arc::clone(&environment.metrics))?;
    let store = environment.store(page_size, &wal)?;
    let saved = Salvage { disk, store: &store, target, passes_over: only.is_none(), progress }.tables(&files);
    store.pool().shutdown();
    wal.close()?;
    saved
}

/// The page size of the tables' files on a disk.
pub(crate) fn page_size_on(disk: &dyn Disk) -> Result<usize> {
    files_on(disk).map(|(_, page_size)| page_size)
}

/// The tables' files on a disk, and their page size.
fn files_on(disk: &dyn Disk) -> Result<(Vec<(SpaceId, String)>, usize)> {
    let mut files = Vec::new();
    for name in disk.list()? {
        files.extend(space_of(&name).map(|id| (id, name)));
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(Error::NotADatabase(disk.location()));
    }
    let page_size = page_size_of(disk, &files)?;
    let none = || Error::damaged_file(disk.location(), "none of its files has a sound page");
    Ok((files, page_size.ok_or_else(none)?))
}

/// The page size of a database's files, by the first of these that tells one:
///
/// 1. the header pages that check out, most of which have it;
/// 2. the size at which the most of the files' first bytes are sound pages;
/// 3. a header that does not check out, or `holdfast.meta`, which may be another database's.
fn page_size_of(disk: &dyn Disk, files: &[(SpaceId, String)]) -> Result<Option<usize>> {
    let meta = Meta::read(disk).ok().flatten().map(|meta| meta.page_size);
    let (mut sound, mut claimed) = (HashMap::<usize, u64>::default(), None);
    for (id, name) in files {
        let Some(first) = first_bytes(disk, name, PAGE_SIZE_MAX as u64)? else { continue };
        let size = SpaceHeader::decode(&first).map(|header| header.page_size as usize);
        let Some(size) = size.filter(|&size| is_page_size(size)) else { continue };
        if first.get(..size).is_some_and(|page| page::check(page, PageId::new(*id, PageNo(0))).is_ok()) {
            *sound.entry(size).or_default() += 1;
        }
        claimed = claimed.or(Some(size));
    }
    if sound.is_empty() {
        sound = bytes_of_sound_pages(disk, files)?;
    }
    let best = sound.into_iter().max_by_key(|&(size, weight)| (weight, Some(size) == meta, size));
    Ok(best.filter(|&(_, weight)| weight > 0).map(|(size, _)| size).or(meta).or(claimed))
}

/// How many of the first bytes of the files are sound pages, by page size.
fn bytes_of_sound_pages(disk: &dyn Disk, files: &[(SpaceId, String)]) -> Result<HashMap<usize, u64>> {
    const LOOKED_AT: u64 = 4 << 20;
    let mut sound: HashMap<usize, u64> = HashMap::default();
    for (id, name) in files {
        let Some(bytes) = first_bytes(disk, name, LOOKED_AT)? else { continue };
        for size in [4096, 8192, 16384, 32768, 65536] {
            let pages = bytes.chunks_exact(size).zip(0..);
            let is_sound = |(page, no): &(&[u8], u32)| {
                !page::is_blank(page) && page::check(page, PageId::new(*id, PageNo(*no))).is_ok()
            };
            *sound.entry(size).or_default() += (pages.filter(is_sound).count() * size) as u64;
        }
    }
    Ok(sound)
}

/// The first bytes of a file, at most so many; `None` if they are lost.
fn first_bytes(disk: &dyn Disk, name: &str, most: u64) -> Result<Option<AlignedBuf>> {
    let read = || {
        let file = disk.open(name, OpenOptions::new(FileKind::Data).read_only(true))?;
        let mut bytes = AlignedBuf::zeroed(file.len()?.min(most) as usize);
        file.read_at(0, &mut bytes).map(|()| bytes)
    };
    match read() {
        Err(error) if is_lost(&error) => Ok(None),
        read => read.map(Some),
    }
}

/// As [`is_loss`], unless the system refuses a file to this user: another one may save more.
fn is_lost(error: &Error) -> bool {
    is_loss(error) && !error.is_refusal()
}

/// What is known of a table.
#[derive(Clone)]
struct Known {
    name: String,
    record: TableRecord,
}

/// What can be read of the catalog, and whose it is.
#[derive(Default)]
struct Names {
    uuid: Option<[u8; 16]>,
    tables: Vec<Known>,
}

/// A leaf, and the index that it belongs to. In the order of their LSNs.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Leaf {
    lsn: Lsn,
    no: PageNo,
    index: IndexId,
}

struct Salvage<'a> {
    disk: &'a dyn Disk,
    store: &'a Arc<Store>,
    target: &'a Local<Arc<Instance>>,
    /// A file that cannot be opened is no reason not to save the others.
    passes_over: bool,
    progress: &'a OnProgress<'a>,
}

impl Salvage<'_> {
    fn access(&self) -> Access<'_> {
        self.store.pool().access(AccessKind::Maintenance)
    }

    /// Tells now and then how far it has come with a file.
    fn tell(&self, file: &str, pages_done: u64, pages_total: u64) {
        if pages_done.is_multiple_of(u64::from(PROGRESS_EVERY)) {
            (self.progress)(&VerifyProgress { table: file.into(), pages_done, pages_total });
        }
    }

    fn tables(&self, files: &[(SpaceId, String)]) -> Result<Vec<(String, SalvageReport)>> {
        let names = self.names()?;
        let mut reports = Vec::new();
        for (id, name) in files {
            let known = names.tables.iter().find(|table| table.record.space == *id);
            let space = match SpaceFile::open_unchecked(self.store, self.disk, *id, name) {
                Err(error) if self.passes_over && is_lost(&error) => {
                    // How many pages it has is not known.
                    let report = SalvageReport { lost_pages: 1, ..SalvageReport::default() };
                    reports.push((known.map_or_else(|| name.clone(), |known| known.name.clone()), report));
                    continue;
                }
                opened => opened?,
            };
            let own = space.header(&self.access()).map(|header| header.uuid).ok();
            let known = known.filter(|_| own.is_none() || names.uuid.is_none() || own == names.uuid);
            reports.push(self.table(&space, name, known)?);
            space.close(true)?;
        }
        Ok(reports)
    }

    fn names(&self) -> Result<Names> {
        if !self.disk.exists(SYSTEM.1)? {
            return Ok(Names::default());
        }
        let space = match SpaceFile::open_unchecked(self.store, self.disk, SYSTEM.0, SYSTEM.1) {
            Err(error) if is_lost(&error) => return Ok(Names::default()),
            opened => opened?,
        };
        let uuid = space.header(&self.access()).map(|header| header.uuid).ok();
        let mut tables: HashMap<Vec<u8>, Option<Known>> = HashMap::default();
        let (leaves, _) = self.leaves(&space, SYSTEM.1)?;
        for leaf in leaves.into_iter().filter(|leaf| leaf.index == CATALOG) {
            self.rows(&space, &leaf, &mut SalvageReport::default(), &mut |row, _| {
                let table = catalog::table_of(&row.key, &row.value).filter(|_| !row.deleted);
                tables.insert(row.key, table.map(|(name, record)| Known { name, record }));
                Ok(())
            })?;
        }
        space.close(true)?;
        Ok(Names { uuid, tables: tables.into_values().flatten().collect() })
    }

    /// Gives the rows of a leaf to `take`.
    fn rows(
        &self,
        space: &SpaceFile,
        leaf: &Leaf,
        report: &mut SalvageReport,
        take: &mut dyn FnMut(Row, &mut SalvageReport) -> Result<()>,
    ) -> Result<()> {
        let access = self.access();
        let page = match self.store.pool().fix_shared(space.space(), leaf.no, &access) {
            Ok(page) => page.to_vec(),
            // It could be read before.
            Err(error) if is_loss(&error) => {
                report.lost_pages += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let page = LeafPage { space, clustered: leaf.index, bytes: &page };
        leaf_rows(&page, &mut |_, newest| Some(newest.to_vec()), &access, report, take)
    }

    /// The leaves of a file that count, by LSN, and how many pages cannot be read.
    fn leaves(&self, space: &SpaceFile, file: &str) -> Result<(Vec<Leaf>, u64)> {
        let access = self.access();
        let (mut leaves, mut lost) = (Vec::new(), 0);
        // That a load is under way may have been taken back in the log alone.
        let since = space.header(&access).map_or(Lsn(0), |header| header.emptied());
        let pages = space.space().file().len()? / self.store.page_size() as u64;
        for no in (0..u32::try_from(pages).unwrap_or(u32::MAX)).map(PageNo) {
            self.tell(file, u64::from(no.0), 2 * pages);
            let header = match self.store.pool().fix_shared(space.space(), no, &access) {
                Ok(page) => page::PageHeader::decode(&page),
                Err(error) if is_loss(&error) => {
                    lost += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_leaf = |h: &page::PageHeader| h.page_type == PageType::Tree && h.level == 0 && h.lsn >= since;
            let Some(header) = header.filter(is_leaf) else { continue };
            if !space.is_freed_since(no, header.lsn, &access).unwrap_or(false) {
                leaves.push(Leaf { lsn: header.lsn, no, index: header.index });
            }
        }
        leaves.sort_unstable();
        Ok((leaves, lost))
    }

    /// Saves one table.
    fn table(&self, space: &SpaceFile, file: &str, known: Option<&Known>) -> Result<(String, SalvageReport)> {
        let (mut leaves, lost_pages) = self.leaves(space, file)?;
        let mut report = SalvageReport { lost_pages, ..SalvageReport::default() };
        let least = leaves.iter().map(|leaf| leaf.index).min();
        let Known { name, record } = known.cloned().unwrap_or_else(|| unknown(space.id(), file, least));
        leaves.retain(|leaf| leaf.index == record.clustered);
        let name = tables::name_to_save(&name, file).to_owned();
        let (copy, specs) = self.destination(&name, &record, &mut report)?;
        let mut rows = Rows::new(self.target, &copy, &specs);
        // The leaves are read once more: half of the work.
        let half = leaves.len() as u64;
        for (leaf, no) in leaves.into_iter().zip(half..) {
            self.tell(file, no, 2 * half);
            self.rows(space, &leaf, &mut report, &mut |row, report| rows.push(row, report))?;
        }
        rows.write(&mut report)?;
        // A row that was found in several leaves is one.
        report.rows = count_rows(self.target, &copy)?;
        Ok((name, report))
    }

    /// The table of the target that takes the rows, and how the entries of its indexes are made.
    fn destination(
        &self,
        name: &str,
        record: &TableRecord,
        report: &mut SalvageReport,
    ) -> Result<(Arc<TableHandle>, Vec<Arc<IndexSpec>>)> {
        let mismatch = |what: &str| Error::TableMismatch { table: name.into(), what: what.into() };
        let Some(there) = self.target.schema().get(name).cloned() else {
            report.lost_indexes.extend(record.indexes.iter().map(|index| index.name.clone()));
            return Ok((tables::create_plain(self.target, name, record)?, Vec::new()));
        };
        if (&there.record.key_type, &there.record.value_type) != (&record.key_type, &record.value_type) {
            return Err(mismatch("the table of that name in the target has other types"));
        }
        let specs = there.store.specs().to_vec();
        if !fit(&specs, &there.record.indexes) {
            return Err(mismatch(
                "the table in the target has indexes, and it is not known how their entries are made; open it for writing first",
            ));
        }
        Ok((there, specs))
    }
}

/// Rows of a table that are visible now.
fn count_rows(database: &Local<Arc<Instance>>, table: &TableHandle) -> Result<u64> {
    let transaction = Transaction::begin_read(database)?;
    let mut cursor = transaction.row_cursor(table)?;
    let (mut key, mut value, mut rows) = (Vec::new(), Vec::new(), 0);
    while cursor.next(&mut key, &mut value)? {
        rows += 1;
    }
    Ok(rows)
}

/// A table without a record: plain bytes, under the name of its file.
fn unknown(space: SpaceId, file: &str, clustered: Option<IndexId>) -> Known {
    let bytes = <&[u8] as Value>::type_name();
    let record = TableRecord {
        space,
        table_id: 0,
        version: 0,
        key_type: bytes.clone(),
        value_type: bytes,
        options: Vec::new(),
        clustered: clustered.unwrap_or(IndexId(0)),
        root: PageNo(0),
        indexes: Vec::new(),
        temporary: false,
    };
    Known { name: file.into(), record }
}
