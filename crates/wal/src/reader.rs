//! Reads a log group by group, verifying everything and writing nothing.
//!
//! Reading starts at the checkpoint and ends at the first place that holds no group of this log: its bytes are blank,
//! stale or torn, or the group there belongs to an earlier epoch than its predecessor. Whether that is the end of the
//! log, or damage in the middle of it, is decided by looking further: every group carries, as its *stamp*, the LSN
//! that was durable when it was appended. A later intact group whose stamp lies beyond the bad place proves that the
//! bad place was durable once, so its loss is damage. Without such a proof it is the tail of the last writes before a
//! crash, torn or never written. (So the very last flush is undecidable: what it wrote carries no later stamp.)
//! Two more proofs: a log that ends before the durable LSN recorded in the checkpoint slot is damaged; and so is one
//! that goes on in a segment behind a missing one, or behind a broken header, because a segment is made durable before
//! anything is written into it or its successors.
//!
//! Stale groups cannot give false proofs. Whatever stamp a group of an earlier life carries was durable in that life,
//! and no recovery ends the log below a proven LSN; so a stamp beyond the bad place tells the truth whatever the epoch
//! of the group is.
//!
//! Invariant: `buffer` holds the log bytes from `buffer_start` on; `position` is where the next group begins.

use std::ops::Range;
use std::sync::Arc;

use holdfast_base::codec::get_u64;
use holdfast_base::{Error, Lsn, Result};
use holdfast_io::{Disk, FileKind, OpenOptions};

use crate::checkpoint::{self, Checkpoint};
use crate::format::{self, GROUP_BYTES_MAX, GROUP_HEADER, GroupHeader, SEGMENT_HEADER, SegmentHeader};
use crate::segments::{Segment, file_name, for_each_piece, number_of};

/// Bytes read at a time.
const CHUNK: u64 = 1 << 20;

/// One mini-transaction's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// LSN of the group.
    pub start: Lsn,
    /// LSN of what follows it; what pages changed by it carry.
    pub end: Lsn,
    /// In which life of the database (counted by opens) it was appended.
    pub epoch: u32,
    /// What was known to be durable when it was appended.
    pub stamp: Lsn,
    /// The records.
    pub payload: &'a [u8],
}

/// How far reading the log has come, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes to read altogether; exact for [`crate::Recovery`], at most this for [`LogReader`].
    pub total: u64,
}

/// Why a log ends where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Nothing was ever written there.
    Blank,
    /// Bytes from an earlier use of the segment.
    Stale,
    /// A group that was not written completely.
    Torn,
    /// An intact group of an earlier life, left behind when a recovery ended the log here.
    EarlierEpoch,
    /// The last prepared segment is full.
    NoMoreSegments,
    /// The reader was told to stop there.
    Limit,
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Where the next group would begin.
    pub lsn: Lsn,
    /// Why there is none.
    pub reason: EndReason,
}

/// What the directory holds, as far as the log goes.
pub(crate) struct Inventory {
    /// From the one that holds the checkpoint on, without gaps.
    pub chain: Vec<Segment>,
    /// Further segments that might hold proofs of damage.
    suspects: Vec<Segment>,
    /// Names of all files that are not in the chain.
    pub others: Vec<String>,
    /// Page size recorded in the first segment of the chain.
    pub page_size: u32,
}

impl Inventory {
    /// Looks at all segment files.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if the segment that holds `at` is missing, or one is that of another database, which would be reused;
    /// [`Error::Incompatible`] for segments of an unknown format.
    pub fn take(disk: &dyn Disk, uuid: &[u8; 16], at: u64, options: OpenOptions) -> Result<Inventory> {
        let mut intact: Vec<(Segment, u32)> = Vec::new();
        let mut bad: Vec<(u64, Arc<dyn holdfast_io::File>)> = Vec::new();
        for name in disk.list()? {
            let Some(number) = number_of(&name) else { continue };
            let file = disk.open(&name, options)?;
            match read_header(file.as_ref())? {
                Some(h) if h.uuid != *uuid => {
                    let what = "it belongs to another database (its UUID differs); move it away";
                    return Err(Error::damaged_file(name, what));
                }
                Some(h) if h.number == number && file.len()? >= SEGMENT_HEADER + h.data_len => {
                    let segment = Segment { number, start: h.start, end: h.start + h.data_len, file };
                    intact.push((segment, h.page_size));
                }
                _ => bad.push((number, file)),
            }
        }
        intact.sort_by_key(|(s, _)| s.number);
        let first = intact.iter().rposition(|(s, _)| s.start <= at && at <= s.end);
        let Some(first) = first else {
            let what = format!("no intact segment holds log sequence number {at}, where recovery has to begin");
            return Err(Error::damaged_file("the log", what));
        };
        let mut inventory = Inventory { chain: vec![], suspects: vec![], others: vec![], page_size: intact[first].1 };
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
        inventory.others.extend(bad.iter().map(|(number, _)| file_name(*number)));
        inventory.suspect_successor(bad)?;
        Ok(inventory)
    }

    /// A file whose header is broken but whose name says that it follows the chain: if it held log, this is where.
    fn suspect_successor(&mut self, bad: Vec<(u64, Arc<dyn holdfast_io::File>)>) -> Result<()> {
        let Some(last) = self.chain.last() else { return Ok(()) };
        let (next, start) = (last.number + 1, last.end);
        for (number, file) in bad {
            let data = file.len()?.saturating_sub(SEGMENT_HEADER) & !(GROUP_HEADER - 1);
            if number == next && data > 0 {
                self.suspects.push(Segment { number, start, end: start + data, file });
            }
        }
        Ok(())
    }

    fn end(&self) -> u64 {
        self.chain.last().map_or(0, |s| s.end)
    }

    fn find(&self, lsn: u64) -> Option<&Segment> {
        self.chain.get(self.chain.partition_point(|s| s.end <= lsn)).filter(|s| s.start <= lsn)
    }
}

fn read_header(file: &dyn holdfast_io::File) -> Result<Option<SegmentHeader>> {
    let mut bytes = vec![0; (SEGMENT_HEADER).min(file.len()?) as usize];
    file.read_at(0, &mut bytes)?;
    SegmentHeader::decode(&bytes).map_err(|what| {
        Error::Incompatible(format!("{} has {what}, which this version does not know; use a newer one", file.name()))
    })
}

/// Reads and verifies a log, from the checkpoint to its end, without writing to the disk.
pub struct LogReader {
    inventory: Inventory,
    checkpoint: Checkpoint,
    seed: u32,
    position: u64,
    /// Stop here in any case.
    limit: u64,
    /// Epoch of the group read last.
    epoch: u32,
    /// Stamp of the group read last.
    stamp: u64,
    groups: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
    end: Option<LogEnd>,
}

impl LogReader {
    /// Opens the log in `disk` at its checkpoint. `uuid`: of the database that it must belong to; `None` takes any.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] without a log, [`Error::DamagedFile`] if its checkpoint or the segment where reading
    /// has to begin is not intact, [`Error::Incompatible`] for another format or database.
    pub fn open(disk: &dyn Disk, uuid: Option<[u8; 16]>) -> Result<LogReader> {
        let checkpoint = checkpoint::read(disk)?;
        if uuid.is_some_and(|uuid| uuid != checkpoint.uuid) {
            return Err(Error::Incompatible("the log belongs to another database".into()));
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

    /// Starts again at the checkpoint, to end at `limit`.
    pub(crate) fn rewind(&mut self, limit: u64) {
        (self.position, self.limit, self.end) = (self.checkpoint.lsn, limit, None);
        (self.epoch, self.stamp, self.groups) = (self.checkpoint.min_epoch, self.checkpoint.lsn, 0);
        self.buffer.clear();
    }

    /// UUID of the database.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.checkpoint.uuid
    }

    /// Page size of the database.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.inventory.page_size
    }

    /// Where reading begins.
    #[must_use]
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(self.checkpoint.lsn)
    }

    /// What the floors above stored with the checkpoint.
    #[must_use]
    pub fn checkpoint_payload(&self) -> &[u8] {
        &self.checkpoint.payload
    }

    /// Where the next group begins.
    #[must_use]
    pub fn position(&self) -> Lsn {
        Lsn(self.position)
    }

    /// How far it has come.
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

    /// The next group, or `None` at the end of the log.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if log that was durable is not readable (again at every further call),
    /// [`Error::Incompatible`] for groups of a newer format, whatever the disk says.
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

    /// Stamp of the group read last: everything below was durable when that group was appended.
    pub(crate) fn last_stamp(&self) -> u64 {
        self.stamp
    }

    pub(crate) fn find(&self, lsn: u64) -> Option<&Segment> {
        self.inventory.find(lsn)
    }

    pub(crate) fn chain(&self) -> &[Segment] {
        &self.inventory.chain
    }

    /// The group at the current position: its header and where its payload lies in the buffer; or why there is none.
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

    /// Makes the buffer hold `len` bytes from the current position on, which must lie below the limit; returns where
    /// they are in it.
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

    /// Copies log bytes that lie in the chain.
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

    /// There is no group at the current position: fails if it can be proved that there was one.
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
            // There is nothing behind it to look for, which takes time in proportion to the capacity.
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

    /// An intact group in `segment`, at `from` or later, with a stamp of `min_stamp` or more.
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
