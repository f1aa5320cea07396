//! Filling a new index, without undo: the entries belong to no transaction and are visible to every
//! transaction that finds the index. So the index must not be reachable by others before all is
//! done. Sorted entries go through a [`Loader`], which writes each page once; what comes after
//! that, in any order, through [`TableIndex::load_entry`].

use std::ops::Bound;

use holdfast_base::{Error, Result, RollPtr, TxnId, limits};
use holdfast_pool::Access;
use holdfast_tree::{Action, BulkLoader, Direction, SuspendedLoad};

use crate::entry::index::TableIndex;
use crate::entry::row::VersionHeader;
use crate::entry::values::{self, NewValue};

/// See the module's description. Made by [`TableIndex::loader`].
pub struct Loader<'t> {
    index: &'t TableIndex,
    tree: BulkLoader<'t>,
    acc: &'t Access<'t>,
    entries: u64,
}

impl TableIndex {
    /// A loader for this index, which must be empty and known to no other thread.
    ///
    /// # Errors
    /// The errors of [`holdfast_tree::Tree::bulk_loader`].
    pub fn loader<'t>(&'t self, acc: &'t Access<'t>) -> Result<Loader<'t>> {
        Ok(Loader { index: self, tree: self.tree().bulk_loader(acc)?, acc, entries: 0 })
    }

    /// Goes on with a load of this index.
    #[must_use]
    pub fn resume_load<'t>(&'t self, load: SuspendedLoader, acc: &'t Access<'t>) -> Loader<'t> {
        let SuspendedLoader { tree, entries } = load;
        Loader { index: self, tree: self.tree().resume_bulk_load(tree, acc), acc, entries }
    }

    /// True if an entry with a key and a value of so many bytes has its value in a chain.
    #[must_use]
    pub fn needs_chain(&self, key_len: usize, value_len: usize) -> bool {
        value_len > self.body_max(key_len)
    }

    /// Makes the index empty, which was filled by a load that is given up: no other thread knows
    /// it.
    ///
    /// # Errors
    /// The errors of [`holdfast_tree::Tree::clear`].
    pub fn clear(&self, acc: &Access<'_>) -> Result<()> {
        self.tree().clear(acc)?;
        self.set_rows(0);
        Ok(())
    }

    /// Adds an entry to a filled index that no other thread knows yet. No other entry may begin
    /// with the first `prefix` bytes of the key. The caller sets the number of rows.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`]; as [`Loader::push`].
    pub fn load_entry<'v>(
        &self,
        key: &[u8],
        prefix: usize,
        value: impl Into<NewValue<'v>>,
        acc: &Access<'_>,
    ) -> Result<()> {
        if let Some(prefix) = key.get(..prefix).filter(|prefix| prefix.len() < key.len()) {
            let mut cursor = self.tree().cursor(acc);
            cursor.seek(Bound::Included(prefix), Direction::Forward);
            if cursor.next()?.is_some_and(|(found, _)| found.starts_with(prefix)) {
                return Err(Error::DuplicateKey);
            }
        }
        let payload = self.loaded(key, value.into(), acc)?;
        let put = self.tree().modify(key, acc, &mut |old| match old {
            Some(_) => Err(Error::DuplicateKey),
            None => Ok(Action::Put(payload.clone())),
        });
        put.map(drop)
    }

    /// The payload of an entry that belongs to no transaction.
    fn loaded(&self, key: &[u8], value: NewValue<'_>, acc: &Access<'_>) -> Result<Vec<u8>> {
        let len = value.bytes().len();
        if len as u64 > limits::VALUE_LEN_MAX {
            return Err(Error::ValueTooLong { len: len as u64, max: limits::VALUE_LEN_MAX });
        }
        values::admit(self.tree().space(), value, acc)?;
        let (max, overflow) = (self.body_max(key.len()), self.needs_chain(key.len(), len));
        let header = VersionHeader { deleted: false, overflow, txn: TxnId::NONE, roll: RollPtr::NONE };
        if overflow {
            Ok(header.encode(&values::write(self.tree().space(), self.id(), value, max, acc)?))
        } else {
            Ok(header.encode(value.bytes()))
        }
    }
}

/// A [`Loader`] that rests.
#[derive(Debug, Default)]
pub struct SuspendedLoader {
    tree: SuspendedLoad,
    entries: u64,
}

impl Loader<'_> {
    /// Whether `key` may be the next one.
    ///
    /// # Errors
    /// The errors of [`BulkLoader::check_next`].
    pub fn check_next(&self, key: &[u8]) -> Result<()> {
        self.tree.check_next(key)
    }

    /// Appends an entry; keys ascend.
    ///
    /// # Errors
    /// The errors of [`BulkLoader::push`].
    pub fn push<'v>(&mut self, key: &[u8], value: impl Into<NewValue<'v>>) -> Result<()> {
        // Before the pages of a large value are written: nothing would lead to them.
        self.check_next(key)?;
        let payload = self.index.loaded(key, value.into(), self.acc)?;
        self.tree.push(key, &payload)?;
        self.entries += 1;
        Ok(())
    }

    /// Lets the load rest; [`TableIndex::resume_load`] goes on with it.
    #[must_use]
    pub fn suspend(self) -> SuspendedLoader {
        SuspendedLoader { tree: self.tree.suspend(), entries: self.entries }
    }

    /// Gives the load up and frees the pages that it has written, which costs no read. The index
    /// stays empty. No value may be in a chain.
    ///
    /// # Errors
    /// The errors of [`BulkLoader::abort`].
    pub fn abort(self) -> Result<()> {
        self.tree.abort()
    }

    /// Attaches everything; returns how many entries there are.
    ///
    /// # Errors
    /// The errors of [`BulkLoader::finish`].
    pub fn finish(self) -> Result<u64> {
        self.tree.finish()?;
        self.index.set_rows(self.entries);
        Ok(self.entries)
    }
}
