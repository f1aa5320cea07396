//! Locks that keep inserts out of ranges.

use std::sync::Arc;

use holdfast_base::{Error, IndexId, Result};

use crate::interval::KeyRange;
use crate::manager::LockManager;
use crate::mode::LockWait;
use crate::owner::Owner;
use crate::reading::RangeId;

impl LockManager {
    /// True if a range lock of another transaction forbids `owner` to insert `key`. Asked under the
    /// latch of its leaf.
    #[must_use]
    pub fn range_blocked(&self, owner: &Owner, index: IndexId, key: &[u8]) -> bool {
        self.ranges.covered(owner, index, key)
    }

    /// Waits until no range of others covers `key`. The answer may be out of date at once: ask
    /// again under the latch. A waiter stays in the queue until [`LockManager::has_inserted`].
    ///
    /// # Errors
    /// The errors of [`LockManager::lock_row`].
    pub fn wait_range(&self, owner: &Arc<Owner>, index: IndexId, key: &[u8], wait: LockWait) -> Result<()> {
        if wait.limit().is_none() {
            return if self.ranges.covered(owner, index, key) { Err(Error::WouldBlock) } else { Ok(()) };
        }
        self.narrow_readings(owner);
        if self.ranges.enqueue(owner, index, key)? {
            self.wait(owner, wait, &|| self.ranges.remove_inserter(owner, index, key))
        } else {
            Ok(())
        }
    }

    /// `owner`, which has waited in [`LockManager::wait_range`] for `key`, has inserted it, or has
    /// given up.
    pub fn has_inserted(&self, owner: &Owner, index: IndexId, key: &[u8]) {
        self.ranges.remove_inserter(owner, index, key);
    }

    /// Keeps inserts of others out of `range` until the owner ends. To be called before the range
    /// is read.
    pub(crate) fn lock_range(&self, owner: &Arc<Owner>, index: IndexId, range: KeyRange) -> Option<RangeId> {
        let (id, cost) = self.ranges.register(owner, index, range)?;
        self.account(cost as isize);
        let mut held = owner.held.lock();
        if held.closed {
            drop(held);
            self.give_up_range(owner, index, id);
            return None;
        }
        if !held.ranges.contains(&index) {
            held.ranges.push(index);
        }
        drop(held);
        if self.memory() > self.budget {
            // One range over all that was read instead of many.
            let freed = self.ranges.join_settled(owner, index);
            self.account(-(freed as isize));
        }
        Some(id)
    }

    /// As [`LockManager::lock_range`], after those that already wait to insert into it.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the owner was killed, that of [`Owner::stop`] if the database
    /// stopped.
    pub(crate) fn lock_range_in_turn(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        range: KeyRange,
        wait: LockWait,
    ) -> Result<Option<RangeId>> {
        // Transactions that come in a given order are not to wait for later ones.
        let is_ordered = self.is_ordered();
        if wait.limit().is_some() && !is_ordered && !self.ranges.inserters(owner, index, &range).is_empty() {
            self.narrow_readings(owner);
            if self.ranges.enqueue_reader(owner, index, &range)? {
                let waited = self.wait(owner, wait, &|| {});
                self.ranges.remove_reader(owner, index);
                if !matches!(waited, Err(Error::LockTimeout)) {
                    waited?;
                }
            }
        }
        Ok(self.lock_range(owner, index, range))
    }

    /// The reader of a range goes on behind what it had read: `range` is all of it. To be called
    /// before it reads. False if the range is not there by itself any more: it is a part of a
    /// settled one, or the owner has ended.
    pub(crate) fn widen_range(&self, owner: &Owner, index: IndexId, id: RangeId, range: KeyRange) -> bool {
        let Some(change) = self.ranges.widen(owner, index, id, range) else { return false };
        self.account(change);
        true
    }

    /// A range is not going to be read, or not now.
    pub(crate) fn give_up_range(&self, owner: &Owner, index: IndexId, id: RangeId) {
        let freed = self.ranges.give_up(owner, index, id);
        self.account(-(freed as isize));
    }

    /// The reader of a range is done with it and has read all of it, or only `read`. To be called
    /// before the owner ends.
    pub(crate) fn settle_range(&self, owner: &Owner, index: IndexId, id: RangeId, read: Option<KeyRange>) {
        let change = self.ranges.settle(owner, index, id, read);
        self.account(change);
    }
}
