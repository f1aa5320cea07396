//! What listings and reports of deadlocks say.

use std::time::{Duration, SystemTime};

use holdfast_base::{IndexId, TxnId};

use crate::interval::KeyRange;

/// Number of a transaction as listings and `kill` know it; every transaction has one, readers too.
pub type Serial = u64;

/// What is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// One key.
    Row(Box<[u8]>),
    /// Inserts into a range; or, in a mode of rows, all rows in it, up to the one that a scan has
    /// reached.
    Range(KeyRange),
    /// The keys of the index that no other transaction has locked.
    Table,
}

/// One explicit lock, held or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The transaction.
    pub owner: Serial,
    /// Its transaction id, if it has one.
    pub txn: TxnId,
    /// Where.
    pub index: IndexId,
    /// What.
    pub kind: LockKind,
    /// "S", "X", "IS", "IX", or "GAP" for ranges.
    pub mode: &'static str,
    /// Held, or waited for.
    pub granted: bool,
}

/// A lock that is waited for. A range is that of a key to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedLock {
    /// Where.
    pub index: IndexId,
    /// What.
    pub kind: LockKind,
    /// As in [`LockInfo`].
    pub mode: &'static str,
}

/// One edge of the waits-for graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaitInfo {
    /// The waiter.
    pub waiting: Serial,
    /// The transaction that it waits for.
    pub blocking: Serial,
    /// What for.
    pub wanted: WantedLock,
}

/// What the layer above knows of the session that runs a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Its number there.
    pub id: u64,
    /// Its statement; empty if it runs none.
    pub query: String,
    /// What the session is and does, in words.
    pub description: String,
}

/// Finds the session of a transaction by its number.
pub type FindSession = dyn Fn(Serial) -> Option<Session> + Send + Sync;

/// The latest deadlock, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockReport {
    /// When.
    pub at: SystemTime,
    /// The transaction that was rolled back.
    pub victim: Serial,
    /// The transactions of the cycle, each waiting for the next, the last for the first.
    pub cycle: Vec<DeadlockParty>,
}

/// A transaction in a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockParty {
    /// Its number.
    pub serial: Serial,
    /// Its transaction id; [`TxnId::NONE`] while it has changed nothing.
    pub txn: TxnId,
    /// For how long it had existed.
    pub age: Duration,
    /// Undo records that it had written.
    pub undo_records: u64,
    /// Row locks that it held explicitly.
    pub row_locks: usize,
    /// The session that ran it.
    pub session: Option<Session>,
    /// What it waited for; `None` if that was granted just then.
    pub wanted: Option<WantedLock>,
}
