//! The row locks of one shard: queues by index and key, in one hash table.
//!
//! A statement over many rows enters and gives up a lock for each, so what a lock costs is counted
//! in looks at memory that is in no cache: the hash of a row is computed once per request and kept
//! with the lock, a queue of one holder takes no memory of its own, and rows whose keys differ in
//! nothing but the last byte - neighbours, as a rule - lie side by side in the table.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use holdfast_base::IndexId;

use crate::queue::Queue;

/// A shard that has no locks any more keeps memory for so many.
const CAPACITY_KEPT: usize = 64;

/// A row that a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    hash: u64,
    pub index: IndexId,
    pub key: &'a [u8],
}

impl<'a> Row<'a> {
    pub fn new(hasher: &impl BuildHasher, index: IndexId, key: &'a [u8]) -> Row<'a> {
        // Consecutive hashes are consecutive places; the highest bits, by which a table tells those
        // in one group apart, must differ.
        let (last, others) = key.split_last().map_or((0, key), |(last, others)| (u64::from(*last), others));
        let hash = hasher.hash_one((index.0, others)).wrapping_add(last) ^ (last << 57);
        Row { hash, index, key }
    }

    /// Which of `shards` shards it is in: bits of the hash that the tables of the shards do not
    /// look at.
    pub fn shard(&self, shards: usize) -> usize {
        (self.hash >> 32) as usize % shards
    }

    fn is(&self, lock: &RowLock) -> bool {
        lock.hash == self.hash && lock.index == self.index && *lock.key == *self.key
    }
}

/// A row that a transaction has locked.
#[derive(Debug)]
pub(crate) struct RowLock {
    hash: u64,
    pub index: IndexId,
    pub key: Arc<[u8]>,
    pub queue: Queue,
}

/// The locked rows of a shard. A queue that is empty is taken out by [`Rows::change`].
#[derive(Debug, Default)]
pub(crate) struct Rows {
    table: HashTable<RowLock>,
}

impl Rows {
    pub fn get(&self, row: &Row<'_>) -> Option<&Queue> {
        self.table.find(row.hash, |lock| row.is(lock)).map(|lock| &lock.queue)
    }

    pub fn get_mut(&mut self, row: &Row<'_>) -> Option<&mut RowLock> {
        self.table.find_mut(row.hash, |lock| row.is(lock))
    }

    /// The lock of `row`, entered with an empty queue if there is none.
    pub fn enter(&mut self, row: &Row<'_>) -> &mut RowLock {
        match self.table.entry(row.hash, |lock| row.is(lock), |lock| lock.hash) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let (hash, index) = (row.hash, row.index);
                entry.insert(RowLock { hash, index, key: row.key.into(), queue: Queue::default() }).into_mut()
            }
        }
    }

    /// Changes the queue of `row`, if there is one.
    pub fn change(&mut self, row: &Row<'_>, change: impl FnOnce(&mut RowLock)) {
        let Ok(mut entry) = self.table.find_entry(row.hash, |lock| row.is(lock)) else { return };
        change(entry.get_mut());
        if entry.get().queue.is_empty() {
            entry.remove();
            if self.table.is_empty() && self.table.capacity() > CAPACITY_KEPT {
                self.table = HashTable::new();
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &RowLock> {
        self.table.iter()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::mode::Mode;
    use crate::owner::Owner;

    #[test]
    fn a_lock_stays_as_long_as_its_queue_holds_somebody() {
        let (mut rows, owner) = (Rows::default(), Owner::new(1));
        let hasher = holdfast_base::HashState::default();
        let keys: Vec<[u8; 4]> = (0..1_000u32).map(u32::to_be_bytes).collect();
        let row = |index, key| Row::new(&hasher, IndexId(index), key);
        for key in &keys {
            rows.enter(&row(1, key)).queue.grant(&owner, Mode::Shared);
            rows.enter(&row(1, key)).queue.grant(&owner, Mode::Exclusive);
        }
        assert_eq!(rows.iter().count(), keys.len());
        assert_eq!(rows.get(&row(1, &keys[7])).unwrap().mode_of(&owner), Some(Mode::Exclusive));
        assert!(rows.get(&row(2, &keys[7])).is_none() && rows.get(&row(1, b"else")).is_none());
        for key in &keys {
            rows.change(&row(1, key), |_| {});
            assert!(rows.get(&row(1, key)).is_some());
            rows.change(&row(1, key), |lock| {
                assert_eq!(*lock.key, *key);
                assert!(lock.queue.release(&owner));
            });
            assert!(rows.get(&row(1, key)).is_none());
        }
        assert_eq!((rows.iter().count(), rows.table.capacity()), (0, 0), "it gave its memory back");
    }
}
