//! The adapters. Each engine is set up as its own documentation recommends for this use.

#[cfg(feature = "peers")]
mod fjall;
mod holdfast;
mod interface;
#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peers")]
mod rocksdb;
#[cfg(feature = "peers")]
mod sqlite;

use std::path::Path;

use anyhow::bail;

pub use interface::{Appender, Appends, Durability, Engine, Session};

/// Opens (or creates) the engine `name` in `dir`; `memory` is the cgroup's limit, in bytes.
pub fn open(name: &str, dir: &Path, memory: u64) -> anyhow::Result<Box<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    Ok(match name {
        #[cfg(feature = "peers")]
        "fjall" => Box::new(fjall::open(dir, memory)?),
        #[cfg(feature = "peers")]
        "sqlite" => Box::new(sqlite::open(dir, memory)?),
        _ if !modes(name).is_empty() => open_appends(name, dir, memory)?,
        _ => bail!("no adapter for `{name}`"),
    })
}

/// Opens (or creates) an engine that has a second table as well.
pub fn open_appends(name: &str, dir: &Path, memory: u64) -> anyhow::Result<Box<dyn Appends>> {
    std::fs::create_dir_all(dir)?;
    Ok(match name {
        "holdfast" => Box::new(holdfast::open(dir, memory)?),
        #[cfg(feature = "peers")]
        "lmdb" => Box::new(lmdb::open(dir, memory)?),
        #[cfg(feature = "peers")]
        "redb" => Box::new(redb::open(dir, memory)?),
        #[cfg(feature = "peers")]
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
        "lmdb" => "memory map, MDB_NORDAHEAD; durable: default sync; read-modify-write: MDB_NOSYNC environment",
        "redb" => "cache 1/2 of the limit, rest page cache; Durability::Immediate / None",
        "fjall" => "cache 1/2 of the limit, rest page cache; PersistMode::SyncAll / Buffer; optimistic transactions",
        "rocksdb" => {
            "the distribution's library, RocksDB 7.8 on Debian 12; block cache 1/2 of the limit, rest page cache; TransactionDB, sync / no sync, no compression"
        }
        "sqlite" => {
            "WAL, caches of all connections 1/2 of the limit, rest page cache; synchronous FULL / OFF; BEGIN IMMEDIATE"
        }
        _ => "",
    }
}
