//! What INFORMATION_SCHEMA and the monitor show of the transactions.

use std::fmt;
use std::time::Duration;

use holdfast_base::{CommitNo, TxnId};

use crate::mvcc::open_txns::OpenTxn;
use crate::options::Isolation;
use crate::system::TxnSystem;
use crate::txn::Txn;
use holdfast_lock::{Serial, Session, WantedLock};

/// One open transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrxInfo {
    /// Its number.
    pub serial: Serial,
    /// Its transaction id; [`TxnId::NONE`] while it has changed nothing.
    pub txn: TxnId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// True if it may only read.
    pub read_only: bool,
    /// For how long it has existed.
    pub age: Duration,
    /// The session that runs it.
    pub session: Option<Session>,
    /// Undo records written.
    pub undo_records: u64,
    /// Row locks held explicitly.
    pub row_locks: usize,
    /// What it waits for now, and for how long it has.
    pub waiting: Option<(WantedLock, Duration)>,
}

/// The transaction system in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxnStats {
    /// Committed transactions whose undo logs are not purged.
    pub history_length: usize,
    /// Pages of undo logs, of active and committed transactions.
    pub undo_pages: u64,
    /// Versions in the version tree.
    pub versions: u64,
    /// Bytes of what is kept in memory of small committed transactions for older views.
    pub shelf_bytes: u64,
    /// Bytes of old versions: undo logs of committed transactions, the shelf and the version tree.
    pub old_version_bytes: u64,
    /// Open views.
    pub views: usize,
    /// The oldest view's position in the commit order.
    pub oldest_view: CommitNo,
    /// The last commit.
    pub last_commit: CommitNo,
    /// The next transaction id.
    pub next_txn: TxnId,
    /// Bytes of explicit locks.
    pub lock_memory: usize,
    /// Bytes of the commit map.
    pub commit_map_memory: usize,
    /// Transactions without a user that are not rolled back yet.
    pub losers: usize,
}

impl TxnSystem {
    /// The open transactions, oldest first.
    #[must_use]
    pub fn transactions(&self) -> Vec<TrxInfo> {
        let info = |open: &OpenTxn| TrxInfo {
            serial: open.owner.serial(),
            txn: open.owner.txn(),
            isolation: open.isolation,
            read_only: open.read_only,
            age: open.owner.age(),
            session: self.locks.session(open.owner.serial()),
            undo_records: open.owner.undo_records(),
            row_locks: open.owner.row_locks(),
            waiting: open.owner.wait_in_progress(),
        };
        self.open_txns().iter().map(info).collect()
    }

    /// The system in numbers.
    #[must_use]
    pub fn stats(&self) -> TxnStats {
        TxnStats {
            history_length: self.purger.history.len(),
            undo_pages: self.undo.pages_in_use(),
            versions: self.purger.versions.count(),
            shelf_bytes: self.purger.shelf.bytes(),
            old_version_bytes: self.purger.old_version_bytes(),
            views: self.views.count(),
            oldest_view: self.views.oldest(),
            last_commit: self.clock.last_commit(),
            next_txn: self.clock.next_id(),
            lock_memory: self.locks.memory(),
            commit_map_memory: self.map.memory(),
            losers: self.losers.len(),
        }
    }

    /// Committed transactions whose undo logs are not purged.
    #[must_use]
    pub fn history_length(&self) -> usize {
        self.purger.history.len()
    }

    /// Versions in the version tree.
    #[must_use]
    pub fn versions_stored(&self) -> u64 {
        self.purger.versions.count()
    }

    /// What went wrong last in the background, if anything did.
    #[must_use]
    pub fn background_error(&self) -> Option<holdfast_base::Error> {
        self.purger.background.last_error()
    }

    /// The tree of old versions, for verification.
    #[must_use]
    pub fn version_tree(&self) -> &holdfast_tree::Tree {
        self.purger.versions.tree()
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn").field("serial", &self.serial()).field("id", &self.id()).finish_non_exhaustive()
    }
}
