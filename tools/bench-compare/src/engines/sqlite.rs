//! SQLite: B+tree with a write-ahead log, one writer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::interface::{Durability, Engine, Session, modified};
use crate::data;

pub struct Sqlite {
    file: PathBuf,
    memory: u64,
}

pub fn open(dir: &Path, memory: u64) -> anyhow::Result<Sqlite> {
    let sqlite = Sqlite { file: dir.join("sqlite.db"), memory };
    let db = sqlite.connect(2, Durability::Sync)?;
    db.execute("CREATE TABLE IF NOT EXISTS rows (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID", [])?;
    Ok(sqlite)
}

impl Sqlite {
    /// A connection; connections share the budget for caches.
    fn connect(&self, share: u64, durability: Durability) -> anyhow::Result<Connection> {
        let db = Connection::open(&self.file)?;
        db.busy_timeout(Duration::from_secs(60))?;
        db.pragma_update(None, "page_size", 16384)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = if durability == Durability::Sync { "FULL" } else { "OFF" };
        db.pragma_update(None, "synchronous", synchronous)?;
        db.pragma_update(None, "cache_size", -((self.memory / share / 1024) as i64))?;
        db.set_prepared_statement_cache_capacity(16);
        Ok(db)
    }
}

impl Engine for Sqlite {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        let mut db = self.connect(2, Durability::Sync)?;
        for first in (0..rows).step_by(200_000) {
            let txn = db.transaction()?;
            {
                let mut insert = txn.prepare_cached("INSERT INTO rows VALUES (?1, ?2)")?;
                for n in first..rows.min(first + 200_000) {
                    insert.execute(params![data::key(n), data::value(n, 0)])?;
                }
            }
            txn.commit()?;
        }
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(())
    }

    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(SqliteSession { db: self.connect(4, durability)? }))
    }
}

struct SqliteSession {
    db: Connection,
}

impl Session for SqliteSession {
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>> {
        let mut select = self.db.prepare_cached("SELECT v FROM rows WHERE k = ?1")?;
        Ok(select.query_row([key], |row| Ok(row.get_ref(0)?.as_blob()?[0])).optional()?)
    }

    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize> {
        let mut select = self.db.prepare_cached("SELECT k, v FROM rows WHERE k >= ?1 ORDER BY k LIMIT ?2")?;
        let mut rows = select.query(params![key, count as i64])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            seen += usize::from(!row.get_ref(1)?.as_blob()?.is_empty());
        }
        Ok(seen)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.db.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2)")?.execute(params![key, value])?;
        Ok(())
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let txn = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let value: Option<Vec<u8>> =
            txn.prepare_cached("SELECT v FROM rows WHERE k = ?1")?.query_row([key], |row| row.get(0)).optional()?;
        if let Some(value) = value {
            txn.prepare_cached("UPDATE rows SET v = ?2 WHERE k = ?1")?.execute(params![key, modified(&value)])?;
        }
        Ok(txn.commit()?)
    }
}
