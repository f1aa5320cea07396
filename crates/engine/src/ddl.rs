//! Creating, dropping and renaming tables.

use std::sync::Arc;

use crate::Result;
use crate::core::Shared;
use crate::definition::TableDefinition;
use crate::schema::TableHandle;
use crate::types::{Key, Value};

pub(crate) fn create_table<K: Key, V: Value>(
    _shared: &Shared,
    _definition: &TableDefinition<K, V>,
) -> Result<Arc<TableHandle>> {
    crate::core::stub()
}

pub(crate) fn drop_table(_shared: &Shared, _name: &str) -> Result<()> {
    crate::core::stub()
}

pub(crate) fn rename_table(_shared: &Shared, _from: &str, _to: &str) -> Result<()> {
    crate::core::stub()
}
