//! Floor 2: the write-ahead log. (Skeleton: the API is final, the bodies are not.)
#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::missing_errors_doc)]

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::{Error, Lsn, Result};
use holdfast_io::Disk;
use holdfast_metrics::Metrics;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushAtCommit {
    Lazy = 0,
    Sync = 1,
    Write = 2,
}

#[derive(Clone, Debug)]
pub struct WalConfig {
    pub capacity_bytes: u64,
    pub buffer_bytes: usize,
    pub flush: FlushAtCommit,
    pub page_size: u32,
}
impl Default for WalConfig {
    fn default() -> Self {
        WalConfig { capacity_bytes: 96 << 20, buffer_bytes: 8 << 20, flush: FlushAtCommit::Sync, page_size: 16 << 10 }
    }
}

/// Set once, with the first reason; shared by all floors.
#[derive(Debug, Default)]
pub struct Poison {
    _p: (),
}
impl Poison {
    pub fn new() -> Arc<Poison> {
        Arc::default()
    }
    pub fn set(&self, _why: impl Into<Arc<str>>) {}
    pub fn check(&self) -> Result<()> {
        Ok(())
    }
    pub fn is_set(&self) -> bool {
        false
    }
    pub fn reason(&self) -> Option<Arc<str>> {
        None
    }
}

/// Who asks for log space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceClass {
    User,
    Rollback, /* purge, too */
    Checkpoint,
}

/// A promise of log space; what is left of it is given back on drop. Owns an Arc, no lifetime.
#[derive(Debug)]
pub struct SpaceTicket {
    left: u64,
}
impl SpaceTicket {
    pub fn bytes(&self) -> u64 {
        self.left
    }
    /// Tells that `bytes` of it have been appended.
    pub fn consume(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

#[derive(Debug)]
pub struct WriterSlot<'a> {
    _wal: &'a Wal,
}
impl Drop for WriterSlot<'_> {
    fn drop(&mut self) {}
}

/// Bytes of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// One mini-transaction's records.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    pub start: Lsn,
    pub end: Lsn,
    pub epoch: u32,
    pub stamp: Lsn,
    pub payload: &'a [u8],
}

#[derive(Debug)]
pub struct Recovery {
    wal: Arc<Wal>,
}
impl Recovery {
    /// The payload stored with the checkpoint that recovery starts at.
    pub fn checkpoint_payload(&self) -> &[u8] {
        &[]
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        self.wal.checkpoint_lsn()
    }
    /// End of the log: known from the start, open has verified all groups.
    pub fn end_lsn(&self) -> Lsn {
        Lsn(0)
    }
    pub fn next(&mut self) -> Result<Option<Group<'_>>> {
        Ok(None)
    }
    pub fn progress(&self) -> Progress {
        Progress::default()
    }
    /// Positions the log for appending.
    pub fn finish(self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct Wal {
    _p: (),
}
impl Wal {
    pub fn create(
        _disk: Arc<dyn Disk>,
        _uuid: [u8; 16],
        _config: WalConfig,
        _metrics: Arc<Metrics>,
    ) -> Result<Arc<Wal>> {
        Err(Error::invalid("skeleton"))
    }
    pub fn open(
        _disk: Arc<dyn Disk>,
        _uuid: [u8; 16],
        _config: WalConfig,
        _metrics: Arc<Metrics>,
    ) -> Result<(Arc<Wal>, Recovery)> {
        Err(Error::invalid("skeleton"))
    }
    /// Longest payload of one group.
    pub fn max_payload(&self) -> usize {
        0
    }
    /// Bytes of log that a group with a payload of `len` bytes takes: for `reserve`.
    pub fn group_bytes(len: usize) -> u64 {
        len as u64
    }
    pub fn reserve(self: &Arc<Self>, bytes: u64, _class: SpaceClass) -> Result<SpaceTicket> {
        Ok(SpaceTicket { left: bytes })
    }
    pub fn try_reserve(self: &Arc<Self>, bytes: u64, _class: SpaceClass) -> Result<Option<SpaceTicket>> {
        Ok(Some(SpaceTicket { left: bytes }))
    }
    /// To be slept by the caller at statement start, never under a latch.
    pub fn throttle_delay(&self) -> Duration {
        Duration::ZERO
    }
    pub fn enter(&self) -> WriterSlot<'_> {
        WriterSlot { _wal: self }
    }
    pub fn append(&self, _payload: &[u8]) -> Result<(Lsn, Lsn)> {
        Err(Error::invalid("skeleton"))
    }
    pub fn flush_to(&self, _lsn: Lsn) -> Result<()> {
        Ok(())
    }
    pub fn write_to(&self, _lsn: Lsn) -> Result<()> {
        Ok(())
    }
    /// What the configured `FlushAtCommit` asks for.
    pub fn commit_to(&self, _lsn: Lsn) -> Result<()> {
        Ok(())
    }
    pub fn set_flush_at_commit(self: &Arc<Self>, _mode: FlushAtCommit) {}
    pub fn flush_at_commit(&self) -> FlushAtCommit {
        FlushAtCommit::Sync
    }
    pub fn next_lsn(&self) -> Lsn {
        Lsn(0)
    }
    pub fn written_lsn(&self) -> Lsn {
        Lsn(0)
    }
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(0)
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(0)
    }
    pub fn capacity(&self) -> u64 {
        0
    }
    /// next_lsn - checkpoint_lsn.
    pub fn age(&self) -> u64 {
        0
    }
    /// Age at which user tickets wait.
    pub fn user_limit(&self) -> u64 {
        0
    }
    /// Call `oldest_writer()` BEFORE reading the oldest dirty page; checkpoint at the minimum of both.
    pub fn oldest_writer(&self) -> Lsn {
        Lsn(0)
    }
    pub fn set_checkpoint(&self, _lsn: Lsn, _payload: &[u8]) -> Result<()> {
        Ok(())
    }
    pub fn poison(&self, _why: &str) {}
    pub fn check_poisoned(&self) -> Result<()> {
        Ok(())
    }
    pub fn shared_poison(&self) -> &Arc<Poison> {
        unreachable!()
    }
    /// Calls `callback` each time the log has grown by `bytes`, and when somebody waits for space.
    /// It runs under latches: it may only notify.
    pub fn on_growth(&self, _bytes: u64, _callback: Box<dyn Fn() + Send + Sync>) {}
    /// Follows the live log from `from` (backup); keeps the segments it still needs.
    pub fn tail(self: &Arc<Self>, _from: Lsn) -> Result<LogTail> {
        Ok(LogTail { _p: () })
    }
    /// Flushes everything, stops the background flusher. Later appends fail with `Error::Closed`.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct LogTail {
    _p: (),
}
impl LogTail {
    /// Appends raw log bytes up to `written_lsn` (at most about `max`) to `out`; returns the LSN range. Empty: caught up.
    pub fn read(&mut self, _max: usize, _out: &mut Vec<u8>) -> Result<(Lsn, Lsn)> {
        Ok((Lsn(0), Lsn(0)))
    }
}

/// Reads a log without writing to the disk (dump, verify, read-only open).
pub struct LogReader {
    _p: (),
}
impl LogReader {
    pub fn open(_disk: Arc<dyn Disk>, _uuid: Option<[u8; 16]>) -> Result<LogReader> {
        Ok(LogReader { _p: () })
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(0)
    }
    pub fn checkpoint_payload(&self) -> &[u8] {
        &[]
    }
    pub fn next(&mut self) -> Result<Option<Group<'_>>> {
        Ok(None)
    }
    pub fn progress(&self) -> Progress {
        Progress::default()
    }
}
