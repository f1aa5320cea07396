//! Something for each index that is asked for with every change, and is rarely there: range locks,
//! covers.

use holdfast_base::HashMap;
use holdfast_base::IndexId;
use holdfast_base::sync::atomic::{AtomicUsize, Ordering, fence};
use holdfast_base::sync::{Mutex, MutexGuard};

const SHARDS: usize = 16;

/// Those of some indexes.
#[derive(Debug)]
pub(crate) struct Shard<T> {
    pub indexes: Mutex<HashMap<IndexId, T>>,
    /// How many things there are, to be read without the mutex.
    pub count: AtomicUsize,
}

/// Those of all indexes.
#[derive(Debug)]
pub(crate) struct ByIndex<T> {
    shards: [Shard<T>; SHARDS],
}

impl<T> ByIndex<T> {
    pub fn new() -> ByIndex<T> {
        let shard = |_| Shard { indexes: Mutex::new(HashMap::default()), count: AtomicUsize::new(0) };
        ByIndex { shards: std::array::from_fn(shard) }
    }

    pub fn shard(&self, index: IndexId) -> &Shard<T> {
        &self.shards[index.0 as usize % SHARDS]
    }

    /// All of them, a part at a time.
    pub fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, HashMap<IndexId, T>>> {
        self.shards.iter().map(|shard| shard.indexes.lock())
    }

    /// The shard of `index`, if there is anything in it. The fence pairs with that of a thread that
    /// enters something, counts it, and reads pages then: one of the two sees the other.
    pub fn used_shard(&self, index: IndexId) -> Option<&Shard<T>> {
        fence(Ordering::SeqCst);
        let shard = self.shard(index);
        (shard.count.load(Ordering::SeqCst) > 0).then_some(shard)
    }
}
