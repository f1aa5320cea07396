//! The disk of a run: slow, and each operation is a point of the scheduler. Faults and power cuts come from the disks beneath.

use std::sync::Arc;
use std::time::Duration;

use holdfast::io::{Clock, DirLock, Disk, File, LockMode, OpenOptions};
use holdfast::{Error, Result};
use holdfast_base::{sim, thread};

/// See the module.
pub(super) struct SlowDisk {
    inner: Arc<dyn Disk>,
}

impl SlowDisk {
    pub fn new(inner: Arc<dyn Disk>) -> SlowDisk {
        SlowDisk { inner }
    }
}

/// Lets the time of one operation pass: up to `most` microseconds, rarely a hundred times that.
fn take_time(most: u64) {
    let draw = sim::random().unwrap_or(0);
    let micros = draw % most + if draw >> 32 & 0x3ff == 0 { most * 100 } else { 0 };
    thread::sleep(Duration::from_micros(micros));
}

const READ: u64 = 100;
const WRITE: u64 = 60;
const SYNC: u64 = 2_000;

impl Disk for SlowDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        take_time(WRITE);
        Ok(Arc::new(SlowFile { inner: self.inner.open(name, options)? }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        take_time(WRITE);
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        take_time(WRITE);
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn sync_dir(&self) -> Result<()> {
        take_time(SYNC);
        self.inner.sync_dir()
    }

    fn lock(&self, mode: LockMode) -> Result<DirLock> {
        self.inner.lock(mode)
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct SlowFile {
    inner: Arc<dyn File>,
}

impl File for SlowFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        take_time(READ);
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        take_time(WRITE);
        self.inner.write_at(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        take_time(SYNC);
        self.inner.sync()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        take_time(WRITE);
        self.inner.set_len(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        take_time(WRITE);
        self.inner.punch_hole(offset, len)
    }

    fn atomic_write_unit(&self) -> usize {
        self.inner.atomic_write_unit()
    }
}

/// The clock of a run.
pub(super) struct RunClock;

impl Clock for RunClock {
    fn now(&self) -> Duration {
        sim::now().unwrap_or_default()
    }

    fn sleep(&self, d: Duration) {
        thread::sleep(d);
    }
}

/// True for errors after which a life is over: the power is off, or the database has stopped.
pub(super) fn ends_life(error: &Error) -> bool {
    matches!(error, Error::Poisoned(_) | Error::Closed(_)) || holdfast_io::CrashDisk::is_power_cut(error)
}
