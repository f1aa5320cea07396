//! The log itself: append, write, sync, space, checkpoint.
//!
//! ```text
//!  checkpoint <= durable <= written <= ready <= next <= prepared end
//!                  |          |          |       |
//!        synced ---+          |          |       +-- end of the last LSN range given out (fetch-add)
//!        with the system -----+          +---------- all groups below are complete in the ring (links)
//! ```
//!
//! Append gives out `[start, end)` by a fetch-add on `next`, copies the group into the [ring](crate::ring) and
//! publishes it; it takes no lock unless the ring is full, and then it helps writing. Writing follows the links and
//! hands complete groups to the system, under `writer`. Syncing is done by a [leader](crate::group_commit) on a
//! caller's thread, without `writer`, so that appending and writing go on meanwhile.
//!
//! Only LSN ranges that lie in prepared segments are given out (tickets see to that, and append looks again), so
//! writing does not meet a full disk. Where it does nevertheless (file systems that copy on write), flushing fails with
//! [`Error::DiskFull`], the bytes stay in the ring, and the next flush tries again. Any other failure to write, and
//! every failure to sync, poisons the database.
//!
//! Lock order: `checkpoint`, then `writer`, then the locks of [segments](crate::segments). `growth`, the
//! group-commit lock and the gate's are leaves.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use holdfast_base::sync::{spin_loop, yield_now};
use holdfast_base::{Error, Lsn, Result, checksum_append};
use holdfast_io::{AlignedBuf, Disk};
use holdfast_metrics::{Counter, Gauge, Metrics, Timing, WaitClass};
use parking_lot::Mutex;

use crate::checkpoint::{self, Checkpoint, CheckpointFile};
use crate::config::Geometry;
use crate::flusher::Flusher;
use crate::format::{self, FIRST_LSN, GROUP_HEADER, GroupHeader, group_len};
use crate::group_commit::GroupCommit;
use crate::ring::Ring;
use crate::segments::{Segment, SegmentSet, not_there};
use crate::slots::WriterSlots;
use crate::space::{Position, Refusal, SpaceGate};
use crate::{FlushAtCommit, Poison, SpaceClass, SpaceTicket, WalConfig};

/// Writers that can be between append and registering their pages at one time without waiting for each other.
const WRITER_SLOTS: usize = 64;
/// Bytes handed to the system at a time.
const WRITE_BYTES: usize = 512 << 10;
/// Times that a thread looks again before it yields.
const SPINS: u32 = 64;

/// What may be done with the log.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Recovery reads it; nothing may be appended.
    Recovering,
    Open,
    Closed,
}

/// The write-ahead log of one database. See the module.
pub struct Wal {
    next: CachePadded<AtomicU64>,
    /// Bytes below are with the system, so that their place in the ring is free. Advances by whole writes.
    freed: CachePadded<AtomicU64>,
    /// As `freed`, but only at ends of groups.
    written: AtomicU64,
    commit: GroupCommit,
    phase: AtomicU8,
    mode: AtomicU8,
    /// The end of the log at which the next growth hook is due.
    growth_due: AtomicU64,
    checkpoint_lsn: AtomicU64,
    epoch: AtomicU64,
    geometry: Geometry,
    config: WalConfig,
    seed: u32,
    ring: Ring,
    slots: WriterSlots,
    gate: Arc<SpaceGate>,
    segments: SegmentSet,
    writer: Mutex<Writer>,
    checkpoint: Mutex<CheckpointFile>,
    growth: Mutex<Vec<Growth>>,
    flusher: Flusher,
    poison: Arc<Poison>,
    metrics: Arc<Metrics>,
}

/// Who hands the ring's bytes to the system.
struct Writer {
    /// Everything below is complete in the ring or written.
    ready: u64,
    /// Everything below is written.
    position: u64,
    segment: Option<Arc<Segment>>,
    /// Segments written to since they were synced.
    unsynced: Vec<Arc<Segment>>,
    buffer: AlignedBuf,
}

struct Growth {
    step: u64,
    due: u64,
    callback: Arc<dyn Fn() + Send + Sync>,
}

/// Publishes, while it lives, a bound of the LSN at which its writer started; see [`Wal::enter`].
pub struct WriterSlot<'a> {
    wal: &'a Wal,
    number: usize,
}

impl Drop for WriterSlot<'_> {
    fn drop(&mut self) {
        self.wal.slots.leave(self.number);
    }
}

impl fmt::Debug for WriterSlot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterSlot").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Wal {
    /// Creates the log of a new database, ready for appending.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if the directory holds any part of a log, [`Error::InvalidArgument`] for a capacity
    /// that is too small, [`Error::DiskFull`], whatever the disk says.
    pub fn create(disk: Arc<dyn Disk>, uuid: [u8; 16], config: WalConfig, metrics: Arc<Metrics>) -> Result<Arc<Wal>> {
        let geometry = Geometry::new(&config)?;
        let is_ours = |name: &String| name == checkpoint::FILE_NAME || crate::segments::number_of(name).is_some();
        if disk.list()?.iter().any(is_ours) {
            return Err(Error::AlreadyExists(disk.describe()));
        }
        let segments = SegmentSet::new(disk.clone(), uuid, config.page_size, geometry, vec![], FIRST_LSN);
        segments.prepare_to(FIRST_LSN + geometry.ahead())?;
        // Last: a log is there once its checkpoint is.
        let file = CheckpointFile::create(disk.as_ref(), Checkpoint::first(uuid, FIRST_LSN))?;
        let wal = Wal::assemble(geometry, config, file, segments, metrics);
        wal.start_appending(FIRST_LSN);
        Ok(wal)
    }

    /// A log in the phase of recovery, positioned at its checkpoint.
    pub(crate) fn assemble(
        geometry: Geometry,
        config: WalConfig,
        file: CheckpointFile,
        segments: SegmentSet,
        metrics: Arc<Metrics>,
    ) -> Arc<Wal> {
        let lsn = file.current().lsn;
        let (seed, epoch) = (format::seed(&file.current().uuid), file.current().epoch);
        let ring = Ring::new(geometry.ring_bytes);
        metrics.set(Gauge::MemoryLogBuffer, ring.memory() + WRITE_BYTES as u64);
        metrics.set(Gauge::CheckpointMaxAge, geometry.user_limit);
        let writer = Writer {
            ready: lsn,
            position: lsn,
            segment: None,
            unsynced: vec![],
            buffer: AlignedBuf::zeroed(WRITE_BYTES),
        };
        let wal = Arc::new(Wal {
            next: CachePadded::new(AtomicU64::new(lsn)),
            freed: CachePadded::new(AtomicU64::new(lsn)),
            written: AtomicU64::new(lsn),
            commit: GroupCommit::new(lsn),
            phase: AtomicU8::new(Phase::Recovering as u8),
            mode: AtomicU8::new(config.flush as u8),
            growth_due: AtomicU64::new(u64::MAX),
            checkpoint_lsn: AtomicU64::new(lsn),
            epoch: AtomicU64::new(u64::from(epoch)),
            geometry,
            seed,
            ring,
            slots: WriterSlots::new(WRITER_SLOTS),
            gate: SpaceGate::new(geometry),
            segments,
            writer: Mutex::new(writer),
            checkpoint: Mutex::new(file),
            growth: Mutex::default(),
            flusher: Flusher::new(),
            poison: Poison::new(),
            config,
            metrics,
        });
        let weak = Arc::downgrade(&wal);
        wal.poison.on_set(move || {
            if let Some(wal) = weak.upgrade() {
                wal.wake_everybody();
            }
        });
        wal
    }

    /// While recovery reads: everything below `lsn` counts as appended, written and durable.
    pub(crate) fn recovered_to(&self, lsn: u64) {
        self.commit.set_durable(lsn);
        self.written.store(lsn, Ordering::Release);
        self.freed.store(lsn, Ordering::Release);
        self.next.store(lsn, Ordering::Release);
    }

    /// Ends recovery: the next group goes to `lsn`.
    pub(crate) fn start_appending(self: &Arc<Self>, lsn: u64) {
        let mut writer = self.writer.lock();
        (writer.ready, writer.position) = (lsn, lsn);
        drop(writer);
        self.recovered_to(lsn);
        self.phase.store(Phase::Open as u8, Ordering::Release);
        self.run_flusher(self.flush_at_commit());
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    pub(crate) fn segments(&self) -> &SegmentSet {
        &self.segments
    }

    pub(crate) fn checkpoint_file(&self) -> &Mutex<CheckpointFile> {
        &self.checkpoint
    }

    pub(crate) fn set_epoch(&self, epoch: u32) {
        self.epoch.store(u64::from(epoch), Ordering::Release);
        self.segments.set_epoch(epoch);
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Longest payload of one group, in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        (self.geometry.group_max - GROUP_HEADER) as usize
    }

    /// Bytes of log that a group with a payload of `payload` bytes takes: what to [reserve](Wal::reserve).
    #[must_use]
    pub const fn group_bytes(payload: usize) -> u64 {
        group_len(payload)
    }

    /// Appends a group. It is complete in the log buffer when this returns, neither written nor durable.
    ///
    /// Returns its start, and its end: the LSN that the pages it changes will carry, and what to
    /// [flush](Wal::flush_to) to. Waits only when the log buffer is full, and then helps writing it.
    ///
    /// # Errors
    /// [`Error::LimitReached`] beyond [`Wal::max_payload`], [`Error::DiskFull`] without a ticket when no segment can
    /// be prepared, [`Error::Closed`], [`Error::Poisoned`]. Nothing was appended then.
    pub fn append(&self, payload: &[u8]) -> Result<(Lsn, Lsn)> {
        self.check_appendable()?;
        let len = group_len(payload.len());
        if len > self.geometry.group_max {
            let (len, max) = (payload.len(), self.max_payload());
            return Err(Error::LimitReached(format!(
                "a change of {len} bytes exceeds the {max} bytes that the log takes at once; \
                 raise the log buffer or the log capacity"
            )));
        }
        // A ticket has seen to it already; without one, this is where a full disk shows.
        let likely_end = self.next.load(Ordering::Relaxed) + len;
        if likely_end > self.segments.prepared_end() {
            self.segments.prepare_to(likely_end)?;
        }
        let payload_crc = checksum_append(self.seed, payload);
        let start = self.next.fetch_add(len, Ordering::AcqRel);
        let end = start + len;
        if end > self.freed.load(Ordering::Acquire) + self.ring.len() {
            self.wait_for_ring(end)?;
        }
        let epoch = self.epoch.load(Ordering::Relaxed) as u32;
        let header = GroupHeader::new(payload.len(), payload_crc, start, self.commit.durable(), epoch);
        self.ring.put(start, header.words(), payload);
        self.ring.publish(start, end);
        if end >= self.growth_due.load(Ordering::Relaxed) {
            self.call_growth_hooks(end);
        }
        Ok((Lsn(start), Lsn(end)))
    }

    /// Waits until the ring has room up to `end`, writing what is complete meanwhile.
    #[cold]
    fn wait_for_ring(&self, end: u64) -> Result<()> {
        self.metrics.inc(Counter::LogWaits);
        let _timer = self.metrics.wait(WaitClass::Log);
        while end > self.freed.load(Ordering::Acquire) + self.ring.len() {
            self.poison.check()?;
            match self.write_ready(&mut self.writer.lock()) {
                // Somebody in front has not published yet; he may be waiting for this lock, which is free now.
                Ok(false) => yield_now(),
                Ok(true) => {}
                Err(e) => {
                    // The LSN range is given out and cannot be filled: there is no way on.
                    self.poison.set(format!("the log buffer is full and could not be written: {e}"));
                    return self.poison.check();
                }
            }
        }
        Ok(())
    }

    /// Hands complete groups to the system. `false`: there were none.
    fn write_ready(&self, writer: &mut Writer) -> Result<bool> {
        let (ready, groups) = self.ring.ready_from(writer.ready);
        if ready == writer.position {
            return Ok(false);
        }
        writer.ready = ready;
        self.metrics.add(Counter::LogWriteRequests, groups);
        let from = writer.position;
        let started = Instant::now();
        while writer.position < ready {
            self.write_piece(writer, ready).inspect_err(|e| {
                if !matches!(e, Error::DiskFull(_)) {
                    self.poison.set(format!("the log could not be written: {e}"));
                }
            })?;
        }
        self.written.store(ready, Ordering::Release);
        self.metrics.record(Timing::LogWrite, started.elapsed());
        self.metrics.add(Counter::LogAppended, ready - from);
        Ok(true)
    }

    /// One write, within one segment.
    fn write_piece(&self, writer: &mut Writer, ready: u64) -> Result<()> {
        let from = writer.position;
        let segment = match writer.segment.take() {
            Some(segment) if from < segment.end => segment,
            _ => {
                self.segments.prepare_to(from + 1)?;
                self.segments.find(from).ok_or_else(|| not_there(from))?
            }
        };
        let to = ready.min(segment.end).min(from + WRITE_BYTES as u64);
        let bytes = &mut writer.buffer[..(to - from) as usize];
        self.ring.copy_out(from, bytes);
        let written = segment.file.write_at(segment.offset_of(from), bytes);
        if writer.unsynced.last().is_none_or(|s| s.number != segment.number) {
            writer.unsynced.push(segment.clone());
        }
        writer.segment = Some(segment);
        written?;
        writer.position = to;
        self.freed.store(to, Ordering::Release);
        self.metrics.inc(Counter::LogWrites);
        self.metrics.add(Counter::OsLogWritten, to - from);
        Ok(())
    }

    /// Writes until everything below `lsn`, which has been given out, is with the system.
    fn write_through(&self, lsn: u64) -> Result<()> {
        let mut idle = 0;
        while self.written.load(Ordering::Acquire) < lsn {
            self.poison.check()?;
            if self.write_ready(&mut self.writer.lock())? {
                continue;
            }
            // Somebody is still copying his group. The lock is not held: he may need it to make room in the ring.
            idle += 1;
            if idle < SPINS { spin_loop() } else { yield_now() }
        }
        Ok(())
    }

    /// The leader's work: makes everything below `target` durable; returns what is.
    fn write_and_sync(&self, target: u64) -> Result<u64> {
        self.write_through(target)?;
        let (files, durable) = {
            let mut writer = self.writer.lock();
            // What is complete by now goes along. Some groups may be in part with the system, if the disk was full.
            self.write_ready(&mut writer)?;
            (std::mem::take(&mut writer.unsynced), self.written.load(Ordering::Acquire))
        };
        for segment in &files {
            let started = Instant::now();
            let synced = segment.file.sync();
            self.metrics.record(Timing::LogSync, started.elapsed());
            self.metrics.inc(Counter::OsLogFsyncs);
            if let Err(e) = synced {
                self.poison.set(format!("the log could not be synced: {e}"));
                return self.poison.check().map(|()| durable);
            }
        }
        self.metrics.set(Gauge::LsnFlushed, durable);
        self.metrics.set(Gauge::LsnCurrent, self.next.load(Ordering::Relaxed));
        Ok(durable)
    }

    /// Returns when everything below `lsn` is durable. Many callers share one sync.
    ///
    /// # Errors
    /// [`Error::DiskFull`]: nothing is lost, and it may be tried again. [`Error::Poisoned`] after a failed write or
    /// sync. [`Error::DamagedFile`] if `lsn` lies beyond the end of the log: a page is newer than its log.
    pub fn flush_to(&self, lsn: Lsn) -> Result<()> {
        self.poison.check()?;
        if self.commit.durable() >= lsn.0 {
            return Ok(());
        }
        self.check_given_out(lsn)?;
        let _timer = self.metrics.wait(WaitClass::Log);
        self.metrics.inc(Counter::LogGroupCommits);
        self.commit.flush_to(lsn.0, |target| self.write_and_sync(target), || self.poison.check())
    }

    /// Returns when the operating system has everything below `lsn`: a crash of the process does not lose it.
    ///
    /// # Errors
    /// As [`Wal::flush_to`].
    pub fn write_to(&self, lsn: Lsn) -> Result<()> {
        self.poison.check()?;
        if self.written.load(Ordering::Acquire) >= lsn.0 {
            return Ok(());
        }
        self.check_given_out(lsn)?;
        self.write_through(lsn.0)
    }

    /// What a commit does under the configured [`FlushAtCommit`], once its group ends at `lsn`.
    ///
    /// # Errors
    /// As [`Wal::flush_to`].
    pub fn commit_to(&self, lsn: Lsn) -> Result<()> {
        match self.flush_at_commit() {
            FlushAtCommit::Sync => self.flush_to(lsn),
            FlushAtCommit::Write => self.write_to(lsn),
            FlushAtCommit::Lazy => self.poison.check(),
        }
    }

    fn check_given_out(&self, lsn: Lsn) -> Result<()> {
        let end = self.next_lsn();
        if lsn <= end {
            return Ok(());
        }
        Err(Error::damaged_file("the log", format!("it ends at {end}, but a page or a caller has seen {lsn}")))
    }

    /// What commits wait for now.
    #[must_use]
    pub fn flush_at_commit(&self) -> FlushAtCommit {
        match self.mode.load(Ordering::Relaxed) {
            0 => FlushAtCommit::Lazy,
            2 => FlushAtCommit::Write,
            _ => FlushAtCommit::Sync,
        }
    }

    /// Changes what commits wait for, from now on.
    pub fn set_flush_at_commit(self: &Arc<Self>, mode: FlushAtCommit) {
        self.mode.store(mode as u8, Ordering::Relaxed);
        if self.phase.load(Ordering::Acquire) == Phase::Open as u8 {
            self.run_flusher(mode);
        }
    }

    fn run_flusher(self: &Arc<Self>, mode: FlushAtCommit) {
        if mode != FlushAtCommit::Sync {
            self.flusher.start(Arc::downgrade(self));
        }
    }

    /// Waits until `bytes` of log can be promised to `class`, prepares the segments for them, and promises them.
    ///
    /// To be called before anything is latched. Give at least [`Wal::group_bytes`] for each group that will be
    /// appended. Users queue behind each other; whoever waits wakes the checkpointer (the hooks of
    /// [`Wal::on_growth`]). [`SpaceClass::Checkpoint`] never waits.
    ///
    /// # Errors
    /// [`Error::LimitReached`] for more than the class can ever get, [`Error::DiskFull`] if no segment can be
    /// prepared (it may be tried again), [`Error::Closed`], [`Error::Poisoned`], whatever the disk says.
    pub fn reserve(&self, bytes: u64, class: SpaceClass) -> Result<SpaceTicket> {
        loop {
            if let Some(ticket) = self.try_reserve(bytes, class)? {
                return Ok(ticket);
            }
            self.metrics.inc(Counter::LogSpaceWaits);
            let _timer = self.metrics.wait(WaitClass::LogSpace);
            self.call_all_growth_hooks();
            match self.gate.wait(bytes, class, || self.space_position(), || self.check_appendable())? {
                Ok(ticket) => return Ok(ticket),
                Err(lsn) => self.segments.prepare_to(lsn)?,
            }
        }
    }

    /// As [`Wal::reserve`], but `None` instead of waiting.
    ///
    /// # Errors
    /// As [`Wal::reserve`].
    pub fn try_reserve(&self, bytes: u64, class: SpaceClass) -> Result<Option<SpaceTicket>> {
        self.check_appendable()?;
        if bytes > self.gate.limit(class) {
            let max = self.gate.limit(class);
            let what = format!("{bytes} bytes of log at once exceed the {max} bytes possible; raise the log capacity");
            return Err(Error::LimitReached(what));
        }
        loop {
            match self.gate.try_take(bytes, class, || self.space_position()) {
                Ok(ticket) => return Ok(Some(ticket)),
                Err(Refusal::Wait) => return Ok(None),
                Err(Refusal::Prepare(lsn)) => self.segments.prepare_to(lsn)?,
            }
        }
    }

    fn space_position(&self) -> Position {
        Position {
            next: self.next.load(Ordering::Acquire),
            checkpoint: self.checkpoint_lsn.load(Ordering::Acquire),
            prepared: self.segments.prepared_end(),
        }
    }

    /// How long a row change should be delayed before it starts, so that the log does not fill up: nothing up to half
    /// the capacity, then growing steeply. The checkpoint is meant to keep the age at 60 % and a little more: there the
    /// delay is a few microseconds, so that a steady state costs nothing; it counts when the age nears the limit. To be
    /// slept by the caller, never under a latch or with a ticket.
    #[must_use]
    pub fn throttle_delay(&self) -> Duration {
        let Some(over) = self.age().checked_sub(self.geometry.throttle_from + 1) else { return Duration::ZERO };
        self.metrics.inc(Counter::LogThrottles);
        let range = (self.geometry.user_limit - self.geometry.throttle_from) as f64;
        self.config.throttle_max.mul_f64(((over + 1) as f64 / range).min(1.0).powi(8))
    }

    /// Publishes a lower bound of the LSN at which the caller's next group will start.
    ///
    /// Enter before [`Wal::append`] and drop the slot after the changed pages are registered as dirty: checkpoints
    /// stay below it meanwhile.
    #[must_use = "the slot protects the writer as long as it lives"]
    pub fn enter(&self) -> WriterSlot<'_> {
        WriterSlot { wal: self, number: self.slots.enter(&self.next) }
    }

    /// The least LSN at which a writer may start, or have started, whose pages are not all registered as dirty.
    ///
    /// Call this *before* looking for the oldest dirty page; every change below both is in the data files.
    #[must_use]
    pub fn oldest_writer(&self) -> Lsn {
        Lsn(self.slots.oldest(&self.next))
    }

    /// Where the next group will start.
    #[must_use]
    pub fn next_lsn(&self) -> Lsn {
        Lsn(self.next.load(Ordering::Acquire))
    }

    /// Everything below is with the operating system. Always the end of a group.
    #[must_use]
    pub fn written_lsn(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    /// Everything below is durable.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.commit.durable())
    }

    /// Where recovery would begin.
    #[must_use]
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(self.checkpoint_lsn.load(Ordering::Acquire))
    }

    /// Bytes that the segment files may take together.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.config.capacity_bytes
    }

    /// Age at which user tickets wait for the checkpoint; below [`Wal::capacity`].
    #[must_use]
    pub fn user_limit(&self) -> u64 {
        self.geometry.user_limit
    }

    /// Bytes from the checkpoint to the end of the log.
    #[must_use]
    pub fn age(&self) -> u64 {
        self.next_lsn().since(self.checkpoint_lsn())
    }

    /// Which life of the database this is, counted by opens.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire) as u32
    }

    /// Durably moves the checkpoint to `lsn`, a start of a group (or the end of the log), with a payload of at most
    /// 2 KiB for the floors above; then reuses the segments below and wakes those who wait for space.
    ///
    /// The caller guarantees that every change below `lsn` is durable in the data files.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `lsn` lies before the present checkpoint or the payload is too long; as
    /// [`Wal::flush_to`]; whatever the disk says while writing. A failed sync poisons.
    pub fn set_checkpoint(&self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        self.check_appendable()?;
        if payload.len() > checkpoint::PAYLOAD_MAX {
            return Err(Error::invalid(format!("a checkpoint payload of {} bytes is too long", payload.len())));
        }
        self.flush_to(lsn)?;
        {
            let mut file = self.checkpoint.lock();
            let current = file.current();
            if lsn.0 < current.lsn {
                return Err(Error::invalid(format!("the checkpoint cannot go back from {} to {lsn}", current.lsn)));
            }
            // From where this life began on, only its own groups can follow.
            let min_epoch = if lsn.0 >= current.epoch_start { current.epoch } else { current.min_epoch };
            let (durable, payload) = (self.commit.durable(), payload.to_vec());
            let next = Checkpoint { lsn: lsn.0, min_epoch, durable, payload, ..current.clone() };
            self.store_checkpoint(&mut file, next)?;
            self.checkpoint_lsn.store(lsn.0, Ordering::Release);
        }
        self.metrics.inc(Counter::Checkpoints);
        self.metrics.set(Gauge::LsnCheckpoint, lsn.0);
        self.metrics.set(Gauge::CheckpointAge, self.age());
        let recycled = self.segments.recycle_below(lsn.0);
        // Ahead of need, on the checkpointer's time. A full disk is for those to report who need the room.
        let promised = self.next.load(Ordering::Acquire) + self.gate.outstanding();
        let _ = self.segments.prepare_to(promised + self.geometry.ahead());
        self.gate.wake_all();
        recycled
    }

    /// Writes a checkpoint slot and makes it durable.
    pub(crate) fn store_checkpoint(&self, file: &mut CheckpointFile, next: Checkpoint) -> Result<()> {
        file.write_next(next)?;
        file.sync().inspect_err(|e| self.poison.set(format!("the checkpoint could not be synced: {e}")))
    }

    /// Calls `callback` each time the log has grown by about `step` bytes, and whenever somebody starts to wait for
    /// space. It runs on an appending thread, under that thread's latches: it may only wake another thread.
    pub fn on_growth(&self, step: u64, callback: impl Fn() + Send + Sync + 'static) {
        let mut hooks = self.growth.lock();
        let due = self.next.load(Ordering::Acquire) + step;
        hooks.push(Growth { step, due, callback: Arc::new(callback) });
        self.growth_due.fetch_min(due, Ordering::Relaxed);
    }

    #[cold]
    fn call_growth_hooks(&self, end: u64) {
        let mut hooks = self.growth.lock();
        let mut calls = Vec::new();
        for hook in hooks.iter_mut().filter(|h| h.due <= end) {
            hook.due = end + hook.step;
            calls.push(hook.callback.clone());
        }
        let due = hooks.iter().map(|h| h.due).min().unwrap_or(u64::MAX);
        self.growth_due.store(due, Ordering::Relaxed);
        drop(hooks);
        calls.iter().for_each(|call| call());
    }

    fn call_all_growth_hooks(&self) {
        let calls: Vec<_> = self.growth.lock().iter().map(|h| h.callback.clone()).collect();
        calls.iter().for_each(|call| call());
    }

    /// Poisons the database: every later call fails, those who wait are woken.
    pub fn poison(&self, why: &str) {
        self.poison.set(why);
    }

    /// Whether the database may go on.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first reason.
    #[inline]
    pub fn check_poisoned(&self) -> Result<()> {
        self.poison.check()
    }

    /// The database's one poison, for the other floors.
    #[must_use]
    pub fn shared_poison(&self) -> &Arc<Poison> {
        &self.poison
    }

    #[inline]
    fn check_appendable(&self) -> Result<()> {
        self.poison.check()?;
        if self.phase.load(Ordering::Acquire) == Phase::Open as u8 {
            return Ok(());
        }
        self.refuse()
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        if self.phase.load(Ordering::Acquire) == Phase::Closed as u8 {
            return Err(Error::Closed("the log"));
        }
        Err(Error::invalid("nothing can be appended to the log before recovery has finished"))
    }

    /// Makes the log durable, records its end in the checkpoint file, stops the background flusher. Whoever waits for
    /// space, and every later append, gets [`Error::Closed`]. Closing a log twice does nothing.
    ///
    /// # Errors
    /// As [`Wal::flush_to`] and [`Wal::set_checkpoint`].
    pub fn close(&self) -> Result<()> {
        let was = self.phase.swap(Phase::Closed as u8, Ordering::AcqRel);
        self.flusher.stop();
        self.gate.wake_all();
        if was != Phase::Open as u8 {
            return Ok(());
        }
        self.flush_to(self.next_lsn())?;
        let mut file = self.checkpoint.lock();
        // With the end on record, even the very last flush is known to have been durable.
        let next = Checkpoint { durable: self.commit.durable(), ..file.current().clone() };
        self.store_checkpoint(&mut file, next)
    }

    fn wake_everybody(&self) {
        self.commit.wake_all();
        self.gate.wake_all();
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.flusher.stop();
    }
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (next, durable, checkpoint) = (self.next_lsn(), self.durable_lsn(), self.checkpoint_lsn());
        f.debug_struct("Wal")
            .field("next", &next)
            .field("durable", &durable)
            .field("checkpoint", &checkpoint)
            .finish_non_exhaustive()
    }
}
