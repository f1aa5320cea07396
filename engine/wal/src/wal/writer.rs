//! The state of the thread that writes the log.

use std::sync::Arc;

use holdfast_io::AlignedBuf;

use crate::segments::Segment;

/// The most bytes of one write.
pub(super) const WRITE_BYTES: usize = 512 << 10;
/// The page size of the operating system's file cache.
pub(super) const FILE_PAGE: u64 = 4096;

/// The state of the thread that writes the ring's bytes to the operating system.
pub(super) struct Writer {
    /// Everything below is complete in the ring or written.
    pub ready: u64,
    /// Everything below is written.
    pub position: u64,
    pub segment: Option<Arc<Segment>>,
    /// Segments written to since they were synced.
    pub unsynced: Vec<Arc<Segment>>,
    pub buffer: AlignedBuf,
}

impl Writer {
    /// Starts at `lsn`.
    pub fn at(lsn: u64) -> Writer {
        Writer {
            ready: lsn,
            position: lsn,
            segment: None,
            unsynced: vec![],
            buffer: AlignedBuf::zeroed(WRITE_BYTES + FILE_PAGE as usize),
        }
    }
}
