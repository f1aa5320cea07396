//! A disk in memory, for tests and for databases that need not outlive the process.
//!
//! Files live as long as the disk or a handle does. Lock order: the directory before a file;
//! neither is held across a call into another module.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_base::blocking::{Mutex, RwLock};
use holdfast_base::{Error, Result};

use crate::disk::{check_name, check_range, unexpected_eof};
use crate::sparse::SparseBytes;
use crate::{Create, DirLock, DirLockMode, Disk, File, OpenOptions};

type Content = Arc<RwLock<SparseBytes>>;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, Content>>>,
    lock: LockFlag,
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }
}

/// The error for a name that is missing, or already exists.
pub fn name_error(operation: &'static str, name: &str, kind: io::ErrorKind) -> Error {
    Error::io(operation, name, io::Error::from(kind))
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let mut files = self.files.lock();
        let content = match (files.get(name), options.create) {
            (Some(_), Create::New) => return Err(name_error("create", name, io::ErrorKind::AlreadyExists)),
            (Some(content), _) => content.clone(),
            (None, Create::Never) => return Err(name_error("open", name, io::ErrorKind::NotFound)),
            (None, _) => files.entry(name.to_string()).or_default().clone(),
        };
        Ok(Arc::new(MemoryFile { name: name.to_string(), content, read_only: options.read_only }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let removed = self.files.lock().remove(name);
        removed.map(drop).ok_or_else(|| name_error("remove", name, io::ErrorKind::NotFound))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let mut files = self.files.lock();
        let content = files.remove(from).ok_or_else(|| name_error("rename", from, io::ErrorKind::NotFound))?;
        files.insert(to.to_string(), content);
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.files.lock().contains_key(name))
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.lock.take(mode, "the database in memory")
    }

    fn location(&self) -> String {
        "memory".to_string()
    }
}

/// A lock in memory: free, held in exclusive mode, or held by a number of shared holders.
#[derive(Clone, Debug, Default)]
pub struct LockFlag(Arc<AtomicUsize>);

const ALONE: usize = usize::MAX;

impl LockFlag {
    /// Takes the lock of `what`.
    ///
    /// # Errors
    /// [`Error::AlreadyOpen`] if it is held in a mode that excludes `mode`.
    pub fn take(&self, mode: DirLockMode, what: &str) -> Result<DirLock> {
        let next = |held| match (held, mode) {
            (0, DirLockMode::Exclusive) => Some(ALONE),
            (ALONE, _) | (_, DirLockMode::Exclusive) => None,
            (holders, DirLockMode::Shared) => Some(holders + 1),
        };
        match self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) {
            Ok(_) => Ok(DirLock::new(Held { flag: self.clone(), mode })),
            Err(_) => Err(Error::AlreadyOpen(what.to_string())),
        }
    }
}

/// A holder of a [`LockFlag`].
struct Held {
    flag: LockFlag,
    mode: DirLockMode,
}

impl Drop for Held {
    fn drop(&mut self) {
        match self.mode {
            DirLockMode::Exclusive => self.flag.0.store(0, Ordering::Release),
            DirLockMode::Shared => drop(self.flag.0.fetch_sub(1, Ordering::Release)),
        }
    }
}

struct MemoryFile {
    name: String,
    content: Content,
    read_only: bool,
}

impl MemoryFile {
    fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly("the file")) } else { Ok(()) }
    }
}

impl File for MemoryFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range("read", &self.name, offset, buf.len())?;
        if self.content.read().read(offset, buf) { Ok(()) } else { Err(unexpected_eof(&self.name, offset)) }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_range("write", &self.name, offset, buf.len())?;
        self.content.write().write(offset, buf);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.content.read().size())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        check_range("set the length of", &self.name, len, 0)?;
        self.content.write().set_len(len);
        Ok(())
    }

    fn writes_whole(&self, _len: usize) -> bool {
        false
    }
}
