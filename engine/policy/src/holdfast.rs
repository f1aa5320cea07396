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

use crate::ghost::Ghost;
use crate::list::{Links, List, NIL};
use crate::policy::{Policy, PolicyStats, REFUSALS, Slot, Words};
use crate::runs::{Runs, Step};
use crate::scan::scan_budget;
use crate::touch::{ScanHint, Touch, TouchRules};
use crate::word::holdfast::{
    CONSUMED, FREQ_MASK, FREQ_ONE, INSERTION_MASK, INSERTION_SHIFT, KEEP, MAIN, QUEUE_SHIFT, RING, SMALL, TIMES, times,
};
use crate::word::kind;

/// The milliseconds for which touches of a new page do not count, unless pages come in faster than
/// that.
const WINDOW_TICKS_MS: u32 = 10;
/// Small's share of the frames is one in this many.
const SMALL_DIVISOR: usize = 10;
/// The number of ring pages that stay after the scan has read them, unless the ring is full: it may
/// come back for the next row.
const RING_KEPT: usize = 8;
/// The most used pages of main that one search for a victim spares.
const SPARED_PER_SEARCH: usize = 1024;

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
        self.ring_target = scan_budget(frames);
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
        words.store(s, insertion | t_bits | SMALL << QUEUE_SHIFT | u64::from(kind::HOLDFAST));
    }

    fn enter_main(&mut self, s: Slot, t_bits: u64, words: &dyn Words) {
        self.main.push_front(&mut self.links, s);
        words.store(s, t_bits | MAIN << QUEUE_SHIFT | u64::from(kind::HOLDFAST));
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
                self.ghost.close_gaps(Runs::REACH);
                self.run_ghost.insert(key);
            }
        }
    }

    /// A page of the ring; unless `any` will do, only if one is due.
    fn victim_from_ring(&mut self, search: &mut Search<'_>, any: bool) -> Option<Slot> {
        let mut at = self.ring.back();
        while at != NIL && search.goes_on() {
            let s = at;
            at = self.links.towards_front(s);
            if !any && !self.ring_gives(s, search.words) {
                return None;
            }
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

    /// True if the ring must give up its page `s` before other queues give up theirs: the ring is
    /// full, or the page has been read, and so has the last of the [`RING_KEPT`] that came after
    /// it.
    fn ring_gives(&self, s: Slot, words: &dyn Words) -> bool {
        let is_read = |s: Slot| s != NIL && words.load(s) & (CONSUMED | KEEP) != 0;
        let after = |s: Slot| if s == NIL { NIL } else { self.links.towards_front(s) };
        let kept = RING_KEPT.min(self.ring_target);
        self.ring.len() > self.ring_target || (is_read(s) && is_read((0..kept).fold(s, |s, _| after(s))))
    }

    /// True if the ring must supply the next victim.
    fn ring_is_due(&self, words: &dyn Words) -> bool {
        self.ring.back() != NIL && self.ring_gives(self.ring.back(), words)
    }

    fn search(&mut self, search: &mut Search<'_>) -> Option<Slot> {
        if let Some(s) = self.victim_from_ring(search, false) {
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
            .or_else(|| self.victim_from_ring(search, true))
            // Pages that the ring has moved out.
            .or_else(|| self.victim_from_small(search))
            .or_else(|| self.victim_from_main(search, usize::MAX))
    }
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
        TouchRules::new(kind::HOLDFAST, (self.small_target / 2).max(1), WINDOW_TICKS_MS)
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
            words.store(s, times(t) | RING << QUEUE_SHIFT | u64::from(kind::HOLDFAST));
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
