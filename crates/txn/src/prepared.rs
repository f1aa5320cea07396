//! Which tables a prepared transaction has changed, while nobody holds it: after a crash, or when its session has gone.
//!
//! Whoever ends it later expects its rows where it left them, so their table must stay; no lock says so, but its undo log has
//! every change.

use holdfast_base::{IndexId, Result};
use holdfast_pool::AccessKind;

use crate::system::{Loser, TxnSystem};
use crate::undo::UndoRecord;

impl TxnSystem {
    /// Whether one of the prepared transactions that wait for somebody to decide has changed an entry of `indexes`.
    ///
    /// # Errors
    /// Those of reading its undo log.
    pub fn prepared_has_changed(&self, indexes: &[IndexId]) -> Result<bool> {
        // Nobody can adopt one while its log is read.
        let prepared = self.prepared.lock();
        for loser in prepared.values().flatten() {
            if self.has_changed(loser, indexes)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_changed(&self, loser: &Loser, indexes: &[IndexId]) -> Result<bool> {
        let acc = self.store.pool().access(AccessKind::Point);
        let mut bytes = Vec::new();
        for n in 0..loser.log.records() {
            let roll = loser.log.record(n, &self.undo, &acc, &mut bytes)?;
            let record = UndoRecord::decode(&bytes).ok_or_else(|| self.undo.damaged(roll.page()))?;
            if indexes.contains(&record.index) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
