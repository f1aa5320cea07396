//! Helpers of the log's tests.

use std::sync::Arc;

use holdfast_base::{Lsn, Result};
use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_wal::{LogEnd, LogReader, Recovery, Wal, WalConfig};

pub const UUID: [u8; 16] = *b"a test database.";
/// Log bytes of a segment under [`small`].
pub const SEGMENT: u64 = (256 << 10) - 4096;
/// LSN of the first group.
pub const FIRST: u64 = 4096;

/// The smallest log, with the smallest buffer.
pub fn small() -> WalConfig {
    WalConfig { capacity_bytes: 4 << 20, buffer_bytes: 64 << 10, page_size: 4096, ..WalConfig::default() }
}

pub fn create(disk: &Arc<impl Disk + 'static>) -> Arc<Wal> {
    Wal::create(disk.clone(), UUID, small(), Metrics::new()).unwrap()
}

pub fn open(disk: &Arc<impl Disk + 'static>) -> Result<(Arc<Wal>, Recovery)> {
    Wal::open(disk.clone(), UUID, small(), Metrics::new())
}

/// Opens the log, takes all groups, and is ready to append.
pub fn recover(disk: &Arc<impl Disk + 'static>) -> Result<(Arc<Wal>, Vec<Vec<u8>>)> {
    let (wal, mut recovery) = open(disk)?;
    let mut groups = Vec::new();
    while let Some(group) = recovery.next()? {
        groups.push(group.payload.to_vec());
    }
    recovery.finish()?;
    Ok((wal, groups))
}

/// Reads the log without touching it.
pub fn read(disk: &Arc<impl Disk + 'static>) -> Result<(Vec<Vec<u8>>, LogEnd)> {
    let mut reader = LogReader::open(disk.as_ref(), Some(UUID))?;
    let mut groups = Vec::new();
    while let Some(group) = reader.next()? {
        groups.push(group.payload.to_vec());
    }
    Ok((groups, reader.end().unwrap()))
}

/// A recognisable payload of `len` bytes (8 at least).
pub fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.max(8)).map(|i| (i as u64 * 7 + number) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The file and offset of `lsn` in a log that has never recycled a segment.
pub fn place(lsn: Lsn) -> (String, u64) {
    let number = (lsn.0 - FIRST) / SEGMENT + 1;
    (format!("wal.{number:06}"), 4096 + (lsn.0 - FIRST) % SEGMENT)
}

/// Changes stored bytes.
pub fn patch(disk: &dyn Disk, name: &str, offset: u64, len: usize, change: impl FnOnce(&mut [u8])) {
    let file = disk.open(name, OpenOptions::new(FileKind::Log)).unwrap();
    let mut bytes = vec![0; len];
    file.read_at(offset, &mut bytes).unwrap();
    change(&mut bytes);
    file.write_at(offset, &bytes).unwrap();
}

pub fn append_synced(wal: &Wal, payload: &[u8]) -> (Lsn, Lsn) {
    let range = wal.append(payload).unwrap();
    wal.flush_to(range.1).unwrap();
    range
}
