//! Follows the live log, and writes its groups into another directory: the log's part of a backup.

use std::fmt;
use std::sync::Arc;

use holdfast_base::{Error, Lsn, Result, checksum_append};
use holdfast_io::Disk;

use crate::checkpoint::{Checkpoint, CheckpointFile};
use crate::config::{Geometry, Sizes};
use crate::format::{self, GROUP_HEADER, GroupHeader};
use crate::segments::{Segment, SegmentSet, no_segment};
use crate::{Group, Wal, WalConfig};

/// The bytes of one read.
const CHUNK: u64 = 1 << 20;

/// Follows the live log up to what is written. It holds back the reuse of the segments that it
/// still has to read, so the files may exceed the capacity while it lags. No thread waits for it.
pub struct LogTail {
    wal: Arc<Wal>,
    hold: u64,
    position: u64,
    seed: u32,
    segment: Option<Arc<Segment>>,
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl Wal {
    /// Follows the log from `from`, the start of a group.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the segment of `from` has been given up, or `from` lies beyond
    /// the end.
    pub fn tail(self: &Arc<Self>, from: Lsn) -> Result<LogTail> {
        let is_there = from <= self.next_lsn();
        let hold = if is_there { self.segments().hold(from.0) } else { None };
        let hold = hold.ok_or_else(|| Error::invalid(format!("the log from {from} on is not there")))?;
        Ok(LogTail {
            wal: self.clone(),
            hold,
            position: from.0,
            seed: self.seed(),
            segment: None,
            buffer: Vec::new(),
            buffer_start: from.0,
        })
    }
}

impl LogTail {
    /// The LSN of the next group.
    #[must_use]
    pub fn position(&self) -> Lsn {
        Lsn(self.position)
    }

    /// Returns the next written group, or `None` if there is none for now.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if the file does not hold what was written to it; any error of the
    /// disk.
    #[expect(clippy::should_implement_trait, reason = "the group borrows from the tail")]
    pub fn next(&mut self) -> Result<Option<Group<'_>>> {
        let written = self.wal.written_lsn().0;
        if self.position >= written {
            return Ok(None);
        }
        let at = self.fill(GROUP_HEADER, written)?;
        let header = GroupHeader::decode(&self.buffer[at..]).filter(|h| h.lsn == self.position);
        let header = header.filter(|h| h.group_len() <= written - self.position).ok_or_else(|| self.damaged())?;
        let len = header.group_len();
        let at = self.fill(len, written)?;
        if !header.matches(self.seed, &self.buffer[at..at + len as usize]) {
            return Err(self.damaged());
        }
        let start = self.position;
        self.position += len;
        let payload = at + GROUP_HEADER as usize;
        Ok(Some(Group {
            start: Lsn(start),
            end: Lsn(self.position),
            epoch: header.epoch,
            stamp: Lsn(header.stamp),
            payload: &self.buffer[payload..payload + header.payload_len as usize],
        }))
    }

    /// Makes the buffer hold `len` bytes from the position on. Returns their index in the buffer.
    fn fill(&mut self, len: u64, written: u64) -> Result<usize> {
        let have_end = self.buffer_start + self.buffer.len() as u64;
        if self.position + len > have_end {
            self.wal.segments().move_hold(self.hold, Some(self.position));
            let to = (self.position + CHUNK.max(len)).min(written);
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize((to - self.position) as usize, 0);
            let mut at = self.position;
            while at < to {
                let segment = match self.segment.take() {
                    Some(s) if (s.start..s.end).contains(&at) => s,
                    _ => self.wal.segments().find(at).ok_or_else(|| no_segment(at))?,
                };
                let end = to.min(segment.end);
                let range = (at - self.position) as usize..(end - self.position) as usize;
                segment.file.read_at(segment.offset_of(at), &mut buffer[range])?;
                (self.segment, at) = (Some(segment), end);
            }
            (self.buffer, self.buffer_start) = (buffer, self.position);
        }
        Ok((self.position - self.buffer_start) as usize)
    }

    fn damaged(&self) -> Error {
        let what = format!("the group at log sequence number {} is not what was written there", self.position);
        Error::damaged_file("the log", what)
    }
}

impl Drop for LogTail {
    fn drop(&mut self) {
        self.wal.segments().move_hold(self.hold, None);
    }
}

impl fmt::Debug for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTail").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Writes groups of a log, byte for byte at their own LSNs, into another directory, as a log that
/// can be opened there.
pub struct LogCopy {
    disk: Arc<dyn Disk>,
    uuid: [u8; 16],
    seed: u32,
    segments: SegmentSet,
    start: u64,
    position: u64,
    epochs: Option<(u32, u32)>,
}

impl LogCopy {
    /// Begins a copy at `start`, the checkpoint of the copied data files.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a capacity that is too small, or a start that no group can
    /// have.
    pub fn create(disk: Arc<dyn Disk>, uuid: [u8; 16], config: &WalConfig, start: Lsn) -> Result<LogCopy> {
        let geometry = Geometry::new(config)?;
        if !crate::checkpoint::is_position(start.0) {
            return Err(Error::invalid(format!("no group can start at log sequence number {start}")));
        }
        let sizes = Arc::new(Sizes::new(geometry));
        let segments = SegmentSet::new(disk.clone(), uuid, config.page_size, sizes, vec![], start.0);
        let (start, seed) = (start.0, format::seed(&uuid));
        Ok(LogCopy { disk, uuid, seed, segments, start, position: start, epochs: None })
    }

    /// Appends the next group.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it does not follow the one before, [`Error::DiskFull`], and
    /// any other error of the disk.
    pub fn push(&mut self, group: &Group<'_>) -> Result<()> {
        if group.start.0 != self.position {
            return Err(Error::invalid(format!("the group at {} does not follow {}", group.start, self.position)));
        }
        let crc = checksum_append(self.seed, group.payload);
        let header = GroupHeader::new(group.payload.len(), crc, group.start.0, group.stamp.0, group.epoch);
        let mut bytes: Vec<u8> = header.words().into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend_from_slice(group.payload);
        bytes.resize(header.group_len() as usize, 0);
        let end = self.position + bytes.len() as u64;
        self.segments.prepare_to(end)?;
        let mut at = self.position;
        while at < end {
            let segment = self.segments.find(at).ok_or_else(|| no_segment(at))?;
            let to = end.min(segment.end);
            let range = (at - self.position) as usize..(to - self.position) as usize;
            segment.file.write_at(segment.offset_of(at), &bytes[range])?;
            at = to;
        }
        self.position = end;
        let (first, last) = self.epochs.unwrap_or((group.epoch, group.epoch));
        self.epochs = Some((first, last.max(group.epoch)));
        Ok(())
    }

    /// The end of what was copied.
    #[must_use]
    pub fn position(&self) -> Lsn {
        Lsn(self.position)
    }

    /// Makes the copy durable and stores its checkpoint, with `payload` for the floors above.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a payload beyond 2 KiB; [`Error::AlreadyExists`]; any error
    /// of the disk.
    pub fn finish(self, payload: &[u8]) -> Result<()> {
        if payload.len() > crate::checkpoint::PAYLOAD_MAX {
            return Err(Error::invalid(format!("a checkpoint payload of {} bytes is too long", payload.len())));
        }
        self.segments.prepare_to(self.position + 1)?;
        self.segments.sync_all()?;
        // The files are new: no leftovers of earlier epochs can follow.
        let (min_epoch, epoch) = self.epochs.unwrap_or((1, 1));
        let mut first = Checkpoint::first(self.uuid, self.start);
        (first.min_epoch, first.epoch) = (min_epoch, epoch);
        (first.epoch_start, first.durable, first.payload) = (self.position, self.position, payload.to_vec());
        CheckpointFile::create(self.disk.as_ref(), first).map(drop)
    }
}

impl fmt::Debug for LogCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogCopy").field("start", &self.start).field("position", &self.position).finish_non_exhaustive()
    }
}
