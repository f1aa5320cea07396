//! A partition of the pool: the replacement policy over its pages, and its dirty pages in the order
//! of their rec_lsn.
//!
//! A page belongs to the partition that its address hashes to, in groups of 64 neighbours. Only
//! misses, evictions and the first change of a clean page take the mutexes; hits read two atomics.
//!
//! Lock order: frame latch -> policy mutex; frame latch -> dirty mutex; never one of the two
//! mutexes inside the other. Under the policy mutex frame latches are only ever tried.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use holdfast_base::blocking::MutexGuard;
use holdfast_base::{Lsn, ShortMutex};
use holdfast_policy::{AnyPolicy, Policy, PolicyKind, Slot, Touch, TouchRules, Words, build};

use crate::resident::frames::Frames;
use crate::resident::header::{FrameHeader, WRITING};
use crate::write::dirty::{AgeCounts, DirtyPages};

/// See the module's description.
pub(crate) struct Partition {
    hints: CachePadded<Hints>,
    clock: AtomicU32,
    policy: ShortMutex<AnyPolicy>,
    dirty: ShortMutex<DirtyPages>,
    dirty_len: AtomicU32,
}

/// What hits and cursors read, and what hardly ever changes: in a cache line that no miss writes
/// to.
struct Hints {
    rules: AtomicU64,
    per_row_touches: AtomicBool,
}

/// The policy words live in the frame headers.
pub(crate) struct HeaderWords<'a>(pub(crate) &'a Frames);

impl Words for HeaderWords<'_> {
    fn load(&self, s: Slot) -> u64 {
        self.0.header(s).policy.load(Ordering::Relaxed)
    }

    fn store(&self, s: Slot, word: u64) {
        self.0.header(s).policy.store(word, Ordering::Relaxed);
    }
}

impl Partition {
    pub(crate) fn new(kind: PolicyKind, frames: usize, log_capacity: u64) -> Partition {
        let policy = build(kind, frames);
        let hints = Hints {
            rules: AtomicU64::new(policy.rules().to_bits()),
            per_row_touches: AtomicBool::new(policy.per_row_touches()),
        };
        Partition {
            hints: CachePadded::new(hints),
            clock: AtomicU32::new(policy.clock()),
            policy: ShortMutex::new(policy),
            dirty: ShortMutex::new(DirtyPages::new(log_capacity)),
            dirty_len: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(crate) fn rules(&self) -> TouchRules {
        TouchRules::from_bits(self.hints.rules.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn clock(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    /// The policy, to look at.
    pub(crate) fn lock(&self) -> MutexGuard<'_, AnyPolicy> {
        self.policy.lock()
    }

    /// Calls `f` with the policy and publishes what hits read of it.
    pub(crate) fn with_policy<T>(&self, f: impl FnOnce(&mut AnyPolicy) -> T) -> T {
        let mut policy = self.policy.lock();
        let result = f(&mut policy);
        let rules = policy.rules().to_bits();
        if self.hints.rules.load(Ordering::Relaxed) != rules {
            self.hints.rules.store(rules, Ordering::Relaxed);
        }
        self.clock.store(policy.clock(), Ordering::Relaxed);
        result
    }

    /// Replaces the policy's kind, and publishes what cursors read of it.
    pub(crate) fn with_new_kind(&self, change: impl FnOnce(&mut AnyPolicy)) {
        let per_row_touches = self.with_policy(|policy| {
            change(policy);
            policy.per_row_touches()
        });
        self.hints.per_row_touches.store(per_row_touches, Ordering::Relaxed);
    }

    pub(crate) fn per_row_touches(&self) -> bool {
        self.hints.per_row_touches.load(Ordering::Relaxed)
    }

    pub(crate) fn insert(&self, frame: u32, key: u64, touch: &Touch, frames: &Frames) {
        self.with_policy(|policy| policy.insert(frame, key, touch, &HeaderWords(frames)));
    }

    pub(crate) fn remove(&self, frame: u32, frames: &Frames) {
        self.with_policy(|policy| policy.remove(frame, &HeaderWords(frames)));
    }

    /// The exclusive holder of `frame` changed its page, logged from `start` on. Whether the page
    /// was clean.
    pub(crate) fn mark_dirty(&self, frame: u32, header: &FrameHeader, start: Lsn) -> bool {
        // In this order: see `header` on WRITING.
        if !header.has(WRITING) && header.rec_lsn() != 0 {
            return false;
        }
        let mut dirty = self.dirty.lock();
        if header.rec_lsn() == 0 {
            header.set_rec_lsn(start.0);
            dirty.insert(start.0, frame);
            self.dirty_len.store(dirty.len(), Ordering::Relaxed);
            return true;
        }
        if header.has(WRITING) && header.next_rec_lsn() == 0 {
            header.set_next_rec_lsn(start.0);
        }
        false
    }

    /// A shared holder of `frame` is about to copy its page for writing: the rec_lsn that the write
    /// will settle, or `None` if the page is clean or being written already.
    pub(crate) fn begin_write(&self, header: &FrameHeader) -> Option<Lsn> {
        let _dirty = self.dirty.lock();
        let rec_lsn = header.rec_lsn();
        if rec_lsn == 0 || header.has(WRITING) {
            return None;
        }
        header.set_next_rec_lsn(0);
        header.set(WRITING);
        Some(Lsn(rec_lsn))
    }

    /// The write begun by [`Partition::begin_write`] is done.
    pub(crate) fn end_write(&self, frame: u32, header: &FrameHeader) {
        let mut dirty = self.dirty.lock();
        debug_assert!(header.has(WRITING), "invariant: what is written is dirty: frame {frame} is not being written");
        let next = header.next_rec_lsn();
        dirty.remove(header.rec_lsn(), frame);
        if next != 0 {
            dirty.insert(next, frame);
        }
        header.set_rec_lsn(next);
        self.settle(&dirty, header);
    }

    /// It has failed: the page stays as dirty as it was. If what is in its file now may be repaired
    /// only with all of the log from `needed` on, it is dirty from there on.
    pub(crate) fn fail_write(&self, frame: u32, header: &FrameHeader, needed: Option<Lsn>) {
        let mut dirty = self.dirty.lock();
        let rec_lsn = header.rec_lsn();
        if let Some(needed) = needed.filter(|needed| needed.0 < rec_lsn) {
            dirty.remove(rec_lsn, frame);
            dirty.insert(needed.0, frame);
            header.set_rec_lsn(needed.0);
        }
        self.settle(&dirty, header);
    }

    fn settle(&self, dirty: &DirtyPages, header: &FrameHeader) {
        header.set_next_rec_lsn(0);
        header.clear(WRITING);
        self.dirty_len.store(dirty.len(), Ordering::Relaxed);
    }

    /// The page in `frame` is thrown away: its changes need not reach the disk. The caller holds
    /// the frame's latch exclusively, and the page is not being written.
    pub(crate) fn forget_dirty(&self, frame: u32, header: &FrameHeader) {
        let mut dirty = self.dirty.lock();
        dirty.remove(header.rec_lsn(), frame);
        header.set_rec_lsn(0);
        self.dirty_len.store(dirty.len(), Ordering::Relaxed);
    }

    /// The page in `from` moves to `to`, with what is not in its file. The caller holds the latches
    /// of both frames exclusively, and the page is not being written.
    pub(crate) fn move_page(&self, from: u32, to: u32, key: u64, touch: &Touch, frames: &Frames) {
        self.with_policy(|policy| {
            policy.remove(from, &HeaderWords(frames));
            policy.insert(to, key, touch, &HeaderWords(frames));
        });
        let (old, new) = (frames.header(from), frames.header(to));
        let mut dirty = self.dirty.lock();
        let rec_lsn = old.rec_lsn();
        if rec_lsn != 0 {
            dirty.remove(rec_lsn, from);
            dirty.insert(rec_lsn, to);
            new.set_rec_lsn(rec_lsn);
            old.set_rec_lsn(0);
        }
    }

    /// The smallest rec_lsn.
    pub(crate) fn oldest_dirty(&self) -> Option<Lsn> {
        self.dirty.lock().first()
    }

    /// Appends the dirty frames with the smallest rec_lsn, below `below`, `max` at most.
    pub(crate) fn oldest(&self, below: Lsn, max: usize, out: &mut Vec<(u64, u32)>) {
        out.extend(self.dirty.lock().oldest(below).take(max));
    }

    /// Adds to `counts` how many dirty pages there are in each stretch of the log.
    pub(crate) fn count_dirty(&self, counts: &mut AgeCounts) {
        self.dirty.lock().count_into(counts);
    }

    pub(crate) fn dirty_len(&self) -> u32 {
        self.dirty_len.load(Ordering::Relaxed)
    }
}
