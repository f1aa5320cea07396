//! Creating a table together with its rows, faster than inserting them: sorted input, pages written
//! once and full, no undo. Entries of indexes are sorted, on the disk if they do not fit into
//! memory. The table enters the catalog when it is complete, so a crash leaves all of it or
//! nothing.

use std::marker::PhantomData;
use std::sync::Arc;

use holdfast_base::limits;
use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Tree};
use holdfast_txn::{IndexKind, Loader as TreeLoader, NewValue, TableIndex};

use crate::instance::Instance;
use crate::rows::definition::IndexSpec;
use crate::rows::encoding::{encode, encode_key};
use crate::rows::entries::entry;
use crate::rows::types::{Key, Value};
use crate::schema::catalog::TableRecord;
use crate::sort::{Share, Sorter};
use crate::{Error, Result};

/// Takes the rows of a table that is being created; see [`crate::Database::create_table_with`].
pub struct TableLoader<'l, K: Key, V: Value> {
    instance: &'l Instance,
    rows: TreeLoader<'l>,
    specs: &'l [Arc<IndexSpec>],
    /// The entries of each secondary index.
    entries: Vec<Sorter>,
    share: Share,
    key_len_max: usize,
    /// The error after which a part of a row is there and another part is not.
    failed: Option<Error>,
    types: PhantomData<fn() -> (K, V)>,
}

/// An entry of a secondary index, and how much of its key has to be unique.
struct NewEntry {
    index: usize,
    key: Vec<u8>,
    unique: usize,
    value: Vec<u8>,
}

impl<K: Key, V: Value> TableLoader<'_, K, V> {
    /// Appends a row; keys must ascend.
    ///
    /// # Errors
    /// [`crate::Error::DuplicateKey`] if the key is the one before;
    /// [`crate::Error::InvalidArgument`] if it is less; [`crate::Error::KeyTooLong`],
    /// [`crate::Error::ValueTooLong`]: the row is not added, and the program may go on with others.
    /// [`crate::Error::DuplicateKey`] if a unique index gets a key twice (which the end of the load
    /// may find only); [`crate::Error::DiskFull`], [`crate::Error::Io`]: the load has failed, and
    /// so do all later calls and the creation of the table.
    pub fn push(&mut self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let (key, value) = (encode_key::<K>(key), encode::<V>(value)?);
        self.rows.check_next(&key)?;
        // Before anything is added: this calls code of the program, which may panic.
        let entries = self.entries_of(&key, &value)?;
        self.add(&key, &value, entries).inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn entries_of(&self, row_key: &[u8], row: &[u8]) -> Result<Vec<NewEntry>> {
        let mut entries = Vec::new();
        for (index, spec) in self.specs.iter().enumerate() {
            for index_key in spec.keys(row_key, row)? {
                let (key, value) = entry(&index_key, row_key);
                if key.len() > self.key_len_max {
                    return Err(Error::KeyTooLong { len: key.len(), max: self.key_len_max });
                }
                let unique = if spec.unique { index_key.len() } else { key.len() };
                entries.push(NewEntry { index, key, unique, value });
            }
        }
        Ok(entries)
    }

    fn add(&mut self, key: &[u8], value: &[u8], entries: Vec<NewEntry>) -> Result<()> {
        self.rows.push(key, value)?;
        for NewEntry { index, key, unique, value } in entries {
            self.entries[index].push(&key, unique, NewValue::from(&value))?;
        }
        if self.entries.iter().map(Sorter::cost).sum::<usize>() < self.share.bytes() {
            return Ok(());
        }
        let go_on = || self.instance.txns.check_session();
        self.entries.iter_mut().try_for_each(|entries| entries.spill(&go_on))
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
        instance,
        rows: clustered.loader(&access)?,
        specs,
        entries: specs.iter().map(|_| Sorter::new(&instance.disk)).collect(),
        share: instance.sort_memory.share(),
        key_len_max: limits::key_len_max(instance.meta.page_size),
        failed: None,
        types: PhantomData,
    };
    rows(&mut loader)?;
    let TableLoader { rows, entries, failed, .. } = loader;
    if let Some(error) = failed {
        return Err(error);
    }
    let count = rows.finish()?;
    for (index, mut entries) in record.indexes.iter().zip(entries) {
        let tree = TableIndex::new(Tree::open(space, index.id, index.root), IndexKind::Entries);
        let mut loader = tree.loader(&access)?;
        entries.drain(&|| instance.txns.check_session(), &mut |entry, _, covered| loader.push(entry, covered))?;
        loader.finish()?;
    }
    Ok(count)
}
