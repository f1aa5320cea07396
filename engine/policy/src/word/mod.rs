//! The hit path: the effect of one access on a page's policy word.
//!
//! Everything here is a pure function of the word, the policy's clock and the [`Touch`]; no list is
//! read or written. [`TouchRules`] is a copy of the few parameters of the function and fits in one
//! `u64`, so a pool keeps it in an atomic beside the mutex of the policy and takes no mutex on a
//! hit.
//!
//! Each policy has a word of its own, in a file of its own. Every word carries the kind of the
//! policy that wrote it. A touch that raced with a change of the policy sees a word of another kind
//! (or rules of another kind) and has no effect.

pub(crate) mod holdfast;
pub(crate) mod kind;
pub(crate) mod lru;
pub(crate) mod midpoint;

use crate::touch::{Queue, Touch, TouchEffect, TouchRules};

impl TouchRules {
    /// Returns the effect of a hit on a page with policy word `word`. `clock` returns the policy's
    /// [`clock`](crate::Policy::clock). It is called only if the effect depends on it, so that hits
    /// on proven pages do not read a shared counter.
    #[inline]
    #[must_use]
    pub fn touch(self, word: u64, clock: impl FnOnce() -> u32, t: &Touch) -> TouchEffect {
        if word & kind::MASK != u64::from(self.kind) {
            return TouchEffect::None;
        }
        match self.kind {
            kind::HOLDFAST => holdfast::touch(self, word, clock, t),
            kind::MIDPOINT => midpoint::touch(self, word, clock, t),
            kind::LRU => lru::touch(word, clock),
            _ => TouchEffect::None,
        }
    }

    /// True if no touch of a page with this word has an effect, whatever its statement and time: a
    /// quick answer for hot pages. `false` proves nothing.
    #[inline]
    #[must_use]
    pub fn is_settled(word: u64) -> bool {
        holdfast::SETTLED >> (word & 0x3f) & 1 != 0
    }

    /// The effect of changing (dirtying) a page, in addition to the touch: a page of the scan ring
    /// will be kept.
    #[inline]
    #[must_use]
    pub fn dirtied(self, word: u64) -> TouchEffect {
        if self.kind == kind::HOLDFAST && word & kind::MASK == u64::from(self.kind) {
            holdfast::dirtied(word)
        } else {
            TouchEffect::None
        }
    }

    /// The queue of a page with this policy word.
    #[must_use]
    pub fn queue(word: u64) -> Queue {
        match (word & kind::MASK) as u8 {
            kind::HOLDFAST => holdfast::queue(word),
            kind::MIDPOINT => midpoint::queue(word),
            kind::LRU => Queue::Young,
            _ => Queue::None,
        }
    }
}
