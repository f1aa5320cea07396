//! Range locks: what keeps phantoms out.
//!
//! A locking reader registers the range that it is about to read *before* it reads; whoever inserts asks, under the
//! latch of the leaf that takes the row, whether a range of somebody else covers the key. One of the two sees the
//! other: an insert that asked before the registration has its row in the leaf (or the leaf latched) when the reader
//! comes. Ranges never conflict with each other.
//!
//! A waiting inserter stands in the index's list of waiters and is woken when no range of others covers its key.

use std::ops::Bound;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use holdfast_base::sync::atomic::{AtomicUsize, Ordering, fence};
use holdfast_base::sync::{Mutex, MutexGuard};
use holdfast_base::{IndexId, Result};

use super::owner::{Outcome, Owner, Target};

/// Bytes that a range lock is taken to cost beside its bounds.
pub(crate) const RANGE_COST: usize = 96;

/// A range of keys, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Lower end.
    pub from: Bound<Box<[u8]>>,
    /// Upper end.
    pub to: Bound<Box<[u8]>>,
}

impl KeyRange {
    /// The range between two bounds.
    #[must_use]
    pub fn new(from: Bound<&[u8]>, to: Bound<&[u8]>) -> KeyRange {
        KeyRange { from: from.map(Box::from), to: to.map(Box::from) }
    }

    /// One key, there or not.
    #[must_use]
    pub fn point(key: &[u8]) -> KeyRange {
        KeyRange { from: Bound::Included(key.into()), to: Bound::Included(key.into()) }
    }

    /// Every key of the index.
    #[must_use]
    pub fn everything() -> KeyRange {
        KeyRange { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// Whether `key` lies within.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let after_start = match &self.from {
            Bound::Included(from) => key >= &**from,
            Bound::Excluded(from) => key > &**from,
            Bound::Unbounded => true,
        };
        let before_end = match &self.to {
            Bound::Included(to) => key <= &**to,
            Bound::Excluded(to) => key < &**to,
            Bound::Unbounded => true,
        };
        after_start && before_end
    }

    /// Whether it covers all of `other`. May say no where the answer is yes (an excluded bound beside an included).
    #[must_use]
    pub fn covers(&self, other: &KeyRange) -> bool {
        let from = match (&self.from, &other.from) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Excluded(a), Bound::Included(b)) => a < b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a <= b,
        };
        let to = match (&self.to, &other.to) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Excluded(a), Bound::Included(b)) => a > b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        };
        from && to
    }

    pub(crate) fn cost(&self) -> usize {
        let len = |b: &Bound<Box<[u8]>>| match b {
            Bound::Included(k) | Bound::Excluded(k) => k.len(),
            Bound::Unbounded => 0,
        };
        RANGE_COST + len(&self.from) + len(&self.to)
    }
}

/// Names one registered range, to shrink it when the reader stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeId(u64);

#[derive(Debug)]
pub(crate) struct RangeLock {
    pub id: RangeId,
    pub owner: Arc<Owner>,
    pub range: KeyRange,
}

#[derive(Debug, Default)]
pub(crate) struct IndexRanges {
    pub locks: Vec<RangeLock>,
    pub waiting: Vec<(Arc<Owner>, Arc<[u8]>)>,
}

impl IndexRanges {
    fn covered(&self, owner: &Owner, key: &[u8]) -> bool {
        self.locks.iter().any(|l| l.owner.serial() != owner.serial() && l.range.contains(key))
    }

    fn wake(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for (owner, key) in waiting {
            if self.covered(&owner, &key) {
                self.waiting.push((owner, key));
            } else {
                owner.end_wait(Outcome::Granted);
            }
        }
    }
}

/// The range locks of a database.
#[derive(Debug)]
pub(crate) struct RangeLocks {
    indexes: Mutex<HashMap<IndexId, IndexRanges>>,
    count: AtomicUsize,
    next_id: holdfast_base::sync::atomic::AtomicU64,
}

impl RangeLocks {
    pub fn new() -> RangeLocks {
        RangeLocks {
            indexes: Mutex::new(HashMap::new()),
            count: AtomicUsize::new(0),
            next_id: holdfast_base::sync::atomic::AtomicU64::new(1),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, HashMap<IndexId, IndexRanges>> {
        self.indexes.lock()
    }

    /// Registers a range. `None` if the owner has one that covers it. Returns also the bytes it costs.
    pub fn register(&self, owner: &Arc<Owner>, index: IndexId, range: KeyRange) -> Option<(RangeId, usize)> {
        let mut indexes = self.indexes.lock();
        let entry = indexes.entry(index).or_default();
        if entry.locks.iter().any(|l| l.owner.serial() == owner.serial() && l.range.covers(&range)) {
            return None;
        }
        let id = RangeId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let cost = range.cost();
        entry.locks.push(RangeLock { id, owner: Arc::clone(owner), range });
        self.count.fetch_add(1, Ordering::SeqCst);
        drop(indexes);
        // Pairs with the fence in `covered`: the pages are read after the registration can be seen.
        fence(Ordering::SeqCst);
        Some((id, cost))
    }

    /// Whether a range of somebody else covers `key`. Called under the latch of the key's leaf.
    pub fn covered(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        self.indexes.lock().get(&index).is_some_and(|i| i.covered(owner, key))
    }

    /// Makes `owner` a waiter for `key`, unless nothing covers it (then false).
    ///
    /// # Errors
    /// If it may not wait: it was killed, or the database has stopped.
    pub fn enqueue(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8]) -> Result<bool> {
        let mut indexes = self.indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return Ok(false) };
        if !entry.covered(owner, key) {
            return Ok(false);
        }
        let key: Arc<[u8]> = key.into();
        owner.start_wait(Target::Range { index, key: Arc::clone(&key) })?;
        entry.waiting.push((Arc::clone(owner), key));
        Ok(true)
    }

    /// Takes back the waiting request of `owner`.
    pub fn remove_waiter(&self, owner: &Owner, index: IndexId) {
        if let Some(entry) = self.indexes.lock().get_mut(&index) {
            entry.waiting.retain(|(o, _)| o.serial() != owner.serial());
        }
    }

    /// Narrows a registered range to what was read. Does nothing if it is gone. Returns by how much its cost changed.
    pub fn shrink(&self, index: IndexId, id: RangeId, range: KeyRange) -> isize {
        let mut indexes = self.indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return 0 };
        let Some(lock) = entry.locks.iter_mut().find(|l| l.id == id) else { return 0 };
        let change = range.cost() as isize - lock.range.cost() as isize;
        lock.range = range;
        entry.wake();
        change
    }

    /// Replaces the ranges of `owner` in `index` by one over everything. Returns the bytes freed.
    pub fn replace_by_everything(&self, owner: &Arc<Owner>, index: IndexId) -> usize {
        let mut indexes = self.indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return 0 };
        let own = |l: &RangeLock| l.owner.serial() == owner.serial();
        if entry.locks.iter().filter(|l| own(l)).count() < 2 {
            return 0;
        }
        let cost: usize = entry.locks.iter().filter(|l| own(l)).map(|l| l.range.cost()).sum();
        let before = entry.locks.len();
        entry.locks.retain(|l| !own(l));
        let id = RangeId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let all = KeyRange::everything();
        let freed = cost - all.cost();
        entry.locks.push(RangeLock { id, owner: Arc::clone(owner), range: all });
        self.count.fetch_sub(before - entry.locks.len(), Ordering::SeqCst);
        freed
    }

    /// Removes all ranges of `owner` in `index`. Returns the bytes freed.
    pub fn release(&self, owner: &Owner, index: IndexId) -> usize {
        let mut indexes = self.indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return 0 };
        let mut freed = 0;
        let before = entry.locks.len();
        entry.locks.retain(|l| {
            let own = l.owner.serial() == owner.serial();
            freed += if own { l.range.cost() } else { 0 };
            !own
        });
        self.count.fetch_sub(before - entry.locks.len(), Ordering::SeqCst);
        entry.wake();
        if entry.locks.is_empty() && entry.waiting.is_empty() {
            indexes.remove(&index);
        }
        freed
    }

    /// Whom a waiter for `key` waits for.
    pub fn blockers(&self, owner: &Owner, index: IndexId, key: &[u8]) -> Vec<Arc<Owner>> {
        let indexes = self.indexes.lock();
        let Some(entry) = indexes.get(&index) else { return Vec::new() };
        let others = entry.locks.iter().filter(|l| l.owner.serial() != owner.serial() && l.range.contains(key));
        others.map(|l| Arc::clone(&l.owner)).collect()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    use super::*;

    const T: IndexId = IndexId(7);

    #[test]
    fn ranges_contain_and_cover() {
        let r = KeyRange::new(Excluded(b"b"), Included(b"d"));
        assert!(!r.contains(b"b") && r.contains(b"ba") && r.contains(b"d") && !r.contains(b"da"));
        assert!(KeyRange::everything().covers(&r) && !r.covers(&KeyRange::everything()));
        assert!(r.covers(&KeyRange::new(Included(b"c"), Excluded(b"d"))));
        assert!(!r.covers(&KeyRange::new(Included(b"b"), Excluded(b"d"))));
        assert!(!KeyRange::new(Unbounded, Excluded(b"d")).covers(&r));
        assert!(r.covers(&r));
    }

    #[test]
    fn inserts_of_others_are_kept_out_until_the_range_goes_or_shrinks() {
        let locks = RangeLocks::new();
        let (reader, writer) = (Owner::new(1), Owner::new(2));
        assert!(!locks.covered(&writer, T, b"c"));
        let (id, _) = locks.register(&reader, T, KeyRange::new(Included(b"a"), Unbounded)).unwrap();
        assert!(locks.register(&reader, T, KeyRange::point(b"k")).is_none());
        assert!(locks.covered(&writer, T, b"c") && !locks.covered(&reader, T, b"c"));
        assert!(!locks.covered(&writer, IndexId(8), b"c"));
        assert!(locks.enqueue(&writer, T, b"x").unwrap());
        locks.shrink(T, id, KeyRange::new(Included(b"a"), Included(b"d")));
        assert_eq!(writer.block(std::time::Duration::from_secs(60)), Outcome::Granted);
        assert!(locks.covered(&writer, T, b"c") && !locks.covered(&writer, T, b"x"));
        assert!(locks.release(&reader, T) > 0);
        assert!(!locks.covered(&writer, T, b"c"));
        assert!(locks.lock().is_empty());
    }
}
