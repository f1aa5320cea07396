//! The tables in memory.

use crate::catalog::TableRecord;
use crate::definition::TableDefinition;
use crate::types::{Key, Value};
use crate::{Error, Result};

/// An open table.
pub(crate) struct TableHandle {
    pub record: TableRecord,
    name: String,
}

impl TableHandle {
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    fn mismatch(&self, what: String) -> Error {
        Error::TableMismatch { table: self.name(), what }
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
    pub(crate) fn check_definition<K: Key, V: Value>(
        &self,
        definition: &TableDefinition<K, V>,
        _write: bool,
    ) -> Result<()> {
        let (key, value) = definition.type_names();
        if definition.typed && (key != self.record.key_type || value != self.record.value_type) {
            return Err(self.mismatch(format!(
                "it was created as {} -> {}, not as {key} -> {value}",
                self.record.key_type, self.record.value_type
            )));
        }
        Ok(())
    }
}
