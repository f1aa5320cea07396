//! What a prepared transaction has only read need not stay locked: it reads no more.

use holdfast_base::{Error, IndexId, Result};
use holdfast_lock::KeyRange;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::Direction;

use crate::entry::row::VersionHeader;
use crate::txn::{State, Txn};

impl Txn {
    /// Releases the locks by which the prepared transaction kept what it has only read. Sessions
    /// that wait for these locks go on. Rows that are there and that it has locked exclusively stay
    /// locked; so do, where memory for locks is short, the keys between them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the transaction is not prepared.
    pub fn release_reads(&mut self) -> Result<()> {
        if self.state != State::Prepared {
            return Err(Error::invalid("only a prepared transaction releases locks before its end"));
        }
        let acc = self.system.store.pool().access(AccessKind::Point);
        let mut bytes = Vec::new();
        let mut is_there = |index: IndexId, key: &[u8]| {
            let Some(index) = self.system.index(index) else { return true };
            let Some(_pinned) = index.pin() else { return true };
            let is_dead =
                |bytes: &[u8]| VersionHeader::decode(bytes).is_some_and(|(h, _)| h.deleted && h.txn != self.id);
            index.tree().get(key, &acc, &mut bytes).map_or(true, |found| found && !is_dead(&bytes))
        };
        let locks = &self.system.locks;
        if !holdfast_base::planted!("prepared-keeps-covers") {
            locks.dissolve_covers(self.owner(), |index, range, lock| self.each_read(index, range, &acc, lock));
        }
        locks.release_reads(self.owner(), &mut is_there);
        Ok(())
    }

    /// Calls `lock` with the key of each entry in a range that is there and that the transaction
    /// has not changed, as long as that returns true. Returns whether there is no further one;
    /// false if that cannot be told.
    fn each_read(
        &self,
        index: IndexId,
        range: &KeyRange,
        acc: &Access<'_>,
        lock: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        let Some(index) = self.system.index(index) else { return false };
        let Some(_pinned) = index.pin() else { return false };
        let mut cursor = index.tree().cursor(acc);
        cursor.seek(range.from.as_ref().map(|key| &**key), Direction::Forward);
        loop {
            let Ok(next) = cursor.next() else { return false };
            let Some((key, payload)) = next.filter(|(key, _)| range.contains(key)) else { return true };
            // What the transaction has changed is locked by its id.
            let was_read = VersionHeader::decode(payload).is_none_or(|(h, _)| !h.deleted && h.txn != self.id);
            if was_read && !lock(key) {
                return false;
            }
        }
    }
}
