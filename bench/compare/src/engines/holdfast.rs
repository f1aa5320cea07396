//! Holdfast: B+tree in a buffer pool of its own, many writers.

use std::path::Path;

use holdfast::{Database, FlushAtCommit, ReadOptions, TableDefinition, TableLoader, WaitMode, WriteOptions};

use super::{Engine, Session, modified};
use crate::data;

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");

pub struct Holdfast {
    db: Database,
}

pub fn open(dir: &Path, memory: u64) -> anyhow::Result<Holdfast> {
    // It does not use the page cache, so what the others leave to that is its own.
    let db = Database::builder()
        .cache_size_bytes(memory / 4 * 3)
        .cache_size_max_bytes(memory / 4 * 3)
        .log_capacity_bytes(256 << 20)
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

    fn session(&self) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(HoldfastSession { db: &self.db, value: Vec::new(), key: Vec::new() }))
    }
}

struct HoldfastSession<'a> {
    db: &'a Database,
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

    fn put_durably(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        // Once in a while another thread writes the same row: then again.
        let options = WriteOptions::new().flush_at_commit(FlushAtCommit::Sync);
        Ok(self.db.transact_with(&options, |txn| txn.open_table(&ROWS)?.upsert(key, value).map(drop))?)
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let options = WriteOptions::new().flush_at_commit(FlushAtCommit::Write).snapshot_isolation(false);
        let txn = self.db.begin_write_with(&options)?;
        {
            let table = txn.open_table(&ROWS)?;
            if let Some(value) = table.get_for_update(key, WaitMode::Wait)? {
                table.update(key, &modified(&value))?;
            }
        }
        Ok(txn.commit()?)
    }
}
