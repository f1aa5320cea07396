//! LMDB through heed: memory-mapped copy-on-write B+tree, one writer.
#![allow(unsafe_code)] // heed marks opening and flags unsafe, as a second opener of the map would break it

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, PutFlags};

use super::{Engine, Session, modified};
use crate::data;

pub struct Lmdb {
    env: Env,
    rows: Database<Bytes, Bytes>,
}

pub fn open(dir: &Path, _memory: u64) -> anyhow::Result<Lmdb> {
    let mut options = EnvOpenOptions::new();
    options.map_size(64 << 30).max_readers(256);
    // SAFETY: the directory belongs to this process alone, and it opens the environment once.
    let env = unsafe { options.open(dir)? };
    let mut txn = env.write_txn()?;
    let rows = env.create_database(&mut txn, None)?;
    txn.commit()?;
    Ok(Lmdb { env, rows })
}

impl Engine for Lmdb {
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()> {
        // In transactions of 200,000 rows, as LMDB keeps a transaction's dirty pages in memory.
        for first in (0..rows).step_by(200_000) {
            let mut txn = self.env.write_txn()?;
            for n in first..rows.min(first + 200_000) {
                self.rows.put_with_flags(&mut txn, PutFlags::APPEND, &data::key(n), &data::value(n, 0))?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn wait_for_disk(&self, wait: bool) -> anyhow::Result<()> {
        let mode = if wait { FlagSetMode::Disable } else { FlagSetMode::Enable };
        // SAFETY: called between slices, when no transaction is open; a crash of the machine would only lose the
        // benchmark's data.
        unsafe { self.env.set_flags(EnvFlags::NO_SYNC, mode)? };
        Ok(())
    }

    fn session(&self) -> anyhow::Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { lmdb: self }))
    }
}

struct LmdbSession<'a> {
    lmdb: &'a Lmdb,
}

impl Session for LmdbSession<'_> {
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>> {
        let txn = self.lmdb.env.read_txn()?;
        Ok(self.lmdb.rows.get(&txn, key)?.map(|value| value[0]))
    }

    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize> {
        let txn = self.lmdb.env.read_txn()?;
        let mut seen = 0;
        for row in self.lmdb.rows.range(&txn, &(Bound::Included(key), Bound::Unbounded))?.take(count) {
            seen += usize::from(!row?.1.is_empty());
        }
        Ok(seen)
    }

    fn put_durably(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.lmdb.env.write_txn()?;
        self.lmdb.rows.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()> {
        let mut txn = self.lmdb.env.write_txn()?;
        if let Some(new) = self.lmdb.rows.get(&txn, key)?.map(modified) {
            self.lmdb.rows.put(&mut txn, key, &new)?;
        }
        Ok(txn.commit()?)
    }
}
