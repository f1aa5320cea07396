//! What an observer hears that knows the order of commits: whenever a transaction comes to be
//! before a waiter, the waiter reports its blockers again. The numbers of transactions are their
//! order: the one that has to commit first waits.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::IndexId;
use holdfast_metrics::Metrics;

use crate::LockMode::Exclusive;
use crate::{Implicit, LockManager, LockWait, Owner, WaitInterest, WaitObserver};

const T: IndexId = IndexId(1);
const LONG: LockWait = LockWait::For(Duration::from_secs(60));

#[cfg(not(shuttle))]
mod each_place {
    use std::cell::Cell;
    use std::time::Instant;

    use holdfast_base::Error;
    use holdfast_base::blocking::Mutex;

    use super::*;
    use crate::KeyRange;
    use crate::LockMode::{self, Shared};

    thread_local! {
        static INTEREST: Cell<WaitInterest> = const { Cell::new(WaitInterest::All) };
    }

    /// Each waiter and its blockers.
    type Reports = Vec<(u64, Vec<u64>)>;

    /// Keeps what it is told.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Reports>>);

    impl Told {
        /// A lock manager that has it as its observer, and some transactions.
        fn of<const N: usize>(budget: usize) -> (LockManager, Told, [Arc<Owner>; N]) {
            let (manager, told) = (LockManager::new(budget, Metrics::new()), Told::default());
            manager.set_wait_observer(Box::new(told.clone()));
            (manager, told, std::array::from_fn(|n| Owner::new(n as u64 + 1)))
        }

        /// Returns when it has been told that `waiter` waits for `others`.
        fn hears(&self, waiter: u64, others: &[u64]) {
            let begun = Instant::now();
            while !self.0.lock().iter().any(|(w, o)| *w == waiter && o == others) {
                assert!(begun.elapsed() < Duration::from_secs(20), "{waiter} for {others:?}: {:?}", self.0.lock());
                std::thread::yield_now();
            }
        }
    }

    impl WaitObserver for Told {
        fn interest(&self) -> WaitInterest {
            INTEREST.get()
        }
        fn waits_for(&self, waiter: u64, others: &[u64]) {
            self.0.lock().push((waiter, others.to_vec()));
        }
        fn gives_up(&self) -> bool {
            false
        }
    }

    /// Locks `key`, after a wait as a rule, and ends.
    fn lock(manager: &LockManager, owner: &Arc<Owner>, key: &[u8], mode: LockMode) {
        manager.lock_row(owner, T, key, mode, LONG, None).unwrap();
        manager.release_all(owner);
    }

    /// The writer's lock was entered before a waiter that was there, and nothing told the observer
    /// so: on a parallel replica the writer waited for the commit of the waiter, up to the limit of
    /// the waiter.
    #[test]
    fn a_lock_that_is_entered_for_the_writer_of_a_row() {
        let (m, told, [early, writer, late]) = Told::of(1 << 20);
        m.lock_row(&late, T, b"k", Exclusive, LONG, None).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| lock(&m, &early, b"k", Exclusive));
            told.hears(1, &[3]);
            // It was granted too late: it finds the id of the writer in the row.
            s.spawn(|| {
                let implicit = Implicit { owner: &writer, active: &|| true };
                assert!(m.lock_row(&late, T, b"k", Exclusive, LONG, Some(&implicit)).unwrap());
                m.release_all(&late);
            });
            told.hears(3, &[1, 2]);
            told.hears(1, &[2]);
            m.release_all(&writer);
        });
        assert!(m.locks().is_empty());
    }

    #[test]
    fn a_lock_of_a_row_that_is_put_back() {
        let (m, told, [early, writer, late]) = Told::of(1 << 20);
        m.lock_row(&late, T, b"k", Exclusive, LONG, None).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| lock(&m, &early, b"k", Exclusive));
            told.hears(1, &[3]);
            m.keep_row(&writer, T, b"k");
            told.hears(1, &[2]);
            m.release_all(&writer);
        });
    }

    /// With hundreds in a queue it is not worth the time to wake them all.
    #[test]
    fn an_observer_of_holders_hears_of_the_beginning_only() {
        let (m, told, [waiter, writer, late]) = Told::of(1 << 20);
        m.lock_row(&late, T, b"k", Exclusive, LONG, None).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                INTEREST.set(WaitInterest::Holders);
                lock(&m, &waiter, b"k", Exclusive);
            });
            told.hears(1, &[3]);
            m.keep_row(&writer, T, b"k");
            m.release_all(&writer);
        });
        assert_eq!(*told.0.lock(), [(1, vec![3])]);
    }

    /// A reader waits behind a writer that waits for `holder`. Then `raise` makes the lock of
    /// `holder` an exclusive one, and the reader waits for that, too.
    fn a_lock_is_raised(raise: impl Fn(&LockManager, &Arc<Owner>)) {
        let (m, told, [early, _, writer, holder]) = Told::of(1 << 20);
        m.lock_row(&holder, T, b"k", Shared, LONG, None).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| lock(&m, &writer, b"k", Exclusive));
            told.hears(3, &[4]);
            s.spawn(|| lock(&m, &early, b"k", Shared));
            told.hears(1, &[3]);
            raise(&m, &holder);
            told.hears(1, &[3, 4]);
            m.release_all(&holder);
        });
        let of_writer = told.0.lock().iter().filter(|(waiter, _)| *waiter == 3).count();
        assert_eq!(of_writer, 1, "it waited for the holder before");
    }

    #[test]
    fn a_lock_that_is_raised_at_once() {
        a_lock_is_raised(|m, holder| {
            assert!(!m.lock_row(holder, T, b"k", Exclusive, LONG, None).unwrap());
        });
    }

    /// The cover of a cursor stands for an exclusive lock on the row.
    fn cover(m: &LockManager, holder: &Arc<Owner>) {
        m.lock_row(holder, T, b"a", Exclusive, LONG, None).unwrap();
        let cover = m.begin_cover(holder, T, Exclusive, b"a").unwrap();
        assert!(m.cover_row(holder, T, cover, b"k"));
    }

    #[test]
    fn a_lock_that_another_one_enters_for_the_owner_of_a_cover() {
        a_lock_is_raised(|m, holder| {
            cover(m, holder);
            let (next, at_once) = (Owner::new(5), LockWait::For(Duration::ZERO));
            assert!(matches!(m.lock_row(&next, T, b"k", Shared, at_once, None), Err(Error::LockTimeout)));
        });
    }

    #[test]
    fn a_cover_that_is_dissolved() {
        a_lock_is_raised(|m, holder| {
            cover(m, holder);
            m.dissolve_covers(holder, |_, _, lock| lock(b"k"));
        });
    }

    #[test]
    fn an_upgrade_that_goes_ahead() {
        let (m, told, [early, other, writer, holder]) = Told::of(1 << 20);
        m.lock_row(&holder, T, b"k", Shared, LONG, None).unwrap();
        m.lock_row(&other, T, b"k", Shared, LONG, None).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| lock(&m, &writer, b"k", Exclusive));
            told.hears(3, &[2, 4]);
            s.spawn(|| lock(&m, &early, b"k", Shared));
            told.hears(1, &[3]);
            s.spawn(|| lock(&m, &holder, b"k", Exclusive));
            told.hears(4, &[2]);
            told.hears(1, &[3, 4]);
            m.release_all(&other);
        });
        assert!(m.locks().is_empty());
    }

    /// Of two workers the one that comes is refused the table lock.
    #[test]
    fn a_table_lock_that_goes_past_intents() {
        let (m, told, [early, late, holder]) = Told::of(1 << 20);
        assert!(m.lock_table(&holder, T, Shared));
        std::thread::scope(|s| {
            s.spawn(|| lock(&m, &early, b"k", Exclusive));
            told.hears(1, &[3]);
            assert!(!m.lock_table(&late, T, Shared));
            INTEREST.set(WaitInterest::None);
            assert!(m.lock_table(&late, T, Shared));
            INTEREST.set(WaitInterest::All);
            told.hears(1, &[2, 3]);
            m.release_all(&late);
            m.release_all(&holder);
        });
    }

    /// An inserter waits for the range of `holder`. Then `come` brings a range of `late` over its
    /// key.
    fn a_range_comes(budget: usize, come: impl Fn(&LockManager, &Arc<Owner>)) {
        let (m, told, [early, late, holder]) = Told::of(budget);
        m.lock_range_in_turn(&holder, T, KeyRange::everything(), LONG).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                while m.range_blocked(&early, T, b"k") {
                    m.wait_range(&early, T, b"k", LONG).unwrap();
                }
                m.has_inserted(&early, T, b"k");
            });
            told.hears(1, &[3]);
            come(&m, &late);
            told.hears(1, &[2, 3]);
            m.release_all(&holder);
            m.release_all(&late);
        });
        assert_eq!((m.memory(), m.locks().len()), (0, 0));
    }

    #[test]
    fn a_range_that_comes_over_a_waiting_inserter() {
        a_range_comes(1 << 20, |m, late| {
            m.lock_range_in_turn(late, T, KeyRange::everything(), LONG).unwrap();
        });
    }

    #[test]
    fn a_range_that_is_widened_over_a_waiting_inserter() {
        a_range_comes(1 << 20, |m, late| {
            let id = m.lock_range(late, T, KeyRange::point(b"a")).unwrap();
            assert!(m.widen_range(late, T, id, KeyRange::everything()));
        });
    }

    #[test]
    fn ranges_that_are_joined_over_a_waiting_inserter() {
        a_range_comes(0, |m, late| {
            for key in [b"a", b"y", b"z"] {
                let id = m.lock_range(late, T, KeyRange::point(key)).unwrap();
                m.settle_range(late, T, id, None);
            }
        });
    }
}

/// A parallel replica: each transaction waits for the commit of the one before it, and the server
/// ends one for which an earlier one waits.
#[cfg(shuttle)]
mod replica {
    use holdfast_base::sync::atomic::{AtomicBool, Ordering};
    use shuttle::thread::{spawn, yield_now};

    use super::*;

    struct Server(Arc<[Arc<Owner>; 3]>);

    impl WaitObserver for Server {
        fn interest(&self) -> WaitInterest {
            WaitInterest::All
        }
        fn waits_for(&self, waiter: u64, others: &[u64]) {
            self.0.iter().filter(|o| o.serial() > waiter && others.contains(&o.serial())).for_each(|o| o.kill());
        }
        fn gives_up(&self) -> bool {
            false
        }
    }

    /// How often other threads may come in between while a page is read.
    const READ: usize = 30;

    /// Locks the row, as a reader that finds the id of the writer in it as long as it is active.
    fn lock(m: &LockManager, me: &Arc<Owner>, writer: &Arc<Owner>, is_active: &(dyn Fn() -> bool + Sync)) {
        let implicit = Implicit { owner: writer, active: is_active };
        while m.lock_row(me, T, b"k", Exclusive, LONG, None).is_ok() {
            (0..READ).for_each(|_| yield_now());
            if !is_active() || m.lock_row(me, T, b"k", Exclusive, LONG, Some(&implicit)).is_err() {
                break;
            }
        }
    }

    #[test]
    fn the_first_transaction_gets_each_lock_that_a_later_one_has() {
        shuttle::check_random(
            || {
                let owners = Arc::new([1, 2, 3].map(Owner::new));
                let m = Arc::new(LockManager::new(1 << 20, Metrics::new()));
                m.set_wait_observer(Box::new(Server(Arc::clone(&owners))));
                let [committed, ended] = [0, 1].map(|_| Arc::new(AtomicBool::new(false)));
                let readers = [0, 2].map(|at| {
                    let (m, owners) = (Arc::clone(&m), Arc::clone(&owners));
                    let (committed, ended) = (Arc::clone(&committed), Arc::clone(&ended));
                    spawn(move || {
                        lock(&m, &owners[at], &owners[1], &|| !ended.load(Ordering::SeqCst));
                        if at == 0 {
                            committed.store(true, Ordering::SeqCst);
                        }
                        m.release_all(&owners[at]);
                    })
                });
                // The writer has changed the row and waits for the commit before its own.
                while !committed.load(Ordering::SeqCst) && !owners[1].is_killed() {
                    yield_now();
                }
                ended.store(true, Ordering::SeqCst);
                m.release_all(&owners[1]);
                readers.into_iter().for_each(|reader| reader.join().unwrap());
                assert!(m.locks().is_empty());
            },
            1_000,
        );
    }
}
