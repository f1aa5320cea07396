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
        out.extend(self.range_locks());
        out
    }

    /// Those of [`LockManager::locks`] that are locks on ranges, or on all rows in a range.
    #[must_use]
    pub fn range_locks(&self) -> Vec<LockInfo> {
        let mut out = Vec::new();
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

    /// How many there are of [`LockManager::locks`], without a copy of each.
    #[must_use]
    pub fn count(&self) -> usize {
        let in_queue = |queue: &Queue| queue.granted.len() + queue.waiting.len();
        let mut count = 0;
        for shard in &self.shards {
            count += shard.lock().iter().map(|lock| in_queue(&lock.queue)).sum::<usize>();
        }
        count += self.tables.lock().values().map(in_queue).sum::<usize>();
        self.covers.for_each(|_, _, _, _| count += 1);
        for part in self.ranges.parts() {
            for ranges in part.values() {
                ranges.for_each_lock(|_, _| count += 1);
                count += ranges.waiting().count();
            }
        }
        count
    }

    /// The waiters, each with the transactions that it waits for.
    #[must_use]
    pub fn waits(&self) -> Vec<LockWaitInfo> {
        let mut out = Vec::new();
        self.each_wait(|wait| {
            out.push(wait.clone());
            true
        });
        out
    }

    /// Shows what [`LockManager::waits`] returns one by one, until `show` returns false: with ten
    /// thousand waiters in one queue, each of which waits for all before it, there are fifty
    /// million. No lock is held meanwhile.
    pub fn each_wait(&self, mut show: impl FnMut(&LockWaitInfo) -> bool) {
        for owner in self.waiters() {
            let Some(target) = owner.waiting_for() else { continue };
            let mut wait = LockWaitInfo { waiting: owner.serial(), blocking: 0, wanted: target.wanted() };
            for blocker in self.blockers(&owner) {
                wait.blocking = blocker.serial();
                if !show(&wait) {
                    return;
                }
            }
        }
    }

    fn waiters(&self) -> Vec<Arc<Owner>> {
        let mut waiting = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            waiting.extend(shard.iter().flat_map(|lock| lock.queue.waiting.iter()).map(|w| w.owner.clone()));
        }
        waiting.extend(self.tables.lock().values().flat_map(|q| q.waiting.iter()).map(|w| w.owner.clone()));
        for part in self.ranges.parts() {
            waiting.extend(part.values().flat_map(|ranges| ranges.waiting()).map(|(owner, _)| Arc::clone(owner)));
        }
        waiting
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use holdfast_metrics::Metrics;

    use super::*;
    use crate::LockMode::{Exclusive, Shared};
    use crate::LockWait;

    const T: IndexId = IndexId(1);
    const LONG: LockWait = LockWait::For(Duration::from_secs(60));
    const WAITERS: u64 = 20;

    /// All waits were put together, and all locks for each of them: with some thousands of waiters
    /// for one row a listing took all memory, or hours.
    #[test]
    fn waits_are_shown_one_by_one_and_locks_are_counted() {
        let (manager, holder) = (LockManager::new(1 << 20, Metrics::new()), Owner::new(1));
        manager.lock_row(&holder, T, b"row", Exclusive, LONG, None).unwrap();
        manager.lock_range(&holder, T, KeyRange::everything()).unwrap();
        let owners: Vec<_> = (0..WAITERS).map(|n| Owner::new(n + 2)).collect();
        std::thread::scope(|s| {
            let manager = &manager;
            for owner in &owners {
                s.spawn(move || manager.lock_row(owner, T, b"row", Shared, LONG, None).unwrap());
                while !owner.waits() {
                    std::thread::yield_now();
                }
            }
            assert_eq!(manager.count(), manager.locks().len());
            assert_eq!((manager.count(), manager.range_locks().len()), (2 + owners.len(), 1));
            let all = manager.waits();
            assert_eq!(all.len() as u64, WAITERS * (WAITERS + 1) / 2);
            let mut shown = Vec::new();
            manager.each_wait(|wait| {
                shown.push(wait.clone());
                shown.len() < 3
            });
            assert_eq!(shown[..], all[..3]);
            manager.release_all(&holder);
        });
        owners.iter().for_each(|owner| manager.release_all(owner));
        assert_eq!(manager.count(), 0);
    }
}
