//! Floor 0: what every other floor speaks.
//!
//! Identifiers ([`PageId`], [`Lsn`], ...), the [`Error`] that crosses all floors, the bounds-checked
//! little-endian [`codec`], the [`page`] header that every page on disk starts with, the [`limits`] of the
//! format, and the [`sync`] shim that lets loom and shuttle replace the primitives that latches are built of, with the [`Waiter`] that stands in a line.
//!
//! Nothing here does I/O, starts a thread, or holds a lock.

#![forbid(unsafe_code)]

pub mod codec;
mod error;
mod ids;
pub mod limits;
pub mod page;
pub mod sync;
mod waiter;

pub use error::{Error, Result};
pub use ids::{CommitNo, FrameId, IndexId, Lsn, PageId, PageNo, RollPtr, SpaceId, TxnId};
pub use waiter::{Waiter, Wake};

/// CRC-32C (Castagnoli) of `bytes`, hardware-accelerated where the CPU can: the one checksum of the format.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Continues a [`checksum`] over more bytes: `checksum_append(checksum(a), b)` equals the checksum of `a ++ b`.
#[must_use]
pub fn checksum_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}
