//! Creating a table together with its rows, faster than inserting them: sorted input, pages written
//! once and full, no undo. Entries of indexes are sorted, on the disk if they do not fit into
//! memory. The table enters the catalog when it is complete, so a crash leaves all of it or
//! nothing.

use std::marker::PhantomData;
use std::sync::Arc;

use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Tree};
use holdfast_txn::{IndexKind, Loader as TreeLoader, NewValue, TableIndex};

use crate::Result;
use crate::instance::Instance;
use crate::rows::definition::IndexSpec;
use crate::rows::encoding::{encode, encode_key};
use crate::rows::entries::entry;
use crate::rows::types::{Key, Value};
use crate::schema::catalog::TableRecord;
use crate::sort::{Share, Sorter};

/// Takes the rows of a table that is being created; see [`crate::Database::create_table_with`].
pub struct TableLoader<'l, K: Key, V: Value> {
    rows: TreeLoader<'l>,
    specs: &'l [Arc<IndexSpec>],
    /// The entries of each secondary index.
    entries: Vec<Sorter>,
    share: Share,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> TableLoader<'_, K, V> {
    /// Appends a row; keys must ascend.
    ///
    /// # Errors
    /// [`crate::Error::DuplicateKey`] if the key is the one before, or if a unique index gets a key
    /// twice (which the end of the load may find only); [`crate::Error::InvalidArgument`] if the
    /// key is less than the one before;
    /// [`crate::Error::KeyTooLong`], [`crate::Error::ValueTooLong`]; [`crate::Error::DiskFull`],
    /// [`crate::Error::Io`].
    pub fn push(&mut self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        let (key, value) = (encode_key::<K>(key), encode::<V>(value)?);
        for (spec, entries) in self.specs.iter().zip(&mut self.entries) {
            for index_key in spec.keys(&key, &value)? {
                let (entry, covered) = entry(&index_key, &key);
                let unique = if spec.unique { index_key.len() } else { entry.len() };
                entries.push(&entry, unique, NewValue::from(&covered))?;
            }
        }
        self.rows.push(&key, &value)?;
        if self.entries.iter().map(Sorter::cost).sum::<usize>() < self.share.bytes() {
            return Ok(());
        }
        self.entries.iter_mut().try_for_each(Sorter::spill)
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
        entries: specs.iter().map(|_| Sorter::new(&instance.disk)).collect(),
        share: instance.sort_memory.share(),
        types: PhantomData,
    };
    rows(&mut loader)?;
    let TableLoader { rows, entries, .. } = loader;
    let count = rows.finish()?;
    for (index, mut entries) in record.indexes.iter().zip(entries) {
        let tree = TableIndex::new(Tree::open(space, index.id, index.root), IndexKind::Entries);
        let mut loader = tree.loader(&access)?;
        entries.drain(&mut |entry, _, covered| loader.push(entry, covered))?;
        loader.finish()?;
    }
    Ok(count)
}
