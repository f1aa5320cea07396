//! The purger: the state of purge, and what purge works with.
//!
//! # Purpose
//! It has all that is kept of committed transactions: the history with their undo logs, the shelf
//! and the version tree with versions for views, and the note of what damage has cost. It decides
//! what becomes of each. Store, clock, commit map, views, undo space and indexes it shares with the
//! rest of the transaction system.
//!
//! # Protocol
//! * A commit puts its log into the history; the committer then tells the purger, and helps.
//! * A view that ends tells the purger, which sweeps what was kept for it.
//! * A reader asks for a version: undo page and shelf ([`Purger::prior`]), then version tree.
//!
//! What becomes of a log is in [`crate::purge`]; the methods are in `logs.rs` (purge of logs, help
//! of committers), `shelving.rs` and `sweep.rs`. The background thread is in
//! [`crate::purge::worker`], since it rolls back losers, too.
//!
//! # Lock order
//! The purge mutex comes before page latches and before the mutexes of history, shelf and commit
//! map. Nothing else is held when it is taken. Committers retire and shelve logs without it.
//!
//! # Invariants
//! * One thread at a time, the holder of the purge mutex, reads logs of the queue, cuts them, and
//!   moves versions to the version tree or out of it.
//! * A log is in the history, on the shelf, or in the hands of a thread that purges or shelves it.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result, SpaceId, TxnId, latches};
use holdfast_metrics::Metrics;
use holdfast_pool::AccessKind;
use holdfast_tree::Store;

use crate::entry::registry::IndexRegistry;
use crate::mvcc::clock::CommitClock;
use crate::mvcc::commit_map::CommitMap;
use crate::mvcc::view::{View, Views};
use crate::options::TxnConfig;
use crate::purge::background::Background;
use crate::purge::history::History;
use crate::purge::lost::LostVersions;
use crate::purge::proofs::Proofs;
use crate::purge::shelf::Shelf;
use crate::purge::sweep_state::SweepState;
use crate::purge::versions::{VersionTree, split_key};
use crate::undo::UndoSpace;

/// See the module.
pub(crate) struct Purger {
    // Shared with the transaction system.
    pub store: Arc<Store>,
    pub metrics: Arc<Metrics>,
    pub config: TxnConfig,
    pub clock: Arc<CommitClock>,
    pub map: Arc<CommitMap>,
    pub views: Arc<Views>,
    pub undo: Arc<UndoSpace>,
    pub indexes: Arc<IndexRegistry>,
    // Its own.
    pub history: History,
    pub shelf: Shelf,
    pub versions: VersionTree,
    pub lost: LostVersions,
    pub background: Background,
    pub proofs: Proofs,
    /// The purge mutex.
    pub turn: CachePadded<Mutex<SweepState>>,
}

impl Purger {
    /// How many of `long`, which are long views in the order of their age, the oldest first, do not
    /// see `txn`, which has committed. What a view sees each younger one sees, too: with thousands
    /// of idle snapshots a few are asked about a record, not all. (One that is short and has ended
    /// may say that it sees what it does not.)
    pub fn count_not_seeing(&self, long: &[Arc<View>], txn: TxnId) -> usize {
        long.partition_point(|view| !view.sees(txn, &self.map))
    }

    /// The oldest of `long`, as for [`Purger::count_not_seeing`], that sees `txn` and has not been
    /// given up.
    pub fn oldest_to_see<'v>(&self, long: &'v [Arc<View>], txn: TxnId) -> Option<&'v Arc<View>> {
        long[self.count_not_seeing(long, txn)..].iter().find(|view| !view.is_cancelled())
    }

    /// True if no log waits or is set aside, and no version is kept.
    ///
    /// # Errors
    /// The errors of reading the version tree.
    pub fn keeps_nothing(&self) -> Result<bool> {
        // A log in the hands of purge is in no list.
        latches::none_while_waiting_for("the purge mutex");
        let _turn = self.turn.lock();
        Ok(self.has_no_log() && self.versions.is_empty()?)
    }

    /// True if no log waits or is set aside, and no version is kept that may refer to a chain in
    /// `space`: one of an index that is registered, and is in another space, does not. False, too,
    /// if the version tree cannot be read.
    ///
    /// # Errors
    /// The errors of reading the version tree but for damage.
    pub fn keeps_nothing_of(&self, space: SpaceId) -> Result<bool> {
        latches::none_while_waiting_for("the purge mutex");
        let _turn = self.turn.lock();
        let acc = self.store.pool().access(AccessKind::Purge);
        let is_elsewhere = |id| self.indexes.get(id).is_some_and(|index| index.tree().space().id() != space);
        let mut behind = Vec::new();
        while self.has_no_log() {
            let found = match self.versions.batch(&behind, 1, &acc) {
                Err(error) if error.is_damage() || error.is_unread() => return Ok(false),
                found => found?,
            };
            let Some((key, _)) = found.first() else { return Ok(true) };
            let next = split_key(key).filter(|(id, _)| is_elsewhere(*id)).and_then(|(id, _)| id.0.checked_add(1));
            let Some(next) = next else { return Ok(false) };
            behind = next.to_be_bytes().to_vec();
        }
        Ok(false)
    }

    /// True if no log waits or is set aside. The records of one that is set aside name chains, and
    /// the next open may find its pages sound. The caller holds the purge mutex.
    fn has_no_log(&self) -> bool {
        self.history.len() == 0 && self.shelf.is_empty() && !self.lost.has_set_aside()
    }

    /// True if the database has stopped. What it then calls damaged may be sound, and that it does
    /// not return a page says nothing of the device: no log is set aside for that.
    pub fn has_stopped(&self) -> bool {
        self.store.wal().check_poisoned().is_err()
    }

    /// True if `error` says that a page is damaged or was not returned, and the database goes on.
    pub fn is_about_a_page(&self, error: &Error) -> bool {
        (error.is_damage() || error.is_unread()) && !self.has_stopped()
    }
}
