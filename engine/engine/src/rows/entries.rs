//! Changing rows together with their index entries.
//!
//! A row is an entry of the clustered index under its encoded key. Each of its index keys is an
//! entry of that secondary index, under index key ++ row key; the entry's value is the length of
//! the index key (a varint), so that the two can be told apart without knowing the types
//! ([`row_key_begin`]). The row is changed first: it is what others wait for.

use std::cell::Cell;
use std::sync::Arc;

use holdfast_base::codec::Writer as _;
use holdfast_txn::{Isolation, LockMode, NewValue, TableIndex, Txn, row_key_begin};

use crate::Result;
use crate::rows::definition::IndexSpec;

/// A table's indexes and how to get their keys, in the order of the catalog; for one change.
pub(crate) struct Target<'a> {
    /// The clustered index, then the secondary ones.
    indexes: &'a [Arc<TableIndex>],
    specs: &'a [Arc<IndexSpec>],
    /// The number of the secondary index whose entries could not be changed.
    refused_by: Cell<Option<usize>>,
}

/// A secondary entry's key and value.
pub(crate) fn entry(index_key: &[u8], key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut value = Vec::with_capacity(2);
    value.varint(index_key.len() as u64);
    ([index_key, key].concat(), value)
}

/// The index key and the row's key of a secondary entry, or `None` if it is none.
pub(crate) fn split_entry<'e>(entry: &'e [u8], value: &[u8]) -> Option<(&'e [u8], &'e [u8])> {
    row_key_begin(entry, value).map(|begin| entry.split_at(begin))
}

/// Inserts an entry; no other one may begin with the first `unique` bytes of `key`, if that is
/// given. At SERIALIZABLE an insert that is refused has read the entry that is in the way, which is
/// locked, so that it stays.
fn insert_entry(txn: &mut Txn, index: &TableIndex, key: &[u8], unique: Option<usize>, value: &[u8]) -> Result<()> {
    let reads = txn.options().isolation == Isolation::Serializable
        && !holdfast_base::planted!("refused-insert-has-read-nothing");
    match unique {
        _ if reads => txn.insert_or_lock(index, key, unique, value, LockMode::Shared),
        Some(prefix) => txn.insert_unique(index, key, prefix, value),
        None => txn.insert(index, key, value),
    }
}

impl<'a> Target<'a> {
    pub(crate) fn new(indexes: &'a [Arc<TableIndex>], specs: &'a [Arc<IndexSpec>]) -> Target<'a> {
        Target { indexes, specs, refused_by: Cell::new(None) }
    }

    /// The secondary index whose entries could not be changed, if that is why the change failed.
    pub(crate) fn refused_by(&self) -> Option<&'a str> {
        self.refused_by.get().map(|no| self.specs[no].name.as_str())
    }

    fn rows(&self) -> &TableIndex {
        &self.indexes[0]
    }

    /// The secondary indexes with their specs.
    fn secondary(&self) -> impl Iterator<Item = (&TableIndex, &IndexSpec)> {
        self.indexes[1..].iter().map(|i| &**i).zip(self.specs.iter().map(|s| &**s))
    }

    pub(crate) fn insert(&self, txn: &mut Txn, key: &[u8], value: &[u8]) -> Result<()> {
        insert_entry(txn, self.rows(), key, None, value)?;
        self.change_entries(txn, key, None, Some(value))
    }

    /// A change that looks for a row fails where the transaction's view is older than the table, as
    /// a read does: rows that were loaded are no transaction's that it would conflict with.
    pub(crate) fn upsert(&self, txn: &mut Txn, key: &[u8], value: NewValue<'_>) -> Result<bool> {
        txn.check_age(self.rows())?;
        let mut old = Vec::new();
        let existed = txn.upsert(self.rows(), key, value, self.wanted(&mut old))?;
        self.change_entries(txn, key, existed.then_some(&old), Some(value.bytes()))?;
        Ok(existed)
    }

    pub(crate) fn update(&self, txn: &mut Txn, key: &[u8], value: &[u8]) -> Result<bool> {
        txn.check_age(self.rows())?;
        let mut old = Vec::new();
        let existed = txn.update(self.rows(), key, value, self.wanted(&mut old))?;
        if existed {
            self.change_entries(txn, key, Some(&old), Some(value))?;
        }
        Ok(existed)
    }

    pub(crate) fn delete(&self, txn: &mut Txn, key: &[u8]) -> Result<bool> {
        txn.check_age(self.rows())?;
        let mut old = Vec::new();
        let existed = txn.delete(self.rows(), key, self.wanted(&mut old))?;
        if existed {
            self.change_entries(txn, key, Some(&old), None)?;
        }
        Ok(existed)
    }

    /// The old value is read only if there are entries to find by it.
    fn wanted<'o>(&self, old: &'o mut Vec<u8>) -> Option<&'o mut Vec<u8>> {
        (!self.specs.is_empty()).then_some(old)
    }

    /// Removes the entries that only the old value has and adds those that only the new one has.
    fn change_entries(&self, txn: &mut Txn, key: &[u8], old: Option<&Vec<u8>>, new: Option<&[u8]>) -> Result<()> {
        for (no, (index, spec)) in self.secondary().enumerate() {
            let before = old.map_or(Ok(Vec::new()), |value| spec.keys(key, value))?;
            let after = new.map_or(Ok(Vec::new()), |value| spec.keys(key, value))?;
            let forgets = holdfast_base::planted!("old-index-entry-stays") && new.is_some();
            self.refused_by.set(Some(no));
            for index_key in before.iter().filter(|k| !forgets && !after.contains(k)) {
                txn.delete(index, &entry(index_key, key).0, None)?;
            }
            for index_key in after.iter().filter(|k| !before.contains(k)) {
                let (entry, value) = entry(index_key, key);
                let unique = spec.unique.then_some(index_key.len());
                insert_entry(txn, index, &entry, unique, &value)?;
            }
            self.refused_by.set(None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_split_where_they_were_joined() {
        let (entry, value) = entry(b"index", b"row");
        assert_eq!(split_entry(&entry, &value), Some((&b"index"[..], &b"row"[..])));
        assert_eq!(split_entry(b"ab", &value), None);
        assert_eq!(split_entry(b"ab", b""), None);
    }
}
