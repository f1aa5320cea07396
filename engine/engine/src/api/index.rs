//! Reading a table through one of its secondary indexes.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use holdfast_txn::Direction;

use crate::Result;
use crate::api::range::Ends;
use crate::instance::options::ReadOptions;
use crate::rows::definition::{decode_key, decode_value};
use crate::rows::encoding::{Row, undecodable};
use crate::rows::types::{Key, Value};
use crate::schema::handle::{TableHandle, TableRef};
use crate::session::transaction::Transaction;

/// A secondary index as a transaction sees it; from [`crate::ReadTable::index`].
pub struct Index<'t, K: Key, V: Value, I: Key> {
    transaction: &'t Transaction,
    handle: TableRef<'t>,
    no: usize,
    row: PhantomData<fn() -> (K, V)>,
    key: PhantomData<fn() -> I>,
}

/// The keys of an index entry: its own and that of the row.
pub type Entry<K, I> = (<I as Value>::Owned, <K as Value>::Owned);

/// A row found through an index: index key, primary key, value.
pub type IndexedRow<K, V, I> = (<I as Value>::Owned, <K as Value>::Owned, <V as Value>::Owned);

/// The bounds in the index's tree, whose keys are index key ++ primary key: an index key is
/// self-delimiting and no prefix of another, so all its entries lie between it and it followed by
/// more than any primary key.
fn entry_bounds<'k, I: Key>(range: &impl RangeBounds<I::Ref<'k>>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let encode = |key: &I::Ref<'k>| {
        let mut out = Vec::with_capacity(32);
        I::encode_key(*key, false, &mut out);
        out
    };
    let from = match range.start_bound() {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(encode(key)),
        Bound::Excluded(key) => match after(encode(key)) {
            Some(start) => Bound::Included(start),
            None => return (Bound::Excluded(Vec::new()), Bound::Excluded(Vec::new())),
        },
    };
    let to = match range.end_bound() {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Excluded(key) => Bound::Excluded(encode(key)),
        Bound::Included(key) => after(encode(key)).map_or(Bound::Unbounded, Bound::Excluded),
    };
    (from, to)
}

/// The first byte string behind all that begin with `prefix`. `None` if there is none: all bytes
/// of `prefix` are `ff`, and nothing sorts behind its entries.
fn after(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(prefix);
        }
        prefix.pop();
    }
    None
}

impl<'t, K: Key, V: Value, I: Key> Index<'t, K, V, I> {
    pub(crate) fn new(transaction: &'t Transaction, handle: TableRef<'t>, no: usize) -> Index<'t, K, V, I> {
        Index { transaction, handle, no, row: PhantomData, key: PhantomData }
    }

    /// The first row under the index key `key`: the only one if the index is unique.
    ///
    /// # Errors
    /// The errors of [`crate::ReadTable::get`].
    pub fn get(&self, key: I::Ref<'_>) -> Result<Option<Row<K, V>>> {
        let row = self.range((Bound::Included(key), Bound::Included(key)))?.next().transpose()?;
        Ok(row.map(|(_, key, value)| (key, value)))
    }

    /// The rows whose index keys lie in `range`, in the order of the index; rows with equal index
    /// keys in the order of their primary keys.
    ///
    /// # Errors
    /// The errors of [`crate::ReadTable::range`].
    pub fn range<'k>(&self, range: impl RangeBounds<I::Ref<'k>>) -> Result<IndexRange<'t, K, V, I>> {
        self.range_with(range, &ReadOptions::default())
    }

    /// [`Index::range`] with options.
    ///
    /// # Errors
    /// The errors of [`crate::ReadTable::range`].
    pub fn range_with<'k>(
        &self,
        range: impl RangeBounds<I::Ref<'k>>,
        options: &ReadOptions,
    ) -> Result<IndexRange<'t, K, V, I>> {
        Ok(IndexRange { entries: self.keys_with(range, options)?, types: PhantomData })
    }

    /// The entries whose index keys lie in `range`, answered from the index alone.
    ///
    /// # Errors
    /// The errors of [`crate::ReadTable::range`].
    pub fn keys<'k>(&self, range: impl RangeBounds<I::Ref<'k>>) -> Result<IndexEntries<'t, K, I>> {
        self.keys_with(range, &ReadOptions::default())
    }

    /// [`Index::keys`] with options.
    ///
    /// # Errors
    /// The errors of [`crate::ReadTable::range`].
    pub fn keys_with<'k>(
        &self,
        range: impl RangeBounds<I::Ref<'k>>,
        options: &ReadOptions,
    ) -> Result<IndexEntries<'t, K, I>> {
        let bounds = entry_bounds::<I>(&range);
        let ends = Ends::new(self.transaction, self.handle.clone(), Some(self.no), bounds, options, None);
        Ok(IndexEntries { ends, types: PhantomData })
    }
}

/// The entries of a range of an index; made by [`Index::keys`].
pub struct IndexEntries<'t, K: Key, I: Key> {
    ends: Ends<'t>,
    types: PhantomData<fn() -> (K, I)>,
}

/// The keys of an entry.
fn decode_entry<K: Key, I: Key>(table: &TableHandle, mut entry: &[u8]) -> Result<Entry<K, I>> {
    let index_key = I::decode_key(&mut entry, false).ok_or_else(|| undecodable::<I>(&table.name, "index key"))?;
    let key = decode_key::<K>(entry).ok_or_else(|| undecodable::<K>(&table.name, "key"))?;
    Ok((index_key, key))
}

impl<K: Key, I: Key> IndexEntries<'_, K, I> {
    /// The next entry. The range ends after an error.
    fn step(&mut self, direction: Direction) -> Result<Option<Entry<K, I>>> {
        self.find(direction).inspect_err(|_| self.ends.end())
    }

    fn find(&mut self, direction: Direction) -> Result<Option<Entry<K, I>>> {
        let table = self.ends.handle.clone();
        let Some((entry, _)) = self.ends.step(direction)? else { return Ok(None) };
        decode_entry::<K, I>(&table, entry).map(Some)
    }
}

impl<K: Key, I: Key> Iterator for IndexEntries<'_, K, I> {
    type Item = Result<Entry<K, I>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward).transpose()
    }
}

impl<K: Key, I: Key> DoubleEndedIterator for IndexEntries<'_, K, I> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Reverse).transpose()
    }
}

impl<K: Key, I: Key> FusedIterator for IndexEntries<'_, K, I> {}

/// The rows of a range of an index; made by [`Index::range`].
pub struct IndexRange<'t, K: Key, V: Value, I: Key> {
    entries: IndexEntries<'t, K, I>,
    types: PhantomData<fn() -> V>,
}

impl<K: Key, V: Value, I: Key> IndexRange<'_, K, V, I> {
    fn step(&mut self, direction: Direction) -> Result<Option<IndexedRow<K, V, I>>> {
        self.find(direction).inspect_err(|_| self.entries.ends.end())
    }

    fn find(&mut self, direction: Direction) -> Result<Option<IndexedRow<K, V, I>>> {
        let (ends, mut value) = (&mut self.entries.ends, Vec::new());
        let table = ends.handle.clone();
        let row_at = |entry: &[u8]| {
            let mut key = entry;
            I::decode_key(&mut key, false).ok_or_else(|| undecodable::<I>(&table.name, "index key"))?;
            Ok(entry.len() - key.len())
        };
        let Some(entry) = ends.step_to_row(direction, &row_at, &mut value)? else { return Ok(None) };
        let (index_key, key) = decode_entry::<K, I>(&table, entry)?;
        let value = decode_value::<V>(&value).ok_or_else(|| undecodable::<V>(&table.name, "value"))?;
        Ok(Some((index_key, key, value)))
    }
}

impl<K: Key, V: Value, I: Key> Iterator for IndexRange<'_, K, V, I> {
    type Item = Result<IndexedRow<K, V, I>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward).transpose()
    }
}

impl<K: Key, V: Value, I: Key> DoubleEndedIterator for IndexRange<'_, K, V, I> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Reverse).transpose()
    }
}

impl<K: Key, V: Value, I: Key> FusedIterator for IndexRange<'_, K, V, I> {}

impl<K: Key, V: Value, I: Key> fmt::Debug for Index<'_, K, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({}.{})", self.handle.name.clone(), self.handle.record.indexes[self.no].name)
    }
}

impl<K: Key, I: Key> fmt::Debug for IndexEntries<'_, K, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexEntries({})", self.ends.handle.name.clone())
    }
}

impl<K: Key, V: Value, I: Key> fmt::Debug for IndexRange<'_, K, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexRange({})", self.entries.ends.handle.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_take_in_all_entries_of_a_key() {
        let (from, to) = entry_bounds::<u8>(&(3..=7));
        assert_eq!((from, to), (Bound::Included(vec![3]), Bound::Excluded(vec![8])));
        let (from, to) = entry_bounds::<u8>(&(Bound::Excluded(3), Bound::Included(255)));
        assert_eq!((from, to), (Bound::Included(vec![4]), Bound::Unbounded));
    }

    #[test]
    fn nothing_lies_behind_the_greatest_key() {
        let nothing = (Bound::Excluded(vec![]), Bound::Excluded(vec![]));
        assert_eq!(entry_bounds::<u8>(&(Bound::Excluded(255), Bound::Unbounded)), nothing);
        assert_eq!(entry_bounds::<()>(&(Bound::Excluded(()), Bound::Unbounded)), nothing);
        assert_eq!(entry_bounds::<[u8; 2]>(&(Bound::Excluded(&[255, 255]), Bound::Unbounded)), nothing);
    }
}
