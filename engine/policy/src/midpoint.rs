//! `midpoint_lru`: InnoDB's list, for comparison and for users that want the historic behaviour.
//!
//! One list; its tail is the *old sublist* (`old_blocks_pct` of it).
//!
//! 1. A page enters at the head of the old sublist.
//! 2. A touch makes an old page young (moves it to the front of the list) unless its first access
//!    was less than `old_blocks_time` ago.
//! 3. A young page moves only if it has sunk by more than a quarter of the young sublist, measured
//!    in evictions.
//! 4. Until the first eviction nothing moves.
//!
//! Counters are InnoDB's: *made young* counts moves of old pages, *not young* counts touches of old
//! pages that came too early.

use crate::list::{Links, List, NIL};
use crate::policy::{Policy, PolicyStats, REFUSALS, Slot, Words};
use crate::scan::scan_budget;
use crate::touch::{Touch, TouchRules};
use crate::word::kind;
use crate::word::midpoint::{ACCESSED, CLOCK_MASK, CLOCK_SHIFT, OLD, TICK_MASK, TICK_SHIFT, Verdict, judge};

/// Shortest list that has an old sublist, in pages (or half of the frames, if that is less).
const OLD_MIN_LEN: usize = 512;
/// The most pages by which the old sublist may differ from its share before the border moves.
const TOLERANCE: usize = 20;
/// Fewest young pages.
const YOUNG_MIN_LEN: usize = 5;
/// A young page moves when it has sunk by one in this many of the young pages.
const SINK_DIVISOR: usize = 4;

/// The state of `midpoint_lru`.
#[derive(Debug)]
pub struct MidpointLru {
    links: Links,
    list: List,
    /// The page of the old sublist nearest to the front; [`NIL`] while there is no old sublist.
    old_head: Slot,
    /// The number of pages from `old_head` to the back.
    old_len: usize,
    old_pct: u8,
    old_time: u32,
    /// The number of evictions.
    clock: u32,
    capacity: usize,
    refusals: usize,
    stats: PolicyStats,
}

impl MidpointLru {
    /// Creates an empty list for `capacity` frames. `old_blocks_pct` is clamped to 5..=95.
    #[must_use]
    pub fn new(capacity: usize, old_blocks_pct: u8, old_blocks_time_ms: u32) -> MidpointLru {
        let mut links = Links::default();
        links.reserve(capacity);
        MidpointLru {
            links,
            list: List::new(),
            old_head: NIL,
            old_len: 0,
            old_pct: old_blocks_pct.clamp(5, 95),
            old_time: old_blocks_time_ms,
            clock: 0,
            capacity,
            refusals: REFUSALS,
            stats: PolicyStats::default(),
        }
    }

    /// Changes both knobs at run time. Publish [`Policy::rules`] afterwards.
    pub fn set_old_blocks(&mut self, pct: u8, time_ms: u32, words: &dyn Words) {
        self.old_pct = pct.clamp(5, 95);
        self.old_time = time_ms;
        self.balance(words);
    }

    /// Both knobs: percent, milliseconds.
    #[must_use]
    pub fn old_blocks(&self) -> (u8, u32) {
        (self.old_pct, self.old_time)
    }

    fn min_len(&self) -> usize {
        OLD_MIN_LEN.min(self.capacity / 2).max(1)
    }

    fn push_front(&mut self, s: Slot, word: u64, words: &dyn Words) {
        self.list.push_front(&mut self.links, s);
        words.store(s, (word & !(OLD | CLOCK_MASK)) | u64::from(self.clock) << CLOCK_SHIFT);
    }

    fn unlink(&mut self, s: Slot, words: &dyn Words) {
        if words.load(s) & OLD != 0 {
            if self.old_head == s {
                self.old_head = self.links.towards_back(s);
            }
            self.old_len -= 1;
        }
        self.list.remove(&mut self.links, s);
    }

    fn set_old(s: Slot, old: bool, words: &dyn Words) {
        let word = words.load(s);
        words.store(s, if old { word | OLD } else { word & !OLD });
    }

    /// Moves the border until the old sublist has its share: one or two steps per change of the
    /// list.
    fn balance(&mut self, words: &dyn Words) {
        let len = self.list.len();
        if len < self.min_len() {
            while self.old_head != NIL {
                MidpointLru::set_old(self.old_head, false, words);
                self.old_head = self.links.towards_back(self.old_head);
            }
            self.old_len = 0;
            return;
        }
        let share = len * usize::from(self.old_pct) / 100;
        let target = share.min(len.saturating_sub(YOUNG_MIN_LEN));
        let tolerance = TOLERANCE.min(target / 4);
        while self.old_len + tolerance < target {
            let next = if self.old_head == NIL { self.list.back() } else { self.links.towards_front(self.old_head) };
            MidpointLru::set_old(next, true, words);
            self.old_head = next;
            self.old_len += 1;
        }
        while self.old_len > target + tolerance {
            MidpointLru::set_old(self.old_head, false, words);
            self.old_head = self.links.towards_back(self.old_head);
            self.old_len -= 1;
        }
    }
}

impl Policy for MidpointLru {
    fn rules(&self) -> TouchRules {
        let young = self.capacity * (100 - usize::from(self.old_pct)) / 100;
        TouchRules::new(kind::MIDPOINT, young / SINK_DIVISOR, self.old_time)
    }

    fn clock(&self) -> u32 {
        self.clock
    }

    fn touch_locked(&mut self, s: Slot, t: &Touch, words: &dyn Words) {
        if !self.links.contains(s) {
            return;
        }
        let mut word = words.load(s);
        if word & ACCESSED == 0 {
            word |= ACCESSED | u64::from(t.tick & TICK_MASK) << TICK_SHIFT;
            words.store(s, word);
        }
        match judge(self.rules(), word, self.clock, t) {
            Verdict::Leave => {}
            Verdict::TooEarly => self.stats.not_young += 1,
            Verdict::Move => {
                self.stats.made_young += u64::from(word & OLD != 0);
                self.unlink(s, words);
                self.push_front(s, word, words);
                self.balance(words);
            }
        }
    }

    fn insert(&mut self, s: Slot, _: u64, _: &Touch, words: &dyn Words) {
        self.links.reserve(s as usize + 1);
        self.stats.insertions += 1;
        let word = u64::from(kind::MIDPOINT);
        if self.old_head == NIL {
            self.push_front(s, word, words);
        } else {
            self.list.insert_before(&mut self.links, s, self.old_head);
            words.store(s, word | OLD);
            self.old_head = s;
            self.old_len += 1;
        }
        self.balance(words);
    }

    fn victim(&mut self, words: &dyn Words, evictable: &mut dyn FnMut(Slot) -> bool) -> Option<Slot> {
        let found = self.list.iter(&self.links).take(self.refusals).find(|&s| evictable(s));
        let Some(s) = found else {
            self.refusals = self.refusals.saturating_mul(2);
            return None;
        };
        self.refusals = REFUSALS;
        self.stats.evictions += 1;
        // 0 stands for "never moved" in words and for "no eviction yet" in the clock.
        self.clock = self.clock.wrapping_add(1).max(1);
        self.remove(s, words);
        Some(s)
    }

    fn remove(&mut self, s: Slot, words: &dyn Words) {
        if self.links.contains(s) {
            self.unlink(s, words);
            words.store(s, 0);
            self.balance(words);
        }
    }

    fn set_capacity(&mut self, frames: usize, words: &dyn Words) {
        self.links.reserve(frames);
        self.capacity = frames;
        self.balance(words);
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn peek_cold(&self, n: usize, _: &dyn Words, f: &mut dyn FnMut(Slot)) {
        self.list.iter(&self.links).take(n).for_each(f);
    }

    fn hot(&self, words: &dyn Words, f: &mut dyn FnMut(Slot)) {
        let young = |s: &Slot| words.load(*s) & OLD == 0;
        self.list.iter(&self.links).filter(young).for_each(f);
    }

    fn residents(&self, f: &mut dyn FnMut(Slot)) {
        self.list.iter(&self.links).for_each(f);
    }

    fn stats(&self) -> PolicyStats {
        PolicyStats { resident: self.list.len(), old: self.old_len, ..self.stats }
    }

    /// Pages read ahead wait in the old sublist.
    fn scan_room(&self) -> usize {
        scan_budget(self.capacity).min(self.capacity * usize::from(self.old_pct) / 100).max(1)
    }

    fn per_row_touches(&self) -> bool {
        true
    }
}
