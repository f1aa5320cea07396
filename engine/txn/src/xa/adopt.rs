//! What the transaction system does with prepared transactions: see [`crate::xa::prepared`].

use std::sync::Arc;

use holdfast_base::{IndexId, Result};
use holdfast_metrics::{Gauge, local};
use holdfast_pool::AccessKind;

use crate::entry::row::VersionHeader;
use crate::savepoint::add_delta;
use crate::system::TxnSystem;
use crate::txn::Txn;
use crate::undo::{UndoLog, UndoRecord};
use crate::xa::prepared::PreparedTxn;

impl TxnSystem {
    /// The prepared transactions that wait for a decision.
    #[must_use]
    pub fn prepared(&self) -> Vec<PreparedTxn> {
        self.prepared.waiting()
    }

    /// Takes over a prepared transaction, to commit it or to roll it back. Costs a read of its undo
    /// log.
    ///
    /// # Errors
    /// [`holdfast_base::Error::InvalidArgument`] if there is none with this xid; those of reading
    /// its undo log, other than damage.
    pub fn adopt(self: &Arc<Self>, xid: &[u8]) -> Result<Txn> {
        let mut deltas = Vec::new();
        let loser = self.prepared.adopt(xid, |loser| self.changed_by(&loser.log, &mut deltas))?;
        self.metrics.adjust(Gauge::TrxActive, 1);
        let mut txn = Txn::adopted(local(Arc::clone(self)), loser.owner, loser.log, xid.to_vec());
        txn.deltas = deltas;
        Ok(txn)
    }

    /// Releases the xid of a rollback, unless the log says it still.
    pub(crate) fn release_unsaid_xid(&self, log: &UndoLog, xid: &mut Option<Vec<u8>>) {
        if !log.is_prepared()
            && let Some(xid) = xid.take()
        {
            self.prepared.release(xid, log.txn());
        }
    }

    /// Whether there are transactions that are neither committed nor rolled back and that no
    /// session began.
    #[must_use]
    pub fn has_unfinished(&self) -> bool {
        self.prepared.any_left() || self.losers.len() > 0
    }

    /// Whether a prepared transaction whose session has gone, adopted or not, has changed an entry
    /// of one of `indexes`. Costs a read of the undo logs that were not read before.
    ///
    /// # Errors
    /// Those of reading undo logs, other than damage.
    pub fn prepared_has_changed(&self, indexes: &[IndexId]) -> Result<bool> {
        self.prepared.has_changed(indexes, |loser| self.changed_by(&loser.log, &mut Vec::new()))
    }

    /// The indexes that the records of `log` are about. `deltas` gets by how much the number of
    /// live entries of each has changed. Records on damaged pages are passed over.
    pub(crate) fn changed_by(&self, log: &UndoLog, deltas: &mut Vec<(IndexId, i64)>) -> Result<Vec<IndexId>> {
        self.any_record(log, |record| {
            let prior = record.prior.and_then(VersionHeader::decode);
            let was_live = prior.is_some_and(|(header, _)| !header.deleted);
            add_delta(deltas, record.index, i64::from(!record.deletes) - i64::from(was_live));
            false
        })?;
        Ok(deltas.iter().map(|(index, _)| *index).collect())
    }

    /// Whether one of the records of `log` is about an index that `is` wanted. Records on damaged
    /// pages are passed over.
    pub(crate) fn has_changed(&self, log: &UndoLog, mut is: impl FnMut(IndexId) -> bool) -> Result<bool> {
        self.any_record(log, |record| is(record.index))
    }

    /// Whether one of the records of `log` is `wanted`. Records on damaged pages are passed over.
    fn any_record(&self, log: &UndoLog, mut wanted: impl FnMut(&UndoRecord<'_>) -> bool) -> Result<bool> {
        let acc = self.store.pool().access(AccessKind::Point);
        let mut bytes = Vec::new();
        for n in 0..log.records() {
            self.check_closed()?;
            match log.record(n, &self.undo, &acc, &mut bytes) {
                Ok(_) if UndoRecord::decode(&bytes).is_some_and(|record| wanted(&record)) => return Ok(true),
                Err(error) if !error.is_damage() => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}
