//! Counts and times what reaches a disk.
//!
//! [`MeteredDisk`] wraps any disk. Requests to data and meta files are counted (`data_reads`, ...) and timed; requests
//! to log files are only timed, because the log knows better what it counts as a write.

use std::sync::Arc;
use std::time::Instant;

use holdfast_base::Result;
use holdfast_metrics::{Counter, Metrics, Timing};

use crate::{DirLock, Disk, File, FileKind, OpenOptions, ReadAt, WriteAt};

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
        Ok(Arc::new(MeteredFile { inner, metrics: self.metrics.clone(), is_log: options.kind == FileKind::Log }))
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

    fn lock(&self) -> Result<DirLock> {
        self.inner.lock()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct MeteredFile {
    inner: Arc<dyn File>,
    metrics: Arc<Metrics>,
    is_log: bool,
}

impl MeteredFile {
    fn read(&self, requests: usize, bytes: usize, read: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_log {
            return read();
        }
        self.metrics.add(Counter::DataReads, requests as u64);
        let start = Instant::now();
        read()?;
        self.metrics.record(Timing::PageRead, start.elapsed());
        self.metrics.add(Counter::DataRead, bytes as u64);
        Ok(())
    }

    fn write(&self, requests: usize, bytes: usize, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        if self.is_log {
            write()?;
            self.metrics.record(Timing::LogWrite, start.elapsed());
            return Ok(());
        }
        self.metrics.add(Counter::DataWrites, requests as u64);
        write()?;
        self.metrics.record(Timing::PageWrite, start.elapsed());
        self.metrics.add(Counter::DataWritten, bytes as u64);
        Ok(())
    }
}

impl File for MeteredFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read(1, buf.len(), || self.inner.read_at(offset, buf))
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        let bytes = reads.iter().map(|r| r.buf.len()).sum();
        self.read(reads.len(), bytes, || self.inner.read_batch(reads))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write(1, buf.len(), || self.inner.write_at(offset, buf))
    }

    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        let bytes = writes.iter().map(|w| w.buf.len()).sum();
        self.write(writes.len(), bytes, || self.inner.write_batch(writes))
    }

    fn sync(&self) -> Result<()> {
        let start = Instant::now();
        self.inner.sync()?;
        if self.is_log {
            self.metrics.record(Timing::LogSync, start.elapsed());
        } else {
            self.metrics.inc(Counter::DataFsyncs);
            self.metrics.record(Timing::DataSync, start.elapsed());
        }
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.punch_hole(offset, len)
    }

    fn atomic_write_unit(&self) -> usize {
        self.inner.atomic_write_unit()
    }
}
