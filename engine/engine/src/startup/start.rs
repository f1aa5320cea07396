//! The last steps of opening a database, and of creating one: catalog, tables, background work.
//!
//! A file is removed only if it says that it belongs to this database and may go ([`is_leftover`]).

use std::sync::Arc;

use holdfast_base::page::{self, PageType};
use holdfast_base::{Error, HashSet, PageId, PageNo, Result, SpaceId};
use holdfast_io::{AlignedBuf, FileKind, OpenOptions};
use holdfast_pool::AccessKind;
use holdfast_tree::space::{MAY_GO, SpaceFile, SpaceHeader};
use holdfast_txn::TxnSystem;

use crate::ddl::alter;
use crate::ddl::tables;
use crate::instance::Instance;
use crate::instance::environment::{Environment, SYSTEM};
use crate::instance::files::{Files, Opened, Withheld, open_table};
use crate::schema::catalog::{Catalog, Contents, NextIds, TableRecord, doubt};
use crate::schema::filling;
use crate::schema::handle::TableHandle;
use crate::schema::store::{Origin, TableStore};
use crate::schema::table_file::{self, space_of};
use crate::schema::versions::Schema;

/// From open files to an open database: catalog, tables, background work.
pub(crate) fn start(environment: Environment, mut files: Files, txns: Arc<TxnSystem>) -> Result<Arc<Instance>> {
    let catalog = Catalog::open(&files.system, files.meta.catalog_root);
    txns.register(&catalog.index);
    let Contents { tables: mut records, next, unused } = catalog.read(&txns)?;
    settle_doubts(&environment, &mut files, &mut records, next)?;
    let foreign_files = remove_orphans(&environment, &mut files, &records, next)?;
    let provider = Arc::clone(&txns);
    files.store.pool().set_checkpoint_payload(move |_| provider.checkpoint_payload());
    let (opened, withheld) = (std::mem::take(&mut files.opened), std::mem::take(&mut files.withheld));
    let instance = Arc::new(Instance::new(environment, files, txns, (catalog, next), foreign_files));
    // A reader cannot drop what an earlier run left of temporary tables, and passes over it.
    records.retain(|(_, record)| !(instance.read_only && record.temporary));
    let schema = open_tables(&instance, (opened, withheld), records);
    settle_files(&instance, &schema)?;
    instance.publish_schema(schema);
    alter::sweep(&instance, unused)?;
    if !instance.read_only {
        tables::drop_temporary_tables(&instance)?;
    }
    instance.txns.start()?;
    if instance.settings.warm_up {
        let pool = Arc::downgrade(instance.pool());
        instance.pool().start_warmup(move |id| pool.upgrade()?.space(id))?;
    }
    Ok(instance)
}

/// Opens the tables of the catalog. One that cannot be used says why.
fn open_tables(
    instance: &Instance,
    (mut opened, mut withheld): (Opened, Withheld),
    records: Vec<(String, TableRecord)>,
) -> Schema {
    let table = |(name, record): (String, TableRecord)| {
        let id = record.space;
        let space = match opened.remove(&id) {
            _ if !record.is_readable() => Err(Error::damaged_file(SYSTEM.1, unreadable(&name))),
            Some(space) => space,
            None => open_table(&*instance.disk, &instance.store, &instance.meta, id),
        };
        if let Err(why) = &space
            && record.is_readable()
        {
            // The table is there, and the next open may find it as it was.
            record.index_ids().for_each(|id| instance.txns.register_unusable(id, &record.space.file_name(), why));
        }
        let store = TableStore::open(&instance.txns, &instance.disk, &record, space, Origin::Found);
        if let Some(space) = withheld.remove(&id) {
            store.file.withhold(&instance.store, id, space);
        }
        Arc::new(TableHandle::new(name, record, Arc::new(store)))
    };
    Schema::new(records.into_iter().map(table))
}

/// Says in the files of the catalog's tables that they may not go: a crash may have come between a
/// change of the catalog and what the file says of it. Makes tables empty whose load was cut short,
/// wipes what a crash has left behind the ends of files, and adds what a full disk has kept from
/// them.
fn settle_files(instance: &Instance, schema: &Schema) -> Result<()> {
    for table in schema.tables().filter(|table| !table.record.temporary) {
        let Ok(space) = table.store.space() else { continue };
        let Ok(header) = space.header(&instance.pool().access(AccessKind::Point)) else { continue };
        if header.marks[MAY_GO] != 0 && !instance.read_only {
            instance.check().and_then(|()| table_file::set_may_go(space, false).or_else(|_| instance.check()))?;
        }
        if !instance.read_only {
            // Where the disk fails, pages that are allocated and not written may look damaged.
            space.wipe_tail(&instance.pool().access(AccessKind::Maintenance)).or_else(|_| instance.check())?;
        }
        space.add_missing_end(&instance.pool().access(AccessKind::Maintenance)).or_else(|_| instance.check())?;
        if header.is_filling() {
            filling::empty(&table.store.file, table.store.all_indexes()).or_else(|_| instance.check())?;
        }
    }
    Ok(())
}

/// Makes records unreadable that contradict others and that their files do not bear out.
fn settle_doubts(
    environment: &Environment,
    files: &mut Files,
    records: &mut [(String, TableRecord)],
    next: NextIds,
) -> Result<()> {
    let store = Arc::clone(&files.store);
    for at in doubt::in_doubt(records, next) {
        let record = &mut records[at].1;
        let space = opened(environment, files, record.space);
        let access = store.pool().access(AccessKind::Point);
        let mut page = |no| {
            let page = store.pool().fix_shared(space.as_ref().ok()?.space(), no, &access).ok()?;
            page::PageHeader::decode(&page)
        };
        if !doubt::is_borne_out(record, &mut page) {
            *record = TableRecord::unreadable();
        }
    }
    for (_, record) in records.iter_mut().filter(|(_, record)| record.temporary) {
        // The file of a temporary table says for all its life that it may go.
        let space = opened(environment, files, record.space).as_ref();
        if space.is_ok_and(|space| table_file::may_go(space).is_ok_and(|may_go| !may_go)) {
            *record = TableRecord::unreadable();
        }
    }
    if next.are_above(records.iter().map(|(_, record)| record)) {
        return Ok(());
    }
    Err(Error::damaged_file(
        SYSTEM.1,
        "the next number in the catalog is already that of a table: restore a backup, or salvage",
    ))
}

/// The file of a table, which is opened if it is not.
fn opened<'f>(environment: &Environment, files: &'f mut Files, id: SpaceId) -> &'f Result<Arc<SpaceFile>> {
    let Files { store, meta, opened, .. } = files;
    opened.entry(id).or_insert_with(|| open_table(&*environment.disk, store, meta, id))
}

/// What is wrong with a table whose record cannot be decoded.
pub(crate) fn unreadable(table: &str) -> String {
    format!(
        "the catalog's record of table `{table}` cannot be decoded, or contradicts its file; the table can be dropped, its file stays"
    )
}

/// Removes the files of tables that the catalog does not know: a creation or a drop was cut short.
/// One that is not known to be such a leftover stays, and so does one that cannot be read or
/// removed, until the next open; the names of those.
fn remove_orphans(
    environment: &Environment,
    files: &mut Files,
    records: &[(String, TableRecord)],
    next: NextIds,
) -> Result<Vec<String>> {
    let (mut removed, mut foreign_files) = (Vec::new(), Vec::new());
    let of_tables: HashSet<SpaceId> = records.iter().map(|(_, record)| record.space).collect();
    for name in environment.disk.list()? {
        let Some(id) = space_of(&name) else { continue };
        if of_tables.contains(&id) {
            continue;
        }
        match is_leftover(environment, files, next, id, &name) {
            Ok(true) if environment.disk.remove(&name).is_ok() => removed.push(id),
            _ => foreign_files.push(name),
        }
    }
    if !removed.is_empty() {
        environment.disk.sync_dir()?;
    }
    for id in removed {
        let opened = files.opened.remove(&id).and_then(Result::ok);
        if let Some(space) = opened.or_else(|| files.withheld.remove(&id).flatten()) {
            space.close(true)?;
        }
        files.store.pool().release(id);
    }
    // No table needs the log that is kept for the others.
    files.withheld.keys().filter(|id| !of_tables.contains(*id)).for_each(|id| files.store.pool().release(*id));
    Ok(foreign_files)
}

/// True if the file of a space that the catalog does not know was left by a creation or a drop of
/// this database: the catalog has given its number out, and its header, unless a crash came before
/// that, is of this database and says that the file [may go](MAY_GO). A table that was lost from a
/// damaged catalog keeps its file.
fn is_leftover(environment: &Environment, files: &Files, next: NextIds, id: SpaceId, name: &str) -> Result<bool> {
    if id.0 >= next.granted || id.0 < NextIds::FIRST.space {
        return Ok(false);
    }
    if let Some(Ok(space)) = files.opened.get(&id) {
        // As redo has made it.
        return Ok(table_file::may_go(space).unwrap_or(false));
    }
    let file = environment.disk.open(name, OpenOptions::new(FileKind::Data).read_only(true))?;
    let page_size = files.meta.page_size;
    let mut first = AlignedBuf::zeroed(page_size);
    let there = file.len()?.min(page_size as u64) as usize;
    file.read_at(0, &mut first[..there])?;
    let Some(header) = SpaceHeader::decode(&first) else { return Ok(is_unmade(&first)) };
    Ok(header.uuid == files.meta.uuid && header.id == id && header.marks[MAY_GO] != 0)
}

/// True if `first`, the first page of a file, was never made a header: it is blank, or redo has put
/// changes there of a header whose making the log does not have any more, into a page without an
/// address. Such is the file of a temporary table that was removed, and is back.
fn is_unmade(first: &[u8]) -> bool {
    let nowhere = PageId::new(SpaceId(0), PageNo(0));
    page::check(first, nowhere).is_ok_and(|header| header.page_type == PageType::Free)
}
