//! The files of a database while it is opened.

use std::sync::Arc;

use holdfast_base::{Error, HashMap, Result, SpaceId};
use holdfast_io::Disk;
use holdfast_tree::{SpaceFile, Store};
use holdfast_wal::WalConfig;

use crate::instance::meta::Meta;

/// Files of tables, or why they cannot be used.
pub(crate) type Opened = HashMap<SpaceId, Result<Arc<SpaceFile>>>;
/// Files of tables that redo has set aside: they are open and nothing but a salvage uses them, or
/// they are not open, and the log is kept for them.
pub(crate) type Withheld = HashMap<SpaceId, Option<Arc<SpaceFile>>>;

/// The files of an open database.
pub(crate) struct Files {
    pub meta: Meta,
    pub wal_config: WalConfig,
    pub store: Arc<Store>,
    pub system: Arc<SpaceFile>,
    pub undo: Arc<SpaceFile>,
    /// The tables' files that recovery has met.
    pub opened: Opened,
    /// Those of them that are set aside: among `opened` is the error.
    pub withheld: Withheld,
    /// Files of the log that cannot be read and that recovery does not need, and why.
    pub unread_log: Vec<(String, Error)>,
}

/// Opens the file of a space. That it is missing, or is none, is damage: the database is there.
pub(crate) fn open_space(
    disk: &dyn Disk,
    store: &Arc<Store>,
    meta: &Meta,
    id: SpaceId,
    name: &str,
) -> Result<Arc<SpaceFile>> {
    if !disk.exists(name)? {
        return Err(Error::damaged_file(name, "it is missing"));
    }
    match SpaceFile::open(store, disk, id, name, meta.uuid, false) {
        Err(Error::NotADatabase(_)) => Err(Error::damaged_file(name, "its first page is no header of a space")),
        result => result,
    }
}

/// Opens the file of a table. Why it cannot be used is no error of the database.
pub(crate) fn open_table(disk: &dyn Disk, store: &Arc<Store>, meta: &Meta, id: SpaceId) -> Result<Arc<SpaceFile>> {
    open_space(disk, store, meta, id, &id.file_name())
}
