//! The log itself: append, write, sync, space, checkpoint.
//!
//! ```text
//!  checkpoint <= durable <= written <= ready <= next <= prepared end
//!                  |          |          |       |
//!        synced ---+          |          |       +-- end of the last LSN range (fetch-add)
//!        with the system -----+          +---------- all groups below are complete (links)
//! ```
//!
//! Append takes `[start, end)` by a fetch-add on `next`, copies the group into the
//! [ring](crate::ring) and publishes it. It takes no lock unless the ring is full, and then it
//! helps to write. Writing follows the links and hands complete groups to the system, under
//! `writer`. A [leader](crate::group_commit) of the callers that wait writes, and one syncs,
//! without `writer`, so appending and writing go on meanwhile.
//!
//! Only LSN ranges that lie in prepared segments are given out: tickets ensure it, and append
//! checks again. So writing does not meet a full disk. Where it does nevertheless (file systems
//! that copy on write), flushing fails with [`Error::DiskFull`], the bytes stay in the ring, and
//! the next flush tries again. Any other failed write, and every failed sync, poisons the database.
//!
//! Lock order: `checkpoint`, then `writer`, then the locks of [segments](crate::segments).
//! `growth`, the group-commit lock and the gate's are leaves.

mod admission;
mod growth;
mod write;
mod writer;

use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use holdfast_base::blocking::Mutex;
use holdfast_base::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use holdfast_base::{Error, Lsn, Result};
use holdfast_io::Disk;
use holdfast_metrics::{Counter, Gauge, Metrics};

use crate::checkpoint::{self, Checkpoint, CheckpointFile};
use crate::config::{Geometry, Sizes};
use crate::flusher::Flusher;
use crate::format::{self, FIRST_LSN, GROUP_HEADER, group_len};
use crate::group_commit::GroupCommit;
use crate::ring::Ring;
use crate::segments::SegmentSet;
use crate::slots::WriterSlots;
use crate::space::SpaceGate;
use crate::{Poison, WalConfig};
use growth::Growth;
use writer::{WRITE_BYTES, Writer};

/// The number of writers that can be between append and registering their pages without waiting for
/// each other.
const WRITER_SLOTS: usize = 256;

/// What the log may be used for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Recovery reads it; nothing can be appended.
    Recovering,
    Open,
    /// What was promised can be appended; nothing is promised any more.
    Closing,
    Closed,
}

/// How far the log has been written to the operating system.
struct Written {
    /// Everything below is written, so its place in the ring is free. Advances by whole writes.
    bytes: AtomicU64,
    /// The same, but always the end of a group.
    groups: AtomicU64,
}

/// The write-ahead log of one database; see the module.
pub struct Wal {
    written: CachePadded<Written>,
    /// The ring has room at least up to this LSN. It is computed again, from `written`, only by an
    /// append that needs more: `written` changes with every commit, so each read of it would
    /// transfer its cache line from another core.
    ring_until: AtomicU64,
    commit: GroupCommit,
    writes: GroupCommit,
    phase: AtomicU8,
    /// The end of the log at which the next growth hook is due.
    growth_due: AtomicU64,
    checkpoint_lsn: AtomicU64,
    /// Where recovery found the end of the log.
    found_end: AtomicU64,
    epoch: AtomicU64,
    sizes: Arc<Sizes>,
    config: WalConfig,
    seed: u32,
    ring: Ring,
    slots: WriterSlots,
    gate: SpaceGate,
    segments: SegmentSet,
    writer: CachePadded<Mutex<Writer>>,
    checkpoint: Mutex<CheckpointFile>,
    growth: Mutex<Vec<Growth>>,
    flusher: Flusher,
    poison: Arc<Poison>,
    metrics: Arc<Metrics>,
}

/// Publishes, while it lives, a bound of the LSN at which its writer started; see [`Wal::enter`].
pub struct WriterSlot<'a> {
    wal: &'a Wal,
    number: usize,
}

impl Drop for WriterSlot<'_> {
    fn drop(&mut self) {
        if self.wal.slots.leave(self.number) {
            self.wal.call_all_growth_hooks();
        }
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
    /// [`Error::AlreadyExists`] if the directory holds any part of a log,
    /// [`Error::InvalidArgument`] for a capacity that is too small, [`Error::DiskFull`], and any
    /// other error of the disk.
    pub fn create(disk: Arc<dyn Disk>, uuid: [u8; 16], config: WalConfig, metrics: Arc<Metrics>) -> Result<Arc<Wal>> {
        let geometry = Geometry::new(&config)?;
        if disk.list()?.iter().any(|name| crate::is_log_file(name)) {
            return Err(Error::AlreadyExists(disk.location()));
        }
        let sizes = Arc::new(Sizes::new(geometry));
        let segments = SegmentSet::new(disk.clone(), uuid, config.page_size, Arc::clone(&sizes), vec![], FIRST_LSN);
        segments.prepare_to(FIRST_LSN + geometry.ahead())?;
        // Last: a directory holds a log once it holds a checkpoint.
        let file = CheckpointFile::create(disk.as_ref(), Checkpoint::first(uuid, FIRST_LSN))?;
        let wal = Wal::assemble(sizes, config, file, segments, metrics);
        wal.start_appending(FIRST_LSN);
        Ok(wal)
    }

    /// Returns a log in the phase of recovery, at its checkpoint.
    pub(crate) fn assemble(
        sizes: Arc<Sizes>,
        config: WalConfig,
        file: CheckpointFile,
        segments: SegmentSet,
        metrics: Arc<Metrics>,
    ) -> Arc<Wal> {
        let lsn = file.current().lsn;
        let (seed, epoch) = (format::seed(&file.current().uuid), file.current().epoch);
        let geometry = sizes.get();
        let ring = Ring::new(geometry.ring_bytes);
        metrics.set(Gauge::MemoryLogBuffer, ring.memory() + WRITE_BYTES as u64);
        metrics.set(Gauge::CheckpointMaxAge, geometry.user_limit);
        let wal = Arc::new(Wal {
            written: CachePadded::new(Written { bytes: AtomicU64::new(lsn), groups: AtomicU64::new(lsn) }),
            ring_until: AtomicU64::new(lsn),
            commit: GroupCommit::new(lsn),
            writes: GroupCommit::new(lsn),
            phase: AtomicU8::new(Phase::Recovering as u8),
            growth_due: AtomicU64::new(u64::MAX),
            checkpoint_lsn: AtomicU64::new(lsn),
            found_end: AtomicU64::new(lsn),
            epoch: AtomicU64::new(u64::from(epoch)),
            gate: SpaceGate::new(Arc::clone(&sizes), lsn),
            sizes,
            seed,
            ring,
            slots: WriterSlots::new(WRITER_SLOTS),
            segments,
            writer: CachePadded::new(Mutex::new(Writer::at(lsn))),
            checkpoint: Mutex::new(file),
            growth: Mutex::default(),
            flusher: Flusher::new(),
            poison: Poison::new(),
            config,
            metrics,
        });
        wal.segments.set_poison(Arc::clone(&wal.poison));
        let weak = Arc::downgrade(&wal);
        wal.poison.on_set(move |_| {
            if let Some(wal) = weak.upgrade() {
                wal.wake_all_waiters();
            }
        });
        wal
    }

    /// Called by recovery, which goes as far as `lsn`.
    pub(crate) fn ends_at(&self, lsn: u64) {
        self.found_end.store(lsn, Ordering::Release);
    }

    /// True if recovery has made everything below `lsn` durable before it read the first group: a
    /// page may have changes of groups that it has not read yet.
    pub(crate) fn was_found(&self, lsn: Lsn) -> bool {
        lsn.0 <= self.found_end.load(Ordering::Acquire)
    }

    /// Called by recovery: everything below `lsn` counts as appended, written and durable.
    pub(crate) fn recovered_to(&self, lsn: u64) {
        self.commit.set_reached(lsn);
        self.writes.set_reached(lsn);
        self.written.groups.store(lsn, Ordering::Release);
        self.written.bytes.store(lsn, Ordering::Release);
        self.gate.next().store(lsn, Ordering::Release);
        self.gate.grown_to(lsn);
    }

    /// Called by recovery, which has ended the log at `end`: takes the capacity that was asked for,
    /// if the disk has room for what a larger one keeps, and prepares the segments ahead. A
    /// database on a full disk can be opened. The first statement that needs room gets the error.
    pub(crate) fn prepare_ahead(&self, end: u64) {
        let asked = self.config.capacity_bytes;
        if self.capacity() != asked
            && let Ok(geometry) = self.sizes.of_capacity(&self.config, asked)
            && self.segments.resize(&geometry, || end + geometry.ahead()).is_ok()
        {
            self.metrics.set(Gauge::CheckpointMaxAge, geometry.user_limit);
            // A file that stays is removed later.
            let _ = self.segments.remove_unused();
        }
        let _ = self.segments.prepare_to(end + self.sizes.get().ahead());
    }

    /// Ends recovery. The next group starts at `lsn`.
    pub(crate) fn start_appending(&self, lsn: u64) {
        *self.writer.lock() = Writer::at(lsn);
        self.recovered_to(lsn);
        self.phase.store(Phase::Open as u8, Ordering::Release);
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

    /// The longest payload of one group, in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        (self.sizes.group_max() - GROUP_HEADER) as usize
    }

    /// The bytes of log that a group with a payload of `payload` bytes takes: the amount to
    /// [reserve](Wal::reserve).
    #[must_use]
    pub const fn group_bytes(payload: usize) -> u64 {
        group_len(payload)
    }

    /// Publishes a lower bound of the LSN at which the caller's next group will start.
    ///
    /// Enter before [`Wal::append`], and drop the slot after the changed pages are registered as
    /// dirty. Checkpoints stay below the bound meanwhile.
    #[must_use = "the slot protects the writer as long as it lives"]
    pub fn enter(&self) -> WriterSlot<'_> {
        WriterSlot { wal: self, number: self.slots.enter(self.gate.next()) }
    }

    /// The least LSN at which a writer may start, or have started, whose pages are not all
    /// registered as dirty.
    ///
    /// Call this *before* searching for the oldest dirty page. Every change below both LSNs is in
    /// the data files.
    #[must_use]
    pub fn oldest_writer(&self) -> Lsn {
        Lsn(self.slots.oldest(self.gate.next()))
    }

    /// The hooks of [`Wal::on_growth`] are called when the writers that may start below `lsn` have
    /// left. For a checkpointer that needs room; call this *before* [`Wal::oldest_writer`].
    pub fn watch_writers(&self, lsn: Lsn) {
        self.slots.watch(lsn.0);
    }

    /// The LSN of the next group.
    #[must_use]
    pub fn next_lsn(&self) -> Lsn {
        Lsn(self.gate.next().load(Ordering::Acquire))
    }

    /// The end of the log: no page is newer. While recovery reads the log, this is where it will
    /// stop.
    #[must_use]
    pub fn end_lsn(&self) -> Lsn {
        self.next_lsn().max(Lsn(self.found_end.load(Ordering::Acquire)))
    }

    /// Everything below this LSN is written to the operating system. Always the end of a group.
    #[must_use]
    pub fn written_lsn(&self) -> Lsn {
        Lsn(self.written.groups.load(Ordering::Acquire))
    }

    /// Everything below this LSN is durable.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.commit.reached())
    }

    /// The LSN where recovery would begin.
    #[must_use]
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(self.checkpoint_lsn.load(Ordering::Acquire))
    }

    /// The bytes that the segment files may take together.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.sizes.get().capacity
    }

    /// Changes the capacity, from now on. A smaller one takes effect as the checkpoint advances:
    /// until then, users wait for room and files of the old size stay. For a larger one, what is
    /// kept for rollback and the checkpoint is prepared first.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the capacity is too small, by itself or for the log buffer;
    /// [`Error::DiskFull`], and any other error of the disk, if the segments for a larger one
    /// cannot be prepared; then nothing has changed. Any error of the disk while files that are no
    /// longer needed are removed; the capacity is changed all the same.
    pub fn set_capacity(&self, bytes: u64) -> Result<()> {
        self.check_open()?;
        let geometry = self.sizes.of_capacity(&self.config, bytes)?;
        self.segments.resize(&geometry, || self.wanted_end(&geometry))?;
        let removed = self.segments.remove_unused();
        self.metrics.set(Gauge::CheckpointMaxAge, geometry.user_limit);
        // There may be room now, or the checkpoint may be too old now.
        self.gate.call_first();
        self.bring_growth_forward();
        self.call_all_growth_hooks();
        removed
    }

    /// The age at which user tickets wait for the checkpoint; below [`Wal::capacity`].
    #[must_use]
    pub fn user_limit(&self) -> u64 {
        self.sizes.get().user_limit
    }

    /// The age at which the throttle begins (see [`Wal::throttle_delay`]); below
    /// [`Wal::user_limit`].
    #[must_use]
    pub fn throttle_from(&self) -> u64 {
        self.sizes.get().throttle_from
    }

    /// The bytes from the checkpoint to the end of the log.
    #[must_use]
    pub fn age(&self) -> u64 {
        self.next_lsn().since(self.checkpoint_lsn())
    }

    /// The life of the database, counted by opens.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire) as u32
    }

    /// Durably moves the checkpoint to `lsn`, with a payload of at most 2 KiB for the floors above.
    /// Then reuses the segments below and wakes the waiters for space. `lsn` is the start of a
    /// group or the end of the log.
    ///
    /// The caller guarantees that every change below `lsn` is durable in the data files.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `lsn` lies before the present checkpoint, no group can start
    /// there, or the payload is too long; the errors of [`Wal::flush_to`]; any error of the disk
    /// while writing. A failed sync poisons the database.
    pub fn set_checkpoint(&self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        self.check_appendable()?;
        if payload.len() > checkpoint::PAYLOAD_MAX {
            return Err(Error::invalid(format!("a checkpoint payload of {} bytes is too long", payload.len())));
        }
        if !checkpoint::is_position(lsn.0) {
            return Err(Error::invalid(format!("no group can start at log sequence number {lsn}")));
        }
        self.flush_to(lsn)?;
        {
            let mut file = self.checkpoint.lock();
            let current = file.current();
            if lsn.0 < current.lsn {
                return Err(Error::invalid(format!("the checkpoint cannot go back from {} to {lsn}", current.lsn)));
            }
            // Only groups of this life can follow an LSN at or above its start.
            let min_epoch = if lsn.0 >= current.epoch_start { current.epoch } else { current.min_epoch };
            let (durable, payload) = (self.commit.reached(), payload.to_vec());
            let next = Checkpoint { lsn: lsn.0, min_epoch, durable, closed: false, payload, ..current.clone() };
            self.store_checkpoint(&mut file, next)?;
            self.checkpoint_lsn.store(lsn.0, Ordering::Release);
        }
        self.metrics.inc(Counter::Checkpoints);
        self.metrics.set(Gauge::LsnCheckpoint, lsn.0);
        self.metrics.set(Gauge::CheckpointAge, self.age());
        // A file that cannot be removed is no reason to refuse the room that there is now.
        let _ = self.segments.recycle_below(lsn.0);
        // Ahead of need, on the checkpointer's time. A full disk is reported to the statements that
        // need room.
        let _ = self.segments.prepare_to(self.wanted_end(&self.sizes.get()));
        self.gate.call_first();
        Ok(())
    }

    /// How far segments should be prepared under these sizes.
    fn wanted_end(&self, geometry: &Geometry) -> u64 {
        self.next_lsn().0 + self.gate.promised() + geometry.ahead()
    }

    /// Writes a checkpoint slot and makes it durable.
    pub(crate) fn store_checkpoint(&self, file: &mut CheckpointFile, next: Checkpoint) -> Result<()> {
        file.write_next(next)?;
        file.sync().inspect_err(|e| self.poison.set(format!("the checkpoint could not be synced: {e}")))
    }

    /// Poisons the database: every later call fails, and all waiters are woken.
    pub fn poison(&self, why: &str) {
        self.poison.set(why);
    }

    /// Succeeds if the database is not poisoned.
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

    /// Succeeds if log space may be promised.
    #[inline]
    fn check_open(&self) -> Result<()> {
        self.poison.check()?;
        if self.phase.load(Ordering::Acquire) == Phase::Open as u8 { Ok(()) } else { self.refuse() }
    }

    /// Succeeds if what was promised may be appended.
    #[inline]
    fn check_appendable(&self) -> Result<()> {
        self.poison.check()?;
        let phase = self.phase.load(Ordering::Acquire);
        if phase == Phase::Open as u8 || phase == Phase::Closing as u8 { Ok(()) } else { self.refuse() }
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        if self.phase.load(Ordering::Acquire) == Phase::Recovering as u8 {
            return Err(Error::invalid("nothing can be appended to the log before recovery has finished"));
        }
        Err(Error::Closed("the log"))
    }

    /// Refuses further tickets, and waits until those that are out have been given back, with
    /// everything appended that they were taken for. To be called before [`Wal::close`] by a caller
    /// that has no ticket, where other threads may still use the log: a mini-transaction that was
    /// refused its group after it had changed pages would poison the database.
    pub fn end_promises(&self) {
        let (open, closing) = (Phase::Open as u8, Phase::Closing as u8);
        if self.phase.compare_exchange(open, closing, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.gate.call_all();
            self.gate.wait_for_tickets();
        }
    }

    /// Makes the log durable, records its end in the checkpoint file, and stops the background
    /// flusher. Waiters for space, and every later append, get [`Error::Closed`]. Closing a log
    /// again does nothing.
    ///
    /// # Errors
    /// The errors of [`Wal::flush_to`] and [`Wal::set_checkpoint`].
    pub fn close(&self) -> Result<()> {
        let was = self.phase.swap(Phase::Closed as u8, Ordering::AcqRel);
        self.flusher.stop();
        self.gate.call_all();
        if was != Phase::Open as u8 && was != Phase::Closing as u8 {
            return Ok(());
        }
        self.flush_to(self.next_lsn())?;
        let mut file = self.checkpoint.lock();
        // With the end recorded, even the very last flush is known to have been durable.
        let durable = self.commit.reached();
        let next = Checkpoint { durable, closed: durable == self.next_lsn().0, ..file.current().clone() };
        self.store_checkpoint(&mut file, next)
    }

    fn wake_all_waiters(&self) {
        self.commit.wake_all();
        self.writes.wake_all();
        self.gate.call_all();
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
