//! What the locks of ranges are while cursors read these: see [`reading`](crate::reading).

use std::mem;
use std::sync::Arc;

use holdfast_base::{IndexId, Result};

use crate::interval::KeyRange;
use crate::manager::LockManager;
use crate::mode::LockWait;
use crate::owner::Owner;
use crate::reading::Reading;

impl LockManager {
    /// Keeps inserts of others out of `range`, which a cursor of `owner` is going to read, after
    /// those that already wait to insert there. `None` if the owner has read a range that covers
    /// it: that stays locked.
    ///
    /// # Errors
    /// [`Error::Interrupted`](holdfast_base::Error::Interrupted) if the owner was killed, that of
    /// [`Owner::stop`] if the database stopped.
    pub fn begin_reading(
        &self,
        owner: &Arc<Owner>,
        index: IndexId,
        range: KeyRange,
        backwards: bool,
        wait: LockWait,
    ) -> Result<Option<Arc<Reading>>> {
        let Some(id) = self.lock_range_in_turn(owner, index, range.clone(), wait)? else { return Ok(None) };
        let reading = Arc::new(Reading::new(index, range, backwards, id));
        owner.readings.lock().push(Arc::clone(&reading));
        Ok(Some(reading))
    }

    /// `owner` is going to wait: narrows the ranges that its cursors read to what these have
    /// reached.
    pub(crate) fn narrow_readings(&self, owner: &Owner) {
        let readings = mem::take(&mut *owner.readings.lock());
        for reading in readings {
            let mut reach = reading.reach.lock();
            let Some(id) = reach.id else { continue };
            match reading.read(&reach) {
                Some(read) => self.settle_range(owner, reading.index, id, Some(read)),
                None => {
                    self.give_up_range(owner, reading.index, id);
                    reach.id = None;
                }
            }
            reading.set_narrow(true);
        }
    }

    /// The cursor of a narrow range goes on: inserts of others are kept out of all of it again. To
    /// be called before the cursor reads; what it has read ahead is out of date.
    pub fn resume_reading(&self, owner: &Arc<Owner>, reading: &Arc<Reading>) {
        let mut reach = reading.reach.lock();
        let (index, whole) = (reading.index, &reading.whole);
        if !reach.id.is_some_and(|id| self.widen_range(owner, index, id, whole.clone())) {
            reach.id = self.lock_range(owner, index, whole.clone());
        }
        reading.set_narrow(false);
        if reach.id.is_some() {
            owner.readings.lock().push(Arc::clone(reading));
        }
    }

    /// The cursor reads no more: it has read all of the range, or up to the key that it has
    /// reached. That stays locked until the owner ends.
    pub fn end_reading(&self, owner: &Owner, reading: &Arc<Reading>, has_read_all: bool) {
        owner.readings.lock().retain(|other| !Arc::ptr_eq(other, reading));
        let mut reach = reading.reach.lock();
        // A thread that narrows it at this moment finds that there is nothing to narrow.
        let Some(id) = reach.id.take() else { return };
        let read = reading.read(&reach);
        if read.is_none() && !has_read_all || holdfast_base::planted!("read-range-given-up") {
            self.give_up_range(owner, reading.index, id);
        } else if !reading.is_narrow() {
            self.settle_range(owner, reading.index, id, read.filter(|_| !has_read_all));
        }
    }

    /// The cursor reads no more, and others may insert into what it has read. No other cursor of
    /// the owner is open that relies on this range.
    pub fn give_up_reading(&self, owner: &Owner, reading: &Arc<Reading>) {
        owner.readings.lock().retain(|other| !Arc::ptr_eq(other, reading));
        let id = reading.reach.lock().id.take();
        if let Some(id) = id {
            self.give_up_range(owner, reading.index, id);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use holdfast_metrics::Metrics;

    use super::*;
    use crate::LockMode::Exclusive;

    const T: IndexId = IndexId(1);
    const ROWS: IndexId = IndexId(2);
    const LONG: LockWait = LockWait::For(Duration::from_secs(60));

    fn read(manager: &LockManager, owner: &Arc<Owner>, backwards: bool) -> Arc<Reading> {
        owner.cursor_opens();
        manager.begin_reading(owner, T, KeyRange::everything(), backwards, LONG).unwrap().unwrap()
    }

    /// Calls `meanwhile` while `waiter` waits for a row that `holder` has; then `holder` ends.
    fn while_waiting(manager: &LockManager, waiter: &Arc<Owner>, holder: &Arc<Owner>, meanwhile: impl FnOnce()) {
        manager.lock_row(holder, ROWS, b"row", Exclusive, LONG, None).unwrap();
        std::thread::scope(|s| {
            let waiting = s.spawn(|| manager.lock_row(waiter, ROWS, b"row", Exclusive, LONG, None));
            while !waiter.waits() {
                std::thread::yield_now();
            }
            meanwhile();
            manager.release_all(holder);
            assert!(waiting.join().unwrap().unwrap());
        });
    }

    #[test]
    fn what_lies_ahead_is_open_while_the_reader_waits() {
        for (backwards, read_keys, ahead) in [(false, [b"a", b"c"], b"d"), (true, [b"x", b"c"], b"b")] {
            let manager = LockManager::new(1 << 20, Metrics::new());
            let [reader, holder, other] = [1, 2, 3].map(Owner::new);
            let (reading, untouched) = (read(&manager, &reader, backwards), read(&manager, &reader, backwards));
            reading.reach(Some(b"c"));
            assert!(manager.range_blocked(&other, T, ahead));
            while_waiting(&manager, &reader, &holder, || {
                assert!(!manager.range_blocked(&holder, T, ahead));
                assert!(read_keys.iter().all(|key| manager.range_blocked(&other, T, *key)));
            });
            assert!(reading.is_narrow() && untouched.is_narrow());
            assert!(!manager.range_blocked(&other, T, ahead), "it has not gone on yet");
            manager.end_reading(&reader, &untouched, false);
            manager.resume_reading(&reader, &reading);
            assert!(!reading.is_narrow() && manager.range_blocked(&other, T, ahead));
            manager.end_reading(&reader, &reading, false);
            assert!(!manager.range_blocked(&other, T, ahead));
            assert!(read_keys.iter().all(|key| manager.range_blocked(&other, T, *key)));
            manager.release_all(&reader);
            assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
        }
    }

    #[test]
    fn a_range_that_was_read_to_its_end_stays_whole() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [reader, holder, other] = [1, 2, 3].map(Owner::new);
        let reading = read(&manager, &reader, false);
        reading.reach(Some(b"c"));
        manager.end_reading(&reader, &reading, true);
        while_waiting(&manager, &reader, &holder, || assert!(manager.range_blocked(&other, T, b"d")));
        assert!(manager.begin_reading(&reader, T, KeyRange::point(b"d"), false, LONG).unwrap().is_none());
        manager.release_all(&reader);
        assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
    }

    #[test]
    fn a_range_that_is_given_up_keeps_nothing_out() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [reader, holder, other] = [1, 2, 3].map(Owner::new);
        for waits in [false, true] {
            let reading = read(&manager, &reader, false);
            reading.reach(Some(b"c"));
            if waits {
                while_waiting(&manager, &reader, &holder, || assert!(manager.range_blocked(&other, T, b"a")));
            }
            assert!(manager.range_blocked(&other, T, b"a"));
            manager.give_up_reading(&reader, &reading);
            assert!(!manager.range_blocked(&other, T, b"a") && !manager.range_blocked(&other, T, b"d"));
        }
        manager.release_all(&reader);
        assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
    }

    /// A range that was asked for while another was narrow may rely on that one: it is part of what
    /// was reached.
    #[test]
    fn what_a_narrow_range_spares_stays_locked() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [reader, holder, other] = [1, 2, 3].map(Owner::new);
        let reading = read(&manager, &reader, false);
        reading.reach(Some(b"m"));
        while_waiting(&manager, &reader, &holder, || {});
        assert!(manager.begin_reading(&reader, T, KeyRange::point(b"c"), false, LONG).unwrap().is_none());
        assert!(manager.begin_reading(&reader, T, KeyRange::point(b"n"), false, LONG).unwrap().is_some());
        manager.resume_reading(&reader, &reading);
        manager.end_reading(&reader, &reading, false);
        assert!(manager.range_blocked(&other, T, b"c"));
    }

    #[test]
    fn an_owner_that_has_ended_locks_no_range() {
        let manager = LockManager::new(1 << 20, Metrics::new());
        let [reader, holder, other] = [1, 2, 3].map(Owner::new);
        let reading = read(&manager, &reader, false);
        while_waiting(&manager, &reader, &holder, || {});
        manager.release_all(&reader);
        manager.resume_reading(&reader, &reading);
        assert!(!manager.range_blocked(&other, T, b"d"));
        assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
    }

    /// Over the budget, the range of a cursor that was still reading became one over everything,
    /// for good: the transaction that its owner waited for could not insert ahead of it.
    #[test]
    fn what_lies_ahead_is_open_where_memory_is_short() {
        let manager = LockManager::new(0, Metrics::new());
        let [reader, holder, other] = [1, 2, 3].map(Owner::new);
        let lock_point = |key: &[u8]| {
            let point = manager.begin_reading(&reader, T, KeyRange::point(key), false, LONG).unwrap().unwrap();
            manager.end_reading(&reader, &point, true);
        };
        lock_point(b"f");
        lock_point(b"h");
        let reading = read(&manager, &reader, false);
        reading.reach(Some(b"c"));
        let blocked = |key: &[u8]| manager.range_blocked(&other, T, key);
        while_waiting(&manager, &reader, &holder, || {
            assert!(!blocked(b"d") && !blocked(b"i"));
            assert!([b"a", b"c", b"f", b"g", b"h"].iter().all(|key| blocked(*key)));
        });
        // What was reached becomes a part of what was read; the cursor goes on all the same.
        lock_point(b"l");
        lock_point(b"n");
        assert!(blocked(b"d") && !blocked(b"m"));
        manager.resume_reading(&reader, &reading);
        assert!(blocked(b"m") && blocked(b"z"));
        manager.end_reading(&reader, &reading, false);
        assert!(blocked(b"m") && !blocked(b"z"));
        manager.release_all(&reader);
        assert_eq!((manager.memory(), manager.locks().len()), (0, 0));
    }
}
