//! The tables in memory.
//!
//! [`Schema`] is one version of the definitions and never changes; a change of definitions
//! publishes a new one. Every transaction holds the version that it began with, and so the tables
//! in it: the [`TableFile`](crate::schema::table_file::TableFile) of a table that was dropped is
//! removed when the last holder drops it.

use std::sync::Arc;

use crate::schema::handle::TableHandle;

/// Tables of a chunk; one that gets more is split.
const CHUNK: usize = 64;

/// One version of the definitions: the tables by name, in chunks. A version shares with the one
/// before all chunks but those that differ, so a change costs the same few microseconds with ten
/// tables and with ten thousand.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::rows::definition::TableDefinition;

    #[test]
    fn a_version_has_what_it_was_changed_to_and_older_ones_do_not() {
        let db = Database::in_memory().unwrap();
        let model = crate::ddl::tables::create_table(&db.instance, &TableDefinition::<u64, u64>::new("t")).unwrap();
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
