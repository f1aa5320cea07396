//! The word of `midpoint_lru`. The module of the policy says when a touch moves a page.
//!
//! Bits 0-1 kind, 2 old, 3 accessed, 4-31 tick of the first access, 32-63 the clock
//! (evictions) when the page moved to the front, 0 if it never did.

use crate::touch::{Queue, Touch, TouchEffect, TouchRules};

pub(crate) const OLD: u64 = 1 << 2;
pub(crate) const ACCESSED: u64 = 1 << 3;
pub(crate) const TICK_SHIFT: u32 = 4;
pub(crate) const TICK_MASK: u32 = (1 << 28) - 1;
pub(crate) const CLOCK_SHIFT: u32 = 32;
pub(crate) const CLOCK_MASK: u64 = !0 << CLOCK_SHIFT;

/// What a touch does.
#[derive(PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: the page is young and near the front, or no page has been evicted yet.
    Leave,
    /// Nothing: the page is old, and its first access is too recent.
    TooEarly,
    /// The page moves to the front.
    Move,
}

/// What a touch of a page with this word does at `clock`.
pub(crate) fn judge(rules: TouchRules, word: u64, clock: u32, t: &Touch) -> Verdict {
    if clock == 0 {
        return Verdict::Leave;
    }
    if word & OLD != 0 && rules.ticks > 0 {
        let since_first = t.tick.wrapping_sub((word >> TICK_SHIFT) as u32) & TICK_MASK;
        let late = word & ACCESSED != 0 && since_first >= rules.ticks;
        return if late { Verdict::Move } else { Verdict::TooEarly };
    }
    let moved = (word >> CLOCK_SHIFT) as u32;
    let near_front = moved != 0 && clock.wrapping_sub(moved) < rules.window;
    if near_front { Verdict::Leave } else { Verdict::Move }
}

/// The effect of a touch, for the hit path.
pub(crate) fn touch(rules: TouchRules, word: u64, clock: impl FnOnce() -> u32, t: &Touch) -> TouchEffect {
    if word & ACCESSED == 0 {
        return TouchEffect::Locked;
    }
    match judge(rules, word, clock(), t) {
        Verdict::Leave => TouchEffect::None,
        Verdict::TooEarly => TouchEffect::NotYoung,
        Verdict::Move => TouchEffect::Locked,
    }
}

/// The sublist that a word names.
pub(crate) fn queue(word: u64) -> Queue {
    if word & OLD != 0 { Queue::Old } else { Queue::Young }
}
