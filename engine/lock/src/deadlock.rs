//! Deadlock detection: a thread that starts to wait searches the waits-for graph.
//!
//! Edges are computed while the search walks: from a waiting transaction to the transactions that
//! its request waits for in a row queue, a table queue, or a list of ranges; of a queue, to the
//! holders of what it waits for, past other waiters ([`Queue::obstacles`]). The graph
//! mutex serialises searches. A search begins after the searcher's request can be seen, so the last
//! transaction of a cycle that starts to wait finds the cycle. One kind of edge appears without a
//! transaction that starts to wait: a lock that is entered on behalf of a row's writer blocks the
//! waiters that were in the queue already. The thread that enters it searches from that writer, if
//! the writer waits. An edge may be gone by the time a cycle is found: each is looked at again, and
//! only a transaction that still waits becomes a victim. Those of a deadlock stay.

use std::sync::Arc;
use std::time::SystemTime;

use holdfast_base::HashSet;
use holdfast_metrics::Counter;

use crate::info::{DeadlockParty, DeadlockReport};
use crate::manager::LockManager;
use crate::owner::{Outcome, Owner, Target};
use crate::queue::Queue;

impl LockManager {
    /// The latest deadlock.
    #[must_use]
    pub fn latest_deadlock(&self) -> Option<DeadlockReport> {
        self.graph.lock().clone()
    }

    /// Breaks every cycle through `start`, which has just begun to wait, or is waited for by more
    /// than before.
    pub(super) fn detect(&self, start: &Arc<Owner>) {
        let mut latest = self.graph.lock();
        while let Some(cycle) = self.find_cycle(start) {
            if !self.is_closed(&cycle, start) {
                continue;
            }
            // Asked and ended at once: by the time of a second step it may wait for a lock, which
            // is not granted by that.
            if cycle.iter().any(|owner| owner.give_way()) {
                continue;
            }
            // The cheapest to roll back; among equals the youngest.
            let cost = |o: &&Arc<Owner>| (o.undo_records(), std::cmp::Reverse(o.seniority()));
            let Some(victim) = cycle.iter().min_by_key(cost) else { return };
            let report = self.describe(&cycle, victim);
            if victim.end_wait(Outcome::Deadlock) {
                self.metrics.inc(Counter::LockDeadlocks);
                *latest = Some(report);
            }
        }
    }

    /// `owner` may have entered a lock for `holder`: breaks every cycle that closes. First those
    /// through `owner`, which may wait now: a report begins with the transaction that closed the
    /// cycle.
    pub(super) fn detect_beyond(&self, owner: &Arc<Owner>, holder: &Arc<Owner>) {
        if holder.waits() {
            self.detect(owner);
            self.detect(holder);
        }
    }

    /// A cycle through `start`, or `None`. Depth first without recursion: the path is a stack of
    /// frames.
    pub(super) fn find_cycle(&self, start: &Arc<Owner>) -> Option<Vec<Arc<Owner>>> {
        let mut seen = HashSet::from_iter([start.serial()]);
        let mut path = vec![(Arc::clone(start), self.obstacles(start, start))];
        while let Some((_, next)) = path.last_mut() {
            let Some(owner) = next.pop() else {
                path.pop();
                continue;
            };
            if owner.serial() == start.serial() {
                return Some(path.into_iter().map(|(o, _)| o).collect());
            }
            if seen.insert(owner.serial()) {
                let obstacles = self.obstacles(&owner, start);
                path.push((owner, obstacles));
            }
        }
        None
    }

    /// True if each transaction of a cycle through `start` that was found waits for the next one
    /// still, and the last one for `start`.
    fn is_closed(&self, cycle: &[Arc<Owner>], start: &Owner) -> bool {
        let next = cycle.iter().cycle().skip(1);
        cycle
            .iter()
            .zip(next)
            .all(|(owner, next)| self.obstacles(owner, start).iter().any(|obstacle| obstacle.serial() == next.serial()))
    }

    /// The transactions that `owner` waits for; none if it does not wait.
    pub(super) fn blockers(&self, owner: &Owner) -> Vec<Arc<Owner>> {
        self.awaited(owner, |queue| queue.blockers(owner))
    }

    /// Where a search for cycles through `start` goes on from `owner`.
    pub(super) fn obstacles(&self, owner: &Owner, start: &Owner) -> Vec<Arc<Owner>> {
        self.awaited(owner, |queue| queue.obstacles(owner, start))
    }

    /// What `of` says of the queue that `owner` waits in; the owners of ranges in its way if it
    /// waits for those.
    fn awaited(&self, owner: &Owner, of: impl Fn(&Queue) -> Vec<Arc<Owner>>) -> Vec<Arc<Owner>> {
        match owner.waiting_for() {
            None => Vec::new(),
            Some(Target::Row { index, key, .. }) => {
                let row = self.row(index, &key);
                self.shard(&row).lock().get(&row).map_or_else(Vec::new, of)
            }
            Some(Target::Table { index, .. }) => self.tables.lock().get(&index).map_or_else(Vec::new, of),
            Some(Target::Range { index, key }) => self.ranges.blockers(owner, index, &key),
            Some(Target::Turn { index, range }) => self.ranges.inserters(owner, index, &range),
        }
    }

    fn describe(&self, cycle: &[Arc<Owner>], victim: &Arc<Owner>) -> DeadlockReport {
        let party = |owner: &Arc<Owner>| DeadlockParty {
            serial: owner.serial(),
            txn: owner.txn(),
            age: owner.age(),
            undo_records: owner.undo_records(),
            row_locks: owner.row_locks(),
            session: self.session(owner.serial()),
            wanted: owner.wait_in_progress().map(|(wanted, _)| wanted),
        };
        let cycle = cycle.iter().map(party).collect();
        DeadlockReport { at: SystemTime::now(), victim: victim.serial(), cycle }
    }
}
