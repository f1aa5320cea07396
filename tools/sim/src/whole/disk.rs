//! The disk of a run: slow, and each operation is a point of the scheduler. Faults and power cuts
//! come from the disks beneath.
//!
//! A sync that fails loses what was to be synced, as Linux has it: a later sync succeeds without
//! writing it.

use std::sync::Arc;
use std::time::Duration;

use holdfast::io::{Clock, DirLock, DirLockMode, Disk, File, OpenOptions};
use holdfast::{Error, Result};
use holdfast_base::{sim, thread};
use holdfast_io::FileKind;
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::history::Coverage;

/// See the module.
pub(super) struct SlowDisk {
    inner: Arc<dyn Disk>,
    below: Arc<Below>,
    /// The most microseconds that the write of a page takes.
    page_micros: u64,
}

/// What is beneath a [`SlowDisk`], and where its failures are counted.
struct Below {
    medium: CrashDisk,
    coverage: Arc<Coverage>,
}

impl SlowDisk {
    /// Over `faulty`, which lies over `medium`.
    pub fn new(faulty: &FaultDisk, medium: &CrashDisk, coverage: &Arc<Coverage>) -> SlowDisk {
        let below = Arc::new(Below { medium: medium.clone(), coverage: Arc::clone(coverage) });
        SlowDisk { inner: Arc::new(faulty.clone()), below, page_micros: WRITE_MICROS }
    }

    /// The write of a page takes up to `micros` microseconds.
    pub fn page_micros(self, micros: u64) -> SlowDisk {
        SlowDisk { page_micros: micros, ..self }
    }
}

/// The system's number of an input/output error, which is what faults are.
const EIO: i32 = 5;

impl Below {
    /// Counts the failure `what`, if `result` is one of a fault.
    fn note<T>(&self, what: [&'static str; 2], result: Result<T>) -> Result<T> {
        match &result {
            Err(Error::DiskFull(_)) => self.coverage.count(what[1]),
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(EIO) => self.coverage.count(what[0]),
            _ => {}
        }
        result
    }
}

const OPEN: [&str; 2] = ["fault: open", "fault: no room at open"];
const RENAME: [&str; 2] = ["fault: rename", "fault: no room at rename"];
const REMOVE: [&str; 2] = ["fault: remove", "fault: no room at remove"];
const SYNC_DIR: [&str; 2] = ["fault: sync of the directory", "fault: no room at sync"];
const READ: [&str; 2] = ["fault: read", "fault: no room at read"];
const WRITE: [&str; 2] = ["fault: write", "fault: no room at write"];
const SYNC: [&str; 2] = ["fault: sync", "fault: no room at sync"];
const SYNC_DATA: [&str; 2] = ["fault: sync of a file of pages", "fault: no room at sync"];
const SET_LEN: [&str; 2] = ["fault: length", "fault: no room at length"];

/// Lets the time of one operation pass: up to `most` microseconds, rarely a hundred times that.
fn take_time(most: u64) {
    let draw = sim::random().unwrap_or(0);
    let micros = draw % most + if draw >> 32 & 0x3ff == 0 { most * 100 } else { 0 };
    thread::sleep(Duration::from_micros(micros));
}

const READ_MICROS: u64 = 100;
/// The most microseconds that the write of a page takes on most disks.
pub(super) const WRITE_MICROS: u64 = 60;
const SYNC_MICROS: u64 = 2_000;

impl Disk for SlowDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        take_time(WRITE_MICROS);
        let write_micros = if options.kind == FileKind::Data { self.page_micros } else { WRITE_MICROS };
        let inner = self.below.note(OPEN, self.inner.open(name, options))?;
        Ok(Arc::new(SlowFile { inner, below: Arc::clone(&self.below), write_micros }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        take_time(WRITE_MICROS);
        self.below.note(REMOVE, self.inner.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        take_time(WRITE_MICROS);
        self.below.note(RENAME, self.inner.rename(from, to))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn sync_dir(&self) -> Result<()> {
        take_time(SYNC_MICROS);
        self.below.note(SYNC_DIR, self.inner.sync_dir())
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

struct SlowFile {
    inner: Arc<dyn File>,
    below: Arc<Below>,
    write_micros: u64,
}

impl File for SlowFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        take_time(READ_MICROS);
        self.below.note(READ, self.inner.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        take_time(self.write_micros);
        self.below.note(WRITE, self.inner.write_at(offset, buf))
    }

    fn sync(&self) -> Result<()> {
        take_time(SYNC_MICROS);
        let what = if self.name().ends_with(".hf") { SYNC_DATA } else { SYNC };
        let result = self.below.note(what, self.inner.sync());
        if result.is_err() {
            self.below.medium.lose_unsynced(self.name());
        }
        result
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        take_time(WRITE_MICROS);
        self.below.note(SET_LEN, self.inner.set_len(len))
    }

    fn writes_whole(&self, len: usize) -> bool {
        self.inner.writes_whole(len)
    }
}

/// The clock of a run.
pub(crate) struct RunClock;

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
    matches!(error, Error::Poisoned(_) | Error::Closed(_)) || CrashDisk::is_power_cut(error)
}
