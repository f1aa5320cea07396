//! What one attempt to change an entry begins with, and what it may end with.

use holdfast_base::{RollPtr, TxnId};
use holdfast_tree::Spot;

use crate::entry::row::{VERSION_HEADER_LEN, VersionHeader};

/// What stands in the way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocker {
    /// The entry was written by this active transaction.
    Writer(TxnId),
    /// Another transaction has locked it explicitly.
    Lock,
    /// A range lock of another transaction covers it.
    Range,
    /// It has changed since it was read; this is what was read.
    Changed(Option<VersionHeader>),
}

/// What was read of an entry before it is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'p> {
    /// Its newest version, if there is one.
    pub payload: Option<&'p [u8]>,
    /// The header of that.
    pub header: Option<VersionHeader>,
    /// Where that was.
    pub spot: Spot,
}

impl Found<'_> {
    /// True if there is a live entry.
    pub fn is_live(&self) -> bool {
        self.header.is_some_and(|h| !h.deleted)
    }

    /// True if transaction `id` has written it. Then that transaction has it locked, and a lock of
    /// another one was granted too late, or leaves it out.
    pub fn is_by(&self, id: TxnId) -> bool {
        id != TxnId::NONE && self.header.is_some_and(|h| h.txn == id)
    }

    /// True if the change gives a key a live version that has none.
    pub fn comes_to_life(&self, deleted: bool) -> bool {
        !deleted && !self.is_live()
    }
}

/// What an entry is to become. The header of the payload is filled in when it is known where the
/// undo record is.
pub(crate) struct NewVersion {
    pub deleted: bool,
    pub overflow: bool,
    pub payload: Vec<u8>,
}

impl NewVersion {
    /// With this body.
    pub fn new(deleted: bool, overflow: bool, body: &[u8], mut buffer: Vec<u8>) -> NewVersion {
        buffer.clear();
        buffer.reserve(VERSION_HEADER_LEN + body.len());
        buffer.resize(VERSION_HEADER_LEN, 0);
        buffer.extend_from_slice(body);
        NewVersion { deleted, overflow, payload: buffer }
    }

    /// The body, which follows the header.
    pub fn body(&self) -> &[u8] {
        &self.payload[VERSION_HEADER_LEN..]
    }

    /// Fills the header in.
    pub fn sign(&mut self, txn: TxnId, roll: RollPtr) {
        let header = VersionHeader { deleted: self.deleted, overflow: self.overflow, txn, roll };
        self.payload[..VERSION_HEADER_LEN].copy_from_slice(&header.to_bytes());
    }
}
