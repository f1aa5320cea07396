//! A disk in memory with something that happens at each read, write, removal and question for a
//! length.

use std::sync::Arc;

use holdfast_base::Result;
use holdfast_base::blocking::Mutex;
use holdfast_io::{Disk, File, MemoryDisk, OpenOptions, forward_disk};

type OnRead = dyn Fn(&str, &mut [u8]) + Send + Sync;
type OnWrite = dyn Fn(&str) + Send + Sync;
type OnLen = dyn Fn(&str) + Send + Sync;
type OnRemove = dyn Fn(&str) + Send + Sync;

/// Calls hooks beside a [`MemoryDisk`]. Clones are the same disk. A hook may use what lies on the
/// disk: no lock is held while it runs.
#[derive(Clone)]
pub struct HookedDisk {
    inner: MemoryDisk,
    on_read: Arc<Mutex<Arc<OnRead>>>,
    on_write: Arc<Mutex<Arc<OnWrite>>>,
    on_len: Arc<Mutex<Arc<OnLen>>>,
    on_remove: Arc<Mutex<Arc<OnRemove>>>,
}

struct HookedFile {
    inner: Arc<dyn File>,
    disk: HookedDisk,
}

impl Default for HookedDisk {
    fn default() -> HookedDisk {
        let on_read: Arc<OnRead> = Arc::new(|_, _| ());
        let (on_write, on_len): (Arc<OnWrite>, Arc<OnLen>) = (Arc::new(|_| ()), Arc::new(|_| ()));
        let on_remove: Arc<OnRemove> = Arc::new(|_| ());
        HookedDisk {
            inner: MemoryDisk::new(),
            on_read: Arc::new(Mutex::new(on_read)),
            on_write: Arc::new(Mutex::new(on_write)),
            on_len: Arc::new(Mutex::new(on_len)),
            on_remove: Arc::new(Mutex::new(on_remove)),
        }
    }
}

impl HookedDisk {
    /// From now on `hook` is called after each read, with the name of the file and what was read,
    /// which it may change.
    pub fn on_read(&self, hook: impl Fn(&str, &mut [u8]) + Send + Sync + 'static) {
        *self.on_read.lock() = Arc::new(hook);
    }

    /// From now on `hook` is called before each write, with the name of the file.
    pub fn on_write(&self, hook: impl Fn(&str) + Send + Sync + 'static) {
        *self.on_write.lock() = Arc::new(hook);
    }

    /// From now on `hook` is called before each question for the length of a file, with its name.
    pub fn on_len(&self, hook: impl Fn(&str) + Send + Sync + 'static) {
        *self.on_len.lock() = Arc::new(hook);
    }

    /// From now on `hook` is called before each removal of a file, with its name.
    pub fn on_remove(&self, hook: impl Fn(&str) + Send + Sync + 'static) {
        *self.on_remove.lock() = Arc::new(hook);
    }
}

impl Disk for HookedDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        Ok(Arc::new(HookedFile { inner: self.inner.open(name, options)?, disk: self.clone() }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let hook = Arc::clone(&self.on_remove.lock());
        hook(name);
        self.inner.remove(name)
    }

    forward_disk!(inner: rename, list, exists, sync_dir, lock, location);
}

impl File for HookedFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)?;
        let hook = Arc::clone(&self.disk.on_read.lock());
        hook(self.name(), buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let hook = Arc::clone(&self.disk.on_write.lock());
        hook(self.name());
        self.inner.write_at(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> Result<u64> {
        let hook = Arc::clone(&self.disk.on_len.lock());
        hook(self.name());
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn writes_whole(&self, len: usize) -> bool {
        self.inner.writes_whole(len)
    }
}
