//! Rows that a scan has gone through, locked as one.
//!
//! A lock that is entered for a row reads memory that is in no cache, when it is entered and again
//! when it is released. A cursor that locks many rows one after the other has a [`Cover`] instead:
//! from the row at which it began to the one that it has reached, in either direction. The cover
//! stands for a lock on each row in it. A transaction that comes to such a row, and would have to
//! wait for it, enters the lock on behalf of the cover's owner first, as with a lock by transaction
//! id; from then on the lock is one like any other, to be waited for and to be released.
//!
//! # Protocol
//! * The cursor extends its cover to a row *before* it reads the row. If another transaction has
//!   the row, or waits for it, the cover goes back to where it was and the row is locked the
//!   ordinary way. So it does if the row, when it is read, has been written by a transaction that
//!   is still active.
//! * No two covers that conflict reach over one row: that is looked at and decided under one mutex.
//! * A transaction that locks a row reads the covers under the mutex of the row's shard; the cursor
//!   reads the shard after it has extended its cover: one of the two sees the other.
//! * Writers look at the covers under the latch of the leaf, the cursor reads the leaf after it has
//!   extended its cover: ditto.
//! * A lock is entered for the owner of a cover only where it does not conflict with those that are
//!   there: then the cover is just going back.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::IndexId;
use holdfast_base::sync::atomic::{AtomicU64, Ordering, fence};
use smallvec::SmallVec;

use crate::by_index::ByIndex;
use crate::info::Serial;
use crate::interval::KeyRange;
use crate::mode::Mode;
use crate::owner::Owner;

/// Maximum covers per index: every lock request scans them linearly.
const COVERS_MAX: usize = 8;

/// Names a cover: a lock on all rows that a scan has gone through, from one key to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverId(u64);

#[derive(Debug)]
struct Cover {
    id: CoverId,
    owner: Arc<Owner>,
    mode: Mode,
    first: Vec<u8>,
    last: Vec<u8>,
    /// The end that the last extension moved, and what it was.
    moved: Option<Moved>,
    before: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Moved {
    First,
    Last,
}

impl Cover {
    fn contains(&self, key: &[u8]) -> bool {
        *self.first <= *key && *key <= *self.last
    }

    fn range(&self) -> KeyRange {
        KeyRange::new(Bound::Included(&self.first), Bound::Included(&self.last))
    }

    fn extend(&mut self, key: &[u8]) {
        let (end, moved) = if *key > *self.last {
            (&mut self.last, Moved::Last)
        } else if *key < *self.first {
            (&mut self.first, Moved::First)
        } else {
            self.moved = None;
            return;
        };
        std::mem::swap(end, &mut self.before);
        end.clear();
        end.extend_from_slice(key);
        self.moved = Some(moved);
    }

    fn go_back(&mut self) {
        match self.moved.take() {
            Some(Moved::First) => std::mem::swap(&mut self.first, &mut self.before),
            Some(Moved::Last) => std::mem::swap(&mut self.last, &mut self.before),
            None => {}
        }
    }

    fn conflicts(&self, owner: &Owner, key: &[u8], mode: Mode) -> bool {
        self.owner.serial() != owner.serial() && !self.mode.compatible(mode) && self.contains(key)
    }
}

/// The covers of a database.
#[derive(Debug)]
pub(crate) struct Covers {
    by_index: ByIndex<Vec<Cover>>,
    next_id: AtomicU64,
}

impl Covers {
    pub fn new() -> Covers {
        Covers { by_index: ByIndex::new(), next_id: AtomicU64::new(1) }
    }

    /// A cover that begins at `key`, which `owner` has locked; `None` if the index has enough of
    /// them.
    pub fn begin(&self, owner: &Arc<Owner>, index: IndexId, mode: Mode, key: &[u8]) -> Option<CoverId> {
        let shard = self.by_index.shard(index);
        let mut indexes = shard.indexes.lock();
        let covers = indexes.entry(index).or_default();
        if covers.len() >= COVERS_MAX {
            return None;
        }
        let id = CoverId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (owner, first, last) = (Arc::clone(owner), key.to_vec(), key.to_vec());
        covers.push(Cover { id, owner, mode, first, last, moved: None, before: Vec::new() });
        shard.count.fetch_add(1, Ordering::SeqCst);
        drop(indexes);
        // Pairs with the fence of `used_shard`: the leaf is read after the cover can be seen.
        fence(Ordering::SeqCst);
        Some(id)
    }

    /// Extends a cover to `key`, unless another one that conflicts reaches over it. Returns its
    /// mode.
    pub fn extend(&self, owner: &Owner, index: IndexId, id: CoverId, key: &[u8]) -> Option<Mode> {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let covers = indexes.get_mut(&index)?;
        let at = covers.iter().position(|cover| cover.id == id)?;
        let mode = covers[at].mode;
        if covers.iter().any(|cover| cover.conflicts(owner, key, mode)) {
            return None;
        }
        covers[at].extend(key);
        Some(mode)
    }

    /// Takes the last extension back.
    pub fn go_back(&self, index: IndexId, id: CoverId) {
        let mut indexes = self.by_index.shard(index).indexes.lock();
        let mut covers = indexes.get_mut(&index).into_iter().flatten();
        if let Some(cover) = covers.find(|cover| cover.id == id) {
            cover.go_back();
        }
    }

    /// Whose covers keep `owner` from locking `key`, with their modes. To be called under the mutex
    /// of the row's shard, or the latch of its leaf.
    pub fn conflicting(
        &self,
        owner: &Owner,
        index: IndexId,
        key: &[u8],
        mode: Mode,
    ) -> SmallVec<[(Arc<Owner>, Mode); 1]> {
        let Some(shard) = self.by_index.used_shard(index) else { return SmallVec::new() };
        let indexes = shard.indexes.lock();
        let covers = indexes.get(&index).into_iter().flatten();
        covers
            .filter(|cover| cover.conflicts(owner, key, mode))
            .map(|cover| (Arc::clone(&cover.owner), cover.mode))
            .collect()
    }

    /// True if `owner` has locked `key` in `mode`, or a stronger one, by a cover.
    pub fn covers(&self, owner: &Owner, index: IndexId, key: &[u8], mode: Mode) -> bool {
        let Some(shard) = self.by_index.used_shard(index) else { return false };
        let indexes = shard.indexes.lock();
        let mut covers = indexes.get(&index).into_iter().flatten();
        covers.any(|cover| cover.owner.serial() == owner.serial() && cover.mode.covers(mode) && cover.contains(key))
    }

    /// The exclusive covers of an owner: the index of each, and what it reaches over.
    pub fn exclusive_of(&self, owner: Serial) -> Vec<(IndexId, CoverId, KeyRange)> {
        let mut found = Vec::new();
        for part in self.by_index.parts() {
            for (index, covers) in part.iter() {
                let own = covers.iter().filter(|cover| cover.owner.serial() == owner && cover.mode == Mode::Exclusive);
                found.extend(own.map(|cover| (*index, cover.id, cover.range())));
            }
        }
        found
    }

    /// Removes a cover.
    pub fn remove(&self, index: IndexId, id: CoverId) {
        self.retain(index, |cover| cover.id != id);
    }

    /// Removes the covers of an owner in `index`.
    pub fn release(&self, owner: Serial, index: IndexId) {
        self.retain(index, |cover| cover.owner.serial() != owner);
    }

    /// Removes the shared covers of an owner in `index`. Returns whether it has others there.
    pub fn release_shared(&self, owner: Serial, index: IndexId) -> bool {
        let mut others = false;
        self.retain(index, |cover| {
            let is_own = cover.owner.serial() == owner;
            others |= is_own && cover.mode != Mode::Shared;
            !is_own || cover.mode != Mode::Shared
        });
        others
    }

    fn retain(&self, index: IndexId, keep: impl FnMut(&Cover) -> bool) {
        let shard = self.by_index.shard(index);
        let mut indexes = shard.indexes.lock();
        let Some(covers) = indexes.get_mut(&index) else { return };
        let before = covers.len();
        covers.retain(keep);
        shard.count.fetch_sub(before - covers.len(), Ordering::SeqCst);
        if covers.is_empty() {
            indexes.remove(&index);
        }
    }

    /// Calls `visit` with every cover: index, owner, what it reaches over, mode.
    pub fn for_each(&self, mut visit: impl FnMut(IndexId, &Arc<Owner>, KeyRange, Mode)) {
        for part in self.by_index.parts() {
            for (index, covers) in part.iter() {
                for cover in covers {
                    visit(*index, &cover.owner, cover.range(), cover.mode);
                }
            }
        }
    }
}
