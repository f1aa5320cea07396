//! A directory of the operating system.
//!
//! Single requests are `pread` and `pwrite` on the caller's thread, without a queue. Batches go to
//! io_uring or to a thread pool (see `batch`). Data files are opened with O_DIRECT where the file
//! system accepts it (see `os_file`). There may be more of them than descriptors (see
//! `open_files`).
//!
//! **The lock** is `flock` on the directory, and on its lock file, both in the same mode. It
//! excludes other processes and other handles of this one alike, and the system releases it when
//! the process ends. The directory exists for every user, also for one that may not write to it. A
//! network file system locks only files across machines. A holder of the shared lock does without
//! the lock file if there is none. `flock` works on descriptors that can only be read from.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::batch::{BatchMethod, Batcher};
use crate::disk::check_name;
use crate::open_files::{DataFile, OpenFiles, Origin, descriptor, most_open_files, refuse_pipe};
use crate::os_file::{Direct, OsFile, retry};
use crate::process::Process;
use crate::{Create, DirLock, DirLockMode, Disk, File, FileKind, LOCK_FILE, OpenOptions};

/// The way data files reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushMethod {
    /// Past the system's page cache where the file system has O_DIRECT, else as
    /// [`FlushMethod::Fsync`].
    #[default]
    ODirect,
    /// Through the system's page cache.
    Fsync,
}

/// Options of a directory. The default is right for everything but tests and comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileDiskOptions {
    /// The way data files reach the device.
    pub flush_method: FlushMethod,
    /// How batches of requests are done.
    pub batch: BatchMethod,
    /// The number of data files with descriptors at a time, two each. `None`: half of the
    /// descriptors that the process may have.
    pub open_files: Option<usize>,
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct FileDisk {
    path: PathBuf,
    dir: Arc<OwnedFd>,
    /// True if a sync of the directory has failed. Its mutex is held during a sync: the system
    /// reports to one thread what concerns the entries of all.
    dir_sync_failed: Mutex<bool>,
    flush_method: FlushMethod,
    batcher: Arc<Batcher>,
    open_files: Arc<OpenFiles>,
    /// True if a data file was refused O_DIRECT.
    fell_back: AtomicBool,
}

impl FileDisk {
    /// Opens the directory at `path`, which has to exist.
    ///
    /// # Errors
    /// Any error of the system.
    pub fn open(path: impl AsRef<Path>, flush_method: FlushMethod) -> Result<FileDisk> {
        FileDisk::open_with(path, FileDiskOptions { flush_method, ..FileDiskOptions::default() })
    }

    /// Opens the directory at `path`, which has to exist.
    ///
    /// # Errors
    /// Any error of the system; an error if io_uring is demanded and not available.
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
            dir_sync_failed: Mutex::new(false),
            flush_method: options.flush_method,
            batcher: Arc::new(batcher),
            open_files: Arc::new(open_files),
            fell_back: AtomicBool::new(false),
        })
    }

    /// Opens the directory at `path`; creates it, and its parents, if it is missing. Their names
    /// are durable when this returns.
    ///
    /// # Errors
    /// Any error of the system.
    pub fn create(path: impl AsRef<Path>, flush_method: FlushMethod) -> Result<FileDisk> {
        let path = path.as_ref();
        let failed = |e| Error::io("create", path.display(), e);
        let parents = parents_of_missing(path);
        if !parents.is_empty() {
            std::fs::create_dir_all(path).map_err(failed)?;
        }
        for parent in parents {
            std::fs::File::open(parent).and_then(|p| p.sync_all()).map_err(failed)?;
        }
        FileDisk::open(path, flush_method)
    }

    /// Opens a name in the directory.
    fn open_in_directory(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mode = Mode::from_raw_mode(0o640);
        retry(|| rustix::fs::openat(&self.dir, name, flags | OFlags::CLOEXEC, mode))
    }

    /// Opens the lock file. A holder of the exclusive lock creates it if it is missing; a holder of
    /// the shared one writes nothing.
    fn open_lock_file(&self, mode: DirLockMode) -> rustix::io::Result<Option<OwnedFd>> {
        let refused = match mode {
            DirLockMode::Exclusive => match self.open_in_directory(LOCK_FILE, OFlags::RDWR | OFlags::CREATE) {
                Err(refused @ (Errno::ROFS | Errno::ACCESS | Errno::PERM)) => Some(refused),
                other => return other.map(Some),
            },
            DirLockMode::Shared => None,
        };
        match (self.open_in_directory(LOCK_FILE, OFlags::RDONLY), refused) {
            (Err(Errno::NOENT), None) => Ok(None),
            (Err(Errno::NOENT), Some(refused)) => Err(refused),
            (other, _) => other.map(Some),
        }
    }

    /// True if an entry of the directory is a file, or leads to one. A link that leads nowhere,
    /// now, is one: its name is taken.
    fn is_file(&self, name: &str, entry: FileType) -> rustix::io::Result<bool> {
        if entry != FileType::Symlink && entry != FileType::Unknown {
            return Ok(entry == FileType::RegularFile);
        }
        match retry(|| rustix::fs::statat(&self.dir, name, AtFlags::empty())) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile),
            Err(_) if entry == FileType::Symlink => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn flock(&self, fd: OwnedFd, mode: DirLockMode) -> Result<Locked> {
        let operation = match mode {
            DirLockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
            DirLockMode::Shared => FlockOperation::NonBlockingLockShared,
        };
        match retry(|| rustix::fs::flock(&fd, operation)) {
            Ok(()) => Ok(Locked { fd, taker: Process::current() }),
            Err(Errno::WOULDBLOCK) => Err(Error::AlreadyOpen(self.location())),
            Err(e) => Err(Error::io("lock", self.path.display(), e.into())),
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The directories that get a new entry when the directory `path` is created, and those of its
/// parents that are missing.
fn parents_of_missing(path: &Path) -> Vec<PathBuf> {
    let missing = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir());
    let parent =
        |dir: &Path| dir.parent().map(|above| if above.as_os_str().is_empty() { ".".into() } else { above.into() });
    missing.filter_map(parent).collect()
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
        let failed = |e: Errno| Error::io("list", self.path.display(), e.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if let Ok(name) = entry.file_name().to_str()
                && name != LOCK_FILE
                && check_name(name).is_ok()
                && self.is_file(name, entry.file_type()).map_err(failed)?
            {
                names.push(name.to_owned());
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
        let error = |e| Error::io("sync", self.path.display(), e);
        let mut has_failed = self.dir_sync_failed.lock();
        if *has_failed {
            let why = "an earlier sync failed: what was created, renamed or removed before that may be lost";
            return Err(error(std::io::Error::other(why)));
        }
        retry(|| rustix::fs::fsync(&self.dir)).map_err(|e| {
            *has_failed = true;
            error(e.into())
        })
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        let failed = |e: Errno| Error::io("lock", self.path.display(), e.into());
        let directory = self.open_in_directory(".", OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let directory = self.flock(directory, mode)?;
        refuse_pipe(&self.dir, LOCK_FILE)?;
        // Only now: an open that is refused leaves no lock file behind.
        let file = self.open_lock_file(mode).map_err(failed)?;
        let file = file.map(|fd| self.flock(fd, mode)).transpose()?;
        Ok(DirLock::new((file, directory)))
    }

    fn location(&self) -> String {
        self.path.display().to_string()
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

/// A descriptor with a lock. Its taker unlocks it, and does not merely close it: between `fork` and
/// `exec` a child process, of whichever thread, has the descriptor too, and would keep the lock for
/// that time. A forked child only closes its copy.
#[derive(Debug)]
struct Locked {
    fd: OwnedFd,
    taker: Process,
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.taker.is_current() {
            // If that fails the lock ends when the last copy of the descriptor is closed.
            let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the entry of the last one was made durable: a power cut could take all of a new
    /// database, with its directory.
    #[test]
    fn the_entries_of_all_new_directories_are_made_durable() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        let [a, b, c] = ["a", "a/b", "a/b/c"].map(|name| top.join(name));
        assert_eq!(parents_of_missing(&c), [b.clone(), a.clone(), top.to_owned()]);
        std::fs::create_dir(&a).unwrap();
        assert_eq!(parents_of_missing(&c), [b.clone(), a.clone()]);
        FileDisk::create(&c, FlushMethod::Fsync).unwrap();
        assert!(parents_of_missing(&c).is_empty());
        let relative = Path::new("a directory that is not there/database");
        assert_eq!(parents_of_missing(relative), [Path::new("a directory that is not there"), Path::new(".")]);
    }

    /// What one thread had created was reported as durable behind the failed sync of another: the
    /// system reports the failure once, and takes the directory for clean.
    #[test]
    fn a_failed_sync_of_the_directory_is_not_made_up_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
        disk.sync_dir().unwrap();
        let (socket, _other_end) = std::os::unix::net::UnixStream::pair().unwrap();
        let directory = std::mem::replace(&mut disk.dir, Arc::new(socket.into()));
        assert!(disk.sync_dir().unwrap_err().to_string().contains("Invalid argument"));
        disk.dir = directory;
        assert!(disk.sync_dir().unwrap_err().to_string().contains("an earlier sync failed"));
        FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap().sync_dir().unwrap();
    }

    /// The file of a table may lie on another file system. It was opened, but not listed: a salvage
    /// left its table out without a word.
    #[test]
    fn a_file_behind_a_link_is_listed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(elsewhere.path().join("file"), "").unwrap();
        let link = |to: &Path, name| std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
        link(&elsewhere.path().join("file"), "t17.hf");
        link(&elsewhere.path().join("not mounted"), "t18.hf");
        link(elsewhere.path(), "directory");
        std::fs::write(dir.path().join("t16.hf"), "").unwrap();
        std::fs::create_dir(dir.path().join("t19.hf")).unwrap();
        let disk = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
        assert_eq!(disk.list().unwrap(), ["t16.hf", "t17.hf", "t18.hf"]);
        assert!(disk.list().unwrap().iter().all(|name| disk.exists(name).unwrap()));
    }

    /// By the path it would be the files of another directory, which are not those that are opened
    /// and removed.
    #[test]
    fn the_directory_that_is_open_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let [path, moved] = ["data", "moved"].map(|name| dir.path().join(name));
        let disk = FileDisk::create(&path, FlushMethod::Fsync).unwrap();
        std::fs::write(path.join("t16.hf"), "").unwrap();
        std::fs::rename(&path, moved).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("t17.hf"), "").unwrap();
        assert_eq!(disk.list().unwrap(), ["t16.hf"]);
    }

    /// A thread closes a database and opens it again while another thread starts a process.
    #[test]
    fn the_lock_ends_with_its_holder_even_if_a_child_process_has_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let fd = OwnedFd::from(std::fs::File::create(dir.path().join(LOCK_FILE)).unwrap());
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).unwrap();
        let of_the_child = fd.try_clone().unwrap();
        let disk = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
        let held = Locked { fd, taker: Process::current() };
        assert!(matches!(disk.lock(DirLockMode::Exclusive), Err(Error::AlreadyOpen(_))));
        drop(held);
        disk.lock(DirLockMode::Exclusive).unwrap();
        drop(of_the_child);
    }
}
