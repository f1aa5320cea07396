//! Opening after a stop or a crash: what redo restored is sorted into losers, prepared and
//! committed transactions.
//!
//! Losers keep their ids active, so their rows are locked until they are rolled back in the
//! background, one after the other, while users work already. Prepared transactions are listed and
//! wait. Committed logs go to purge in commit order. The commit map starts empty: every view sees
//! everything that is not of a loser or of a prepared transaction.

use std::sync::Arc;

use holdfast_base::codec::{Reader, Writer};
use holdfast_base::{CommitNo, Error, IndexId, Result, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Store};

use crate::entry::index::IndexKind;
use crate::mvcc::clock::NUMBER_LIMIT;
use crate::options::{TxnConfig, TxnOptions};
use crate::purge::versions::VersionTree;
use crate::recovery::losers::Loser;
use crate::system::TxnSystem;
use crate::undo::{LogState, UndoLog, UndoSpace};

const PAYLOAD_VERSION: u8 = 1;
/// Longest payload, in bytes: the log takes as much with a checkpoint.
const PAYLOAD_MAX: usize = 2048;

/// A transaction that was prepared and neither committed nor rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTxn {
    /// What the coordinator calls it.
    pub xid: Vec<u8>,
    /// Its id.
    pub txn: TxnId,
}

/// What a checkpoint payload holds.
#[derive(Debug, Default)]
pub(crate) struct Checkpointed {
    pub max_txn: TxnId,
    pub last_commit: CommitNo,
    pub rows: Vec<(IndexId, u64)>,
}

impl Checkpointed {
    fn encode(&self) -> Vec<u8> {
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

    fn decode(bytes: &[u8]) -> Option<Checkpointed> {
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
        Some(Checkpointed { max_txn, last_commit, rows })
    }
}

impl TxnSystem {
    /// What is to be stored with a checkpoint: the largest ids and the row counters, as many as
    /// find room.
    #[must_use]
    pub fn checkpoint_payload(&self) -> Vec<u8> {
        let indexes = self.all_indexes();
        let rows = indexes.iter().filter(|i| i.kind() == IndexKind::Rows).map(|i| (i.id(), i.rows()));
        let mut rows: Vec<_> = rows.collect();
        rows.extend(self.saved_rows.lock().iter().map(|(i, n)| (*i, *n)));
        // The largest tables are those whose rows are dearest to count anew, if not all find room.
        rows.sort_unstable_by_key(|&(index, n)| (std::cmp::Reverse(n), index));
        let mut payload =
            Checkpointed { max_txn: TxnId(self.clock.next_id().0 - 1), last_commit: self.clock.last_commit(), rows };
        loop {
            let bytes = payload.encode();
            if bytes.len() <= PAYLOAD_MAX {
                return bytes;
            }
            payload.rows.truncate(payload.rows.len() * PAYLOAD_MAX / bytes.len());
        }
    }

    /// Opens the undo space after redo. `payload`: what [`TxnSystem::checkpoint_payload`] returned
    /// for the last checkpoint; empty if there was none. Register all indexes next, then
    /// [`TxnSystem::start`].
    ///
    /// # Errors
    /// Damage of the undo space's directory, or of the first page of a log: without that nothing
    /// says whether its transaction has committed. Other damage costs what it holds: see `lost.rs`.
    /// Those of reading the space.
    pub fn open(
        store: &Arc<Store>,
        undo_space: &Arc<SpaceFile>,
        config: TxnConfig,
        payload: &[u8],
    ) -> Result<Arc<TxnSystem>> {
        let mut from = Checkpointed::default();
        if !payload.is_empty() {
            let damaged = || Error::damaged_file("checkpoint", "the transaction system's part cannot be decoded");
            from = Checkpointed::decode(payload).ok_or_else(damaged)?;
        }
        let (undo, found, max_txn) = UndoSpace::open(store, undo_space)?;
        let acc = store.pool().access(AccessKind::Point);
        let versions = VersionTree::open(undo_space, &acc)?;
        from.max_txn = from.max_txn.max(max_txn);
        let commits = found.iter().filter(|l| l.state == LogState::Committed);
        from.last_commit = commits.map(|l| l.commit_no).fold(from.last_commit, CommitNo::max);
        let mut logs = Vec::with_capacity(found.len());
        for log in found {
            let reopened = UndoLog::reopen(&undo, &log, &acc)?;
            logs.push((log, reopened));
        }
        drop(acc);
        let unfinished = logs.iter().filter(|(l, _)| l.state != LogState::Committed);
        let active: Vec<TxnId> = unfinished.map(|(l, _)| l.txn).collect();
        let system = TxnSystem::assemble(store, config, undo, versions, &from, &active);
        logs.sort_by_key(|(l, _)| l.commit_no);
        for (found, log) in logs {
            if found.state == LogState::Committed {
                if let Err(error) = log.check_whole(&system.undo) {
                    system.lost.set_aside(found.txn, found.commit_no, &error);
                    system.background.failed(error);
                    continue;
                }
                system.history.push_recovered(found.commit_no, log);
                continue;
            }
            system.metrics.inc(Counter::TrxRecovered);
            let owner = system.new_owner(&TxnOptions::default(), true);
            if !holdfast_base::planted!("prepared-rows-not-locked") {
                system.adopt_active(found.txn, &owner);
            }
            owner.set_undo_records(log.records());
            let loser = Loser { owner, log, xid: None, tried: false };
            if found.state == LogState::Prepared {
                system.list_prepared(found.xid, loser);
            } else {
                system.losers.add(loser);
            }
        }
        Ok(system)
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
    }
}
