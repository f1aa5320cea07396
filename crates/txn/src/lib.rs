//! Floor 5: transactions.
//!
//! * [`TxnSystem`]: one per database. Opens and creates the undo space, begins transactions,
//!   purges, recovers.
//! * [`Txn`]: a transaction. Reads (`reads`), changes (`change`, `put`), [`RowCursor`]s,
//!   savepoints, two-phase commit.
//! * [`TableIndex`]: a tree of versioned entries; rows and secondary entries alike.
//! * [`clock`], [`commit_map`], [`view`]: visibility. Locks are in crate [`holdfast_lock`].
//! * `undo`: records, pages, logs. `history`: commits that wait for purge. [`shelf`]: what views
//!   need of small transactions, in memory. [`versions`]: old versions kept for long views.
//! * [`purge`], [`rollback`], [`recovery`].
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

// The commit map is model-checked alone: the rest of the crate is left out under shuttle.
#[cfg(not(shuttle))]
mod background;
#[cfg(not(shuttle))]
mod buffers;
#[cfg(not(shuttle))]
mod change;
#[cfg(not(shuttle))]
mod check;
#[cfg_attr(shuttle, allow(dead_code))]
pub mod clock;
#[cfg_attr(shuttle, allow(dead_code))]
pub mod commit_map;
#[cfg(not(shuttle))]
mod cursor;
#[cfg(not(shuttle))]
mod history;
#[cfg(not(shuttle))]
mod index;
#[cfg(not(shuttle))]
mod info;
#[cfg(not(shuttle))]
mod load;
#[cfg(not(shuttle))]
mod losers;
#[cfg(not(shuttle))]
mod lost;
#[cfg(not(shuttle))]
mod open;
#[cfg(not(shuttle))]
mod options;
#[cfg(not(shuttle))]
mod prepared;
#[cfg(not(shuttle))]
pub mod purge;
#[cfg(not(shuttle))]
mod put;
#[cfg(not(shuttle))]
mod reads;
#[cfg(not(shuttle))]
pub mod recovery;
#[cfg(not(shuttle))]
mod reread;
#[cfg(not(shuttle))]
pub mod rollback;
#[cfg(not(shuttle))]
mod row;
#[cfg(not(shuttle))]
mod savepoint;
#[cfg(not(shuttle))]
pub mod shelf;
#[cfg(not(shuttle))]
mod shelving;
#[cfg(not(shuttle))]
mod sweep;
#[cfg(not(shuttle))]
mod system;
#[cfg(not(shuttle))]
mod txn;
#[cfg(not(shuttle))]
mod undo;
#[cfg(not(shuttle))]
pub mod values;
#[cfg(not(shuttle))]
pub mod versions;
#[cfg(not(shuttle))]
pub mod view;
#[cfg(not(shuttle))]
mod visibility;
#[cfg(not(shuttle))]
mod wait;

pub use holdfast_lock::{
    DeadlockParty, DeadlockReport, FindSession, KeyRange, LockInfo, LockKind, LockMode, LockWaitInfo, Serial, Session,
    WaitInterest, WaitMode, WaitObserver, WantedLock,
};
#[cfg(not(shuttle))]
pub use {
    cursor::{CursorOptions, Direction, RowCursor, Scan},
    index::{IndexKind, TableIndex},
    info::{TrxInfo, TxnStats},
    load::{Loader, SuspendedLoader},
    options::{Durability, Isolation, TxnConfig, TxnOptions},
    recovery::PreparedTxn,
    row::{HEADER_LEN, VersionHeader, row_key_begin},
    system::TxnSystem,
    txn::{Savepoint, Txn},
    undo::XID_MAX,
    values::{NewValue, Part},
    wait::Wait,
};
