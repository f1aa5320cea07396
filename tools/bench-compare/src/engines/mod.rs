//! The adapters. Each engine is set up as its own documentation recommends for this use.

mod fjall;
mod holdfast;
mod lmdb;
mod redb;
mod rocksdb;
mod sqlite;

use std::path::Path;

use anyhow::bail;
use serde::{Deserialize, Serialize};

/// What a commit waits for.
#[derive(Serialize, Deserialize, clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the log is written and synced once in a while.
    Lazy,
    /// The log is handed to the operating system.
    Write,
    /// The log is on the disk.
    Sync,
}

/// What the engines have to do.
pub trait Engine: Sync {
    /// Loads rows `0..rows` in key order by the engine's fastest documented way, durable at the
    /// end.
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()>;

    /// The durability of the sessions to come, for engines that set it per database. No session is
    /// open.
    fn set_durability(&self, _durability: Durability) -> anyhow::Result<()> {
        Ok(())
    }

    /// A session for one thread, whose commits are as durable as `durability`, or as the nearest
    /// mode.
    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>>;
}

/// What one thread does.
pub trait Session {
    /// Reads one row in a transaction (or snapshot) of its own; returns a byte of its value.
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>>;

    /// Reads `count` rows from `key` on; returns how many there were.
    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize>;

    /// Overwrites one row in a transaction of its own.
    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()>;

    /// Reads one row with a lock, changes it, and writes it back, in one transaction.
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

/// A second table, to the end of which rows are inserted.
pub trait Appends: Engine {
    /// Empties the table where the engine can do so at once; keys of later rows are larger in any
    /// case.
    fn empty_appended(&self) -> anyhow::Result<()>;

    /// A session for one thread.
    fn appender(&self, durability: Durability) -> anyhow::Result<Box<dyn Appender + '_>>;
}

/// What one thread does to the second table.
pub trait Appender {
    /// Inserts one row in a transaction of its own.
    fn append(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()>;
}

/// Opens (or creates) an engine that has a second table as well.
pub fn open_appends(name: &str, dir: &Path, memory: u64) -> anyhow::Result<Box<dyn Appends>> {
    std::fs::create_dir_all(dir)?;
    Ok(match name {
        "holdfast" => Box::new(holdfast::open(dir, memory)?),
        "lmdb" => Box::new(lmdb::open(dir, memory)?),
        "redb" => Box::new(redb::open(dir, memory)?),
        "rocksdb" => Box::new(rocksdb::open(dir, memory)?),
        _ => bail!("`{name}` is not measured; there are holdfast, lmdb, redb, rocksdb"),
    })
}

/// What the engine does in each mode of durability, for the table.
pub fn modes(name: &str) -> &'static str {
    match name {
        "holdfast" => "lazy: log written and synced each second; write: written at commit; sync: synced at commit",
        "lmdb" => "lazy and write: MDB_NOSYNC, pages written at commit; sync: the default",
        "redb" => "lazy and write: Durability::None, nothing written at commit; sync: Durability::Immediate",
        "rocksdb" => "lazy and write: log written at commit; sync: synced at commit",
        _ => "",
    }
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
