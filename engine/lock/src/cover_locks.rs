//! Locks on many rows as one, which a cursor extends as it reads.

use std::sync::Arc;

use holdfast_base::IndexId;

use crate::cover::CoverId;
use crate::interval::KeyRange;
use crate::manager::LockManager;
use crate::mode::{LockMode, Mode};
use crate::owner::Owner;
use crate::queue::Verdict;
use crate::table::TableState;

impl LockManager {
    /// Begins to lock rows of `index` as one, from `key` on, which `owner` has locked. `None` if
    /// that cannot be had.
    pub fn begin_cover(&self, owner: &Arc<Owner>, index: IndexId, mode: LockMode, key: &[u8]) -> Option<CoverId> {
        let id = self.covers.begin(owner, index, mode.row(), key)?;
        let mut held = owner.held.lock();
        if held.closed {
            drop(held);
            self.covers.remove(index, id);
            return None;
        }
        if !held.covers.contains(&index) {
            held.covers.push(index);
        }
        Some(id)
    }

    /// Locks `key`, the next one in the direction of a cover of `owner`. To be called before it is
    /// read. False, and nothing is locked, if that takes more than a look.
    pub fn cover_row(&self, owner: &Owner, index: IndexId, id: CoverId, key: &[u8]) -> bool {
        let Some(mode) = self.covers.extend(owner, index, id, key) else { return false };
        let row = self.row(index, key);
        let rows = self.shard(&row).lock();
        let busy = rows.get(&row).is_some_and(|queue| matches!(queue.verdict(owner, mode), Verdict::Busy { .. }));
        drop(rows);
        if busy || matches!(self.table_state(owner, index, mode.of_rows()), TableState::Busy) {
            self.uncover_row(index, id);
            return false;
        }
        true
    }

    /// Takes the last [`LockManager::cover_row`] back.
    pub fn uncover_row(&self, index: IndexId, id: CoverId) {
        self.covers.go_back(index, id);
    }

    /// Locks the rows under each exclusive cover of `owner`, which reads no more, one by one, and
    /// removes the cover: to others it is a lock on the keys between the rows, too. `each_row`
    /// calls its last argument with the key of each row in a range, as long as that returns true,
    /// and returns whether there is no further one. A cover over more rows than there is memory for
    /// stays, without locks on the rows: they would keep that memory from others.
    pub fn dissolve_covers(
        &self,
        owner: &Arc<Owner>,
        each_row: impl Fn(IndexId, &KeyRange, &mut dyn FnMut(&[u8]) -> bool) -> bool,
    ) {
        let covers = self.covers.exclusive_of(owner.serial());
        for (index, id, range) in &covers {
            let mut lock = |key: &[u8]| {
                self.lock_covered(owner, *index, key);
                self.memory() <= self.budget
            };
            if each_row(*index, range, &mut lock) {
                self.covers.remove(*index, *id);
            } else {
                self.leave_to_cover(owner, *index, range);
            }
        }
        if !covers.is_empty() {
            // A thread that has found a cover enters the lock that it stands for under the mutex of
            // the row's shard: the lock is among those of `owner` after this.
            self.shards.iter().for_each(|shard| drop(shard.lock()));
        }
    }

    /// Enters the lock that `owner` has on `key` by a cover, as a thread does that would wait for
    /// it.
    fn lock_covered(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8]) {
        let row = self.row(index, key);
        let mut rows = self.shard(&row).lock();
        if !rows.get(&row).is_some_and(|queue| queue.conflicts(owner, Mode::Exclusive)) {
            self.grant_row(&mut rows, owner, &row, Mode::Exclusive);
        }
    }

    /// Gives up the locks of `owner` on rows in `range`, for which its exclusive cover stands.
    /// Where others wait, they were promised that this lock is what they wait for.
    fn leave_to_cover(&self, owner: &Owner, index: IndexId, range: &KeyRange) {
        let rows: Vec<_> = {
            let mut held = owner.held.lock();
            let is_covered = |(of, key): &(IndexId, Arc<[u8]>)| *of == index && range.contains(key);
            let (rows, others) = std::mem::take(&mut held.rows).into_iter().partition(is_covered);
            held.rows = others;
            rows
        };
        let is_kept = |(_, key): &(IndexId, Arc<[u8]>)| !self.release_uncontended(owner, index, key, Mode::Exclusive);
        let kept: Vec<_> = rows.into_iter().filter(is_kept).collect();
        owner.held.lock().rows.extend(kept);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use holdfast_metrics::Metrics;

    use super::*;
    use crate::LockMode::{Exclusive, Shared};
    use crate::LockWait;

    /// An insert of a key that is there only has to know that the entry stays.
    #[test]
    fn a_shared_cover_is_in_the_way_of_changes_only() {
        const T: IndexId = IndexId(1);
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [reader, other] = [1, 2].map(Owner::new);
        for mode in [Shared, Exclusive] {
            manager.lock_row(&reader, T, b"a", mode, LockWait::NoWait, None).unwrap();
            let cover = manager.begin_cover(&reader, T, mode, b"a").unwrap();
            assert!(manager.cover_row(&reader, T, cover, b"b"));
            for key in [b"a", b"b"] {
                assert!(manager.blocked(&other, T, key));
                assert_eq!(manager.blocked_for(&other, T, key, Shared), mode == Exclusive);
            }
            assert!(!manager.blocked(&reader, T, b"b"));
        }
        manager.release_all(&reader);
        assert!(!manager.blocked(&other, T, b"b"));
    }

    #[test]
    fn the_owner_of_a_cover_holds_the_rows_under_it() {
        const T: IndexId = IndexId(1);
        for mode in [Shared, Exclusive] {
            let manager = LockManager::new(1 << 20, Metrics::new());
            let [reader, other] = [1, 2].map(Owner::new);
            manager.lock_row(&reader, T, b"a", mode, LockWait::NoWait, None).unwrap();
            let cover = manager.begin_cover(&reader, T, mode, b"a").unwrap();
            assert!(manager.cover_row(&reader, T, cover, b"c"));
            manager.lock_row(&other, T, b"d", Exclusive, LockWait::NoWait, None).unwrap();
            assert!(manager.holds_row(&reader, T, b"c") && !manager.holds_row(&reader, T, b"d"));
            assert!(!manager.holds_row(&other, T, b"c"));
        }
    }

    #[test]
    fn a_cover_that_is_dissolved_leaves_its_rows_locked_and_no_other_key() {
        const T: IndexId = IndexId(1);
        let [owner, other] = [1, 2].map(Owner::new);
        for (memory, keeps_between) in [(1 << 20, false), (0, true)] {
            let manager = LockManager::new(memory, Metrics::new());
            manager.lock_row(&owner, T, b"a", Exclusive, LockWait::NoWait, None).unwrap();
            let cover = manager.begin_cover(&owner, T, Exclusive, b"a").unwrap();
            assert!(manager.cover_row(&owner, T, cover, b"c"));
            manager.dissolve_covers(&owner, |index, range, lock| {
                assert!(index == T && range.contains(b"b") && !range.contains(b"d"));
                [b"a", b"c"].iter().all(|key| lock(*key))
            });
            for (key, stays) in [(b"a", true), (b"b", keeps_between), (b"c", true)] {
                assert_eq!(manager.blocked(&other, T, key), stays, "{memory} bytes");
            }
            manager.release_reads(&owner, |_, _| true);
            assert!(manager.blocked(&other, T, b"c"));
            manager.give_up_locks(&owner, None);
            assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
        }
    }

    /// The rows that had been locked before there was no room for more kept all of the memory, and
    /// the locks of others became table locks.
    #[test]
    fn a_cover_that_stays_leaves_the_memory_to_others() {
        const T: IndexId = IndexId(1);
        let [owner, other] = [1, 2].map(Owner::new);
        let manager = LockManager::new(8 << 10, Metrics::new());
        let keys: Vec<_> = (0..100u32).map(u32::to_be_bytes).collect();
        manager.lock_row(&owner, T, &keys[0], Exclusive, LockWait::NoWait, None).unwrap();
        let cover = manager.begin_cover(&owner, T, Exclusive, &keys[0]).unwrap();
        assert!(keys[1..].iter().all(|key| manager.cover_row(&owner, T, cover, key)));
        let before = manager.memory();
        manager.dissolve_covers(&owner, |_, _, lock| keys.iter().all(|key| lock(key)));
        assert!(manager.memory() <= before, "{} bytes, {before} before", manager.memory());
        manager.release_reads(&owner, |_, _| true);
        assert!(keys.iter().all(|key| manager.blocked(&other, T, key)));
        manager.release_all(&owner);
        assert!(!manager.blocked(&other, T, &keys[1]));
        assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
    }

    /// One on any table once kept all cursors from locking rows as one.
    #[test]
    fn a_table_lock_is_in_the_way_on_its_own_table_only() {
        let [t, u] = [1, 2].map(IndexId);
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [scanner, other] = [1, 2].map(Owner::new);
        assert!(manager.lock_table(&other, u, Exclusive));
        manager.lock_row(&scanner, t, b"a", Exclusive, LockWait::NoWait, None).unwrap();
        let cover = manager.begin_cover(&scanner, t, Exclusive, b"a").unwrap();
        assert!(manager.cover_row(&scanner, t, cover, b"b"));
        assert!(manager.lock_table(&other, t, Shared), "it leaves out what is locked");
        assert!(!manager.cover_row(&scanner, t, cover, b"c"));
        assert!(manager.blocked(&other, t, b"b") && !manager.blocked_for(&other, t, b"c", Shared));
    }

    /// A thread that came to a row while the cover was being released entered a lock for it, which
    /// stayed until the end of the prepared transaction.
    #[test]
    fn no_lock_is_entered_for_a_cover_whose_owner_has_released_its_reads() {
        const T: IndexId = IndexId(1);
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [reader, other] = [1, 2].map(Owner::new);
        manager.lock_row(&reader, T, b"a", Shared, LockWait::NoWait, None).unwrap();
        manager.release_reads(&reader, |_, _| true);
        // As if it were there still.
        manager.begin_cover(&reader, T, Shared, b"a").unwrap();
        let at_once = LockWait::For(std::time::Duration::ZERO);
        assert!(!manager.lock_row(&other, T, b"a", Exclusive, at_once, None).unwrap());
        assert_eq!(manager.row_mode(&reader, T, b"a"), None);
        manager.release_all(&reader);
        manager.release_all(&other);
        assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
    }
}
