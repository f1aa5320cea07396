//! Tables that take the place of others under their names, crash-safe at any point.
//!
//! Both are as a create and a drop whose last steps are one: the transaction that enters the new
//! table in the catalog takes the old one out. A crash before that leaves the new file, a crash
//! behind it the old one; the next open removes what its catalog does not know.
//!
//! **Truncate.** The new table is empty.
//!
//! **Making anew.** The new table has the same rows. The gate of the old one is closed from before
//! its rows are read until the new one has its place, so the rows that a view of in between sees
//! are the last ones. Readers go on. Several tables (the partitions of one) change in one
//! transaction.
//!
//! Views of before cannot use the new table: it has no older versions.

use std::sync::Arc;
use std::time::Duration;

use crate::ddl::tables::{
    Plan, build, durability_for_all, find, forget, keep_file, keep_file_of, keep_writers_out,
    keep_writers_out_for_good, make, mark_file_removable, named, open_new, release_table,
};
use crate::instance::Instance;
use crate::schema::catalog::TableRecord;
use crate::schema::handle::TableHandle;
use crate::schema::store;
use crate::schema::store::TableStore;
use crate::schema::table_file::Closed;
use crate::{Error, Result};

pub(crate) fn truncate_table(instance: &Instance, name: &str, wait: Duration) -> Result<()> {
    instance.check_writable()?;
    let table = find(instance, name)?;
    table.check_record()?;
    let plan = Plan::like(&table);
    let enter = |space: &_, record, _| {
        let _closed = keep_writers_out_for_good(instance, &table, wait)?;
        let new = open_new(instance, &plan, space, record, 0);
        new.store.learn_specs(table.store.specs());
        let replacement = Replacement { old: Arc::clone(&table), new: Arc::clone(&new), options: None };
        let replaced = replace(instance, &[replacement]).inspect_err(|_| forget(instance, &new))?;
        Ok((new, replaced))
    };
    build(instance, &plan, |_, _| Ok(0), enter).map(drop)
}

/// A table, and one that is to take its place under its name.
struct Replacement {
    /// Its writers are kept out.
    old: Arc<TableHandle>,
    /// The catalog does not have it yet.
    new: Arc<TableHandle>,
    /// What a layer above keeps with it from then on; `None`: what it keeps with the old one.
    options: Option<Vec<u8>>,
}

impl Replacement {
    /// The table as it is to be in the catalog.
    ///
    /// # Errors
    /// [`Error::TableNotFound`] if the old one has been dropped, renamed or replaced since.
    fn table(&self, instance: &Instance) -> Result<Arc<TableHandle>> {
        let name = &self.old.name;
        let now = instance.schema().get(name).cloned().filter(|now| Arc::ptr_eq(&now.store, &self.old.store));
        let now = now.ok_or_else(|| Error::TableNotFound(name.clone()))?;
        let options = self.options.as_ref().unwrap_or(&now.record.options).clone();
        let record = TableRecord { version: now.record.version.wrapping_add(1), options, ..self.new.record.clone() };
        Ok(Arc::new(TableHandle::new(name.clone(), record, Arc::clone(&self.new.store))))
    }
}

/// Puts tables in the place of others, all at once. An error inside says that this is done, but
/// could not be made durable.
fn replace(instance: &Instance, replacements: &[Replacement]) -> Result<Result<()>> {
    let _ddl = instance.ddl.lock();
    let tables = replacements.iter().map(|one| one.table(instance)).collect::<Result<Vec<_>>>()?;
    let stay = || replacements.iter().for_each(|one| keep_file_of(&one.old));
    replacements.iter().try_for_each(|one| mark_file_removable(instance, &one.old)).inspect_err(|_| stay())?;
    let replaced = instance.catalog.replace_each(&instance.txns, &named(&tables), durability_for_all(&tables));
    if let (Err(error), Some(first)) = (&replaced, tables.first())
        && !instance.may_have(&first.name, &first.record)
    {
        stay();
        return Err(error.clone());
    }
    for (table, Replacement { old, .. }) in tables.into_iter().zip(replacements) {
        // If it is not durable, only the next open knows which of the two files is the table's.
        if replaced.is_ok() {
            release_table(instance, old);
        }
        let lifetime = table.store.file.lifetime;
        store::begin_now(&instance.txns, lifetime, table.store.all_indexes());
        if let Ok(space) = table.store.space() {
            keep_file(lifetime, space);
        }
        instance.publish(Some(&old.name), Some(table));
    }
    Ok(replaced)
}

/// A table that is made anew. Dropped before it has its place, it leaves the old one as it is.
pub(crate) struct Anew {
    instance: Arc<Instance>,
    old: Arc<TableHandle>,
    new: Arc<TableHandle>,
    /// The rows stay as they are until the new table has its place.
    closed: Option<Closed>,
}

/// Makes an empty table like the one of `store`, for its rows, and keeps writers out of that. It
/// waits for `wait` for those that there are.
pub(crate) fn begin_anew(
    instance: &Arc<Instance>,
    name: &str,
    store: &Arc<TableStore>,
    wait: Duration,
) -> Result<Anew> {
    instance.check_writable()?;
    let old = find(instance, name)?;
    if !Arc::ptr_eq(&old.store, store) {
        return Err(Error::TableNotFound(name.into()));
    }
    old.check_record()?;
    let closed = keep_writers_out(instance, &old, wait)?;
    let plan = Plan::like(&old);
    let made = make(instance, &plan)?;
    let new = open_new(instance, &plan, &made.space, made.record.clone(), 0);
    // From here on the table has its file.
    made.keep();
    new.store.learn_specs(old.store.specs());
    Ok(Anew { instance: Arc::clone(instance), old, new, closed: Some(closed) })
}

impl Anew {
    /// The new table's indexes and file.
    pub(crate) fn store(&self) -> &Arc<TableStore> {
        &self.new.store
    }

    /// True if it has taken the place of the table that it is made from.
    pub(crate) fn has_its_place(&self) -> bool {
        self.closed.is_none()
    }
}

/// Puts complete tables in the places of those that they were made from, all at once; beside each
/// of them, what a layer above keeps with it.
///
/// # Errors
/// Why this is not done, or could not be made durable: then the tables have their places.
pub(crate) fn replace_by(instance: &Instance, tables: Vec<(&mut Anew, &[u8])>) -> Result<()> {
    let replacement = |(anew, options): &(&mut Anew, &[u8])| {
        let (old, new) = (Arc::clone(&anew.old), Arc::clone(&anew.new));
        Replacement { old, new, options: Some(options.to_vec()) }
    };
    let replacements: Vec<_> = tables.iter().map(replacement).collect();
    let replaced = replace(instance, &replacements)?;
    // Nothing finds those that wait at this gate any more.
    tables.into_iter().for_each(|(anew, _)| anew.closed = None);
    replaced
}

impl Drop for Anew {
    fn drop(&mut self) {
        if self.closed.is_some() && !self.instance.leak_in_child() {
            release_table(&self.instance, &self.new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{IndexSource, Lifetime, RawDatabase, RawLoad};
    use crate::schema::table_file;
    use crate::{Database, TableDefinition};

    const NEW: TableDefinition<u64, u64> = TableDefinition::new("new");

    /// From now on the catalog cannot be read, as if its pages had left the cache and the device
    /// did not return them.
    fn lose_catalog(db: &Database) {
        db.instance.system.close(false).unwrap();
    }

    fn with_table() -> RawDatabase {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        db
    }

    /// The new, empty table took the place of the old one until the next open, which threw away
    /// what had come into it.
    #[test]
    fn a_table_stays_that_could_not_be_replaced_in_a_catalog_that_cannot_be_read() {
        let db = with_table();
        let instance = &db.database().instance;
        let before = find(instance, "t").unwrap();
        let mut load = RawLoad::anew(&db.open_table("t").unwrap(), Duration::ZERO).unwrap();
        load.finish().unwrap();
        lose_catalog(db.database());
        assert!(db.replace_by(&mut [&mut load], &[&b""[..]]).is_err());
        drop(load);
        assert!(Arc::ptr_eq(&find(instance, "t").unwrap().store, &before.store));
        assert!(!table_file::may_go(before.store.space().unwrap()).unwrap());
    }

    /// A commit of no change but of options told of them until the next open.
    #[test]
    fn a_table_has_no_options_that_a_catalog_did_not_take() {
        let db = with_table();
        lose_catalog(db.database());
        assert!(db.commit_alters(&mut [], &[("t", &b"new"[..])], Duration::ZERO).is_err());
        assert_eq!(db.options("t").unwrap(), b"");
    }

    /// It was there until the next open, with what was put into it.
    #[test]
    fn a_table_is_not_there_that_a_catalog_did_not_take_and_cannot_be_asked_for() {
        let db = Database::in_memory().unwrap();
        let created = db.create_table_with(&NEW, |rows| {
            lose_catalog(&db);
            rows.push(1, 1)
        });
        assert!(matches!(created, Err(Error::Closed(_))), "{created:?}");
        assert!(db.list_tables().is_empty());
        let files = db.instance.disk.list().unwrap();
        assert!(files.iter().all(|file| table_file::space_of(file).is_none()), "{files:?}");
    }

    /// The table had the index until the next open, which gave its pages back.
    #[test]
    fn a_table_has_no_index_that_a_catalog_did_not_take_and_cannot_be_asked_for() {
        let db = with_table();
        let mut alter = db.begin_alter("t", &[("k", false)], false, Duration::ZERO).unwrap();
        alter.finish().unwrap();
        alter.become_table(&[IndexSource::Added(0)], b"").unwrap();
        lose_catalog(db.database());
        assert!(db.commit_alters(&mut [&mut alter], &[], Duration::ZERO).is_err());
        drop(alter);
        assert!(find(&db.database().instance, "t").unwrap().record.indexes.is_empty());
    }
}
