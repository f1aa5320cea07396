//! Opening a database: lock, `holdfast.meta`, log, torn pages, redo, transactions, catalog.
//!
//! A database exists as soon as `holdfast.meta` does. Opening checks everything before it starts
//! anything; what fails names the file. A file of a table that cannot be opened disables that table
//! alone. Nothing is written to, or removed, that does not say that it belongs to this database
//! (see [`start`] and [`data_file`]).

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, HashMap, Lsn, PageId, PageNo, Result, SpaceId, page};
use holdfast_io::{AlignedBuf, Disk, File, FileDisk, FileKind, OpenOptions};
use holdfast_metrics::Counter;
use holdfast_pool::{AccessKind, Space, restore_torn_pages};
use holdfast_tree::Redo;
use holdfast_tree::space::SpaceHeader;
use holdfast_txn::TxnSystem;
use holdfast_wal::{CHECKPOINT_FILE, Recovery, Wal};

use crate::instance::Instance;
use crate::instance::environment::{Environment, SYSTEM, UNDO};
use crate::instance::files::{Files, open_space, open_table};
use crate::instance::meta::{META, Meta};
use crate::instance::overlay::OverlayDisk;
use crate::instance::settings::{Builder, RecoveryProgress};
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
    let store = environment.store(page_size, &wal)?;
    let open = |(id, name): (SpaceId, &str)| open_space(&**disk, &store, &meta, id, name);
    let (system, undo) = (open(SYSTEM)?, open(UNDO)?);
    let payload = recovery.checkpoint_payload().to_vec();
    let (opened, withheld) = (HashMap::default(), HashMap::default());
    let mut files = Files { meta, wal_config, store: Arc::clone(&store), system, undo, opened, withheld };
    redo(&environment, &mut files, recovery)?;
    let txns = TxnSystem::open(&store, &files.undo, environment.txn_config(page_size), &payload)?;
    start(environment, files, txns)
}

/// The file of a space, whose pages may be torn, or `None` if there is none, or another database's
/// in its place.
fn data_file(disk: &dyn Disk, meta: &Meta, id: SpaceId) -> Result<Option<Arc<dyn File>>> {
    let name = id.file_name();
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

/// Applies the log from the checkpoint to its end, and opens it for appending.
fn redo(environment: &Environment, files: &mut Files, mut recovery: Recovery) -> Result<()> {
    let (disk, store, meta) = (Arc::clone(&environment.disk), Arc::clone(&files.store), files.meta.clone());
    let own: [Arc<Space>; 2] = [&files.system, &files.undo].map(|s| Arc::clone(s.space()));
    let opened = &mut files.opened;
    let redo = Redo::new(&files.store, move |id| {
        if let Some(space) = own.iter().find(|s| s.id() == id) {
            return Ok(Some(Arc::clone(space)));
        }
        if !disk.exists(&id.file_name())? {
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
    // A page that the device does not return disables its table, and the log is kept for it.
    let unread: Arc<Mutex<Vec<(SpaceId, Lsn, Error)>>> = Arc::default();
    let noted = Arc::clone(&unread);
    let redo = redo.withhold(move |id, lsn, error| {
        let is_table = ![SYSTEM.0, UNDO.0].contains(&id);
        if is_table {
            noted.lock().push((id, lsn, error.clone()));
        }
        is_table
    });
    let access = files.store.pool().access(AccessKind::Recovery);
    let log_bytes_total = recovery.progress().total;
    let mut report = |log_bytes_done| {
        if let Some(callback) = &environment.settings.on_recovery_progress {
            callback(RecoveryProgress { log_bytes_done, log_bytes_total });
        }
    };
    report(0);
    redo.run(&mut recovery, &mut report)?;
    for (id, lsn, error) in unread.lock().drain(..) {
        files.store.pool().hold_checkpoint(id, lsn, error.clone());
        if let Some(Ok(space)) = files.opened.insert(id, Err(error)) {
            files.withheld.insert(id, space);
        }
    }
    recovery.finish()?;
    // That a file grew may have been lost although the log knows of it.
    let own = [&files.system, &files.undo];
    for space in files.opened.values().filter_map(|file| file.as_ref().ok()).chain(own) {
        match space.finish_recovery(&access) {
            // A damaged table is an error of its users, not of the open, and so is a full disk one
            // of the statements that need room.
            Err(error) if error.is_damage() || matches!(error, Error::DiskFull(_)) => {}
            result => result?,
        }
    }
    Ok(())
}
