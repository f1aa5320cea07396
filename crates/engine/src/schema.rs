//! The tables in memory.
//!
//! [`Schema`] is one version of the definitions and never changes; a change of definitions
//! publishes a new one. Every transaction holds the version that it began with, and so the tables
//! in it: the [`TableFile`] of a table that was dropped is removed when the last holder drops it.

use std::any::TypeId;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use holdfast_base::IndexId;
use holdfast_base::blocking::RwLock;
use holdfast_metrics::{Local, Spread, local};
use holdfast_tree::{Lifetime, SpaceFile, Tree};
use holdfast_txn::{IndexKind, TableIndex};

use crate::catalog::TableRecord;
use crate::database::{IndexInfo, TableInfo};
use crate::definition::{IndexSpec, TableDefinition};
use crate::shared::Shared;
use crate::table_file::{TableFile, file_name};
use crate::types::{Key, Value};
use crate::{Error, Result};

/// Tables of a chunk; one that gets more is split.
const CHUNK: usize = 64;

/// One version of the definitions: the tables by name, in chunks. A version shares with the one before all chunks but those that differ,
/// so a change costs the same few microseconds with ten tables and with ten thousand.
#[derive(Clone, Default)]
pub(crate) struct Schema {
    /// Sorted, as the tables in them are; none is empty.
    chunks: Vec<Arc<[Arc<TableHandle>]>>,
}

impl Schema {
    pub(crate) fn new(tables: impl IntoIterator<Item = Arc<TableHandle>>) -> Schema {
        let mut tables: Vec<_> = tables.into_iter().collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Schema { chunks: tables.chunks(CHUNK).map(Arc::from).collect() }
    }

    /// The number of the chunk that has the table, if there is one.
    fn chunk_of(&self, name: &str) -> usize {
        self.chunks.partition_point(|chunk| chunk[0].name.as_str() <= name).saturating_sub(1)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<TableHandle>> {
        let chunk = self.chunks.get(self.chunk_of(name))?;
        find(chunk, name).ok().map(|at| &chunk[at])
    }

    /// Sorted by name.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The next version: without the table `without`, with `with`.
    pub(crate) fn changed(&self, without: Option<&str>, with: Option<Arc<TableHandle>>) -> Schema {
        let mut next = self.clone();
        if let Some(name) = without {
            next.put(name, None);
        }
        if let Some(table) = with {
            next.put(&table.name, Some(Arc::clone(&table)));
        }
        next
    }

    /// Makes `table` the one called `name`.
    fn put(&mut self, name: &str, table: Option<Arc<TableHandle>>) {
        let at = self.chunk_of(name);
        let mut tables = self.chunks.get(at).map_or_else(Vec::new, |chunk| chunk.to_vec());
        let place = find(&tables, name);
        let old = place.map_or_else(|at| at..at, |at| at..at + 1);
        tables.splice(old, table);
        let size = if tables.len() > CHUNK { tables.len() / 2 + 1 } else { CHUNK };
        let end = self.chunks.len().min(at + 1);
        self.chunks.splice(at..end, tables.chunks(size).map(Arc::from));
    }
}

/// Where in a chunk a table is, or would be.
fn find(chunk: &[Arc<TableHandle>], name: &str) -> std::result::Result<usize, usize> {
    chunk.binary_search_by(|table| table.name.as_str().cmp(name))
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
    /// References to `store` for writers, made for each group of threads when one of them writes.
    references: Spread<OnceLock<Local<Arc<TableStore>>>>,
    /// The types of the last program that was found to mean this table: names are compared once.
    known: OnceLock<(TypeId, TypeId)>,
}

impl TableHandle {
    pub(crate) fn new(name: String, record: TableRecord, store: Arc<TableStore>) -> TableHandle {
        TableHandle { name, record, store, references: Spread::default(), known: OnceLock::new() }
    }

    /// Makes the caller a writer of the table.
    pub(crate) fn enter(&self) -> Result<Entered> {
        let Some(group) = self.store.file.gate.enter() else {
            return Err(Error::TableNotFound(self.name.clone()));
        };
        let store = self.references.mine().get_or_init(|| local(Arc::clone(&self.store)));
        let entered = Entered { store: Arc::clone(store), group };
        self.store.check_current(&self.name)?;
        Ok(entered)
    }

    /// Whether the table's record in the catalog could be read: one that could not must not be written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check_record(&self) -> Result<()> {
        if self.record.is_readable() { Ok(()) } else { self.store.space().map(drop) }
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
            self.check_record()?;
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
            self.check_record()?;
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

/// Where a table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was there when the database was opened.
    Found,
    /// It was created since.
    Created,
}

/// A place in the gate of a table.
pub(crate) struct Entered {
    store: Local<Arc<TableStore>>,
    /// See [`WriterGate::enter`](crate::table_file::WriterGate::enter).
    group: usize,
}

impl Entered {
    pub(crate) fn is_of(&self, store: &Arc<TableStore>) -> bool {
        Arc::ptr_eq(&**self.store, store)
    }

    /// Whether what is written to the table need not outlive a crash.
    pub(crate) fn is_temporary(&self) -> bool {
        self.store.file.lifetime == Lifetime::Temporary
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.store.file.gate.leave(self.group);
    }
}

/// Says that `indexes`, of a table of this `lifetime`, have been filled just now, or made: views of before cannot use them. A temporary
/// table is its session's own, which knows what it has put there: its old views can.
pub(crate) fn begin_now<'i>(
    shared: &Shared,
    lifetime: Lifetime,
    indexes: impl IntoIterator<Item = &'i Arc<TableIndex>>,
) {
    if lifetime == Lifetime::Lasting {
        let now = shared.txns.last_commit();
        indexes.into_iter().for_each(|index| index.set_since(now));
    }
}

/// An open table: its file, and what is in it. When its indexes change, another one with the same file takes its place.
pub(crate) struct TableStore {
    pub file: Arc<TableFile>,
    /// The clustered index, then the secondary ones in the order of the catalog; none if there is no file.
    indexes: Vec<Arc<TableIndex>>,
    /// How index keys are made from rows: known once the program has created the table, or opened it for writing.
    specs: OnceLock<Vec<Arc<IndexSpec>>>,
    /// Whether the number of rows was known when the table was opened.
    pub counted: bool,
    /// What happens to the rows while indexes of them are built, for each of these.
    pub deltas: RwLock<Vec<Arc<TableIndex>>>,
    superseded: AtomicBool,
}

impl TableStore {
    /// Opens the indexes of `record` over its file, and makes them known to purge and rollback.
    pub(crate) fn open(
        shared: &Shared,
        record: &TableRecord,
        space: Result<Arc<SpaceFile>>,
        origin: Origin,
    ) -> TableStore {
        let mut indexes = Vec::new();
        if let Ok(space) = &space {
            let open = |id, root| Tree::open(space, id, root);
            let rows = TableIndex::new(open(record.clustered, record.root), IndexKind::Rows);
            indexes.push(Arc::clone(&rows));
            indexes.extend(record.indexes.iter().map(|i| TableIndex::leading_to(&rows, open(i.id, i.root))));
        }
        let known: Vec<bool> = indexes.iter().map(|index| shared.txns.register(index)).collect();
        let counted = origin != Origin::Found || known.first().is_some_and(|&known| known);
        let lifetime = if record.temporary { Lifetime::Temporary } else { Lifetime::Lasting };
        let file = Arc::new(TableFile::new(Arc::clone(&shared.disk), file_name(record.space), space, lifetime));
        TableStore::of(file, indexes, counted)
    }

    fn of(file: Arc<TableFile>, indexes: Vec<Arc<TableIndex>>, counted: bool) -> TableStore {
        let (specs, deltas, superseded) = (OnceLock::new(), RwLock::default(), AtomicBool::new(false));
        TableStore { file, indexes, specs, counted, deltas, superseded }
    }

    /// The same table with the indexes that `record` has: of its own, and of `added`, which purge and rollback get to know.
    pub(crate) fn with_indexes(
        &self,
        shared: &Shared,
        record: &TableRecord,
        added: &[Arc<TableIndex>],
    ) -> Result<TableStore> {
        for index in added {
            shared.txns.register(index);
        }
        let find = |id| self.indexes.iter().chain(added).find(|index| index.id() == id).cloned();
        let indexes: Option<Vec<_>> = record.index_ids().map(find).collect();
        let indexes = indexes.ok_or_else(|| Error::invalid("the table does not have this index"))?;
        Ok(TableStore::of(Arc::clone(&self.file), indexes, self.counted))
    }

    /// Another one has taken its place: a holder of this one knows the wrong indexes.
    pub(crate) fn set_superseded(&self) {
        self.superseded.store(true, Ordering::Release);
    }

    /// Whether the table still has these indexes.
    pub(crate) fn check_current(&self, table: &str) -> Result<()> {
        if self.superseded.load(Ordering::Acquire) {
            let what = "its indexes have changed since it was opened".into();
            return Err(Error::TableMismatch { table: table.into(), what });
        }
        Ok(())
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

    /// The same, damaged or not: for callers that examine the damage.
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
        if self.specs.get().is_none() && !specs.is_empty() {
            let _ = self.specs.set(specs.to_vec());
        }
    }

    /// The file, if it could be opened.
    pub(crate) fn space(&self) -> Result<&Arc<SpaceFile>> {
        self.file.space.as_ref().map_err(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    #[test]
    fn a_version_has_what_it_was_changed_to_and_older_ones_do_not() {
        let db = Database::in_memory().unwrap();
        let model = crate::ddl::create_table(&db.shared, &TableDefinition::<u64, u64>::new("t")).unwrap();
        let table = |n: u64| {
            let handle = TableHandle::new(format!("t{n}"), model.record.clone(), Arc::clone(&model.store));
            Arc::new(handle)
        };
        let names = |schema: &Schema| schema.tables().map(|table| table.name.clone()).collect::<Vec<_>>();
        let (mut schema, mut expected) = (Schema::default(), std::collections::BTreeSet::new());
        for i in 0..3_000 {
            let (n, before) = (i * 7_919 % 997, names(&schema));
            let old = schema.clone();
            if i % 3 == 2 {
                schema = schema.changed(Some(&format!("t{n}")), None);
                expected.remove(&format!("t{n}"));
            } else {
                schema = schema.changed(None, Some(table(n)));
                expected.insert(format!("t{n}"));
            }
            assert_eq!(schema.get(&format!("t{n}")).is_some(), i % 3 != 2);
            assert!(schema.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
            if i % 100 == 0 {
                assert_eq!(names(&old), before);
                assert!(names(&schema).iter().eq(&expected));
            }
        }
        assert!(schema.get("").is_none() && schema.get("z").is_none());
        assert!(
            names(&Schema::new(schema.tables().cloned().collect::<Vec<_>>().into_iter().rev())).iter().eq(&expected)
        );
    }
}
