//! Data files, and the limited number of descriptors for them.
//!
//! The number of a process's descriptors is limited, and a database has a file for each table. Each
//! open data file has two descriptors: past the page cache and through it. A [`DataFile`] that has
//! not been used for a while is closed when another one needs its place, and opened again by its
//! name when it is used. Its user waits for that as for a read.
//!
//! **Choice.** A clock: the hand passes over files that were used since it came by last, and over
//! those in use.
//!
//! **Failed writes.** The system reports a failed write-back only to the descriptors that are open
//! then. So a file that was written since its last sync is synced before it is closed, and a
//! failure is kept for the next sync, which needs no descriptor if the file is still closed. A file
//! whose name is about to be removed or reused is opened first and stays open, because it could not
//! be found again.
//!
//! **Lock order**: the slot of a file, then the list of files. A thread that has locked the list,
//! or another slot, waits for no slot: to close a file it takes one that is free.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, TryLockError, Weak};

use crossbeam_utils::sync::{ShardedLock, ShardedLockWriteGuard};
use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::batch::Batcher;
use crate::os_file::{Demands, Direct, OsFile, open_at, retry};
use crate::{File, ReadAt, WriteAt};

/// The least number of files that may be open.
const FEWEST: usize = 8;

/// Half of the descriptors that the process may have, at two for each file. The others are for the
/// application that embeds the engine.
pub(crate) fn most_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 4).unwrap_or(usize::MAX).max(FEWEST)
}

/// The data files of one directory.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    most: usize,
    /// The number of files with descriptors.
    open: AtomicUsize,
    clock: Mutex<Clock>,
}

#[derive(Debug, Default)]
struct Clock {
    files: Vec<Weak<DataFile>>,
    hand: usize,
    /// At this length of the list, files without a holder are removed from it.
    tidy_at: usize,
}

impl OpenFiles {
    pub(crate) fn new(most: usize) -> OpenFiles {
        OpenFiles { most: most.max(1), open: AtomicUsize::new(0), clock: Mutex::default() }
    }

    /// Opens something. If the process has no descriptors left, closes files and tries again.
    pub(crate) fn with_room<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match open() {
                Err(e) if lacks_descriptors(&e) && self.close_one() => {}
                result => return result,
            }
        }
    }

    /// Adds a file that has just been opened to the clock.
    fn add(&self, file: &Arc<DataFile>) {
        let mut clock = self.clock.lock();
        if clock.files.len() >= clock.tidy_at {
            clock.files.retain(|file| file.strong_count() > 0);
            clock.tidy_at = 2 * clock.files.len() + FEWEST;
        }
        clock.files.push(Arc::downgrade(file));
    }

    /// Counts one more file with descriptors, and closes others if there are too many.
    fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        while self.open.load(Ordering::Relaxed) > self.most && self.close_one() {}
    }

    /// Closes a file that has not been used for a while; false if there is none that can be closed.
    fn close_one(&self) -> bool {
        // Twice round: in the first round all files may have been used.
        let steps = 2 * self.clock.lock().files.len();
        (0..steps).any(|_| self.advance().is_some_and(|file| !file.used.swap(false, Ordering::Relaxed) && file.close()))
    }

    /// Moves the hand by one file.
    fn advance(&self) -> Option<Arc<DataFile>> {
        let mut clock = self.clock.lock();
        clock.hand = if clock.hand + 1 < clock.files.len() { clock.hand + 1 } else { 0 };
        clock.files.get(clock.hand)?.upgrade()
    }

    /// Keeps the file called `name` open as long as it has holders: the name is about to be removed
    /// or reused.
    pub(crate) fn keep_open(&self, name: &str) -> Result<()> {
        let files: Vec<Arc<DataFile>> = self.clock.lock().files.iter().filter_map(Weak::upgrade).collect();
        files.into_iter().filter(|file| file.origin.name == name).try_for_each(|file| file.keep_open())
    }
}

fn lacks_descriptors(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if matches!(Errno::from_io_error(source), Some(Errno::MFILE | Errno::NFILE)))
}

/// The directory and name of a file, and how to open it again.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) dir: Arc<OwnedFd>,
    pub(crate) name: String,
    pub(crate) read_only: bool,
    pub(crate) batcher: Arc<Batcher>,
}

/// A data file; see the module.
pub(crate) struct DataFile {
    origin: Origin,
    /// The demands of requests past the page cache, if the file accepts those.
    demands: Option<Arc<Demands>>,
    all: Arc<OpenFiles>,
    /// The file, if it is open. Users lock it for reading; the lock is sharded, so they rarely
    /// share a cache line.
    slot: ShardedLock<Slot>,
    /// True if the file was used since the hand came by.
    used: AtomicBool,
    /// True if the file was written since the last sync.
    unsynced: AtomicBool,
    /// The error of a sync that no caller has been given yet.
    failed: Mutex<Option<Error>>,
}

#[derive(Default)]
struct Slot {
    file: Option<OsFile>,
    /// True if the file must stay open.
    keep: bool,
}

impl DataFile {
    /// The file in `origin`, which is open as `fd` and `direct`.
    pub(crate) fn new(origin: Origin, fd: OwnedFd, direct: Option<Direct>, all: &Arc<OpenFiles>) -> Arc<DataFile> {
        let demands = direct.as_ref().map(|d| Arc::clone(&d.demands));
        let file = Some(OsFile::new(&origin.name, fd, direct, origin.read_only, origin.batcher.clone()));
        let file = Arc::new(DataFile {
            origin,
            demands,
            all: Arc::clone(all),
            slot: ShardedLock::new(Slot { file, keep: false }),
            used: AtomicBool::new(true),
            unsynced: AtomicBool::new(false),
            failed: Mutex::default(),
        });
        all.add(&file);
        all.opened();
        file
    }

    /// Calls `f` with the file, opened if need be.
    fn with<T>(&self, f: impl FnOnce(&OsFile) -> Result<T>) -> Result<T> {
        loop {
            let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(file) = &slot.file {
                if !self.used.load(Ordering::Relaxed) {
                    self.used.store(true, Ordering::Relaxed);
                }
                return f(file);
            }
            drop(slot);
            self.open(&mut self.lock())?;
        }
    }

    /// Waits until no thread uses the file.
    fn lock(&self) -> ShardedLockWriteGuard<'_, Slot> {
        self.slot.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f`, which changes the file, and marks the file as unsynced.
    fn change(&self, f: impl FnOnce(&OsFile) -> Result<()>) -> Result<()> {
        self.with(|file| {
            let result = f(file);
            // After the change: a sync that begins now clears the mark, and does not cover a write
            // that begins later.
            self.unsynced.store(true, Ordering::Relaxed);
            result
        })
    }

    fn open(&self, slot: &mut Slot) -> Result<()> {
        if slot.file.is_some() {
            return Ok(());
        }
        let Origin { dir, name, read_only, batcher } = &self.origin;
        let (fd, direct) = self.all.with_room(|| {
            let fd = descriptor(dir, name, *read_only, OFlags::empty())?;
            let again = |demands| Direct::open_again(dir, name, *read_only, demands);
            Ok((fd, self.demands.as_ref().map(again).transpose()?))
        })?;
        slot.file = Some(OsFile::new(name, fd, direct, *read_only, Arc::clone(batcher)));
        self.all.opened();
        Ok(())
    }

    fn keep_open(&self) -> Result<()> {
        let mut slot = self.lock();
        self.open(&mut slot)?;
        slot.keep = true;
        Ok(())
    }

    /// Closes the file; false if it is in use or not open.
    fn close(&self) -> bool {
        let mut slot = match self.slot.try_write() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if slot.keep {
            return false;
        }
        let Some(file) = slot.file.take() else { return false };
        if self.unsynced.swap(false, Ordering::Relaxed)
            && let Err(error) = file.sync()
        {
            *self.failed.lock() = Some(error);
        }
        self.all.open.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

/// Refuses a name that is a pipe's: an open of it waits for the other end.
pub(crate) fn refuse_pipe(dir: &OwnedFd, name: &str) -> Result<()> {
    match retry(|| rustix::fs::statat(dir, name, AtFlags::empty())) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Fifo => {
            Err(Error::io("open", name, std::io::Error::other("it is a pipe, and no file")))
        }
        // The open says what is wrong.
        _ => Ok(()),
    }
}

/// A descriptor through the page cache.
pub(crate) fn descriptor(dir: &OwnedFd, name: &str, read_only: bool, create: OFlags) -> Result<OwnedFd> {
    refuse_pipe(dir, name)?;
    open_at(dir, name, read_only, create).map_err(|e| Error::io("open", name, e.into()))
}

impl Drop for DataFile {
    fn drop(&mut self) {
        if self.slot.get_mut().unwrap_or_else(PoisonError::into_inner).file.is_some() {
            self.all.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataFile").field("name", &self.origin.name).finish_non_exhaustive()
    }
}

impl File for DataFile {
    fn name(&self) -> &str {
        &self.origin.name
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.with(|file| file.read_at(offset, buf))
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        self.with(|file| file.read_batch(reads))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.change(|file| file.write_at(offset, buf))
    }

    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        self.change(|file| file.write_batch(writes))
    }

    fn sync(&self) -> Result<()> {
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        let failed = self.failed.lock().take().map_or(Ok(()), Err);
        // One that is closed was synced then: it need not be opened, for which there may be no
        // descriptor.
        let Some(file) = &slot.file else { return failed };
        self.unsynced.store(false, Ordering::Relaxed);
        let result = failed.and_then(|()| file.sync());
        if result.is_err() {
            self.unsynced.store(true, Ordering::Relaxed);
        }
        result
    }

    fn len(&self) -> Result<u64> {
        self.with(File::len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.change(|file| file.set_len(len))
    }

    fn writes_whole(&self, len: usize) -> bool {
        self.demands.as_ref().is_some_and(|demands| demands.writes_whole(len))
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, openat};

    use super::*;
    use crate::BatchMethod;

    /// The file `t` of a directory.
    fn origin(dir: &std::path::Path) -> Origin {
        std::fs::write(dir.join("t"), "t").unwrap();
        Origin {
            dir: Arc::new(openat(CWD, dir, OFlags::DIRECTORY, Mode::empty()).unwrap()),
            name: "t".to_owned(),
            read_only: false,
            batcher: Arc::new(Batcher::new(BatchMethod::Auto).unwrap()),
        }
    }

    /// A file whose disk has failed: its descriptor accepts no writes and syncs nothing.
    #[test]
    fn a_sync_that_failed_when_the_file_was_closed_is_told_to_the_next_who_syncs() {
        let dir = tempfile::tempdir().unwrap();
        let useless = || {
            let fd = openat(CWD, dir.path(), OFlags::PATH, Mode::empty()).unwrap();
            DataFile::new(origin(dir.path()), fd, None, &Arc::new(OpenFiles::new(1)))
        };
        let file = useless();
        assert!(file.write_at(0, b"x").is_err());
        assert!(file.close(), "it is not in use");
        assert_eq!(file.len().unwrap(), 1, "opened again, by its name");
        assert!(file.sync().is_err(), "the error of the sync at its close");
        file.write_at(0, b"x").unwrap();
        file.sync().unwrap();
        let file = useless();
        assert!(file.write_at(0, b"x").is_err() && file.close());
        assert!(file.sync().is_err(), "though it is closed still");
    }

    /// It was opened again for that. Where the process had no descriptor left, the sync failed, and
    /// that stops a database.
    #[test]
    fn a_file_that_is_closed_needs_no_descriptor_to_be_synced() {
        let dir = tempfile::tempdir().unwrap();
        let origin = origin(dir.path());
        let fd = openat(CWD, dir.path().join("t"), OFlags::RDWR, Mode::empty()).unwrap();
        let file = DataFile::new(origin, fd, None, &Arc::new(OpenFiles::new(1)));
        file.write_at(0, b"x").unwrap();
        assert!(file.close(), "it is not in use");
        // It cannot be opened any more.
        std::fs::remove_file(dir.path().join("t")).unwrap();
        file.sync().unwrap();
        assert!(file.len().is_err());
    }
}
