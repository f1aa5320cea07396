//! What a checkpoint stores of the transaction system.

use holdfast_base::codec::{Reader, Writer};
use holdfast_base::{CommitNo, IndexId, TxnId};

use crate::mvcc::clock::NUMBER_LIMIT;

const PAYLOAD_VERSION: u8 = 1;

/// What a checkpoint payload holds.
#[derive(Debug, Default)]
pub(crate) struct Checkpointed {
    pub max_txn: TxnId,
    pub last_commit: CommitNo,
    pub rows: Vec<(IndexId, u64)>,
}

impl Checkpointed {
    /// The bytes of the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![PAYLOAD_VERSION];
        out.varint(self.max_txn.0);
        out.varint(self.last_commit.0);
        out.varint(self.rows.len() as u64);
        for (index, rows) in &self.rows {
            out.varint(u64::from(index.0));
            out.varint(*rows);
        }
        out
    }

    /// Reads a payload; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Checkpointed> {
        let mut r = Reader::new(bytes);
        if r.u8()? != PAYLOAD_VERSION {
            return None;
        }
        let (max_txn, last_commit) = (TxnId(r.varint()?), CommitNo(r.varint()?));
        if max_txn.0 >= NUMBER_LIMIT || last_commit.0 >= NUMBER_LIMIT {
            return None;
        }
        let mut rows = Vec::new();
        for _ in 0..r.varint()? {
            rows.push((IndexId(u32::try_from(r.varint()?).ok()?), r.varint()?));
        }
        r.is_empty().then_some(Checkpointed { max_txn, last_commit, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_reads_as_written_and_bad_ones_are_refused() {
        let rows = vec![(IndexId(3), 0), (IndexId(900), u64::MAX)];
        let bytes = Checkpointed { max_txn: TxnId(77), last_commit: CommitNo(5), rows: rows.clone() }.encode();
        let read = Checkpointed::decode(&bytes).unwrap();
        assert_eq!((read.max_txn, read.last_commit, read.rows), (TxnId(77), CommitNo(5), rows));
        for cut in 0..bytes.len() {
            assert!(Checkpointed::decode(&bytes[..cut]).is_none());
        }
        // One that counts fewer tables than it has.
        let mut fewer = bytes;
        fewer[3] -= 1;
        assert!(Checkpointed::decode(&fewer).is_none());
    }
}
