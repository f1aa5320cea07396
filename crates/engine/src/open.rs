//! Creating a database, and opening one: lock, `holdfast.meta`, log, torn pages, redo, transactions, catalog.
//!
//! A database exists as soon as `holdfast.meta` does, which is written last when it is created; what an attempt that was
//! cut short leaves is removed by the next one. Opening checks everything before it starts anything; what fails names
//! the file. A file of a table that cannot be opened disables that table alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use holdfast_base::HashMap;
use holdfast_base::blocking::{Mutex, RwLock};
use holdfast_base::{Error, Result, SpaceId, limits};
use holdfast_io::{Clock, DirLock, Disk, File, FileDisk, FileKind, MemoryDisk, MeteredDisk, OpenOptions, RealClock};
use holdfast_metrics::{Counter, Local, Metrics, Spread, local};
use holdfast_pool::{AccessKind, Pool, PoolConfig, Space, restore_torn_pages};
use holdfast_tree::{Redo, SpaceFile, Store};
use holdfast_txn::{TxnConfig, TxnSystem};
use holdfast_wal::{Recovery, Wal, WalConfig};

use crate::Database;
use crate::catalog::{self, Catalog, Contents, TableRecord};
use crate::meta::{META, Meta};
use crate::overlay::OverlayDisk;
use crate::schema::{Origin, Schema, TableHandle, TableStore};
use crate::settings::{Builder, RecoveryProgress};
use crate::shared::{Shared, policy_kind};
use crate::status::Previous;
use crate::table_file::{file_name, space_of};

/// The space of catalog and version tree, and its file.
const SYSTEM: (SpaceId, &str) = (SpaceId(0), "system.hf");
/// The space of the undo logs, and its file.
const UNDO: (SpaceId, &str) = (SpaceId(1), "undo.hf");

/// What is known before the files are opened.
struct Ground {
    settings: Builder,
    disk: Arc<dyn Disk>,
    lock: DirLock,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    read_only: bool,
}

/// The double-write file grows to the log's capacity, because its images are of use until the next checkpoint, and no further than this: it is read when the
/// database is opened.
const DOUBLEWRITE_MAX: u64 = 128 << 20;

impl Ground {
    fn new(settings: &Builder, disk: Arc<dyn Disk>, read_only: bool) -> Result<Ground> {
        let lock = disk.lock()?;
        let clock = settings.clock.clone().unwrap_or_else(|| Arc::new(RealClock::new()));
        let metrics = Metrics::new();
        let disk = Arc::new(MeteredDisk::new(disk, Arc::clone(&metrics)));
        Ok(Ground { settings: settings.clone(), disk, lock, clock, metrics, read_only })
    }

    fn wal_config(&self, page_size: usize) -> WalConfig {
        WalConfig {
            capacity_bytes: self.settings.log_capacity_bytes,
            buffer_bytes: self.settings.log_buffer_bytes as usize,
            flush: self.settings.flush_at_commit.into(),
            page_size: page_size as u32,
            ..WalConfig::default()
        }
    }

    fn txn_config(&self, page_size: usize) -> TxnConfig {
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

    fn store(&self, page_size: usize, wal: &Arc<Wal>) -> Result<Arc<Store>> {
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

pub(crate) fn create(settings: &Builder, path: &Path) -> Result<Database> {
    settings.validate()?;
    let disk = match &settings.disk {
        Some(disk) => Arc::clone(disk),
        None => Arc::new(FileDisk::create(path, settings.flush_method)?),
    };
    create_on(settings, disk)
}

pub(crate) fn in_memory(settings: &Builder) -> Result<Database> {
    settings.validate()?;
    create_on(settings, Arc::new(MemoryDisk::new()))
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
    if disk.exists(META)? { Ok(disk) } else { Err(none()) }
}

/// Whether `name` is that of a file which a creation makes.
fn is_own_file(name: &str) -> bool {
    ["wal.", "checkpoint", "doublewrite", "warmup", META].iter().any(|own| name.starts_with(own))
        || [SYSTEM.1, UNDO.1].contains(&name)
        || space_of(name).is_some()
}

fn create_on(settings: &Builder, disk: Arc<dyn Disk>) -> Result<Database> {
    let ground = Ground::new(settings, disk, false)?;
    let disk = &ground.disk;
    if disk.exists(META)? {
        return Err(Error::AlreadyExists(disk.describe()));
    }
    let files = disk.list()?;
    if let Some(other) = files.iter().find(|name| !is_own_file(name)) {
        let what =
            format!("{} holds `{other}`, which is no part of a database; choose an empty directory", disk.describe());
        return Err(Error::invalid(what));
    }
    files.iter().try_for_each(|name| disk.remove(name))?;
    let page_size = settings.page_size.unwrap_or(limits::PAGE_SIZE_DEFAULT);
    let [high, low] = [holdfast_base::random_number(), holdfast_base::random_number()];
    let uuid = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    let wal_config = ground.wal_config(page_size);
    let wal = Wal::create(Arc::clone(disk), uuid, wal_config.clone(), Arc::clone(&ground.metrics))?;
    let store = ground.store(page_size, &wal)?;
    let system = SpaceFile::create(&store, &**disk, SYSTEM.0, SYSTEM.1, uuid)?;
    let undo = SpaceFile::create(&store, &**disk, UNDO.0, UNDO.1, uuid)?;
    let access = store.pool().access(AccessKind::Point);
    let catalog_root = catalog::create_tree(&system, &access)?;
    drop(access);
    let txns = TxnSystem::create(&store, &undo, ground.txn_config(page_size))?;
    wal.flush_to(wal.next_lsn())?;
    let meta = Meta { page_size, uuid, catalog_root };
    meta.write(&**disk)?;
    start(ground, Files { meta, wal_config, store, system, undo, opened: HashMap::default() }, txns)
}

/// The files of an open database.
struct Files {
    meta: Meta,
    wal_config: WalConfig,
    store: Arc<Store>,
    system: Arc<SpaceFile>,
    undo: Arc<SpaceFile>,
    /// The tables' files that recovery has met.
    opened: HashMap<SpaceId, Result<Arc<SpaceFile>>>,
}

fn open_on(ground: Ground) -> Result<Database> {
    let disk = &ground.disk;
    let meta = Meta::read(&**disk)?.ok_or_else(|| Error::NotADatabase(disk.describe()))?;
    let page_size = meta.page_size;
    if let Some(asked) = ground.settings.page_size
        && asked != page_size
    {
        let what = format!("page_size = {asked}, but the database has pages of {page_size} bytes; leave it out");
        return Err(Error::invalid(what));
    }
    let wal_config = ground.wal_config(page_size);
    let metrics = Arc::clone(&ground.metrics);
    let (wal, recovery) = Wal::open(Arc::clone(disk), meta.uuid, wal_config.clone(), metrics)?;
    let torn = restore_torn_pages(&**disk, page_size, recovery.checkpoint_lsn(), &mut |id| data_file(&**disk, id))?;
    ground.metrics.add(Counter::DblwrPagesRestored, torn.restored.len() as u64);
    let store = ground.store(page_size, &wal)?;
    let open = |(id, name): (SpaceId, &str)| SpaceFile::open(&store, &**disk, id, name, meta.uuid, false);
    let (system, undo) = (open(SYSTEM)?, open(UNDO)?);
    let payload = recovery.checkpoint_payload().to_vec();
    let mut files = Files { meta, wal_config, store: Arc::clone(&store), system, undo, opened: HashMap::default() };
    redo(&ground, &mut files, recovery)?;
    let txns = TxnSystem::open(&store, &files.undo, ground.txn_config(page_size), &payload)?;
    start(ground, files, txns)
}

/// The file of a space, or `None` if there is none.
fn data_file(disk: &dyn Disk, id: SpaceId) -> Result<Option<Arc<dyn File>>> {
    let name = match id {
        id if id == SYSTEM.0 => SYSTEM.1.to_string(),
        id if id == UNDO.0 => UNDO.1.to_string(),
        id => file_name(id),
    };
    if !disk.exists(&name)? {
        return Ok(None);
    }
    disk.open(&name, OpenOptions::new(FileKind::Data)).map(Some)
}

/// Opens the file of a table. Why it cannot be used is no error of the database.
fn open_table(disk: &dyn Disk, store: &Arc<Store>, meta: &Meta, id: SpaceId) -> Result<Arc<SpaceFile>> {
    let name = file_name(id);
    if !disk.exists(&name)? {
        return Err(Error::damaged_file(name, "it is missing"));
    }
    match SpaceFile::open(store, disk, id, &name, meta.uuid, false) {
        Err(Error::NotADatabase(_)) => Err(Error::damaged_file(name, "its header is not one")),
        result => result,
    }
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
            // Its table is lost to those who use it, with what the log has for it.
            Err(error) if error.is_damage() => Ok(None),
            // It may be there the next time, and this log may not.
            Err(error) => Err(error.clone()),
        }
    })
    .pass_over(|id| id != SYSTEM.0 && id != UNDO.0);
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
            // A damaged table is an error of those who use it.
            Err(error) if error.is_damage() => {}
            result => result?,
        }
    }
    Ok(())
}

/// From open files to an open database: catalog, tables, background work.
fn start(ground: Ground, mut files: Files, txns: Arc<TxnSystem>) -> Result<Database> {
    let catalog = Catalog::open(&files.system, files.meta.catalog_root);
    txns.register(&catalog.index);
    let Contents { tables: records, next, unused } = catalog.read(&txns)?;
    remove_orphans(&ground, &mut files, &records)?;
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
        closed: AtomicBool::new(false),
        store: files.store,
        _lock: ground.lock,
    });
    let table = |(name, record): (String, TableRecord)| {
        let id = record.space;
        let space = files.opened.remove(&id);
        let space = space.unwrap_or_else(|| open_table(&*shared.disk, &shared.store, &shared.meta, id));
        let store = Arc::new(TableStore::open(&shared, &record, space, Origin::Found));
        Arc::new(TableHandle::new(name, record, store))
    };
    let schema = Schema::new(records.into_iter().map(table));
    shared.publish_schema(schema);
    crate::alter::sweep(&shared, unused)?;
    shared.txns.start()?;
    if shared.settings.warm_up {
        let pool = Arc::downgrade(shared.pool());
        shared.pool().start_warmup(move |id| pool.upgrade()?.space(id))?;
    }
    Ok(Database::new(shared))
}

/// Removes the files of tables that the catalog does not know: a creation or a drop was cut short.
fn remove_orphans(ground: &Ground, files: &mut Files, records: &[(String, TableRecord)]) -> Result<()> {
    let mut removed = false;
    for name in ground.disk.list()? {
        let Some(id) = space_of(&name) else { continue };
        if records.iter().any(|(_, record)| record.space == id) {
            continue;
        }
        if let Some(Ok(space)) = files.opened.remove(&id) {
            space.close(true)?;
        }
        ground.disk.remove(&name)?;
        removed = true;
    }
    if removed { ground.disk.sync_dir() } else { Ok(()) }
}
