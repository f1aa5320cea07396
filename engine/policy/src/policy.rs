//! The trait of the engine's policies.

use crate::scan::scan_budget;
use crate::touch::{Touch, TouchEffect, TouchRules};

/// A frame, as the policy sees it. Slots should be dense: memory grows with the largest one.
pub type Slot = u32;

/// Refusals per call of `victim` while it succeeds; doubled with each call in a row that finds
/// nothing.
pub(crate) const REFUSALS: usize = 128;

/// The policy words of all slots, kept by the caller (in the frame headers).
pub trait Words {
    /// The word of slot `s`; 0 if the slot has never been inserted.
    fn load(&self, s: Slot) -> u64;
    /// Replaces the word of slot `s`. May race with touches: one that is lost does no harm.
    fn store(&self, s: Slot, word: u64);
}

/// Lengths and counts of a policy, for status listings. Lengths are in pages; counters only grow. A
/// value that a policy does not have is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PolicyStats {
    /// Resident pages.
    pub resident: usize,
    /// Pages on trial (`holdfast`).
    pub small: usize,
    /// Proven pages (`holdfast`).
    pub main: usize,
    /// Pages of declared scans (`holdfast`).
    pub ring: usize,
    /// Keys of evicted pages that are remembered (`holdfast`).
    pub ghost: usize,
    /// Pages of the old sublist (`midpoint_lru`).
    pub old: usize,
    /// Pages that came in.
    pub insertions: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// `holdfast`: pages that moved from small to main; `midpoint_lru`: pages that moved from old
    /// to young.
    pub made_young: u64,
    /// `midpoint_lru`: touches of an old page too early to make it young, counted under the mutex.
    /// The caller adds its count of [`TouchEffect::NotYoung`]. `holdfast`: pages evicted from small
    /// that were never touched again.
    pub not_young: u64,
    /// Pages that came in again while they were remembered, and went straight to main (`holdfast`).
    pub ghost_hits: u64,
    /// Pages of the ring that were touched outside their scan, or changed, and moved to small
    /// (`holdfast`).
    pub ring_rescued: u64,
}

/// A replacement policy. See the crate's documentation for the protocol.
pub trait Policy: Send {
    /// The parameters of the hit path, to be copied where hits read them.
    fn rules(&self) -> TouchRules;

    /// The policy's own time, with which hits compare; wraps. Each policy counts something else.
    fn clock(&self) -> u32;

    /// The hit path for callers that hold the policy: [`TouchRules::touch`].
    fn touch(&self, word: u64, clock: u32, t: &Touch) -> TouchEffect {
        self.rules().touch(word, || clock, t)
    }

    /// The slow part of a hit, after [`TouchEffect::Locked`]. In the meantime the page may be gone
    /// or touched by other threads, and the slot may belong to another policy: then this does
    /// nothing.
    fn touch_locked(&mut self, s: Slot, t: &Touch, words: &dyn Words);

    /// Puts a page with this key into slot `s`. The key is any number that identifies the page;
    /// neighbours in a file have neighbouring keys. `t` is the access that brings the page in. It
    /// is also reported by a touch, once the page is present, unless this is read-ahead.
    ///
    /// # Panics
    /// May panic or rank wrongly if `s` is resident already.
    fn insert(&mut self, s: Slot, key: u64, t: &Touch, words: &dyn Words);

    /// Chooses a page to evict, takes it out and returns its slot. `evictable` is asked first; a
    /// slot that it refuses (latched, dirty, ...) is passed over and stays. The number of refusals
    /// per call is bounded, so `None` means "nothing among the next in turn": write some pages of
    /// [`Policy::peek_cold`] and call again. Each call in a row that finds nothing asks about more
    /// pages, in the end about every page.
    fn victim(&mut self, words: &dyn Words, evictable: &mut dyn FnMut(Slot) -> bool) -> Option<Slot>;

    /// Takes the page in slot `s`, which was dropped, out of all queues and remembers nothing of
    /// it. Does nothing if `s` is not resident in this policy.
    fn remove(&mut self, s: Slot, words: &dyn Words);

    /// Changes the number of frames that the queues are sized for. Evicts nothing: a caller that
    /// shrinks asks for victims, or removes the slots that go away.
    fn set_capacity(&mut self, frames: usize, words: &dyn Words);

    /// The number of frames that the queues are sized for.
    fn capacity(&self) -> usize;

    /// Names up to `n` pages that are likely to be evicted next, in that order, for the cleaner to
    /// write ahead.
    fn peek_cold(&self, n: usize, words: &dyn Words, f: &mut dyn FnMut(Slot));

    /// Names the pages worth loading again after a restart, coldest first.
    fn hot(&self, words: &dyn Words, f: &mut dyn FnMut(Slot));

    /// Names all resident pages, coldest first; inserting them in this order into another policy
    /// keeps the rank.
    fn residents(&self, f: &mut dyn FnMut(Slot));

    /// Lengths and counters.
    fn stats(&self) -> PolicyStats;

    /// The number of pages of a scan that the cache holds before the scan has read them. More would
    /// push each other out.
    fn scan_room(&self) -> usize {
        scan_budget(self.capacity())
    }

    /// True if a cursor must report one touch per row instead of one per visit of a leaf: the
    /// historic policies count in that way.
    fn per_row_touches(&self) -> bool;
}
