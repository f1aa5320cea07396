//! The catalog: which tables there are. An index of versioned entries like those of tables, in the system space, changed
//! by the engine's own transactions, so that a change of definitions happens as a whole or not at all.

mod record;

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{IndexId, PageNo};
use holdfast_pool::Access;
use holdfast_tree::{SpaceFile, Tree};
use holdfast_txn::{CursorOptions, Durability, IndexKind, TableIndex, Txn, TxnOptions, TxnSystem};

pub(crate) use record::{IndexRecord, NextIds, TableRecord};
use record::{NEXT_IDS_KEY, table_key, table_name};

use crate::{Error, Result};

/// The catalog's own index.
const CATALOG: IndexId = IndexId(1);

/// The open catalog.
pub(crate) struct Catalog {
    pub index: Arc<TableIndex>,
}

/// Creates the tree of an empty catalog; its root.
pub(crate) fn create_tree(system: &Arc<SpaceFile>, access: &Access<'_>) -> Result<PageNo> {
    Tree::create(system, CATALOG, access)
}

impl Catalog {
    /// The catalog whose tree has its root at `root`.
    pub(crate) fn open(system: &Arc<SpaceFile>, root: PageNo) -> Catalog {
        Catalog { index: TableIndex::new(Tree::open(system, CATALOG, root), IndexKind::Rows) }
    }

    /// The tables by name, and the ids that come next.
    pub(crate) fn read(&self, txns: &Arc<TxnSystem>) -> Result<(Vec<(String, TableRecord)>, NextIds)> {
        let mut txn = txns.begin(TxnOptions::snapshot());
        let mut cursor = txn.cursor(&self.index, Bound::Unbounded, Bound::Unbounded, CursorOptions::default())?;
        let (mut tables, mut next) = (Vec::new(), NextIds::FIRST);
        while let Some((key, value)) = cursor.next()? {
            if key == NEXT_IDS_KEY {
                next = NextIds::decode(value).ok_or_else(damaged)?;
            } else {
                let name = table_name(key).ok_or_else(damaged)?;
                tables.push((name, TableRecord::decode(value).ok_or_else(damaged)?));
            }
        }
        drop(cursor);
        txn.commit(Durability::Lazy)?;
        Ok((tables, next))
    }

    /// Whether the table `name` is committed as `record`.
    pub(crate) fn has(&self, txns: &Arc<TxnSystem>, name: &str, record: &TableRecord) -> Result<bool> {
        let mut txn = txns.begin(TxnOptions::snapshot());
        let mut value = Vec::new();
        Ok(txn.get(&self.index, &table_key(name), &mut value)? && value == record.encode())
    }

    /// Sets the ids that come next. They are durable before anything that is logged later.
    pub(crate) fn set_next(&self, txns: &Arc<TxnSystem>, next: NextIds) -> Result<()> {
        self.change(txns, Durability::Lazy, |txn| txn.upsert(&self.index, NEXT_IDS_KEY, &next.encode(), None).map(drop))
    }

    /// Adds a table.
    pub(crate) fn add(&self, txns: &Arc<TxnSystem>, name: &str, record: &TableRecord) -> Result<()> {
        self.change(txns, Durability::Sync, |txn| txn.insert(&self.index, &table_key(name), &record.encode()))
    }

    /// Removes a table.
    pub(crate) fn remove(&self, txns: &Arc<TxnSystem>, name: &str) -> Result<()> {
        self.change(txns, Durability::Sync, |txn| txn.delete(&self.index, &table_key(name), None).map(drop))
    }

    /// Replaces the record of a table.
    pub(crate) fn replace(&self, txns: &Arc<TxnSystem>, name: &str, record: &TableRecord) -> Result<()> {
        self.change(txns, Durability::Sync, |txn| {
            txn.update(&self.index, &table_key(name), &record.encode(), None).map(drop)
        })
    }

    /// Gives a table another name.
    pub(crate) fn rename(&self, txns: &Arc<TxnSystem>, from: &str, to: &str, record: &TableRecord) -> Result<()> {
        self.change(txns, Durability::Sync, |txn| {
            txn.delete(&self.index, &table_key(from), None)?;
            txn.insert(&self.index, &table_key(to), &record.encode())
        })
    }

    fn change(
        &self,
        txns: &Arc<TxnSystem>,
        durability: Durability,
        run: impl FnOnce(&mut Txn) -> Result<()>,
    ) -> Result<()> {
        let mut txn = txns.begin(TxnOptions::default());
        run(&mut txn)?;
        txn.commit(durability)
    }
}

fn damaged() -> Error {
    Error::damaged_file("system.hf", "the catalog holds a record that cannot be decoded")
}
