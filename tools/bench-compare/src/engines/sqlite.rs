//! SQLite: B+tree with a write-ahead log, one writer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::interface::{Durability, Engine, Session, modified};
use crate::data;

pub struct Sqlite {
    file: PathBuf,
    /// Bytes of the caches of all connections.
    caches: u64,
    /// The connections among which they are divided.
    sessions: AtomicUsize,
}

pub fn open(dir: &Path, memory: u64) -> anyhow::Result<Sqlite> {
    let sqlite = Sqlite { file: dir.join("sqlite.db"), caches: memory / 2, sessions: AtomicUsize::new(1) };
    let db = sqlite.connect(Durability::Sync)?;
    db.execute("CREATE TABLE IF NOT EXISTS rows (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID", [])?;
    Ok(sqlite)
}

impl Sqlite {
    /// A connection, with its share of the caches.
    fn connect(&self, durability: Durability) -> anyhow::Result<Connection> {
        let cache = self.caches / self.sessions.load(Ordering::Relaxed).max(1) as u64;
        let db = Connection::open(&self.file)?;
        db.busy_timeout(Duration::from_secs(60))?;
        db.pragma_update(None, "page_size", 16384)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = if durability == Durability::Sync { "FULL" } else { "OFF" };
        db.pragma_update(None, "synchronous", synchronous)?;
        db.pragma_update(None, "cache_size", -((cache / 1024) as i64))?;
        db.set_prepared_statement_cache_capacity(16);
        Ok(db)
    }
}

impl Engine for Sqlite {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        let mut db = self.connect(Durability::Sync)?;
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

    fn set_sessions(&self, sessions: usize) {
        self.sessions.store(sessions, Ordering::Relaxed);
    }

    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(SqliteSession { db: self.connect(durability)? }))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each had a quarter of the limit: eight of them twice as much as there is, and one half of
    /// what the others have.
    #[test]
    fn the_caches_of_all_sessions_have_half_of_the_limit() {
        let dir = std::env::temp_dir().join(format!("holdfast-sqlite-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let sqlite = open(&dir, 64 << 20).unwrap();
        let kib = |sessions: usize| -> i64 {
            sqlite.set_sessions(sessions);
            let db = sqlite.connect(Durability::Sync).unwrap();
            db.query_row("PRAGMA cache_size", [], |row| row.get(0)).unwrap()
        };
        assert_eq!([1, 8, 32].map(kib), [-32_768, -4_096, -1_024]);
        drop(sqlite);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
