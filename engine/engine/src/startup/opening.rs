//! Opening a database: lock, `holdfast.meta`, log, torn pages, redo, transactions, catalog.
//!
//! A database exists as soon as `holdfast.meta` does. Opening checks everything before it starts
//! anything; what fails names the file. A file of a table that cannot be opened disables that table
//! alone. Nothing is removed that does not say that it belongs to this database (see [`start`]),
//! and nothing is written to that says it belongs to another one (see [`data_file`]).
//!
//! **What the log has of a file that cannot be used** (see [`find_table`]) is not lost:
//! 1. A file whose header is damaged or cannot be read gets its records, so that a salvage finds
//!    what was committed. A page of it that cannot be read is withheld.
//! 2. For a file that cannot be opened, is of a newer version, has torn pages and does not take
//!    their images, cannot be synced behind them, or has a damaged header and cannot be asked
//!    whether it is another one, log and images are kept until an open can use it, or its table is
//!    dropped.
//! 3. A file that is missing, or says that it is another one, gets nothing, and nothing is kept.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, HashMap, Lsn, PageId, PageNo, Result, SpaceId, page};
use holdfast_io::{AlignedBuf, Disk, File, FileDisk, FileKind, OpenOptions};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind, Space, restore_torn_pages};
use holdfast_tree::space::SpaceHeader;
use holdfast_tree::{Redo, SpaceFile, Store};
use holdfast_txn::TxnSystem;
use holdfast_wal::{CHECKPOINT_FILE, Recovery, Wal};

use crate::instance::Instance;
use crate::instance::environment::{Environment, SYSTEM, UNDO};
use crate::instance::files::{Files, Opened, Withheld, open_space, open_table};
use crate::instance::meta::{META, Meta};
use crate::instance::overlay::OverlayDisk;
use crate::instance::settings::{Builder, RecoveryProgress};
use crate::schema::table_file::is_of_another;
use crate::startup::creation;
use crate::startup::start::start;

pub(crate) fn open(settings: &Builder, path: &Path) -> Result<Arc<Instance>> {
    settings.validate()?;
    open_on(Environment::new(settings, existing_disk(settings, path)?, false)?)
}

pub(crate) fn open_read_only(settings: &Builder, path: &Path) -> Result<Arc<Instance>> {
    settings.validate()?;
    let disk = Arc::new(OverlayDisk::new(existing_disk(settings, path)?));
    open_on(Environment::new(settings, disk, true)?)
}

/// The disk, if there is a database on it.
fn existing_disk(settings: &Builder, path: &Path) -> Result<Arc<dyn Disk>> {
    let none = || Error::NotADatabase(path.display().to_string());
    let disk: Arc<dyn Disk> = match &settings.disk {
        Some(disk) => Arc::clone(disk),
        None if !is_directory(path)? => return Err(none()),
        None => Arc::new(FileDisk::open(path, settings.flush_method)?),
    };
    if disk.exists(META)? {
        return Ok(disk);
    }
    creation::refuse_remains(&*disk)?;
    Err(none())
}

/// True if `path` is a directory, false if it is another kind of file or does not exist.
///
/// # Errors
/// Why the system does not tell, such as a directory above it without the right to search it.
fn is_directory(path: &Path) -> Result<bool> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Error::io("open", path.display(), error)),
    }
}

fn open_on(environment: Environment) -> Result<Arc<Instance>> {
    let disk = &environment.disk;
    let meta = Meta::read(&**disk)?.ok_or_else(|| Error::NotADatabase(disk.location()))?;
    let page_size = meta.page_size;
    if let Some(asked) = environment.settings.page_size
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
    let wal_config = environment.wal_config(page_size);
    let metrics = Arc::clone(&environment.metrics);
    let (wal, recovery) = Wal::open(Arc::clone(disk), meta.uuid, wal_config.clone(), metrics)?;
    let log = recovery.checkpoint_lsn()..recovery.end_lsn();
    let torn = restore_torn_pages(&**disk, page_size, log, &mut |id| data_file(&**disk, &meta, id))?;
    environment.metrics.add(Counter::DblwrPagesRestored, torn.restored.len() as u64);
    if let Some((_, error)) = torn.failed.iter().find(|(id, _)| !is_table(*id)) {
        return Err(error.clone());
    }
    let store = environment.store(page_size, &wal)?;
    store.pool().keep_images(&torn.kept);
    let open = |(id, name): (SpaceId, &str)| open_space(&**disk, &store, &meta, id, name);
    let (system, undo) = (open(SYSTEM)?, open(UNDO)?);
    let payload = recovery.checkpoint_payload().to_vec();
    let withheld = torn.failed.iter().map(|(id, _)| (*id, None)).collect();
    let opened = torn.failed.into_iter().map(|(id, error)| (id, Err(error))).collect();
    let unread_log = recovery.unread().to_vec();
    let mut files = Files { meta, wal_config, store: Arc::clone(&store), system, undo, opened, withheld, unread_log };
    redo(&environment, &mut files, recovery)?;
    let txns = TxnSystem::open(&store, &files.undo, environment.txn_config(page_size), &payload)?;
    start(environment, files, txns)
}

/// True if a space is that of a table.
fn is_table(id: SpaceId) -> bool {
    ![SYSTEM.0, UNDO.0].contains(&id)
}

/// The file of a space, whose pages may be torn, or `None` if there is none, or another database's
/// in its place.
fn data_file(disk: &dyn Disk, meta: &Meta, id: SpaceId) -> Result<Option<Arc<dyn File>>> {
    let name = id.file_name();
    if !disk.exists(&name)? {
        return Ok(None);
    }
    let file = disk.open(&name, OpenOptions::new(FileKind::Data))?;
    let header = match sound_header(&*file, id, meta.page_size) {
        // An image may replace it.
        Err(error) if error.is_unread() => None,
        header => header?,
    };
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

/// The file of a table, or of one that is gone, for redo: see the module. `None`: it gets no
/// records.
fn find_table(
    disk: &dyn Disk,
    store: &Arc<Store>,
    meta: &Meta,
    id: SpaceId,
    (opened, withheld): (&mut Opened, &mut Withheld),
) -> Option<Arc<Space>> {
    if opened.contains_key(&id) {
        // Its pages may be torn.
        return None;
    }
    let name = id.file_name();
    let file = match disk.exists(&name) {
        Ok(false) => return None,
        Ok(true) => open_table(disk, store, meta, id),
        Err(error) => Err(error),
    };
    let found = match &file {
        Ok(space) => Some(Arc::clone(space)),
        Err(Error::Incompatible(_)) => withheld.entry(id).or_default().clone(),
        Err(error) => match is_of_another(disk, id, meta.uuid) {
            Ok(true) => None,
            // What may have said so is not written to.
            Err(_) if error.is_damage() => withheld.entry(id).or_default().clone(),
            _ => withheld.entry(id).or_insert(SpaceFile::open_headless(store, disk, id, &name).ok()).clone(),
        },
    };
    opened.insert(id, file);
    found.map(|space| Arc::clone(space.space()))
}

/// Applies the log from the checkpoint to its end, and opens it for appending.
fn redo(environment: &Environment, files: &mut Files, mut recovery: Recovery) -> Result<()> {
    let (disk, store, meta) = (Arc::clone(&environment.disk), Arc::clone(&files.store), files.meta.clone());
    let own: [Arc<Space>; 2] = [&files.system, &files.undo].map(|s| Arc::clone(s.space()));
    let (opened, withheld) = (&mut files.opened, &mut files.withheld);
    let redo = Redo::new(&files.store, move |id| match own.iter().find(|s| s.id() == id) {
        Some(space) => Ok(Some(Arc::clone(space))),
        None => Ok(find_table(&*disk, &store, &meta, id, (&mut *opened, &mut *withheld))),
    })
    .pass_over(|id| id != SYSTEM.0 && !holdfast_base::planted!("redo-stops-at-damage"));
    // A page that the device does not return disables its table, and the log is kept for it.
    let unread: Arc<Mutex<Vec<(PageId, Lsn, Error)>>> = Arc::default();
    let noted = Arc::clone(&unread);
    let redo = redo.withhold(move |id, lsn, error| {
        if is_table(id.space) {
            noted.lock().push((id, lsn, error.clone()));
        }
        is_table(id.space)
    });
    let pool = Arc::clone(files.store.pool());
    let access = pool.access(AccessKind::Recovery);
    let (first, log_bytes_total) = (recovery.checkpoint_lsn(), recovery.progress().total);
    let mut report = |log_bytes_done| {
        if let Some(callback) = &environment.settings.on_recovery_progress {
            callback(RecoveryProgress { log_bytes_done, log_bytes_total });
        }
    };
    report(0);
    redo.run(&mut recovery, &mut report)?;
    withhold(files, first, std::mem::take(&mut *unread.lock()));
    recovery.finish()?;
    // That a file grew may have been lost although the log knows of it.
    let own = [&files.system, &files.undo];
    own.into_iter().try_for_each(|space| lengthen(space, &access))?;
    let tables = files.opened.iter().filter_map(|(id, file)| Some((*id, Arc::clone(file.as_ref().ok()?))));
    for (id, space) in tables.collect::<Vec<_>>() {
        if let Err(error) = lengthen(&space, &access) {
            files.store.wal().check_poisoned()?;
            pool.hold_checkpoint(id, first, error.clone());
            files.opened.insert(id, Err(error));
            files.withheld.insert(id, Some(space));
        }
    }
    Ok(())
}

/// Disables the tables that have pages which redo could not read, and keeps the log for these, and
/// from its checkpoint, `first`, on for those of the files that are set aside which are not open.
fn withhold(files: &mut Files, first: Lsn, unread: Vec<(PageId, Lsn, Error)>) {
    let pool = files.store.pool();
    let mut pages: HashMap<SpaceId, HashMap<PageNo, Error>> = HashMap::default();
    for (page, lsn, error) in unread {
        pool.hold_checkpoint(page.space, lsn, error.clone());
        pages.entry(page.space).or_default().insert(page.no, error.clone());
        if let Some(Ok(space)) = files.opened.insert(page.space, Err(error)) {
            files.withheld.insert(page.space, Some(space));
        }
    }
    for (id, space) in &files.withheld {
        match (space, files.opened.get(id)) {
            (Some(space), _) => space.space().withhold(pages.remove(id).unwrap_or_default()),
            (None, Some(Err(error))) => pool.hold_checkpoint(*id, first, error.clone()),
            (None, _) => {}
        }
    }
}

/// Makes a file as long as its header says. That its header is damaged is an error of its users,
/// and a full disk one of the statements that need room.
fn lengthen(space: &SpaceFile, access: &Access<'_>) -> Result<()> {
    match space.finish_recovery(access) {
        Err(error) if error.is_damage() || matches!(error, Error::DiskFull(_)) => Ok(()),
        result => result,
    }
}
