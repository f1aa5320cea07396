//! What is in the pool, for status listings: computed on demand by walking the frame headers.

use holdfast_base::HashMap;

use holdfast_base::page::{self, PageType};
use holdfast_base::{IndexId, Lsn, PageId, SpaceId};
use holdfast_metrics::{Counter, Gauge};
use holdfast_policy::{Policy, PolicyStats, Queue, TouchRules};

use crate::core::Core;
use crate::resident::access::{OptPage, PageRead};
use crate::resident::header::{READ_AHEAD, WRITING};

/// Totals of a pool at one moment; the numbers are taken one after the other while others go on.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolStats {
    /// Frames.
    pub frames: usize,
    /// Frames that hold no page: free, reserved, or about to be filled.
    pub free: usize,
    /// Those of them that no thread has taken: they are in the free list.
    pub idle: usize,
    /// Frames that hold a page.
    pub resident: usize,
    /// Pages that are newer than their files.
    pub dirty: usize,
    /// Pages that wait to be evicted soon and are clean: resident minus dirty.
    pub clean: usize,
    /// Lengths and counts of the replacement policy, all partitions together.
    pub policy: PolicyStats,
    /// Partitions.
    pub partitions: usize,
    /// Bytes of page translation of all open spaces.
    pub translation_bytes: u64,
    /// Bytes of frame headers.
    pub header_bytes: u64,
    /// Where the checkpoint is held; [`Lsn::MAX`] if nothing is dirty.
    pub oldest_dirty: Lsn,
}

/// A frame that holds a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// Number of the frame.
    pub frame: u32,
    /// Its page.
    pub id: PageId,
    /// Whose it is.
    pub owner: PageOwner,
    /// The page's last change.
    pub lsn: Lsn,
    /// The first change that its file does not have; `None` if it is clean.
    pub dirty_since: Option<Lsn>,
    /// Where the replacement policy keeps it.
    pub queue: Queue,
    /// It is on its way to disk.
    pub writing: bool,
    /// It was read ahead, and no thread has used it yet.
    pub read_ahead: bool,
}

/// What the pages of one kind and owner add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Pages.
    pub pages: usize,
    /// Those that are newer than their file.
    pub dirty: usize,
    /// Those in a part of the pool that new pages do not reach: `main` or `young`.
    pub hot: usize,
    /// Those held within the scan budget.
    pub ring: usize,
    /// Those read ahead and not used yet.
    pub read_ahead: usize,
}

/// Whose pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageOwner {
    /// The space.
    pub space: SpaceId,
    /// The index; 0 for pages that belong to none.
    pub index: IndexId,
    /// The page type's number, see [`PageType`].
    pub page_type: u8,
}

impl PageOwner {
    /// The page type; `None` for bytes that are none.
    #[must_use]
    pub fn page_type(&self) -> Option<PageType> {
        PageType::from_u8(self.page_type)
    }
}

impl Core {
    pub(crate) fn stats(&self) -> PoolStats {
        let frames = self.active_frames();
        let policy = self.policy_stats();
        let (resident, dirty) = (policy.resident, self.dirty_pages() as usize);
        PoolStats {
            frames,
            free: frames.saturating_sub(resident),
            idle: self.supply.free_len() as usize,
            resident,
            dirty,
            clean: resident.saturating_sub(dirty),
            policy,
            partitions: self.partitions.len(),
            translation_bytes: self.spaces().values().map(|s| s.translation_bytes()).sum(),
            header_bytes: u64::from(self.frames.max()) * 64,
            oldest_dirty: self.oldest_dirty(),
        }
    }

    /// Lengths and counts of the partitions' policies, added up.
    fn policy_stats(&self) -> PolicyStats {
        let mut sum = PolicyStats::default();
        for partition in &self.partitions {
            let s = partition.lock().stats();
            sum.resident += s.resident;
            sum.small += s.small;
            sum.main += s.main;
            sum.ring += s.ring;
            sum.ghost += s.ghost;
            sum.old += s.old;
            sum.insertions += s.insertions;
            sum.evictions += s.evictions;
            sum.made_young += s.made_young;
            sum.not_young += s.not_young;
            sum.ghost_hits += s.ghost_hits;
            sum.ring_rescued += s.ring_rescued;
        }
        sum
    }

    /// Adds to the metrics what the policies have counted since the last time. `change` runs in
    /// between and may replace the policies: the new ones begin at zero, the counters go on.
    pub(crate) fn count_policy(&self, change: impl FnOnce()) {
        let mut counted = self.policy_counted.lock();
        let now = self.policy_stats();
        let counters = [
            (Counter::PagesMadeYoung, now.made_young, counted.made_young),
            (Counter::PagesNotMadeYoung, now.not_young, counted.not_young),
            (Counter::GhostHits, now.ghost_hits, counted.ghost_hits),
        ];
        counters.into_iter().for_each(|(counter, now, then)| self.metrics.add(counter, now.saturating_sub(then)));
        change();
        *counted = self.policy_stats();
    }

    /// Brings the pool's gauges up to date, and the counters that the policies keep.
    pub(crate) fn publish_metrics(&self) {
        self.count_policy(|| {});
        let s = self.stats();
        let page = self.frames.page_size() as u64;
        let gauges = [
            (Gauge::PagesTotal, s.frames as u64),
            (Gauge::PagesFree, s.free as u64),
            (Gauge::PagesData, s.resident as u64),
            (Gauge::PagesDirty, s.dirty as u64),
            (Gauge::PagesOld, (s.policy.old + s.policy.small) as u64),
            (Gauge::PagesRing, s.policy.ring as u64),
            (Gauge::BytesData, s.resident as u64 * page),
            (Gauge::BytesDirty, s.dirty as u64 * page),
            (Gauge::MemoryTranslation, s.translation_bytes),
        ];
        gauges.into_iter().for_each(|(gauge, value)| self.metrics.set(gauge, value));
    }

    /// Adds up the pages by owner. Pages that change hands meanwhile may be missed or counted for
    /// their former owner.
    pub(crate) fn residency(&self) -> HashMap<PageOwner, Resident> {
        let mut owners: HashMap<PageOwner, Resident> = HashMap::default();
        self.each_page(&mut |page, _| {
            let sum = owners.entry(page.owner).or_default();
            sum.pages += 1;
            sum.dirty += usize::from(page.dirty_since.is_some());
            sum.hot += usize::from(matches!(page.queue, Queue::Main | Queue::Young));
            sum.ring += usize::from(page.queue == Queue::Ring);
            sum.read_ahead += usize::from(page.read_ahead);
        });
        owners
    }

    /// Walks all frames that hold a page. Nothing is latched or touched: what `each` reads of a
    /// page may be half changed and of another page by now, and is good for statistics only.
    pub(crate) fn each_page(&self, each: &mut dyn FnMut(&FrameInfo, &OptPage<'_>)) {
        for frame in 0..self.supply.active() {
            let header = self.frames.header(frame);
            let Some(id) = header.page() else { continue };
            #[cfg(miri)]
            header.latch.shared();
            // SAFETY: the frame stays mapped; what is read is used for statistics only.
            let bytes = unsafe { OptPage::new(self.frames.bytes(frame), self.frames.page_size()) };
            let index = IndexId(bytes.u32(page::OFF_INDEX).unwrap_or(0));
            let page_type = bytes.u8(page::OFF_TYPE).unwrap_or(0);
            let rec_lsn = header.rec_lsn();
            let info = FrameInfo {
                frame,
                id,
                owner: PageOwner { space: id.space, index, page_type },
                lsn: Lsn(bytes.u64(page::OFF_LSN).unwrap_or(0)),
                dirty_since: (rec_lsn != 0).then_some(Lsn(rec_lsn)),
                queue: TouchRules::queue(header.policy.load(std::sync::atomic::Ordering::Relaxed)),
                writing: header.has(WRITING),
                read_ahead: header.has(READ_AHEAD),
            };
            each(&info, &bytes);
            #[cfg(miri)]
            header.latch.release_shared();
        }
    }
}
