//! Values in version bodies: inline, or in an overflow chain.
//!
//! ```text
//! body of a version with a chain:  reference to the chain (8 bytes) | head
//! ```
//!
//! The value is the head and, behind it, what is in the chain. The writer of a value says how much
//! of its beginning is to be the head, which can be read without the chain. So rows are scanned
//! without their large columns, if those are at the end.
//!
//! A version has one reference to its chain. A new version whose value continues behind its head
//! like that of the version before refers to the same chain; else it gets one of its own. The
//! reference is released exactly once: by rollback when that version is undone, by purge when it is
//! superseded for every view, or with the entry of the version tree that took the version over. It
//! is made unreachable before that.

use holdfast_base::codec::Reader;
use holdfast_base::{Error, IndexId, Lsn, PageNo, Result};
use holdfast_pool::Access;
use holdfast_tree::{HEADS, OverflowRef, SpaceFile, overflow};
use holdfast_wal::SpaceClass;

use crate::entry::row::VersionHeader;

/// A value to be put, and how many bytes of its beginning are its head. That may be kept where it
/// can be read without the rest of a large value; 0: there is no such part.
#[derive(Clone, Copy, Debug)]
pub struct NewValue<'v> {
    bytes: &'v [u8],
    head: usize,
}

impl<'v, T: AsRef<[u8]> + ?Sized> From<&'v T> for NewValue<'v> {
    /// A value without a head.
    fn from(bytes: &'v T) -> NewValue<'v> {
        NewValue { bytes: bytes.as_ref(), head: 0 }
    }
}

impl<'v> NewValue<'v> {
    /// A value whose first `head` bytes, or all if it has no more, are its head.
    #[must_use]
    pub fn with_head(bytes: &'v [u8], head: usize) -> NewValue<'v> {
        NewValue { bytes, head: head.min(bytes.len()) }
    }

    /// The whole value.
    #[must_use]
    pub fn bytes(self) -> &'v [u8] {
        self.bytes
    }

    /// How many bytes are its head.
    #[must_use]
    pub fn head(self) -> usize {
        self.head
    }

    /// Head and rest of a value that is written to a chain, if a body of `max` bytes may stay with
    /// the entry.
    fn split(self, max: usize) -> (&'v [u8], &'v [u8]) {
        let fits = OverflowRef::LEN + self.head <= max;
        self.bytes.split_at(if fits { self.head } else { 0 })
    }
}

/// How much of a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// The head, if the rest is elsewhere and there is a head; else all of it.
    Head,
    /// Nothing: it is asked whether there is one.
    Nothing,
}

/// The chain that a version's body refers to, and the value's head.
///
/// # Errors
/// Damage.
pub fn decode(body: &[u8]) -> Result<(OverflowRef, &[u8])> {
    let mut from = Reader::new(body);
    let chain = OverflowRef::decode(&mut from);
    let chain =
        chain.ok_or_else(|| Error::damaged_file("a row", "its reference to a large value cannot be decoded"))?;
    Ok((chain, from.rest()))
}

/// The chain that an entry's payload refers to, if it does.
#[must_use]
pub fn chain_of(payload: &[u8]) -> Option<OverflowRef> {
    let (header, body) = VersionHeader::decode(payload)?;
    if header.overflow { decode(body).ok().map(|(chain, _)| chain) } else { None }
}

/// The payload of the version with this one's header and head that refers to `chain`.
pub(crate) fn refer_to(payload: &[u8], chain: OverflowRef) -> Option<Vec<u8>> {
    let (header, body) = VersionHeader::decode(payload)?;
    let (_, head) = decode(body).ok()?;
    Some(header.encode(&encode(chain, head)))
}

/// The part of a version's body that is the reference to its chain.
pub(crate) fn reference(body: &[u8]) -> Result<&[u8]> {
    Ok(&body[..body.len() - decode(body)?.1.len()])
}

/// Where in a version's body that begins which is wanted, if it is there and not in a chain.
#[inline]
pub(crate) fn begin_in_body(overflow: bool, body: &[u8], part: Part) -> Option<usize> {
    match part {
        Part::Nothing => Some(body.len()),
        _ if !overflow => Some(0),
        Part::Head if body.len() > OverflowRef::LEN => Some(OverflowRef::LEN),
        Part::Head | Part::Whole => None,
    }
}

/// Sees to it that a version which does not know of heads refuses the file, if this value is one
/// with a head.
pub(crate) fn admit(file: &SpaceFile, value: NewValue<'_>, acc: &Access<'_>) -> Result<()> {
    if value.head == 0 { Ok(()) } else { file.require(HEADS, acc) }
}

/// Writes a value to a chain, except for its head; returns the body, of at most `max` bytes.
pub(crate) fn write(
    file: &SpaceFile,
    index: IndexId,
    value: NewValue<'_>,
    max: usize,
    acc: &Access<'_>,
) -> Result<Vec<u8>> {
    let (head, rest) = value.split(max);
    let chain = overflow::write_chain(file, index, rest, PageNo(0), acc)?;
    Ok(encode(chain, head))
}

fn encode(chain: OverflowRef, head: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(OverflowRef::LEN + head.len());
    chain.encode(&mut body);
    body.extend_from_slice(head);
    body
}

/// As [`write()`], with the chain of the version that has the body `prior`, if that holds what has
/// to be written. The caller has locked the entry, so that the chain stays.
pub(crate) fn share(
    file: &SpaceFile,
    index: IndexId,
    value: NewValue<'_>,
    max: usize,
    prior: &[u8],
    acc: &Access<'_>,
) -> Result<Option<Vec<u8>>> {
    let (head, rest) = value.split(max);
    let chain = decode(prior)?.0;
    if !overflow::chain_is(file, index, chain, rest, acc)? {
        return Ok(None);
    }
    file.require(HEADS, acc)?;
    overflow::share_chain(file, index, chain, acc)?;
    Ok(Some(encode(chain, head)))
}

/// Replaces `out` by the value of the version that has this body with a chain.
///
/// # Errors
/// Damage; the errors of reading pages.
pub fn read(file: &SpaceFile, index: IndexId, body: &[u8], acc: &Access<'_>, out: &mut Vec<u8>) -> Result<()> {
    let (chain, head) = decode(body)?;
    out.clear();
    out.extend_from_slice(head);
    overflow::read_chain(file, index, chain, acc, out)
}

/// As [`read`], for a version on a page of a file that was not recovered; `upto`: where that
/// page was last changed.
///
/// # Errors
/// Damage; a chain that is not this version's any more is that, too.
pub fn read_unrecovered(
    file: &SpaceFile,
    index: IndexId,
    body: &[u8],
    upto: Lsn,
    acc: &Access<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (chain, head) = decode(body)?;
    out.clear();
    out.extend_from_slice(head);
    overflow::read_chain_of(file, index, chain, upto, acc, out)
}

/// Gives up the reference of the version that had this body. Returns true if that was the last one,
/// and the chain is free.
pub(crate) fn release(file: &SpaceFile, index: IndexId, body: &[u8], acc: &Access<'_>) -> Result<bool> {
    overflow::release_chain(file, index, decode(body)?.0, acc, SpaceClass::Rollback)
}
