//! Floor 2: the write-ahead log.
//!
//! An LSN is a byte offset in an endless stream that is cut into segment files. A *group* is one
//! mini-transaction's records, contiguous, under one checksum, applied all or none.
//!
//! - [`Wal::append`] adds a group without a lock.
//! - [`Wal::flush_to`] makes the log durable: group commit by a leader.
//! - [`Wal::reserve`] is admission to the log's space, before any page is latched.
//! - [`Wal::set_checkpoint`] moves the LSN where recovery begins and lets segments be reused.
//! - [`Wal::open`] verifies the log and returns its groups.
//! - [`LogReader`] reads a log without writing to the disk.
//! - [`LogTail`] follows the live log.
//!
//! `docs/design/log.md` draws the bytes and proves the protocol.
//!
//! Duties of the floors above:
//!
//! - Take a ticket before latching, and hold one at a time. Sleep [`Wal::throttle_delay`] before a
//!   change of a row.
//! - Call [`Wal::enter`] before append. Drop the slot after the changed pages are registered as
//!   dirty.
//! - Flush to a page's LSN before the page is written.
//! - For a checkpoint, call [`Wal::oldest_writer`] before searching for the oldest dirty page.

#![forbid(unsafe_code)]

mod allowance;
mod checkpoint;
mod config;
mod flush_mark;
mod flusher;
mod format;
mod group_commit;
mod poison;
mod reader;
mod recovery;
mod ring;
mod segments;
mod slots;
mod space;
mod tail;
mod wal;

pub use checkpoint::FILE_NAME as CHECKPOINT_FILE;
pub use config::{FlushAtCommit, WalConfig};
pub use poison::Poison;
pub use reader::{EndReason, Group, LogEnd, LogReader, Progress};
pub use recovery::Recovery;
pub use space::{SpaceClass, SpaceTicket};
pub use tail::{LogCopy, LogTail};
pub use wal::{Wal, WriterSlot};

/// True if files of a log have names like `name`.
#[must_use]
pub fn is_log_file(name: &str) -> bool {
    name == CHECKPOINT_FILE || segments::number_of(name).is_some()
}

/// The parts that the model checkers explore separately.
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod parts {
    pub use crate::config::{Geometry, Sizes};
    pub use crate::flush_mark::FlushMark;
    pub use crate::group_commit::GroupCommit;
    pub use crate::ring::Ring;
    pub use crate::slots::WriterSlots;
    pub use crate::space::{Log, Position, SpaceGate};
}
