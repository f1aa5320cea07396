//! The adapters. Each engine is set up as its own documentation recommends for this use.

mod fjall;
mod holdfast;
mod lmdb;
mod redb;
mod rocksdb;
mod sqlite;

use std::path::Path;

use anyhow::bail;

/// What the engines have to do.
pub trait Engine: Sync {
    /// Loads rows `0..rows` in key order by the engine's fastest documented way, durable at the end.
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()>;

    /// Whether commits of the slices to come wait for the disk; for engines that set this per database.
    fn wait_for_disk(&self, _wait: bool) -> anyhow::Result<()> {
        Ok(())
    }

    /// A session for one thread.
    fn session(&self) -> anyhow::Result<Box<dyn Session + '_>>;
}

/// What one thread does.
pub trait Session {
    /// Reads one row in a transaction (or snapshot) of its own; returns a byte of its value.
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>>;

    /// Reads `count` rows from `key` on; returns how many there were.
    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize>;

    /// Overwrites one row and makes that durable.
    fn put_durably(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()>;

    /// Reads one row, changes it, writes it back in one transaction that is committed without waiting for the disk.
    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()>;
}

/// Opens (or creates) the engine `name` in `dir`; `memory` is the cgroup's limit, in bytes.
pub fn open(name: &str, dir: &Path, memory: u64) -> anyhow::Result<Box<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    Ok(match name {
        "holdfast" => Box::new(holdfast::open(dir, memory)?),
        "lmdb" => Box::new(lmdb::open(dir, memory)?),
        "redb" => Box::new(redb::open(dir, memory)?),
        "fjall" => Box::new(fjall::open(dir, memory)?),
        "rocksdb" => Box::new(rocksdb::open(dir, memory)?),
        "sqlite" => Box::new(sqlite::open(dir, memory)?),
        _ => bail!("no adapter for `{name}`"),
    })
}

/// How the engine is set up, for the table.
pub fn setup(name: &str) -> &'static str {
    match name {
        "holdfast" => {
            "O_DIRECT, cache 3/4 of the limit, log synced at commit; read-modify-write: log written, synced each second"
        }
        "lmdb" => "memory map; durable: default sync; read-modify-write: MDB_NOSYNC environment",
        "redb" => "cache 1/2 of the limit, rest page cache; Durability::Immediate / None",
        "fjall" => "cache 1/2 of the limit, rest page cache; PersistMode::SyncAll / Buffer; optimistic transactions",
        "rocksdb" => {
            "the distribution's library, RocksDB 7.8 on Debian 12; block cache 1/2 of the limit, rest page cache; TransactionDB, sync / no sync, no compression"
        }
        "sqlite" => "WAL, cache 1/2 of the limit, rest page cache; synchronous FULL / OFF; BEGIN IMMEDIATE",
        _ => "",
    }
}

/// The change of a read-modify-write.
fn modified(value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    value[0] = value[0].wrapping_add(1);
    value
}
