//! The word of `holdfast`. The module of the policy says which touches count.
//!
//! ```text
//!  63        40 39      24 23       8    7        6     5  4  3   2  1  0
//! +------------+----------+-----------+----------+------+------+-------+------+
//! | insertion  | tick, ms | statement | consumed | keep | freq | queue | kind |
//! +------------+----------+-----------+----------+------+------+-------+------+
//! ```
//! - *insertion*: the clock (insertions into small) when the page came into small.
//! - *tick*, *statement* (hashed): of the access that brought the page in, later of the touch that
//!   counted last.
//! - *consumed*: the scan has read this ring page.
//! - *keep*: the ring page was touched outside its scan, or changed.

use super::kind;
use crate::touch::{Queue, ScanHint, Touch, TouchEffect, TouchRules};

pub(crate) const SMALL: u64 = 0;
pub(crate) const MAIN: u64 = 1;
pub(crate) const RING: u64 = 2;
pub(crate) const QUEUE_SHIFT: u32 = 2;
pub(crate) const FREQ_ONE: u64 = 1 << 4;
pub(crate) const FREQ_MASK: u64 = 0b11 << 4;
pub(crate) const KEEP: u64 = 1 << 6;
pub(crate) const CONSUMED: u64 = 1 << 7;
const STATEMENT_SHIFT: u32 = 8;
const TICK_SHIFT: u32 = 24;
pub(crate) const INSERTION_SHIFT: u32 = 40;
pub(crate) const INSERTION_MASK: u32 = (1 << 24) - 1;

/// 16 bits of a statement id; 0 only for "unknown".
fn statement_bits(statement: u32) -> u16 {
    let folded = (statement ^ statement >> 16) as u16;
    if folded == 0 && statement != 0 { 1 } else { folded }
}

fn same_statement(word: u64, t: &Touch) -> bool {
    t.statement != 0 && (word >> STATEMENT_SHIFT) as u16 == statement_bits(t.statement)
}

/// True if the page came in, or was last counted, less than `rules.ticks` ago. Ticks wrap after 65
/// s, so a touch is sometimes lost.
fn in_ticks(rules: TouchRules, word: u64, t: &Touch) -> bool {
    u32::from((t.tick as u16).wrapping_sub((word >> TICK_SHIFT) as u16)) < rules.ticks
}

/// True if the correlation window of a page of small is open. Ticks prolong the window by half at
/// most. However fast pages come in, a page can prove itself in the last quarter of small's length.
fn in_window(rules: TouchRules, word: u64, clock: u32, t: &Touch) -> bool {
    let insertions = clock.wrapping_sub((word >> INSERTION_SHIFT) as u32) & INSERTION_MASK;
    insertions < rules.window || (insertions < rules.window + rules.window / 2 && in_ticks(rules, word, t))
}

/// The effect of a touch, for the hit path.
#[inline]
pub(crate) fn touch(rules: TouchRules, word: u64, clock: impl FnOnce() -> u32, t: &Touch) -> TouchEffect {
    let queue = word >> QUEUE_SHIFT & 0b11;
    if queue == RING {
        let mark = if t.scan == ScanHint::Ring { CONSUMED } else { KEEP };
        return if word & mark != 0 { TouchEffect::None } else { TouchEffect::Store(word | mark) };
    }
    let enough = if queue == MAIN { FREQ_MASK } else { FREQ_ONE };
    if word & FREQ_MASK == enough || t.scan == ScanHint::Ring || same_statement(word, t) {
        return TouchEffect::None;
    }
    let correlated = if queue == MAIN { in_ticks(rules, word, t) } else { in_window(rules, word, clock(), t) };
    if correlated {
        return TouchEffect::None;
    }
    // In main the word stores the last touch that counted, so the next burst counts once too.
    TouchEffect::Store(((word & !TIMES) | times(t)) + FREQ_ONE)
}

/// The low six bits (kind, queue, uses) of words whose touches have no effect, as a set of bits.
pub(crate) const SETTLED: u64 = 1 << (kind::HOLDFAST as u64 | MAIN << QUEUE_SHIFT | FREQ_MASK)
    | 1 << (kind::HOLDFAST as u64 | SMALL << QUEUE_SHIFT | FREQ_ONE);

/// The effect of a change of the page.
#[inline]
pub(crate) fn dirtied(word: u64) -> TouchEffect {
    if word >> QUEUE_SHIFT & 0b11 == RING && word & KEEP == 0 {
        TouchEffect::Store(word | KEEP)
    } else {
        TouchEffect::None
    }
}

/// The queue that a word names.
pub(crate) fn queue(word: u64) -> Queue {
    match word >> QUEUE_SHIFT & 0b11 {
        SMALL => Queue::Small,
        MAIN => Queue::Main,
        _ => Queue::Ring,
    }
}

/// The bits of a word for the access that brought the page in, without the insertion.
pub(crate) const TIMES: u64 = ((1 << INSERTION_SHIFT) - 1) & !((1 << STATEMENT_SHIFT) - 1);

pub(crate) fn times(t: &Touch) -> u64 {
    u64::from(t.tick as u16) << TICK_SHIFT | u64::from(statement_bits(t.statement)) << STATEMENT_SHIFT
}
