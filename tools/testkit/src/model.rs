//! A disk with one arm: any disk, made as slow as a model of one.
//!
//! [`ModelDisk`] wraps any disk. Each request is done on the wrapped disk at once, and its caller
//! then sleeps on the [`Clock`] until the modelled arm (see `spindle`) would have done it. The
//! model can be switched off while data is loaded. Traffic is counted per file, switched on or off.
//!
//! The one mutex guards the arm and the counts. It is held neither while the wrapped disk works nor
//! while a caller sleeps.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::Result;
use holdfast_base::blocking::Mutex;

use holdfast_io::{Clock, Disk, File, OpenOptions, ReadAt, WriteAt, forward_disk};

use crate::spindle::{DiskModel, Extent, Spindle, Ticket};

/// The requests to one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTraffic {
    /// Read requests; each read of a batch is one.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests; each write of a batch is one.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests, of either kind, that cost a seek while the model was on.
    pub seeks: u64,
    /// Syncs.
    pub syncs: u64,
}

#[derive(Default)]
struct FileState {
    traffic: FileTraffic,
    /// True if something was written since the last sync.
    unsynced: bool,
}

#[derive(Default)]
struct State {
    arm: Spindle,
    files: Vec<FileState>,
    numbers: BTreeMap<String, usize>,
}

struct Shared {
    model: DiskModel,
    clock: Arc<dyn Clock>,
    enabled: AtomicBool,
    state: Mutex<State>,
}

/// Any disk, made as slow as a [`DiskModel`]. Clones are the same disk.
#[derive(Clone)]
pub struct ModelDisk {
    inner: Arc<dyn Disk>,
    shared: Arc<Shared>,
}

impl fmt::Debug for ModelDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelDisk").field("model", &self.shared.model).finish_non_exhaustive()
    }
}

impl ModelDisk {
    /// Wraps `inner`, with the model on.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>, model: DiskModel, clock: Arc<dyn Clock>) -> ModelDisk {
        let (enabled, state) = (AtomicBool::new(true), Mutex::default());
        ModelDisk { inner, shared: Arc::new(Shared { model, clock, enabled, state }) }
    }

    /// Switches the model on or off. While it is off, requests take as long as on the wrapped disk.
    pub fn set_enabled(&self, enabled: bool) {
        self.shared.enabled.store(enabled, Ordering::Relaxed);
    }

    /// The requests to each file so far, by name. A renamed file keeps its counts.
    #[must_use]
    pub fn traffic(&self) -> BTreeMap<String, FileTraffic> {
        let state = self.shared.state.lock();
        state.numbers.iter().map(|(name, number)| (name.clone(), state.files[*number].traffic)).collect()
    }
}

impl Shared {
    fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Counts the transfers, all of one direction, submits them to the arm, and returns when it has
    /// done them.
    fn transfer(&self, file: usize, write: bool, ranges: impl Iterator<Item = (u64, usize)>) {
        let mut ranges: Vec<(u64, usize)> = ranges.filter(|(_, len)| *len > 0).collect();
        // The system sorts the requests of one batch.
        ranges.sort_unstable();
        let enabled = self.is_enabled();
        let mut tickets = Vec::new();
        let mut state = self.state.lock();
        let State { arm, files, .. } = &mut *state;
        let now = self.clock.now();
        for (start, len) in ranges {
            let FileState { traffic, unsynced } = &mut files[file];
            let bytes = len as u64;
            if write {
                traffic.writes += 1;
                traffic.write_bytes += bytes;
                *unsynced = true;
            } else {
                traffic.reads += 1;
                traffic.read_bytes += bytes;
            }
            if enabled {
                let ticket = arm.submit(now, &self.model, Extent { file, write, start, end: start + bytes });
                traffic.seeks += u64::from(ticket.seeks);
                tickets.push(ticket);
            }
        }
        drop(state);
        tickets.into_iter().for_each(|ticket| self.wait(ticket));
    }

    fn sync(&self, file: usize) {
        let mut state = self.state.lock();
        let FileState { traffic, unsynced } = &mut state.files[file];
        traffic.syncs += 1;
        let settles = std::mem::take(unsynced) && self.is_enabled();
        let ticket = settles.then(|| state.arm.settle(self.clock.now(), &self.model));
        drop(state);
        if let Some(ticket) = ticket {
            self.wait(ticket);
        }
    }

    /// Sleeps until the request is done. Others that merge with it or with those before it may
    /// delay it, so a sleeper checks again.
    fn wait(&self, ticket: Ticket) {
        loop {
            let remaining = self.state.lock().arm.remaining(self.clock.now(), ticket);
            match remaining {
                None => return,
                Some(remaining) => self.clock.sleep(remaining),
            }
        }
    }
}

impl Disk for ModelDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, options)?;
        let mut state = self.shared.state.lock();
        let number = match state.numbers.get(name) {
            Some(number) => *number,
            None => {
                state.files.push(FileState::default());
                let number = state.files.len() - 1;
                state.numbers.insert(name.to_string(), number);
                number
            }
        };
        Ok(Arc::new(ModelFile { inner, number, shared: self.shared.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)?;
        let mut state = self.shared.state.lock();
        if let Some(number) = state.numbers.remove(from) {
            state.numbers.insert(to.to_string(), number);
        }
        Ok(())
    }

    forward_disk!(inner: remove, list, exists, sync_dir, lock, location);

    fn describe(&self) -> String {
        let DiskModel { seek, bytes_per_second } = self.shared.model;
        let megabytes = bytes_per_second as f64 / 1e6;
        format!("{} behind a modelled disk arm (seek {seek:?}, {megabytes} MB/s)", self.inner.describe())
    }
}

struct ModelFile {
    inner: Arc<dyn File>,
    number: usize,
    shared: Arc<Shared>,
}

impl File for ModelFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)?;
        self.shared.transfer(self.number, false, std::iter::once((offset, buf.len())));
        Ok(())
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        self.inner.read_batch(reads)?;
        self.shared.transfer(self.number, false, reads.iter().map(|r| (r.offset, r.buf.len())));
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.inner.write_at(offset, buf)?;
        self.shared.transfer(self.number, true, std::iter::once((offset, buf.len())));
        Ok(())
    }

    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        self.inner.write_batch(writes)?;
        self.shared.transfer(self.number, true, writes.iter().map(|w| (w.offset, w.buf.len())));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()?;
        self.shared.sync(self.number);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn writes_whole(&self, len: usize) -> bool {
        self.inner.writes_whole(len)
    }
}
