//! The one error type of all floors. Each message says what to do.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::PageId;

/// `Result` with Holdfast's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kinds of failures that a caller can act on. Cheap to clone: an error that poisons a database
/// is reported to every later caller.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file. Nothing was lost; the call may be
    /// repeated.
    #[error("{operation} {file}: {source}")]
    Io {
        /// The operation: "read", "write", "sync", ...
        operation: &'static str,
        /// The file, as named in the database directory, with the offset where there is one.
        file: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// No room on the device. The statement failed and was undone. Free some space and repeat it.
    #[error("no space left on the device: {0}; free some space and repeat what has failed")]
    DiskFull(String),
    /// A page on disk differs from what was written. Its table is unusable; other tables are not
    /// affected.
    #[error(
        "page {} of {} is damaged: {what}; restore it from a backup, or rescue what can be read with `holdfast check --salvage`",
        .page.no, .page.space.file_name()
    )]
    DamagedPage {
        /// The page.
        page: PageId,
        /// The difference.
        what: String,
    },
    /// A file of the database (not a data page) differs from what was written.
    #[error(
        "{file} is damaged: {what}; restore the database from a backup, or rescue what can be read with `holdfast check --salvage`"
    )]
    DamagedFile {
        /// The file, as named in the database directory.
        file: String,
        /// The damage, and its position.
        what: String,
    },
    /// After an earlier failure (a failed fsync, a mini-transaction that stopped halfway) it is
    /// unknown what is durable. Every later call fails with this error. Close the database and open
    /// it again to recover from the log.
    #[error("the database stopped after an earlier failure: {0}; close and reopen it to recover")]
    Poisoned(Arc<str>),
    /// Another process, or another handle of this one, has the database open.
    #[error("{0} is already open; a database can be opened by one process at a time, or by several that only read")]
    AlreadyOpen(String),
    /// The directory contains no database.
    #[error("{0} is not a Holdfast database; create it first")]
    NotADatabase(String),
    /// The directory contains a database already; for a backup: any file.
    #[error("{0} is not empty; open the database that it holds, or choose an empty directory")]
    AlreadyExists(String),
    /// The database, or one of its files, was written by a newer version, with features that this
    /// one does not know.
    #[error("{0}")]
    Incompatible(String),
    /// A write to a database, or in a transaction, that is read-only.
    #[error("{0} is read-only")]
    ReadOnly(&'static str),
    /// An argument or a setting is out of range.
    #[error("{0}")]
    InvalidArgument(String),
    /// The table does not exist.
    #[error("table `{0}` does not exist")]
    TableNotFound(String),
    /// The table exists already.
    #[error("table `{0}` exists already")]
    TableExists(String),
    /// The table is open with another definition (types, indexes) than it was created with.
    #[error("table `{table}`: {what}")]
    TableMismatch {
        /// The table.
        table: String,
        /// The difference.
        what: String,
    },
    /// The key exists already (from `insert`), or a unique index forbids the row.
    #[error("the key exists already")]
    DuplicateKey,
    /// The key is longer than a quarter of the page.
    #[error("a key of {len} bytes is longer than the {max} bytes that this page size allows")]
    KeyTooLong {
        /// Bytes of the key.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The value is longer than 4 GiB - 1.
    #[error("a value of {len} bytes is longer than the {max} bytes allowed")]
    ValueTooLong {
        /// Bytes of the value.
        len: u64,
        /// Bytes allowed.
        max: u64,
    },
    /// Snapshot isolation: another transaction changed the row after this one's snapshot. Roll back
    /// and retry.
    #[error("another transaction changed the row first; roll back and retry the transaction")]
    Conflict,
    /// A part of the transaction could neither be kept nor undone. The transaction can only be
    /// rolled back.
    #[error("a part of the transaction could not be undone; roll the transaction back")]
    HalfUndone,
    /// This transaction was chosen as the victim of a deadlock and has to be rolled back.
    #[error("deadlock; roll back and retry the transaction")]
    Deadlock,
    /// A lock was not granted in time, or another transaction kept a table from being changed. What
    /// was asked for was not done; a transaction that asked can go on.
    #[error(
        "lock wait timeout: another transaction keeps the row or the table; the call had no effect, and its transaction \
         can go on"
    )]
    LockTimeout,
    /// The row is locked and the caller asked not to wait.
    #[error("the row is locked by another transaction")]
    WouldBlock,
    /// The wait was interrupted from outside (a killed query).
    #[error("interrupted")]
    Interrupted,
    /// Old versions reached their limit and this snapshot was the oldest of those that may be given
    /// up, or what it reads is younger. Begin a new one.
    #[error(
        "snapshot too old: the versions that it needs were given up to stay within the limit, or the table or index \
         that it reads was made after it; begin a new transaction"
    )]
    SnapshotTooOld,
    /// A limit is exceeded: undo of one transaction, bytes of log or frames of one change, the size
    /// of a table's file, or the numbers of tables and indexes. The statement was undone.
    #[error("{0}")]
    LimitReached(String),
    /// The database of the handle is closed, or the transaction has ended.
    #[error("{0} is closed")]
    Closed(&'static str),
}

impl Error {
    /// Returns the error for `operation` on `file` that failed with `source`. A full disk becomes
    /// [`Error::DiskFull`].
    #[must_use]
    pub fn io(operation: &'static str, file: impl fmt::Display, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::StorageFull || source.kind() == io::ErrorKind::QuotaExceeded {
            return Error::DiskFull(format!("{operation} {file}"));
        }
        Error::Io { operation, file: file.to_string(), source: Arc::new(source) }
    }

    /// Returns the error for a damaged page.
    #[must_use]
    pub fn damaged_page(page: PageId, what: impl Into<String>) -> Error {
        Error::DamagedPage { page, what: what.into() }
    }

    /// Returns the error for a damaged file.
    #[must_use]
    pub fn damaged_file(file: impl fmt::Display, what: impl Into<String>) -> Error {
        Error::DamagedFile { file: file.to_string(), what: what.into() }
    }

    /// Returns the error for an argument or setting out of range.
    #[must_use]
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::InvalidArgument(what.into())
    }

    /// True if a retry of the whole transaction may succeed: conflicts and deadlocks.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Conflict | Error::Deadlock)
    }

    /// True if stored bytes differ from what was written.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::DamagedPage { .. } | Error::DamagedFile { .. })
    }

    /// True if the system did not return what is stored. It may the next time.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        matches!(self, Error::Io { operation: "read" | "open" | "stat", .. })
    }

    /// True if the system refuses a file to this user: that says nothing of what is stored there.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_its_own_kind() {
        let full = Error::io("write", "t.hf", io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Error::DiskFull(_)));
        let other = Error::io("write", "t.hf", io::Error::other("EIO"));
        assert_eq!(other.to_string(), "write t.hf: EIO");
    }

    #[test]
    fn what_is_not_returned_may_be_refused() {
        let eio = |operation| Error::io(operation, "t.hf", io::Error::other("EIO"));
        assert!(["read", "open", "stat"].into_iter().all(|operation| eio(operation).is_unread()));
        assert!(!eio("write").is_unread() && !eio("open").is_refusal());
        let refused = Error::io("open", "t.hf", io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(refused.is_unread() && refused.is_refusal() && !refused.is_damage());
    }

    #[test]
    fn a_damaged_page_is_named_with_its_file() {
        for (space, file) in [(0, "system.hf"), (1, "undo.hf"), (16, "t16.hf")] {
            let page = PageId::new(crate::SpaceId(space), crate::PageNo(3));
            let message = Error::damaged_page(page, "its checksum does not match").to_string();
            assert!(message.starts_with(&format!("page 3 of {file} is damaged: its checksum")), "{message}");
        }
    }
}
