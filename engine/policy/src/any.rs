//! The engine's choice of a policy at run time, dispatched statically.

use crate::holdfast::Holdfast;
use crate::lru::Lru;
use crate::midpoint::MidpointLru;
use crate::policy::{Policy, PolicyStats, Slot, Words};
use crate::touch::{Touch, TouchEffect, TouchRules};

/// The kind of a policy, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PolicyKind {
    /// Scan-resistant: two queues, a correlation window, a ghost and a scan ring.
    #[default]
    Holdfast,
    /// InnoDB's list with an old sublist.
    MidpointLru {
        /// Share of the list that is old, in percent: 5 to 95; InnoDB's default is 37.
        old_blocks_pct: u8,
        /// The milliseconds after its first access during which a page of the old sublist stays
        /// there in any case; InnoDB's default is 1000.
        old_blocks_time_ms: u32,
    },
    /// Least recently used.
    Lru,
}

/// One of the engine's policies.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per partition of a pool, and it stays where it is")]
pub enum AnyPolicy {
    /// `holdfast`.
    Holdfast(Holdfast),
    /// `midpoint_lru`.
    MidpointLru(MidpointLru),
    /// `lru`.
    Lru(Lru),
}

/// Creates an empty policy of this kind for `capacity` frames.
#[must_use]
pub fn build(kind: PolicyKind, capacity: usize) -> AnyPolicy {
    match kind {
        PolicyKind::Holdfast => AnyPolicy::Holdfast(Holdfast::new(capacity)),
        PolicyKind::MidpointLru { old_blocks_pct, old_blocks_time_ms } => {
            AnyPolicy::MidpointLru(MidpointLru::new(capacity, old_blocks_pct, old_blocks_time_ms))
        }
        PolicyKind::Lru => AnyPolicy::Lru(Lru::new(capacity)),
    }
}

macro_rules! each {
    ($self:expr, $p:ident => $call:expr) => {
        match $self {
            AnyPolicy::Holdfast($p) => $call,
            AnyPolicy::MidpointLru($p) => $call,
            AnyPolicy::Lru($p) => $call,
        }
    };
}

impl AnyPolicy {
    /// The kind of the policy, with its current settings.
    #[must_use]
    pub fn kind(&self) -> PolicyKind {
        match self {
            AnyPolicy::Holdfast(_) => PolicyKind::Holdfast,
            AnyPolicy::MidpointLru(p) => {
                let (old_blocks_pct, old_blocks_time_ms) = p.old_blocks();
                PolicyKind::MidpointLru { old_blocks_pct, old_blocks_time_ms }
            }
            AnyPolicy::Lru(_) => PolicyKind::Lru,
        }
    }

    /// Replaces this policy by one of another kind and moves all pages over in their order.
    /// `key_of` returns the key of the page in a slot. If the kind stays, only the settings change.
    /// Publish [`Policy::rules`] and [`Policy::clock`] afterwards.
    pub fn change_kind(&mut self, kind: PolicyKind, key_of: &dyn Fn(Slot) -> u64, t: &Touch, words: &dyn Words) {
        if let (AnyPolicy::MidpointLru(p), PolicyKind::MidpointLru { old_blocks_pct, old_blocks_time_ms }) =
            (&mut *self, kind)
        {
            p.set_old_blocks(old_blocks_pct, old_blocks_time_ms, words);
            return;
        }
        if self.kind() == kind {
            return;
        }
        let mut new = build(kind, self.capacity());
        self.residents(&mut |s| {
            words.store(s, 0);
            new.insert(s, key_of(s), t, words);
        });
        *self = new;
    }
}

impl Policy for AnyPolicy {
    fn rules(&self) -> TouchRules {
        each!(self, p => p.rules())
    }
    fn clock(&self) -> u32 {
        each!(self, p => p.clock())
    }
    fn touch(&self, word: u64, clock: u32, t: &Touch) -> TouchEffect {
        each!(self, p => p.touch(word, clock, t))
    }
    fn touch_locked(&mut self, s: Slot, t: &Touch, words: &dyn Words) {
        each!(self, p => p.touch_locked(s, t, words));
    }
    fn insert(&mut self, s: Slot, key: u64, t: &Touch, words: &dyn Words) {
        each!(self, p => p.insert(s, key, t, words));
    }
    fn victim(&mut self, words: &dyn Words, evictable: &mut dyn FnMut(Slot) -> bool) -> Option<Slot> {
        each!(self, p => p.victim(words, evictable))
    }
    fn remove(&mut self, s: Slot, words: &dyn Words) {
        each!(self, p => p.remove(s, words));
    }
    fn set_capacity(&mut self, frames: usize, words: &dyn Words) {
        each!(self, p => p.set_capacity(frames, words));
    }
    fn capacity(&self) -> usize {
        each!(self, p => p.capacity())
    }
    fn peek_cold(&self, n: usize, words: &dyn Words, f: &mut dyn FnMut(Slot)) {
        each!(self, p => p.peek_cold(n, words, f));
    }
    fn hot(&self, words: &dyn Words, f: &mut dyn FnMut(Slot)) {
        each!(self, p => p.hot(words, f));
    }
    fn residents(&self, f: &mut dyn FnMut(Slot)) {
        each!(self, p => p.residents(f));
    }
    fn stats(&self) -> PolicyStats {
        each!(self, p => p.stats())
    }
    fn scan_room(&self) -> usize {
        each!(self, p => p.scan_room())
    }
    fn per_row_touches(&self) -> bool {
        each!(self, p => p.per_row_touches())
    }
}
