//! From settings to an open database.

use std::path::Path;

use crate::api::database::Database;
use crate::instance::settings::Builder;
use crate::maintenance::backup;
use crate::maintenance::report::{VerifyProgress, VerifyReport};
use crate::startup::creation;
use crate::startup::opening;
use crate::{Error, Result};

impl Builder {
    /// Creates a database in the directory `path`, which is created if need be.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if there is one; [`Error::DamagedFile`] if the directory holds
    /// files of a database without its `holdfast.meta`; [`Error::InvalidArgument`] if it holds
    /// other files, or for a setting out of range; [`Error::AlreadyOpen`], [`Error::Io`],
    /// [`Error::DiskFull`].
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Database> {
        creation::create(self, path.as_ref()).map(Database::new)
    }

    /// Opens the database in the directory `path`, and recovers it first if it was not closed.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is none; [`Error::AlreadyOpen`] if it is open elsewhere;
    /// [`Error::Incompatible`] if a newer version wrote it; [`Error::DamagedFile`] and
    /// [`Error::DamagedPage`]; [`Error::InvalidArgument`] for a setting out of range;
    /// [`Error::Io`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Database> {
        opening::open(self, path.as_ref()).map(Database::new)
    }

    /// Opens the database in `path`, or creates it if there is none.
    ///
    /// # Errors
    /// The errors of [`Builder::open`] and [`Builder::create`].
    pub fn create_or_open(&self, path: impl AsRef<Path>) -> Result<Database> {
        match self.open(path.as_ref()) {
            Err(Error::NotADatabase(_)) => {}
            result => return result,
        }
        match self.create(path.as_ref()) {
            // Another program has created it since.
            Err(Error::AlreadyExists(_)) => self.open(path),
            result => result,
        }
    }

    /// Opens the database in `path` for reading. A database that was not closed is recovered into
    /// memory; nothing in the directory is changed, so it may be a copy on read-only media.
    ///
    /// # Errors
    /// The errors of [`Builder::open`].
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Database> {
        opening::open_read_only(self, path.as_ref()).map(Database::new)
    }

    /// Makes the backup in `path` ready to use: recovers it, checks all its pages, closes it.
    ///
    /// # Errors
    /// The errors of [`Builder::open`]; the first damage found; [`Error::InvalidArgument`] if the
    /// system refuses the file of a table to this user, so that it was not checked.
    pub fn restore(&self, path: impl AsRef<Path>) -> Result<VerifyReport> {
        self.restore_with(path, &|_| ())
    }

    /// As [`Builder::restore`]; `progress` is told how far the check has come, and
    /// [`Builder::on_recovery_progress`] how far the recovery before it.
    ///
    /// # Errors
    /// The errors of [`Builder::restore`].
    pub fn restore_with(&self, path: impl AsRef<Path>, progress: &dyn Fn(&VerifyProgress)) -> Result<VerifyReport> {
        backup::restore(self, path.as_ref(), progress)
    }

    /// Creates a database in memory, gone when it is closed: for tests.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a setting out of range.
    pub fn in_memory(&self) -> Result<Database> {
        creation::in_memory(self).map(Database::new)
    }
}
