//! Inserting an entry that has to be the only one of its index key, and reading what refuses an
//! insert.
//!
//! # Protocol
//! 1. Under the mutex of the stripe of the index key, the inserter walks the entries of that key.
//!    If an active transaction wrote one of them, the inserter releases the mutex, waits for that
//!    transaction, and starts over.
//! 2. A live entry of a committed transaction refuses the insert: [`Error::DuplicateKey`].
//! 3. Otherwise the entry goes in (see [`crate::entry::change`]) before the mutex is released.
//!
//! A caller that reads what has refused its insert locks that entry, and starts over if the entry
//! has gone since.
//!
//! The walk and the lock look for the entry in different ways: by its place, and by its key. On
//! damaged data only one of them may find it, so [`Rereads`] bounds both loops.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{Error, Result};
use holdfast_lock::LockMode;
use holdfast_pool::AccessKind;
use holdfast_tree::Direction;

use crate::entry::change::{Op, Step, Way};
use crate::entry::index::TableIndex;
use crate::entry::locked::{EntryRef, is_still};
use crate::entry::reread::Rereads;
use crate::entry::values::NewValue;
use crate::entry::visibility::split;
use crate::txn::{Duplicate, Txn};

impl Txn {
    /// Inserts an entry of a unique secondary index: no other live entry may have the same index
    /// key, the first `prefix_len` bytes of `key`. An entry that begins with these bytes and says
    /// that its index key is a longer one is not in the way. Entries of others that are not
    /// committed yet are waited for.
    ///
    /// # Errors
    /// The errors of [`Txn::insert`].
    pub fn insert_unique<'v>(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        prefix_len: usize,
        value: impl Into<NewValue<'v>>,
    ) -> Result<()> {
        self.insert_unique_waiting(index, key, prefix_len, value, LockMode::Shared)
    }

    /// As [`Txn::insert_unique`], for a caller that is going to lock the entry that is in the way:
    /// it waits for entries of others that are not committed yet with a lock of this `mode`, so
    /// that the lock need not be upgraded.
    ///
    /// # Errors
    /// The errors of [`Txn::insert`].
    pub fn insert_unique_waiting<'v>(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        prefix_len: usize,
        value: impl Into<NewValue<'v>>,
        mode: LockMode,
    ) -> Result<()> {
        self.check_writable(key)?;
        self.duplicate = None;
        let value = value.into();
        let prefix = key.get(..prefix_len).ok_or_else(|| Error::invalid("the prefix is longer than the key"))?;
        let system = Arc::clone(&self.system);
        let (mut way, mut rereads) = (Way::default(), Rereads::default());
        loop {
            let stripe = system.unique_stripe(index.id(), prefix).lock();
            if holdfast_base::planted!("unique-not-asked") {
                return self.insert(index, key, value);
            }
            if let Some((other, version)) = self.probe_unique(index, key, prefix)? {
                drop(stripe);
                rereads.again_by_key(index, &other, version)?;
                self.wait_for_writer(index, &other, version.txn, mode)?;
                continue;
            }
            let op = Op::Insert(value, mode);
            match self.change_once(index, key, op, None).inspect_err(|e| self.refused(index, key, op, &way, e))? {
                Step::Done(_) => return Ok(()),
                Step::Blocked(blocker) => {
                    drop(stripe);
                    self.clear_way(index, key, blocker, &mut way)?;
                }
            }
        }
    }

    /// As [`Txn::insert`], or as [`Txn::insert_unique`] with the length of an index key. On
    /// [`Error::DuplicateKey`] the entry that is in the way is locked in this `mode`, so that it
    /// stays.
    ///
    /// # Errors
    /// The errors of [`Txn::insert`]; the errors of [`Txn::lock_entry`].
    pub fn insert_or_lock<'v>(
        &mut self,
        index: &TableIndex,
        key: &[u8],
        unique: Option<usize>,
        value: impl Into<NewValue<'v>>,
        mode: LockMode,
    ) -> Result<()> {
        let value = value.into();
        let mut rereads = Rereads::default();
        loop {
            let inserted = match unique {
                Some(prefix_len) => self.insert_unique_waiting(index, key, prefix_len, value, mode),
                None => self.insert_waiting(index, key, value, mode),
            };
            if !matches!(inserted, Err(Error::DuplicateKey)) {
                return inserted;
            }
            // Of an earlier insert, if this one is no unique one.
            let other = unique.and_then(|_| self.duplicate.take());
            if self.lock_entry(index, other.as_ref().map_or(key, |(other, _)| other), mode)? {
                return inserted;
            }
            // It has gone since. The insert and the lock search for `key` in the same way.
            if let Some((other, version)) = other {
                rereads.again_by_key(index, &other, version)?;
            }
        }
    }

    /// Looks for another entry whose index key is `prefix`. Live: an error. Of an active
    /// transaction: its key and version.
    fn probe_unique(&mut self, index: &TableIndex, key: &[u8], prefix: &[u8]) -> Result<Option<Duplicate>> {
        let system = &self.system;
        let acc = system.store.pool().access(AccessKind::Point).with_stats(index.access_stats());
        let mut cursor = index.tree().cursor(&acc);
        cursor.seek(Bound::Included(prefix), Direction::Forward);
        let (mut before, mut rereads) = (system.map.moment(), Rereads::default());
        while let Some((found, payload)) = cursor.next()? {
            if !found.starts_with(prefix) {
                break;
            }
            let header = split(index, payload)?.0;
            let is_others = header.txn != self.id;
            // A delete mark does not say where the index key ends.
            let is_same_key = if header.deleted {
                Ok(true)
            } else {
                system.has_index_key_of(index, found, payload, prefix.len(), &acc)
            };
            if matches!(is_same_key, Ok(true)) && is_others && system.map.is_active(header.txn) {
                return Ok(Some((found.to_vec(), header)));
            }
            // The chain of a large entry may have been freed while it was read.
            let is_doubtful = header.overflow || is_others && system.map.is_doubtful(header.txn, before);
            if is_doubtful && !is_still(EntryRef::new(index, found), Some(payload), &acc)? {
                // A live entry may have become a deleted one, or a deleted one a live one.
                rereads.again(index, found, Some(header))?;
                let again = found.to_vec();
                before = system.map.moment();
                cursor.seek(Bound::Included(&again), Direction::Forward);
                continue;
            }
            if is_same_key? && !header.deleted && found != key {
                self.duplicate = Some((found.to_vec(), header));
                return Err(Error::DuplicateKey);
            }
        }
        Ok(None)
    }
}
