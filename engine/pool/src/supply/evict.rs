//! Where frames come from. A thread that needs a frame makes frames; it never sleeps for a while to
//! try again.
//!
//! 1. The free list.
//! 2. A batch of clean victims of the policy: the first is the caller's, the others go to the free
//!    list.
//! 3. Only dirty candidates: the caller writes a batch of the coldest itself, with whatever there
//!    is, and goes on as soon as the first page is written; the rest is finished by the finisher
//!    thread.
//! 4. Everything latched, being read or being written: the caller waits for an event of one of
//!    these (the release of a candidate's latch, a completed read or write, a returned frame).
//!
//! Lock order: no latch may be held in step 4, no claim either (`miss` gives it up). In steps 1 to
//! 3 latches are only tried. A failed write makes the caller try other victims; its error is
//! returned when nothing else is left.

use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_base::{Error, PageId, Result, latches};
use holdfast_metrics::{Counter, WaitClass};
use holdfast_policy::{Policy, Queue, TouchRules};
use smallvec::SmallVec;

use crate::core::Core;
use crate::read::request::Access;
use crate::resident::header::WRITING;
use crate::resident::partition::{HeaderWords, Partition};

/// Dirty pages that a thread without a frame writes at once.
const FOREGROUND_WRITES: usize = 8;
/// Candidates of a partition that a thread looks at for that, as long as it finds none. Only then
/// it looks at all pages: with a large pool that takes tens of milliseconds, under the mutex that
/// all misses of the partition take.
const FOREGROUND_CANDIDATES: [usize; 3] = [64, 512, 4096];
/// Times that a search for victims is repeated in one partition: each looks further.
const SEARCHES: usize = 3;
/// Victims of one pass at most.
const MOST_VICTIMS: usize = 32;

/// Frames taken in one pass.
type Victims = SmallVec<[u32; MOST_VICTIMS]>;

impl Core {
    /// Victims taken in one pass: at most about 0.4 % of the pool, so that free frames are no
    /// waste.
    fn eviction_batch(&self) -> usize {
        (self.active_frames() / 256).clamp(1, MOST_VICTIMS)
    }

    /// Steps 1 to 3. `None`: only step 4 is left.
    ///
    /// # Errors
    /// The errors of the writes, if no page could be written.
    pub(crate) fn find_frame(&self, acc: &Access<'_>) -> Result<Option<u32>> {
        let mut failure: Option<Error> = None;
        // Each turn writes pages that others may snatch away; but then they have made progress.
        loop {
            if let Some(frame) = self.find_clean_frame() {
                return Ok(Some(frame));
            }
            acc.count_free_wait();
            let _wait = self.metrics.wait(WaitClass::Frame);
            let (written, error) = self.write_candidates();
            failure = error.or(failure);
            if written == 0 {
                // Others may have made room while this thread failed to.
                return match (self.find_clean_frame(), failure) {
                    (Some(frame), _) => Ok(Some(frame)),
                    (None, Some(error)) => Err(error),
                    (None, None) => Ok(None),
                };
            }
        }
    }

    /// Steps 1 and 2.
    pub(crate) fn find_clean_frame(&self) -> Option<u32> {
        if let Some(frame) = self.supply.take() {
            return Some(frame);
        }
        self.metrics.inc(Counter::ForegroundEvictions);
        let mut victims = Victims::new();
        let first = self.next_partition();
        let mut met_dirty = false;
        for i in 0..self.partitions.len() {
            let partition = &self.partitions[(first + i) % self.partitions.len()];
            met_dirty |= self.evict_clean(partition, self.eviction_batch(), &mut victims);
            if !victims.is_empty() {
                break;
            }
        }
        self.signal_cleaner(met_dirty);
        let frame = victims.pop();
        self.supply.give(&victims);
        frame.or_else(|| self.supply.take())
    }

    /// The partition that eviction begins with: each in turn, so that one with more misses gets
    /// more frames.
    fn next_partition(&self) -> usize {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        if self.partitions.len() == 1 { 0 } else { TURN.fetch_add(1, Ordering::Relaxed) % self.partitions.len() }
    }

    /// Evicts up to `n` clean pages; their frames belong to the caller then. Whether dirty pages
    /// were in the way.
    fn evict_clean(&self, partition: &Partition, n: usize, out: &mut Victims) -> bool {
        let before = out.len();
        let mut ring = 0;
        let mut met_dirty = false;
        partition.with_policy(|policy| {
            let mut searches = 0;
            while out.len() - before < n && searches < SEARCHES {
                let mut from_ring = false;
                let victim = policy.victim(&HeaderWords(&self.frames), &mut |slot| {
                    let header = self.frames.header(slot);
                    from_ring = TouchRules::queue(header.policy.load(Ordering::Relaxed)) == Queue::Ring;
                    met_dirty |= header.rec_lsn() != 0;
                    self.try_latch_clean(slot)
                });
                match victim {
                    Some(slot) => {
                        ring += u64::from(from_ring);
                        out.push(slot);
                    }
                    // A batch that has begun does not look far for the rest.
                    None if out.len() > before => break,
                    None => searches += 1,
                }
            }
        });
        let taken = &out[before..];
        for &frame in taken {
            if let Some(id) = self.frames.header(frame).page() {
                self.release_frame(frame, id);
            }
        }
        let taken = taken.len() as u64;
        self.evicted.fetch_add(taken, Ordering::Relaxed);
        self.metrics.add(Counter::PagesEvictedRing, ring);
        self.metrics.add(Counter::PagesEvictedClean, taken - ring);
        met_dirty
    }

    /// Takes the latch of a frame exclusively, if that is possible at once and its page is clean.
    fn try_latch_clean(&self, frame: u32) -> bool {
        let header = self.frames.header(frame);
        if header.rec_lsn() != 0 || !header.latch.try_exclusive() {
            return false;
        }
        if header.rec_lsn() != 0 || header.has(WRITING) {
            header.latch.release_exclusive(false);
            return false;
        }
        true
    }

    /// Step 3: writes some of the coldest dirty pages; of any, if none of those can be written. How
    /// many, and what went wrong.
    fn write_candidates(&self) -> (usize, Option<Error>) {
        let mut failure = None;
        for look in 0..=FOREGROUND_CANDIDATES.len() {
            let frames =
                FOREGROUND_CANDIDATES.get(look).map_or_else(|| self.dirty_residents(), |n| self.cold_dirty(*n));
            for chunk in frames.chunks(FOREGROUND_WRITES) {
                let (written, error) = self.write_first(chunk, Counter::FlushedEviction);
                failure = error.or(failure);
                if written > 0 {
                    self.metrics.add(Counter::PagesEvictedDirty, 1);
                    return (written, failure);
                }
            }
        }
        (0, failure)
    }

    /// Dirty pages among the next `n` candidates of each partition that are not being written.
    pub(crate) fn cold_dirty(&self, n: usize) -> Vec<u32> {
        let mut dirty = Vec::new();
        for partition in &self.partitions {
            partition.lock().peek_cold(n, &HeaderWords(&self.frames), &mut |slot| {
                if self.is_writable(slot) {
                    dirty.push(slot);
                }
            });
        }
        dirty
    }

    /// All dirty pages that are not being written, coldest first.
    fn dirty_residents(&self) -> Vec<u32> {
        let mut dirty = Vec::new();
        for partition in &self.partitions {
            partition.lock().residents(&mut |slot| {
                if self.is_writable(slot) {
                    dirty.push(slot);
                }
            });
        }
        dirty
    }

    fn is_writable(&self, frame: u32) -> bool {
        let header = self.frames.header(frame);
        header.rec_lsn() != 0 && !header.has(WRITING)
    }

    /// Step 4 and around again, until there is a frame. The caller holds no latch and no claim.
    ///
    /// # Errors
    /// The errors of [`Core::find_frame`].
    pub(crate) fn wait_for_frame(&self, acc: &Access<'_>) -> Result<u32> {
        latches::none_while_waiting_for("a frame");
        let mut waiter = self.supply.waiter();
        loop {
            if let Some(frame) = self.find_frame(acc)? {
                return Ok(frame);
            }
            let _wait = self.metrics.wait(WaitClass::Frame);
            match self.latched_candidate() {
                Some(frame) => {
                    let header = self.frames.header(frame);
                    header.latch.exclusive();
                    if let Some(frame) = self.take_latched(frame) {
                        return Ok(frame);
                    }
                }
                None => waiter.sleep(),
            }
        }
    }

    /// A resident page that another thread has latched, another one for every caller; none if all
    /// are being written.
    fn latched_candidate(&self) -> Option<u32> {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let mut latched = Vec::new();
        for partition in &self.partitions {
            partition.lock().residents(&mut |slot| {
                if !self.frames.header(slot).has(WRITING) {
                    latched.push(slot);
                }
            });
        }
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        (!latched.is_empty()).then(|| latched[turn % latched.len()])
    }

    /// Evicts the page `id`, which is of no use any more, from its frame, if it is cached and can
    /// be evicted at once. The frame goes to the free list.
    pub(crate) fn empty_frame(&self, frame: u32, id: PageId) {
        if !self.try_latch_clean(frame) {
            return;
        }
        let header = self.frames.header(frame);
        if header.holds(id.to_u64()) {
            self.metrics.inc(Counter::PagesEvictedClean);
            self.forget_page(frame, id);
        } else {
            header.latch.release_exclusive(false);
        }
    }

    /// Evicts the page of a frame whose latch the caller holds exclusively (and loses), if it is
    /// there and clean.
    fn take_latched(&self, frame: u32) -> Option<u32> {
        let header = self.frames.header(frame);
        match header.page() {
            Some(id) if header.rec_lsn() == 0 && !header.has(WRITING) => {
                self.partition(id).remove(frame, &self.frames);
                self.release_frame(frame, id);
                self.metrics.inc(Counter::PagesEvictedClean);
                Some(frame)
            }
            _ => {
                header.latch.release_exclusive(false);
                None
            }
        }
    }
}
