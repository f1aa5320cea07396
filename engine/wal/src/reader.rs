//! Reads a log group by group, verifying everything and writing nothing.
//!
//! Reading starts at the checkpoint. It ends at the first position without a group of this log: the
//! bytes are blank, stale or torn, or the group belongs to an earlier epoch than its predecessor.
//! Such a position is the end of the log or damage in the middle of it. What follows decides. Every
//! group carries, as its *stamp*, the LSN that was durable when the group was appended. The
//! position is damage if
//!
//! 1. a later intact group has a stamp beyond it: the position was durable once; or
//! 2. the checkpoint slot records a durable LSN beyond it; or
//! 3. the log goes on in a segment behind a missing one or behind a broken header: a segment is
//!    made durable before anything is written into it or its successors.
//!
//! Otherwise it is the torn tail of the last writes before a crash. The very last flush is
//! undecidable, since no later stamp covers what it wrote.
//!
//! Stale groups give no false proof. The stamp of a group of an earlier life was durable in that
//! life, and no recovery ends the log below a proven LSN. So a stamp beyond the position is true,
//! whatever the epoch of its group.
//!
//! Invariant: `buffer` holds the log bytes from `buffer_start` on; `position` is where the next
//! group begins.

use std::ops::Range;
use std::sync::Arc;

use holdfast_base::codec::get_u64;
use holdfast_base::{Error, Lsn, Result};
use holdfast_io::{Disk, File, FileKind, OpenOptions};

use crate::checkpoint::{self, Checkpoint};
use crate::format::{self, GROUP_BYTES_MAX, GROUP_HEADER, GroupHeader, SEGMENT_HEADER, SegmentHeader};
use crate::segments::{Segment, file_name, for_each_piece, number_of};

/// The bytes of one read.
const CHUNK: u64 = 1 << 20;

/// The records of one mini-transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The LSN of the group.
    pub start: Lsn,
    /// The LSN of what follows the group. Pages that the group changes carry it.
    pub end: Lsn,
    /// The life of the database (counted by opens) in which the group was appended.
    pub epoch: u32,
    /// Everything below this LSN was durable when the group was appended.
    pub stamp: Lsn,
    /// The records.
    pub payload: &'a [u8],
}

/// The progress of reading the log, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The bytes read.
    pub done: u64,
    /// The bytes to read altogether. Exact for [`crate::Recovery`], an upper bound for
    /// [`LogReader`].
    pub total: u64,
}

/// Why a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The bytes were never written.
    Blank,
    /// The bytes are from an earlier use of the segment.
    Stale,
    /// A group was not written completely.
    Torn,
    /// An intact group of an earlier life, left behind when a recovery ended the log before it.
    EarlierEpoch,
    /// The last prepared segment is full.
    NoMoreSegments,
    /// The reader was told to stop at this LSN.
    Limit,
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The LSN of the next group.
    pub lsn: Lsn,
    /// Why there is no next group.
    pub reason: EndReason,
}

/// The files of a log in its directory.
pub(crate) struct Inventory {
    /// The segments from the one with the checkpoint on, without gaps.
    pub chain: Vec<Segment>,
    /// Further segments that may hold proofs of damage.
    suspects: Vec<Segment>,
    /// The names of the files that are not in the chain, but for those of `unread`.
    pub others: Vec<String>,
    /// Files that the system does not return and that the log does not need, and why. They stay as
    /// they are: they may be another database's.
    pub unread: Vec<(String, Error)>,
    /// The page size recorded in the first segment of the chain.
    pub page_size: u32,
}

impl Inventory {
    /// Reads the headers of all segment files. `at` is the checkpoint LSN.
    ///
    /// A file that the system does not return is passed over if the segment that holds `at` is
    /// intact and has a greater number: numbers go up with LSNs, so the log has passed that file,
    /// and does not come back to its name. Any other may hold log, or the proof that there was
    /// more. It is needed after a clean close, too: the log goes on in it.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if the segment that holds `at` is missing, or if a segment belongs to
    /// another database: it would be reused. [`Error::Incompatible`] for segments of an unknown
    /// format. Those of reading a file that is needed.
    pub fn take(disk: &dyn Disk, uuid: &[u8; 16], at: u64, options: OpenOptions) -> Result<Inventory> {
        let mut intact: Vec<(Segment, u32)> = Vec::new();
        let mut bad: Vec<Found> = Vec::new();
        let mut unread: Vec<(u64, Error)> = Vec::new();
        for name in disk.list()? {
            let Some(number) = number_of(&name) else { continue };
            let found = match Found::open(disk, &name, number, options) {
                Err(error) if error.is_unread() => {
                    unread.push((number, error));
                    continue;
                }
                found => found?,
            };
            match found.header {
                Some(h) if h.uuid != *uuid => {
                    let what = "it belongs to another database (its UUID differs); move it away";
                    return Err(Error::damaged_file(name, what));
                }
                Some(h) if h.number == number && found.len >= SEGMENT_HEADER + h.data_len => {
                    let segment = Segment { number, start: h.start, end: h.start + h.data_len, file: found.file };
                    intact.push((segment, h.page_size));
                }
                _ => bad.push(found),
            }
        }
        intact.sort_by_key(|(s, _)| s.number);
        let first = intact.iter().rposition(|(s, _)| s.start <= at && at <= s.end);
        let is_needed = |number: u64| first.is_none_or(|first| number > intact[first].0.number);
        if let Some((_, error)) = unread.iter().find(|(number, _)| is_needed(*number)) {
            return Err(error.clone());
        }
        let Some(first) = first else {
            let what = format!("no intact segment holds log sequence number {at}, where recovery has to begin");
            return Err(Error::damaged_file("the log", what));
        };
        let unread = unread.into_iter().map(|(number, error)| (file_name(number), error)).collect();
        let page_size = intact[first].1;
        let mut inventory = Inventory { chain: vec![], suspects: vec![], others: vec![], unread, page_size };
        let older = intact.drain(..first).map(|(s, _)| file_name(s.number));
        inventory.others.extend(older);
        for (segment, _) in intact {
            match inventory.chain.last() {
                Some(last) if last.number + 1 != segment.number || last.end != segment.start => {
                    inventory.others.push(file_name(segment.number));
                    inventory.suspects.push(segment);
                }
                _ => inventory.chain.push(segment),
            }
        }
        inventory.others.extend(bad.iter().map(|found| file_name(found.number)));
        inventory.suspect_successor(bad);
        Ok(inventory)
    }

    /// Adds a file with a broken header whose name says that it follows the chain. If it held log,
    /// the log begins at the end of the chain.
    fn suspect_successor(&mut self, bad: Vec<Found>) {
        let Some(last) = self.chain.last() else { return };
        let (next, start) = (last.number + 1, last.end);
        for Found { number, file, len, .. } in bad {
            let data = len.saturating_sub(SEGMENT_HEADER) & !(GROUP_HEADER - 1);
            if number == next && data > 0 {
                self.suspects.push(Segment { number, start, end: start + data, file });
            }
        }
    }

    fn end(&self) -> u64 {
        self.chain.last().map_or(0, |s| s.end)
    }

    fn find(&self, lsn: u64) -> Option<&Segment> {
        self.chain.get(self.chain.partition_point(|s| s.end <= lsn)).filter(|s| s.start <= lsn)
    }
}

/// A file that is named like a segment.
struct Found {
    number: u64,
    file: Arc<dyn File>,
    len: u64,
    /// If it is intact.
    header: Option<SegmentHeader>,
}

impl Found {
    fn open(disk: &dyn Disk, name: &str, number: u64, options: OpenOptions) -> Result<Found> {
        let file = disk.open(name, options)?;
        let len = file.len()?;
        let mut bytes = vec![0; SEGMENT_HEADER.min(len) as usize];
        file.read_at(0, &mut bytes)?;
        let header = SegmentHeader::decode(&bytes).map_err(|what| {
            Error::Incompatible(format!("{name} has {what}, which this version does not know; use a newer one"))
        })?;
        Ok(Found { number, file, len, header })
    }
}

/// Reads and verifies a log, from the checkpoint to its end, without writing to the disk.
pub struct LogReader {
    inventory: Inventory,
    checkpoint: Checkpoint,
    seed: u32,
    position: u64,
    /// Reading stops at this LSN at the latest.
    limit: u64,
    /// The epoch of the group read last.
    epoch: u32,
    /// The stamp of the group read last.
    stamp: u64,
    groups: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
    end: Option<LogEnd>,
}

impl LogReader {
    /// Opens the log in `disk` at its checkpoint. `uuid` is the database that the log must belong
    /// to; `None` accepts any.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] without a log. [`Error::DamagedFile`] if its checkpoint or the first
    /// segment to read is not intact, or it is another database's. [`Error::Incompatible`] for
    /// another format.
    pub fn open(disk: &dyn Disk, uuid: Option<[u8; 16]>) -> Result<LogReader> {
        let checkpoint = checkpoint::read(disk)?;
        if uuid.is_some_and(|uuid| uuid != checkpoint.uuid) {
            return Err(checkpoint::of_another());
        }
        let options = OpenOptions::new(FileKind::Log).read_only(true);
        let inventory = Inventory::take(disk, &checkpoint.uuid, checkpoint.lsn, options)?;
        Ok(LogReader::over(inventory, checkpoint))
    }

    pub(crate) fn over(inventory: Inventory, checkpoint: Checkpoint) -> LogReader {
        LogReader {
            limit: inventory.end(),
            seed: format::seed(&checkpoint.uuid),
            position: checkpoint.lsn,
            epoch: checkpoint.min_epoch,
            stamp: checkpoint.lsn,
            groups: 0,
            buffer: Vec::new(),
            buffer_start: 0,
            end: None,
            inventory,
            checkpoint,
        }
    }

    /// Starts again at the checkpoint, and ends at `limit`.
    pub(crate) fn rewind(&mut self, limit: u64) {
        (self.position, self.limit, self.end) = (self.checkpoint.lsn, limit, None);
        (self.epoch, self.stamp, self.groups) = (self.checkpoint.min_epoch, self.checkpoint.lsn, 0);
        self.buffer.clear();
    }

    /// The UUID of the database.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.checkpoint.uuid
    }

    /// The page size of the database.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.inventory.page_size
    }

    /// The LSN of the checkpoint, where reading begins.
    #[must_use]
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(self.checkpoint.lsn)
    }

    /// What the floors above stored with the checkpoint.
    #[must_use]
    pub fn checkpoint_payload(&self) -> &[u8] {
        &self.checkpoint.payload
    }

    /// The names of files of the log that the system does not return and that are passed over,
    /// since reading begins behind them; and why they cannot be read.
    #[must_use]
    pub fn unread(&self) -> &[(String, Error)] {
        &self.inventory.unread
    }

    /// The LSN of the next group.
    #[must_use]
    pub fn position(&self) -> Lsn {
        Lsn(self.position)
    }

    /// The bytes read, and the bytes to read.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let total = self.end.map_or(self.limit, |end| end.lsn.0) - self.checkpoint.lsn;
        Progress { done: self.position - self.checkpoint.lsn, total }
    }

    /// The end of the log, once [`LogReader::next`] has returned `None`.
    #[must_use]
    pub fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// Returns the next group, or `None` at the end of the log.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if log that was durable cannot be read (again at every further call),
    /// [`Error::Incompatible`] for groups of a newer format, and any error of the disk.
    #[expect(clippy::should_implement_trait, reason = "the group borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Group<'_>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        match self.examine()? {
            Ok((header, bytes)) => {
                let start = self.position;
                self.position += header.group_len();
                (self.epoch, self.stamp) = (header.epoch, header.stamp);
                self.groups += 1;
                let (start, end, stamp) = (Lsn(start), Lsn(self.position), Lsn(header.stamp));
                Ok(Some(Group { start, end, epoch: header.epoch, stamp, payload: &self.buffer[bytes] }))
            }
            Err(reason) => {
                self.check_end(reason)?;
                self.end = Some(LogEnd { lsn: Lsn(self.position), reason });
                Ok(None)
            }
        }
    }

    /// Reads to the end.
    pub(crate) fn scan(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<LogEnd> {
        while self.next()?.is_some() {
            if self.groups.is_multiple_of(1024) {
                progress(self.progress());
            }
        }
        progress(self.progress());
        Ok(self.end.unwrap_or(LogEnd { lsn: Lsn(self.position), reason: EndReason::Limit }))
    }

    /// The files that the log does not use.
    pub(crate) fn into_inventory(self) -> Inventory {
        self.inventory
    }

    /// The stamp of the group read last: everything below it was durable when that group was
    /// appended.
    pub(crate) fn last_stamp(&self) -> u64 {
        self.stamp
    }

    pub(crate) fn find(&self, lsn: u64) -> Option<&Segment> {
        self.inventory.find(lsn)
    }

    pub(crate) fn chain(&self) -> &[Segment] {
        &self.inventory.chain
    }

    /// Returns the header of the group at the current position and the range of its payload in the
    /// buffer; or why there is no group.
    fn examine(&mut self) -> Result<Result<(GroupHeader, Range<usize>), EndReason>> {
        if self.position >= self.limit {
            let all = self.limit == self.inventory.end();
            return Ok(Err(if all { EndReason::NoMoreSegments } else { EndReason::Limit }));
        }
        let at = self.fill(GROUP_HEADER)?;
        let bytes = &self.buffer[at..at + GROUP_HEADER as usize];
        let header = match GroupHeader::decode(bytes) {
            Some(header) if header.lsn == self.position => header,
            _ if bytes.iter().all(|&b| b == 0) => return Ok(Err(EndReason::Blank)),
            _ => return Ok(Err(EndReason::Stale)),
        };
        let len = header.group_len();
        if len > GROUP_BYTES_MAX || len > self.limit - self.position {
            return Ok(Err(EndReason::Torn));
        }
        let at = self.fill(len)?;
        if !header.matches(self.seed, &self.buffer[at..at + len as usize]) {
            return Ok(Err(EndReason::Torn));
        }
        if header.flags != 0 {
            let what =
                format!("the log has groups with features {:#x}, which this version does not know", header.flags);
            return Err(Error::Incompatible(what));
        }
        if header.epoch < self.epoch {
            return Ok(Err(EndReason::EarlierEpoch));
        }
        if header.epoch > self.checkpoint.epoch {
            let (epoch, known) = (header.epoch, self.checkpoint.epoch);
            return Err(self.damage(self.position, format!("its epoch is {epoch}, but the checkpoint knows {known}")));
        }
        let payload = at + GROUP_HEADER as usize;
        Ok(Ok((header, payload..payload + header.payload_len as usize)))
    }

    /// Makes the buffer hold `len` bytes from the current position on, which must lie below the
    /// limit. Returns their index in the buffer.
    fn fill(&mut self, len: u64) -> Result<usize> {
        let have = self.buffer_start..self.buffer_start + self.buffer.len() as u64;
        if self.position < have.start || self.position + len > have.end {
            let n = CHUNK.max(len).min(self.limit - self.position);
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(n as usize, 0);
            self.read_bytes(self.position, &mut buffer)?;
            (self.buffer, self.buffer_start) = (buffer, self.position);
        }
        Ok((self.position - self.buffer_start) as usize)
    }

    /// Copies log bytes of the chain.
    pub(crate) fn read_bytes(&self, from: u64, out: &mut [u8]) -> Result<()> {
        let to = from + out.len() as u64;
        for_each_piece(
            |lsn| self.inventory.find(lsn),
            from,
            to,
            |segment, a, b| {
                segment.file.read_at(segment.offset_of(a), &mut out[(a - from) as usize..(b - from) as usize])
            },
        )
    }

    /// Fails if it can be proved that there was a group at the current position, where none is
    /// readable.
    fn check_end(&self, reason: EndReason) -> Result<()> {
        let bad = self.position;
        if reason == EndReason::Limit {
            return Ok(());
        }
        if bad < self.checkpoint.durable {
            let durable = self.checkpoint.durable;
            return Err(self.damage(bad, format!("the log ends here ({reason:?}), but was durable up to {durable}")));
        }
        if self.checkpoint.closed && bad == self.checkpoint.durable {
            // Nothing was appended beyond the end, and a search takes time in proportion to the
            // capacity.
            return Ok(());
        }
        for segment in self.inventory.chain.iter().filter(|s| s.end > bad) {
            let from = segment.start.max(bad + GROUP_HEADER);
            if let Some(proof) = self.find_group(segment, from, bad + 1)? {
                let (lsn, stamp) = (proof.lsn, proof.stamp);
                let what =
                    format!("no group ({reason:?}), but the one at {lsn} says that all below {stamp} was durable");
                return Err(self.damage(bad, what));
            }
        }
        for segment in &self.inventory.suspects {
            if let Some(proof) = self.find_group(segment, segment.start, 0)? {
                let what = format!("the log goes on at {}, behind a broken or missing segment", proof.lsn);
                return Err(self.damage(bad, what));
            }
        }
        Ok(())
    }

    /// Returns the header of an intact group in `segment`, at `from` or later, with a stamp of at
    /// least `min_stamp`.
    fn find_group(&self, segment: &Segment, from: u64, min_stamp: u64) -> Result<Option<GroupHeader>> {
        let mut chunk = Vec::new();
        let mut at = from;
        while at + GROUP_HEADER <= segment.end {
            chunk.resize(CHUNK.min(segment.end - at) as usize, 0);
            segment.file.read_at(segment.offset_of(at), &mut chunk)?;
            for (i, bytes) in chunk.chunks_exact(GROUP_HEADER as usize).enumerate() {
                let lsn = at + i as u64 * GROUP_HEADER;
                if get_u64(bytes, 8) != Some(lsn) {
                    continue;
                }
                let Some(header) = GroupHeader::decode(bytes) else { continue };
                if header.stamp >= min_stamp && self.is_intact_at(segment, &header)? {
                    return Ok(Some(header));
                }
            }
            at += chunk.len() as u64;
        }
        Ok(None)
    }

    fn is_intact_at(&self, segment: &Segment, header: &GroupHeader) -> Result<bool> {
        let len = header.group_len();
        if len > GROUP_BYTES_MAX {
            return Ok(false);
        }
        let mut bytes = vec![0; len as usize];
        if header.lsn + len <= segment.end {
            segment.file.read_at(segment.offset_of(header.lsn), &mut bytes)?;
        } else if header.lsn + len <= self.inventory.end() && self.inventory.find(header.lsn).is_some() {
            self.read_bytes(header.lsn, &mut bytes)?;
        } else {
            return Ok(false);
        }
        Ok(header.matches(self.seed, &bytes))
    }

    fn damage(&self, lsn: u64, what: String) -> Error {
        match self.inventory.find(lsn) {
            Some(s) => Error::damaged_file(file_name(s.number), format!("at byte {}: {what}", s.offset_of(lsn))),
            None => Error::damaged_file("the log", format!("at log sequence number {lsn}: {what}")),
        }
    }
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").field("position", &self.position).field("end", &self.end).finish_non_exhaustive()
    }
}
