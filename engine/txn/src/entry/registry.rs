//! The indexes that rollback and purge know, by their ids.
//!
//! An undo record names its index by id; rollback and purge look the index up here. Each group of
//! threads reads a list of its own.
//!
//! An index that is not here was dropped, and what its records say is passed over, unless it is
//! *unusable*: its table is there, and could not be opened. Rollback does not pass over that one:
//! the next open may find the table as it was, with rows that were never committed. Nor does purge,
//! unless the table is damaged: it would be left with delete marks and large values of old versions
//! that nothing names any more.

use std::sync::Arc;

use holdfast_base::blocking::{Mutex, RwLock};
use holdfast_base::{Error, HashMap, IndexId, Result};
use holdfast_metrics::Spread;

use crate::entry::index::TableIndex;

/// See the module.
pub(crate) struct IndexRegistry {
    indexes: Spread<RwLock<HashMap<IndexId, Arc<TableIndex>>>>,
    /// Row counters from the checkpoint, of indexes that are not registered yet.
    saved_rows: Mutex<HashMap<IndexId, u64>>,
    /// The unusable ones, and why.
    unusable: Mutex<HashMap<IndexId, Error>>,
}

impl IndexRegistry {
    /// No index, and the row counters of the last checkpoint.
    pub fn new(rows: &[(IndexId, u64)]) -> IndexRegistry {
        let saved_rows = Mutex::new(rows.iter().copied().collect());
        IndexRegistry { indexes: Spread::default(), saved_rows, unusable: Mutex::default() }
    }

    /// Adds an index, with its row counter from the checkpoint. Returns whether there was one.
    pub fn add(&self, index: &Arc<TableIndex>) -> bool {
        let saved = self.saved_rows.lock().remove(&index.id());
        saved.inspect(|&rows| index.set_rows(rows));
        self.indexes.all().for_each(|own| drop(own.write().insert(index.id(), Arc::clone(index))));
        saved.is_some()
    }

    /// Takes an index out, and returns it if it was there.
    pub fn remove(&self, id: IndexId) -> Option<Arc<TableIndex>> {
        let index = self.indexes.all().filter_map(|own| own.write().remove(&id)).last();
        self.saved_rows.lock().remove(&id);
        index
    }

    /// Adds an index that cannot be used.
    pub fn add_unusable(&self, id: IndexId, why: Error) {
        self.unusable.lock().insert(id, why);
    }

    /// Takes an unusable index out; whether it was there.
    pub fn remove_unusable(&self, id: IndexId) -> bool {
        self.unusable.lock().remove(&id).is_some()
    }

    /// For a rollback that has not found an index.
    ///
    /// # Errors
    /// Why the index is unusable, if it is.
    pub fn check_dropped(&self, id: IndexId) -> Result<()> {
        self.unusable.lock().get(&id).map_or(Ok(()), |why| Err(why.clone()))
    }

    /// For purge that has not found an index.
    ///
    /// # Errors
    /// Why the index is unusable, if it is and is not damaged.
    pub fn check_awaited(&self, id: IndexId) -> Result<()> {
        self.check_dropped(id).or_else(|why| if why.is_damage() { Ok(()) } else { Err(why) })
    }

    pub fn get(&self, id: IndexId) -> Option<Arc<TableIndex>> {
        self.indexes.mine().read().get(&id).cloned()
    }

    pub fn all(&self) -> Vec<Arc<TableIndex>> {
        self.indexes.mine().read().values().cloned().collect()
    }

    /// Row counters from the checkpoint whose indexes are not registered.
    pub fn saved_rows(&self) -> Vec<(IndexId, u64)> {
        self.saved_rows.lock().iter().map(|(id, rows)| (*id, *rows)).collect()
    }

    /// Counts the rows that a transaction which has committed put into indexes, or took out.
    pub fn add_rows(&self, deltas: &mut Vec<(IndexId, i64)>) {
        // What every transaction changes to no effect would go from core to core all the same.
        deltas.retain(|(_, by)| *by != 0);
        if !deltas.is_empty() {
            let indexes = self.indexes.mine().read();
            for (index, by) in deltas.drain(..) {
                indexes.get(&index).inspect(|index| index.add_rows(by));
            }
        }
    }
}
