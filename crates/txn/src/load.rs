//! Filling a new index with sorted entries, without undo: the entries belong to no transaction and are visible to all
//! who find the index. So the index must not be reachable before [`Loader::finish`] has returned.

use holdfast_base::{Error, Result, RollPtr, TxnId, limits};
use holdfast_pool::Access;
use holdfast_tree::BulkLoader;

use crate::index::TableIndex;
use crate::row::{HEADER_LEN, VersionHeader};
use crate::values;

/// See the module's description. Made by [`TableIndex::loader`].
pub struct Loader<'t> {
    index: &'t TableIndex,
    tree: BulkLoader<'t>,
    acc: &'t Access<'t>,
    entries: u64,
}

impl TableIndex {
    /// A loader for this index, which must be empty and known to nobody else.
    ///
    /// # Errors
    /// As [`holdfast_tree::Tree::bulk_loader`].
    pub fn loader<'t>(&'t self, acc: &'t Access<'t>) -> Result<Loader<'t>> {
        Ok(Loader { index: self, tree: self.tree().bulk_loader(acc)?, acc, entries: 0 })
    }
}

impl Loader<'_> {
    /// Appends an entry; keys ascend.
    ///
    /// # Errors
    /// As [`BulkLoader::push`]; [`Error::ValueTooLong`].
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if value.len() as u64 > limits::VALUE_LEN_MAX {
            return Err(Error::ValueTooLong { len: value.len() as u64, max: limits::VALUE_LEN_MAX });
        }
        let overflow = HEADER_LEN + value.len() > self.index.payload_max(key.len());
        let header = VersionHeader { deleted: false, overflow, txn: TxnId::NONE, roll: RollPtr::NONE };
        let payload = if overflow {
            header.encode(&values::write(self.index.tree().space(), self.index.id(), value, self.acc)?)
        } else {
            header.encode(value)
        };
        self.tree.push(key, &payload)?;
        self.entries += 1;
        Ok(())
    }

    /// Attaches everything; returns how many entries there are.
    ///
    /// # Errors
    /// As [`BulkLoader::finish`].
    pub fn finish(self) -> Result<u64> {
        self.tree.finish()?;
        self.index.set_rows(self.entries);
        Ok(self.entries)
    }
}
