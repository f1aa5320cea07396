//! A directory of the operating system.
//!
//! Single requests are `pread` and `pwrite` on the caller's thread: no hand-over, no queue. Batches go to io_uring or
//! to a thread pool (see `batch`). Data files are opened with O_DIRECT where the file system takes it (see
//! `os_file`); there may be more of them than descriptors (see `open_files`). The directory is locked by `flock` on
//! its lock file, which excludes other processes and other handles in this one alike, and which the system releases
//! when the process dies.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::batch::{BatchMethod, Batcher};
use crate::disk::check_name;
use crate::open_files::{DataFile, OpenFiles, Origin, descriptor, most_open_files};
use crate::os_file::{Direct, OsFile};
use crate::{Create, DirLock, Disk, File, FileKind, LOCK_FILE, OpenOptions};

/// How data files reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushMethod {
    /// Past the system's page cache where the file system has O_DIRECT, else as [`FlushMethod::Fsync`].
    #[default]
    ODirect,
    /// Through the system's page cache.
    Fsync,
}

/// How a directory is used; the default is right for everything but tests and comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileDiskOptions {
    /// How data files reach the device.
    pub flush_method: FlushMethod,
    /// How batches of requests are done.
    pub batch: BatchMethod,
    /// How many data files have descriptors at a time, two each; `None`: for half of those that the process may have.
    pub open_files: Option<usize>,
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct FileDisk {
    path: PathBuf,
    dir: Arc<OwnedFd>,
    flush_method: FlushMethod,
    batcher: Arc<Batcher>,
    open_files: Arc<OpenFiles>,
    /// Whether a data file was refused O_DIRECT.
    fell_back: AtomicBool,
}

impl FileDisk {
    /// Opens the directory at `path`, which has to exist.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn open(path: impl AsRef<Path>, flush_method: FlushMethod) -> Result<FileDisk> {
        FileDisk::open_with(path, FileDiskOptions { flush_method, ..FileDiskOptions::default() })
    }

    /// Opens the directory at `path`, which has to exist.
    ///
    /// # Errors
    /// Whatever the system says; that io_uring is not to be had, if it is demanded.
    pub fn open_with(path: impl AsRef<Path>, options: FileDiskOptions) -> Result<FileDisk> {
        let path = path.as_ref().to_path_buf();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = retry(|| rustix::fs::open(&path, flags, Mode::empty()))
            .map_err(|e| Error::io("open", path.display(), e.into()))?;
        let batcher = Batcher::new(options.batch).map_err(|e| Error::io("set up io_uring for", path.display(), e))?;
        let open_files = OpenFiles::new(options.open_files.unwrap_or_else(most_open_files));
        Ok(FileDisk {
            path,
            dir: Arc::new(dir),
            flush_method: options.flush_method,
            batcher: Arc::new(batcher),
            open_files: Arc::new(open_files),
            fell_back: AtomicBool::new(false),
        })
    }

    /// Opens the directory at `path`; creates it, and its parents, if it is missing.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn create(path: impl AsRef<Path>, flush_method: FlushMethod) -> Result<FileDisk> {
        let path = path.as_ref();
        let failed = |e| Error::io("create", path.display(), e);
        if !path.is_dir() {
            std::fs::create_dir_all(path).map_err(failed)?;
            if let Some(parent) = path.canonicalize().map_err(failed)?.parent() {
                std::fs::File::open(parent).and_then(|p| p.sync_all()).map_err(failed)?;
            }
        }
        FileDisk::open(path, flush_method)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Repeats a system call that was interrupted by a signal.
pub(crate) fn retry<T>(call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    rustix::io::retry_on_intr(call)
}

impl Disk for FileDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let create = match options.create {
            Create::Never => OFlags::empty(),
            Create::IfMissing => OFlags::CREATE,
            Create::New => OFlags::CREATE | OFlags::EXCL,
        };
        let (dir, read_only) = (&self.dir, options.read_only);
        let fd = self.open_files.with_room(|| descriptor(dir, name, read_only, create))?;
        if options.kind != FileKind::Data {
            return Ok(Arc::new(OsFile::new(name, fd, None, read_only, self.batcher.clone())));
        }
        let mut direct = None;
        if self.flush_method == FlushMethod::ODirect {
            direct = self.open_files.with_room(|| Direct::open(dir, name, read_only))?;
            self.fell_back.fetch_or(direct.is_none(), Ordering::Relaxed);
        }
        let origin = Origin { dir: Arc::clone(dir), name: name.to_owned(), read_only, batcher: self.batcher.clone() };
        Ok(DataFile::new(origin, fd, direct, &self.open_files))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.open_files.keep_open(name)?;
        retry(|| rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()))
            .map_err(|e| Error::io("remove", name, e.into()))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        [from, to].into_iter().try_for_each(|name| self.open_files.keep_open(name))?;
        retry(|| rustix::fs::renameat(&*self.dir, from, &*self.dir, to))
            .map_err(|e| Error::io("rename", format_args!("{from} to {to}"), e.into()))
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |e: io::Error| Error::io("list", self.path.display(), e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_type().map_err(failed)?.is_file() {
                continue;
            }
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK_FILE
                && check_name(&name).is_ok()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        match retry(|| rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(Error::io("stat", name, e.into())),
        }
    }

    fn sync_dir(&self) -> Result<()> {
        retry(|| rustix::fs::fsync(&self.dir)).map_err(|e| Error::io("sync", self.path.display(), e.into()))
    }

    fn lock(&self) -> Result<DirLock> {
        let failed = |e: Errno| Error::io("lock", self.path.display(), e.into());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let fd = match retry(|| rustix::fs::openat(&self.dir, LOCK_FILE, flags, Mode::from_raw_mode(0o640))) {
            // A directory that cannot be written to is locked itself.
            Err(Errno::ROFS | Errno::ACCESS) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                retry(|| rustix::fs::openat(&self.dir, ".", flags, Mode::empty())).map_err(failed)?
            }
            other => other.map_err(failed)?,
        };
        match retry(|| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(DirLock::new(Locked(fd))),
            Err(Errno::WOULDBLOCK) => Err(Error::AlreadyOpen(self.path.display().to_string())),
            Err(e) => Err(failed(e)),
        }
    }

    fn describe(&self) -> String {
        let how = match (self.flush_method, self.fell_back.load(Ordering::Relaxed)) {
            (FlushMethod::ODirect, false) => "O_DIRECT",
            (FlushMethod::ODirect, true) => "buffered, because the file system refused O_DIRECT",
            (FlushMethod::Fsync, _) => "buffered",
        };
        let batches = self.batcher.describe().map(|b| format!(", batches by {b}")).unwrap_or_default();
        format!("{} ({how}{batches})", self.path.display())
    }
}

/// A descriptor with the lock. It is unlocked, not merely closed: between `fork` and `exec` a child process has the descriptor, too, whoever in this
/// process starts one, and would keep the lock for that moment.
#[derive(Debug)]
struct Locked(OwnedFd);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing does it then, as soon as nobody else has the descriptor.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who closed a database and opened it again while another thread started a process was now and then told that it is open.
    #[test]
    fn the_lock_ends_with_its_holder_even_if_a_child_process_has_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let fd = OwnedFd::from(std::fs::File::create(dir.path().join(LOCK_FILE)).unwrap());
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).unwrap();
        let of_the_child = fd.try_clone().unwrap();
        let disk = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
        let held = Locked(fd);
        assert!(matches!(disk.lock(), Err(Error::AlreadyOpen(_))));
        drop(held);
        disk.lock().unwrap();
        drop(of_the_child);
    }
}
