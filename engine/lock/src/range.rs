//! Range locks: what keeps phantoms out.
//!
//! A locking reader registers the range that it is about to read *before* it reads. An inserter
//! asks, under the latch of the leaf that takes the row, whether a range of another transaction
//! covers the key. One of the two sees the other: an insert that asked before the registration has
//! its row in the leaf (or the leaf latched) when the reader comes. Ranges never conflict with each
//! other.
//!
//! A waiting inserter stands among the index's waiters, in the order of keys, and is woken when no
//! range of others covers its key; a range that goes looks at those within it. A range that comes
//! tells those within it that they wait for its owner, too.
//!
//! A reader of a range into which others already wait to insert lets them insert first, once:
//! otherwise they might wait without end, while one reader follows the other. The reader's wait
//! ends when it would close a cycle of waits, or takes too long.
//!
//! A range that is still being read may shrink to what was read, so it spares the owner no other
//! range; a settled one does. Invariant: what is in the list of an owner is in the set of the
//! index, and the other way round.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::HashMap;
use holdfast_base::sync::MutexGuard;
use holdfast_base::sync::atomic::{AtomicU64, Ordering, fence};
use holdfast_base::{IndexId, Result};

use crate::by_index::ByIndex;
use crate::info::Serial;
use crate::interval::{End, Intervals, KeyRange};
use crate::owner::{Outcome, Owner, Target};
use crate::reading::RangeId;

/// Bytes that a range lock is taken to cost beside its bounds.
const RANGE_COST: usize = 224;
/// Ranges given up under one hold of the mutex.
const RELEASE_BATCH: usize = 256;

/// Bytes that a lock on `range` costs.
fn cost(range: &KeyRange) -> usize {
    let len = |end: &End| match end {
        Bound::Included(key) | Bound::Excluded(key) => key.len(),
        Bound::Unbounded => 0,
    };
    RANGE_COST + len(&range.from) + len(&range.to)
}

#[derive(Debug)]
struct RangeLock {
    owner: Arc<Owner>,
    /// It will not shrink any more.
    settled: bool,
}

/// Where an owner finds its range in the set.
#[derive(Debug)]
struct Place {
    id: u64,
    from: End,
}

/// An inserter that had to wait, until it has inserted.
#[derive(Debug)]
struct Inserter {
    owner: Arc<Owner>,
    /// It has been told to go on.
    goes_on: bool,
}

/// The range locks of one index, and the waiters for them.
#[derive(Debug, Default)]
pub(crate) struct IndexRanges {
    locks: Intervals<RangeLock>,
    owners: HashMap<Serial, Vec<Place>>,
    waiting: BTreeMap<(Arc<[u8]>, Serial), Inserter>,
    /// Readers that let inserters go first.
    readers: Vec<(Arc<Owner>, KeyRange)>,
}

impl IndexRanges {
    fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.waiting.is_empty() && self.readers.is_empty()
    }

    /// The inserters that wait for `range`, or go on to insert there.
    fn waiting_in<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = (&'a (Arc<[u8]>, Serial), &'a Inserter)> {
        let first = match &range.from {
            Bound::Included(key) | Bound::Excluded(key) => Bound::Included((Arc::clone(key), 0)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let end = KeyRange { from: Bound::Unbounded, to: range.to.clone() };
        let within = self.waiting.range((first, Bound::Unbounded)).take_while(move |((key, _), _)| end.contains(key));
        within.filter(|((key, _), _)| range.contains(key))
    }

    /// Wakes readers whose ranges no inserter waits for any more.
    fn wake_readers(&mut self) {
        let readers = std::mem::take(&mut self.readers);
        let (stay, go): (Vec<_>, Vec<_>) =
            readers.into_iter().partition(|(_, range)| self.waiting_in(range).next().is_some());
        self.readers = stay;
        for (owner, _) in go {
            owner.end_wait(Outcome::Granted);
        }
    }

    fn covered(&self, owner: &Owner, key: &[u8]) -> bool {
        self.locks.find_over(key, |lock| lock.owner.serial() != owner.serial()).is_some()
    }

    /// Enters a range of `owner`; returns what it costs.
    fn enter(&mut self, owner: &Arc<Owner>, id: u64, range: KeyRange, settled: bool) -> usize {
        let cost = cost(&range);
        self.owners.entry(owner.serial()).or_default().push(Place { id, from: range.from.clone() });
        self.locks.insert(range, id, RangeLock { owner: Arc::clone(owner), settled });
        cost
    }

    /// Where in the list of `owner` its range is. Near the end as a rule: few ranges are being read
    /// at a time.
    fn place_of(&self, owner: &Owner, id: RangeId) -> Option<usize> {
        self.owners.get(&owner.serial())?.iter().rposition(|place| place.id == id.0)
    }

    /// Gives a range of `owner` other ends. Returns it as it was; `None` if it is gone.
    fn replace(&mut self, owner: &Owner, id: RangeId, range: KeyRange, settled: bool) -> Option<KeyRange> {
        let at = self.place_of(owner, id)?;
        let place = &mut self.owners.get_mut(&owner.serial())?[at];
        let (before, mut lock) = self.locks.remove(&place.from, id.0)?;
        place.from = range.from.clone();
        lock.settled = settled;
        self.locks.insert(range, id.0, lock);
        Some(before)
    }

    /// Takes a range out of the set; its owner's list is the caller's to see to.
    fn take(&mut self, place: &Place) -> Option<KeyRange> {
        self.locks.remove(&place.from, place.id).map(|(range, _)| range)
    }

    /// Grants the waiters whose keys lie in `range`, which has just been given up, and that no
    /// range covers.
    fn wake(&mut self, range: &KeyRange) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = self.waiting_in(range).filter(|(_, inserter)| !inserter.goes_on);
        let free = waiting.filter(|((key, _), inserter)| !self.covered(&inserter.owner, key));
        let free: Vec<_> = free.map(|(place, _)| place.clone()).collect();
        for place in free {
            if let Some(inserter) = self.waiting.get_mut(&place) {
                inserter.goes_on = true;
                inserter.owner.end_wait(Outcome::Granted);
            }
        }
    }

    /// `owner` enters `range`, which may be more than it had: tells the inserters within it.
    fn has_come_over(&self, owner: &Owner, range: &KeyRange) {
        if self.waiting.is_empty() {
            return;
        }
        for (_, inserter) in self.waiting_in(range) {
            if !inserter.goes_on && inserter.owner.serial() != owner.serial() {
                inserter.owner.waits_for_more();
            }
        }
    }

    /// Calls `visit` with every range and its owner.
    pub fn for_each_lock(&self, mut visit: impl FnMut(&KeyRange, &Arc<Owner>)) {
        self.locks.for_each(|range, lock| visit(range, &lock.owner));
    }

    /// The inserters with their keys, and the readers with the ranges for which they wait.
    pub fn waiting(&self) -> impl Iterator<Item = (&Arc<Owner>, KeyRange)> {
        let inserters = self.waiting.iter().filter(|(_, inserter)| !inserter.goes_on);
        let inserters = inserters.map(|((key, _), inserter)| (&inserter.owner, KeyRange::point(key)));
        inserters.chain(self.readers.iter().map(|(owner, range)| (owner, range.clone())))
    }
}

type Indexes = HashMap<IndexId, IndexRanges>;

/// The range locks of a database.
#[derive(Debug)]
pub(crate) struct RangeLocks {
    by_index: ByIndex<IndexRanges>,
    next_id: AtomicU64,
}

impl RangeLocks {
    pub fn new() -> RangeLocks {
        RangeLocks { by_index: ByIndex::new(), next_id: AtomicU64::new(1) }
    }

    /// The locks of all indexes, a part at a time.
    pub fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, Indexes>> {
        self.by_index.parts()
    }

    /// Registers a range that is going to be read. `None` if the owner has one that covers it and
    /// will go on to do so. Returns also the bytes it costs.
    pub fn register(&self, owner: &Arc<Owner>, index: IndexId, range: KeyRange) -> Option<(RangeId, usize)> {
        let shard = self.by_index.shard(index);
        let mut indexes = shard.indexes.lock();
        let entry = indexes.entry(index).or_default();
        let serves = |lock: &RangeLock| lock.settled && lock.owner.serial() == owner.serial();
        if entry.locks.find_covering(&range, serves).is_some() {
            return None;
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        entry.has_come_over(owner, &range);
        let cost = entry.enter(owner, id, range, false);
        shard.count.fetch_add(1, Ordering::SeqCst);
        drop(indexes);
        // Pairs with the fence of `used_shard`: the pages are read after the registration can be
        // seen.
        fence(Ordering::SeqCst);
        Some((RangeId(id), cost))
    }

    /// True if a range of another transaction covers `key`. Called under the latch of the key's
    /// leaf.
    pub fn covered(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        let Some(shard) = self.by_index.used_shard(index) else { return false };
        shard.indexes.lock().get(&index).is_some_and(|i| i.covered(owner, key))
    }

    /// Makes `owner` a waiter for `key`, unless nothing covers it (then false).
    ///
    /// # Errors
    /// If it may not wait: it was killed, or the database has stopped.
    pub fn enqueue(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8]) -> Result<bool> {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return Ok(false) };
        if !entry.covered(owner, key) {
            return Ok(false);
        }
        let key: Arc<[u8]> = key.into();
        owner.start_wait(Target::Range { index, key: Arc::clone(&key) })?;
        entry.waiting.insert((key, owner.serial()), Inserter { owner: Arc::clone(owner), goes_on: false });
        Ok(true)
    }

    /// `owner`, which has waited for `key`, has inserted it or does not do so any more.
    pub fn remove_inserter(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return };
        entry.waiting.remove(&(key.into(), owner.serial()));
        entry.wake_readers();
        if entry.is_empty() {
            indexes.remove(&index);
        }
    }

    /// Makes `owner`, which is going to read `range`, wait for the inserters that wait there. False
    /// if there are none.
    ///
    /// # Errors
    /// The errors of [`RangeLocks::enqueue`].
    pub fn enqueue_reader(&self, owner: &Arc<Owner>, index: IndexId, range: &KeyRange) -> Result<bool> {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return Ok(false) };
        if entry.waiting_in(range).next().is_none() {
            return Ok(false);
        }
        owner.start_wait(Target::Turn { index, range: range.clone() })?;
        entry.readers.push((Arc::clone(owner), range.clone()));
        Ok(true)
    }

    /// Takes a reader out again, if it is still there.
    pub fn remove_reader(&self, owner: &Owner, index: IndexId) {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return };
        entry.readers.retain(|(reader, _)| reader.serial() != owner.serial());
        if entry.is_empty() {
            indexes.remove(&index);
        }
    }

    /// The inserters except `owner` that wait for `range`, or go on to insert there.
    pub fn inserters(&self, owner: &Owner, index: IndexId, range: &KeyRange) -> Vec<Arc<Owner>> {
        let indexes = self.by_index.shard(index).indexes.lock();
        let Some(entry) = indexes.get(&index) else { return Vec::new() };
        let waiting = entry.waiting_in(range).map(|(_, inserter)| Arc::clone(&inserter.owner));
        waiting.filter(|inserter| inserter.serial() != owner.serial()).collect()
    }

    /// The reader of a registered range is done: it narrows it to `read`, if that is less. Does
    /// nothing if the range is gone. Returns by how much its cost changed.
    pub fn settle(&self, owner: &Owner, index: IndexId, id: RangeId, read: Option<KeyRange>) -> isize {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return 0 };
        let Some(at) = entry.place_of(owner, id) else { return 0 };
        let from = &entry.owners[&owner.serial()][at].from;
        let settle = |lock: &mut RangeLock| lock.settled = true;
        let before = match &read {
            None => entry.locks.narrow(from, id.0, None, settle),
            Some(read) if read.from == *from => entry.locks.narrow(from, id.0, Some(read.to.clone()), settle),
            Some(read) => entry.replace(owner, id, read.clone(), true),
        };
        let (Some(before), Some(read)) = (before, read) else { return 0 };
        entry.wake(&before);
        cost(&read) as isize - cost(&before) as isize
    }

    /// A registered range becomes `range`, which covers it, and is going to be read. `None` if it
    /// is gone, or joined with others. Returns by how much its cost changed.
    pub fn widen(&self, owner: &Owner, index: IndexId, id: RangeId, range: KeyRange) -> Option<isize> {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let entry = indexes.get_mut(&index)?;
        let change = cost(&range) as isize;
        entry.has_come_over(owner, &range);
        let before = entry.replace(owner, id, range, false)?;
        drop(indexes);
        fence(Ordering::SeqCst); // As in `register`.
        Some(change - cost(&before) as isize)
    }

    /// Removes a registered range. Does nothing if it is gone. Returns the bytes freed.
    pub fn give_up(&self, owner: &Owner, index: IndexId, id: RangeId) -> usize {
        let shard = self.by_index.shard(index);
        let mut indexes = shard.indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return 0 };
        let Some(at) = entry.place_of(owner, id) else { return 0 };
        let Some(list) = entry.owners.get_mut(&owner.serial()) else { return 0 };
        let place = list.remove(at);
        if list.is_empty() {
            entry.owners.remove(&owner.serial());
        }
        let Some(range) = entry.take(&place) else { return 0 };
        shard.count.fetch_sub(1, Ordering::SeqCst);
        entry.wake(&range);
        if entry.is_empty() {
            indexes.remove(&index);
        }
        cost(&range)
    }

    /// Replaces the settled ranges of `owner` in `index` by one over all of them and what lies
    /// between. Those that are being read stay as they are, so that they can be narrowed. Returns
    /// the bytes freed.
    pub fn join_settled(&self, owner: &Arc<Owner>, index: IndexId) -> usize {
        let shard = self.by_index.shard(index);
        let mut indexes = shard.indexes.lock();
        let Some(entry) = indexes.get_mut(&index) else { return 0 };
        let list = entry.owners.remove(&owner.serial()).unwrap_or_default();
        let (mut joined, mut count, mut freed) = (None::<KeyRange>, 0, 0);
        for Place { id, from } in list {
            let Some((range, lock)) = entry.locks.remove(&from, id) else { continue };
            if lock.settled {
                (count, freed) = (count + 1, freed + cost(&range));
                joined = Some(match joined {
                    Some(other) => other.joined(range),
                    None => range,
                });
            } else {
                entry.enter(owner, id, range, false);
            }
        }
        let Some(joined) = joined else { return 0 };
        entry.has_come_over(owner, &joined);
        let kept = entry.enter(owner, self.next_id.fetch_add(1, Ordering::Relaxed), joined, true);
        shard.count.fetch_sub(count - 1, Ordering::SeqCst);
        freed - kept
    }

    /// Removes all ranges of `owner` in `index`. Returns the bytes freed.
    pub fn release(&self, owner: &Owner, index: IndexId) -> usize {
        std::iter::from_fn(|| self.release_some(owner, index)).sum()
    }

    /// Removes a few of the ranges of `owner`: inserts of others should not have to wait until
    /// thousands are gone. `None` if it has none.
    fn release_some(&self, owner: &Owner, index: IndexId) -> Option<usize> {
        let shard = self.by_index.shard(index);
        let mut indexes = shard.indexes.lock();
        let entry = indexes.get_mut(&index)?;
        let list = entry.owners.get_mut(&owner.serial())?;
        let batch = list.split_off(list.len().saturating_sub(RELEASE_BATCH));
        if list.is_empty() {
            entry.owners.remove(&owner.serial());
        }
        let mut freed = 0;
        for place in &batch {
            let Some(range) = entry.take(place) else { continue };
            freed += cost(&range);
            entry.wake(&range);
        }
        shard.count.fetch_sub(batch.len(), Ordering::SeqCst);
        if entry.is_empty() {
            indexes.remove(&index);
        }
        Some(freed)
    }

    /// The owners that a waiter for `key` waits for.
    pub fn blockers(&self, owner: &Owner, index: IndexId, key: &[u8]) -> Vec<Arc<Owner>> {
        let indexes = self.by_index.shard(index).indexes.lock();
        let mut blockers = Vec::new();
        if let Some(entry) = indexes.get(&index) {
            entry.locks.find_over(key, |lock| {
                if lock.owner.serial() != owner.serial() {
                    blockers.push(Arc::clone(&lock.owner));
                }
                false
            });
        }
        blockers
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::ops::Bound::{Included, Unbounded};

    use super::*;

    const T: IndexId = IndexId(7);

    #[test]
    fn inserts_of_others_are_kept_out_until_the_range_goes_or_shrinks() {
        let locks = RangeLocks::new();
        let (reader, writer) = (Owner::new(1), Owner::new(2));
        assert!(!locks.covered(&writer, T, b"c"));
        let (id, _) = locks.register(&reader, T, KeyRange::new(Included(b"a"), Unbounded)).unwrap();
        assert!(locks.covered(&writer, T, b"c") && !locks.covered(&reader, T, b"c"));
        assert!(!locks.covered(&writer, IndexId(8), b"c"));
        assert!(locks.enqueue(&writer, T, b"x").unwrap());
        locks.settle(&reader, T, id, Some(KeyRange::new(Included(b"a"), Included(b"d"))));
        assert_eq!(writer.block(None), Outcome::Granted);
        locks.remove_inserter(&writer, T, b"x");
        assert!(locks.covered(&writer, T, b"c") && !locks.covered(&writer, T, b"x"));
        assert!(locks.release(&reader, T) > 0);
        assert!(!locks.covered(&writer, T, b"c"));
        assert!(locks.parts().all(|part| part.is_empty()));
    }

    /// A statement that joins a table with itself has a cursor open over all of it while another
    /// one reads a part; the first stops early. The part was not registered, because all of it was,
    /// and was open to inserts after that.
    #[test]
    fn a_range_that_may_still_shrink_spares_no_other() {
        let locks = RangeLocks::new();
        let (reader, writer) = (Owner::new(1), Owner::new(2));
        let (all, _) = locks.register(&reader, T, KeyRange::everything()).unwrap();
        let (part, _) = locks.register(&reader, T, KeyRange::point(b"m")).unwrap();
        locks.settle(&reader, T, part, None);
        locks.settle(&reader, T, all, Some(KeyRange::point(b"a")));
        assert!(locks.covered(&writer, T, b"m") && !locks.covered(&writer, T, b"n"));
        assert!(locks.register(&reader, T, KeyRange::point(b"m")).is_none(), "it has that already");
    }

    #[test]
    fn a_reader_that_gives_way_keeps_what_it_has_read() {
        let locks = RangeLocks::new();
        let (reader, writer) = (Owner::new(1), Owner::new(2));
        let (id, cost) = locks.register(&reader, T, KeyRange::everything()).unwrap();
        let read = KeyRange::new(Unbounded, Included(b"d"));
        let mut paid = cost as isize + locks.settle(&reader, T, id, Some(read));
        assert!(locks.covered(&writer, T, b"d") && !locks.covered(&writer, T, b"e"));
        paid += locks.widen(&reader, T, id, KeyRange::everything()).unwrap();
        assert!(locks.covered(&writer, T, b"e"));
        assert!(locks.register(&reader, T, KeyRange::point(b"e")).is_some(), "it may shrink again");
        assert!(locks.give_up(&reader, T, id) > 0 && locks.give_up(&reader, T, id) == 0);
        assert!(locks.covered(&writer, T, b"e") && !locks.covered(&writer, T, b"d"));
        assert_eq!(paid, cost as isize);
        locks.release(&reader, T);
        assert!(locks.parts().all(|part| part.is_empty()));
    }

    #[test]
    fn only_waiters_without_another_range_over_their_key_are_woken() {
        let locks = RangeLocks::new();
        let readers = [1, 2].map(Owner::new);
        let [b, f] = [3, 4].map(Owner::new);
        locks.register(&readers[0], T, KeyRange::new(Included(b"a"), Included(b"m"))).unwrap();
        locks.register(&readers[1], T, KeyRange::new(Included(b"c"), Unbounded)).unwrap();
        assert!(locks.enqueue(&b, T, b"b").unwrap() && locks.enqueue(&f, T, b"f").unwrap());
        locks.release(&readers[0], T);
        assert!(!b.waits() && f.waits());
        locks.remove_inserter(&b, T, b"b");
        locks.remove_inserter(&f, T, b"f");
        locks.release(&readers[1], T);
        assert!(f.waits(), "it has gone, and is granted nothing");
        assert!(locks.parts().all(|part| part.is_empty()));
    }

    #[test]
    fn thousands_of_ranges_go_in_parts_and_altogether() {
        let locks = RangeLocks::new();
        let (reader, writer) = (Owner::new(1), Owner::new(2));
        let mut paid = 0;
        for k in 0..5_000u32 {
            let (id, cost) = locks.register(&reader, T, KeyRange::point(&k.to_be_bytes())).unwrap();
            paid += cost as isize + locks.settle(&reader, T, id, None);
        }
        assert!(locks.covered(&writer, T, &4_999u32.to_be_bytes()) && !locks.covered(&writer, T, b"x"));
        assert_eq!(locks.release(&reader, T) as isize, paid);
        assert!(!locks.covered(&writer, T, &4_999u32.to_be_bytes()));
        assert!(locks.parts().all(|part| part.is_empty()));
    }
}
