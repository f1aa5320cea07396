//! The header of every versioned entry: rows of clustered trees and entries of secondary indexes
//! alike.
//!
//! ```text
//! offset size
//!  0     1   flags: bit 0 delete mark, bit 1 the body is a reference to an overflow chain
//!  1     8   transaction that wrote this version (0: before all transactions)
//!  9     8   roll pointer to the undo record with the version before (0: there is none)
//! 17         body: the value (row), or the covered bytes (secondary entry); empty under a
//!            delete mark
//! ```
//!
//! Because secondary entries carry the same header and every change of one is an undo record of its
//! own, they have version chains of their own: an index is read at a view without a visit to the
//! row.
//!
//! The key of a secondary entry is the index key followed by the row key. Its value begins with the
//! length of the index key, as a varint; what follows is the caller's.

use holdfast_base::codec::{Reader, get_u64};
use holdfast_base::{RollPtr, TxnId};

/// Bytes of the header.
pub const VERSION_HEADER_LEN: usize = 17;

const DELETED: u8 = 1;
const OVERFLOW: u8 = 2;

/// The decoded header of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHeader {
    /// The version says that there is no row.
    pub deleted: bool,
    /// The body is a reference to an overflow chain.
    pub overflow: bool,
    /// The writer.
    pub txn: TxnId,
    /// Where the version before is.
    pub roll: RollPtr,
}

impl VersionHeader {
    /// Splits `payload` into header and body; `None` if it is too short, has unknown flags, or has
    /// a body under a delete mark.
    #[must_use]
    #[inline]
    pub fn decode(payload: &[u8]) -> Option<(VersionHeader, &[u8])> {
        let (flags, body) = (*payload.first()?, payload.get(VERSION_HEADER_LEN..)?);
        let is_sound = match flags {
            0 | OVERFLOW => true,
            DELETED => body.is_empty(),
            _ => false,
        };
        if !is_sound {
            return None;
        }
        let header = VersionHeader {
            deleted: flags == DELETED,
            overflow: flags == OVERFLOW,
            txn: TxnId(get_u64(payload, 1)?),
            roll: RollPtr(get_u64(payload, 9)?),
        };
        Some((header, body))
    }

    /// The payload of this header and `body`.
    #[must_use]
    pub fn encode(&self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(VERSION_HEADER_LEN + body.len());
        out.extend_from_slice(&self.to_bytes());
        out.extend_from_slice(body);
        out
    }

    /// The bytes of the header alone.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; VERSION_HEADER_LEN] {
        let mut bytes = [0; VERSION_HEADER_LEN];
        bytes[0] = if self.deleted { DELETED } else { 0 } | if self.overflow { OVERFLOW } else { 0 };
        bytes[1..9].copy_from_slice(&self.txn.0.to_le_bytes());
        bytes[9..].copy_from_slice(&self.roll.0.to_le_bytes());
        bytes
    }
}

/// Where in the `key` of a secondary entry the row key begins. `None` if `value` is not that of
/// such an entry.
#[must_use]
pub fn row_key_begin(key: &[u8], value: &[u8]) -> Option<usize> {
    let begin = usize::try_from(Reader::new(value).varint()?).ok()?;
    (begin <= key.len()).then_some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for (deleted, overflow) in [(false, false), (true, false), (false, true)] {
            let header = VersionHeader { deleted, overflow, txn: TxnId(u64::MAX - 1), roll: RollPtr(77) };
            let body: &[u8] = if deleted { b"" } else { b"body" };
            let payload = header.encode(body);
            assert_eq!(VersionHeader::decode(&payload), Some((header, body)));
        }
    }

    #[test]
    fn a_delete_mark_has_nothing_behind_it() {
        let mark = VersionHeader { deleted: true, overflow: false, txn: TxnId(5), roll: RollPtr(77) };
        assert_eq!(VersionHeader::decode(&mark.encode(b"v")), None);
        assert_eq!(VersionHeader::decode(&VersionHeader { overflow: true, ..mark }.encode(b"")), None);
    }

    #[test]
    fn the_row_key_begins_within_the_key() {
        assert_eq!(row_key_begin(b"index/row", b"\x06covered"), Some(6));
        assert_eq!(row_key_begin(b"index", b"\x05"), Some(5));
        assert_eq!(row_key_begin(b"index", b"\x06"), None);
        assert_eq!(row_key_begin(b"index", b""), None);
    }

    #[test]
    fn short_and_unknown_payloads_are_refused() {
        assert_eq!(VersionHeader::decode(&[]), None);
        assert_eq!(VersionHeader::decode(&[0; VERSION_HEADER_LEN - 1]), None);
        assert_eq!(VersionHeader::decode(&[0x80; VERSION_HEADER_LEN]), None);
        assert!(VersionHeader::decode(&[0; VERSION_HEADER_LEN]).is_some());
    }
}
