//! Locks on whole tables, and how many locks on rows become one.
//!
//! A table lock stands for every key of the index that no other transaction has locked. A
//! transaction that wants a row which it does not hold asks for the table lock first, enters an
//! intent here if a table lock of another is in the way, and waits in the row's own queue
//! afterwards. Nothing else waits here: a transaction whose row locks are to become a table lock
//! goes without if the table lock is not free.

use std::sync::Arc;

use holdfast_base::sync::atomic::Ordering;
use holdfast_base::{IndexId, Result};
use holdfast_metrics::Counter;

use crate::manager::LockManager;
use crate::mode::{LockMode, Mode};
use crate::owner::{Owner, Target};
use crate::queue::Queue;
use crate::rows::Row;

/// A transaction with fewer row locks in an index is not worth a table lock.
const ESCALATION_MIN: usize = if cfg!(sim) { 3 } else { 64 };

/// To go through fewer locks than these costs nothing.
const MANY_LOCKS: usize = 16 * ESCALATION_MIN;

/// What a lock on a whole table means for a transaction that wants a row.
pub(crate) enum TableState {
    /// Nothing.
    Free,
    /// It is the transaction's own, and stands for the row's.
    Covered,
    /// One of another transaction is in the way.
    Busy,
}

impl LockManager {
    /// True if a transaction has a lock on a whole table.
    #[must_use]
    pub fn has_table_locks(&self) -> bool {
        self.table_locks.load(Ordering::SeqCst) > 0
    }

    /// How the locks on the table stand towards a lock of `owner` on a row.
    pub(crate) fn table_state(&self, owner: &Owner, index: IndexId, mode: LockMode) -> TableState {
        if !self.has_table_locks() {
            return TableState::Free;
        }
        let tables = self.tables.lock();
        let Some(queue) = tables.get(&index) else { return TableState::Free };
        if queue.conflicts(owner, mode.intent()) {
            TableState::Busy
        } else if queue.mode_of(owner).is_some_and(|m| m.covers(mode.row())) {
            TableState::Covered
        } else {
            TableState::Free
        }
    }

    /// As [`LockManager::table_state`], for a lock on `key`: a row under a cover of `owner` is one
    /// that it has locked, and the table lock of another leaves it out.
    pub(crate) fn table_state_at(&self, owner: &Owner, index: IndexId, key: &[u8], mode: LockMode) -> TableState {
        match self.table_state(owner, index, mode) {
            TableState::Busy if self.covers.covers(owner, index, key, mode.row()) => TableState::Covered,
            state => state,
        }
    }

    /// Locks the keys of `index` that no other transaction has locked, unless a lock of another on
    /// the table is in the way. Returns whether `owner` has the lock. It passes by the intents that
    /// wait for other table locks: `owner` has rows of the table already.
    pub fn lock_table(&self, owner: &Arc<Owner>, index: IndexId, mode: LockMode) -> bool {
        let is_ordered = self.is_ordered();
        let mut tables = self.tables.lock();
        let queue = tables.entry(index).or_default();
        if queue.holds(owner, mode.row()) {
            return true;
        }
        // Transactions that come in a given order are not to wait for later ones.
        let is_free = !queue.conflicts(owner, mode.row()) && (queue.waiting.is_empty() || !is_ordered);
        is_free && self.grant_table(queue, owner, index, mode.row())
    }

    /// Grants a lock on a table that is free. Returns false if the transaction has ended.
    fn grant_table(&self, queue: &mut Queue, owner: &Arc<Owner>, index: IndexId, mode: Mode) -> bool {
        let mut held = owner.held.lock();
        if held.closed {
            return false;
        }
        let before = queue.grant(owner, mode);
        if before.is_none() {
            held.tables.push(index);
            self.table_locks.fetch_add(1, Ordering::SeqCst);
        }
        drop(held);
        queue.has_come_before(owner, before);
        true
    }

    /// Queues up for a row of the table, with the intent `mode`.
    pub(crate) fn enqueue_table(&self, owner: &Arc<Owner>, row: &Row<'_>, mode: Mode) -> Result<()> {
        let index = row.index;
        let mut tables = self.tables.lock();
        let queue = tables.entry(index).or_default();
        owner.start_wait(Target::Table { index, key: row.key.into(), mode })?;
        // Those that wait for a lock of its own on the table are not waited for.
        let holds = queue.mode_of(owner).is_some();
        queue.enqueue(owner, mode, holds);
        queue.regrant(|_, _| {}); // It may have become free since the caller looked.
        if queue.is_empty() {
            tables.remove(&index);
        }
        Ok(())
    }

    /// Takes back a waiting request of `owner`.
    pub(crate) fn cancel_table(&self, owner: &Owner, index: IndexId) {
        let mut tables = self.tables.lock();
        let Some(queue) = tables.get_mut(&index) else { return };
        queue.remove_waiter(owner);
        queue.regrant(|_, _| {});
        if queue.is_empty() {
            tables.remove(&index);
        }
    }

    /// Gives the owner's lock on the table back.
    pub(crate) fn release_table(&self, owner: &Owner, index: IndexId) {
        let mut tables = self.tables.lock();
        let Some(queue) = tables.get_mut(&index) else { return };
        if queue.release(owner) {
            self.table_locks.fetch_sub(1, Ordering::SeqCst);
        }
        queue.regrant(|_, _| {});
        if queue.is_empty() {
            tables.remove(&index);
        }
    }

    /// Gives the owner's lock on the table back if it is a shared one. Returns whether it was.
    pub(crate) fn release_shared_table(&self, owner: &Owner, index: IndexId) -> bool {
        let mode = self.tables.lock().get(&index).and_then(|queue| queue.mode_of(owner));
        let is_shared = mode != Some(Mode::Exclusive);
        if is_shared {
            self.release_table(owner, index);
        }
        is_shared
    }

    /// Replaces row locks of the owner in `index`, which it has locked a row of, by a table lock,
    /// if it holds enough of them and the table lock is free. It does not wait for one: it has the
    /// rows, and the transaction that is in the way may wait for one of them. Where an exclusive
    /// lock is not to be had, a shared one replaces the shared locks. If none replaces locks in
    /// `index`, another index is looked for. Only then is the number raised at which the next look
    /// comes: that look may come with a lock in `index` again.
    pub(crate) fn escalate(&self, owner: &Arc<Owner>, index: IndexId) {
        let (all, here) = {
            let held = owner.held.lock();
            if held.rows.len() < 2 * held.escalation_refused_at {
                return;
            }
            (held.rows.len(), held.rows.iter().filter(|(i, _)| *i == index).count())
        };
        let is_worth = here >= ESCALATION_MIN;
        if (!is_worth && all < MANY_LOCKS) || (is_worth && self.escalate_in(owner, index)) {
            return;
        }
        let others = owner.indexes_with_rows(ESCALATION_MIN, index);
        if others.iter().any(|other| self.escalate_in(owner, *other)) {
            return;
        }
        // The budget is exceeded for a while. With locks in many indexes all of them would be gone
        // through for each further one: the next look is when there are an eighth more.
        let is_refused = is_worth || !others.is_empty();
        owner.held.lock().escalation_refused_at = if is_refused { all } else { all / 16 * 9 };
    }

    /// Replaces row locks of the owner in `index`, where it has enough of them, by a table lock.
    /// False if that is not free, or replaces none since others wait for all of them.
    fn escalate_in(&self, owner: &Arc<Owner>, index: IndexId) -> bool {
        let rows: Vec<Arc<[u8]>> = {
            let held = owner.held.lock();
            held.rows.iter().filter(|(i, _)| *i == index).map(|(_, key)| Arc::clone(key)).collect()
        };
        let exclusive = rows.iter().filter(|key| self.row_mode(owner, index, key) == Some(LockMode::Exclusive)).count();
        let worth =
            [(LockMode::Exclusive, exclusive > 0), (LockMode::Shared, rows.len() - exclusive >= ESCALATION_MIN)];
        let mut modes = worth.into_iter().filter(|(_, is_worth)| *is_worth).map(|(mode, _)| mode);
        let Some(mode) = modes.find(|mode| self.lock_table(owner, index, *mode)) else { return false };
        self.metrics.inc(Counter::LockEscalations);
        let rows: Vec<_> = {
            let mut held = owner.held.lock();
            let (rows, others) = std::mem::take(&mut held.rows).into_iter().partition(|(i, _)| *i == index);
            (held.rows, held.escalation_refused_at) = (others, 0);
            rows
        };
        // Where others wait, they were promised that this lock is what they wait for.
        let is_kept = |(_, key): &(IndexId, Arc<[u8]>)| !self.release_uncontended(owner, index, key, mode.row());
        let before = rows.len();
        let kept: Vec<_> = rows.into_iter().filter(is_kept).collect();
        let has_replaced = kept.len() < before;
        owner.held.lock().rows.extend(kept);
        has_replaced
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use holdfast_base::Error;
    use holdfast_metrics::Metrics;

    use super::*;
    use crate::LockMode::{Exclusive, Shared};
    use crate::{Implicit, LockWait};

    const T: IndexId = IndexId(1);
    const LONG: LockWait = LockWait::For(Duration::from_secs(60));

    /// Two transactions, each with a shared lock on the whole table instead of those on its rows.
    fn readers() -> (LockManager, [Arc<Owner>; 2]) {
        let (manager, readers) = (LockManager::new(8 << 10, Metrics::new()), [1, 2].map(Owner::new));
        for reader in &readers {
            for row in 0..200u32 {
                manager.lock_row(reader, T, &row.to_be_bytes(), Shared, LONG, None).unwrap();
            }
            assert!(manager.holds_row(reader, T, b"any"));
        }
        (manager, readers)
    }

    /// The wait for the other one's table lock once took the place of the own one, and went with
    /// it: all that the transaction had read was open to changes.
    #[test]
    fn a_wait_for_a_table_lock_takes_nothing_from_what_is_held() {
        let (manager, [reader, other]) = readers();
        let third = Owner::new(3);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| manager.lock_row(&reader, T, b"row", Exclusive, LONG, None));
            while !reader.waits() {
                std::thread::yield_now();
            }
            manager.release_all(&other);
            assert!(waiter.join().unwrap().unwrap());
        });
        assert!(manager.holds_row(&reader, T, b"any") && manager.blocked(&third, T, &7u32.to_be_bytes()));
        assert!(!manager.blocked_for(&third, T, &7u32.to_be_bytes(), Shared));
        assert!(manager.blocked_for(&third, T, b"row", Shared));
        manager.release_all(&reader);
        assert!(manager.locks().is_empty() && manager.memory() == 0 && manager.tables.lock().is_empty());
    }

    /// It had been shared, and was still taken for that.
    #[test]
    fn an_exclusive_table_lock_stays_when_reads_are_released() {
        let (manager, [writer, other]) = readers();
        manager.release_all(&other);
        for row in 0..200u32 {
            manager.lock_row(&writer, T, &row.to_be_bytes(), Exclusive, LONG, None).unwrap();
        }
        assert!(manager.blocked_for(&other, T, b"any", Shared), "the table lock was raised");
        manager.release_reads(&writer, |_, _| true);
        let next = Owner::new(3);
        assert!(manager.blocked_for(&next, T, &7u32.to_be_bytes(), Shared));
        manager.release_all(&writer);
        assert!(manager.locks().is_empty() && manager.memory() == 0 && manager.tables.lock().is_empty());
    }

    /// A waiter behind another lock on the row was once granted that row when the other lock went,
    /// with no look at the table: what a SERIALIZABLE transaction had read changed.
    #[test]
    fn a_row_is_not_granted_past_a_table_lock_after_a_wait() {
        let (manager, [reader, other]) = readers();
        manager.release_all(&other);
        let [holder, writer] = [3, 4].map(Owner::new);
        manager.lock_row(&holder, T, b"row", Shared, LONG, None).unwrap();
        std::thread::scope(|s| {
            let waiter = s.spawn(|| manager.lock_row(&writer, T, b"row", Exclusive, LONG, None));
            while !writer.waits() {
                std::thread::yield_now();
            }
            manager.release_all(&holder);
            assert!(writer.waits() && !manager.holds_row(&writer, T, b"row"), "the reader has the table");
            manager.lock_row(&reader, T, b"row", Shared, LockWait::NoWait, None).unwrap();
            manager.release_all(&reader);
            assert!(waiter.join().unwrap().unwrap());
        });
        assert!(manager.holds_row(&writer, T, b"row"));
        manager.release_all(&writer);
        assert!(manager.locks().is_empty() && manager.memory() == 0 && manager.tables.lock().is_empty());
    }

    /// It waited for the table lock once, whose owner waits for the row: a deadlock that is none.
    #[test]
    fn a_row_under_an_own_cover_is_not_asked_of_the_table() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [writer, reader] = [1, 2].map(Owner::new);
        manager.lock_row(&writer, T, b"a", Exclusive, LONG, None).unwrap();
        let cover = manager.begin_cover(&writer, T, Exclusive, b"a").unwrap();
        assert!(manager.cover_row(&writer, T, cover, b"b"));
        assert!(manager.lock_table(&reader, T, Shared));
        assert!(!manager.blocked(&writer, T, b"b") && manager.blocked(&writer, T, b"c"));
        manager.lock_row(&writer, T, b"b", Exclusive, LockWait::NoWait, None).unwrap();
        assert!(manager.lock_row(&reader, T, b"b", Shared, LockWait::NoWait, None).is_err());
    }

    /// It waited for the table lock when it read the row once more, whose owner may wait for it.
    #[test]
    fn a_row_under_an_own_shared_cover_is_not_asked_of_the_table() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [reader, writer] = [1, 2].map(Owner::new);
        manager.lock_row(&reader, T, b"a", Shared, LONG, None).unwrap();
        let cover = manager.begin_cover(&reader, T, Shared, b"a").unwrap();
        assert!(manager.cover_row(&reader, T, cover, b"b"));
        assert!(manager.lock_table(&writer, T, Exclusive));
        manager.lock_row(&reader, T, b"b", Shared, LockWait::NoWait, None).unwrap();
        let changes = manager.lock_row(&reader, T, b"b", Exclusive, LockWait::NoWait, None);
        assert!(matches!(changes, Err(Error::WouldBlock)), "the writer may have read the row by its table lock");
        assert!(manager.lock_row(&writer, T, b"b", Exclusive, LockWait::NoWait, None).is_err());
    }

    /// A table lock leaves out what others have locked before.
    #[test]
    fn a_table_lock_is_no_lock_of_a_row_that_another_has_locked() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [writer, other] = [1, 2].map(Owner::new);
        manager.lock_row(&other, T, b"a", Exclusive, LONG, None).unwrap();
        let cover = manager.begin_cover(&other, T, Exclusive, b"a").unwrap();
        assert!(manager.cover_row(&other, T, cover, b"b"));
        assert!(manager.lock_table(&writer, T, Exclusive));
        assert!(manager.holds_row(&writer, T, b"c"));
        assert!(!manager.holds_row(&writer, T, b"a") && !manager.holds_row(&writer, T, b"b"));
        manager.release_all(&other);
        assert!(manager.holds_row(&writer, T, b"a"));
    }

    /// The row was granted; then the request waited for the end of another transaction, to save
    /// memory, and that one may wait for it.
    #[test]
    fn a_row_that_is_granted_is_not_waited_for() {
        let manager = LockManager::new(8 << 10, Metrics::new());
        let ([reader, writer], at_once) = ([1, 2].map(Owner::new), LockWait::For(Duration::from_millis(1)));
        for row in [1_000, 1_001u32] {
            manager.lock_row(&writer, T, &row.to_be_bytes(), Exclusive, LONG, None).unwrap();
        }
        for row in 0..200u32 {
            manager.lock_row(&reader, T, &row.to_be_bytes(), Shared, LONG, None).unwrap();
        }
        for row in 0..200u32 {
            manager.lock_row(&writer, T, &row.to_be_bytes(), Shared, at_once, None).unwrap();
        }
        assert!(manager.memory() <= 8 << 10, "{} bytes", manager.memory());
        let third = Owner::new(4);
        for row in [1_000, 1_001u32] {
            assert!(manager.row_mode(&writer, T, &row.to_be_bytes()) == Some(Exclusive));
            assert!(manager.blocked_for(&third, T, &row.to_be_bytes(), Shared));
        }
        manager.release_all(&reader);
        assert!(manager.blocked(&third, T, &7u32.to_be_bytes()));
        manager.release_all(&writer);
        assert!(manager.locks().is_empty() && manager.memory() == 0 && manager.tables.lock().is_empty());
    }

    /// It had asked for a row with its id in the moment in which another one got the table lock.
    /// That one came to the row, and each waited for the other: a deadlock that is none.
    #[test]
    fn a_lock_that_is_entered_for_a_waiter_for_the_table_ends_its_wait() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [writer, reader] = [1, 2].map(Owner::new);
        assert!(manager.lock_table(&reader, T, Shared));
        let implicit = Implicit { owner: &writer, active: &|| true };
        std::thread::scope(|s| {
            let asks = s.spawn(|| manager.lock_row(&writer, T, b"row", Exclusive, LONG, None));
            while !writer.waits() {
                std::thread::yield_now();
            }
            let behind = s.spawn(|| manager.lock_row(&reader, T, b"row", Shared, LONG, Some(&implicit)));
            assert!(asks.join().unwrap().unwrap());
            assert!(manager.holds_row(&writer, T, b"row"));
            while !reader.waits() {
                std::thread::yield_now();
            }
            manager.release_all(&writer);
            assert!(behind.join().unwrap().unwrap());
        });
        assert_eq!(manager.latest_deadlock(), None);
        manager.release_all(&reader);
        assert!(manager.locks().is_empty() && manager.memory() == 0 && manager.tables.lock().is_empty());
    }

    #[test]
    fn a_shared_table_lock_goes_when_reads_are_released() {
        let (manager, [reader, other]) = readers();
        manager.release_all(&other);
        manager.release_reads(&reader, |_, _| true);
        assert!(!manager.blocked(&other, T, b"any"));
        assert!(manager.locks().is_empty());
    }

    /// Of a transaction with a few locks in each of thousands of partitions all were gone through
    /// for each further one, once memory was short.
    #[test]
    fn locks_in_other_indexes_are_seldom_gone_through() {
        let (manager, owner) = (LockManager::new(8 << 10, Metrics::new()), Owner::new(1));
        let lock = |index, row: u32| {
            manager.lock_row(&owner, IndexId(index), &row.to_be_bytes(), Shared, LONG, None).unwrap();
        };
        (2..2 + 2 * MANY_LOCKS as u32).for_each(|index| lock(index, 0));
        assert!(manager.memory() > 8 << 10 && owner.row_locks() == 2 * MANY_LOCKS);
        let refused_at = owner.held.lock().escalation_refused_at;
        assert!(2 * refused_at > owner.row_locks());
        // Those that come to be worth it are still found.
        (0..2 * MANY_LOCKS as u32).for_each(|row| lock(1, row));
        assert!(manager.holds_row(&owner, T, b"any"));
        manager.release_all(&owner);
        assert_eq!(manager.memory(), 0);
    }

    /// Each look came with a lock in one of the others, and was at that index alone: the locks of a
    /// transaction took ever more memory.
    #[test]
    fn an_index_with_many_locks_is_found_from_another_one() {
        let (manager, owner) = (LockManager::new(8 << 10, Metrics::new()), Owner::new(1));
        let lock = |index, row: u32| {
            manager.lock_row(&owner, IndexId(index), &row.to_be_bytes(), Shared, LONG, None).unwrap();
        };
        let many = MANY_LOCKS as u32;
        (2..2 + many).for_each(|index| lock(index, 0));
        for row in 0..many {
            lock(1, row);
            lock(2 + many + row, 0);
        }
        assert!(manager.holds_row(&owner, T, b"any"));
        manager.release_all(&owner);
        assert_eq!(manager.memory(), 0);
    }

    /// Of an index in which others wait for each of the locks it was said that they had become a
    /// table lock: the next look came with the next lock, and went through all again.
    #[test]
    fn locks_that_others_wait_for_put_the_next_look_off() {
        let (manager, [owner, other, waiter]) = (LockManager::new(1 << 20, Metrics::new()), [1, 2, 3].map(Owner::new));
        let elsewhere = IndexId(2);
        for key in (0..ESCALATION_MIN as u32).map(u32::to_be_bytes) {
            manager.lock_row(&owner, elsewhere, &key, Exclusive, LONG, None).unwrap();
            manager.lock_row(&owner, T, &key, Exclusive, LONG, None).unwrap();
            let row = manager.row(T, &key);
            manager.shard(&row).lock().change(&row, |lock| lock.queue.enqueue(&waiter, Mode::Exclusive, false));
        }
        assert!(manager.lock_table(&other, elsewhere, Shared));
        manager.escalate(&owner, elsewhere);
        assert_eq!(owner.row_locks(), 2 * ESCALATION_MIN);
        assert_eq!(owner.held.lock().escalation_refused_at, 2 * ESCALATION_MIN);
    }
}
