//! redb: copy-on-write B+tree, one writer.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Engine, Session, modified};
use crate::data;

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");

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

    fn session(&self) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { db: &self.db }))
    }
}

struct RedbSession<'a> {
    db: &'a Database,
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

    fn put_durably(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        txn.open_table(ROWS)?.insert(key, value)?;
        txn.commit()?;
        Ok(())
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::None)?;
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
