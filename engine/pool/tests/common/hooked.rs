//! Files in memory, with something that happens before each write.

use std::sync::Arc;

use holdfast_base::Result;
use holdfast_base::blocking::Mutex;
use holdfast_io::{DirLock, DirLockMode, Disk, File, MemoryDisk, OpenOptions};

/// Is given the name of the file.
type Hook = dyn Fn(&str) + Send + Sync;

/// A disk in memory with a hook. Clones are the same disk.
#[derive(Clone)]
pub struct HookedDisk {
    inner: MemoryDisk,
    hook: Arc<Mutex<Arc<Hook>>>,
}

struct HookedFile {
    inner: Arc<dyn File>,
    disk: HookedDisk,
}

impl Default for HookedDisk {
    fn default() -> HookedDisk {
        HookedDisk { inner: MemoryDisk::new(), hook: Arc::new(Mutex::new(Arc::new(|_: &str| ()))) }
    }
}

impl HookedDisk {
    /// From now on `hook` is called before each write.
    pub fn on_write(&self, hook: impl Fn(&str) + Send + Sync + 'static) {
        *self.hook.lock() = Arc::new(hook);
    }
}

impl Disk for HookedDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        Ok(Arc::new(HookedFile { inner: self.inner.open(name, options)?, disk: self.clone() }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.inner.lock(mode)
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

impl File for HookedFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let hook = Arc::clone(&self.disk.hook.lock());
        hook(self.name());
        self.inner.write_at(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn atomic_write_unit(&self) -> usize {
        self.inner.atomic_write_unit()
    }
}
