//! LMDB through heed: memory-mapped copy-on-write B+tree, one writer.
#![allow(unsafe_code)] // heed marks opening and flags unsafe, as a second opener of the map would break it

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, PutFlags};

use super::interface::{Appender, Appends, Durability, Engine, Session, modified};
use crate::data;

pub struct Lmdb {
    rows: Table,
    /// In an environment of its own, as a named table costs a search in each transaction.
    appended: Table,
}

/// An environment with one table.
struct Table {
    env: Env,
    rows: Database<Bytes, Bytes>,
}

pub fn open(dir: &Path, _memory: u64) -> anyhow::Result<Lmdb> {
    Ok(Lmdb { rows: table(dir)?, appended: table(&dir.join("appended"))? })
}

fn table(dir: &Path) -> anyhow::Result<Table> {
    std::fs::create_dir_all(dir)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(64 << 30).max_readers(1024);
    // As LMDB recommends for random reads of more than the memory: the system would read 32 pages
    // for each, and drop as many that are needed.
    // SAFETY: the directory belongs to this process alone, and it opens the environment once; the
    // flag is advice to the system.
    let env = unsafe { options.flags(EnvFlags::NO_READ_AHEAD).open(dir)? };
    let mut txn = env.write_txn()?;
    let rows = env.create_database(&mut txn, None)?;
    txn.commit()?;
    Ok(Table { env, rows })
}

impl Engine for Lmdb {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        let table = &self.rows;
        // In transactions of 200,000 rows, as LMDB keeps a transaction's dirty pages in memory.
        for first in (0..rows).step_by(200_000) {
            let mut txn = table.env.write_txn()?;
            for n in first..rows.min(first + 200_000) {
                table.rows.put_with_flags(&mut txn, PutFlags::APPEND, &data::key(n), &data::value(n, 0))?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn set_durability(&self, durability: Durability) -> anyhow::Result<()> {
        let mode = if durability == Durability::Sync { FlagSetMode::Disable } else { FlagSetMode::Enable };
        for table in [&self.rows, &self.appended] {
            // SAFETY: called between slices, when no transaction is open; a crash of the machine
            // would only lose the benchmark's data.
            unsafe { table.env.set_flags(EnvFlags::NO_SYNC, mode)? };
        }
        Ok(())
    }

    fn session(&self, _durability: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { table: &self.rows }))
    }
}

impl Appends for Lmdb {
    fn empty_appended(&self) -> anyhow::Result<()> {
        let mut txn = self.appended.env.write_txn()?;
        self.appended.rows.clear(&mut txn)?;
        Ok(txn.commit()?)
    }

    fn appender(&self, _durability: Durability) -> anyhow::Result<Box<dyn Appender + '_>> {
        Ok(Box::new(LmdbSession { table: &self.appended }))
    }
}

impl Appender for LmdbSession<'_> {
    fn append(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.put(key, value)
    }
}

struct LmdbSession<'a> {
    table: &'a Table,
}

impl Session for LmdbSession<'_> {
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>> {
        let txn = self.table.env.read_txn()?;
        Ok(self.table.rows.get(&txn, key)?.map(|value| value[0]))
    }

    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize> {
        let txn = self.table.env.read_txn()?;
        let mut seen = 0;
        for row in self.table.rows.range(&txn, &(Bound::Included(key), Bound::Unbounded))?.take(count) {
            seen += usize::from(!row?.1.is_empty());
        }
        Ok(seen)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.table.env.write_txn()?;
        self.table.rows.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.table.env.write_txn()?;
        if let Some(new) = self.table.rows.get(&txn, key)?.map(modified) {
            self.table.rows.put(&mut txn, key, &new)?;
        }
        Ok(txn.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system read ahead of every read, and LMDB did a hundredth of what the disk gives.
    #[test]
    fn the_map_is_read_without_reading_ahead() {
        let dir = std::env::temp_dir().join(format!("holdfast-lmdb-{}", std::process::id()));
        let lmdb = open(&dir, 0).unwrap();
        for durability in [Durability::Write, Durability::Sync] {
            lmdb.set_durability(durability).unwrap();
            for table in [&lmdb.rows, &lmdb.appended] {
                assert_ne!(table.env.get_flags().unwrap() & EnvFlags::NO_READ_AHEAD.bits(), 0);
            }
        }
        drop(lmdb);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
