//! Prepared transactions by xid, and which tables they have changed.
//!
//! A prepared transaction is *held* by the session that prepared it, *waits* after a crash or when
//! its session has gone, or is *adopted* by a user that ends it. Its end expects the rows where it
//! left them, so a table that it has changed must stay as it is until then. While its session holds
//! it, that session is among the table's writers. Afterwards no lock says so, but the undo log has
//! every change: it is read when a change of a definition asks about a transaction that waits, and
//! when one is adopted, since the adopter owns the log from then on. An xid is in use as long as
//! the first page of the log carries it, and until an attempt to undo the changes has ended: from
//! then on the transaction is a loser like others ([`crate::recovery::losers`]).
//!
//! No two prepared transactions get the same xid. If an open finds two all the same, both are
//! listed, and each has to be ended.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, IndexId, Result, TxnId};
use holdfast_metrics::{Gauge, local};
use holdfast_pool::AccessKind;

use crate::recovery::losers::Loser;
use crate::recovery::restart::PreparedTxn;
use crate::system::TxnSystem;
use crate::txn::Txn;
use crate::undo::{UndoLog, UndoRecord};

/// Where a prepared transaction is.
#[derive(Debug)]
enum Prepared {
    Held,
    Waiting(Loser),
    /// The indexes that it has changed.
    Adopted(Vec<IndexId>),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PreparedTxns(Mutex<BTreeMap<Name, Prepared>>);

/// The xid, and the transaction that has it.
type Name = (Vec<u8>, TxnId);

/// All names with this xid.
fn named(xid: &[u8]) -> RangeInclusive<Name> {
    (xid.to_vec(), TxnId(0))..=(xid.to_vec(), TxnId(u64::MAX))
}

impl PreparedTxns {
    /// Whether there is one whose session has gone.
    pub fn any_left(&self) -> bool {
        self.0.lock().values().any(|prepared| !matches!(prepared, Prepared::Held))
    }
}

impl TxnSystem {
    /// The prepared transactions that wait for a decision.
    #[must_use]
    pub fn prepared(&self) -> Vec<PreparedTxn> {
        let of = |((xid, txn), prepared): (&Name, &Prepared)| match prepared {
            Prepared::Waiting(_) => Some(PreparedTxn { xid: xid.clone(), txn: *txn }),
            Prepared::Held | Prepared::Adopted(_) => None,
        };
        self.prepared.0.lock().iter().filter_map(of).collect()
    }

    /// Takes over a prepared transaction, to commit it or to roll it back. Costs a read of its undo
    /// log.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none with this xid; those of reading its undo log,
    /// other than damage.
    pub fn adopt(self: &Arc<Self>, xid: &[u8]) -> Result<Txn> {
        let mut prepared = self.prepared.0.lock();
        let mut waiting = prepared.range_mut(named(xid)).map(|(_, found)| found);
        let found = waiting.find(|found| matches!(found, Prepared::Waiting(_)));
        let changed = match &found {
            Some(Prepared::Waiting(loser)) => self.changed_by(&loser.log)?,
            _ => Vec::new(),
        };
        let Some(Prepared::Waiting(loser)) = found.map(|found| std::mem::replace(found, Prepared::Adopted(changed)))
        else {
            return Err(Error::invalid("there is no prepared transaction with this xid"));
        };
        drop(prepared);
        self.metrics.adjust(Gauge::TrxActive, 1);
        Ok(Txn::adopted(local(Arc::clone(self)), loser.owner, loser.log, xid.to_vec()))
    }

    /// Reserves `xid` for transaction `txn`, which is about to be prepared.
    pub(crate) fn reserve_xid(&self, xid: &[u8], txn: TxnId) -> Result<()> {
        let mut prepared = self.prepared.0.lock();
        if prepared.range(named(xid)).next().is_some() {
            return Err(Error::invalid("there is a prepared transaction with this xid"));
        }
        prepared.insert((xid.to_vec(), txn), Prepared::Held);
        Ok(())
    }

    /// Transaction `txn` is not prepared any more under `xid`, or was not after all.
    pub(crate) fn release_xid(&self, xid: Vec<u8>, txn: TxnId) {
        self.prepared.0.lock().remove(&(xid, txn));
    }

    /// Releases the xid of a rollback, unless the log says it still.
    pub(crate) fn release_unsaid_xid(&self, log: &UndoLog, xid: &mut Option<Vec<u8>>) {
        if !log.is_prepared()
            && let Some(xid) = xid.take()
        {
            self.release_xid(xid, log.txn());
        }
    }

    /// Lists a prepared transaction that no session holds (any more).
    pub(crate) fn list_prepared(&self, xid: Vec<u8>, loser: Loser) {
        self.prepared.0.lock().insert((xid, loser.log.txn()), Prepared::Waiting(loser));
    }

    /// Whether there are transactions that are neither committed nor rolled back and that no
    /// session began.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.prepared.any_left() || self.losers.len() > 0
    }

    /// Whether a prepared transaction whose session has gone, adopted or not, has changed an entry
    /// of one of `indexes`. Costs a read of the undo logs.
    ///
    /// # Errors
    /// Those of reading undo logs, other than damage.
    pub fn prepared_has_changed(&self, indexes: &[IndexId]) -> Result<bool> {
        // None can be adopted while its log is read.
        let prepared = self.prepared.0.lock();
        for prepared in prepared.values() {
            let has = match prepared {
                Prepared::Held => false,
                Prepared::Waiting(loser) => self.has_changed(&loser.log, |index| indexes.contains(&index))?,
                Prepared::Adopted(changed) => changed.iter().any(|index| indexes.contains(index)),
            };
            if has {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The indexes that the records of `log` are about. Records on damaged pages are passed over.
    fn changed_by(&self, log: &UndoLog) -> Result<Vec<IndexId>> {
        let mut changed = Vec::new();
        self.has_changed(log, |index| {
            if !changed.contains(&index) {
                changed.push(index);
            }
            false
        })?;
        Ok(changed)
    }

    /// Whether one of the records of `log` is about an index that `is` wanted. Records on damaged
    /// pages are passed over.
    pub(crate) fn has_changed(&self, log: &UndoLog, mut is: impl FnMut(IndexId) -> bool) -> Result<bool> {
        let acc = self.store.pool().access(AccessKind::Point);
        let mut bytes = Vec::new();
        for n in 0..log.records() {
            match log.record(n, &self.undo, &acc, &mut bytes) {
                Ok(_) if UndoRecord::decode(&bytes).is_some_and(|record| is(record.index)) => return Ok(true),
                Err(error) if !error.is_damage() => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}
