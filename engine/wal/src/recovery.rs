//! Opening a log after a crash or a clean stop.
//!
//! 1. [`Wal::open`] reads the log once from the checkpoint to its end and verifies all of it. So
//!    damage is found before anything is changed.
//! 2. It makes durable what it read. After a crash of the process alone, the last writes may be in
//!    the system's cache only, and pages must not be written ahead of them. What carries no proof
//!    of durability (everything from the last group's stamp on, and the headers of the segments
//!    that hold it and of those prepared behind it) is written again: after a sync that failed in
//!    an earlier life, the system may hold such bytes as clean. The directory is synced, too.
//! 3. [`Recovery`] returns the groups. Meanwhile they count as appended and durable, so that the
//!    pool may write pages.
//! 4. [`Recovery::finish`] begins a new epoch, durable in both checkpoint slots before anything is
//!    appended.
//!
//! Capacity. What is kept for rollback and the checkpoint is measured in segments, and prepared. If
//! the log lacks room of the segments of the capacity that is asked for, it has the sizes of its
//! own segments until [`Recovery::finish`] has prepared larger ones. On a full disk it keeps them.
//!
//! Epochs. Behind the end of the log there may be a torn group of the previous life and, behind it,
//! intact ones, each at its own LSN. A new, shorter group at the end could by chance end exactly
//! where such a leftover begins, and a later recovery would read on into it. But the new group
//! carries the new epoch, the leftover an earlier one, and a reader accepts no group of an earlier
//! epoch than its predecessor's. (The checkpoint records the least epoch for the group at the
//! checkpoint LSN, which has no predecessor.) By induction no leftover is ever read: to be reached
//! it needs an intact predecessor that was appended after the recovery that ended the log before
//! it, hence of a later epoch.

use std::sync::Arc;

use holdfast_base::{Error, Lsn, Result};
use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_metrics::{Counter, Gauge, Metrics};

use crate::checkpoint::{Checkpoint, CheckpointFile, of_another};
use crate::config::{Geometry, Sizes};
use crate::format::SEGMENT_HEADER;
use crate::reader::{Group, Inventory, LogEnd, LogReader, Progress};
use crate::segments::{Segment, SegmentSet, for_each_piece};
use crate::{Wal, WalConfig};

/// The bytes of one repeated write.
const CHUNK: u64 = 1 << 20;

/// Returns the groups from the checkpoint to the end of the log, then opens the log for appending.
pub struct Recovery {
    wal: Arc<Wal>,
    reader: LogReader,
    end: LogEnd,
    /// The groups are returned again.
    again: bool,
}

impl Wal {
    /// Opens the log of an existing database, verifies it to its end, and makes it durable. Nothing
    /// can be appended before [`Recovery::finish`].
    ///
    /// # Errors
    /// The errors of [`LogReader::open`] and [`LogReader::next`]; [`Error::InvalidArgument`] for a
    /// capacity that is too small; [`Error::DamagedFile`] for another page size; any error of the
    /// disk.
    pub fn open(
        disk: Arc<dyn Disk>,
        uuid: [u8; 16],
        config: WalConfig,
        metrics: Arc<Metrics>,
    ) -> Result<(Arc<Wal>, Recovery)> {
        Wal::open_with(disk, uuid, config, metrics, &mut |_| {})
    }

    /// As [`Wal::open`]; tells `progress` how far the verification has come.
    ///
    /// # Errors
    /// The errors of [`Wal::open`].
    pub fn open_with(
        disk: Arc<dyn Disk>,
        uuid: [u8; 16],
        config: WalConfig,
        metrics: Arc<Metrics>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Arc<Wal>, Recovery)> {
        let geometry = Geometry::new(&config)?;
        let file = CheckpointFile::open(disk.as_ref())?;
        if file.current().uuid != uuid {
            return Err(of_another());
        }
        let checkpoint = file.current().clone();
        let inventory = Inventory::take(disk.as_ref(), &uuid, checkpoint.lsn, OpenOptions::new(FileKind::Log))?;
        if inventory.page_size != config.page_size {
            let (has, not) = (inventory.page_size, config.page_size);
            return Err(Error::damaged_file("the log", format!("its database has pages of {has} bytes, not {not}")));
        }
        let mut reader = LogReader::over(inventory, checkpoint);
        let end = reader.scan(progress)?;
        secure(&*disk, &reader, end.lsn.0)?;
        file.secure()?;
        let live = reader.chain().iter().map(|s| Arc::new(s.share())).collect();
        let sizes = Arc::new(Sizes::new(sizes_at_open(geometry, reader.chain(), end.lsn.0)));
        let segments = SegmentSet::new(disk, uuid, config.page_size, Arc::clone(&sizes), live, end.lsn.0);
        reader.rewind(end.lsn.0);
        metrics.set(Gauge::RecoveryProgress, reader.progress().total);
        let wal = Wal::assemble(sizes, config, file, segments, metrics);
        wal.ends_at(end.lsn.0);
        Ok((wal.clone(), Recovery { wal, reader, end, again: false }))
    }
}

/// The sizes that a log has at first whose segments are `chain`, and which ends at `end`: those
/// `asked` for, if what these keep behind the end is prepared. See *Capacity* in the module.
fn sizes_at_open(asked: Geometry, chain: &[Segment], end: u64) -> Geometry {
    let prepared = chain.last().map_or(end, |last| last.end);
    // The last segments may be larger ones that a crash has left of a change of the capacity.
    let smallest = chain.iter().filter(|s| s.end > end).map(|s| s.end - s.start).min();
    match smallest {
        Some(own) if own < asked.segment_data && end + asked.kept() > prepared => asked.of_segments(own),
        _ => asked,
    }
}

/// Makes durable the part of the log below `end` that is not proven to be, and the segments behind
/// it: the process that prepared them may have ended before that.
fn secure(disk: &dyn Disk, reader: &LogReader, end: u64) -> Result<()> {
    let begin = reader.checkpoint_lsn().0;
    let mut at = reader.last_stamp().clamp(begin, end);
    let mut bytes = vec![0; SEGMENT_HEADER as usize];
    for segment in reader.chain().iter().filter(|s| s.end > at) {
        segment.file.read_at(0, &mut bytes)?;
        segment.file.write_at(0, &bytes)?;
    }
    while at < end {
        bytes.resize(CHUNK.min(end - at) as usize, 0);
        reader.read_bytes(at, &mut bytes)?;
        let to = at + bytes.len() as u64;
        for_each_piece(
            |lsn| reader.find(lsn),
            at,
            to,
            |s, a, b| s.file.write_at(s.offset_of(a), &bytes[(a - at) as usize..(b - at) as usize]),
        )?;
        at = to;
    }
    reader.chain().iter().try_for_each(|s| s.file.sync())?;
    disk.sync_dir()
}

impl Recovery {
    /// The LSN where recovery begins.
    #[must_use]
    pub fn checkpoint_lsn(&self) -> Lsn {
        self.reader.checkpoint_lsn()
    }

    /// What the floors above stored with the checkpoint.
    #[must_use]
    pub fn checkpoint_payload(&self) -> &[u8] {
        self.reader.checkpoint_payload()
    }

    /// The end of the log; all groups before it have been verified.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// The LSN of [`Recovery::end`].
    #[must_use]
    pub fn end_lsn(&self) -> Lsn {
        self.end.lsn
    }

    /// As [`LogReader::unread`]. These files stay as they are.
    #[must_use]
    pub fn unread(&self) -> &[(String, Error)] {
        self.reader.unread()
    }

    /// The bytes read, and the bytes to read.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.reader.progress()
    }

    /// Returns the next group, or `None` after the last one. While the caller applies a group,
    /// everything up to its end counts as durable.
    ///
    /// # Errors
    /// Any error of the disk; [`Error::DamagedFile`] if the log has changed since it was verified.
    #[expect(clippy::should_implement_trait, reason = "the group borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Group<'_>>> {
        let group = self.reader.next()?;
        if let Some(group) = group.as_ref().filter(|_| !self.again) {
            self.wal.recovered_to(group.end.0);
            let metrics = self.wal.metrics();
            metrics.inc(Counter::RecoveryGroups);
            metrics.add(Counter::RecoveryBytes, group.end.since(group.start));
            metrics.set(Gauge::RecoveryProgress, self.end.lsn.since(group.end));
        }
        Ok(group)
    }

    /// Goes back to the first group. To be called behind the last one: all that the log has counts
    /// as durable.
    pub fn rewind(&mut self) {
        debug_assert_eq!(self.reader.position(), self.end.lsn, "it goes back from the end");
        self.reader.rewind(self.end.lsn.0);
        self.again = true;
    }

    /// Ends recovery: begins a new epoch, takes over unused segment files, and opens the log for
    /// appending.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if groups are left; any error of the disk. The log can be opened
    /// again then.
    pub fn finish(self) -> Result<()> {
        let Recovery { wal, reader, end, again: _ } = self;
        let end = end.lsn.0;
        if reader.position().0 != end {
            return Err(Error::invalid("recovery has not applied the whole log"));
        }
        let inventory = reader.into_inventory();
        {
            let mut file = wal.checkpoint_file().lock();
            let current = file.current().clone();
            let Some(epoch) = current.epoch.checked_add(1) else {
                let what = "its epoch is the last one that there can be, after more opens than a database has";
                return Err(Error::damaged_file(crate::checkpoint::FILE_NAME, what));
            };
            for _ in 0..2 {
                let (current, durable) = (file.current().clone(), end);
                wal.store_checkpoint(
                    &mut file,
                    Checkpoint { epoch, epoch_start: end, durable, closed: false, ..current },
                )?;
            }
            wal.set_epoch(epoch);
        }
        // A file that cannot be removed does no harm, and is tried again with the next checkpoint.
        let _ = wal.segments().adopt(inventory.others);
        let _ = wal.segments().recycle_below(wal.checkpoint_lsn().0);
        wal.prepare_ahead(end);
        wal.start_appending(end);
        Ok(())
    }
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("end", &self.end).field("progress", &self.progress()).finish_non_exhaustive()
    }
}
