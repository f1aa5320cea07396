//! A table under its name, and the transactions that write to it.

use std::any::TypeId;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use holdfast_metrics::{Local, Spread, local};
use holdfast_tree::Lifetime;
use holdfast_txn::Wait;

use crate::rows::definition::{IndexSpec, TableDefinition};
use crate::rows::types::{Key, Value};
use crate::schema::catalog::{IndexRecord, Named, TableRecord};
use crate::schema::info::{IndexInfo, TableInfo};
use crate::schema::store::TableStore;
use crate::{Error, Result};

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
        self.entered(self.store.file.gate.enter())
    }

    /// The same; waits for a change of definitions that is under way.
    pub(crate) fn enter_waiting(&self, wait: &Wait<'_>) -> Result<Entered> {
        self.entered(self.store.file.gate.enter_waiting(wait)?)
    }

    fn entered(&self, group: Option<usize>) -> Result<Entered> {
        let group = group.ok_or_else(|| Error::TableNotFound(self.name.clone()))?;
        let store = self.references.mine().get_or_init(|| local(Arc::clone(&self.store)));
        let entered = Entered { store: Arc::clone(store), group };
        self.store.check_current(&self.name)?;
        self.store.file.check_whole(&self.name)?;
        Ok(entered)
    }

    /// Whether the table's record in the catalog could be read: one that could not must not be
    /// written.
    ///
    /// # Errors
    /// An error that says what is wrong with it.
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
        let find = |index: &IndexRecord| {
            let spec = definition.indexes.iter().find(|d| d.name == index.name);
            let spec = spec.ok_or_else(|| {
                self.mismatch(format!("it has the index `{}`, which the definition lacks", index.name))
            })?;
            if spec.key_type != index.key_type || spec.unique != index.unique {
                let keys = |unique, key_type: &str| {
                    format!("{} keys of type {key_type}", if unique { "unique" } else { "repeatable" })
                };
                let (was, is) = (keys(index.unique, &index.key_type), keys(spec.unique, &spec.key_type));
                return Err(self.mismatch(format!("the index `{}` was created with {was}, not with {is}", index.name)));
            }
            Ok(Arc::clone(spec))
        };
        self.record.indexes.iter().map(find).collect()
    }

    /// The table as the catalog has it.
    pub(crate) fn named(&self) -> Named<'_> {
        (&self.name, &self.record)
    }

    pub(crate) fn info(&self) -> TableInfo {
        let index = |i: &IndexRecord| IndexInfo {
            name: i.name.clone(),
            index_id: i.id.0,
            key_type: i.key_type.clone(),
            unique: i.unique,
        };
        TableInfo {
            name: self.name.clone(),
            file: self.record.space.file_name(),
            space_id: self.record.space.0,
            table_id: self.record.table_id,
            key_type: self.record.key_type.clone(),
            value_type: self.record.value_type.clone(),
            indexes: self.record.indexes.iter().map(index).collect(),
        }
    }
}

/// A place in the gate of a table.
pub(crate) struct Entered {
    store: Local<Arc<TableStore>>,
    /// See [`WriterGate::enter`](crate::schema::table_file::WriterGate::enter).
    group: usize,
}

impl Entered {
    pub(crate) fn is_of(&self, store: &Arc<TableStore>) -> bool {
        Arc::ptr_eq(&**self.store, store)
    }

    /// True if what is written to the table need not outlive a crash.
    pub(crate) fn is_temporary(&self) -> bool {
        self.store.file.lifetime == Lifetime::Temporary
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.store.file.gate.leave(self.group);
    }
}
