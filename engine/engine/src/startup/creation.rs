//! Creating a database.
//!
//! 1. `holdfast.meta.new` is made durable: from here on the directory holds a creation that has not
//!    finished.
//! 2. The log, the system space and the undo space are made.
//! 3. `holdfast.meta.new` gets its final content and is renamed to `holdfast.meta`: with that the
//!    directory holds a database.
//!
//! So a directory with the one file holds an unfinished creation, whose files the next creation
//! removes, and one with the other a database. A directory with neither, but with files of a
//! database, is what an interrupted copy or a careless deletion leaves: nothing in it is touched.
//! Nor is anything if there is a file that no creation makes, such as a table's.
//!
//! A copy knows nothing of the lock of the directory. So only files are removed that were in the
//! list by which the directory was judged: what comes behind the list stays.

use std::path::Path;
use std::sync::Arc;

use holdfast_base::{Error, Result, limits};
use holdfast_io::{Disk, FileDisk, MemoryDisk};
use holdfast_pool::AccessKind;
use holdfast_tree::SpaceFile;
use holdfast_txn::TxnSystem;
use holdfast_wal::{Wal, is_log_file};

use crate::instance::Instance;
use crate::instance::environment::{DOUBLEWRITE, Environment, SYSTEM, UNDO};
use crate::instance::files::Files;
use crate::instance::meta::{META, META_NEW, Meta};
use crate::instance::settings::Builder;
use crate::schema::catalog;
use crate::schema::table_file::space_of;
use crate::startup::start::start;

pub(crate) fn create(settings: &Builder, path: &Path) -> Result<Arc<Instance>> {
    settings.validate()?;
    let disk = match &settings.disk {
        Some(disk) => Arc::clone(disk),
        None => Arc::new(FileDisk::create(path, settings.flush_method)?),
    };
    create_on(settings, disk)
}

pub(crate) fn in_memory(settings: &Builder) -> Result<Arc<Instance>> {
    settings.validate()?;
    create_on(settings, Arc::new(MemoryDisk::new()))
}

/// True if `name` is that of a file which a creation makes.
fn is_made_by_creation(name: &str) -> bool {
    is_log_file(name) || [META_NEW, SYSTEM.1, UNDO.1, DOUBLEWRITE].contains(&name)
}

/// True if `name` is that of a file of a database.
fn is_part_of_database(name: &str) -> bool {
    is_made_by_creation(name) || [META, "warmup", "warmup.new"].contains(&name) || space_of(name).is_some()
}

/// Refuses a directory that holds files of a database without its `holdfast.meta`, unless they are
/// those of a creation that has not finished, or has finished by now.
pub(crate) fn refuse_remains(disk: &dyn Disk) -> Result<()> {
    unfinished_in(disk, disk.list()?).map(drop)
}

/// Which of `files`, all that were in the directory, are those of a creation that has not finished,
/// besides its mark.
///
/// # Errors
/// The errors of [`refuse_remains`].
fn unfinished_in(disk: &dyn Disk, files: Vec<String>) -> Result<Vec<String>> {
    let unfinished = match Meta::is_begun(disk) {
        Err(_) if disk.exists(META)? => return Ok(Vec::new()),
        begun => begun?,
    };
    // The mark itself may be torn, but then there is nothing else yet.
    let may_go = |name: &str| name == META_NEW || unfinished && is_made_by_creation(name);
    let is_remains = |name: &&String| is_part_of_database(name) && !may_go(name);
    match files.iter().find(is_remains) {
        None => Ok(files.into_iter().filter(|name| name != META_NEW && may_go(name)).collect()),
        // Another program has created the database since the caller looked for it.
        Some(_) if disk.exists(META)? => Ok(Vec::new()),
        Some(name) => {
            let what = format!(
                "it is missing, although {} holds `{name}`; a copy or backup that was cut short looks like this, and nothing was \
                 changed",
                disk.location()
            );
            Err(Error::damaged_file(META, what))
        }
    }
}

/// Refuses a directory in which no database can be created, unless there is one already. Returns
/// the files of a creation that has not finished, besides its mark.
fn refuse_others(disk: &dyn Disk) -> Result<Vec<String>> {
    if disk.exists(META)? {
        return Ok(Vec::new());
    }
    let files = disk.list()?;
    if let Some(other) = files.iter().find(|name| !is_part_of_database(name)) {
        let what =
            format!("{} holds `{other}`, which is no part of a database; choose an empty directory", disk.location());
        return Err(Error::invalid(what));
    }
    unfinished_in(disk, files)
}

fn create_on(settings: &Builder, disk: Arc<dyn Disk>) -> Result<Arc<Instance>> {
    // Before the lock, which leaves a file: a directory that is refused stays as it is.
    refuse_others(&*disk)?;
    let environment = Environment::new(settings, disk, false)?;
    let disk = &environment.disk;
    let unfinished = refuse_others(&**disk)?;
    if disk.exists(META)? {
        return Err(Error::AlreadyExists(disk.location()));
    }
    unfinished.iter().try_for_each(|name| disk.remove(name))?;
    let page_size = settings.page_size.unwrap_or(limits::PAGE_SIZE_DEFAULT);
    let [high, low] = [holdfast_base::random_number(), holdfast_base::random_number()];
    let uuid = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    Meta::begin(&**disk, page_size, uuid)?;
    let wal_config = environment.wal_config(page_size);
    let wal = Wal::create(Arc::clone(disk), uuid, wal_config.clone(), Arc::clone(&environment.metrics))?;
    let store = environment.store(page_size, &wal)?;
    let system = SpaceFile::create(&store, &**disk, SYSTEM.0, SYSTEM.1, uuid)?;
    let undo = SpaceFile::create(&store, &**disk, UNDO.0, UNDO.1, uuid)?;
    let access = store.pool().access(AccessKind::Point);
    let catalog_root = catalog::create_tree(&system, &access)?;
    drop(access);
    let txns = TxnSystem::create(&store, &undo, environment.txn_config(page_size))?;
    wal.flush_to(wal.next_lsn())?;
    let meta = Meta { page_size, uuid, catalog_root };
    meta.finish(&**disk)?;
    let (opened, withheld, unread_log) = Default::default();
    start(environment, Files { meta, wal_config, store, system, undo, opened, withheld, unread_log }, txns)
}
