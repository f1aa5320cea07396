//! The interface between the engine and a disk.
//!
//! A [`Disk`] is one database directory, a [`File`] one file in it. Calls block the calling thread
//! until the work is done. Threads share handles freely. Requests that do not overlap are
//! independent. What two overlapping requests at the same time leave behind is undefined (the
//! pool's latches rule them out).
//!
//! Durability is POSIX's and no more. Bytes and lengths are durable after [`File::sync`]. A
//! created, renamed or removed name is durable after [`Disk::sync_dir`]. Before that, each 512-byte
//! sector and each name may survive a power cut or not, in any combination.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

use holdfast_base::{Error, Result};

/// Bytes that a disk writes all or none.
pub const SECTOR: usize = 512;

/// The name of the lock file, which [`Disk::list`] leaves out.
pub const LOCK_FILE: &str = "lock";

/// What opening does if the file is missing, or exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// The file has to exist.
    #[default]
    Never,
    /// Create the file unless it exists.
    IfMissing,
    /// The file must not exist.
    New,
}

/// The use of a file, which decides how it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Pages of the pool: past the system's page cache if the file system supports that.
    #[default]
    Data,
    /// The log: appended and synced, through the system's page cache.
    Log,
    /// Small and rarely touched.
    Meta,
    /// Written and read once, through the system's page cache, and never synced.
    Scratch,
}

/// How to open a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// What opening does if the file is missing, or exists.
    pub create: Create,
    /// The use of the file.
    pub kind: FileKind,
    /// True if writes are refused.
    pub read_only: bool,
}

impl OpenOptions {
    /// Opens an existing file for reading and writing.
    #[must_use]
    pub fn new(kind: FileKind) -> OpenOptions {
        OpenOptions { create: Create::Never, kind, read_only: false }
    }

    /// The same options with another way to create.
    #[must_use]
    pub fn create(self, create: Create) -> OpenOptions {
        OpenOptions { create, ..self }
    }

    /// The same options, with writes refused or not.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> OpenOptions {
        OpenOptions { read_only, ..self }
    }
}

/// The mode in which a handle locks a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirLockMode {
    /// One handle alone, which may change the files.
    Exclusive,
    /// Any number of handles at a time, none of which changes a file.
    Shared,
}

/// One write of a batch.
#[derive(Clone, Copy)]
pub struct WriteAt<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// The bytes.
    pub buf: &'a [u8],
    /// The caller relies on [`File::writes_whole`]: if the file does not promise it any more, the
    /// write fails, and nothing is written. Files whose promise cannot end take no notice of it.
    pub whole: bool,
}

impl<'a> WriteAt<'a> {
    /// A write that may be done in part when the power fails.
    #[must_use]
    pub const fn new(offset: u64, buf: &'a [u8]) -> WriteAt<'a> {
        WriteAt { offset, buf, whole: false }
    }
}

impl fmt::Debug for WriteAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteAt({}+{})", self.offset, self.buf.len())
    }
}

/// One read of a batch.
pub struct ReadAt<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// The bytes are read into this buffer.
    pub buf: &'a mut [u8],
}

impl fmt::Debug for ReadAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadAt({}+{})", self.offset, self.buf.len())
    }
}

/// One database directory.
///
/// Names are those of files directly in it: not empty, without `/`, not starting with a dot.
pub trait Disk: Send + Sync {
    /// Opens a file. Two handles of one file see each other's writes.
    ///
    /// # Errors
    /// `NotFound` or `AlreadyExists` inside [`Error::Io`] as the options demand,
    /// [`Error::InvalidArgument`] for a string that cannot be a name, any error of the system.
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>>;

    /// Removes a file. Open handles keep its bytes.
    ///
    /// # Errors
    /// `NotFound` inside [`Error::Io`], any error of the system.
    fn remove(&self, name: &str) -> Result<()>;

    /// Renames a file, replacing `to` if it exists; atomic also at a power cut.
    ///
    /// # Errors
    /// `NotFound` inside [`Error::Io`], any error of the system.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// The names of all files but the lock file, sorted.
    ///
    /// # Errors
    /// Any error of the system.
    fn list(&self) -> Result<Vec<String>>;

    /// True if a file of that name exists.
    ///
    /// # Errors
    /// Any error of the system.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Makes created, renamed and removed names durable.
    ///
    /// # Errors
    /// Any error of the system; afterwards it is unknown which names are durable.
    fn sync_dir(&self) -> Result<()>;

    /// Locks the directory. The lock ends when the process that took it drops the guard, or ends.
    ///
    /// # Errors
    /// [`Error::AlreadyOpen`] if another process, or another handle of this one, holds it in a mode
    /// that excludes `mode`; any error of the system.
    fn lock(&self, mode: DirLockMode) -> Result<DirLock>;

    /// The place of the directory, for messages.
    fn location(&self) -> String;

    /// The place of the directory and the way its files are reached, for the status.
    fn describe(&self) -> String {
        self.location()
    }
}

/// One open file.
pub trait File: Send + Sync {
    /// The name under which it was opened.
    fn name(&self) -> &str;

    /// Fills `buf` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` inside [`Error::Io`] if the file ends before; any error of the system.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Does all `reads`, in any order, perhaps at the same time. Returns when all are done.
    ///
    /// # Errors
    /// The first failure found; the contents of all buffers are then unspecified.
    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        reads.iter_mut().try_for_each(|r| self.read_at(r.offset, r.buf))
    }

    /// Writes `buf` at `offset`, growing the file if it ends before.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::ReadOnly`], any error of the system; a part may have been
    /// written.
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()>;

    /// Does all `writes`, in any order, perhaps at the same time. Returns when all are done.
    ///
    /// # Errors
    /// The errors of [`File::write_at`]: the first failure found; the others may have been done or
    /// not.
    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        writes.iter().try_for_each(|w| self.write_at(w.offset, w.buf))
    }

    /// Makes everything written before the call durable, the length included.
    ///
    /// # Errors
    /// Any error of the system; afterwards it is unknown what is durable, and a later success does
    /// not change that.
    fn sync(&self) -> Result<()>;

    /// Bytes of the file.
    ///
    /// # Errors
    /// Any error of the system.
    fn len(&self) -> Result<u64>;

    /// True if the file has no bytes.
    ///
    /// # Errors
    /// Any error of the system.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes the file shorter, or longer by zeros. Room for the longer file is allocated, so that
    /// later writes within the length do not find the disk full (where the file system can promise
    /// that).
    ///
    /// # Errors
    /// [`Error::DiskFull`], with the length as before; [`Error::ReadOnly`]; any error of the
    /// system.
    fn set_len(&self, len: u64) -> Result<()>;

    /// True if a write of `len` bytes is durable all or none if its offset is a multiple of `len`.
    /// It may become so with the first such write, of any length, that succeeds. If the device
    /// later refuses one, that write fails, and can be repeated in another way; so does every
    /// [`WriteAt::whole`] that begins then.
    fn writes_whole(&self, len: usize) -> bool;
}

/// Holds a directory; see [`Disk::lock`].
pub struct DirLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl DirLock {
    /// A lock that is held as long as `held` lives.
    pub fn new(held: impl Any + Send + Sync) -> DirLock {
        DirLock { _held: Box::new(held) }
    }
}

impl fmt::Debug for DirLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirLock")
    }
}

/// Refuses names that are not those of files directly in the directory.
///
/// # Errors
/// [`Error::InvalidArgument`] with the name.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(Error::invalid(format!("`{name}` cannot be the name of a file")));
    }
    Ok(())
}

/// Refuses ranges that no file can have: those that end past the largest signed number.
///
/// # Errors
/// The system's "invalid input", as an error of `operation` on the file `name`.
pub fn check_range(operation: &'static str, name: &str, offset: u64, len: usize) -> Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(failed(operation, name, offset, io::Error::from(io::ErrorKind::InvalidInput))),
    }
}

/// An error of a request, naming the file and the offset.
pub(crate) fn failed(operation: &'static str, name: &str, offset: u64, source: io::Error) -> Error {
    Error::io(operation, format_args!("{name} at {offset}"), source)
}

/// The error of a read past the end.
pub fn unexpected_eof(name: &str, offset: u64) -> Error {
    failed("read", name, offset, io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before"))
}
