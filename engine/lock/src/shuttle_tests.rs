//! The protocols of the module's description under random interleavings. Run with `RUSTFLAGS="--cfg
//! shuttle"`.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::sync::Mutex;
use holdfast_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use holdfast_base::{Error, IndexId, Result};
use holdfast_metrics::Metrics;
use shuttle::thread::spawn;

use crate::LockMode::{Exclusive, Shared};
use crate::{Implicit, KeyRange, LockManager, LockWait, Owner};

const T: IndexId = IndexId(1);
const LONG: LockWait = LockWait::For(Duration::from_secs(3600));
const RUNS: usize = 3_000;

fn manager(budget: usize) -> Arc<LockManager> {
    Arc::new(LockManager::new(budget, Metrics::new()))
}

#[test]
fn a_waiter_for_an_implicit_lock_is_woken_by_the_end_of_its_owner() {
    shuttle::check_random(
        || {
            let m = manager(1 << 20);
            let (writer, active) = (Owner::new(1), Arc::new(AtomicBool::new(true)));
            let waiters: Vec<_> = (2..4)
                .map(|serial| {
                    let (m, writer, active) = (m.clone(), writer.clone(), active.clone());
                    spawn(move || {
                        let me = Owner::new(serial);
                        let is_active = || active.load(Ordering::SeqCst);
                        while is_active() {
                            let implicit = Implicit { owner: &writer, active: &is_active };
                            m.lock_row(&me, T, b"k", Exclusive, LONG, Some(&implicit)).unwrap();
                        }
                        m.release_all(&me);
                    })
                })
                .collect();
            active.store(false, Ordering::SeqCst);
            m.release_all(&writer);
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert!(m.locks().is_empty());
            assert_eq!(m.memory(), 0);
        },
        RUNS,
    );
}

/// Puts 1 into the row, as soon as no lock keeps the writer from it.
fn write_under_latch(m: &LockManager, leaf: &Mutex<u64>, writer: &Arc<Owner>) {
    loop {
        let mut row = leaf.lock();
        if !m.blocked(writer, T, b"k") {
            *row = 1;
            return;
        }
        drop(row);
        m.lock_row(writer, T, b"k", Exclusive, LONG, None).unwrap();
    }
}

/// The writer's check under the leaf's latch against the locking reader's "lock first, read
/// afterwards". Before it changes the row a writer that `reads_first` has entered a lock, which it
/// gives up when the row has its id.
fn read_beside_a_writer(reads_first: bool) {
    shuttle::check_random(
        move || {
            let m = manager(1 << 20);
            // The leaf: the id that the row carries. 0: committed long ago.
            let leaf = Arc::new(Mutex::new(0u64));
            let ended = Arc::new(AtomicU64::new(0));
            let writer = Owner::new(1);
            let thread = {
                let (m, leaf, ended, writer) = (m.clone(), leaf.clone(), ended.clone(), writer.clone());
                spawn(move || {
                    if reads_first {
                        m.lock_row(&writer, T, b"k", Exclusive, LONG, None).unwrap();
                    }
                    write_under_latch(&m, &leaf, &writer);
                    m.leave_to_id(&writer, T, b"k");
                    ended.store(1, Ordering::SeqCst);
                    m.release_all(&writer);
                })
            };
            let reader = Owner::new(2);
            let is_active = || ended.load(Ordering::SeqCst) == 0;
            m.lock_row(&reader, T, b"k", Shared, LONG, None).unwrap();
            let mut seen = *leaf.lock();
            while seen == 1 && is_active() {
                let implicit = Implicit { owner: &writer, active: &is_active };
                m.lock_row(&reader, T, b"k", Shared, LONG, Some(&implicit)).unwrap();
                m.lock_row(&reader, T, b"k", Shared, LONG, None).unwrap();
                seen = *leaf.lock();
            }
            shuttle::thread::yield_now();
            assert_eq!(*leaf.lock(), seen);
            m.release_all(&reader);
            thread.join().unwrap();
            assert!(m.locks().is_empty());
        },
        RUNS,
    );
}

#[test]
fn a_locked_row_does_not_change() {
    read_beside_a_writer(false);
}

#[test]
fn a_lock_given_up_for_the_id_in_the_row_lets_nobody_in() {
    read_beside_a_writer(true);
}

/// What a leaf says about a row.
#[derive(Clone, Copy, Default)]
struct Leaf {
    /// It has the id of the writer that is rolled back.
    has_id: bool,
    /// How often it was changed by others.
    changes: u64,
}

/// A writer is rolled back while one transaction locks the row, reads it and changes it later, and
/// another one changes it without having read it: the row is as it was read until its reader
/// changes it.
#[test]
fn a_row_that_was_read_under_its_lock_stays_when_the_writer_before_is_rolled_back() {
    struct Row {
        m: Arc<LockManager>,
        leaf: Mutex<Leaf>,
        active: AtomicBool,
        writer: Arc<Owner>,
    }

    impl Row {
        fn is_active(&self) -> bool {
            self.active.load(Ordering::SeqCst)
        }

        fn lock(&self, me: &Arc<Owner>, has_id: bool) {
            let is_active = || self.is_active();
            let implicit = Implicit { owner: &self.writer, active: &is_active };
            self.m.lock_row(me, T, b"k", Exclusive, LONG, has_id.then_some(&implicit)).unwrap();
        }

        /// The row, read under its lock.
        fn read(&self, me: &Arc<Owner>) -> Leaf {
            let mut has_id = false;
            loop {
                self.lock(me, has_id);
                let seen = *self.leaf.lock();
                if !seen.has_id || !self.is_active() {
                    return seen;
                }
                has_id = true;
            }
        }

        /// Changes the row. Returns how it was before.
        fn change(&self, me: &Arc<Owner>) -> Leaf {
            loop {
                let mut leaf = self.leaf.lock();
                let has_id = leaf.has_id && self.is_active();
                if !has_id && !self.m.blocked(me, T, b"k") {
                    let before = *leaf;
                    leaf.changes += 1;
                    return before;
                }
                drop(leaf);
                self.lock(me, has_id);
            }
        }
    }

    shuttle::check_random(
        || {
            let [writer, reader, changer] = [1, 2, 3].map(Owner::new);
            let leaf = Mutex::new(Leaf { has_id: true, changes: 0 });
            let row = Arc::new(Row { m: manager(1 << 20), leaf, active: AtomicBool::new(true), writer });
            let threads = [(row.clone(), reader, true), (row.clone(), changer, false)].map(|(row, me, reads)| {
                spawn(move || {
                    let seen = reads.then(|| row.read(&me).changes);
                    let before = row.change(&me).changes;
                    assert!(seen.is_none_or(|seen| seen == before), "another transaction has changed a locked row");
                    row.m.release_all(&me);
                })
            });
            row.leaf.lock().has_id = false;
            row.active.store(false, Ordering::SeqCst);
            row.m.release_all(&row.writer);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(row.m.locks().is_empty());
        },
        RUNS,
    );
}

/// A rollback to a savepoint puts a row back and keeps it locked, while a reader locks it and
/// reads: one of the two has it at a time.
fn read_beside_a_rollback(by_cover: bool) {
    shuttle::check_random(
        move || {
            let m = manager(1 << 20);
            let leaf = Arc::new(Mutex::new(0u64));
            let [ended, has_it] = [0, 0].map(|n| Arc::new(AtomicU64::new(n)));
            let [writer, reader] = [1, 2].map(Owner::new);
            let cover = by_cover.then(|| {
                m.lock_row(&reader, T, b"a", Exclusive, LONG, None).unwrap();
                m.begin_cover(&reader, T, Exclusive, b"a").unwrap()
            });
            let thread = {
                let (m, leaf, writer) = (m.clone(), leaf.clone(), writer.clone());
                let (ended, has_it) = (ended.clone(), has_it.clone());
                spawn(move || {
                    write_under_latch(&m, &leaf, &writer);
                    assert_eq!(has_it.fetch_add(1, Ordering::SeqCst), 0);
                    let mut row = leaf.lock();
                    m.keep_row(&writer, T, b"k");
                    *row = 0;
                    drop(row);
                    shuttle::thread::yield_now();
                    has_it.fetch_sub(1, Ordering::SeqCst);
                    ended.store(1, Ordering::SeqCst);
                    m.release_all(&writer);
                })
            };
            let is_active = || ended.load(Ordering::SeqCst) == 0;
            let mut cover = cover;
            loop {
                let taken_back = m.taken_back();
                let covered = cover.take().filter(|id| m.cover_row(&reader, T, *id, b"k"));
                if covered.is_none() {
                    m.lock_row(&reader, T, b"k", Exclusive, LONG, None).unwrap();
                }
                let is_written = *leaf.lock() == 1 && is_active();
                if !is_written && m.taken_back() == taken_back {
                    break;
                }
                covered.into_iter().for_each(|id| m.uncover_row(T, id));
                if is_written {
                    let implicit = Implicit { owner: &writer, active: &is_active };
                    m.lock_row(&reader, T, b"k", Exclusive, LONG, Some(&implicit)).unwrap();
                }
            }
            assert_eq!(has_it.fetch_add(1, Ordering::SeqCst), 0);
            shuttle::thread::yield_now();
            has_it.fetch_sub(1, Ordering::SeqCst);
            m.release_all(&reader);
            thread.join().unwrap();
            assert!(m.locks().is_empty());
            assert_eq!(m.memory(), 0);
        },
        RUNS,
    );
}

#[test]
fn a_row_that_is_put_back_stays_with_its_owner() {
    read_beside_a_rollback(false);
}

#[test]
fn a_row_that_is_put_back_does_not_come_under_a_cover() {
    read_beside_a_rollback(true);
}

#[test]
fn a_locked_range_takes_no_inserts() {
    shuttle::check_random(
        || {
            let m = manager(1 << 20);
            let leaf = Arc::new(Mutex::new(0));
            let inserter = {
                let (m, leaf) = (m.clone(), leaf.clone());
                spawn(move || {
                    let me = Owner::new(1);
                    loop {
                        let mut rows = leaf.lock();
                        if !m.range_blocked(&me, T, b"c") {
                            *rows += 1;
                            break;
                        }
                        drop(rows);
                        m.wait_range(&me, T, b"c", LONG).unwrap();
                    }
                    m.has_inserted(&me, T, b"c");
                    m.release_all(&me);
                })
            };
            let reader = Owner::new(2);
            let id = m.lock_range(&reader, T, KeyRange::everything()).unwrap();
            let seen = *leaf.lock();
            shuttle::thread::yield_now();
            assert_eq!(*leaf.lock(), seen);
            m.settle_range(&reader, T, id, Some(KeyRange::point(b"a")));
            m.release_all(&reader);
            inserter.join().unwrap();
            assert_eq!(m.memory(), 0);
        },
        RUNS,
    );
}

/// The writer inserts ahead of a reader that waits for it. None of the two is a victim, and what
/// the reader reads when it goes on does not change.
#[test]
fn a_reader_that_waits_keeps_no_insert_out_ahead() {
    shuttle::check_random(
        || {
            let m = manager(1 << 20);
            let leaf = Arc::new(Mutex::new(0u64));
            let [writer, reader] = [1, 2].map(Owner::new);
            m.lock_row(&writer, T, b"row", Exclusive, LONG, None).unwrap();
            let writes = {
                let (m, leaf) = (m.clone(), leaf.clone());
                spawn(move || {
                    loop {
                        let mut rows = leaf.lock();
                        if !m.range_blocked(&writer, T, b"m") {
                            *rows += 1;
                            break;
                        }
                        drop(rows);
                        m.wait_range(&writer, T, b"m", LONG).unwrap();
                    }
                    m.has_inserted(&writer, T, b"m");
                    m.release_all(&writer);
                })
            };
            reader.cursor_opens();
            let reading = m.begin_reading(&reader, T, KeyRange::everything(), false, LONG).unwrap().unwrap();
            reading.reach(Some(b"c"));
            m.lock_row(&reader, T, b"row", Shared, LONG, None).unwrap();
            assert_eq!(*leaf.lock(), 1, "the writer has ended");
            if reading.is_narrow() {
                m.resume_reading(&reader, &reading);
            }
            shuttle::thread::yield_now();
            assert!(m.range_blocked(&Owner::new(3), T, b"m"));
            m.end_reading(&reader, &reading, true);
            m.release_all(&reader);
            writes.join().unwrap();
            assert!(m.locks().is_empty());
            assert_eq!(m.memory(), 0);
        },
        RUNS,
    );
}

/// Sessions that all read everything and insert: a waiter is woken, and each gets through in the
/// end.
#[test]
fn readers_that_insert_where_all_have_read_get_through() {
    let read_and_insert = |m: &LockManager, _, me: &Arc<Owner>| {
        let id = m.lock_range_in_turn(me, T, KeyRange::everything(), LONG)?.unwrap();
        m.settle_range(me, T, id, None);
        let mut result = Ok(());
        while result.is_ok() && m.range_blocked(me, T, b"c") {
            result = m.wait_range(me, T, b"c", LONG);
        }
        m.has_inserted(me, T, b"c");
        result
    };
    shuttle::check_random(move || three_sessions(1 << 20, read_and_insert), RUNS);
}

/// Three threads, each with a transaction that begins anew, with another owner, until it is no
/// deadlock victim. It is given the number of its thread.
fn three_sessions(
    budget: usize,
    transaction: impl Fn(&LockManager, usize, &Arc<Owner>) -> Result<()> + Copy + Send + 'static,
) {
    let m = manager(budget);
    let threads: Vec<_> = (0..3usize)
        .map(|thread| {
            let m = m.clone();
            spawn(move || {
                for serial in (thread as u64 + 1..).step_by(3) {
                    let me = Owner::new(serial);
                    let result = transaction(&m, thread, &me);
                    m.release_all(&me);
                    match result {
                        Ok(()) => return,
                        Err(Error::Deadlock) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(m.locks().is_empty());
    assert_eq!(m.memory(), 0);
}

fn lock_all(budget: usize, keys: &'static [&'static [u8]]) {
    three_sessions(budget, move |m, thread, me| {
        for i in 0..keys.len() {
            // Each thread in an order of its own, shared locks upgraded later.
            let key = keys[(i * (thread + 1) + thread) % keys.len()];
            let mode = if i % 2 == 0 { Shared } else { Exclusive };
            m.lock_row(me, T, key, mode, LONG, None)?;
        }
        Ok(())
    });
}

/// Scans in both directions and single locks. A transaction that has a key, has it alone until it
/// ends.
#[test]
fn who_has_a_key_under_a_cover_has_it_alone() {
    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
    shuttle::check_random(
        || {
            let holders: &'static Mutex<[u64; 3]> = Box::leak(Box::new(Mutex::new([0; 3])));
            three_sessions(1 << 20, move |m, thread, me| {
                let mut had = Vec::new();
                let result = lock_keys(m, thread, me, |at| {
                    let before = std::mem::replace(&mut holders.lock()[at], me.serial());
                    assert!(before == 0 || before == me.serial(), "{before} has it, and {}", me.serial());
                    had.push(at);
                });
                for at in had {
                    holders.lock()[at] = 0;
                }
                result
            });
        },
        RUNS,
    );

    fn lock_keys(m: &LockManager, thread: usize, me: &Arc<Owner>, mut has: impl FnMut(usize)) -> Result<()> {
        let order = match thread {
            0 => [0, 1, 2],
            1 => [2, 1, 0],
            _ => {
                m.lock_row(me, T, KEYS[1], Exclusive, LONG, None)?;
                has(1);
                m.lock_row(me, T, KEYS[0], Exclusive, LONG, None)?;
                has(0);
                return Ok(());
            }
        };
        m.lock_row(me, T, KEYS[order[0]], Exclusive, LONG, None)?;
        has(order[0]);
        let mut cover = m.begin_cover(me, T, Exclusive, KEYS[order[0]]);
        for at in order.into_iter().skip(1) {
            if !cover.is_some_and(|id| m.cover_row(me, T, id, KEYS[at])) {
                cover = None;
                m.lock_row(me, T, KEYS[at], Exclusive, LONG, None)?;
            }
            has(at);
        }
        Ok(())
    }
}

/// As a locked row: the writer's check under the leaf's latch against "cover first, read
/// afterwards".
#[test]
fn a_row_under_a_cover_does_not_change() {
    shuttle::check_random(
        || {
            let m = manager(1 << 20);
            let leaf = Arc::new(Mutex::new(0u64));
            let ended = Arc::new(AtomicU64::new(0));
            let [writer, reader] = [1, 2].map(Owner::new);
            m.lock_row(&reader, T, b"a", Shared, LONG, None).unwrap();
            let id = m.begin_cover(&reader, T, Shared, b"a").unwrap();
            let thread = {
                let (m, leaf, ended, writer) = (m.clone(), leaf.clone(), ended.clone(), writer.clone());
                spawn(move || {
                    write_under_latch(&m, &leaf, &writer);
                    ended.store(1, Ordering::SeqCst);
                    m.release_all(&writer);
                })
            };
            if m.cover_row(&reader, T, id, b"k") {
                let seen = *leaf.lock();
                if seen == 1 && ended.load(Ordering::SeqCst) == 0 {
                    m.uncover_row(T, id);
                } else {
                    shuttle::thread::yield_now();
                    assert_eq!(*leaf.lock(), seen);
                }
            }
            m.release_all(&reader);
            thread.join().unwrap();
            assert!(m.locks().is_empty());
            assert_eq!(m.memory(), 0);
        },
        RUNS,
    );
}

/// As under a cover. Another reader of the row comes and goes, so that the writer waits for either.
#[test]
fn a_row_under_a_table_lock_does_not_change() {
    shuttle::check_random(
        || {
            let m = manager(1 << 20);
            let leaf = Arc::new(Mutex::new(0u64));
            let [writer, reader, other] = [1, 2, 3].map(Owner::new);
            let writes = {
                let (m, leaf, writer) = (m.clone(), leaf.clone(), writer.clone());
                spawn(move || {
                    write_under_latch(&m, &leaf, &writer);
                    m.release_all(&writer);
                })
            };
            let reads = {
                let (m, other) = (m.clone(), other.clone());
                spawn(move || {
                    m.lock_row(&other, T, b"k", Shared, LONG, None).unwrap();
                    m.release_all(&other);
                })
            };
            assert!(m.lock_table(&reader, T, Shared));
            m.lock_row(&reader, T, b"k", Shared, LONG, None).unwrap();
            let seen = *leaf.lock();
            shuttle::thread::yield_now();
            assert_eq!(*leaf.lock(), seen);
            m.release_all(&reader);
            writes.join().unwrap();
            reads.join().unwrap();
            assert!(m.locks().is_empty());
            assert_eq!(m.memory(), 0);
        },
        RUNS,
    );
}

#[test]
fn every_deadlock_is_found() {
    shuttle::check_random(|| lock_all(1 << 20, &[b"a", b"b", b"a", b"c"]), RUNS);
}

/// A writer that rows carry the id of, and whether it is still active.
struct Id {
    owner: Arc<Owner>,
    active: AtomicBool,
}

/// Changes a row: locks it, reads it afterwards, locks it again if it has the id of another, and
/// leaves the lock to the id that it puts in.
fn change(m: &LockManager, leaf: &Mutex<Option<Arc<Id>>>, key: &[u8], me: &Arc<Id>) -> Result<()> {
    let mut found: Option<Arc<Id>> = None;
    loop {
        let other = found.filter(|id| !Arc::ptr_eq(id, me));
        let is_active = || other.as_ref().is_some_and(|id| id.active.load(Ordering::SeqCst));
        let implicit = other.as_ref().map(|id| Implicit { owner: &id.owner, active: &is_active });
        m.lock_row(&me.owner, T, key, Exclusive, LONG, implicit.as_ref())?;
        let mut row = leaf.lock();
        let is_free = row.as_ref().is_none_or(|id| Arc::ptr_eq(id, me) || !id.active.load(Ordering::SeqCst));
        if is_free && !m.blocked(&me.owner, T, key) {
            *row = Some(Arc::clone(me));
            drop(row);
            m.leave_to_id(&me.owner, T, key);
            return Ok(());
        }
        found = row.clone();
    }
}

/// Three writers that change rows in these orders; `ended` is told how each transaction has.
fn change_all(orders: [&'static [usize]; 3], ended: fn(&Result<()>)) {
    const KEYS: [&[u8]; 2] = [b"a", b"b"];
    let leaves: &'static [Mutex<Option<Arc<Id>>>; 2] = Box::leak(Box::new([Mutex::new(None), Mutex::new(None)]));
    three_sessions(1 << 20, move |m, thread, me| {
        let me = Arc::new(Id { owner: me.clone(), active: AtomicBool::new(true) });
        let result = orders[thread].iter().try_for_each(|&at| change(m, &leaves[at], KEYS[at], &me));
        me.active.store(false, Ordering::SeqCst);
        ended(&result);
        result
    });
}

/// Two writers in opposite orders, and a third one that comes between: its lock may come too late,
/// and a waiter behind it then waits for another owner than when it began to.
#[test]
fn every_deadlock_of_writers_is_found() {
    shuttle::check_random(|| change_all([&[0, 1], &[1, 0], &[0]], |_| {}), RUNS);
}

/// One asks again for the row that has its id, and waits for another one that was granted the lock
/// too late. That one gives its lock back and waits, too, but not while the first one does. And a
/// lock that is entered for the first one counts for the request that it has in the queue.
#[test]
fn writers_of_one_row_are_no_deadlock() {
    let is_done = |result: &Result<()>| assert!(result.is_ok(), "{result:?}");
    shuttle::check_random(move || change_all([&[0, 0], &[0, 0], &[0]], is_done), RUNS);
}
