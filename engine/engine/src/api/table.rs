//! Tables within a transaction: reading ([`ReadTable`]) and writing ([`Table`]).
//!
//! Values are owned or copied into the caller's buffer, never borrowed from the cache, so that no
//! caller can hold a page. A failed call leaves no half effect: whatever it had done, also in the
//! indexes, is undone before it returns.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::Arc;

use crate::Result;
use crate::api::index::Index;
use crate::api::range::{Cursor, Range};
use crate::instance::options::{ReadOptions, WaitMode};
use crate::rows::definition::{IndexDefinition, IndexSpec, decode_value};
use crate::rows::encoding::{Row, encode, encode_bounds, encode_key, undecodable, with_key};
use crate::rows::types::{Key, Value};
use crate::schema::handle::TableRef;
use crate::session::transaction::{LockKind, RawCursor, Transaction};

/// A table as a transaction sees it, for reading.
///
/// In a write transaction it also sees that transaction's own changes.
pub struct ReadTable<'t, K: Key, V: Value> {
    pub(crate) transaction: &'t Transaction,
    pub(crate) handle: TableRef<'t>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'t, K: Key, V: Value> ReadTable<'t, K, V> {
    pub(crate) fn new(transaction: &'t Transaction, handle: TableRef<'t>) -> ReadTable<'t, K, V> {
        ReadTable { transaction, handle, types: PhantomData }
    }

    /// The value under `key`.
    ///
    /// # Errors
    /// [`crate::Error::SnapshotTooOld`], [`crate::Error::DamagedPage`], [`crate::Error::Io`]; under
    /// SERIALIZABLE also those of [`Table::get_for_share`].
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        let mut value = Vec::new();
        if !self.get_into(key, &mut value)? {
            return Ok(None);
        }
        self.decode(&value).map(Some)
    }

    /// Replaces the content of `value` by the encoded value under `key`; returns true if there is
    /// one. For callers that decode for themselves and want no allocation per row.
    ///
    /// # Errors
    /// The errors of [`ReadTable::get`].
    pub fn get_into(&self, key: K::Ref<'_>, value: &mut Vec<u8>) -> Result<bool> {
        with_key::<K, _>(key, |key| self.transaction.get(&self.handle, key, value))
    }

    /// True if there is a row under `key`. Reads no more than the row's place in the table,
    /// however large the value is.
    ///
    /// # Errors
    /// The errors of [`ReadTable::get`].
    pub fn contains(&self, key: K::Ref<'_>) -> Result<bool> {
        with_key::<K, _>(key, |key| self.transaction.contains(&self.handle, key))
    }

    /// The row with the smallest key.
    ///
    /// # Errors
    /// The errors of [`ReadTable::get`].
    pub fn first(&self) -> Result<Option<Row<K, V>>> {
        self.range(..)?.next().transpose()
    }

    /// The row with the largest key.
    ///
    /// # Errors
    /// The errors of [`ReadTable::get`].
    pub fn last(&self) -> Result<Option<Row<K, V>>> {
        self.range(..)?.next_back().transpose()
    }

    /// The rows whose keys lie in `range`, in order; also from the back with [`Iterator::rev`].
    ///
    /// # Errors
    /// The errors of [`ReadTable::get`]; later ones are items of the iterator, which then ends.
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<Range<'t, K, V>> {
        self.range_with(range, &ReadOptions::default())
    }

    /// [`ReadTable::range`] with options.
    ///
    /// # Errors
    /// The errors of [`ReadTable::range`].
    pub fn range_with<'k>(
        &self,
        range: impl RangeBounds<K::Ref<'k>>,
        options: &ReadOptions,
    ) -> Result<Range<'t, K, V>> {
        Ok(Range::new(self.transaction, self.handle.clone(), encode_bounds::<K>(&range), options, None))
    }

    /// All rows in order.
    ///
    /// # Errors
    /// The errors of [`ReadTable::range`].
    pub fn iter(&self) -> Result<Range<'t, K, V>> {
        self.range(..)
    }

    /// A cursor that fills the caller's buffers with encoded keys and values: the cheapest way
    /// through many rows.
    #[must_use]
    pub fn cursor(&self, options: &ReadOptions) -> Cursor<'t, K, V> {
        Cursor::new(RawCursor::new(self.transaction, self.handle.clone(), options, None))
    }

    /// A secondary index of the table.
    ///
    /// # Errors
    /// [`crate::Error::TableMismatch`] if the table has no index of that name and key type.
    pub fn index<I: Key>(&self, index: &IndexDefinition<K, V, I>) -> Result<Index<'t, K, V, I>> {
        let no = self.handle.index_no(index.name(), &I::type_name())?;
        Ok(Index::new(self.transaction, self.handle.clone(), no))
    }

    /// About how many rows there are: from the shape of the tree, without reading it all.
    ///
    /// # Errors
    /// The errors of [`ReadTable::get`].
    pub fn len_estimate(&self) -> Result<u64> {
        self.transaction.estimate(&self.handle, (Bound::Unbounded, Bound::Unbounded))
    }

    /// About how many rows `range` has: from two descents.
    ///
    /// # Errors
    /// The errors of [`ReadTable::get`].
    pub fn estimate<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<u64> {
        self.transaction.estimate(&self.handle, encode_bounds::<K>(&range))
    }

    pub(crate) fn decode(&self, value: &[u8]) -> Result<V::Owned> {
        decode_value::<V>(value).ok_or_else(|| undecodable::<V>(&self.handle.name, "value"))
    }
}

/// A table in a write transaction. It can do all that a [`ReadTable`] can, to which it
/// dereferences.
pub struct Table<'t, K: Key, V: Value> {
    read: ReadTable<'t, K, V>,
    specs: Vec<Arc<IndexSpec>>,
}

impl<'t, K: Key, V: Value> Table<'t, K, V> {
    pub(crate) fn new(read: ReadTable<'t, K, V>, specs: Vec<Arc<IndexSpec>>) -> Table<'t, K, V> {
        Table { read, specs }
    }

    /// The newest committed value under `key`, locked against changes by others until this
    /// transaction ends.
    ///
    /// # Errors
    /// [`crate::Error::LockTimeout`], [`crate::Error::Deadlock`], [`crate::Error::WouldBlock`] as
    /// `wait` demands; with snapshot isolation [`crate::Error::Conflict`] if the row changed since
    /// the snapshot; the errors of [`ReadTable::get`].
    pub fn get_for_update(&self, key: K::Ref<'_>, wait: WaitMode) -> Result<Option<V::Owned>> {
        self.get_locked(key, LockKind::Exclusive, wait)
    }

    /// The newest committed value under `key`; others may read and share it, but not change it,
    /// until this transaction ends.
    ///
    /// # Errors
    /// The errors of [`Table::get_for_update`].
    pub fn get_for_share(&self, key: K::Ref<'_>, wait: WaitMode) -> Result<Option<V::Owned>> {
        self.get_locked(key, LockKind::Shared, wait)
    }

    fn get_locked(&self, key: K::Ref<'_>, kind: LockKind, wait: WaitMode) -> Result<Option<V::Owned>> {
        let mut value = Vec::new();
        if !self.transaction.get_locked(&self.handle, &encode_key::<K>(key), kind, wait, &mut value)? {
            return Ok(None);
        }
        self.decode(&value).map(Some)
    }

    /// The rows of a range, each locked against changes when it is reached.
    ///
    /// # Errors
    /// The errors of [`ReadTable::range`]; the items also have the errors of
    /// [`Table::get_for_update`].
    pub fn range_for_update<'k>(&self, range: impl RangeBounds<K::Ref<'k>>, wait: WaitMode) -> Result<Range<'t, K, V>> {
        let (transaction, handle) = (self.read.transaction, self.handle.clone());
        let lock = Some((LockKind::Exclusive, wait));
        Ok(Range::new(transaction, handle, encode_bounds::<K>(&range), &ReadOptions::default(), lock))
    }

    /// The rows of a range, each locked for sharing when it is reached.
    ///
    /// # Errors
    /// The errors of [`Table::range_for_update`].
    pub fn range_for_share<'k>(&self, range: impl RangeBounds<K::Ref<'k>>, wait: WaitMode) -> Result<Range<'t, K, V>> {
        let (transaction, handle) = (self.read.transaction, self.handle.clone());
        let lock = Some((LockKind::Shared, wait));
        Ok(Range::new(transaction, handle, encode_bounds::<K>(&range), &ReadOptions::default(), lock))
    }

    /// Adds a row that must not exist yet. Under SERIALIZABLE the one that forbids it is locked for
    /// sharing.
    ///
    /// # Errors
    /// [`crate::Error::DuplicateKey`] if there is one under `key`, or a unique index forbids the
    /// row, which [`crate::WriteTransaction::refused_key`] names; [`crate::Error::KeyTooLong`],
    /// [`crate::Error::ValueTooLong`], [`crate::Error::LimitReached`], [`crate::Error::DiskFull`];
    /// the errors of [`Table::get_for_update`].
    pub fn insert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        self.transaction.insert(&self.handle, &self.specs, &encode_key::<K>(key), &encode::<V>(value)?)
    }

    /// Adds a row or replaces the value of the one that is there; whether one was there.
    ///
    /// # Errors
    /// The errors of [`Table::insert`]; [`crate::Error::DuplicateKey`] only from a unique index.
    pub fn upsert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        self.transaction.upsert(&self.handle, &self.specs, &encode_key::<K>(key), &encode::<V>(value)?)
    }

    /// Replaces the value under `key`; whether there was one. If not, nothing is done.
    ///
    /// # Errors
    /// The errors of [`Table::upsert`].
    pub fn update(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        self.transaction.update(&self.handle, &self.specs, &encode_key::<K>(key), &encode::<V>(value)?)
    }

    /// Removes the row under `key`; whether there was one.
    ///
    /// # Errors
    /// [`crate::Error::KeyTooLong`], [`crate::Error::LimitReached`], [`crate::Error::DiskFull`]: to
    /// undo it takes room; the errors of [`Table::get_for_update`].
    pub fn delete(&self, key: K::Ref<'_>) -> Result<bool> {
        self.transaction.delete(&self.handle, &self.specs, &encode_key::<K>(key))
    }
}

impl<'t, K: Key, V: Value> Deref for Table<'t, K, V> {
    type Target = ReadTable<'t, K, V>;

    fn deref(&self) -> &ReadTable<'t, K, V> {
        &self.read
    }
}

impl<K: Key, V: Value> fmt::Debug for ReadTable<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadTable({})", self.handle.name.clone())
    }
}

impl<K: Key, V: Value> fmt::Debug for Table<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.handle.name.clone())
    }
}
