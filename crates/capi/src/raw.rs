//! What the interface needs of the engine: tables of byte strings, each made of an index of rows and indexes of
//! entries that the caller computes.
//!
//! For now it keeps everything in memory, for one connection at a time: changes are undone from a list, there are no
//! locks and no snapshots.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast::{Error, Result};
use parking_lot::{Mutex, RwLock};

use crate::{Flush, Lock, Mark, Seek, Settings, TransactionOptions};

type Tree = RwLock<BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Default)]
struct Shared {
    tables: Mutex<BTreeMap<String, Arc<Table>>>,
    serial: AtomicU64,
}

/// See [`crate::Database`].
pub struct Database {
    shared: Arc<Shared>,
}

/// See [`crate::Table`].
pub struct Table {
    indexes: Vec<Tree>,
    names: Vec<(String, bool)>,
    definition: Vec<u8>,
    marks: [AtomicU64; 2],
}

impl Database {
    pub fn open(_path: &str, _settings: &Settings) -> Result<Database> {
        Ok(Database { shared: Arc::default() })
    }

    pub fn close(self) -> Result<()> {
        Ok(())
    }

    pub fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    pub fn flush_log(&self) -> Result<()> {
        Ok(())
    }

    pub fn set_cache_size(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    pub fn set_policy(&self, _policy: u32, _old_blocks_pct: u32, _old_blocks_time: u32) -> Result<()> {
        Ok(())
    }

    pub fn status_text(&self) -> String {
        String::from("in memory\n")
    }

    pub fn metrics(&self, _each: &mut dyn FnMut(&str, u64)) {}

    pub fn create_table(&self, name: &str, indexes: &[(&str, bool)], definition: &[u8]) -> Result<()> {
        let mut tables = self.shared.tables.lock();
        if tables.contains_key(name) {
            return Err(Error::TableExists(name.into()));
        }
        let names = indexes.iter().map(|(n, unique)| ((*n).to_string(), *unique)).collect();
        tables.insert(name.into(), Table::new(names, definition.to_vec()));
        Ok(())
    }

    pub fn open_table(&self, name: &str) -> Result<Arc<Table>> {
        self.shared.tables.lock().get(name).cloned().ok_or_else(|| Error::TableNotFound(name.into()))
    }

    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.shared.tables.lock().remove(name).map(drop).ok_or_else(|| Error::TableNotFound(name.into()))
    }

    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        let mut tables = self.shared.tables.lock();
        if tables.contains_key(to) {
            return Err(Error::TableExists(to.into()));
        }
        let table = tables.remove(from).ok_or_else(|| Error::TableNotFound(from.into()))?;
        tables.insert(to.into(), table);
        Ok(())
    }

    pub fn truncate_table(&self, name: &str) -> Result<()> {
        let mut tables = self.shared.tables.lock();
        let table = tables.get_mut(name).ok_or_else(|| Error::TableNotFound(name.into()))?;
        *table = Table::new(table.names.clone(), table.definition.clone());
        Ok(())
    }

    pub fn list_tables(&self) -> Vec<String> {
        self.shared.tables.lock().keys().cloned().collect()
    }

    pub fn begin(&self, _options: &TransactionOptions) -> Result<Transaction> {
        let serial = self.shared.serial.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Transaction { serial, undo: Vec::new() })
    }

    pub fn kill(&self, _serial: u64) {}

    pub fn prepared(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    pub fn adopt(&self, _xid: &[u8]) -> Result<Transaction> {
        Err(Error::InvalidArgument("there is no prepared transaction with this xid".into()))
    }
}

impl Table {
    fn new(names: Vec<(String, bool)>, definition: Vec<u8>) -> Arc<Table> {
        let indexes = names.iter().map(|_| Tree::default()).collect();
        Arc::new(Table { indexes, names, definition, marks: [AtomicU64::new(1), AtomicU64::new(1)] })
    }

    fn tree(&self, index: u32) -> Result<&Tree> {
        self.indexes.get(index as usize).ok_or_else(|| Error::InvalidArgument(format!("there is no index {index}")))
    }

    pub fn definition(&self) -> &[u8] {
        &self.definition
    }

    pub fn mark(&self, mark: Mark) -> u64 {
        self.marks[mark as usize].load(Ordering::Relaxed)
    }

    pub fn take_mark(&self, mark: Mark, count: u64) -> Result<u64> {
        let take = |next: u64| next.checked_add(count);
        self.marks[mark as usize]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_err(|_| Error::LimitReached("the numbers of the table are used up".into()))
    }

    pub fn raise_mark(&self, mark: Mark, next: u64) -> Result<()> {
        self.marks[mark as usize].fetch_max(next, Ordering::Relaxed);
        Ok(())
    }

    pub fn set_mark(&self, mark: Mark, next: u64) -> Result<()> {
        self.marks[mark as usize].store(next, Ordering::Relaxed);
        Ok(())
    }

    pub fn rows(&self, index: u32) -> Result<u64> {
        Ok(self.tree(index)?.read().len() as u64)
    }

    pub fn bytes(&self, index: u32) -> Result<u64> {
        Ok(self.tree(index)?.read().iter().map(|(k, v)| (k.len() + v.len()) as u64).sum())
    }

    pub fn estimate(&self, index: u32, from: &[u8], to: &[u8]) -> Result<u64> {
        let bounds = (Bound::Included(from), if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to) });
        if !to.is_empty() && from >= to {
            return Ok(0);
        }
        Ok(self.tree(index)?.read().range::<[u8], _>(bounds).count() as u64)
    }
}

struct Change {
    table: Arc<Table>,
    index: u32,
    key: Vec<u8>,
    old: Option<Vec<u8>>,
}

/// See [`crate::Transaction`].
pub struct Transaction {
    serial: u64,
    undo: Vec<Change>,
}

impl Transaction {
    pub fn statement(&mut self, _lock_wait_timeout: u64) -> Result<u64> {
        Ok(self.savepoint())
    }

    pub fn take_snapshot(&mut self) {}

    pub fn savepoint(&self) -> u64 {
        self.undo.len() as u64
    }

    pub fn rollback_to(&mut self, savepoint: u64) -> Result<()> {
        while self.undo.len() as u64 > savepoint {
            let Some(change) = self.undo.pop() else { break };
            let mut tree = change.table.tree(change.index)?.write();
            match change.old {
                Some(old) => tree.insert(change.key, old),
                None => tree.remove(&change.key),
            };
        }
        Ok(())
    }

    pub fn prepare(&mut self, _xid: &[u8], _flush: Flush) -> Result<()> {
        Ok(())
    }

    pub fn commit_ordered(&mut self) -> Result<()> {
        self.undo.clear();
        Ok(())
    }

    pub fn commit(&mut self, _flush: Flush) -> Result<()> {
        self.undo.clear();
        Ok(())
    }

    pub fn rollback(&mut self) -> Result<()> {
        self.rollback_to(0)
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    pub fn changes(&self) -> u64 {
        self.undo.len() as u64
    }

    fn change(&mut self, table: &Arc<Table>, index: u32, key: &[u8], new: Option<&[u8]>) -> Result<()> {
        let mut tree = table.tree(index)?.write();
        let old = match new {
            Some(new) => tree.insert(key.to_vec(), new.to_vec()),
            None => tree.remove(key),
        };
        self.undo.push(Change { table: Arc::clone(table), index, key: key.to_vec(), old });
        Ok(())
    }

    fn has(table: &Table, index: u32, key: &[u8]) -> Result<bool> {
        Ok(table.tree(index)?.read().contains_key(key))
    }

    pub fn insert(&mut self, table: &Arc<Table>, index: u32, key: &[u8], value: &[u8]) -> Result<()> {
        if Self::has(table, index, key)? {
            return Err(Error::DuplicateKey);
        }
        self.change(table, index, key, Some(value))
    }

    pub fn insert_unique(
        &mut self,
        table: &Arc<Table>,
        index: u32,
        key: &[u8],
        prefix: usize,
        value: &[u8],
    ) -> Result<()> {
        let from =
            key.get(..prefix).ok_or_else(|| Error::InvalidArgument("the prefix is longer than the key".into()))?;
        let taken = table
            .tree(index)?
            .read()
            .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
            .next()
            .is_some_and(|(k, _)| k.starts_with(from));
        if taken {
            return Err(Error::DuplicateKey);
        }
        self.change(table, index, key, Some(value))
    }

    pub fn update(&mut self, table: &Arc<Table>, index: u32, key: &[u8], value: &[u8]) -> Result<bool> {
        let found = Self::has(table, index, key)?;
        if found {
            self.change(table, index, key, Some(value))?;
        }
        Ok(found)
    }

    pub fn delete(&mut self, table: &Arc<Table>, index: u32, key: &[u8]) -> Result<bool> {
        let found = Self::has(table, index, key)?;
        if found {
            self.change(table, index, key, None)?;
        }
        Ok(found)
    }

    pub fn get(
        &mut self,
        table: &Arc<Table>,
        index: u32,
        key: &[u8],
        _lock: Lock,
        _skip_locked: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let tree = table.tree(index)?.read();
        let Some(value) = tree.get(key) else { return Ok(false) };
        out.clear();
        out.extend_from_slice(value);
        Ok(true)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        let _ = self.rollback();
    }
}

/// See [`crate::Cursor`].
pub struct Cursor {
    table: Arc<Table>,
    index: u32,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    backward: bool,
}

impl Cursor {
    pub fn new(table: Arc<Table>, index: u32) -> Result<Cursor> {
        table.tree(index)?;
        Ok(Cursor { table, index, from: Bound::Unbounded, to: Bound::Unbounded, backward: false })
    }

    pub fn seek(&mut self, _transaction: &mut Transaction, from: &[u8], to: &[u8], seek: &Seek) -> Result<()> {
        self.from = if seek.from_included { Bound::Included(from.to_vec()) } else { Bound::Excluded(from.to_vec()) };
        self.to = match (to.is_empty(), seek.to_included) {
            (true, _) => Bound::Unbounded,
            (false, true) => Bound::Included(to.to_vec()),
            (false, false) => Bound::Excluded(to.to_vec()),
        };
        self.backward = seek.backward;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        match (&self.from, &self.to) {
            (Unbounded, _) | (_, Unbounded) => false,
            (Included(from), Included(to)) => from > to,
            (Included(from) | Excluded(from), Included(to) | Excluded(to)) => from >= to,
        }
    }

    pub fn next(&mut self, _transaction: &mut Transaction, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let tree = self.table.tree(self.index)?.read();
        let mut range = tree.range::<Vec<u8>, _>((self.from.as_ref(), self.to.as_ref()));
        let found = if self.backward { range.next_back() } else { range.next() };
        let Some((found, content)) = found else { return Ok(false) };
        key.clone_from(found);
        value.clone_from(content);
        let passed = Bound::Excluded(found.clone());
        if self.backward {
            self.to = passed;
        } else {
            self.from = passed;
        }
        Ok(true)
    }
}
