//! `holdfast`: the engine's own policy, in which a scan does not evict the popular pages.
//!
//! Queues, each first in first out:
//!
//! - *small* (10 % of the frames): pages on trial. A page that leaves small goes to main if a touch
//!   counted. Otherwise it is evicted and its key goes into the ghost.
//! - *main*: proven pages, a clock of two bits.
//! - *ring*: pages of declared scans of large tables, evicted first. They never enter the ghost. A
//!   ring page that was touched outside its scan, or changed, moves to small instead.
//! - *ghost* (0.9 of the frames): keys of pages that left small. A page that comes back goes
//!   straight to main. Pages that left as a part of a sequential run have a ghost of their own, of
//!   half the size. So an undeclared scan is remembered if its table takes about half of the
//!   frames, and it does not push other keys out of the ghost.
//!
//! Touches:
//!
//! 1. A touch of a page in small counts only after the *correlation window*: half of small's length
//!    of insertions since the page came in, and [`WINDOW_TICKS_MS`] or half as many insertions
//!    again. So a burst of touches counts as one visit.
//! 2. A touch by the statement that brought the page in never counts.
//! 3. In main a touch does not count if the touch that counted last was in the same statement or
//!    less than [`WINDOW_TICKS_MS`] ago. Hits on main read no shared counter.
//!
//! Word:
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

use crate::bits;
use crate::ghost::Ghost;
use crate::list::{Links, List, NIL};
use crate::lru::REFUSALS;
use crate::policy::{Policy, PolicyStats, Slot, Words};
use crate::runs::{Runs, Step};
use crate::touch::{Queue, ScanHint, Touch, TouchEffect, TouchRules};

/// The milliseconds for which touches of a new page do not count, unless pages come in faster than
/// that.
const WINDOW_TICKS_MS: u32 = 10;
/// Small's share of the frames is one in this many.
const SMALL_DIVISOR: usize = 10;
/// The number of ring pages that stay even after the scan has read them: it may come back for the
/// next row.
const RING_KEPT: usize = 8;
/// The most used pages of main that one search for a victim spares.
const SPARED_PER_SEARCH: usize = 1024;

const SMALL: u64 = 0;
const MAIN: u64 = 1;
const RING: u64 = 2;
const QUEUE_SHIFT: u32 = 2;
const FREQ_ONE: u64 = 1 << 4;
const FREQ_MASK: u64 = 0b11 << 4;
const KEEP: u64 = 1 << 6;
const CONSUMED: u64 = 1 << 7;
const STATEMENT_SHIFT: u32 = 8;
const TICK_SHIFT: u32 = 24;
const INSERTION_SHIFT: u32 = 40;
const INSERTION_MASK: u32 = (1 << 24) - 1;

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
pub(crate) const SETTLED: u64 = 1 << (bits::HOLDFAST as u64 | MAIN << QUEUE_SHIFT | FREQ_MASK)
    | 1 << (bits::HOLDFAST as u64 | SMALL << QUEUE_SHIFT | FREQ_ONE);

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

/// The state of `holdfast`.
#[derive(Debug)]
pub struct Holdfast {
    links: Links,
    /// The key of the page in each slot.
    keys: Vec<u64>,
    small: List,
    main: List,
    ring: List,
    ghost: Ghost,
    /// The keys of pages that left small in a sequential run.
    run_ghost: Ghost,
    runs: Runs,
    /// The number of insertions into small.
    clock: u32,
    capacity: usize,
    small_target: usize,
    ring_target: usize,
    refusals: usize,
    stats: PolicyStats,
}

impl Holdfast {
    /// Creates an empty cache of `capacity` frames.
    #[must_use]
    pub fn new(capacity: usize) -> Holdfast {
        let mut new = Holdfast {
            links: Links::default(),
            keys: Vec::new(),
            small: List::new(),
            main: List::new(),
            ring: List::new(),
            ghost: Ghost::new(0),
            run_ghost: Ghost::new(0),
            runs: Runs::default(),
            clock: 0,
            capacity: 0,
            small_target: 0,
            ring_target: 0,
            refusals: REFUSALS,
            stats: PolicyStats::default(),
        };
        new.size_for(capacity);
        new
    }

    fn size_for(&mut self, frames: usize) {
        self.capacity = frames;
        self.small_target = (frames / SMALL_DIVISOR).max(1);
        self.ring_target = crate::scan_budget(frames);
        let ghost = frames - self.small_target.min(frames);
        self.ghost.set_limit(ghost);
        self.run_ghost.set_limit(ghost / 2);
        self.reserve(frames);
    }

    fn reserve(&mut self, slots: usize) {
        self.links.reserve(slots);
        if slots > self.keys.len() {
            self.keys.resize(slots, 0);
        }
    }

    fn list(&mut self, queue: u64) -> (&mut List, &mut Links) {
        let list = match queue {
            SMALL => &mut self.small,
            MAIN => &mut self.main,
            _ => &mut self.ring,
        };
        (list, &mut self.links)
    }

    /// Puts a page that is in no queue at the front of small, with a new window.
    fn enter_small(&mut self, s: Slot, t_bits: u64, words: &dyn Words) {
        self.clock = self.clock.wrapping_add(1);
        self.small.push_front(&mut self.links, s);
        let insertion = u64::from(self.clock & INSERTION_MASK) << INSERTION_SHIFT;
        words.store(s, insertion | t_bits | SMALL << QUEUE_SHIFT | u64::from(bits::HOLDFAST));
    }

    fn enter_main(&mut self, s: Slot, t_bits: u64, words: &dyn Words) {
        self.main.push_front(&mut self.links, s);
        words.store(s, t_bits | MAIN << QUEUE_SHIFT | u64::from(bits::HOLDFAST));
    }

    /// Puts a page into main if the ghost has its key, else into small.
    fn enter(&mut self, s: Slot, t_bits: u64, words: &dyn Words) {
        let key = self.keys[s as usize];
        if self.ghost.take(key) || self.run_ghost.take(key) {
            self.stats.ghost_hits += 1;
            self.enter_main(s, t_bits, words);
        } else {
            self.enter_small(s, t_bits, words);
        }
    }

    /// Remembers the key of a page that left small without a touch that counted.
    fn remember(&mut self, key: u64) {
        match self.runs.next(key) {
            Step::Alone => self.ghost.insert(key),
            Step::Continues => self.run_ghost.insert(key),
            Step::Recognized(beginning) => {
                for key in beginning {
                    if self.ghost.take(key) {
                        self.run_ghost.insert(key);
                    }
                }
                self.run_ghost.insert(key);
            }
        }
    }

    fn victim_from_ring(&mut self, search: &mut Search<'_>) -> Option<Slot> {
        let mut at = self.ring.back();
        while at != NIL && search.goes_on() {
            let s = at;
            at = self.links.towards_front(s);
            let word = search.words.load(s);
            if word & KEEP != 0 {
                self.ring.remove(&mut self.links, s);
                self.stats.ring_rescued += 1;
                self.enter(s, word & TIMES, search.words);
            } else if search.accepts(s) {
                self.ring.remove(&mut self.links, s);
                return Some(s);
            }
        }
        None
    }

    fn victim_from_small(&mut self, search: &mut Search<'_>) -> Option<Slot> {
        let mut at = self.small.back();
        while at != NIL && search.goes_on() {
            let s = at;
            at = self.links.towards_front(s);
            if search.words.load(s) & FREQ_MASK != 0 {
                self.small.remove(&mut self.links, s);
                self.stats.made_young += 1;
                let last = search.words.load(s) & TIMES;
                self.enter_main(s, last, search.words);
            } else if search.accepts(s) {
                self.small.remove(&mut self.links, s);
                self.remember(self.keys[s as usize]);
                self.stats.not_young += 1;
                return Some(s);
            }
        }
        None
    }

    fn victim_from_main(&mut self, search: &mut Search<'_>, spare: usize) -> Option<Slot> {
        let mut spared = 0;
        let mut at = self.main.back();
        while at != NIL && search.goes_on() {
            let s = at;
            at = self.links.towards_front(s);
            let word = search.words.load(s);
            if word & FREQ_MASK != 0 {
                if spared == spare {
                    return None;
                }
                spared += 1;
                self.main.remove(&mut self.links, s);
                self.main.push_front(&mut self.links, s);
                search.words.store(s, word - FREQ_ONE);
                if at == NIL {
                    at = self.main.back();
                }
            } else if search.accepts(s) {
                self.main.remove(&mut self.links, s);
                return Some(s);
            }
        }
        None
    }

    /// True if the ring must supply the next victim: it is full, or the scan has read its oldest
    /// page.
    fn ring_is_due(&self, words: &dyn Words) -> bool {
        let kept = RING_KEPT.min(self.ring_target);
        self.ring.len() > self.ring_target
            || (self.ring.len() > kept && words.load(self.ring.back()) & (CONSUMED | KEEP) != 0)
    }

    fn search(&mut self, search: &mut Search<'_>) -> Option<Slot> {
        if self.ring_is_due(search.words)
            && let Some(s) = self.victim_from_ring(search)
        {
            return Some(s);
        }
        if self.small.len() > self.small_target
            && let Some(s) = self.victim_from_small(search)
        {
            return Some(s);
        }
        self.victim_from_main(search, SPARED_PER_SEARCH)
            .or_else(|| self.victim_from_small(search))
            .or_else(|| self.victim_from_main(search, usize::MAX))
            .or_else(|| self.victim_from_ring(search))
            // Pages that the ring has moved out.
            .or_else(|| self.victim_from_small(search))
            .or_else(|| self.victim_from_main(search, usize::MAX))
    }
}

/// The bits of a word for the access that brought the page in, without the insertion.
const TIMES: u64 = ((1 << INSERTION_SHIFT) - 1) & !((1 << STATEMENT_SHIFT) - 1);

fn times(t: &Touch) -> u64 {
    u64::from(t.tick as u16) << TICK_SHIFT | u64::from(statement_bits(t.statement)) << STATEMENT_SHIFT
}

/// One call of `victim`: the slots to ask, and the most refusals.
struct Search<'a> {
    words: &'a dyn Words,
    evictable: &'a mut dyn FnMut(Slot) -> bool,
    refusals_left: usize,
}

impl Search<'_> {
    fn goes_on(&self) -> bool {
        self.refusals_left > 0
    }

    fn accepts(&mut self, s: Slot) -> bool {
        let yes = (self.evictable)(s);
        self.refusals_left -= usize::from(!yes);
        yes
    }
}

impl Policy for Holdfast {
    fn rules(&self) -> TouchRules {
        TouchRules::new(bits::HOLDFAST, (self.small_target / 2).max(1), WINDOW_TICKS_MS)
    }

    fn clock(&self) -> u32 {
        self.clock
    }

    fn touch_locked(&mut self, _: Slot, _: &Touch, _: &dyn Words) {}

    fn insert(&mut self, s: Slot, key: u64, t: &Touch, words: &dyn Words) {
        self.reserve(s as usize + 1);
        self.keys[s as usize] = key;
        self.stats.insertions += 1;
        if t.scan == ScanHint::Ring {
            self.ring.push_front(&mut self.links, s);
            words.store(s, times(t) | RING << QUEUE_SHIFT | u64::from(bits::HOLDFAST));
        } else {
            self.enter(s, times(t), words);
        }
    }

    fn victim(&mut self, words: &dyn Words, evictable: &mut dyn FnMut(Slot) -> bool) -> Option<Slot> {
        let found = self.search(&mut Search { words, evictable, refusals_left: self.refusals });
        match found {
            Some(s) => {
                words.store(s, 0);
                self.stats.evictions += 1;
                self.refusals = REFUSALS;
            }
            None => self.refusals = self.refusals.saturating_mul(2),
        }
        found
    }

    fn remove(&mut self, s: Slot, words: &dyn Words) {
        if self.links.contains(s) {
            let (list, links) = self.list(words.load(s) >> QUEUE_SHIFT & 0b11);
            list.remove(links, s);
            words.store(s, 0);
        }
    }

    fn set_capacity(&mut self, frames: usize, _: &dyn Words) {
        self.size_for(frames);
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn peek_cold(&self, n: usize, words: &dyn Words, f: &mut dyn FnMut(Slot)) {
        let unused = |s: &Slot| words.load(*s) & (FREQ_MASK | KEEP) == 0;
        let look = 4 * n + 64;
        let ring = self.ring.iter(&self.links).take(if self.ring_is_due(words) { n } else { 0 });
        let above = self.small.len().saturating_sub(self.small_target);
        let small = self.small.iter(&self.links).take(look).filter(unused);
        let main = self.main.iter(&self.links).take(look).filter(unused);
        let first = small.clone().take(above.max(n / 2));
        let rest = small.skip(above.max(n / 2));
        ring.filter(unused).chain(first).chain(main).chain(rest).take(n).for_each(f);
    }

    fn hot(&self, words: &dyn Words, f: &mut dyn FnMut(Slot)) {
        let used = |s: &Slot| words.load(*s) & FREQ_MASK != 0;
        self.small.iter(&self.links).filter(used).chain(self.main.iter(&self.links)).for_each(f);
    }

    fn residents(&self, f: &mut dyn FnMut(Slot)) {
        let lists = [&self.ring, &self.small, &self.main];
        lists.iter().flat_map(|l| l.iter(&self.links)).for_each(f);
    }

    fn stats(&self) -> PolicyStats {
        let (small, main, ring) = (self.small.len(), self.main.len(), self.ring.len());
        let ghost = self.ghost.len() + self.run_ghost.len();
        PolicyStats { resident: small + main + ring, small, main, ring, ghost, ..self.stats }
    }

    fn per_row_touches(&self) -> bool {
        false
    }
}
