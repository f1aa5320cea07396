//! RocksDB: log-structured merge tree, pessimistic transactions.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;
use rocksdb::{
    BlockBasedOptions, Cache, DB, Direction, IteratorMode, Options, TransactionDB, TransactionDBOptions,
    TransactionOptions, WriteBatch, WriteOptions,
};

use super::interface::{Appender, Appends, Durability, Engine, Session, modified};
use crate::data;

pub struct Rocks {
    dir: PathBuf,
    options: Options,
    /// Opened once the data is loaded, which is done without transactions.
    db: OnceLock<TransactionDB>,
}

pub fn open(dir: &Path, memory: u64) -> anyhow::Result<Rocks> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(memory as usize / 2)?);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.increase_parallelism(std::thread::available_parallelism().map_or(2, |n| n.get() as i32));
    options.set_compression_type(rocksdb::DBCompressionType::None);
    Ok(Rocks { dir: dir.to_path_buf(), options, db: OnceLock::new() })
}

impl Engine for Rocks {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        let db = DB::open(&self.options, &self.dir)?;
        let mut write = WriteOptions::default();
        write.disable_wal(true);
        for first in (0..rows).step_by(10_000) {
            let mut batch = WriteBatch::default();
            for n in first..rows.min(first + 10_000) {
                batch.put(data::key(n), data::value(n, 0));
            }
            db.write_opt(batch, &write)?;
        }
        db.flush()?;
        drop(db);
        let db = TransactionDB::open(&self.options, &TransactionDBOptions::default(), &self.dir)?;
        self.db.set(db).ok().context("it is loaded once")
    }

    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.new_session(durability)?))
    }
}

impl Rocks {
    fn new_session(&self, durability: Durability) -> anyhow::Result<RocksSession<'_>> {
        let mut write = WriteOptions::default();
        write.set_sync(durability == Durability::Sync);
        Ok(RocksSession { db: self.db.get().context("it is loaded first")?, write })
    }
}

impl Appends for Rocks {
    fn empty_appended(&self) -> anyhow::Result<()> {
        // The bindings drop no part of a transactional database: the rows stay.
        Ok(())
    }

    fn appender(&self, durability: Durability) -> anyhow::Result<Box<dyn Appender + '_>> {
        Ok(Box::new(self.new_session(durability)?))
    }
}

impl Appender for RocksSession<'_> {
    fn append(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        // Behind all keys of the first table, which are numbers below 2^63.
        let mut behind = [u8::MAX; 9];
        behind[1..].copy_from_slice(key);
        Ok(self.db.put_opt(behind, value, &self.write)?)
    }
}

struct RocksSession<'a> {
    db: &'a TransactionDB,
    write: WriteOptions,
}

impl Session for RocksSession<'_> {
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>> {
        Ok(self.db.get_pinned(key)?.map(|value| value[0]))
    }

    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize> {
        let mut seen = 0;
        for row in self.db.iterator(IteratorMode::From(key, Direction::Forward)).take(count) {
            seen += usize::from(!row?.1.is_empty());
        }
        Ok(seen)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let txn = self.db.transaction_opt(&self.write, &TransactionOptions::default());
        if let Some(value) = txn.get_for_update(key, true)? {
            txn.put(key, modified(&value))?;
        }
        Ok(txn.commit()?)
    }
}
