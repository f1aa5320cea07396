//! A disk that fails when a test demands it.
//!
//! [`FaultDisk`] wraps any disk and passes everything on, until a scheduled [`Fault`] fires: at the
//! n-th operation of its kind (on its file, if it names one) since it was scheduled, once or from
//! then on. Bits of stored bytes can be flipped at any time. The mutex of the schedule is not held
//! while the wrapped disk works.

use std::io;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result};

use holdfast_io::{DirLock, DirLockMode, Disk, File, FileKind, OpenOptions, SECTOR};

/// Kinds of operations that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultOp {
    /// Opening or creating a file.
    Open,
    /// A read; each read of a batch is one.
    Read,
    /// A write; each write of a batch is one.
    Write,
    /// A sync of a file.
    Sync,
    /// A change of the length of a file.
    SetLen,
    /// Removing a file.
    Remove,
    /// Renaming a file; the old name counts.
    Rename,
    /// A sync of the directory; never on a file.
    SyncDir,
}

/// What a fault does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// The operation is not done and fails with EIO.
    #[default]
    Eio,
    /// The operation is not done and fails with ENOSPC.
    Enospc,
    /// The operation is not done and fails with EACCES.
    Eacces,
    /// A write is done for the first half of its sectors and fails with EIO; other operations as
    /// [`FaultKind::Eio`].
    Torn,
    /// The operation is not done and reports success; a read or an open as [`FaultKind::Eio`].
    Lost,
}

/// One entry of the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    op: FaultOp,
    nth: u64,
    kind: FaultKind,
    file: Option<String>,
    sticky: bool,
}

impl Fault {
    /// EIO at the `nth` operation of a kind on any file, once. The first operation is 1.
    #[must_use]
    pub fn nth(op: FaultOp, nth: u64) -> Fault {
        Fault { op, nth, kind: FaultKind::Eio, file: None, sticky: false }
    }

    /// The same fault with another effect than EIO.
    #[must_use]
    pub fn kind(self, kind: FaultKind) -> Fault {
        Fault { kind, ..self }
    }

    /// The same fault, counting only operations on files of this name.
    #[must_use]
    pub fn on(self, file: impl Into<String>) -> Fault {
        Fault { file: Some(file.into()), ..self }
    }

    /// The same fault at every operation from the nth on, until [`FaultDisk::clear`].
    #[must_use]
    pub fn sticky(self) -> Fault {
        Fault { sticky: true, ..self }
    }
}

#[derive(Default)]
struct Schedule {
    /// Each fault with the number of operations that it has seen.
    faults: Vec<(Fault, u64)>,
    fired: u64,
}

impl Schedule {
    /// Counts an operation. Returns the effect of the first fault that fires at it.
    fn next(&mut self, op: FaultOp, file: &str) -> Option<FaultKind> {
        let mut fires = None;
        self.faults.retain_mut(|(fault, seen)| {
            if fault.op != op || fault.file.as_deref().is_some_and(|name| name != file) {
                return true;
            }
            *seen += 1;
            let due = *seen >= fault.nth;
            if due && fires.is_none() {
                fires = Some(fault.kind);
            }
            !due || fault.sticky
        });
        self.fired += u64::from(fires.is_some());
        fires
    }
}

/// A disk that fails when a test demands it. Clones share the schedule.
#[derive(Clone)]
pub struct FaultDisk {
    inner: Arc<dyn Disk>,
    schedule: Arc<Mutex<Schedule>>,
}

impl FaultDisk {
    /// Wraps `inner`; nothing fails yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> FaultDisk {
        FaultDisk { inner, schedule: Arc::default() }
    }

    /// Adds a fault to the schedule.
    pub fn schedule(&self, fault: Fault) {
        self.schedule.lock().faults.push((fault, 0));
    }

    /// Removes all faults, so that nothing fails any more.
    pub fn clear(&self) {
        self.schedule.lock().faults.clear();
    }

    /// True if a fault is to come.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        !self.schedule.lock().faults.is_empty()
    }

    /// How many operations a fault has changed.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.schedule.lock().fired
    }

    /// Flips bit `bit` (0 to 7) of the stored byte at `offset` of file `name`.
    ///
    /// # Errors
    /// Any error of the wrapped disk; an error if the file ends before the byte.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u32) -> Result<()> {
        let file = self.inner.open(name, OpenOptions::new(FileKind::Meta))?;
        let mut byte = [0];
        file.read_at(offset, &mut byte)?;
        byte[0] ^= 1u8.rotate_left(bit);
        file.write_at(offset, &byte)
    }

    fn next(&self, op: FaultOp, file: &str) -> Option<FaultKind> {
        self.schedule.lock().next(op, file)
    }

    /// Passes an operation on unless a fault fires.
    fn guard(&self, op: FaultOp, operation: &'static str, file: &str, go: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.next(op, file) {
            None => go(),
            Some(FaultKind::Lost) => Ok(()),
            Some(kind) => Err(error(kind, operation, file)),
        }
    }
}

fn error(kind: FaultKind, operation: &'static str, file: &str) -> Error {
    let source = match kind {
        FaultKind::Enospc => rustix::io::Errno::NOSPC,
        FaultKind::Eacces => rustix::io::Errno::ACCESS,
        FaultKind::Eio | FaultKind::Torn | FaultKind::Lost => rustix::io::Errno::IO,
    };
    Error::io(operation, file, io::Error::from(source))
}

impl Disk for FaultDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        if let Some(kind) = self.next(FaultOp::Open, name) {
            return Err(error(kind, "open", name));
        }
        Ok(Arc::new(FaultFile { inner: self.inner.open(name, options)?, disk: self.clone() }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.guard(FaultOp::Remove, "remove", name, || self.inner.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.guard(FaultOp::Rename, "rename", from, || self.inner.rename(from, to))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.guard(FaultOp::SyncDir, "sync", "the directory", || self.inner.sync_dir())
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.inner.lock(mode)
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn describe(&self) -> String {
        format!("{} with faults", self.inner.describe())
    }
}

struct FaultFile {
    inner: Arc<dyn File>,
    disk: FaultDisk,
}

impl File for FaultFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match self.disk.next(FaultOp::Read, self.name()) {
            None => self.inner.read_at(offset, buf),
            Some(kind) => Err(error(kind, "read", self.name())),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        match self.disk.next(FaultOp::Write, self.name()) {
            None => self.inner.write_at(offset, buf),
            Some(FaultKind::Lost) => Ok(()),
            Some(FaultKind::Torn) => {
                let half = buf.len().div_ceil(SECTOR) / 2 * SECTOR;
                self.inner.write_at(offset, &buf[..half])?;
                Err(error(FaultKind::Torn, "write", self.name()))
            }
            Some(kind) => Err(error(kind, "write", self.name())),
        }
    }

    fn sync(&self) -> Result<()> {
        self.disk.guard(FaultOp::Sync, "sync", self.name(), || self.inner.sync())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.disk.guard(FaultOp::SetLen, "set the length of", self.name(), || self.inner.set_len(len))
    }

    fn writes_whole(&self, len: usize) -> bool {
        self.inner.writes_whole(len)
    }
}
