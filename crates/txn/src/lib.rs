//! Floor 5: transactions.
//!
//! * [`TxnSystem`]: one per database. Opens and creates the undo space, begins transactions, purges, recovers.
//! * [`Txn`]: a transaction. Reads (`reads`), changes (`change`), [`RowCursor`]s, savepoints, two-phase commit.
//! * [`TableIndex`]: a tree of versioned entries; rows and secondary entries alike.
//! * [`lock`]: row, range and table locks, deadlock detection. [`commit_map`], [`view`]: who sees what.
//! * `undo`: records, pages, logs. [`versions`]: old versions kept for long views. [`purge`], [`rollback`], [`recovery`].
//!
//! The newest version of an entry is in its tree and names its writer and an undo record; older ones are reached through
//! undo logs, or through the version tree once those are purged. The byte boxes, protocols and invariants are in
//! `docs/design/transactions.md`.
//!
//! # Lock order
//! Row, range and table locks are waited for while nothing else is held. Then: purge mutex, stripe of a unique check,
//! log space, page latches, shard of the lock table or commit mutex, and the leaves: commit map, view registry, lists.

#![forbid(unsafe_code)]

mod background;
mod change;
pub mod commit_map;
mod cursor;
mod index;
mod info;
pub mod lock;
mod options;
pub mod purge;
mod reads;
pub mod recovery;
pub mod rollback;
mod row;
mod system;
mod txn;
mod undo;
mod values;
pub mod versions;
pub mod view;
mod visibility;

pub use cursor::{CursorOptions, Direction, RowCursor};
pub use index::{IndexKind, TableIndex};
pub use info::{TrxInfo, TxnStats};
pub use lock::{DeadlockReport, KeyRange, LockInfo, LockKind, LockMode, LockWaitInfo, Serial, WaitMode};
pub use options::{Durability, Isolation, TxnConfig, TxnOptions};
pub use recovery::PreparedTxn;
pub use row::{HEADER_LEN, VersionHeader};
pub use system::TxnSystem;
pub use txn::{Savepoint, Txn};
pub use undo::XID_MAX;
