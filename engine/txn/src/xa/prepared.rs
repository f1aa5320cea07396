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

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, IndexId, Result, TxnId};

use crate::recovery::losers::Loser;

/// A transaction that was prepared and neither committed nor rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTxn {
    /// What the coordinator calls it.
    pub xid: Vec<u8>,
    /// Its id.
    pub txn: TxnId,
}

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
    /// Those that wait for a decision.
    pub fn waiting(&self) -> Vec<PreparedTxn> {
        let of = |((xid, txn), prepared): (&Name, &Prepared)| match prepared {
            Prepared::Waiting(_) => Some(PreparedTxn { xid: xid.clone(), txn: *txn }),
            Prepared::Held | Prepared::Adopted(_) => None,
        };
        self.0.lock().iter().filter_map(of).collect()
    }

    /// Takes out one with this xid that waits. `changed` returns the indexes that it has changed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none; those of `changed`.
    pub fn adopt(&self, xid: &[u8], changed: impl FnOnce(&Loser) -> Result<Vec<IndexId>>) -> Result<Loser> {
        let mut prepared = self.0.lock();
        let mut waiting = prepared.range_mut(named(xid)).map(|(_, found)| found);
        let found = waiting.find(|found| matches!(found, Prepared::Waiting(_)));
        let changed = match &found {
            Some(Prepared::Waiting(loser)) => changed(loser)?,
            _ => Vec::new(),
        };
        match found.map(|found| std::mem::replace(found, Prepared::Adopted(changed))) {
            Some(Prepared::Waiting(loser)) => Ok(loser),
            _ => Err(Error::invalid("there is no prepared transaction with this xid")),
        }
    }

    /// Reserves `xid` for transaction `txn`, which is about to be prepared.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a prepared transaction has it.
    pub fn reserve(&self, xid: &[u8], txn: TxnId) -> Result<()> {
        let mut prepared = self.0.lock();
        if prepared.range(named(xid)).next().is_some() {
            return Err(Error::invalid("there is a prepared transaction with this xid"));
        }
        prepared.insert((xid.to_vec(), txn), Prepared::Held);
        Ok(())
    }

    /// Transaction `txn` is not prepared any more under `xid`, or was not after all.
    pub fn release(&self, xid: Vec<u8>, txn: TxnId) {
        self.0.lock().remove(&(xid, txn));
    }

    /// Lists a prepared transaction that no session holds (any more).
    pub fn list(&self, xid: Vec<u8>, loser: Loser) {
        self.0.lock().insert((xid, loser.log.txn()), Prepared::Waiting(loser));
    }

    /// Whether one whose session has gone has changed one of `indexes`; `reads` returns that for
    /// one that waits.
    ///
    /// # Errors
    /// Those of `reads`.
    pub fn has_changed(&self, indexes: &[IndexId], reads: impl Fn(&Loser) -> Result<bool>) -> Result<bool> {
        // None can be adopted while its log is read.
        for prepared in self.0.lock().values() {
            let has = match prepared {
                Prepared::Held => false,
                Prepared::Waiting(loser) => reads(loser)?,
                Prepared::Adopted(changed) => changed.iter().any(|index| indexes.contains(index)),
            };
            if has {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether there is one whose session has gone.
    pub fn any_left(&self) -> bool {
        self.0.lock().values().any(|prepared| !matches!(prepared, Prepared::Held))
    }
}
