//! Values in version bodies: inline, or in an overflow chain whose reference is the body.
//!
//! A chain belongs to the version that it was written for and is never changed. It is freed exactly once: by rollback
//! when that version is undone, by purge when it is superseded for everybody, or with the entry of the version
//! tree that took the version over. The reference is made unreachable before the chain is freed.

use holdfast_base::codec::Reader;
use holdfast_base::{Error, IndexId, PageNo, Result};
use holdfast_pool::Access;
use holdfast_tree::{OverflowRef, SpaceFile, overflow};
use holdfast_wal::SpaceClass;

/// The reference that a version's body is.
pub(crate) fn decode(body: &[u8]) -> Result<OverflowRef> {
    let chain = if body.len() == OverflowRef::LEN { OverflowRef::decode(&mut Reader::new(body)) } else { None };
    chain.ok_or_else(|| Error::damaged_file("a row", "its reference to a large value is not one"))
}

/// Writes `value` to a chain; returns the encoded reference.
pub(crate) fn write(file: &SpaceFile, index: IndexId, value: &[u8], acc: &Access<'_>) -> Result<Vec<u8>> {
    let mut body = Vec::with_capacity(OverflowRef::LEN);
    overflow::write_chain(file, index, value, PageNo(0), acc)?.encode(&mut body);
    Ok(body)
}

/// Replaces `out` by the value of the chain that `body` refers to.
pub(crate) fn read(file: &SpaceFile, index: IndexId, body: &[u8], acc: &Access<'_>, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    overflow::read_chain(file, index, decode(body)?, acc, out)
}

/// Gives the chain that `body` refers to back.
pub(crate) fn free(file: &SpaceFile, index: IndexId, body: &[u8], acc: &Access<'_>) -> Result<()> {
    overflow::free_chain(file, index, decode(body)?, acc, SpaceClass::Rollback)
}
