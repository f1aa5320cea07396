//! Opening after a stop or a crash: what redo restored is sorted into losers, prepared and
//! committed transactions.
//!
//! Losers keep their ids active, so their rows are locked until they are rolled back in the
//! background, one after the other, while users work already. Prepared transactions are listed and
//! wait. Committed logs go to purge in commit order. The commit map starts empty: every view sees
//! everything that is not of a loser or of a prepared transaction.

use std::sync::Arc;

use holdfast_base::{CommitNo, Error, Result, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;
use holdfast_tree::{SpaceFile, Store};

use crate::entry::index::IndexKind;
use crate::options::{TxnConfig, TxnOptions};
use crate::purge::versions::VersionTree;
use crate::recovery::checkpointed::Checkpointed;
use crate::recovery::losers::{Left, Loser};
use crate::system::TxnSystem;
use crate::undo::{LogState, UndoLog, UndoSpace};

/// Longest payload, in bytes: the log takes as much with a checkpoint.
const PAYLOAD_MAX: usize = 2048;

impl TxnSystem {
    /// What is to be stored with a checkpoint: the largest ids and the row counters, as many as
    /// find room.
    #[must_use]
    pub fn checkpoint_payload(&self) -> Vec<u8> {
        let indexes = self.indexes.all();
        let rows = indexes.iter().filter(|i| i.kind() == IndexKind::Rows).map(|i| (i.id(), i.rows()));
        let mut rows: Vec<_> = rows.collect();
        rows.extend(self.indexes.saved_rows());
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
    /// says whether its transaction has committed. Other damage costs what it holds, and so does an
    /// extension that is not returned: see `lost.rs`. Those of reading the space otherwise.
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
        let versions = versions.of_earlier_run(TxnId(from.max_txn.0 + 1), &active);
        let system = TxnSystem::assemble(store, config, undo, versions, &from, &active);
        logs.sort_by_key(|(l, _)| l.commit_no);
        for (found, log) in logs {
            if found.state == LogState::Committed {
                if let Err(error) = log.check_whole(&system.undo) {
                    system.purger.lost.set_aside(found.txn);
                    system.purger.lost.note(found.commit_no, &error);
                    system.purger.background.failed(error);
                    continue;
                }
                system.purger.history.push_recovered(found.commit_no, log);
                continue;
            }
            system.metrics.inc(Counter::TrxRecovered);
            let owner = system.new_owner(&TxnOptions::default(), true);
            if !holdfast_base::planted!("prepared-rows-not-locked") {
                system.adopt_active(found.txn, &owner);
            }
            owner.set_undo_records(log.records());
            let loser = Loser { owner, log, xid: None, left: Left::All, stopped_by: None, changed: None };
            if found.state == LogState::Prepared {
                system.prepared.list(found.xid, loser);
            } else {
                system.losers.add(loser);
            }
        }
        Ok(system)
    }
}
