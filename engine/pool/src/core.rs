//! The pool's shared state: what guards, accesses and the background threads refer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use holdfast_base::HashMap;
use holdfast_base::blocking::{Mutex, ReadMostly, ReadMostlyGuard, ReadMostlyWriteGuard};
use holdfast_base::{Lsn, PageId, Result, SpaceId};
use holdfast_metrics::{Counter, Gauge, Metrics, Spread, WaitClass};
use holdfast_policy::{PolicyStats, TouchEffect};
use holdfast_wal::Wal;

use crate::checkpoint::held::Held;
use crate::checkpoint::signals::Signals;
use crate::checkpoint::unsynced::{CheckpointPayload, Unsynced};
use crate::config::{BATCH, PoolConfig};
use crate::read::readahead_queue::ReadAheadQueue;
use crate::resident::frames::Frames;
use crate::resident::header::FrameHeader;
use crate::resident::partition::Partition;
use crate::resident::space::Space;
use crate::supply::free_frames::Supply;
use crate::supply::reservations::Reservations;
use crate::write::dirty::AgeCounts;
use crate::write::doublewrite::DoubleWriter;
use crate::write::images::ImageMemory;

/// See the module's description.
pub(crate) struct Core {
    pub(crate) frames: Frames,
    pub(crate) partitions: Box<[CachePadded<Partition>]>,
    pub(crate) supply: CachePadded<Supply>,
    /// Threads that evict pages of one space at the same moment mostly do not meet in it.
    spaces: ReadMostly<HashMap<SpaceId, Arc<Space>>>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) config: PoolConfig,
    pub(crate) reservations: Reservations,
    pub(crate) doublewrite: DoubleWriter,
    pub(crate) image_memory: ImageMemory,
    /// Held while the number of frames changes.
    pub(crate) resizing: Mutex<()>,
    pub(crate) unsynced: Unsynced,
    pub(crate) held: Held,
    pub(crate) payload: CheckpointPayload,
    pub(crate) signals: Signals,
    pub(crate) read_ahead: ReadAheadQueue,
    /// The pages of the warm-up list are being loaded, or were when the pool was stopped.
    pub(crate) warming: AtomicBool,
    /// Pages that came in, those of declared scans not included.
    turnover: Spread<AtomicU64>,
    /// What the metrics know of the policies' counts.
    pub(crate) policy_counted: Mutex<PolicyStats>,
    /// Victims taken so far: the cleaner's measure of the demand for frames.
    pub(crate) evicted: CachePadded<AtomicU64>,
    /// Up to this many victims the cleaner has seen nothing to do.
    pub(crate) clean_until: AtomicU64,
}

impl Core {
    pub(crate) fn new(config: PoolConfig, wal: Arc<Wal>, metrics: Arc<Metrics>) -> Result<Core> {
        let (active, max) = config.frames()?;
        let frames = Frames::reserve(max, config.page_size)?;
        frames.advise_used(0, active);
        if config.populate {
            frames.populate(0, active);
        }
        let count = config.partition_count(active);
        let share = (active as usize).div_ceil(count);
        let partitions =
            (0..count).map(|_| CachePadded::new(Partition::new(config.policy, share, wal.capacity()))).collect();
        metrics.set(Gauge::PageSize, config.page_size as u64);
        metrics.set(Gauge::PagesTotal, u64::from(active));
        Ok(Core {
            doublewrite: DoubleWriter::open(&config)?,
            image_memory: ImageMemory::new(BATCH, config.page_size),
            resizing: Mutex::default(),
            frames,
            partitions,
            supply: CachePadded::new(Supply::new(active)),
            spaces: ReadMostly::default(),
            wal,
            metrics,
            reservations: Reservations::default(),
            unsynced: Unsynced::default(),
            held: Held::default(),
            payload: CheckpointPayload::default(),
            signals: Signals::default(),
            read_ahead: ReadAheadQueue::default(),
            warming: AtomicBool::default(),
            turnover: Spread::default(),
            policy_counted: Mutex::default(),
            evicted: CachePadded::default(),
            clean_until: AtomicU64::default(),
            config,
        })
    }

    /// The partition that a page belongs to.
    #[inline]
    pub(crate) fn partition(&self, id: PageId) -> &Partition {
        let n = self.partitions.len();
        if n == 1 {
            return &self.partitions[0];
        }
        let group = u64::from(id.space.0) << 32 | u64::from(id.no.0 / 64);
        let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.partitions[((hash * n as u64) >> 32) as usize]
    }

    /// Milliseconds, for touches.
    pub(crate) fn tick(&self) -> u32 {
        self.config.clock.coarse().as_millis() as u32
    }

    /// Frames of the pool.
    pub(crate) fn active_frames(&self) -> usize {
        self.supply.active() as usize
    }

    /// Pages that came in so far, those of declared scans not included.
    pub(crate) fn turnover(&self) -> u64 {
        self.turnover.all().map(|own| own.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn count_turnover(&self) {
        self.turnover.mine().fetch_add(1, Ordering::Relaxed);
    }

    /// The open spaces. Nothing else is locked while one holds this.
    pub(crate) fn spaces(&self) -> ReadMostlyGuard<'_, HashMap<SpaceId, Arc<Space>>> {
        self.spaces.read()
    }

    /// The same, to open or close one.
    pub(crate) fn spaces_mut(&self) -> ReadMostlyWriteGuard<'_, HashMap<SpaceId, Arc<Space>>> {
        self.spaces.write()
    }

    /// The open space of this number.
    pub(crate) fn space(&self, id: SpaceId) -> Option<Arc<Space>> {
        self.spaces().get(&id).cloned()
    }

    /// Takes a latch shared; counts the wait, if there is one. The caller holds no latch.
    pub(crate) fn latch_shared(&self, header: &FrameHeader) {
        self.latch_shared_while(header, || true);
    }

    /// Takes a latch exclusively; counts the wait, if there is one. The caller holds no latch.
    pub(crate) fn latch_exclusive(&self, header: &FrameHeader) {
        self.latch_exclusive_while(header, || true);
    }

    /// Takes a latch shared, waiting as long as `there` says that the page is; whether that worked.
    pub(crate) fn latch_shared_while(&self, header: &FrameHeader, there: impl Fn() -> bool) -> bool {
        header.latch.try_shared() || {
            let _wait = self.metrics.wait(WaitClass::Latch);
            header.latch.shared_while(there)
        }
    }

    /// Takes a latch exclusively, waiting as long as `there` says that the page is; whether that
    /// worked.
    pub(crate) fn latch_exclusive_while(&self, header: &FrameHeader, there: impl Fn() -> bool) -> bool {
        header.latch.try_exclusive() || {
            let _wait = self.metrics.wait(WaitClass::Latch);
            header.latch.exclusive_while(there)
        }
    }

    /// The exclusive holder changed the page.
    pub(crate) fn register_dirty(&self, frame: u32, header: &FrameHeader, id: PageId, start: Lsn) {
        self.metrics.inc(Counter::BufferPoolWriteRequests);
        let partition = self.partition(id);
        partition.mark_dirty(frame, header, start);
        let word = header.policy.load(Ordering::Relaxed);
        if let TouchEffect::Store(new) = partition.rules().dirtied(word) {
            let _ = header.policy.compare_exchange(word, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Pages that are newer than their files.
    pub(crate) fn dirty_pages(&self) -> u32 {
        self.partitions.iter().map(|p| p.dirty_len()).sum()
    }

    /// How many there are of them in each stretch of the log.
    pub(crate) fn dirty_ages(&self) -> AgeCounts {
        let mut counts = AgeCounts::new(self.wal.capacity());
        self.partitions.iter().for_each(|p| p.count_dirty(&mut counts));
        counts
    }
}
