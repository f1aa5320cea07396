use std::sync::Arc;
use std::time::Duration;

use holdfast_base::time::Instant;
use holdfast_base::{Error, IndexId};
use holdfast_metrics::{Counter, Metrics};

use crate::LockMode::{Exclusive, Shared};
use crate::owner::{Outcome, Target};
use crate::row_locks::Step;
use crate::{Implicit, KeyRange, LockKind, LockManager, LockWait, Owner, Session, WantedLock};

const T: IndexId = IndexId(1);
const LONG: LockWait = LockWait::For(Duration::from_secs(60));

fn manager() -> LockManager {
    LockManager::new(1 << 20, Metrics::new())
}

/// Runs `f` on a thread once `owner` stands in a queue.
fn while_waiting(owner: &Owner, f: impl FnOnce()) {
    while owner.waiting_for().is_none() {
        std::thread::yield_now();
    }
    f();
}

#[test]
fn nowait_and_skip_locked_do_not_wait() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    assert!(!m.lock_row(&a, T, b"k", Exclusive, LONG, None).unwrap());
    for wait in [LockWait::NoWait, LockWait::SkipLocked] {
        assert!(matches!(m.lock_row(&b, T, b"k", Shared, wait, None), Err(Error::WouldBlock)));
    }
    assert!(m.blocked(&b, T, b"k") && !m.blocked(&a, T, b"k") && !m.blocked(&b, T, b"other"));
    m.release_all(&a);
    assert!(!m.lock_row(&b, T, b"k", Shared, LockWait::NoWait, None).unwrap());
    m.release_all(&b);
    assert_eq!(m.memory(), 0);
    assert!(m.locks().is_empty());
}

#[test]
fn a_wait_ends_with_a_timeout_and_leaves_nothing_behind() {
    let m = manager();
    let (a, b, c) = (Owner::new(1), Owner::new(2), Owner::new(3));
    m.lock_row(&a, T, b"k", Shared, LONG, None).unwrap();
    let short = LockWait::For(Duration::from_millis(1));
    assert!(matches!(m.lock_row(&b, T, b"k", Exclusive, short, None), Err(Error::LockTimeout)));
    // The waiter is gone, so a reader is not held up by it.
    assert!(!m.lock_row(&c, T, b"k", Shared, LockWait::NoWait, None).unwrap());
}

#[test]
fn a_kill_interrupts_a_wait() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    m.lock_row(&a, T, b"k", Exclusive, LONG, None).unwrap();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| m.lock_row(&b, T, b"k", Exclusive, LONG, None));
        while_waiting(&b, || b.kill());
        assert!(matches!(waiter.join().unwrap(), Err(Error::Interrupted)));
    });
    // The kill holds until the next statement begins.
    assert!(matches!(m.lock_row(&b, T, b"k", Exclusive, LONG, None), Err(Error::Interrupted)));
    b.clear_kill();
    assert!(matches!(m.lock_row(&b, T, b"k", Exclusive, LockWait::NoWait, None), Err(Error::WouldBlock)));
}

#[test]
fn a_stop_ends_all_waits_now_and_later() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    m.lock_row(&a, T, b"k", Exclusive, LONG, None).unwrap();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| m.lock_row(&b, T, b"k", Exclusive, LONG, None));
        while_waiting(&b, || b.stop(Error::Poisoned("a test".into())));
        assert!(matches!(waiter.join().unwrap(), Err(Error::Poisoned(_))));
    });
    b.clear_kill();
    assert!(matches!(m.lock_row(&b, T, b"k", Exclusive, LONG, None), Err(Error::Poisoned(_))));
}

#[test]
fn the_cheapest_of_a_cycle_is_the_victim_and_the_report_names_all() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    a.set_undo_records(1);
    b.set_undo_records(5);
    m.set_sessions(Box::new(|serial| {
        (serial == 2).then(|| Session { query: "UPDATE t".into(), ..Session::default() })
    }));
    m.lock_row(&a, T, b"1", Exclusive, LONG, None).unwrap();
    m.lock_row(&b, T, b"2", Exclusive, LONG, None).unwrap();
    std::thread::scope(|s| {
        let first = s.spawn(|| {
            let result = m.lock_row(&a, T, b"2", Exclusive, LONG, None);
            m.release_all(&a);
            result
        });
        while_waiting(&a, || {});
        assert!(m.lock_row(&b, T, b"1", Exclusive, LONG, None).unwrap());
        assert!(matches!(first.join().unwrap(), Err(Error::Deadlock)));
    });
    let report = m.latest_deadlock().unwrap();
    assert_eq!(report.victim, 1);
    let party = |serial| report.cycle.iter().find(|p| p.serial == serial).unwrap();
    assert_eq!(report.cycle.len(), 2);
    assert_eq!(party(1).session, None);
    assert_eq!(party(2).session.as_ref().unwrap().query, "UPDATE t");
    assert_eq!((party(2).undo_records, party(2).row_locks), (5, 1));
    let wanted = |key: &[u8]| Some(WantedLock { index: T, kind: LockKind::Row(key.into()), mode: "X" });
    assert_eq!((&party(1).wanted, &party(2).wanted), (&wanted(b"2"), &wanted(b"1")));
}

#[test]
fn two_upgrades_of_one_row_are_a_deadlock() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    m.lock_row(&a, T, b"k", Shared, LONG, None).unwrap();
    m.lock_row(&b, T, b"k", Shared, LONG, None).unwrap();
    std::thread::scope(|s| {
        let first = s.spawn(|| m.lock_row(&a, T, b"k", Exclusive, LONG, None));
        while_waiting(&a, || {});
        // Equal cost: the youngest goes.
        assert!(matches!(m.lock_row(&b, T, b"k", Exclusive, LONG, None), Err(Error::Deadlock)));
        m.release_all(&b);
        assert!(first.join().unwrap().unwrap());
    });
}

#[test]
fn a_cycle_through_a_range_is_found() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    m.lock_range(&a, T, KeyRange::everything());
    m.lock_row(&b, T, b"1", Exclusive, LONG, None).unwrap();
    std::thread::scope(|s| {
        let inserter = s.spawn(|| {
            let result = m.wait_range(&b, T, b"new", LONG);
            m.release_all(&b);
            result
        });
        while_waiting(&b, || {});
        assert!(m.lock_row(&a, T, b"1", Shared, LONG, None).unwrap());
        assert!(matches!(inserter.join().unwrap(), Err(Error::Deadlock)));
    });
}

/// Readers whose ranges overlap follow each other, and an inserter never finds a moment without
/// one.
#[test]
fn who_waits_to_insert_goes_before_the_readers_that_come() {
    let m = manager();
    let [first, inserter, next, elsewhere] = [1, 2, 3, 4].map(Owner::new);
    m.lock_range(&first, T, KeyRange::everything());
    std::thread::scope(|s| {
        let inserting = s.spawn(|| {
            m.wait_range(&inserter, T, b"m", LONG).unwrap();
            assert!(!m.range_blocked(&inserter, T, b"m"));
            m.has_inserted(&inserter, T, b"m");
            m.release_all(&inserter);
        });
        while_waiting(&inserter, || {});
        let here = KeyRange::new(std::ops::Bound::Included(b"b"), std::ops::Bound::Unbounded);
        let reading = s.spawn(|| m.lock_range_in_turn(&next, T, here, LONG).unwrap().unwrap());
        while_waiting(&next, || {
            assert_eq!(m.waits().iter().map(|w| (w.waiting, w.blocking)).collect::<Vec<_>>(), [(2, 1), (3, 2)]);
            // Readers of other ranges, and those that do not wait, do not queue.
            assert!(m.lock_range_in_turn(&elsewhere, T, KeyRange::point(b"a"), LONG).unwrap().is_some());
            assert!(m.lock_range_in_turn(&elsewhere, T, KeyRange::point(b"m"), LockWait::NoWait).unwrap().is_some());
            m.release_all(&elsewhere);
            m.release_all(&first);
        });
        reading.join().unwrap();
        inserting.join().unwrap();
    });
    assert!(m.range_blocked(&inserter, T, b"m"));
    m.release_all(&next);
    assert_eq!((m.memory(), m.locks().len()), (0, 0));
}

/// The inserter waits for a range whose owner waits for a row of the reader that lets the inserter
/// go first.
#[test]
fn nobody_is_a_victim_of_a_courtesy() {
    let m = manager();
    let [holder, inserter, reader] = [1, 2, 3].map(Owner::new);
    m.lock_range(&holder, T, KeyRange::everything());
    m.lock_row(&reader, T, b"row", Exclusive, LONG, None).unwrap();
    std::thread::scope(|s| {
        let inserting = s.spawn(|| m.wait_range(&inserter, T, b"m", LONG));
        while_waiting(&inserter, || {});
        let reading = s.spawn(|| m.lock_range_in_turn(&reader, T, KeyRange::everything(), LONG));
        while_waiting(&reader, || {});
        // This closes the cycle: the reader goes on, and gives its row up in the end.
        let holding = s.spawn(|| m.lock_row(&holder, T, b"row", Exclusive, LONG, None));
        assert!(reading.join().unwrap().unwrap().is_some());
        while_waiting(&holder, || m.release_all(&reader));
        assert!(holding.join().unwrap().unwrap());
        m.release_all(&holder);
        inserting.join().unwrap().unwrap();
        m.has_inserted(&inserter, T, b"m");
    });
    assert_eq!(m.latest_deadlock(), None);
}

#[test]
fn a_waiter_enters_the_lock_of_the_row_s_writer() {
    let m = manager();
    let (writer, waiter) = (Owner::new(1), Owner::new(2));
    let active = std::sync::atomic::AtomicBool::new(true);
    let is_active = || active.load(std::sync::atomic::Ordering::SeqCst);
    let implicit = Implicit { owner: &writer, active: &is_active };
    std::thread::scope(|s| {
        let thread = s.spawn(|| m.lock_row(&waiter, T, b"k", Exclusive, LONG, Some(&implicit)));
        while_waiting(&waiter, || {
            assert_eq!(m.waits().len(), 1);
            assert_eq!(m.waits()[0].blocking, 1);
            active.store(false, std::sync::atomic::Ordering::SeqCst);
            m.release_all(&writer);
        });
        assert!(thread.join().unwrap().unwrap());
    });
    // It has ended: nothing is entered on its behalf any more, whatever the caller believes.
    active.store(true, std::sync::atomic::Ordering::SeqCst);
    let other = Owner::new(3);
    let implicit = Implicit { owner: &writer, active: &is_active };
    assert!(!m.lock_row(&other, T, b"j", Exclusive, LONG, Some(&implicit)).unwrap());
}

/// Four threads that locked rows one after the other ran into a lock wait timeout, once in twenty
/// runs. The lock of `late` came too late: the writer's id was in the row before. Behind it
/// `behind` waited, for which the writer waited at another row. When `late` found the id and put
/// the writer's lock in the place of its own, `behind` waited for the writer from then on, and no
/// search looked for that cycle.
#[test]
fn a_cycle_is_found_that_a_third_one_closes() {
    let m = manager();
    let [writer, behind, late] = [1, 2, 3].map(Owner::new);
    writer.set_undo_records(1);
    m.lock_row(&late, T, b"written", Exclusive, LONG, None).unwrap();
    m.lock_row(&behind, T, b"next", Exclusive, LONG, None).unwrap();
    let lock = |owner: &Arc<Owner>, key: &[u8]| {
        let result = m.lock_row(owner, T, key, Exclusive, LONG, None);
        m.release_all(owner);
        result
    };
    std::thread::scope(|s| {
        let victim = s.spawn(|| lock(&behind, b"written"));
        while_waiting(&behind, || {});
        let survivor = s.spawn(|| lock(&writer, b"next"));
        while_waiting(&writer, || {});
        let implicit = Implicit { owner: &writer, active: &|| true };
        assert!(m.lock_row(&late, T, b"written", Exclusive, LONG, Some(&implicit)).unwrap());
        assert!(matches!(victim.join().unwrap(), Err(Error::Deadlock)));
        assert!(survivor.join().unwrap().unwrap());
    });
}

/// A writer is rolled back. Its id has left the row, `reader` has locked and read it, and `third`,
/// which has seen the id before, enters the writer's lock. Only the reader's counts: it once gave
/// its lock back, waited for the writer, and others changed the row that it had read.
#[test]
fn a_lock_that_was_entered_beside_the_owners_takes_nothing_from_it() {
    let m = manager();
    let [writer, reader, third] = [1, 2, 3].map(Owner::new);
    let short = LockWait::For(Duration::from_millis(1));
    m.lock_row(&reader, T, b"k", Exclusive, LONG, None).unwrap();
    let implicit = Implicit { owner: &writer, active: &|| true };
    assert!(matches!(m.lock_row(&third, T, b"k", Exclusive, short, Some(&implicit)), Err(Error::LockTimeout)));
    assert!(!m.blocked(&reader, T, b"k"));
    assert!(!m.lock_row(&reader, T, b"k", Exclusive, LONG, None).unwrap());
    m.release_all(&writer);
    assert!(m.blocked(&third, T, b"k") && m.holds_row(&reader, T, b"k"));
    m.release_all(&reader);
    assert!(m.locks().is_empty() && m.memory() == 0);
}

/// As before, but the writer's id is still in the row when the owner of the lock reads it.
#[test]
fn an_owner_whose_lock_came_too_late_waits_for_the_writer_in_the_row() {
    let m = manager();
    let [writer, late, third] = [1, 2, 3].map(Owner::new);
    let short = LockWait::For(Duration::from_millis(1));
    m.lock_row(&late, T, b"k", Exclusive, LONG, None).unwrap();
    let implicit = Implicit { owner: &writer, active: &|| true };
    for owner in [&third, &late] {
        assert!(matches!(m.lock_row(owner, T, b"k", Exclusive, short, Some(&implicit)), Err(Error::LockTimeout)));
    }
    assert!(m.blocked(&late, T, b"k") && !m.holds_row(&late, T, b"k") && !m.blocked(&writer, T, b"k"));
    m.release_all(&writer);
    assert!(m.locks().is_empty() && m.memory() == 0);
}

#[test]
fn many_row_locks_become_a_table_lock() {
    let metrics = Metrics::new();
    let m = LockManager::new(200 * 200, Arc::clone(&metrics));
    let (a, b) = (Owner::new(1), Owner::new(2));
    m.lock_row(&b, T, &7u32.to_be_bytes(), Exclusive, LONG, None).unwrap();
    for i in 100..2_000u32 {
        m.lock_row(&a, T, &i.to_be_bytes(), Exclusive, LONG, None).unwrap();
    }
    assert_eq!(metrics.get(Counter::LockEscalations), 1);
    assert!(m.memory() < 200 * 200);
    // Every key that was free is locked now; the one that another transaction had is still its own.
    assert!(!m.blocked(&b, T, &7u32.to_be_bytes()), "nothing keeps a transaction from a row that it has locked");
    assert!(m.blocked(&b, T, b"anything") && !m.blocked(&a, T, b"anything"));
    assert!(m.blocked(&a, T, &7u32.to_be_bytes()));
    assert!(matches!(m.lock_row(&b, T, b"x", Shared, LockWait::NoWait, None), Err(Error::WouldBlock)));
    std::thread::scope(|s| {
        let waiter = s.spawn(|| m.lock_row(&b, T, b"x", Exclusive, LONG, None));
        while_waiting(&b, || m.release_all(&a));
        assert!(waiter.join().unwrap().unwrap());
    });
    m.release_all(&b);
    assert_eq!(m.memory(), 0);
    assert!(m.locks().is_empty());
}

#[test]
fn an_unlocked_row_goes_to_the_next() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    m.lock_row(&a, T, b"k", Exclusive, LONG, None).unwrap();
    m.unlock_row(&a, T, b"k");
    assert!(!m.lock_row(&b, T, b"k", Exclusive, LockWait::NoWait, None).unwrap());
    m.release_all(&a);
    assert!(m.blocked(&a, T, b"k"));
}

#[test]
fn a_lock_that_was_raised_goes_back_to_what_it_was() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    m.lock_row(&a, T, b"k", Shared, LONG, None).unwrap();
    let before = m.row_mode(&a, T, b"k");
    m.lock_row(&a, T, b"k", Exclusive, LONG, None).unwrap();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| m.lock_row(&b, T, b"k", Shared, LONG, None));
        while_waiting(&b, || m.unlock_row_to(&a, T, b"k", before));
        assert!(waiter.join().unwrap().unwrap());
    });
    assert_eq!(m.row_mode(&a, T, b"k"), Some(Shared));
    assert!(m.blocked(&b, T, b"k"), "the shared lock stays");
    m.release_all(&b);
    m.lock_row(&a, T, b"k", Exclusive, LONG, None).unwrap();
    m.unlock_row_to(&a, T, b"k", Some(Exclusive));
    assert_eq!(m.row_mode(&a, T, b"k"), Some(Exclusive));
    m.unlock_row_to(&a, T, b"k", None);
    assert_eq!((m.row_mode(&a, T, b"k"), m.memory()), (None, 0));
}

#[test]
fn threads_that_lock_in_random_order_all_get_through() {
    let m = manager();
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|s| {
        for thread in 0..4u64 {
            let (m, done) = (&m, &done);
            s.spawn(move || {
                let mut seed = thread + 1;
                for round in 0..300u64 {
                    let owner = Owner::new(thread + round * 4 + 1);
                    let mut ok = true;
                    for _ in 0..4 {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let mode = if seed >> 40 & 1 == 0 { Shared } else { Exclusive };
                        let key = [(seed >> 33) as u8 % 6];
                        match m.lock_row(&owner, T, &key, mode, LONG, None) {
                            Ok(_) => {}
                            Err(Error::Deadlock) => {
                                ok = false;
                                break;
                            }
                            Err(e) => panic!("{e}"),
                        }
                    }
                    m.release_all(&owner);
                    done.fetch_add(usize::from(ok), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert!(done.into_inner() > 0);
    assert!(m.locks().is_empty());
    assert_eq!(m.memory(), 0);
}

/// It stood behind those that wait for its own lock on the table: a deadlock that is none.
#[test]
fn who_holds_a_table_lock_goes_ahead_of_those_that_wait_for_it() {
    let m = manager();
    let (a, b, c) = (Owner::new(1), Owner::new(2), Owner::new(3));
    for reader in [&a, &b] {
        assert!(m.lock_table(reader, T, Shared));
    }
    assert!(matches!(m.try_row(&c, T, b"j", Exclusive, LONG, None), Ok(Step::WaitTable)));
    assert!(m.find_cycle(&c).is_none());
    // b is in the way of this one, and nothing else.
    assert!(matches!(m.try_row(&a, T, b"k", Exclusive, LONG, None), Ok(Step::WaitTable)));
    assert!(m.find_cycle(&a).is_none());
    m.release_all(&b);
    assert!(!a.waits() && c.waits());
    assert_eq!(a.block(Some(Instant::now())), Outcome::Granted);
    assert!(matches!(m.try_row(&a, T, b"k", Exclusive, LONG, None), Ok(Step::Done { .. })));
    m.release_all(&a);
    assert_eq!(c.block(Some(Instant::now())), Outcome::Granted);
    assert!(m.locks().is_empty() && m.memory() == 0);
}

#[test]
fn two_that_have_read_a_table_and_change_rows_of_it_are_a_deadlock() {
    let m = manager();
    let (a, b) = (Owner::new(1), Owner::new(2));
    for reader in [&a, &b] {
        assert!(m.lock_table(reader, T, Shared));
    }
    assert!(matches!(m.try_row(&a, T, b"j", Exclusive, LONG, None), Ok(Step::WaitTable)));
    assert!(matches!(m.try_row(&b, T, b"k", Exclusive, LONG, None), Ok(Step::WaitTable)));
    let cycle = m.find_cycle(&b).unwrap();
    assert_eq!(cycle.iter().map(|o| o.serial()).collect::<Vec<_>>(), [2, 1]);
}

/// A search for deadlocks asked a transaction whether it only lets others go first, and ended its
/// wait in a second step. By then that could be a wait for a row, which counted as granted.
#[test]
fn a_wait_for_a_row_gives_no_way() {
    let m = manager();
    let (reader, holder) = (Owner::new(1), Owner::new(2));
    reader.start_wait(Target::Turn { index: T, range: KeyRange::everything() }).unwrap();
    assert!(reader.give_way() && !reader.give_way());
    assert_eq!(reader.block(Some(Instant::now())), Outcome::Granted);
    m.lock_row(&holder, T, b"k", Exclusive, LONG, None).unwrap();
    assert!(matches!(m.try_row(&reader, T, b"k", Exclusive, LONG, None), Ok(Step::WaitRow { .. })));
    assert!(!reader.give_way() && reader.waits());
    m.release_all(&holder);
    assert_eq!(reader.block(Some(Instant::now())), Outcome::Granted);
    assert_eq!(m.row_mode(&reader, T, b"k"), Some(Exclusive));
}

/// True if a transaction waits, over all the edges there are, for `start`.
fn waits_for_itself(m: &LockManager, start: &Arc<Owner>) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut next = m.blockers(start);
    while let Some(owner) = next.pop() {
        if owner.serial() == start.serial() {
            return true;
        }
        if seen.insert(owner.serial()) {
            next.extend(m.blockers(&owner));
        }
    }
    false
}

/// The search leaves most edges out: it has to find a cycle exactly where there is one.
#[test]
fn a_cycle_is_found_if_and_only_if_there_is_one() {
    let m = manager();
    let mut owners: Vec<_> = (1..=8).map(Owner::new).collect();
    let (mut seed, mut next, mut cycles, mut waits) = (1u64, 9, 0, 0);
    let mut random = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    for _ in 0..60_000 {
        let at = random(owners.len());
        let owner = Arc::clone(&owners[at]);
        if owner.waits() {
            continue;
        }
        let mode = if random(3) == 0 { Shared } else { Exclusive };
        let key = [random(4) as u8];
        let step = match random(20) {
            0 if m.lock_table(&owner, T, mode) => continue,
            0 => {
                m.enqueue_table(&owner, &m.row(T, &key), mode.intent()).unwrap();
                Some(Step::WaitTable)
            }
            1..3 => None,
            _ => Some(m.try_row(&owner, T, &key, mode, LONG, None).unwrap()),
        };
        let over = match step {
            Some(Step::Done { .. }) => false,
            // The transaction ends.
            None => true,
            Some(wait) => {
                waits += 1;
                let cycle = m.find_cycle(&owner);
                assert_eq!(cycle.is_some(), waits_for_itself(&m, &owner), "{:?} {:?}", m.locks(), m.waits());
                if cycle.is_some() {
                    assert!(owner.end_wait(Outcome::Deadlock));
                    match wait {
                        Step::WaitRow { .. } => m.cancel_row(&owner, T, &key),
                        _ => m.cancel_table(&owner, T),
                    }
                    cycles += 1;
                }
                cycle.is_some()
            }
        };
        if over {
            m.release_all(&owner);
            owners[at] = Owner::new(next);
            next += 1;
        }
    }
    assert!(cycles > 500 && waits > 5_000, "{cycles} cycles in {waits} waits");
}

/// The lock was entered behind the moment at which it would have been released: what the id stood
/// for was undone by then, and a session waited for it up to its limit.
#[test]
fn a_lock_that_is_entered_for_what_was_just_given_up_is_not_waited_for() {
    let m = manager();
    let (writer, other) = (Owner::new(1), Owner::new(2));
    for blocked in [None, Some(Error::HalfUndone)] {
        let before = writer.given_up();
        let active = || {
            let is_first = writer.given_up() == before;
            if is_first {
                m.give_up_locks(&writer, blocked.clone());
            }
            is_first
        };
        let implicit = Implicit { owner: &writer, active: &active };
        let wait = LockWait::For(Duration::from_secs(1));
        assert!(!m.lock_row(&other, T, b"k", Exclusive, wait, Some(&implicit)).unwrap());
        assert!(!writer.holds_locks());
        m.unlock_row(&other, T, b"k");
    }
    assert_eq!(m.memory(), 0);
}

/// The reader, which had asked for its lock before the rollback, relied on it.
#[test]
fn a_row_that_is_put_back_is_taken_from_the_owner_of_the_table() {
    let m = manager();
    let (writer, reader) = (Owner::new(1), Owner::new(2));
    assert!(m.lock_table(&reader, T, Shared));
    let before = m.taken_back();
    assert!(!m.lock_row(&reader, T, b"k", Shared, LockWait::NoWait, None).unwrap());
    m.keep_row(&writer, T, b"k");
    assert_ne!(m.taken_back(), before);
    assert!(matches!(m.lock_row(&reader, T, b"k", Shared, LockWait::NoWait, None), Err(Error::WouldBlock)));
}

/// Two transactions had the key: the reader found it free, and the writer inserted it again.
#[test]
fn the_place_of_a_row_that_is_removed_has_one_owner() {
    let m = manager();
    let (writer, reader, waiter) = (Owner::new(1), Owner::new(2), Owner::new(3));
    assert!(!m.lock_row(&reader, T, b"k", Shared, LockWait::NoWait, None).unwrap());
    let before = m.taken_back();
    // Nothing else has a lock of the writer entered: the key is free.
    m.keep_place(&writer, T, b"k");
    assert!(m.taken_back() == before && m.blocked(&writer, T, b"k"));
    let implicit = Implicit { owner: &writer, active: &|| true };
    std::thread::scope(|s| {
        let thread = s.spawn(|| m.lock_row(&waiter, T, b"k", Exclusive, LONG, Some(&implicit)));
        while_waiting(&waiter, || {
            m.keep_place(&writer, T, b"k");
            assert_ne!(m.taken_back(), before);
            assert!(matches!(m.lock_row(&reader, T, b"k", Shared, LockWait::NoWait, None), Err(Error::WouldBlock)));
            m.release_all(&writer);
        });
        assert!(thread.join().unwrap().unwrap());
    });
}

/// Its covers and locks stayed for good.
#[test]
fn an_owner_that_has_ended_gets_no_cover() {
    let m = manager();
    let ended = Owner::new(1);
    m.release_all(&ended);
    assert!(m.begin_cover(&ended, T, Exclusive, b"k").is_none() && !m.lock_table(&ended, T, Shared));
    assert!(m.locks().is_empty());
}
