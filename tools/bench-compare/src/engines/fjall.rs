//! fjall: log-structured merge tree, optimistic transactions.

use std::path::Path;

use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode, Readable};

use super::interface::{Durability, Engine, Session, modified};
use crate::data;

pub struct Fjall {
    db: OptimisticTxDatabase,
    rows: OptimisticTxKeyspace,
}

pub fn open(dir: &Path, memory: u64) -> anyhow::Result<Fjall> {
    let db = OptimisticTxDatabase::builder(dir).cache_size(memory / 2).open()?;
    let rows = db.keyspace("rows", KeyspaceCreateOptions::default)?;
    Ok(Fjall { db, rows })
}

impl Engine for Fjall {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        let mut ingestion = self.rows.inner().start_ingestion()?;
        for n in 0..rows {
            ingestion.write(data::key(n), data::value(n, 0))?;
        }
        ingestion.finish()?;
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
        let mode = if durability == Durability::Sync { PersistMode::SyncAll } else { PersistMode::Buffer };
        Ok(Box::new(FjallSession { fjall: self, mode }))
    }
}

struct FjallSession<'a> {
    fjall: &'a Fjall,
    mode: PersistMode,
}

impl Session for FjallSession<'_> {
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>> {
        Ok(self.fjall.rows.get(key)?.map(|value| value[0]))
    }

    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize> {
        let snapshot = self.fjall.db.read_tx();
        let mut seen = 0;
        for row in snapshot.range(&self.fjall.rows, key..).take(count) {
            seen += usize::from(!row.value()?.is_empty());
        }
        Ok(seen)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.fjall.rows.insert(key, value)?;
        Ok(self.fjall.db.persist(self.mode)?)
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        loop {
            let mut txn = self.fjall.db.write_tx()?.durability(Some(self.mode));
            if let Some(value) = txn.get(&self.fjall.rows, key)? {
                txn.insert(&self.fjall.rows, key, modified(&value));
            }
            if txn.commit()?.is_ok() {
                return Ok(());
            }
        }
    }
}
