//! The right to use a disk, which lasts as long as the lock of its directory is held.
//!
//! [`LeasedDisk`] locks the directory and passes requests on until [`Lease::release`]. From then on
//! it refuses all of them, and after that it releases the lock. So no handle, transaction or
//! snapshot of the last holder changes files that the next holder has opened. A lease belongs to
//! the process that took it. In a forked child every request is refused, and releasing the lease
//! leaves the parent's lock alone.
//!
//! Invariant: every change of the directory runs with `changes` held for reading; `revoked` is set
//! with it held for writing, before the lock is released. Reads only check `revoked`: a read that
//! is under way when the lease ends does no harm.
//!
//! Lock order: `changes` before the locks of the disk below; `lock` is held alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::blocking::{Mutex, RwLock};
use holdfast_base::{Error, Result};

use crate::{DirLock, DirLockMode, Disk, File, OpenOptions, Process, ReadAt, WriteAt};

/// A lease on a directory; see the module.
#[derive(Debug)]
pub struct Lease {
    taker: Process,
    revoked: AtomicBool,
    changes: RwLock<()>,
    lock: Mutex<Option<DirLock>>,
}

impl Lease {
    /// True if the caller's process took the lease.
    #[inline]
    #[must_use]
    pub fn is_of_this_process(&self) -> bool {
        self.taker.is_current()
    }

    /// The process that took the lease.
    #[must_use]
    pub fn taker(&self) -> Process {
        self.taker
    }

    /// Succeeds as long as the lease lasts.
    ///
    /// # Errors
    /// [`Error::Closed`] after [`Lease::release`], and in a forked child.
    pub fn check(&self) -> Result<()> {
        if !self.is_of_this_process() {
            return Err(Error::Closed("the database is the parent process's; in a forked child it"));
        }
        if self.revoked.load(Ordering::Acquire) { Err(Error::Closed("the database")) } else { Ok(()) }
    }

    /// Waits for the changes that are under way, refuses all requests from now on, and releases the
    /// lock. A forked child closes its copies of the descriptors, which leaves the lock with the
    /// parent. A second call does nothing.
    pub fn release(&self) {
        if self.is_of_this_process() {
            let changes = self.changes.write();
            self.revoked.store(true, Ordering::Release);
            drop(changes);
            drop(self.lock.lock().take());
        } else if let Some(mut lock) = self.lock.try_lock() {
            // At the fork a thread of the parent may have held the mutex. Then this process cannot
            // close its copy.
            drop(lock.take());
        }
    }

    /// Runs `change`, which changes the directory.
    fn change<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        // Before the lock: in a child, the state of `changes` is that of the parent's threads.
        self.check()?;
        let _changing = self.changes.read();
        self.check()?;
        change()
    }
}

/// A disk whose directory is locked, as long as its lease lasts.
#[derive(Clone)]
pub struct LeasedDisk {
    inner: Arc<dyn Disk>,
    lease: Arc<Lease>,
}

impl LeasedDisk {
    /// Locks the directory of `inner`.
    ///
    /// # Errors
    /// The errors of [`Disk::lock`].
    pub fn new(inner: Arc<dyn Disk>, mode: DirLockMode) -> Result<LeasedDisk> {
        let lock = Mutex::new(Some(inner.lock(mode)?));
        let lease =
            Lease { taker: Process::current(), revoked: AtomicBool::new(false), changes: RwLock::new(()), lock };
        Ok(LeasedDisk { inner, lease: Arc::new(lease) })
    }

    /// The lease.
    #[must_use]
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }
}

impl Disk for LeasedDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        let inner = self.lease.change(|| self.inner.open(name, options))?;
        Ok(Arc::new(LeasedFile { inner, lease: Arc::clone(&self.lease) }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.lease.change(|| self.inner.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.lease.change(|| self.inner.rename(from, to))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.lease.check()?;
        self.inner.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.lease.check()?;
        self.inner.exists(name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.lease.change(|| self.inner.sync_dir())
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.inner.lock(mode)
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct LeasedFile {
    inner: Arc<dyn File>,
    lease: Arc<Lease>,
}

impl File for LeasedFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.lease.check()?;
        self.inner.read_at(offset, buf)
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        self.lease.check()?;
        self.inner.read_batch(reads)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.lease.change(|| self.inner.write_at(offset, buf))
    }

    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        self.lease.change(|| self.inner.write_batch(writes))
    }

    fn sync(&self) -> Result<()> {
        self.lease.change(|| self.inner.sync())
    }

    fn len(&self) -> Result<u64> {
        self.lease.check()?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.lease.change(|| self.inner.set_len(len))
    }

    fn writes_whole(&self, len: usize) -> bool {
        self.inner.writes_whole(len)
    }
}
