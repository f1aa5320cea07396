//! The catalog: which tables there are. An index of versioned entries like those of tables, in the
//! system space, changed by the engine's own transactions, so that a change of definitions happens
//! as a whole or not at all.

pub(crate) mod doubt;
mod record;

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{IndexId, PageNo, SpaceId};
use holdfast_pool::Access;
use holdfast_tree::{SpaceFile, Tree};
use holdfast_txn::{CursorOptions, FlushAtCommit, IndexKind, LockMode, TableIndex, Txn, TxnOptions, TxnSystem};

pub(crate) use record::{IndexRecord, NextIds, TableRecord};
use record::{NEXT_IDS_KEY, decode_unused, encode_unused, table_key, table_name, unused_key, unused_space};

use crate::{Error, Result};

/// The catalog's own index.
pub(crate) const CATALOG: IndexId = IndexId(1);

/// The open catalog.
#[derive(Clone)]
pub(crate) struct Catalog {
    pub index: Arc<TableIndex>,
}

/// What the catalog holds.
pub(crate) struct Contents {
    /// The tables by name. A record that cannot be decoded is an
    /// [unreadable](TableRecord::unreadable) one: it disables its table. What contradicts other
    /// records is for [`doubt`].
    pub tables: Vec<(String, TableRecord)>,
    /// The ids that come next.
    pub next: NextIds,
    /// By file, the indexes whose pages are to be given back: their building or dropping was cut
    /// short. None where that note cannot be decoded.
    pub unused: Vec<(SpaceId, Vec<IndexId>)>,
}

/// A table: its name and its record.
pub(crate) type Named<'r> = (&'r str, &'r TableRecord);

/// Which indexes in a file come to be unused, or are not that any more.
pub(crate) struct Unused {
    pub space: SpaceId,
    pub more: Vec<IndexId>,
    pub less: Vec<IndexId>,
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

    /// All that it holds.
    pub(crate) fn read(&self, txns: &Arc<TxnSystem>) -> Result<Contents> {
        let mut txn = txns.begin(TxnOptions::snapshot());
        let mut cursor = txn.cursor(&self.index, Bound::Unbounded, Bound::Unbounded, CursorOptions::default())?;
        let mut contents = Contents { tables: Vec::new(), next: NextIds::FIRST, unused: Vec::new() };
        while let Some((key, value)) = cursor.next()? {
            if key == NEXT_IDS_KEY {
                contents.next = NextIds::decode(value).ok_or_else(damaged)?;
            } else if let Some(space) = unused_space(key) {
                // Without the note pages stay allocated until a compaction, and no more.
                contents.unused.push((space, decode_unused(value).unwrap_or_default()));
            } else {
                let name = table_name(key).ok_or_else(damaged)?;
                let record = TableRecord::decode(value).filter(TableRecord::is_possible);
                contents.tables.push((name, record.unwrap_or_else(TableRecord::unreadable)));
            }
        }
        drop(cursor);
        txn.commit(FlushAtCommit::Lazy)?;
        Ok(contents)
    }

    /// True if the table `name` is committed as `record`.
    pub(crate) fn has(&self, txns: &Arc<TxnSystem>, name: &str, record: &TableRecord) -> Result<bool> {
        let mut txn = txns.begin(TxnOptions::snapshot());
        let mut value = Vec::new();
        Ok(txn.get(&self.index, &table_key(name), &mut value)? && value == record.encode())
    }

    /// Sets the ids that come next. They are durable before anything that is logged later.
    pub(crate) fn set_next(&self, txns: &Arc<TxnSystem>, next: NextIds) -> Result<()> {
        self.change(txns, FlushAtCommit::Lazy, |txn| self.put_next(txn, next))
    }

    fn put_next(&self, txn: &mut Txn, next: NextIds) -> Result<()> {
        txn.upsert(&self.index, NEXT_IDS_KEY, &next.encode(), None).map(drop)
    }

    /// The same, and says that the indexes which get some of the ids are unused so far.
    pub(crate) fn set_next_and_unused(&self, txns: &Arc<TxnSystem>, next: NextIds, unused: &Unused) -> Result<()> {
        self.change(txns, FlushAtCommit::Lazy, |txn| {
            self.put_next(txn, next)?;
            self.put_unused(txn, unused)
        })
    }

    /// Changes which indexes are unused. Durable with what is logged later.
    pub(crate) fn set_unused(&self, txns: &Arc<TxnSystem>, unused: &Unused) -> Result<()> {
        self.change(txns, FlushAtCommit::Lazy, |txn| self.put_unused(txn, unused))
    }

    fn put_unused(&self, txn: &mut Txn, unused: &Unused) -> Result<()> {
        let (key, mut value) = (unused_key(unused.space), Vec::new());
        let mut ids = Vec::new();
        if txn.get_locked(&self.index, &key, LockMode::Exclusive, None, &mut value)? {
            ids = decode_unused(&value).unwrap_or_default();
        }
        ids.retain(|id| !unused.less.contains(id));
        ids.extend(&unused.more);
        if ids.is_empty() {
            txn.delete(&self.index, &key, None).map(drop)
        } else {
            txn.upsert(&self.index, &key, &encode_unused(&ids), None).map(drop)
        }
    }

    /// Replaces the records of several tables, and which indexes in the files of `changed` ones are
    /// unused.
    pub(crate) fn replace_all(
        &self,
        txns: &Arc<TxnSystem>,
        changed: &[(&str, &TableRecord, &Unused)],
        others: &[Named<'_>],
    ) -> Result<()> {
        self.change(txns, FlushAtCommit::Sync, |txn| {
            for (name, record, unused) in changed {
                self.put(txn, name, record)?;
                self.put_unused(txn, unused)?;
            }
            self.put_all(txn, others)
        })
    }

    fn put(&self, txn: &mut Txn, name: &str, record: &TableRecord) -> Result<()> {
        txn.update(&self.index, &table_key(name), &record.encode(), None).map(drop)
    }

    fn put_all(&self, txn: &mut Txn, tables: &[Named<'_>]) -> Result<()> {
        tables.iter().try_for_each(|(name, record)| self.put(txn, name, record))
    }

    /// Adds a table.
    pub(crate) fn add(
        &self,
        txns: &Arc<TxnSystem>,
        name: &str,
        record: &TableRecord,
        durability: FlushAtCommit,
    ) -> Result<()> {
        self.change(txns, durability, |txn| txn.insert(&self.index, &table_key(name), &record.encode()))
    }

    /// Removes a table.
    pub(crate) fn remove(&self, txns: &Arc<TxnSystem>, name: &str, durability: FlushAtCommit) -> Result<()> {
        self.change(txns, durability, |txn| txn.delete(&self.index, &table_key(name), None).map(drop))
    }

    /// Replaces the records of several tables.
    pub(crate) fn replace_each(
        &self,
        txns: &Arc<TxnSystem>,
        tables: &[Named<'_>],
        durability: FlushAtCommit,
    ) -> Result<()> {
        self.change(txns, durability, |txn| self.put_all(txn, tables))
    }

    /// Gives a table another name, and replaces the records of others.
    pub(crate) fn rename(
        &self,
        txns: &Arc<TxnSystem>,
        from: &str,
        (to, record): Named<'_>,
        others: &[Named<'_>],
        durability: FlushAtCommit,
    ) -> Result<()> {
        self.change(txns, durability, |txn| {
            txn.delete(&self.index, &table_key(from), None)?;
            txn.insert(&self.index, &table_key(to), &record.encode())?;
            self.put_all(txn, others)
        })
    }

    fn change(
        &self,
        txns: &Arc<TxnSystem>,
        durability: FlushAtCommit,
        run: impl FnOnce(&mut Txn) -> Result<()>,
    ) -> Result<()> {
        let mut txn = txns.begin(TxnOptions::default());
        run(&mut txn)?;
        txn.commit(durability)
    }
}

/// The table that a record of the catalog describes, if it does and its bytes can be decoded.
pub(crate) fn table_of(key: &[u8], value: &[u8]) -> Option<(String, TableRecord)> {
    Some((table_name(key)?, TableRecord::decode(value)?))
}

fn damaged() -> Error {
    Error::damaged_file("system.hf", "the catalog holds a record that cannot be decoded")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    /// It kept the database shut.
    #[test]
    fn a_note_that_cannot_be_decoded_costs_no_more_than_pages() {
        let db = Database::in_memory().unwrap();
        let (catalog, txns) = (&db.instance.catalog, &db.instance.txns);
        let key = unused_key(SpaceId(16));
        catalog
            .change(txns, FlushAtCommit::Lazy, |txn| txn.upsert(&catalog.index, &key, b"?", None).map(drop))
            .unwrap();
        assert_eq!(catalog.read(txns).unwrap().unused, [(SpaceId(16), vec![])]);
        let unused = Unused { space: SpaceId(16), more: vec![IndexId(7)], less: vec![] };
        catalog.set_unused(txns, &unused).unwrap();
        assert_eq!(catalog.read(txns).unwrap().unused, [(SpaceId(16), vec![IndexId(7)])]);
    }
}
