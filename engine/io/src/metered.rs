//! Counts what reaches a disk.
//!
//! [`MeteredDisk`] wraps any disk. Requests to data and meta files are counted (`data_reads`, ...),
//! with their bytes. Those to log files are not: the log counts its own writes. Nothing is timed
//! here: the callers time their waits, each under its own class.

use std::sync::Arc;

use holdfast_base::Result;
use holdfast_metrics::{Counter, Metrics};

use crate::{Disk, File, FileKind, OpenOptions, ReadAt, WriteAt, forward_disk};

/// Any disk, counted.
#[derive(Clone)]
pub struct MeteredDisk {
    inner: Arc<dyn Disk>,
    metrics: Arc<Metrics>,
}

impl MeteredDisk {
    /// Wraps `inner`; everything is counted in `metrics`.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>, metrics: Arc<Metrics>) -> MeteredDisk {
        MeteredDisk { inner, metrics }
    }
}

impl Disk for MeteredDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, options)?;
        if options.kind == FileKind::Log {
            return Ok(inner);
        }
        Ok(Arc::new(MeteredFile { inner, metrics: self.metrics.clone() }))
    }

    forward_disk!(inner: remove, rename, list, exists, sync_dir, lock, location, describe);
}

struct MeteredFile {
    inner: Arc<dyn File>,
    metrics: Arc<Metrics>,
}

impl MeteredFile {
    /// Counts a request before it is made, and its bytes after it has succeeded.
    fn count(&self, what: [Counter; 2], requests: usize, bytes: usize, io: impl FnOnce() -> Result<()>) -> Result<()> {
        self.metrics.add(what[0], requests as u64);
        io()?;
        self.metrics.add(what[1], bytes as u64);
        Ok(())
    }
}

const READS: [Counter; 2] = [Counter::DataReads, Counter::DataRead];
const WRITES: [Counter; 2] = [Counter::DataWrites, Counter::DataWritten];

impl File for MeteredFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.count(READS, 1, buf.len(), || self.inner.read_at(offset, buf))
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        let bytes = reads.iter().map(|r| r.buf.len()).sum();
        self.count(READS, reads.len(), bytes, || self.inner.read_batch(reads))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.count(WRITES, 1, buf.len(), || self.inner.write_at(offset, buf))
    }

    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        let bytes = writes.iter().map(|w| w.buf.len()).sum();
        self.count(WRITES, writes.len(), bytes, || self.inner.write_batch(writes))
    }

    fn sync(&self) -> Result<()> {
        self.metrics.inc(Counter::DataFsyncs);
        self.inner.sync()
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
