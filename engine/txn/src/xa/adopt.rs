//! What the transaction system does with prepared transactions: see [`crate::xa::prepared`].

use std::sync::Arc;

use holdfast_base::{Error, IndexId, Result};
use holdfast_metrics::{Gauge, local};
use holdfast_pool::AccessKind;

use crate::entry::row::VersionHeader;
use crate::recovery::losers::Changed;
use crate::savepoint::add_delta;
use crate::system::TxnSystem;
use crate::txn::Txn;
use crate::undo::{UndoLog, UndoRecord};
use crate::wait::Wait;
use crate::xa::prepared::PreparedTxn;

/// Records that are read between two questions whether to go on.
const LOOK_EVERY: u64 = 64;

/// By how much the number of live entries of each index has changed that a log is about, as far as
/// its records are known, and whether all are.
type Deltas = (Vec<(IndexId, i64)>, bool);

fn changed((deltas, whole): &Deltas) -> Changed {
    Changed { indexes: deltas.iter().map(|(index, _)| *index).collect(), whole: *whole }
}

/// Damage of a page costs what is there. One that the device does not return may come back, and
/// the caller asks again.
fn is_lost(error: &Error) -> bool {
    error.is_damage()
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
    /// [`holdfast_base::Error::InvalidArgument`] if there is none with this xid; the errors of
    /// reading its undo log, other than that a page is damaged or is not returned: the transaction
    /// can be ended all the same.
    pub fn adopt(self: &Arc<Self>, xid: &[u8]) -> Result<Txn> {
        let mut deltas = Deltas::default();
        let loser = self.prepared.adopt(xid, |loser| {
            deltas = self.deltas_of(&loser.log, &|| Ok(()), &|error| is_lost(error) || error.is_unread())?;
            Ok(changed(&deltas))
        })?;
        self.metrics.adjust(Gauge::TrxActive, 1);
        let mut txn = Txn::adopted(local(Arc::clone(self)), loser.owner, loser.log, xid.to_vec());
        (txn.deltas, _) = deltas;
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

    /// True if there are transactions that are neither committed nor rolled back and that no
    /// session began.
    #[must_use]
    pub fn has_unfinished(&self) -> bool {
        self.prepared.any_left() || self.losers.len() > 0
    }

    /// True if a prepared transaction whose session has gone has changed an entry of one of
    /// `indexes`, or may have, since not all of its records are known. Costs a read of the undo
    /// logs that were not read before. Another thread that reads one, or has adopted such a one, is
    /// waited for.
    ///
    /// # Errors
    /// The errors of reading undo logs, other than damage; the errors of [`Wait::at`].
    pub fn prepared_has_changed(&self, indexes: &[IndexId], wait: &Wait<'_>) -> Result<bool> {
        self.prepared.has_changed(indexes, wait, |loser| self.changed_by(&loser.log, &|| self.check_session()))
    }

    /// The indexes that the records of `log` are about. Records on damaged pages are passed over.
    /// `go_on` is asked now and then.
    pub(crate) fn changed_by(&self, log: &UndoLog, go_on: &dyn Fn() -> Result<()>) -> Result<Changed> {
        self.deltas_of(log, go_on, &is_lost).map(|deltas| changed(&deltas))
    }

    /// What the records of `log` have changed. One whose page cannot be read, for a reason that is
    /// to be `passed` over, is not known. See [`TxnSystem::changed_by`].
    fn deltas_of(
        &self,
        log: &UndoLog,
        go_on: &dyn Fn() -> Result<()>,
        passed: &dyn Fn(&Error) -> bool,
    ) -> Result<Deltas> {
        let (mut deltas, mut known) = (Vec::new(), 0);
        self.any_record(log, go_on, passed, |record| {
            known += 1;
            let prior = record.prior.and_then(VersionHeader::decode);
            let was_live = prior.is_some_and(|(header, _)| !header.deleted);
            add_delta(&mut deltas, record.index, i64::from(!record.deletes) - i64::from(was_live));
            false
        })?;
        Ok((deltas, log.is_whole() && known == log.records()))
    }

    /// True if one of the records of `log` is about an index that `is` wanted. Records on damaged
    /// pages are passed over.
    pub(crate) fn has_changed(&self, log: &UndoLog, mut is: impl FnMut(IndexId) -> bool) -> Result<bool> {
        self.any_record(log, &|| self.check_session(), &is_lost, |record| is(record.index))
    }

    /// True if one of the records of `log` is `wanted`. One that cannot be decoded, or whose page
    /// cannot be read for a reason that is to be `passed` over, is. `go_on` is asked now and then.
    fn any_record(
        &self,
        log: &UndoLog,
        go_on: &dyn Fn() -> Result<()>,
        passed: &dyn Fn(&Error) -> bool,
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
                Err(error) if !passed(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}
