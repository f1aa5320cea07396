//! Ranges while cursors read them.
//!
//! A cursor locks its whole range before it reads, so one lock serves it to the end. What lies
//! ahead of it is not read yet: while the cursor's transaction waits, for whatever lock, it need
//! not be locked, and must not be. The transaction that is waited for may insert there; it would
//! wait for the reader, and one of the two would be the victim of a deadlock.
//!
//! # Protocol
//! 1. A cursor publishes each key that it comes to before it looks at the entry
//!    ([`Reading::reach`]).
//! 2. A thread that has to wait narrows the ranges that cursors of its transaction are reading to
//!    what they have reached, *before* its request stands in a queue. So no search for deadlocks
//!    finds the request together with what lies ahead.
//! 3. A cursor whose range is narrow widens it first, then drops what it has read ahead, and reads
//!    on behind the key that it has reached ([`resume_reading`]).
//! 4. A cursor that finds the end of its range settles the range: all of it has been read
//!    ([`end_reading`]).
//!
//! Invariant *what is reached stays locked*: a narrow range goes up to the key that was reached
//! last, that key included, and the cursor goes on behind that very key.
//!
//! [`resume_reading`]: crate::LockManager::resume_reading
//! [`end_reading`]: crate::LockManager::end_reading
//!
//! # Lock order
//! A reading -> the list of its owner, or the mutex of the ranges.

use std::ops::Bound;

use holdfast_base::IndexId;
use holdfast_base::sync::Mutex;
use holdfast_base::sync::atomic::{AtomicBool, Ordering};

use crate::interval::KeyRange;

/// Names one registered range, to settle it when the reader is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeId(pub u64);

/// A range that a cursor reads under a lock, and how far the cursor has come.
#[derive(Debug)]
pub struct Reading {
    pub(crate) index: IndexId,
    pub(crate) whole: KeyRange,
    /// The cursor begins at the upper end.
    backwards: bool,
    is_narrow: AtomicBool,
    pub(crate) reach: Mutex<Reach>,
}

#[derive(Debug)]
pub(crate) struct Reach {
    /// `None` while nothing is locked, and from the moment on that a range which the owner has read
    /// stands for this one.
    pub id: Option<RangeId>,
    key: Option<Vec<u8>>,
}

impl Reading {
    pub(crate) fn new(index: IndexId, whole: KeyRange, backwards: bool, id: RangeId) -> Reading {
        let reach = Mutex::new(Reach { id: Some(id), key: None });
        Reading { index, whole, backwards, is_narrow: AtomicBool::new(false), reach }
    }

    /// The cursor has come to `key`; `None`: to no entry.
    pub fn reach(&self, key: Option<&[u8]>) {
        let mut reach = self.reach.lock();
        match key {
            Some(key) => {
                let reached = reach.key.get_or_insert_default();
                reached.clear();
                reached.extend_from_slice(key);
            }
            None => reach.key = None,
        }
    }

    /// True if what lies ahead of the cursor is open to inserts, since its transaction has waited.
    pub fn is_narrow(&self) -> bool {
        self.is_narrow.load(Ordering::Acquire)
    }

    pub(crate) fn set_narrow(&self, is_narrow: bool) {
        self.is_narrow.store(is_narrow, Ordering::Release);
    }

    /// What the cursor has read; `None` if nothing.
    pub(crate) fn read(&self, reach: &Reach) -> Option<KeyRange> {
        let key = reach.key.as_deref()?;
        let last = Bound::Included(key.into());
        let KeyRange { from, to } = self.whole.clone();
        let read = if self.backwards { KeyRange { from: last, to } } else { KeyRange { from, to: last } };
        debug_assert!(read.contains(key), "invariant: what is reached stays locked");
        Some(read)
    }
}
