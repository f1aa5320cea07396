//! Rollback: of a transaction, to a savepoint, of what recovery found unfinished.
//!
//! Records are applied from the last to the first. An entry that carries (transaction, roll pointer) gets its prior image
//! back; one that does not was never changed, or was restored already: so a rollback can be cut off anywhere and begun
//! again. The log is cut page by page behind the work, and before an overflow chain is freed.
//!
//! A prior image that is only a delete mark everybody sees is not put back: purge has passed, or will find nothing.
//! Both decisions are made under the leaf's latch, and "everybody sees it" never becomes false again, so no mark is left
//! that nobody would remove.

use std::sync::Arc;

use holdfast_base::{IndexId, Result, RollPtr, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::Action;
use holdfast_wal::SpaceClass;

use crate::row::VersionHeader;
use crate::system::{Loser, TxnSystem};
use crate::undo::{UndoLog, UndoRecord};
use crate::values;

impl TxnSystem {
    /// Undoes the records of `log` beyond the first `keep`. `undone` is told by how much the number of live entries of
    /// an index changes.
    pub(crate) fn undo_to(&self, log: &mut UndoLog, keep: u64, undone: &mut dyn FnMut(IndexId, i64)) -> Result<()> {
        let acc = self.store.pool().access(AccessKind::Point);
        let mut bytes = Vec::new();
        while log.records() > keep
            && let Some(roll) = log.last_record(&self.undo, &acc, &mut bytes)?
        {
            let record = UndoRecord::decode(&bytes).ok_or_else(|| self.undo.damaged(roll.page()))?;
            let change = self.undo_change(log.txn(), roll, &record, &acc)?;
            if change != 0 {
                undone(record.index, change);
            }
            let emptied = log.pop();
            if emptied || record.new_chain.is_some() {
                log.cut(&self.undo, &acc)?;
            }
            if let Some(chain) = record.new_chain
                && let Some(index) = self.index(record.index)
                && let Some(_pinned) = index.pin()
            {
                values::free(index.tree().space(), index.id(), chain, &acc)?;
            }
        }
        log.cut(&self.undo, &acc)
    }

    fn undo_change(&self, txn: TxnId, roll: RollPtr, record: &UndoRecord<'_>, acc: &Access<'_>) -> Result<i64> {
        let Some(index) = self.index(record.index) else { return Ok(0) };
        let Some(_pinned) = index.pin() else { return Ok(0) };
        let prior = record.prior.map(|p| crate::visibility::split(&index, p).map(|(h, _)| (h, p))).transpose()?;
        let mut applied = false;
        let mut decide = |current: Option<&[u8]>| {
            let current = current.and_then(VersionHeader::decode).map(|(h, _)| h);
            applied = current.is_some_and(|h| h.txn == txn && h.roll == roll);
            Ok(match prior {
                _ if !applied => Action::Keep,
                None => Action::Remove,
                Some((h, _)) if h.deleted && self.views.all_see(h.txn, &self.map) => Action::Remove,
                Some((_, payload)) => Action::Put(payload.to_vec()),
            })
        };
        index.tree().modify_as(SpaceClass::Rollback, record.key, acc, &mut decide)?;
        let was_live = prior.is_some_and(|(h, _)| !h.deleted);
        Ok(if applied { i64::from(was_live) - i64::from(!record.deletes) } else { 0 })
    }

    /// Rolls a transaction of an earlier run (or one whose rollback failed) back and ends it.
    pub(crate) fn roll_back_loser(&self, mut loser: Loser) -> Result<(), Box<(Loser, holdfast_base::Error)>> {
        if let Err(e) = self.undo_to(&mut loser.log, 0, &mut |_, _| {}) {
            return Err(Box::new((loser, e)));
        }
        let Loser { owner, log } = loser;
        self.finish_rollback(&owner, log);
        Ok(())
    }

    /// The end of a rollback: the log is free, the id is gone from all rows.
    pub(crate) fn finish_rollback(&self, owner: &Arc<crate::lock::Owner>, mut log: UndoLog) {
        let acc = self.store.pool().access(AccessKind::Point);
        let id = log.txn();
        // If the pages cannot be freed now, recovery will do it: the log is empty, there is nothing to undo in it.
        let _ = log.free(&self.undo, &acc);
        self.publish_rollback(id);
        self.end_owner(owner);
        self.metrics.inc(Counter::TrxRollbacks);
    }

    /// Rolls back what recovery found unfinished. Returns how many transactions that were.
    ///
    /// # Errors
    /// Those of reading and writing pages; the transaction concerned stays unfinished and its rows locked.
    pub fn roll_back_losers(&self) -> Result<usize> {
        let mut n = 0;
        loop {
            let Some(loser) = self.losers.lock().pop() else { return Ok(n) };
            if let Err(failed) = self.roll_back_loser(loser) {
                let (loser, e) = *failed;
                self.losers.lock().push(loser);
                return Err(e);
            }
            n += 1;
        }
    }
}
