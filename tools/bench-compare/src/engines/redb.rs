//! redb: copy-on-write B+tree, one writer.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::interface::{Appender, Appends, Durability, Engine, Session, modified};
use crate::data;

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");
const APPENDED: TableDefinition<&[u8], &[u8]> = TableDefinition::new("appended");

pub struct Redb {
    db: Database,
}

pub fn open(dir: &Path, memory: u64) -> anyhow::Result<Redb> {
    let db = Database::builder().set_cache_size(memory as usize / 2).create(dir.join("redb"))?;
    Ok(Redb { db })
}

impl Engine for Redb {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        let txn = self.db.begin_write()?;
        {
            let mut table = txn.open_table(ROWS)?;
            for n in 0..rows {
                table.insert(&data::key(n)[..], &data::value(n, 0)[..])?;
            }
        }
        txn.commit()?;
        Ok(())
    }

    fn set_durability(&self, _durability: Durability) -> anyhow::Result<()> {
        // Pages that commits without durability have freed become usable again with one that has
        // it.
        Ok(self.db.begin_write()?.commit()?)
    }

    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { db: &self.db, durability: mode(durability) }))
    }
}

impl Appends for Redb {
    fn empty_appended(&self) -> anyhow::Result<()> {
        let txn = self.db.begin_write()?;
        txn.delete_table(APPENDED)?;
        Ok(txn.commit()?)
    }

    fn appender(&self, durability: Durability) -> anyhow::Result<Box<dyn Appender + '_>> {
        Ok(Box::new(RedbSession { db: &self.db, durability: mode(durability) }))
    }
}

impl Appender for RedbSession<'_> {
    fn append(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(self.durability)?;
        txn.open_table(APPENDED)?.insert(key, value)?;
        Ok(txn.commit()?)
    }
}

fn mode(durability: Durability) -> redb::Durability {
    match durability {
        Durability::Lazy | Durability::Write => redb::Durability::None,
        Durability::Sync => redb::Durability::Immediate,
    }
}

struct RedbSession<'a> {
    db: &'a Database,
    durability: redb::Durability,
}

impl Session for RedbSession<'_> {
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        Ok(table.get(key)?.map(|value| value.value()[0]))
    }

    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        let mut seen = 0;
        for row in table.range(key..)?.take(count) {
            let (_, value) = row?;
            seen += usize::from(!value.value().is_empty());
        }
        Ok(seen)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(self.durability)?;
        txn.open_table(ROWS)?.insert(key, value)?;
        txn.commit()?;
        Ok(())
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(self.durability)?;
        {
            let mut table = txn.open_table(ROWS)?;
            let new = table.get(key)?.map(|value| modified(value.value()));
            if let Some(new) = new {
                table.insert(key, &new[..])?;
            }
        }
        txn.commit()?;
        Ok(())
    }
}
