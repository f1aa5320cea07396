//! An open table: its file, and the indexes in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use holdfast_base::IndexId;
use holdfast_base::blocking::RwLock;
use holdfast_io::Disk;
use holdfast_tree::{Lifetime, SpaceFile, Tree};
use holdfast_txn::{IndexKind, TableIndex, TxnSystem};

use crate::rows::definition::IndexSpec;
use crate::schema::catalog::TableRecord;
use crate::schema::table_file::TableFile;
use crate::{Error, Result};

/// Where a table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was there when the database was opened.
    Found,
    /// It was created since.
    Created,
}

/// The indexes of `record` in its file, the clustered one first.
pub(crate) fn indexes_in(space: &Arc<SpaceFile>, record: &TableRecord) -> Vec<Arc<TableIndex>> {
    let open = |id, root| Tree::open(space, id, root);
    let rows = TableIndex::new(open(record.clustered, record.root), IndexKind::Rows);
    let entries = record.indexes.iter().map(|i| TableIndex::leading_to(&rows, open(i.id, i.root)));
    std::iter::once(Arc::clone(&rows)).chain(entries).collect()
}

/// Says that `indexes`, of a table of this `lifetime`, have been filled just now, or made: views of
/// before cannot use them. A temporary table is its session's own, which knows what it has put
/// there: its old views can.
pub(crate) fn begin_now<'i>(
    txns: &TxnSystem,
    lifetime: Lifetime,
    indexes: impl IntoIterator<Item = &'i Arc<TableIndex>>,
) {
    if lifetime == Lifetime::Lasting {
        let now = txns.last_commit();
        indexes.into_iter().for_each(|index| index.set_since(now));
    }
}

/// An open table: its file, and what is in it. When its indexes change, another one with the same
/// file takes its place.
pub(crate) struct TableStore {
    pub file: Arc<TableFile>,
    /// The clustered index, then the secondary ones in the order of the catalog; none if there is
    /// no file.
    indexes: Vec<Arc<TableIndex>>,
    /// How index keys are made from rows: known once the program has created the table, or opened
    /// it for writing.
    specs: OnceLock<Vec<Arc<IndexSpec>>>,
    /// True if the number of rows was known when the table was opened.
    pub counted: bool,
    /// What happens to the rows while indexes of them are built, for each of these.
    pub deltas: RwLock<Vec<Arc<TableIndex>>>,
    superseded: AtomicBool,
}

impl TableStore {
    /// Opens the indexes of `record` over its file, and makes them known to purge and rollback.
    pub(crate) fn open(
        txns: &TxnSystem,
        disk: &Arc<dyn Disk>,
        record: &TableRecord,
        space: Result<Arc<SpaceFile>>,
        origin: Origin,
    ) -> TableStore {
        let indexes = space.as_ref().map_or_else(|_| Vec::new(), |space| indexes_in(space, record));
        let known: Vec<bool> = indexes.iter().map(|index| txns.register(index)).collect();
        let counted = origin != Origin::Found || known.first().is_some_and(|&known| known);
        let lifetime = if record.temporary { Lifetime::Temporary } else { Lifetime::Lasting };
        let file = Arc::new(TableFile::new(Arc::clone(disk), record.space.file_name(), space, lifetime));
        TableStore::of(file, indexes, counted)
    }

    fn of(file: Arc<TableFile>, indexes: Vec<Arc<TableIndex>>, counted: bool) -> TableStore {
        let (specs, deltas, superseded) = (OnceLock::new(), RwLock::default(), AtomicBool::new(false));
        TableStore { file, indexes, specs, counted, deltas, superseded }
    }

    /// The same table with the indexes that `record` has: of its own, and of `added`, which purge
    /// and rollback get to know.
    pub(crate) fn with_indexes(
        &self,
        txns: &TxnSystem,
        record: &TableRecord,
        added: &[Arc<TableIndex>],
    ) -> Result<TableStore> {
        for index in added {
            txns.register(index);
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

    /// The file, if it could be opened, and is not gone because of a drop that could not be
    /// completed.
    pub(crate) fn space(&self) -> Result<&Arc<SpaceFile>> {
        self.file.check_there()?;
        self.file.space.as_ref().map_err(Clone::clone)
    }
}
