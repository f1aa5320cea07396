//! Opening a database: lock, `holdfast.meta`, log, torn pages, redo, transactions, catalog.
//!
//! A database exists as soon as `holdfast.meta` does. Opening checks everything before it starts anything; what fails names
//! the file. A file of a table that cannot be opened disables that table alone. Nothing is written to, or removed, that does not
//! say that it belongs to this database (see [`is_leftover`] and [`data_file`]).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use holdfast_base::HashMap;
use holdfast_base::blocking::{Mutex, RwLock};
use holdfast_base::{Error, PageId, PageNo, Result, SpaceId, page};
use holdfast_io::{
    AlignedBuf, Clock, DirLockMode, Disk, File, FileDisk, FileKind, Lease, LeasedDisk, MeteredDisk, OpenOptions,
    RealClock,
};
use holdfast_metrics::{Counter, Local, Metrics, Spread, local};
use holdfast_pool::{AccessKind, Pool, PoolConfig, Space, restore_torn_pages};
use holdfast_tree::space::{MAY_GO, SpaceHeader};
use holdfast_tree::{Redo, SpaceFile, Store};
use holdfast_txn::{TxnConfig, TxnSystem};
use holdfast_wal::{CHECKPOINT_FILE, Recovery, Wal, WalConfig};

use crate::Database;
use crate::catalog::{Catalog, Contents, NextIds, TableRecord, doubt};
use crate::create;
use crate::meta::{META, Meta};
use crate::overlay::OverlayDisk;
use crate::schema::{Origin, Schema, TableHandle, TableStore};
use crate::settings::{Builder, RecoveryProgress};
use crate::shared::{Shared, policy_kind};
use crate::status::Previous;
use crate::table_file::{self, file_name, space_of};

/// The space of catalog and version tree, and its file.
pub(crate) const SYSTEM: (SpaceId, &str) = (SpaceId(0), "system.hf");
/// The space of the undo logs, and its file.
pub(crate) const UNDO: (SpaceId, &str) = (SpaceId(1), "undo.hf");

/// What is known before the files are opened.
pub(crate) struct Ground {
    pub settings: Builder,
    pub disk: Arc<dyn Disk>,
    pub lease: Arc<Lease>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub read_only: bool,
}

/// The double-write file grows to the log's capacity, because its images are of use until the next checkpoint, and no further than this: it is read when the
/// database is opened.
const DOUBLEWRITE_MAX: u64 = 128 << 20;

impl Ground {
    pub fn new(settings: &Builder, disk: Arc<dyn Disk>, read_only: bool) -> Result<Ground> {
        let disk = LeasedDisk::new(disk, if read_only { DirLockMode::Shared } else { DirLockMode::Exclusive })?;
        let lease = Arc::clone(disk.lease());
        let clock = settings.clock.clone().unwrap_or_else(|| Arc::new(RealClock::new()));
        let metrics = Metrics::new();
        let disk = Arc::new(MeteredDisk::new(Arc::new(disk), Arc::clone(&metrics)));
        Ok(Ground { settings: settings.clone(), disk, lease, clock, metrics, read_only })
    }

    pub fn wal_config(&self, page_size: usize) -> WalConfig {
        WalConfig {
            capacity_bytes: self.settings.log_capacity_bytes,
            buffer_bytes: self.settings.log_buffer_bytes as usize,
            flush: self.settings.flush_at_commit.into(),
            page_size: page_size as u32,
            ..WalConfig::default()
        }
    }

    pub fn txn_config(&self, page_size: usize) -> TxnConfig {
        let config = TxnConfig::default();
        // A small transaction's undo log takes a page: those that wait for purge must not fill the cache.
        let pages = usize::try_from(self.settings.cache_size_bytes / page_size as u64).unwrap_or(usize::MAX);
        TxnConfig {
            purge_help_above: config.purge_help_above.min(pages / 8),
            purge_wait_above: config.purge_wait_above.min(pages / 2),
            shelf_bytes: (self.settings.cache_size_bytes / 8).min(config.shelf_bytes),
            lock_wait_timeout: self.settings.lock_wait_timeout,
            max_old_versions: self.settings.version_limit_bytes,
            max_undo_per_txn: self.settings.undo_limit_bytes,
            ..config
        }
    }

    pub fn store(&self, page_size: usize, wal: &Arc<Wal>) -> Result<Arc<Store>> {
        let mut config = PoolConfig::new(Arc::clone(&self.disk), page_size, self.settings.cache_size_bytes);
        config.populate = self.settings.populate_cache;
        config.max_bytes = self.settings.cache_max();
        config.policy = policy_kind(self.settings.policy);
        config.clock = Arc::clone(&self.clock);
        config.doublewrite_bytes = self.settings.log_capacity_bytes.min(DOUBLEWRITE_MAX);
        let pool = Pool::new(config, Arc::clone(wal), Arc::clone(&self.metrics))?;
        Ok(Store::new(pool, Arc::clone(wal), Arc::clone(&self.metrics)))
    }
}

pub(crate) fn open(settings: &Builder, path: &Path) -> Result<Database> {
    settings.validate()?;
    open_on(Ground::new(settings, existing_disk(settings, path)?, false)?)
}

pub(crate) fn open_read_only(settings: &Builder, path: &Path) -> Result<Database> {
    settings.validate()?;
    let disk = Arc::new(OverlayDisk::new(existing_disk(settings, path)?));
    open_on(Ground::new(settings, disk, true)?)
}

/// The disk, if there is a database on it.
fn existing_disk(settings: &Builder, path: &Path) -> Result<Arc<dyn Disk>> {
    let none = || Error::NotADatabase(path.display().to_string());
    let disk: Arc<dyn Disk> = match &settings.disk {
        Some(disk) => Arc::clone(disk),
        None if !path.is_dir() => return Err(none()),
        None => Arc::new(FileDisk::open(path, settings.flush_method)?),
    };
    if disk.exists(META)? {
        return Ok(disk);
    }
    create::refuse_remains(&*disk)?;
    Err(none())
}

/// The files of an open database.
pub(crate) struct Files {
    pub meta: Meta,
    pub wal_config: WalConfig,
    pub store: Arc<Store>,
    pub system: Arc<SpaceFile>,
    pub undo: Arc<SpaceFile>,
    /// The tables' files that recovery has met.
    pub opened: HashMap<SpaceId, Result<Arc<SpaceFile>>>,
}

fn open_on(ground: Ground) -> Result<Database> {
    let disk = &ground.disk;
    let meta = Meta::read(&**disk)?.ok_or_else(|| Error::NotADatabase(disk.location()))?;
    let page_size = meta.page_size;
    if let Some(asked) = ground.settings.page_size
        && asked != page_size
    {
        let what = format!("page_size = {asked}, but the database has pages of {page_size} bytes; leave it out");
        return Err(Error::invalid(what));
    }
    for name in [CHECKPOINT_FILE, SYSTEM.1, UNDO.1] {
        if !disk.exists(name)? {
            return Err(Error::damaged_file(name, "it is missing"));
        }
    }
    let wal_config = ground.wal_config(page_size);
    let metrics = Arc::clone(&ground.metrics);
    let (wal, recovery) = Wal::open(Arc::clone(disk), meta.uuid, wal_config.clone(), metrics)?;
    let torn =
        restore_torn_pages(&**disk, page_size, recovery.checkpoint_lsn(), &mut |id| data_file(&**disk, &meta, id))?;
    ground.metrics.add(Counter::DblwrPagesRestored, torn.restored.len() as u64);
    let store = ground.store(page_size, &wal)?;
    let open = |(id, name): (SpaceId, &str)| open_space(&**disk, &store, &meta, id, name);
    let (system, undo) = (open(SYSTEM)?, open(UNDO)?);
    let payload = recovery.checkpoint_payload().to_vec();
    let mut files = Files { meta, wal_config, store: Arc::clone(&store), system, undo, opened: HashMap::default() };
    redo(&ground, &mut files, recovery)?;
    let txns = TxnSystem::open(&store, &files.undo, ground.txn_config(page_size), &payload)?;
    start(ground, files, txns)
}

/// The file of a space, whose pages may be torn, or `None` if there is none, or another database's in its place.
fn data_file(disk: &dyn Disk, meta: &Meta, id: SpaceId) -> Result<Option<Arc<dyn File>>> {
    let name = match id {
        id if id == SYSTEM.0 => SYSTEM.1.to_string(),
        id if id == UNDO.0 => UNDO.1.to_string(),
        id => file_name(id),
    };
    if !disk.exists(&name)? {
        return Ok(None);
    }
    let file = disk.open(&name, OpenOptions::new(FileKind::Data))?;
    let header = sound_header(&*file, id, meta.page_size)?;
    Ok(header.is_none_or(|header| header.uuid == meta.uuid).then_some(file))
}

/// The header of a space's file, if its first page is what was written there.
fn sound_header(file: &dyn File, id: SpaceId, page_size: usize) -> Result<Option<SpaceHeader>> {
    if file.len()? < page_size as u64 {
        return Ok(None);
    }
    let mut first = AlignedBuf::zeroed(page_size);
    file.read_at(0, &mut first)?;
    let is_sound = page::check(&first, PageId::new(id, PageNo(0))).is_ok();
    Ok(if is_sound { SpaceHeader::decode(&first) } else { None })
}

/// Opens the file of a space. That it is missing, or is none, is damage: the database is there.
fn open_space(disk: &dyn Disk, store: &Arc<Store>, meta: &Meta, id: SpaceId, name: &str) -> Result<Arc<SpaceFile>> {
    if !disk.exists(name)? {
        return Err(Error::damaged_file(name, "it is missing"));
    }
    match SpaceFile::open(store, disk, id, name, meta.uuid, false) {
        Err(Error::NotADatabase(_)) => Err(Error::damaged_file(name, "its header is not one")),
        result => result,
    }
}

/// Opens the file of a table. Why it cannot be used is no error of the database.
fn open_table(disk: &dyn Disk, store: &Arc<Store>, meta: &Meta, id: SpaceId) -> Result<Arc<SpaceFile>> {
    open_space(disk, store, meta, id, &file_name(id))
}

/// Bytes of log between two calls of the progress callback.
const PROGRESS_EVERY: u64 = 4 << 20;

/// Applies the log from the checkpoint to its end, and opens it for appending.
fn redo(ground: &Ground, files: &mut Files, mut recovery: Recovery) -> Result<()> {
    let (disk, store, meta) = (Arc::clone(&ground.disk), Arc::clone(&files.store), files.meta.clone());
    let own: [Arc<Space>; 2] = [&files.system, &files.undo].map(|s| Arc::clone(s.space()));
    let opened = &mut files.opened;
    let mut redo = Redo::new(&files.store, move |id| {
        if let Some(space) = own.iter().find(|s| s.id() == id) {
            return Ok(Some(Arc::clone(space)));
        }
        if !disk.exists(&file_name(id))? {
            return Ok(None);
        }
        let file = opened.entry(id).or_insert_with(|| open_table(&*disk, &store, &meta, id));
        match file {
            Ok(file) => Ok(Some(Arc::clone(file.space()))),
            // Its table is lost to its users, with what the log has for it.
            Err(error) if error.is_damage() || matches!(error, Error::Incompatible(_)) => Ok(None),
            // It may be there the next time, and this log may not.
            Err(error) => Err(error.clone()),
        }
    })
    .pass_over(|id| id != SYSTEM.0 && !holdfast_base::planted!("redo-stops-at-damage"));
    let access = files.store.pool().access(AccessKind::Recovery);
    let report = |recovery: &Recovery| {
        if let Some(callback) = &ground.settings.on_recovery_progress {
            let progress = recovery.progress();
            callback(RecoveryProgress { log_bytes_done: progress.done, log_bytes_total: progress.total });
        }
    };
    let mut reported = recovery.checkpoint_lsn();
    report(&recovery);
    while let Some(group) = recovery.next()? {
        let end = group.end;
        redo.apply(group.start, end, group.payload, &access)?;
        if end.since(reported) >= PROGRESS_EVERY {
            reported = end;
            report(&recovery);
        }
    }
    report(&recovery);
    drop(redo);
    recovery.finish()?;
    // That a file grew may have been lost although the log knows of it.
    let own = [&files.system, &files.undo];
    for space in files.opened.values().filter_map(|file| file.as_ref().ok()).chain(own) {
        match space.finish_recovery(&access) {
            // A damaged table is an error of its users, not of the open.
            Err(error) if error.is_damage() => {}
            result => result?,
        }
    }
    Ok(())
}

/// From open files to an open database: catalog, tables, background work.
pub(crate) fn start(ground: Ground, mut files: Files, txns: Arc<TxnSystem>) -> Result<Database> {
    let catalog = Catalog::open(&files.system, files.meta.catalog_root);
    txns.register(&catalog.index);
    let Contents { tables: mut records, next, unused } = catalog.read(&txns)?;
    settle_doubts(&ground, &mut files, &mut records, next)?;
    let strangers = remove_orphans(&ground, &mut files, &records, next)?;
    let provider = Arc::clone(&txns);
    files.store.pool().set_checkpoint_payload(move |_| provider.checkpoint_payload());
    let metrics = Arc::clone(&ground.metrics);
    let shared = Arc::new(Shared {
        policy: Mutex::new(ground.settings.policy),
        scan_hints: AtomicBool::new(ground.settings.scan_hints),
        status_since: Mutex::new(Previous::new(metrics.snapshot())),
        pool_stats_since: Mutex::new(Previous::new(metrics.snapshot())),
        read_only: ground.read_only,
        settings: ground.settings,
        meta: files.meta,
        disk: ground.disk,
        clock: ground.clock,
        metrics,
        wal_config: files.wal_config,
        system: files.system,
        undo: files.undo,
        catalog,
        txn_references: Spread::new(|| local(Arc::clone(&txns))),
        txns,
        ddl: Mutex::new(next),
        schema: Spread::new(|| RwLock::new(Local::default())),
        compacting: Mutex::default(),
        strangers,
        closed: AtomicBool::new(false),
        process: ground.lease.taker(),
        stopped: Mutex::new(false),
        store: files.store,
        lease: ground.lease,
    });
    let table = |(name, record): (String, TableRecord)| {
        let id = record.space;
        let space = match files.opened.remove(&id) {
            _ if !record.is_readable() => Err(Error::damaged_file(SYSTEM.1, unreadable(&name))),
            Some(space) => space,
            None => open_table(&*shared.disk, &shared.store, &shared.meta, id),
        };
        let store = Arc::new(TableStore::open(&shared, &record, space, Origin::Found));
        Arc::new(TableHandle::new(name, record, store))
    };
    // A reader cannot drop what an earlier run left of temporary tables, and passes over it.
    records.retain(|(_, record)| !(shared.read_only && record.temporary));
    let schema = Schema::new(records.into_iter().map(table));
    for table in schema.tables() {
        // A crash came between a change of the catalog and what the file says of it.
        if let Ok(space) = table.store.space()
            && !shared.read_only
            && !table.record.temporary
            && table_file::may_go(space).unwrap_or(false)
        {
            shared.check().and_then(|()| table_file::set_may_go(space, false).or_else(|_| shared.check()))?;
        }
    }
    shared.publish_schema(schema);
    crate::alter::sweep(&shared, unused)?;
    if !shared.read_only {
        crate::ddl::drop_temporary_tables(&shared)?;
    }
    shared.txns.start()?;
    if shared.settings.warm_up {
        let pool = Arc::downgrade(shared.pool());
        shared.pool().start_warmup(move |id| pool.upgrade()?.space(id))?;
    }
    Ok(Database::new(shared))
}

/// Makes records unreadable that contradict others and that their files do not bear out.
fn settle_doubts(
    ground: &Ground,
    files: &mut Files,
    records: &mut [(String, TableRecord)],
    next: NextIds,
) -> Result<()> {
    for at in doubt::in_doubt(records, next) {
        let Files { store, meta, opened, .. } = &mut *files;
        let record = &mut records[at].1;
        let space = opened.entry(record.space).or_insert_with(|| open_table(&*ground.disk, store, meta, record.space));
        let access = store.pool().access(AccessKind::Point);
        let mut page = |no| {
            let page = store.pool().fix_shared(space.as_ref().ok()?.space(), no, &access).ok()?;
            page::PageHeader::decode(&page)
        };
        if !doubt::is_borne_out(record, &mut page) {
            *record = TableRecord::unreadable();
        }
    }
    if next.are_above(records.iter().map(|(_, record)| record)) {
        return Ok(());
    }
    Err(Error::damaged_file(SYSTEM.1, "the catalog would give out numbers that its tables have"))
}

/// What is wrong with a table whose record cannot be decoded.
pub(crate) fn unreadable(table: &str) -> String {
    format!(
        "the catalog's record of table `{table}` is none, or contradicts its file; the table can be dropped, its file stays"
    )
}

/// Removes the files of tables that the catalog does not know: a creation or a drop was cut short. One that is not known to be such a leftover
/// stays; the names of those.
fn remove_orphans(
    ground: &Ground,
    files: &mut Files,
    records: &[(String, TableRecord)],
    next: NextIds,
) -> Result<Vec<String>> {
    let (mut removed, mut strangers) = (false, Vec::new());
    for name in ground.disk.list()? {
        let Some(id) = space_of(&name) else { continue };
        if records.iter().any(|(_, record)| record.space == id) {
            continue;
        }
        if !is_leftover(ground, files, next, id, &name)? {
            strangers.push(name);
            continue;
        }
        if let Some(Ok(space)) = files.opened.remove(&id) {
            space.close(true)?;
        }
        ground.disk.remove(&name)?;
        removed = true;
    }
    if removed {
        ground.disk.sync_dir()?;
    }
    Ok(strangers)
}

/// Whether the file of a space that the catalog does not know was left by a creation or a drop of this database: the catalog has given
/// its number out, and its header, unless a crash came before that, is of this database and says that the file
/// [may go](MAY_GO). A table that was lost from a damaged catalog keeps its file.
fn is_leftover(ground: &Ground, files: &Files, next: NextIds, id: SpaceId, name: &str) -> Result<bool> {
    if id.0 >= next.granted || id.0 < NextIds::FIRST.space {
        return Ok(false);
    }
    if let Some(Ok(space)) = files.opened.get(&id) {
        // As redo has made it.
        return Ok(table_file::may_go(space).unwrap_or(false));
    }
    let file = ground.disk.open(name, OpenOptions::new(FileKind::Data).read_only(true))?;
    let page_size = files.meta.page_size;
    let mut first = AlignedBuf::zeroed(page_size);
    let there = file.len()?.min(page_size as u64) as usize;
    file.read_at(0, &mut first[..there])?;
    let Some(header) = SpaceHeader::decode(&first) else { return Ok(first.iter().all(|&byte| byte == 0)) };
    Ok(header.uuid == files.meta.uuid && header.id == id && header.marks[MAY_GO] != 0)
}
