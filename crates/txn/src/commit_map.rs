//! The commit map: transaction id -> commit number, in O(1), for the ids that some view may still have to ask about.
//!
//! # Protocol
//! A ring of words covers the ids `[low, next)`. Ids below `low` have ended, and every short view sees their commits;
//! the exceptions - old transactions that are still active, or ended after a view that is still short - stand in the
//! small `stragglers` map. A word is 0 while the transaction is active, the commit number once it committed, and
//! that number with the top bit once it was rolled back. (A rollback takes a number too: "all short views are newer
//! than the end of the transaction" is then one comparison for both.)
//!
//! A reader loads the word, then `low` again: if `low` has passed the id, the word may belong to a later id and the
//! answer comes from the path for old ids. Whoever raises `low` past ids that a live view cannot yet take for granted
//! materialises that view first (see [`crate::view`]), and the view looks there again after it asked here.
//!
//! # Lock order
//! allocation mutex -> view registry -> stragglers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::HashMap;
use holdfast_base::{CommitNo, TxnId};
use parking_lot::{Mutex, MutexGuard, RwLock};

const ABORTED: u64 = 1 << 63;
/// After so many ids the low end of the window is moved up. What lies below it is answered without a look at the ring, which for
/// rows of many transactions is a cache miss each.
const ADVANCE_EVERY: u64 = 1024;

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    /// It has not ended (or is prepared).
    Active,
    /// It committed at this position; 0 means "so long ago that every view sees it".
    Committed(CommitNo),
    /// It was rolled back; no row carries it any more.
    RolledBack,
}

/// The map. One per database.
pub struct CommitMap {
    ring: Box<[AtomicU64]>,
    low: AtomicU64,
    next: AtomicU64,
    allocation: Mutex<()>,
    stragglers: RwLock<HashMap<u64, u64>>,
    straggling: AtomicUsize,
}

/// See [`CommitMap::moment`].
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    low: TxnId,
    straggling: bool,
}

/// Holds the window still: no id is allocated and `low` does not move meanwhile.
pub struct WindowGuard<'a> {
    map: &'a CommitMap,
    _guard: MutexGuard<'a, ()>,
}

impl CommitMap {
    /// An empty map whose first new id is `next`, with `active` (older ids, found at recovery) not yet ended.
    /// `window` is rounded up to a power of two.
    #[must_use]
    pub fn new(window: usize, next: TxnId, active: &[TxnId]) -> CommitMap {
        let ring = (0..window.next_power_of_two().max(64)).map(|_| AtomicU64::new(0)).collect();
        CommitMap {
            ring,
            low: AtomicU64::new(next.0),
            next: AtomicU64::new(next.0),
            allocation: Mutex::new(()),
            stragglers: RwLock::new(active.iter().map(|id| (id.0, 0)).collect()),
            straggling: AtomicUsize::new(active.len()),
        }
    }

    fn word(&self, id: u64) -> &AtomicU64 {
        &self.ring[id as usize & (self.ring.len() - 1)]
    }

    /// Holds the window still.
    pub fn lock_window(&self) -> WindowGuard<'_> {
        WindowGuard { map: self, _guard: self.allocation.lock() }
    }

    /// The lowest id in the window.
    #[must_use]
    pub fn low(&self) -> TxnId {
        TxnId(self.low.load(Ordering::Acquire))
    }

    /// The next id that will be given out.
    #[must_use]
    pub fn next(&self) -> TxnId {
        TxnId(self.next.load(Ordering::Acquire))
    }

    /// How `id` stands. An id below the window that is no straggler counts as committed at 0.
    #[must_use]
    pub fn status(&self, id: TxnId) -> TxnStatus {
        let id = id.0;
        if id >= self.low.load(Ordering::Acquire) {
            if id >= self.next.load(Ordering::Acquire) {
                return TxnStatus::Active;
            }
            let word = self.word(id).load(Ordering::Acquire);
            if id >= self.low.load(Ordering::Acquire) {
                return decode(word);
            }
        }
        if self.straggling.load(Ordering::Acquire) > 0
            && let Some(&word) = self.stragglers.read().get(&id)
        {
            return decode(word);
        }
        TxnStatus::Committed(CommitNo(0))
    }

    /// What is known of ended transactions before a version is read: to be taken first, for [`CommitMap::is_doubtful`].
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment { straggling: self.straggling.load(Ordering::Acquire) > 0, low: self.low() }
    }

    /// Whether a version by `id`, read after `before`, may be of a transaction that was rolled back since: then it has to be
    /// read again. It cannot have been when it was read, because a rollback takes its versions away before it ends.
    #[must_use]
    pub fn is_doubtful(&self, id: TxnId, before: Moment) -> bool {
        match self.status(id) {
            TxnStatus::Active => false,
            TxnStatus::Committed(no) => no.0 == 0 && (id >= before.low || before.straggling),
            TxnStatus::RolledBack => true,
        }
    }

    /// Whether `id` has not ended.
    #[must_use]
    pub fn is_active(&self, id: TxnId) -> bool {
        self.status(id) == TxnStatus::Active
    }

    /// Records that `id` committed as number `no`. Called within the commit critical section.
    pub fn set_committed(&self, id: TxnId, no: CommitNo) {
        self.set(id.0, no.0);
    }

    /// Records that `id` was rolled back; `no` is a number of its own. Called within the commit critical section.
    pub fn set_rolled_back(&self, id: TxnId, no: CommitNo) {
        self.set(id.0, no.0 | ABORTED);
    }

    fn set(&self, id: u64, word: u64) {
        // The window must not move between the comparison and the store.
        let mut stragglers = self.stragglers.write();
        if id >= self.low.load(Ordering::Acquire) {
            self.word(id).store(word, Ordering::Release);
        } else {
            stragglers.insert(id, word);
        }
    }

    /// The stragglers with ids below `low`.
    #[must_use]
    pub fn stragglers_below(&self, low: TxnId) -> Vec<TxnId> {
        self.stragglers.read().keys().filter(|id| **id < low.0).map(|id| TxnId(*id)).collect()
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.ring.len() * 8 + self.straggling.load(Ordering::Relaxed) * 32
    }
}

impl WindowGuard<'_> {
    /// Whether there is no room for another id.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.map.next().0 - self.map.low().0 >= self.map.ring.len() as u64
    }

    /// Whether it is worth to move the low end up: now and then, and whenever the window is half full.
    #[must_use]
    pub fn is_worth_advancing(&self) -> bool {
        let next = self.map.next().0;
        next.is_multiple_of(ADVANCE_EVERY) || next - self.map.low().0 >= self.map.ring.len() as u64 / 2
    }

    /// Gives out the next id.
    ///
    /// # Panics
    /// If the window is full: [`WindowGuard::cut`] first.
    pub fn allocate(&self) -> TxnId {
        assert!(!self.is_full(), "the window was cut before an id is allocated");
        let id = self.map.next.load(Ordering::Relaxed);
        self.map.word(id).store(0, Ordering::Release);
        self.map.next.store(id + 1, Ordering::Release);
        TxnId(id)
    }

    /// Moves `low` up while the lowest ids have ended at or before `horizon`, the oldest short view's number.
    /// Forgets stragglers by the same rule.
    pub fn advance(&self, horizon: CommitNo) {
        let (mut low, next) = (self.map.low().0, self.map.next().0);
        while low < next && ended_by(self.map.word(low).load(Ordering::Acquire), horizon) {
            low += 1;
        }
        self.map.low.store(low, Ordering::Release);
        if self.map.straggling.load(Ordering::Relaxed) > 0 {
            let mut stragglers = self.map.stragglers.write();
            stragglers.retain(|_, word| !ended_by(*word, horizon));
            self.map.straggling.store(stragglers.len(), Ordering::Release);
        }
    }

    /// Makes room: [`WindowGuard::advance`], and if that is not enough, ids at the low end that have not ended (or
    /// ended after `horizon`) become stragglers until half of the window is free.
    pub fn cut(&self, horizon: CommitNo) {
        self.advance(horizon);
        let (mut low, next) = (self.map.low().0, self.map.next().0);
        let keep = self.map.ring.len() as u64 / 2;
        if next - low <= keep {
            return;
        }
        let mut stragglers = self.map.stragglers.write();
        while next - low > keep {
            let word = self.map.word(low).load(Ordering::Acquire);
            if !ended_by(word, horizon) {
                stragglers.insert(low, word);
            }
            low += 1;
        }
        self.map.straggling.store(stragglers.len(), Ordering::Release);
        self.map.low.store(low, Ordering::Release);
    }
}

fn ended_by(word: u64, horizon: CommitNo) -> bool {
    word != 0 && word & !ABORTED <= horizon.0
}

fn decode(word: u64) -> TxnStatus {
    match word {
        0 => TxnStatus::Active,
        w if w & ABORTED != 0 => TxnStatus::RolledBack,
        w => TxnStatus::Committed(CommitNo(w)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_through_their_states() {
        let map = CommitMap::new(64, TxnId(10), &[TxnId(3)]);
        assert_eq!(map.status(TxnId(3)), TxnStatus::Active);
        assert_eq!(map.status(TxnId(4)), TxnStatus::Committed(CommitNo(0)));
        let a = map.lock_window().allocate();
        let b = map.lock_window().allocate();
        assert_eq!((a, b), (TxnId(10), TxnId(11)));
        assert!(map.is_active(a));
        map.set_committed(a, CommitNo(1));
        map.set_rolled_back(b, CommitNo(2));
        assert_eq!(map.status(a), TxnStatus::Committed(CommitNo(1)));
        assert_eq!(map.status(b), TxnStatus::RolledBack);
        map.lock_window().advance(CommitNo(1));
        assert_eq!(map.status(a), TxnStatus::Committed(CommitNo(0)));
        assert_eq!(map.status(b), TxnStatus::RolledBack);
        assert!(map.is_active(TxnId(3)));
        map.set_committed(TxnId(3), CommitNo(3));
        map.lock_window().advance(CommitNo(2));
        assert_eq!(map.status(TxnId(3)), TxnStatus::Committed(CommitNo(3)));
        map.lock_window().advance(CommitNo(3));
        assert_eq!(map.status(TxnId(3)), TxnStatus::Committed(CommitNo(0)));
    }

    #[test]
    fn a_full_window_leaves_the_active_behind_as_stragglers() {
        let map = CommitMap::new(64, TxnId(1), &[]);
        let old = map.lock_window().allocate();
        for no in 1..1_000 {
            let window = map.lock_window();
            if window.is_full() {
                window.cut(CommitNo(no - 1));
            }
            let id = window.allocate();
            drop(window);
            map.set_committed(id, CommitNo(no));
        }
        assert!(map.is_active(old));
        map.set_committed(old, CommitNo(1_000));
        assert_eq!(map.status(old), TxnStatus::Committed(CommitNo(1_000)));
        map.lock_window().advance(CommitNo(1_000));
        assert_eq!(map.status(old), TxnStatus::Committed(CommitNo(0)));
        assert_eq!(map.straggling.load(Ordering::Relaxed), 0);
    }
}
