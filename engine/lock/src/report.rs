//! What INFORMATION_SCHEMA and the monitor show of the locks.

use std::sync::Arc;

use holdfast_base::IndexId;

use crate::info::{FindSession, LockInfo, LockKind, LockWaitInfo, Serial, Session, WantedLock};
use crate::interval::KeyRange;
use crate::manager::LockManager;
use crate::owner::{Owner, Target};
use crate::queue::Queue;

/// The mode of range locks.
const GAP: &str = "GAP";

impl Target {
    /// For listings.
    pub(crate) fn wanted(&self) -> WantedLock {
        match self {
            Target::Row { index, key, mode } => {
                WantedLock { index: *index, kind: LockKind::Row((**key).into()), mode: mode.name() }
            }
            Target::Table { index, mode, .. } => WantedLock { index: *index, kind: LockKind::Table, mode: mode.name() },
            Target::Range { index, key } => {
                WantedLock { index: *index, kind: LockKind::Range(KeyRange::point(key)), mode: GAP }
            }
            Target::Turn { index, range } => {
                WantedLock { index: *index, kind: LockKind::Range(range.clone()), mode: GAP }
            }
        }
    }
}

impl LockManager {
    /// Lets `find` say which sessions run the transactions, for listings and deadlock reports. It
    /// is called without any lock of the lock manager but that of the graph, and must not wait for
    /// a transaction. The first one stays.
    pub fn set_sessions(&self, find: Box<FindSession>) {
        let _ = self.sessions.set(find);
    }

    /// The session of a transaction, if it is known.
    #[must_use]
    pub fn session(&self, of: Serial) -> Option<Session> {
        self.sessions.get()?(of)
    }

    /// All explicit locks. A listing, not a snapshot: shards are looked at one after the other.
    #[must_use]
    pub fn locks(&self) -> Vec<LockInfo> {
        let mut out = Vec::new();
        for shard in &self.shards {
            for lock in shard.lock().iter() {
                list(&mut out, &lock.queue, lock.index, &LockKind::Row((*lock.key).into()));
            }
        }
        for (index, queue) in self.tables.lock().iter() {
            list(&mut out, queue, *index, &LockKind::Table);
        }
        self.covers.for_each(|index, owner, range, mode| {
            out.push(info(owner, index, LockKind::Range(range), mode.name(), true));
        });
        for part in self.ranges.parts() {
            for (index, ranges) in part.iter() {
                ranges.for_each_lock(|range, owner| {
                    out.push(info(owner, *index, LockKind::Range(range.clone()), GAP, true));
                });
                for (owner, range) in ranges.waiting() {
                    out.push(info(owner, *index, LockKind::Range(range), GAP, false));
                }
            }
        }
        out
    }

    /// The waiters, each with the transactions that it waits for.
    #[must_use]
    pub fn waits(&self) -> Vec<LockWaitInfo> {
        let mut waiting = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            waiting.extend(shard.iter().flat_map(|lock| lock.queue.waiting.iter()).map(|w| w.owner.clone()));
        }
        waiting.extend(self.tables.lock().values().flat_map(|q| q.waiting.iter()).map(|w| w.owner.clone()));
        for part in self.ranges.parts() {
            waiting.extend(part.values().flat_map(|ranges| ranges.waiting()).map(|(owner, _)| Arc::clone(owner)));
        }
        let mut out = Vec::new();
        for owner in waiting {
            let Some(target) = owner.waiting_for() else { continue };
            for blocker in self.blockers(&owner) {
                let wanted = target.wanted();
                out.push(LockWaitInfo { waiting: owner.serial(), blocking: blocker.serial(), wanted });
            }
        }
        out
    }
}

fn list(out: &mut Vec<LockInfo>, queue: &Queue, index: IndexId, kind: &LockKind) {
    for (owner, mode) in &queue.granted {
        out.push(info(owner, index, kind.clone(), mode.name(), true));
    }
    for waiter in &queue.waiting {
        out.push(info(&waiter.owner, index, kind.clone(), waiter.mode.name(), false));
    }
}

fn info(owner: &Owner, index: IndexId, kind: LockKind, mode: &'static str, granted: bool) -> LockInfo {
    LockInfo { owner: owner.serial(), txn: owner.txn(), index, kind, mode, granted }
}
