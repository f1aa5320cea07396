//! Floor 5: transactions.
//!
//! * [`TxnSystem`]: one per database. Opens and creates the undo space, begins transactions,
//!   purges, recovers.
//! * [`Txn`]: a transaction with its savepoints and two-phase commit (`xa`). [`RowCursor`]s read
//!   ranges of an index for it.
//! * [`entry`]: a [`TableIndex`] is a tree of versioned entries, rows and secondary entries alike.
//!   `reads`, `change` and `put` are the methods of a transaction that read and change one.
//! * [`mvcc`]: commit numbers, the commit map and views. Locks are in crate [`holdfast_lock`].
//! * `undo`: records, pages, logs.
//! * [`purge`]: the purger, with the history of commits, and the shelf and the version tree that
//!   keep what views need.
//! * [`recovery`]: what an open finds, losers, rollback.
//!
//! The newest version of an entry is in its tree and names its writer and an undo record; older
//! ones are reached through undo logs, or through the version tree once those are purged. The byte
//! boxes, protocols and invariants are in `docs/design/transactions.md`.
//!
//! # Lock order
//! Row, range and table locks are waited for while nothing else is held. Then: purge mutex, stripe
//! of a unique check, log space, page latches (of an undo log before those of a tree), shard of the
//! lock table or queue of the history, and the leaves: commit map, view registry, lists.

#![forbid(unsafe_code)]

// The path of a commit is model-checked alone: the rest of the crate is left out under loom and
// shuttle.
#[cfg(not(any(loom, shuttle)))]
mod cursor;
#[cfg(not(any(loom, shuttle)))]
pub mod entry;
#[cfg(not(any(loom, shuttle)))]
mod info;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
mod models;
pub mod mvcc;
#[cfg(not(any(loom, shuttle)))]
mod options;
#[cfg(not(any(loom, shuttle)))]
pub mod purge;
#[cfg(loom)]
#[allow(dead_code)]
mod purge {
    pub(crate) mod history;
}
#[cfg(not(any(loom, shuttle)))]
pub mod recovery;
#[cfg(not(any(loom, shuttle)))]
mod savepoint;
#[cfg(not(any(loom, shuttle)))]
mod system;
#[cfg(not(any(loom, shuttle)))]
mod txn;
#[cfg(not(any(loom, shuttle)))]
mod undo;
#[cfg(loom)]
use models::undo;
#[cfg(not(any(loom, shuttle)))]
mod wait;
#[cfg(not(any(loom, shuttle)))]
mod xa;

#[cfg(not(any(loom, shuttle)))]
pub use holdfast_wal::FlushAtCommit;

pub use holdfast_lock::{
    DeadlockParty, DeadlockReport, FindSession, KeyRange, LockInfo, LockKind, LockMode, LockWait, LockWaitInfo, Serial,
    Session, WaitInterest, WaitObserver, WantedLock,
};
#[cfg(not(any(loom, shuttle)))]
pub use {
    cursor::{CursorOptions, Direction, RowCursor, ScanMode},
    entry::index::{IndexKind, TableIndex},
    entry::load::{Loader, SuspendedLoader},
    entry::locked::EarlyRelease,
    entry::row::{VERSION_HEADER_LEN, VersionHeader, row_key_begin},
    entry::values::{self, NewValue, Part},
    info::{TrxInfo, TxnStats},
    options::{Isolation, TxnConfig, TxnOptions},
    system::TxnSystem,
    txn::{Txn, TxnSavepoint},
    undo::XID_MAX,
    wait::Wait,
    xa::prepared::PreparedTxn,
};
