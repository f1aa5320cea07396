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
use crate::wait::Wait;
use crate::xa::prepared::PreparedTxn;

/// Records that are read between two questions whether to go on.
const LOOK_EVERY: u64 = 64;

fn indexes_of(deltas: &[(IndexId, i64)]) -> Vec<IndexId> {
    deltas.iter().map(|(index, _)| *index).collect()
}

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
        let loser = self.prepared.adopt(xid, |loser| {
            deltas = self.deltas_of(&loser.log, &|| Ok(()))?;
            Ok(indexes_of(&deltas))
        })?;
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

    /// Whether a prepared transaction whose session has gone has changed an entry of one of
    /// `indexes`. Costs a read of the undo logs that were not read before. Another thread that
    /// reads one, or has adopted one that has changed such an entry, is waited for.
    ///
    /// # Errors
    /// Those of reading undo logs, other than damage; those of [`Wait::at`].
    pub fn prepared_has_changed(&self, indexes: &[IndexId], wait: &Wait<'_>) -> Result<bool> {
        self.prepared.has_changed(indexes, wait, |loser| self.changed_by(&loser.log, &|| self.check_session()))
    }

    /// The indexes that the records of `log` are about. Records on damaged pages are passed over.
    /// `go_on` is asked now and then.
    pub(crate) fn changed_by(&self, log: &UndoLog, go_on: &dyn Fn() -> Result<()>) -> Result<Vec<IndexId>> {
        Ok(indexes_of(&self.deltas_of(log, go_on)?))
    }

    /// The indexes that the records of `log` are about, and by how much the number of live entries
    /// of each has changed. See [`TxnSystem::changed_by`].
    fn deltas_of(&self, log: &UndoLog, go_on: &dyn Fn() -> Result<()>) -> Result<Vec<(IndexId, i64)>> {
        let mut deltas = Vec::new();
        self.any_record(log, go_on, |record| {
            let prior = record.prior.and_then(VersionHeader::decode);
            let was_live = prior.is_some_and(|(header, _)| !header.deleted);
            add_delta(&mut deltas, record.index, i64::from(!record.deletes) - i64::from(was_live));
            false
        })?;
        Ok(deltas)
    }

    /// Whether one of the records of `log` is about an index that `is` wanted. Records on damaged
    /// pages are passed over.
    pub(crate) fn has_changed(&self, log: &UndoLog, mut is: impl FnMut(IndexId) -> bool) -> Result<bool> {
        self.any_record(log, &|| self.check_session(), |record| is(record.index))
    }

    /// Whether one of the records of `log` is `wanted`. Records on damaged pages are passed over.
    /// `go_on` is asked now and then.
    fn any_record(
        &self,
        log: &UndoLog,
        go_on: &dyn Fn() -> Result<()>,
        mut wanted: impl FnMut(&UndoRecord<'_>) -> bool,
    ) -> Result<bool> {
        let acc = self.store.pool().access(AccessKind::Point);
        let mut bytes = Vec::new();
        for n in 0..log.records() {
            self.check_closed()?;
            if n.is_multiple_of(LOOK_EVERY) {
                go_on()?;
            }
            match log.record(n, &self.undo, &acc, &mut bytes) {
                Ok(_) if UndoRecord::decode(&bytes).is_some_and(|record| wanted(&record)) => return Ok(true),
                Err(error) if !error.is_damage() => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}
