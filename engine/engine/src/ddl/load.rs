//! Creating a table together with its rows, faster than inserting them: sorted input, pages written
//! once and full, no undo. The table enters the catalog when it is complete, so a crash leaves all
//! of it or nothing.

use std::marker::PhantomData;
use std::sync::Arc;

use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Tree};
use holdfast_txn::{IndexKind, Loader as TreeLoader, TableIndex};

use crate::instance::Instance;
use crate::rows::definition::IndexSpec;
use crate::rows::encoding::{encode, encode_key};
use crate::rows::entries::entry;
use crate::rows::types::{Key, Value};
use crate::schema::catalog::TableRecord;
use crate::{Error, Result};

/// An entry of a secondary index: key, value, length of the index key.
type Pending = (Vec<u8>, Vec<u8>, usize);

/// Takes the rows of a table that is being created; see [`crate::Database::create_table_with`].
pub struct TableLoader<'l, K: Key, V: Value> {
    rows: TreeLoader<'l>,
    specs: &'l [Arc<IndexSpec>],
    /// The entries of each secondary index, unsorted.
    entries: Vec<Vec<Pending>>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> TableLoader<'_, K, V> {
    /// Appends a row; keys must ascend.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if the key is the one before, [`Error::InvalidArgument`] if it is
    /// less; [`Error::KeyTooLong`], [`Error::ValueTooLong`]; [`Error::DiskFull`], [`Error::Io`].
    pub fn push(&mut self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        let (key, value) = (encode_key::<K>(key), encode::<V>(value)?);
        for (spec, entries) in self.specs.iter().zip(&mut self.entries) {
            for index_key in spec.keys(&key, &value)? {
                let (entry, covered) = entry(&index_key, &key);
                entries.push((entry, covered, index_key.len()));
            }
        }
        self.rows.push(&key, &value)
    }
}

/// Fills the trees of a table that is not in the catalog yet; returns the number of rows.
pub(crate) fn fill<K: Key, V: Value>(
    instance: &Instance,
    space: &Arc<SpaceFile>,
    record: &TableRecord,
    specs: &[Arc<IndexSpec>],
    rows: impl FnOnce(&mut TableLoader<'_, K, V>) -> Result<()>,
) -> Result<u64> {
    let access = instance.pool().access(AccessKind::Point);
    let clustered = TableIndex::new(Tree::open(space, record.clustered, record.root), IndexKind::Rows);
    let mut loader = TableLoader {
        rows: clustered.loader(&access)?,
        specs,
        entries: vec![Vec::new(); specs.len()],
        types: PhantomData,
    };
    rows(&mut loader)?;
    let TableLoader { rows, entries, .. } = loader;
    let count = rows.finish()?;
    for ((index, spec), mut entries) in record.indexes.iter().zip(specs).zip(entries) {
        entries.sort_unstable();
        let same_key = |pair: &[Pending]| pair[0].0[..pair[0].2] == pair[1].0[..pair[1].2];
        if spec.unique && entries.windows(2).any(same_key) {
            return Err(Error::DuplicateKey);
        }
        let tree = TableIndex::new(Tree::open(space, index.id, index.root), IndexKind::Entries);
        let mut loader = tree.loader(&access)?;
        for (entry, covered, _) in &entries {
            loader.push(entry, covered)?;
        }
        loader.finish()?;
    }
    Ok(count)
}
