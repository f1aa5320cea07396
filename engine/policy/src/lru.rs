//! `lru`: least recently used, one list. Every hit but one on the most recent page takes the mutex.

use crate::list::{Links, List};
use crate::policy::{Policy, PolicyStats, REFUSALS, Slot, Words};
use crate::touch::{Touch, TouchRules};
use crate::word::kind;
use crate::word::lru::word;

/// The state of `lru`.
#[derive(Debug)]
pub struct Lru {
    links: Links,
    list: List,
    /// The number of moves to the front.
    clock: u32,
    capacity: usize,
    refusals: usize,
    insertions: u64,
    evictions: u64,
}

impl Lru {
    /// Creates an empty list for `capacity` frames.
    #[must_use]
    pub fn new(capacity: usize) -> Lru {
        let mut links = Links::default();
        links.reserve(capacity);
        Lru { links, list: List::new(), clock: 0, capacity, refusals: REFUSALS, insertions: 0, evictions: 0 }
    }

    fn push_front(&mut self, s: Slot, words: &dyn Words) {
        self.clock = self.clock.wrapping_add(1);
        self.list.push_front(&mut self.links, s);
        words.store(s, word(self.clock));
    }
}

impl Policy for Lru {
    fn rules(&self) -> TouchRules {
        TouchRules::new(kind::LRU, 0, 0)
    }

    fn clock(&self) -> u32 {
        self.clock
    }

    fn touch_locked(&mut self, s: Slot, _: &Touch, words: &dyn Words) {
        if self.links.contains(s) && self.list.front() != s {
            self.list.remove(&mut self.links, s);
            self.push_front(s, words);
        }
    }

    fn insert(&mut self, s: Slot, _: u64, _: &Touch, words: &dyn Words) {
        self.links.reserve(s as usize + 1);
        self.insertions += 1;
        self.push_front(s, words);
    }

    fn victim(&mut self, words: &dyn Words, evictable: &mut dyn FnMut(Slot) -> bool) -> Option<Slot> {
        let found = self.list.iter(&self.links).take(self.refusals).find(|&s| evictable(s));
        let Some(s) = found else {
            self.refusals = self.refusals.saturating_mul(2);
            return None;
        };
        self.refusals = REFUSALS;
        self.evictions += 1;
        self.remove(s, words);
        Some(s)
    }

    fn remove(&mut self, s: Slot, words: &dyn Words) {
        if self.links.contains(s) {
            self.list.remove(&mut self.links, s);
            words.store(s, 0);
        }
    }

    fn set_capacity(&mut self, frames: usize, _: &dyn Words) {
        self.links.reserve(frames);
        self.capacity = frames;
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn peek_cold(&self, n: usize, _: &dyn Words, f: &mut dyn FnMut(Slot)) {
        self.list.iter(&self.links).take(n).for_each(f);
    }

    fn hot(&self, _: &dyn Words, f: &mut dyn FnMut(Slot)) {
        self.residents(f);
    }

    fn residents(&self, f: &mut dyn FnMut(Slot)) {
        self.list.iter(&self.links).for_each(f);
    }

    fn stats(&self) -> PolicyStats {
        PolicyStats {
            resident: self.list.len(),
            insertions: self.insertions,
            evictions: self.evictions,
            ..PolicyStats::default()
        }
    }

    fn per_row_touches(&self) -> bool {
        true
    }
}
