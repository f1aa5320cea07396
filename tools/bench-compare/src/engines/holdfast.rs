//! Holdfast: B+tree in a buffer pool of its own, many writers.

use std::path::Path;

use holdfast::{Database, FlushAtCommit, ReadOptions, TableDefinition, TableLoader, WaitMode, WriteOptions};

use super::interface::{Appender, Appends, Durability, Engine, Session, modified};
use crate::data;

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");
const APPENDED: TableDefinition<&[u8], &[u8]> = TableDefinition::new("appended");

pub struct Holdfast {
    db: Database,
}

pub fn open(dir: &Path, memory: u64) -> anyhow::Result<Holdfast> {
    // It does not use the page cache, so what the others leave to that is its own.
    let db = Database::builder()
        .cache_size_bytes(memory / 4 * 3)
        .cache_size_max_bytes(memory / 4 * 3)
        .log_capacity_bytes((memory / 2).max(256 << 20))
        .create(dir.join("holdfast"))?;
    Ok(Holdfast { db })
}

impl Engine for Holdfast {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        let load = |table: &mut TableLoader<'_, _, _>| {
            (0..rows).try_for_each(|n| table.push(&data::key(n)[..], &data::value(n, 0)[..]))
        };
        Ok(self.db.create_table_with(&ROWS, load)?)
    }

    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>> {
        let write = options(durability);
        Ok(Box::new(HoldfastSession { db: &self.db, write, value: Vec::new(), key: Vec::new() }))
    }
}

impl Appends for Holdfast {
    fn empty_appended(&self) -> anyhow::Result<()> {
        if self.db.list_tables().iter().any(|table| table.name == APPENDED.name()) {
            self.db.drop_table(APPENDED.name())?;
        }
        Ok(self.db.create_table(&APPENDED)?)
    }

    fn appender(&self, durability: Durability) -> anyhow::Result<Box<dyn Appender + '_>> {
        Ok(Box::new(HoldfastAppender { db: &self.db, write: options(durability) }))
    }
}

/// Of transactions that wait for a row that another one has locked, rather than start again.
fn options(durability: Durability) -> WriteOptions {
    let flush = match durability {
        Durability::Lazy => FlushAtCommit::Lazy,
        Durability::Write => FlushAtCommit::Write,
        Durability::Sync => FlushAtCommit::Sync,
    };
    WriteOptions::new().flush_at_commit(flush).snapshot_isolation(false)
}

struct HoldfastAppender<'a> {
    db: &'a Database,
    write: WriteOptions,
}

impl Appender for HoldfastAppender<'_> {
    fn append(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        Ok(self.db.transact_with(&self.write, |txn| txn.open_table(&APPENDED)?.insert(key, value).map(drop))?)
    }
}

struct HoldfastSession<'a> {
    db: &'a Database,
    write: WriteOptions,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Session for HoldfastSession<'_> {
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>> {
        let txn = self.db.begin_read()?;
        let found = txn.open_table(&ROWS)?.get_into(key, &mut self.value)?;
        Ok(found.then(|| self.value[0]))
    }

    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize> {
        let txn = self.db.begin_read()?;
        let table = txn.open_table(&ROWS)?;
        let mut cursor = table.cursor(&ReadOptions::new());
        cursor.seek(key..)?;
        let mut seen = 0;
        while seen < count && cursor.next_into(&mut self.key, &mut self.value)? {
            seen += usize::from(!self.value.is_empty());
        }
        Ok(seen)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        Ok(self.db.transact_with(&self.write, |txn| txn.open_table(&ROWS)?.upsert(key, value).map(drop))?)
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let txn = self.db.begin_write_with(&self.write)?;
        {
            let table = txn.open_table(&ROWS)?;
            if let Some(value) = table.get_for_update(key, WaitMode::Wait)? {
                table.update(key, &modified(&value))?;
            }
        }
        Ok(txn.commit()?)
    }
}
