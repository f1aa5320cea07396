//! Creating, dropping and renaming tables, one at a time, each crash-safe at any point.
//!
//! **Create.**
//! 1. The ids are taken by a transaction of their own, so that no space id is ever used twice. That
//!    the space's id was given out is durable before its file exists, so that the next open knows
//!    the file of a creation that was cut short from a file that is not this database's to remove.
//! 2. The file is created, with its directory entry durable, before anything in it is logged.
//! 3. Its trees are created, and filled if it begins with rows.
//! 4. One transaction enters the table in the catalog: from its commit on it exists. A crash before
//!    that leaves a file that the next open removes.
//!
//! **Drop.** New writers are kept out and those inside are waited for, before the lock of the
//! catalog is taken: others go on changing definitions meanwhile. A table that a prepared
//! transaction has changed stays. One transaction removes the table from the catalog: from its
//! commit on it does not exist, and a crash leaves a file that the next open removes. Then purge
//! and rollback release its indexes, a new version of the definitions is published, and the file is
//! removed with the last transaction or backup that holds an older one.
//!
//! **Cost.** A create waits for the disk three times (the file, its directory entry, the commit), a
//! drop twice (the commit, the mark in the file that it may go), and once more if the file's header
//! has no image yet that the write of the mark can rely on: the removed directory entry need not be
//! durable, since the next open removes a marked file. Versions of the definitions share
//! what does not differ, so that the rest does not grow with the number of tables. An empty table
//! has a file of eight pages.
//!
//! **Temporary tables.** But for granting space ids, which is done for several at a time, none of
//! this waits for the disk: the file is not synced (its first pages are in the log instead), nor
//! the directory, nor the commits in the catalog. So a crash may leave such a table in the catalog
//! with a file that lacks parts, or without one: it is damaged then, which is no error of the
//! database, and can be dropped. Its writers are not waited for: the only one is the transaction of
//! the session that drops it, and goes on. What that has changed there is forgotten with the table,
//! by a rollback, too.
//!
//! **A file goes only when no catalog can name it any more**: not after a commit that could not be
//! made durable, since whether it took place is for the next open to find out. The database has
//! stopped by then; the open removes the files that its catalog does not know.
//!
//! **Views.** To a view that is older than a table the table does not exist, whatever its name:
//! reads of it fail ([`Error::SnapshotTooOld`]), where the view would find it empty. A transaction
//! that has met an older table under the name keeps that one.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::{IndexId, SpaceId};
use holdfast_pool::AccessKind;
use holdfast_tree::{Lifetime, SpaceFile, Tree};
use holdfast_txn::{FlushAtCommit, Wait};

use crate::ddl::load::{self, TableLoader};
use crate::instance::Instance;
use crate::rows::definition::TableDefinition;
use crate::rows::types::{Key, Value};
use crate::schema::catalog::{IndexRecord, Named, NextIds, TableRecord};
use crate::schema::handle::TableHandle;
use crate::schema::store;
use crate::schema::store::{Origin, TableStore};
use crate::schema::table_file::{self, Closed};
use crate::{Error, Result};

/// How durable changes of the catalog are. An open drops a temporary table that is still there.
fn durability_of(lifetime: Lifetime) -> FlushAtCommit {
    match lifetime {
        Lifetime::Lasting => FlushAtCommit::Sync,
        Lifetime::Temporary => FlushAtCommit::Lazy,
    }
}

fn durability_for(table: &TableHandle) -> FlushAtCommit {
    durability_of(table.store.file.lifetime)
}

pub(super) fn durability_for_all(tables: &[Arc<TableHandle>]) -> FlushAtCommit {
    let lasting = tables.iter().any(|table| table.store.file.lifetime == Lifetime::Lasting);
    durability_of(if lasting { Lifetime::Lasting } else { Lifetime::Temporary })
}

/// Longest name of a table, in bytes: with a letter before it, it is a key of the catalog, also in
/// pages of the smallest size.
const TABLE_NAME_MAX: usize = holdfast_base::limits::key_len_max(holdfast_base::limits::PAGE_SIZE_MIN) - 1;

/// Longest name of an index, in bytes: 64 characters, of which each has four at most.
const INDEX_NAME_MAX: usize = 256;

/// What a new table is made of.
pub(super) struct Plan {
    name: String,
    key_type: String,
    value_type: String,
    /// Name, key type, unique.
    indexes: Vec<(String, String, bool)>,
    /// Bytes that a layer above keeps with the table.
    options: Vec<u8>,
    lifetime: Lifetime,
}

impl Plan {
    fn of<K: Key, V: Value>(definition: &TableDefinition<K, V>) -> Plan {
        let (key_type, value_type) = definition.type_names();
        let indexes = definition.indexes.iter().map(|i| (i.name.clone(), i.key_type.clone(), i.unique)).collect();
        let (options, lifetime) = (Vec::new(), Lifetime::Lasting);
        Plan { name: definition.name().into(), key_type, value_type, indexes, options, lifetime }
    }

    /// One that is like a table that there is.
    pub(super) fn like(table: &TableHandle) -> Plan {
        let record = &table.record;
        Plan {
            name: table.name.clone(),
            key_type: record.key_type.clone(),
            value_type: record.value_type.clone(),
            indexes: record.indexes.iter().map(|i| (i.name.clone(), i.key_type.clone(), i.unique)).collect(),
            options: record.options.clone(),
            lifetime: table.store.file.lifetime,
        }
    }
}

pub(crate) fn create_table<K: Key, V: Value>(
    instance: &Instance,
    definition: &TableDefinition<K, V>,
) -> Result<Arc<TableHandle>> {
    create(instance, &Plan::of(definition), |_, _| Ok(0)).inspect(|table| table.store.learn_specs(&definition.indexes))
}

/// Creates a table with bytes that a layer above keeps with it.
pub(crate) fn create_with_options<K: Key, V: Value>(
    instance: &Instance,
    definition: &TableDefinition<K, V>,
    options: &[u8],
    lifetime: Lifetime,
) -> Result<Arc<TableHandle>> {
    create(instance, &Plan { options: options.to_vec(), lifetime, ..Plan::of(definition) }, |_, _| Ok(0))
}

/// Creates a table with the rows that `rows` pushes.
pub(crate) fn create_table_with<K: Key, V: Value>(
    instance: &Instance,
    definition: &TableDefinition<K, V>,
    rows: impl FnOnce(&mut TableLoader<'_, K, V>) -> Result<()>,
) -> Result<Arc<TableHandle>> {
    create(instance, &Plan::of(definition), |space, record| {
        load::fill(instance, space, record, &definition.indexes, rows)
    })
    .inspect(|table| table.store.learn_specs(&definition.indexes))
}

/// Creates a table called `name` that is like one of another database, with these of its indexes.
pub(crate) fn create_like(
    instance: &Instance,
    name: &str,
    table: &TableHandle,
    indexes: &[IndexRecord],
) -> Result<Arc<TableHandle>> {
    let indexes = indexes.iter().map(|i| (i.name.clone(), i.key_type.clone(), i.unique)).collect();
    create(instance, &Plan { name: name.into(), indexes, ..Plan::like(table) }, |_, _| Ok(0))
}

/// Creates a table of which another database had the record, without indexes.
pub(crate) fn create_plain(instance: &Instance, name: &str, record: &TableRecord) -> Result<Arc<TableHandle>> {
    let plan = Plan {
        name: name.into(),
        key_type: record.key_type.clone(),
        value_type: record.value_type.clone(),
        indexes: Vec::new(),
        options: record.options.clone(),
        lifetime: Lifetime::Lasting,
    };
    create(instance, &plan, |_, _| Ok(0))
}

/// The name of a table that is saved: that of its file, if no table can have its own.
pub(crate) fn name_to_save<'n>(name: &'n str, file: &'n str) -> &'n str {
    if check_table_name(name).is_ok() { name } else { file }
}

fn check_table_name(name: &str) -> Result<()> {
    check_name("a table", name, TABLE_NAME_MAX)
}

pub(crate) fn check_index_name(name: &str) -> Result<()> {
    check_name("an index", name, INDEX_NAME_MAX)
}

fn check_name(what: &str, name: &str, max: usize) -> Result<()> {
    if name.is_empty() || name.len() > max || name.chars().any(char::is_control) {
        let rule = format!("it needs 1 to {max} bytes and no control characters");
        return Err(Error::invalid(format!("`{}` cannot be the name of {what}: {rule}", name.escape_debug())));
    }
    Ok(())
}

/// Creates the table of `plan`; `fill` puts rows into its trees and returns how many.
fn create(
    instance: &Instance,
    plan: &Plan,
    fill: impl FnOnce(&Arc<SpaceFile>, &TableRecord) -> Result<u64>,
) -> Result<Arc<TableHandle>> {
    instance.check_writable()?;
    check_table_name(&plan.name)?;
    for (i, (name, ..)) in plan.indexes.iter().enumerate() {
        check_index_name(name)?;
        if plan.indexes[..i].iter().any(|(other, ..)| other == name) {
            return Err(Error::invalid(format!("the definition has two indexes called `{name}`")));
        }
    }
    if instance.schema().get(&plan.name).is_some() {
        return Err(Error::TableExists(plan.name.clone()));
    }
    build(instance, plan, fill, |space, record, rows| enter(instance, plan, space, record, rows))
}

/// What comes of entering a table in the catalog. An error beside the table says that it is there,
/// but that its commit could not be made durable.
pub(super) type Entered = (Arc<TableHandle>, Result<()>);

/// The file of a table, with its trees, that no catalog has yet. Dropped without
/// [`Made::keep`], it is removed.
pub(super) struct Made<'i> {
    instance: &'i Instance,
    pub space: Arc<SpaceFile>,
    pub record: TableRecord,
    is_kept: bool,
}

impl Made<'_> {
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            remove_file(self.instance, &self.space);
        }
    }
}

/// The next open removes a file that stays.
fn remove_file(instance: &Instance, space: &SpaceFile) {
    let _ = space.close(true).and_then(|()| instance.disk.remove(&space.id().file_name()));
}

/// Makes the file of a table, and its empty trees.
pub(super) fn make<'i>(instance: &'i Instance, plan: &Plan) -> Result<Made<'i>> {
    let ids = take_ids(instance, plan)?;
    let id = SpaceId(ids.space);
    let (store, disk, uuid) = (&instance.store, &*instance.disk, instance.meta.uuid);
    let space = SpaceFile::create_for(plan.lifetime, store, disk, id, &id.file_name(), uuid)?;
    let planted = plant(instance, &space, plan, ids).inspect_err(|_| remove_file(instance, &space));
    Ok(Made { instance, record: planted?, space, is_kept: false })
}

/// Makes the file of a table and what is in it; `enter` makes it known.
pub(super) fn build(
    instance: &Instance,
    plan: &Plan,
    fill: impl FnOnce(&Arc<SpaceFile>, &TableRecord) -> Result<u64>,
    enter: impl FnOnce(&Arc<SpaceFile>, TableRecord, u64) -> Result<Entered>,
) -> Result<Arc<TableHandle>> {
    let made = make(instance, plan)?;
    // Rows are loaded while others may change definitions.
    let rows = fill(&made.space, &made.record)?;
    let (table, added) = enter(&made.space, made.record.clone(), rows)?;
    made.keep();
    added.map(|()| table)
}

/// The number that comes next, if there is one: they are never used again.
pub(crate) fn numbers_left(next: Option<u32>) -> Result<u32> {
    next.ok_or_else(|| Error::LimitReached("all numbers of tables and indexes are used up".into()))
}

/// Space ids granted at a time, so that not each creation has to wait for the log; so many at most
/// are never used.
const SPACES_AHEAD: u32 = 16;

/// Takes the ids of a new table, for good. That the space's is given out is durable.
fn take_ids(instance: &Instance, plan: &Plan) -> Result<NextIds> {
    let mut next = instance.ddl.lock();
    let mut ids = *next;
    // The file of a stranger keeps its name.
    while instance.disk.exists(&SpaceId(ids.space).file_name())? {
        ids.space = numbers_left(ids.space.checked_add(1))?;
    }
    let ahead = ids.space.checked_add(SPACES_AHEAD);
    let granted = if ids.space < next.granted { next.granted } else { numbers_left(ahead)? };
    let index = numbers_left(ids.index.checked_add(1 + plan.indexes.len() as u32))?;
    let [space, table] = [ids.space, ids.table].map(|id| numbers_left(id.checked_add(1)));
    let after = NextIds { space: space?, granted, index, table: table? };
    instance.catalog.set_next(&instance.txns, after)?;
    if granted > next.granted {
        instance.wal().flush_to(instance.wal().next_lsn())?;
    }
    *next = after;
    Ok(ids)
}

/// Enters a complete table in the catalog and publishes it.
fn enter(instance: &Instance, plan: &Plan, space: &Arc<SpaceFile>, record: TableRecord, rows: u64) -> Result<Entered> {
    let _ddl = instance.ddl.lock();
    if instance.schema().get(&plan.name).is_some() {
        return Err(Error::TableExists(plan.name.clone()));
    }
    let added = instance.catalog.add(&instance.txns, &plan.name, &record, durability_of(plan.lifetime));
    if let Err(error) = &added
        && !instance.may_have(&plan.name, &record)
    {
        return Err(error.clone());
    }
    let table = open_new(instance, plan, space, record, rows);
    instance.publish(None, Some(Arc::clone(&table)));
    keep_file(plan.lifetime, space);
    Ok((table, added))
}

/// The handle of a table that the catalog has got. It cannot fail: the table's file stays from here
/// on.
pub(super) fn open_new(
    instance: &Instance,
    plan: &Plan,
    space: &Arc<SpaceFile>,
    record: TableRecord,
    rows: u64,
) -> Arc<TableHandle> {
    let store = TableStore::open(&instance.txns, &instance.disk, &record, Ok(Arc::clone(space)), Origin::Created);
    store.all_indexes().iter().take(1).for_each(|clustered| clustered.set_rows(rows));
    store::begin_now(&instance.txns, plan.lifetime, store.all_indexes());
    Arc::new(TableHandle::new(plan.name.clone(), record, Arc::new(store)))
}

/// Creates the trees.
fn plant(instance: &Instance, space: &Arc<SpaceFile>, plan: &Plan, ids: NextIds) -> Result<TableRecord> {
    let access = instance.pool().access(AccessKind::Point);
    let clustered = IndexId(ids.index);
    let root = Tree::create(space, clustered, &access)?;
    let mut indexes = Vec::new();
    for ((name, key_type, unique), id) in plan.indexes.iter().zip(ids.index + 1..) {
        let id = IndexId(id);
        let root = Tree::create(space, id, &access)?;
        indexes.push(IndexRecord { id, root, unique: *unique, name: name.clone(), key_type: key_type.clone() });
    }
    Ok(TableRecord {
        space: space.id(),
        table_id: ids.table,
        version: 1,
        key_type: plan.key_type.clone(),
        value_type: plan.value_type.clone(),
        options: plan.options.clone(),
        clustered,
        root,
        indexes,
        temporary: plan.lifetime == Lifetime::Temporary,
    })
}

/// A table by its name.
pub(crate) fn find(instance: &Instance, name: &str) -> Result<Arc<TableHandle>> {
    instance.schema().get(name).cloned().ok_or_else(|| Error::TableNotFound(name.into()))
}

/// Keeps new writers out of a table and waits, for `wait`, for those that there are, and as long
/// for rollbacks that are under way; the session gives up if it is killed
/// ([`Instance::wake_waits`]). The caller does not hold the lock of the catalog: by the time that
/// it does, the table may have been dropped, or have got another name.
pub(crate) fn keep_writers_out(instance: &Instance, table: &TableHandle, wait: Duration) -> Result<Closed> {
    shut_writers_out(instance, table, wait, &|_| false)
}

/// As [`keep_writers_out`], of a table that is about to go. What the device does not return cannot
/// be undone, and goes with the table.
pub(super) fn keep_writers_out_for_good(instance: &Instance, table: &TableHandle, wait: Duration) -> Result<Closed> {
    shut_writers_out(instance, table, wait, &Error::is_unread)
}

fn shut_writers_out(
    instance: &Instance,
    table: &TableHandle,
    wait: Duration,
    may_stay: &dyn Fn(&Error) -> bool,
) -> Result<Closed> {
    let file = &table.store.file;
    let closed = file.close_gate(&instance.wait(wait))?;
    if file.lifetime == Lifetime::Lasting {
        settle(instance, table, &instance.wait(wait), may_stay)?;
    }
    Ok(closed)
}

/// Sees to it that what transactions without a user have changed in the table is undone. What they
/// have changed in other tables only does not matter, nor does damage: the table that is damaged
/// can be dropped, since rollback passes over what is dropped. `may_stay`: whether an error that
/// stands in the way does not matter, either.
fn settle(instance: &Instance, table: &TableHandle, wait: &Wait<'_>, may_stay: &dyn Fn(&Error) -> bool) -> Result<()> {
    // First: a prepared transaction whose rollback fails becomes a loser, and no loser is prepared.
    keep_for_prepared(instance, table, wait)?;
    let indexes = index_ids(table);
    let rolled_back = instance.txns.roll_back_losers_of(&indexes, wait);
    if let Err(error @ (Error::Interrupted | Error::LockTimeout)) = rolled_back {
        return Err(error);
    }
    // The background thread may have one in hand, and meet the error.
    for stopped_by in instance.txns.what_stops_losers_of(&indexes, wait)? {
        let error = stopped_by.or_else(|| rolled_back.as_ref().err().cloned()).unwrap_or(Error::LockTimeout);
        if !may_stay(&error) {
            return Err(error);
        }
    }
    Ok(())
}

fn index_ids(table: &TableHandle) -> Vec<IndexId> {
    table.record.index_ids().collect()
}

/// Fails if a prepared transaction without a session has changed the table: its end expects its
/// rows there. When that will be is not known, so there is no waiting for it; `wait` is for another
/// session that reads what one has changed, or that has adopted one to end it.
fn keep_for_prepared(instance: &Instance, table: &TableHandle, wait: &Wait<'_>) -> Result<()> {
    let has_changed = instance.txns.prepared_has_changed(&index_ids(table), wait)?;
    if has_changed && !holdfast_base::planted!("prepared-keeps-no-table") { Err(Error::LockTimeout) } else { Ok(()) }
}

/// As [`keep_for_prepared`], for the table `name`.
pub(crate) fn check_unprepared(instance: &Instance, name: &str, wait: Duration) -> Result<()> {
    keep_for_prepared(instance, &*find(instance, name)?, &instance.wait(wait))
}

/// Says in the file of a table that the catalog has got that it may not go any more. That of a
/// temporary one may: a crash ends the table.
pub(super) fn keep_file(lifetime: Lifetime, space: &SpaceFile) {
    if lifetime == Lifetime::Lasting {
        // If this fails, the next open does it.
        let _ = table_file::set_may_go(space, false);
    }
}

/// The same of a table that the catalog has still: a change that would have taken it out has
/// failed.
pub(super) fn keep_file_of(table: &TableHandle) {
    if let Ok(space) = table.store.space() {
        keep_file(table.store.file.lifetime, space);
    }
}

/// Marks a table's file as one that an open may remove when the catalog does not know it. A damaged
/// file is not marked: after a crash in the middle of a drop it stays, because nothing says whose
/// it is. A file that says that it is another database's, or another table's, stays in any case.
pub(super) fn mark_file_removable(instance: &Instance, table: &TableHandle) -> Result<()> {
    if table.store.file.lifetime == Lifetime::Temporary {
        // It has said so since it was created.
        return instance.check();
    }
    match table.store.space().map(|space| table_file::set_may_go(space, true)) {
        Ok(Err(error)) if !error.is_damage() => return Err(error),
        Err(_)
            if table_file::is_of_another(&*instance.disk, table.record.space, instance.meta.uuid).unwrap_or(false) =>
        {
            table.store.file.set_stays();
        }
        _ => {}
    }
    instance.check()
}

/// A table cannot be dropped, because of `error`. If it is the table's file that keeps the log from
/// going on, the file goes first.
fn give_file_up(instance: &Instance, table: &TableHandle, error: Error) -> Result<()> {
    instance.check()?;
    match error {
        // An earlier attempt came as far as that.
        Error::Closed(_) => Ok(()),
        Error::Io { .. } | Error::DiskFull(_) => {
            table.store.file.give_up(error)?;
            forget(instance, table);
            Ok(())
        }
        error => Err(error),
    }
}

/// Releases a table that the catalog does not have, or not any more.
pub(super) fn release_table(instance: &Instance, table: &TableHandle) {
    forget(instance, table);
    table.store.file.set_dropped();
    if holdfast_base::planted!("numbers-keep-a-table") {
        return;
    }
    // Behind that: an open of the table that comes now does not enter them again.
    let forgotten = instance.marks.lock().remove(&table.record.space);
    drop(forgotten);
}

/// Has purge and rollback pass over the table's indexes.
pub(super) fn forget(instance: &Instance, table: &TableHandle) {
    for id in table.record.index_ids() {
        instance.txns.forget(id);
    }
}

pub(crate) fn drop_table(instance: &Instance, name: &str, wait: Duration) -> Result<()> {
    instance.check_writable()?;
    let closed = keep_writers_out_for_good(instance, &*find(instance, name)?, wait)?;
    let _ddl = instance.ddl.lock();
    // Its definition may have changed since.
    let table = find(instance, name)?;
    if !closed.is_of(&table.store.file) {
        return Err(Error::TableNotFound(name.into()));
    }
    let remove = || instance.catalog.remove(&instance.txns, name, durability_for(&table));
    let removed = mark_file_removable(instance, &table).and_then(|()| remove());
    let removed = removed.or_else(|error| give_file_up(instance, &table, error).and_then(|()| remove()));
    removed.inspect_err(|_| keep_file_of(&table))?;
    release_table(instance, &table);
    instance.publish(Some(name), None);
    Ok(())
}

/// Drops the temporary tables of an earlier run. Their files may be there in part, or not at all.
///
/// # Errors
/// If the database has stopped. A table that cannot be dropped stays until the next open.
pub(crate) fn drop_temporary_tables(instance: &Instance) -> Result<()> {
    let names: Vec<_> = instance.schema().tables().filter(|t| t.record.temporary).map(|t| t.name.clone()).collect();
    if names.is_empty() || !instance.has_free_catalog() {
        return instance.check();
    }
    names.iter().try_for_each(|name| drop_table(instance, name, Duration::ZERO).or_else(|_| instance.check()))
}

/// The bytes that a layer above keeps with tables, by their names.
pub(crate) type OptionsOf<'a> = [(&'a str, &'a [u8])];

/// The tables as they are with other options.
pub(crate) fn with_options(instance: &Instance, options: &OptionsOf<'_>) -> Result<Vec<Arc<TableHandle>>> {
    let schema = instance.schema();
    let with = |(name, options): &(&str, &[u8])| {
        let table = schema.get(name).ok_or_else(|| Error::TableNotFound((*name).into()))?;
        table.check_record()?;
        let record = TableRecord { options: options.to_vec(), ..table.record.clone() };
        Ok(Arc::new(TableHandle::new((*name).into(), record, Arc::clone(&table.store))))
    };
    options.iter().map(with).collect()
}

/// The tables as the catalog takes them.
pub(crate) fn named(tables: &[Arc<TableHandle>]) -> Vec<Named<'_>> {
    tables.iter().map(|table| table.named()).collect()
}

/// Changes the options of tables, of all of them or of none.
pub(crate) fn set_options(instance: &Instance, options: &OptionsOf<'_>) -> Result<()> {
    instance.check_writable()?;
    let _ddl = instance.ddl.lock();
    let changed = with_options(instance, options)?;
    instance.catalog.replace_each(&instance.txns, &named(&changed), durability_for_all(&changed))?;
    changed.into_iter().for_each(|table| instance.publish(None, Some(table)));
    Ok(())
}

/// Gives a table another name, and at the same time other options to it (by its new name) and
/// others.
pub(crate) fn rename_table(instance: &Instance, from: &str, to: &str, options: &OptionsOf<'_>) -> Result<()> {
    instance.check_writable()?;
    check_table_name(to)?;
    // Before the lock of the catalog: to read what a prepared transaction has changed may take
    // minutes.
    check_unprepared(instance, from, instance.settings.lock_wait_timeout)?;
    let _ddl = instance.ddl.lock();
    let schema = instance.schema();
    let table = schema.get(from).ok_or_else(|| Error::TableNotFound(from.into()))?;
    if schema.get(to).is_some() {
        return Err(Error::TableExists(to.into()));
    }
    table.check_record()?;
    // Another table may be about to take its place. A session may have left a transaction since.
    keep_for_prepared(instance, table, &instance.wait(Duration::ZERO))?;
    let (own, others): (Vec<_>, Vec<_>) = options.iter().copied().partition(|(name, _)| *name == to);
    // There is no table of that name any more, and the definitions must not say so.
    if others.iter().any(|(name, _)| *name == from) {
        return Err(Error::TableNotFound(from.into()));
    }
    let mut record = table.record.clone();
    record.version = record.version.wrapping_add(1);
    if let Some((_, options)) = own.first() {
        record.options = options.to_vec();
    }
    let others = with_options(instance, &others)?;
    let renamed = TableHandle::new(to.into(), record, Arc::clone(&table.store));
    instance.catalog.rename(&instance.txns, from, renamed.named(), &named(&others), durability_for(table))?;
    instance.publish(Some(from), Some(Arc::new(renamed)));
    others.into_iter().for_each(|table| instance.publish(None, Some(table)));
    Ok(())
}
