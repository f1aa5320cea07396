//! Changing the indexes of a table in place: adding, dropping and reordering them, crash-safe at
//! any point.
//!
//! **Begin.** One transaction takes the ids of the new indexes and notes them in the catalog as
//! *unused*: their pages belong to no table. Then their trees are made, and the caller fills them.
//! Rows do not change meanwhile, or the transactions that change them note it in
//! [deltas](crate::ddl::delta). The transaction that alters a table is among its writers, so that
//! the table is not dropped, and until the change is made or given up a compaction takes no page
//! for lost.
//!
//! **Catching up.** When the indexes are filled, what the deltas say is put into them in rounds,
//! while rows go on changing: each round follows what one view sees of the deltas and the view of
//! the round before did not see.
//!
//! **Commit.** Writers are kept out, and the rest of what the deltas say is put in. A transaction,
//! for all tables that change together, replaces their records, removes the notes of the new
//! indexes and adds notes of the dropped ones: from its commit on the tables are the new ones. Then
//! another [`TableStore`] over the same file takes the place of the old one. When the
//! alteration ends, purge and rollback release what was dropped, and its pages are freed; after
//! that the note is removed, too. New indexes have no old versions: to views of before they do not
//! exist ([`TableIndex::set_since`]).
//!
//! **After a crash** in between, [`sweep`] frees the pages of every file that say they are of one
//! of its unused indexes, before the database is open. No page is ever allocated without saying
//! whose it is, but parts of large values that nothing refers to yet; an id is never used twice.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::{IndexId, PageId, PageNo, SpaceId, page};
use holdfast_io::AlignedBuf;
use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Tree};
use holdfast_txn::{IndexKind, TableIndex, Txn, TxnOptions};
use holdfast_wal::SpaceClass;

use crate::ddl::delta::{self, Refused};
use crate::ddl::tables::{OptionsOf, check_index_name, find, keep_writers_out, named, numbers_left, with_options};
use crate::instance::Instance;
use crate::schema::catalog::{IndexRecord, NextIds, TableRecord, Unused};
use crate::schema::freeing::Leftover;
use crate::schema::handle::{Entered, TableHandle};
use crate::schema::store;
use crate::schema::store::TableStore;
use crate::schema::table_file::{Closed, Visit};
use crate::{Error, Result};

/// An index that no table has yet.
pub(crate) struct NewIndex {
    pub record: IndexRecord,
    pub index: Arc<TableIndex>,
}

/// A change of a table's indexes that is under way.
pub(crate) struct Alteration {
    pub table: Arc<TableHandle>,
    pub added: Vec<NewIndex>,
    /// One for each added index, if rows change meanwhile.
    deltas: Vec<Arc<TableIndex>>,
    /// What this one sees of the deltas is in the added indexes.
    pub caught_up: Option<Txn>,
    /// The entry that was there twice when deltas were merged, and the number of its index.
    pub refused: Option<(u32, Refused)>,
    /// What the table has not any more, once the change is made.
    gone: Vec<Arc<TableIndex>>,
    /// Given up when the table is to change.
    entered: Option<Entered>,
    /// From before there are pages of new indexes until the table has them, or they are free.
    _building: Visit,
}

/// What a table becomes.
#[derive(Clone)]
pub(crate) struct Outcome {
    /// Its secondary indexes, in order.
    pub indexes: Vec<IndexRecord>,
    pub options: Vec<u8>,
}

/// Begins to change the indexes of table `name`; makes empty ones of `add`: name, key type, unique.
/// `with_deltas`: rows are going to change meanwhile, but none changes yet.
pub(crate) fn begin(
    instance: &Instance,
    name: &str,
    add: &[(&str, &str, bool)],
    with_deltas: bool,
    wait: Duration,
) -> Result<Alteration> {
    instance.check_writable()?;
    // Waits not only for the writers that are to stay away: a session that ends while its
    // transaction is prepared leaves the table when the transaction is on the list of prepared
    // ones.
    let found = find(instance, name)?;
    check_unaltered(&found)?;
    let closed = keep_writers_out(instance, &found, wait)?;
    let mut next = instance.ddl.lock();
    let table = find(instance, name)?;
    if !closed.is_of(&table.store.file) {
        return Err(Error::TableNotFound(name.into()));
    }
    check_unaltered(&table)?;
    table.store.indexes()?;
    for (index, ..) in add {
        check_index_name(index)?;
    }
    // The lock of the catalog keeps the table from now on.
    drop(closed);
    let (entered, building) = (Some(table.enter()?), table.store.file.build());
    let count = if with_deltas { 2 * add.len() } else { add.len() };
    let behind = numbers_left(next.index.checked_add(count as u32))?;
    let ids: Vec<IndexId> = (next.index..behind).map(IndexId).collect();
    if !ids.is_empty() {
        let after = NextIds { index: behind, ..*next };
        let unused = Unused { space: table.record.space, more: ids.clone(), less: Vec::new() };
        instance.catalog.set_next_and_unused(&instance.txns, after, &unused)?;
        *next = after;
    }
    drop(next);
    let mut made = make_indexes(instance, &table, &ids, add.len())?;
    let deltas = made.split_off(add.len());
    for delta in &deltas {
        instance.txns.register(delta);
    }
    table.store.deltas.write().clone_from(&deltas);
    let record = |(name, key_type, unique): &(&str, &str, bool), index: Arc<TableIndex>| {
        let (name, key_type) = ((*name).into(), (*key_type).into());
        let record = IndexRecord { id: index.id(), root: index.tree().root(), unique: *unique, name, key_type };
        NewIndex { record, index }
    };
    let added = add.iter().zip(made).map(|(add, index)| record(add, index)).collect();
    let (caught_up, refused, gone) = (None, None, Vec::new());
    Ok(Alteration { table, added, deltas, caught_up, refused, gone, entered, _building: building })
}

/// Makes the empty indexes of an alteration: `added` ones of the rows' entries, and the deltas. If
/// one cannot be made, those before it go again. What cannot be freed is freed by the next open.
fn make_indexes(
    instance: &Instance,
    table: &TableHandle,
    ids: &[IndexId],
    added: usize,
) -> Result<Vec<Arc<TableIndex>>> {
    let space = table.store.space()?;
    let rows = &table.store.indexes()?[0];
    let access = instance.pool().access(AccessKind::Point);
    let mut made = Vec::new();
    for (no, &id) in ids.iter().enumerate() {
        let tree = Tree::create(space, id, &access).map(|root| Tree::open(space, id, root));
        match tree {
            Ok(tree) if no < added => made.push(TableIndex::leading_to(rows, tree)),
            Ok(tree) => made.push(TableIndex::new(tree, IndexKind::Entries)),
            Err(error) => {
                let leftover = Leftover { store: Arc::clone(&table.store), indexes: made, is_whole: true };
                let unused = Unused { space: table.record.space, more: Vec::new(), less: ids[no..].to_vec() };
                let _ = instance.freeing.free(&leftover).and_then(|()| {
                    let _ddl = instance.ddl.lock();
                    instance.catalog.set_unused(&instance.txns, &unused)
                });
                return Err(error);
            }
        }
    }
    Ok(made)
}

/// Refuses a table whose indexes are being changed.
fn check_unaltered(table: &TableHandle) -> Result<()> {
    if table.store.deltas.read().is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("the indexes of table `{}` are being changed already", table.name)))
}

impl Alteration {
    /// Puts what the deltas say into the filled indexes, while transactions go on to note things,
    /// until little is left for [`commit`], or what is left does not become less.
    pub(crate) fn catch_up(&mut self, instance: &Instance) -> Result<()> {
        let mut last = usize::MAX;
        while !self.deltas.is_empty() {
            let followed = match self.merge(instance) {
                // One of the two may go until the end, and the last round has another view.
                Err(Error::DuplicateKey | Error::SnapshotTooOld) => {
                    self.refused = None;
                    return Ok(());
                }
                followed => followed?,
            };
            if followed < delta::BATCH || followed > last / 2 {
                break;
            }
            last = followed;
        }
        Ok(())
    }

    /// Puts what the deltas say by now into the new indexes, and returns how many notes that took.
    fn merge(&mut self, instance: &Instance) -> Result<usize> {
        let before = self.caught_up.take();
        let is_first = before.is_none();
        match self.merge_since(instance, before) {
            // The versions that the earlier view needs are gone. Notes may be followed again.
            Err(Error::SnapshotTooOld) if !is_first => self.merge_since(instance, None),
            followed => followed,
        }
    }

    /// As [`Alteration::merge`]: what `before` sees is in the indexes.
    fn merge_since(&mut self, instance: &Instance, mut before: Option<Txn>) -> Result<usize> {
        let mut now = instance.begin(TxnOptions::snapshot());
        let mut followed = 0;
        for (no, (new, delta)) in self.added.iter().zip(&self.deltas).enumerate() {
            instance.txns.register(&new.index);
            let mut refused = None;
            let merged = delta::merge(instance, &new.index, delta, before.as_mut(), &mut now, &mut refused);
            self.refused = refused.map(|refused| (no as u32, refused));
            followed += merged?;
        }
        self.caught_up = Some(now);
        Ok(followed)
    }
}

/// A table on its way from one definition to the next.
struct Change {
    old: Arc<TableHandle>,
    record: TableRecord,
    store: TableStore,
    unused: Unused,
    /// What is not needed any more when the change is made.
    gone: Vec<Arc<TableIndex>>,
}

impl Change {
    fn new(instance: &Instance, alteration: &Alteration, outcome: &Outcome) -> Result<Change> {
        let name = &alteration.table.name;
        let now = instance.schema().get(name).cloned();
        // It may have been renamed or replaced; its options may have changed.
        let old = now.filter(|now| Arc::ptr_eq(&now.store, &alteration.table.store));
        let old = old.ok_or_else(|| Error::TableNotFound(name.clone()))?;
        let Outcome { indexes, options } = outcome.clone();
        for (i, index) in indexes.iter().enumerate() {
            if indexes[..i].iter().any(|other| other.name == index.name || other.id == index.id) {
                return Err(Error::invalid(format!("the table would have two indexes called `{}`", index.name)));
            }
        }
        let version = old.record.version.wrapping_add(1);
        let record = TableRecord { indexes, options, version, ..old.record.clone() };
        let added: Vec<_> = alteration.added.iter().map(|new| Arc::clone(&new.index)).collect();
        let store = old.store.with_indexes(&instance.txns, &record, &added)?;
        let has = |id| record.index_ids().any(|other| other == id);
        let new: Vec<IndexId> = added.iter().map(|index| index.id()).collect();
        if !new.iter().all(|&id| has(id)) {
            return Err(Error::invalid("the table would not have an index that was made for it"));
        }
        let dropped = old.record.index_ids().filter(|&id| !has(id)).collect();
        let unused = Unused { space: record.space, more: dropped, less: new };
        let indexes = old.store.all_indexes().iter().filter(|index| !has(index.id()));
        let gone = indexes.chain(&alteration.deltas).cloned().collect();
        Ok(Change { old, record, store, unused, gone })
    }
}

/// Makes the changes of all `alterations`, and gives other tables other options, at once. It waits
/// for writers of each for `wait`. An error beside `true` says that this is done, but could not be
/// made durable.
pub(crate) fn commit(
    instance: &Instance,
    mut alterations: Vec<(&mut Alteration, &Outcome)>,
    options: &OptionsOf<'_>,
    wait: Duration,
) -> (bool, Result<()>) {
    let mut closed = Vec::new();
    let prepared = alterations.iter_mut().try_for_each(|(alteration, _)| {
        closed.push(prepare(instance, alteration, wait)?);
        Ok(())
    });
    let (done, result) = match prepared.and_then(|()| replace(instance, &mut alterations, options)) {
        Ok(replaced) => (true, replaced),
        Err(error) => (false, Err(error)),
    };
    drop(closed);
    if !done {
        // Until they are given up they keep the tables as they are.
        for (alteration, _) in alterations {
            alteration.entered = alteration.table.enter().ok();
        }
    }
    (done, result)
}

/// Keeps the writers out of a table and puts what they have done since the beginning into its new
/// indexes.
fn prepare(instance: &Instance, alteration: &mut Alteration, wait: Duration) -> Result<Closed> {
    alteration.entered = None;
    let closed = keep_writers_out(instance, &alteration.table, wait)?;
    alteration.merge(instance)?;
    alteration.caught_up = None;
    // A view that sees this commit sees all rows of which the new indexes have entries, as they
    // are.
    let lifetime = alteration.table.store.file.lifetime;
    store::begin_now(&instance.txns, lifetime, alteration.added.iter().map(|new| &new.index));
    Ok(closed)
}

/// Puts the tables as they are to be in the place of those that are, where all are prepared. The
/// error inside says that this is done, but could not be made durable.
fn replace(
    instance: &Instance,
    alterations: &mut [(&mut Alteration, &Outcome)],
    options: &OptionsOf<'_>,
) -> Result<Result<()>> {
    let _ddl = instance.ddl.lock();
    let change = |(alteration, outcome): &(&mut Alteration, &Outcome)| Change::new(instance, alteration, outcome);
    let changes = alterations.iter().map(change).collect::<Result<Vec<_>>>()?;
    let records: Vec<_> = changes.iter().map(|c| (c.old.name.as_str(), &c.record, &c.unused)).collect();
    // The record with these options would be that of the table as it was.
    if let Some((name, _)) = options.iter().find(|(name, _)| records.iter().any(|(changed, ..)| changed == name)) {
        return Err(Error::invalid(format!(
            "table `{name}` is altered by this call: its options belong to the change"
        )));
    }
    let others = with_options(instance, options)?;
    let replaced = instance.catalog.replace_all(&instance.txns, &records, &named(&others));
    let may_have = |first: &Change| instance.may_have(&first.old.name, &first.record);
    if let Err(error) = &replaced
        && !changes.first().is_some_and(may_have)
    {
        return Err(error.clone());
    }
    for (change, (alteration, _)) in changes.into_iter().zip(alterations) {
        alteration.gone = publish(instance, change);
    }
    others.into_iter().for_each(|table| instance.publish(None, Some(table)));
    Ok(replaced)
}

/// Publishes a table as it is now, and returns the indexes that it has not any more.
fn publish(instance: &Instance, change: Change) -> Vec<Arc<TableIndex>> {
    let Change { old, record, store, gone, .. } = change;
    let table = Arc::new(TableHandle::new(old.name.clone(), record, Arc::new(store)));
    old.store.set_superseded();
    instance.publish(None, Some(table));
    gone
}

/// What is to be freed when a change that was made has ended: the indexes that the table has not
/// any more.
pub(crate) fn dropped(alteration: &Alteration) -> Leftover {
    Leftover { store: Arc::clone(&alteration.table.store), indexes: alteration.gone.clone(), is_whole: true }
}

/// Gives up a change that was not made; what is to be freed then. `is_whole`: nothing has failed
/// that could have left pages to which no tree leads.
pub(crate) fn give_up(alteration: &Alteration, is_whole: bool) -> Leftover {
    let store = Arc::clone(&alteration.table.store);
    // Transactions that were noting something have done so; others do not any more.
    store.deltas.write().clear();
    let added = alteration.added.iter().map(|new| &new.index);
    Leftover { store, indexes: added.chain(&alteration.deltas).cloned().collect(), is_whole }
}

/// Frees what changes that were cut short have left in the files. The database is not in use yet.
/// What cannot be freed - a table is damaged, its file cannot be read, the notes are locked by a
/// transaction that cannot be rolled back - is left for the next open: it takes space and does no
/// other harm.
pub(crate) fn sweep(instance: &Instance, unused: Vec<(SpaceId, Vec<IndexId>)>) -> Result<()> {
    if unused.is_empty() || instance.read_only {
        return Ok(());
    }
    if !instance.has_free_catalog() {
        return instance.check();
    }
    for (id, indexes) in unused {
        if sweep_file(instance, id, indexes).is_err() {
            instance.check()?;
        }
    }
    Ok(())
}

/// Frees the pages of unused indexes in one file, and forgets these.
fn sweep_file(instance: &Instance, id: SpaceId, indexes: Vec<IndexId>) -> Result<()> {
    let schema = instance.schema();
    // If there is no such table any more, its file has gone.
    if let Some(table) = schema.tables().find(|table| table.record.space == id) {
        // A note that names an index which the table has is damaged.
        let unused: Vec<_> = indexes.iter().copied().filter(|&id| table.store.index_of(id).is_none()).collect();
        free_pages_of(instance, table.store.space()?, &unused)?;
    }
    instance.catalog.set_unused(&instance.txns, &Unused { space: id, more: Vec::new(), less: indexes })
}

/// Bytes of a file that are read at a time.
const PIECE: usize = 1 << 20;

/// Frees all pages that say they are of one of `indexes`. They are read from the file, past the
/// cache: there may be pages that were never written.
fn free_pages_of(instance: &Instance, space: &SpaceFile, indexes: &[IndexId]) -> Result<()> {
    instance.pool().flush_space(space.space())?;
    let file = space.space().file();
    let page_size = instance.meta.page_size;
    let access = instance.pool().access(AccessKind::Maintenance);
    let pages = u64::from(space.header(&access)?.pages);
    let mut buf = AlignedBuf::zeroed(PIECE);
    let mut found = Vec::new();
    for first in (0..pages).step_by(PIECE / page_size) {
        let count = (pages - first).min((PIECE / page_size) as u64) as usize;
        buf.resize(count * page_size);
        file.read_at(first * page_size as u64, &mut buf)?;
        for (bytes, no) in buf.chunks_exact(page_size).zip(first as u32..) {
            let no = PageNo(no);
            let is_theirs = page::check(bytes, PageId::new(space.id(), no)).is_ok_and(|p| indexes.contains(&p.index));
            if is_theirs && space.is_allocated(no, &access)? {
                found.push(no);
            }
        }
    }
    space.free_pages(&found, SpaceClass::User, &access)
}
