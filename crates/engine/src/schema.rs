//! The tables in memory.
//!
//! [`Schema`] is one version of the definitions and never changes; a change of definitions publishes a new one. Every
//! transaction holds the version that it began with, and so the tables in it: a [`TableStore`] whose table was dropped
//! gives its file back when the last holder lets go of it.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use holdfast_base::{IndexId, SpaceId};
use holdfast_io::Disk;
use holdfast_tree::{SpaceFile, Tree};
use holdfast_txn::{IndexKind, TableIndex};
use parking_lot::{Condvar, Mutex};

use crate::catalog::TableRecord;
use crate::database::{IndexInfo, TableInfo};
use crate::definition::{IndexSpec, TableDefinition};
use crate::shared::Shared;
use crate::types::{Key, Value};
use crate::{Error, Result};

/// One version of the definitions.
#[derive(Default)]
pub(crate) struct Schema {
    tables: BTreeMap<String, Arc<TableHandle>>,
}

impl Schema {
    pub(crate) fn new(tables: impl IntoIterator<Item = Arc<TableHandle>>) -> Schema {
        Schema { tables: tables.into_iter().map(|t| (t.name.clone(), t)).collect() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<TableHandle>> {
        self.tables.get(name)
    }

    /// Sorted by name.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.tables.values()
    }

    /// The next version: without the table `without`, with `with`.
    pub(crate) fn changed(&self, without: Option<&str>, with: Option<Arc<TableHandle>>) -> Schema {
        let mut tables = self.tables.clone();
        if let Some(name) = without {
            tables.remove(name);
        }
        tables.extend(with.map(|t| (t.name.clone(), t)));
        Schema { tables }
    }

    /// The files of the tables that could be opened.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = Arc<SpaceFile>> {
        self.tables.values().filter_map(|t| t.store.space().ok().cloned())
    }
}

/// A table that a transaction uses.
#[derive(Clone)]
pub(crate) enum TableRef<'t> {
    /// Of the definitions that the transaction holds: costs nothing to copy.
    Held(&'t TableHandle),
    /// Newer than these.
    New(Arc<TableHandle>),
}

impl Deref for TableRef<'_> {
    type Target = TableHandle;
    fn deref(&self) -> &TableHandle {
        match self {
            TableRef::Held(handle) => handle,
            TableRef::New(handle) => handle,
        }
    }
}

/// A table under its name.
pub(crate) struct TableHandle {
    pub name: String,
    pub record: TableRecord,
    pub store: Arc<TableStore>,
    /// The types of the last program that was found to mean this table: names are compared once.
    known: OnceLock<(TypeId, TypeId)>,
}

impl TableHandle {
    pub(crate) fn new(name: String, record: TableRecord, store: Arc<TableStore>) -> TableHandle {
        TableHandle { name, record, store, known: OnceLock::new() }
    }

    fn mismatch(&self, what: String) -> Error {
        Error::TableMismatch { table: self.name.clone(), what }
    }

    /// The position of an index, checked.
    pub(crate) fn index_no(&self, name: &str, key_type: &str) -> Result<usize> {
        let no = self.record.indexes.iter().position(|i| i.name == name);
        let no = no.ok_or_else(|| self.mismatch(format!("it has no index `{name}`")))?;
        let has = &self.record.indexes[no].key_type;
        if has != key_type {
            return Err(self.mismatch(format!("the keys of index `{name}` are of type {has}, not {key_type}")));
        }
        Ok(no)
    }

    /// Whether the program means this table.
    pub(crate) fn check_types<K: Key, V: Value>(&self, definition: &TableDefinition<K, V>) -> Result<()> {
        let types = (TypeId::of::<K>(), TypeId::of::<V>());
        if !definition.typed || self.known.get() == Some(&types) {
            return Ok(());
        }
        let (key, value) = definition.type_names();
        if key != self.record.key_type || value != self.record.value_type {
            return Err(self.mismatch(format!(
                "it was created as {} -> {}, not as {key} -> {value}",
                self.record.key_type, self.record.value_type
            )));
        }
        let _ = self.known.set(types);
        Ok(())
    }

    /// Whether the program may write to this table; its indexes in the order of the catalog.
    pub(crate) fn check_writable<K: Key, V: Value>(
        &self,
        definition: &TableDefinition<K, V>,
    ) -> Result<Vec<Arc<IndexSpec>>> {
        let is_known = self.known.get() == Some(&(TypeId::of::<K>(), TypeId::of::<V>()));
        if !is_known && definition.type_names() != (self.record.key_type.clone(), self.record.value_type.clone()) {
            let (key, value) = (&self.record.key_type, &self.record.value_type);
            return Err(self.mismatch(format!("it holds {key} -> {value} and cannot be written to as plain bytes")));
        }
        if let Some(extra) = definition.indexes.iter().find(|d| !self.record.indexes.iter().any(|i| i.name == d.name)) {
            return Err(self.mismatch(format!("it was created without the index `{}`", extra.name)));
        }
        let find = |index: &crate::catalog::IndexRecord| {
            let spec = definition.indexes.iter().find(|d| d.name == index.name);
            let spec = spec.ok_or_else(|| {
                self.mismatch(format!("it has the index `{}`, which the definition lacks", index.name))
            })?;
            if spec.key_type != index.key_type || spec.unique != index.unique {
                let unique = if index.unique { "unique " } else { "" };
                let what = format!("the {unique}index `{}` was created over {}", index.name, index.key_type);
                return Err(self.mismatch(what));
            }
            Ok(Arc::clone(spec))
        };
        self.record.indexes.iter().map(find).collect()
    }

    pub(crate) fn info(&self) -> TableInfo {
        let index = |i: &crate::catalog::IndexRecord| IndexInfo {
            name: i.name.clone(),
            index_id: i.id.0,
            key_type: i.key_type.clone(),
            unique: i.unique,
        };
        TableInfo {
            name: self.name.clone(),
            file: file_name(self.record.space),
            space_id: self.record.space.0,
            table_id: self.record.table_id,
            key_type: self.record.key_type.clone(),
            value_type: self.record.value_type.clone(),
            indexes: self.record.indexes.iter().map(index).collect(),
        }
    }
}

/// The file of a table's space.
pub(crate) fn file_name(space: SpaceId) -> String {
    format!("t{}.hf", space.0)
}

/// The space in a file's name, or `None` if it is no table's.
pub(crate) fn space_of(file: &str) -> Option<SpaceId> {
    let id = file.strip_prefix('t')?.strip_suffix(".hf")?.parse().ok().map(SpaceId)?;
    (file_name(id) == file).then_some(id)
}

/// How many write transactions use a table, and whether more may come.
#[derive(Default)]
struct Writers {
    count: usize,
    /// How many have come so far.
    entered: u64,
    closed: bool,
}

/// Counts the write transactions that use a table, so that it can be dropped when there are none.
#[derive(Default)]
pub(crate) struct WriterGate {
    writers: Mutex<Writers>,
    changed: Condvar,
}

impl WriterGate {
    /// Whether the caller may write to the table, until it calls [`WriterGate::leave`].
    pub(crate) fn enter(&self) -> bool {
        let mut writers = self.writers.lock();
        if !writers.closed {
            writers.count += 1;
            writers.entered += 1;
        }
        !writers.closed
    }

    pub(crate) fn leave(&self) {
        self.writers.lock().count -= 1;
        self.changed.notify_all();
    }

    /// If nobody is inside, how many have come so far: the same answer twice means that nobody was there in between.
    pub(crate) fn quiet(&self) -> Option<u64> {
        let writers = self.writers.lock();
        if writers.count == 0 { Some(writers.entered) } else { None }
    }

    /// Lets nobody in any more and waits until all have left. On a timeout everything is as before.
    pub(crate) fn close(&self, timeout: Duration) -> Result<()> {
        let mut writers = self.writers.lock();
        writers.closed = true;
        let wait = self.changed.wait_while_for(&mut writers, |w| w.count > 0, timeout);
        if wait.timed_out() && writers.count > 0 {
            writers.closed = false;
            return Err(Error::LockTimeout);
        }
        Ok(())
    }

    pub(crate) fn reopen(&self) {
        self.writers.lock().closed = false;
    }
}

/// An open table: its file, and what is in it.
pub(crate) struct TableStore {
    disk: Arc<dyn Disk>,
    file: String,
    /// The file, or why it cannot be used.
    space: Result<Arc<SpaceFile>>,
    /// The clustered index, then the secondary ones in the order of the catalog; none if there is no file.
    indexes: Vec<Arc<TableIndex>>,
    /// How index keys are made from rows: known once the program has opened the table for writing.
    specs: OnceLock<Vec<Arc<IndexSpec>>>,
    /// Whether the number of rows was known when the table was opened.
    pub counted: bool,
    pub gate: WriterGate,
    dropped: AtomicBool,
}

/// Bytes by which the file of a dropped table is cut at a time, so that no file system is busy with it for long.
const CUT: u64 = 1 << 30;

impl TableStore {
    /// Opens the indexes of `record` over its file, and makes them known to purge and rollback.
    pub(crate) fn open(
        shared: &Shared,
        record: &TableRecord,
        space: Result<Arc<SpaceFile>>,
        is_new: bool,
    ) -> TableStore {
        let mut indexes = Vec::new();
        if let Ok(space) = &space {
            let open = |id, root, kind| TableIndex::new(Tree::open(space, id, root), kind);
            indexes.push(open(record.clustered, record.root, IndexKind::Rows));
            indexes.extend(record.indexes.iter().map(|i| open(i.id, i.root, IndexKind::Entries)));
        }
        let known: Vec<bool> = indexes.iter().map(|index| shared.txns.register(index)).collect();
        let counted = is_new || known.first().is_some_and(|&known| known);
        TableStore {
            disk: Arc::clone(&shared.disk),
            file: file_name(record.space),
            space,
            indexes,
            specs: OnceLock::new(),
            counted,
            gate: WriterGate::default(),
            dropped: AtomicBool::new(false),
        }
    }

    /// The clustered index, then the secondary ones.
    ///
    /// # Errors
    /// Why the table cannot be used, if a part of it is damaged.
    pub(crate) fn indexes(&self) -> Result<&[Arc<TableIndex>]> {
        match self.space()?.space().damaged() {
            Some(error) => Err(error.clone()),
            None => Ok(&self.indexes),
        }
    }

    /// The same, damaged or not: for those who look at the damage.
    pub(crate) fn all_indexes(&self) -> &[Arc<TableIndex>] {
        &self.indexes
    }

    /// The index that a page says it belongs to.
    pub(crate) fn index_of(&self, id: IndexId) -> Option<&Arc<TableIndex>> {
        self.indexes.iter().find(|index| index.id() == id)
    }

    /// How index keys are made, if that is known.
    pub(crate) fn specs(&self) -> &[Arc<IndexSpec>] {
        self.specs.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn learn_specs(&self, specs: &[Arc<IndexSpec>]) {
        if self.specs.get().is_none() {
            let _ = self.specs.set(specs.to_vec());
        }
    }

    /// The file, if it could be opened.
    pub(crate) fn space(&self) -> Result<&Arc<SpaceFile>> {
        self.space.as_ref().map_err(Clone::clone)
    }

    /// From now on the file goes with the last holder.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    fn give_back(&self) -> Result<()> {
        if let Ok(space) = &self.space {
            space.close(true)?;
            let file = space.space().file();
            let mut len = file.len()?;
            while len > CUT {
                len -= CUT;
                file.set_len(len)?;
            }
        }
        self.disk.remove(&self.file)?;
        self.disk.sync_dir()
    }
}

impl Drop for TableStore {
    fn drop(&mut self) {
        if self.dropped.load(Ordering::Acquire) {
            // A file that stays is removed by the next open: the catalog does not know it.
            let _ = self.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_lead_back_to_their_spaces() {
        assert_eq!(space_of(&file_name(SpaceId(17))), Some(SpaceId(17)));
        for other in ["t17.hf.new", "t017.hf", "undo.hf", "t.hf", "system.hf", "t-1.hf"] {
            assert_eq!(space_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_closed_gate_lets_nobody_in() {
        let gate = WriterGate::default();
        assert!(gate.enter());
        assert!(matches!(gate.close(Duration::from_millis(1)), Err(Error::LockTimeout)));
        assert!(gate.enter());
        gate.leave();
        gate.leave();
        gate.close(Duration::ZERO).unwrap();
        assert!(!gate.enter());
        gate.reopen();
        assert!(gate.enter());
    }
}
