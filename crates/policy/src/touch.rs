//! The hit path: what one access does to a page's policy word.
//!
//! Everything here is a pure function of the word, the policy's clock and the [`Touch`]; no list is
//! read or written. [`TouchRules`] is a copy of the few parameters that the function needs and fits
//! in one `u64`, so that a pool keeps it in an atomic beside the mutex of the policy and never
//! takes the mutex on a hit.
//!
//! Every word carries the kind of the policy that wrote it. A touch that raced with a change of the
//! policy sees a word of another kind (or rules of another kind) and leaves it alone.

use crate::bits;

/// A declared scan and what is to become of the pages that it brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ScanHint {
    /// Not a scan, or one that nobody declared.
    #[default]
    None,
    /// A declared scan that would hurt: pages that it misses go through the ring, pages that it
    /// hits are not remembered as used.
    Ring,
    /// A declared scan whose page is worth keeping: the table is small against the pool, or the
    /// page belongs to the admitted part of a table that is scanned again and again. Treated as an
    /// ordinary access.
    Admit,
}

/// One access to a page, as far as replacement is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Touch {
    /// True if a declared scan does it, and how.
    pub scan: ScanHint,
    /// The statement that does it; 0 if unknown. Touches of the statement that brought a page in
    /// never count.
    pub statement: u32,
    /// The time in milliseconds since an arbitrary start; wraps.
    pub tick: u32,
}

impl Touch {
    /// An access that is no declared scan.
    #[must_use]
    pub fn new(statement: u32, tick: u32) -> Touch {
        Touch { scan: ScanHint::None, statement, tick }
    }

    /// The same access as a part of a declared scan.
    #[must_use]
    pub fn with_scan(self, scan: ScanHint) -> Touch {
        Touch { scan, ..self }
    }
}

/// What the caller has to do after a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchEffect {
    /// Nothing.
    None,
    /// Put this word in the place of the one that was read, with one relaxed compare-and-swap whose
    /// failure is ignored: a lost touch does no harm, a word overwritten after its page went away
    /// would.
    Store(u64),
    /// Nothing but statistics: a page of the old sublist was touched too early to be made young.
    /// The caller adds one to a counter of its own;
    /// [`PolicyStats::not_young`](crate::PolicyStats::not_young) does not contain it.
    NotYoung,
    /// Take the mutex of the policy and call [`Policy::touch_locked`](crate::Policy::touch_locked).
    Locked,
}

/// Where a page stands, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// In no queue: a free frame, or one whose page is being loaded.
    None,
    /// On trial: the small queue of `holdfast`.
    Small,
    /// Proven: the main queue of `holdfast`.
    Main,
    /// Brought in by a declared scan, soon reused.
    Ring,
    /// The young sublist of `midpoint_lru`, or the only list of `lru`.
    Young,
    /// The old sublist of `midpoint_lru`.
    Old,
}

/// The parameters of the hit path. A copy of [`Policy::rules`](crate::Policy::rules) is valid until
/// the policy's capacity or kind changes; using a stale one does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TouchRules {
    pub(crate) kind: u8,
    /// `holdfast`: insertions; `midpoint_lru`: evictions. 30 bits.
    pub(crate) window: u32,
    /// Milliseconds. 30 bits.
    pub(crate) ticks: u32,
}

impl TouchRules {
    const FIELD: u64 = (1 << 30) - 1;

    pub(crate) fn new(kind: u8, window: usize, ticks: u32) -> TouchRules {
        let clamp = |v: u64| v.min(TouchRules::FIELD) as u32;
        TouchRules { kind, window: clamp(window as u64), ticks: clamp(u64::from(ticks)) }
    }

    /// The rules in one word, for an atomic.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.kind) | u64::from(self.window) << 4 | u64::from(self.ticks) << 34
    }

    /// The inverse of [`TouchRules::to_bits`].
    #[must_use]
    pub fn from_bits(word: u64) -> TouchRules {
        TouchRules {
            kind: (word & 0xf) as u8,
            window: (word >> 4 & TouchRules::FIELD) as u32,
            ticks: (word >> 34 & TouchRules::FIELD) as u32,
        }
    }

    /// What a hit on a page with policy word `word` asks for. `clock` gives the policy's
    /// [`clock`](crate::Policy::clock) and is called only if the answer depends on it, so that hits
    /// on proven pages do not read a shared counter.
    #[inline]
    #[must_use]
    pub fn touch(self, word: u64, clock: impl FnOnce() -> u32, t: &Touch) -> TouchEffect {
        if word & bits::KIND != u64::from(self.kind) {
            return TouchEffect::None;
        }
        match self.kind {
            bits::HOLDFAST => crate::holdfast::touch(self, word, clock, t),
            bits::MIDPOINT => crate::midpoint::touch(self, word, clock, t),
            bits::LRU => crate::lru::touch(word, clock),
            _ => TouchEffect::None,
        }
    }

    /// True if a touch of a page with this word asks for nothing, whoever touches it and when: a
    /// quick answer for hot pages. `false` says nothing.
    #[inline]
    #[must_use]
    pub fn is_settled(word: u64) -> bool {
        crate::holdfast::SETTLED >> (word & 0x3f) & 1 != 0
    }

    /// What changing (dirtying) a page asks for, in addition to the touch: a page of the scan ring
    /// is going to be kept.
    #[inline]
    #[must_use]
    pub fn dirtied(self, word: u64) -> TouchEffect {
        if self.kind == bits::HOLDFAST && word & bits::KIND == u64::from(self.kind) {
            crate::holdfast::dirtied(word)
        } else {
            TouchEffect::None
        }
    }

    /// Where the page with this policy word stands.
    #[must_use]
    pub fn queue(word: u64) -> Queue {
        match (word & bits::KIND) as u8 {
            bits::HOLDFAST => crate::holdfast::queue(word),
            bits::MIDPOINT => crate::midpoint::queue(word),
            bits::LRU => Queue::Young,
            _ => Queue::None,
        }
    }
}
