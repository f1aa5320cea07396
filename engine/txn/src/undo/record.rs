//! Undo records.
//!
//! ```text
//! kind u8         bit 0: there is a prior image; bit 1: this change wrote an overflow chain of
//!                 its own; bit 2: this change put a delete mark
//! index varint    the tree that was changed
//! key             length varint, bytes
//! prior image     length varint, bytes: the whole payload before the change (only with bit 0)
//! new chain       length varint, bytes: the reference to the chain (only with bit 1)
//! ```
//!
//! One record per change of one entry of one tree, rows and secondary entries alike: rollback and
//! purge need to know nothing of tables. The prior image's own header names the version before it.

use holdfast_base::IndexId;
use holdfast_base::codec::{Reader, Writer};

use crate::entry::values;

const HAS_PRIOR: u8 = 1;
const HAS_CHAIN: u8 = 2;
const DELETES: u8 = 4;
/// Longest record beside the key and the images: kind, index, three lengths.
const FIXED_MAX: usize = 1 + 5 + 3 * 5;

/// One change, as undone: borrowed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoRecord<'a> {
    /// The tree.
    pub index: IndexId,
    /// The entry.
    pub key: &'a [u8],
    /// The payload before; `None`: there was no entry.
    pub prior: Option<&'a [u8]>,
    /// The overflow chain that the change wrote, to be freed if it is undone.
    pub new_chain: Option<&'a [u8]>,
    /// The change put a delete mark.
    pub deletes: bool,
}

impl<'a> UndoRecord<'a> {
    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let images = self.prior.map_or(0, <[u8]>::len) + self.new_chain.map_or(0, <[u8]>::len);
        out.reserve(FIXED_MAX + self.key.len() + images);
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let kind = bit(self.prior.is_some(), HAS_PRIOR) | bit(self.new_chain.is_some(), HAS_CHAIN);
        let kind = kind | bit(self.deletes, DELETES);
        out.u8(kind);
        out.varint(u64::from(self.index.0));
        out.bytes_with_len(self.key);
        if let Some(prior) = self.prior {
            out.bytes_with_len(prior);
        }
        if let Some(chain) = self.new_chain {
            out.bytes_with_len(chain);
        }
    }

    /// Pages of `page_size` bytes of the chain that the prior image refers to, and the new version
    /// does not: those that the change makes old.
    pub fn chain_pages(&self, page_size: usize) -> u32 {
        let chain = self.prior.and_then(values::chain_of);
        let new = self.new_chain.and_then(|reference| values::decode(reference).ok());
        let is_shared = chain.zip(new).is_some_and(|(old, (new, _))| old.first == new.first);
        if is_shared { 0 } else { self.prior_pages(page_size) }
    }

    /// Pages of `page_size` bytes of the chain that the prior image refers to.
    pub fn prior_pages(&self, page_size: usize) -> u32 {
        self.prior.and_then(values::chain_of).map_or(0, |chain| chain.len.div_ceil(page_size as u32))
    }

    /// True if purge has something to do for it in the table: a delete mark goes, or the reference
    /// of the version before to a chain, which the new version may share.
    #[must_use]
    pub fn asks_purge(&self) -> bool {
        self.deletes || self.prior.and_then(values::chain_of).is_some()
    }

    /// Decodes a record, which `bytes` are from the first to the last; `None` if they are not one.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<UndoRecord<'a>> {
        let mut r = Reader::new(bytes);
        let kind = r.u8()?;
        if kind & !(HAS_PRIOR | HAS_CHAIN | DELETES) != 0 {
            return None;
        }
        let record = UndoRecord {
            index: IndexId(u32::try_from(r.varint()?).ok()?),
            key: r.bytes_with_len()?,
            prior: if kind & HAS_PRIOR != 0 { Some(r.bytes_with_len()?) } else { None },
            new_chain: if kind & HAS_CHAIN != 0 { Some(r.bytes_with_len()?) } else { None },
            deletes: kind & DELETES != 0,
        };
        r.is_empty().then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_round_trip(
            index: u32,
            key in proptest::collection::vec(any::<u8>(), 0..300),
            prior in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..500)),
            chain in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..16)),
            deletes: bool,
        ) {
            let record = UndoRecord {
                index: IndexId(index), key: &key, prior: prior.as_deref(), new_chain: chain.as_deref(), deletes,
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(UndoRecord::decode(&bytes), Some(record));
            for cut in 0..bytes.len() {
                prop_assert_eq!(UndoRecord::decode(&bytes[..cut]), None);
            }
            bytes.push(0);
            prop_assert_eq!(UndoRecord::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = UndoRecord::decode(&bytes);
        }
    }
}
