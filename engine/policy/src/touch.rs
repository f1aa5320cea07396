//! An access to a page as a policy sees it, and the effects that it may have.

/// The hint of a declared scan for the pages that it brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ScanHint {
    /// Not a scan, or an undeclared one.
    #[default]
    None,
    /// A declared scan of a large table: pages that it misses go through the ring, pages that it
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
    /// The hint of the declared scan that makes the access, if one does.
    pub scan: ScanHint,
    /// The statement that makes the access; 0 if unknown. Touches of the statement that brought a
    /// page in never count.
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
    /// Replace the word that was read by this one, with one relaxed compare-and-swap whose failure
    /// is ignored. A lost touch does no harm; overwriting a word after its page was evicted would.
    Store(u64),
    /// Nothing but statistics: a page of the old sublist was touched too early to be made young.
    /// The caller adds one to a counter of its own;
    /// [`PolicyStats::not_young`](crate::PolicyStats::not_young) does not contain it.
    NotYoung,
    /// Take the mutex of the policy and call [`Policy::touch_locked`](crate::Policy::touch_locked).
    Locked,
}

/// The queue of a page, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// In no queue: a free frame, or one whose page is being loaded.
    None,
    /// On trial: the small queue of `holdfast`.
    Small,
    /// Proven: the main queue of `holdfast`.
    Main,
    /// Brought in by a declared scan, evicted soon.
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
}
