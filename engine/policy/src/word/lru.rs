//! The word of `lru`: bits 0-1 kind, 32-63 the clock at the page's last move to the front.

use super::kind;
use crate::touch::TouchEffect;

/// The word of a page that moves to the front at `clock`.
pub(crate) fn word(clock: u32) -> u64 {
    u64::from(kind::LRU) | u64::from(clock) << 32
}

/// The effect of a touch, for the hit path: only the page that moved last needs no move.
pub(crate) fn touch(word: u64, clock: impl FnOnce() -> u32) -> TouchEffect {
    if (word >> 32) as u32 == clock() { TouchEffect::None } else { TouchEffect::Locked }
}
