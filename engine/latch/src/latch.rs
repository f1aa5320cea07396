//! The hybrid latch of a page: optimistic, shared and exclusive in one 64-bit word.
//!
//! ```text
//!  63                                22  21    20   19                    0
//! +------------------------------------+-----+-----+----------------------+
//! | version                            | X   | P   | shared holders       |
//! +------------------------------------+-----+-----+----------------------+
//!   +1 by every release that changed      |     |
//!   the page (or gave the frame away)     |     a waiter may be parked
//!                                         held exclusively
//! ```
//!
//! **Optimistic readers** store nothing: they load the word ([`Latch::optimistic`]), read the page,
//! and compare version and X again ([`Latch::validate`]). What they read counts only if both are
//! unchanged.
//!
//! **Shared and exclusive holders** change the word by compare-exchange. A thread that does not get
//! the latch spins for a moment, sets P and parks on the latch's address; the parking lot checks
//! the word once more under its own lock, so a release between the check and the parking cannot be
//! missed. A holder that leaves the latch free while P is set clears P and wakes all parked
//! threads, which start over.
//!
//! **Fairness.** P with shared holders present means that an exclusive request waits; new shared
//! requests then park behind it. So a stream of readers cannot starve a writer. A thread must not
//! take a latch twice.
//!
//! **A waiter waits for a page.** While a thread waits for the latch of one page, the frame may be
//! given to another page, whose holder may be waiting for a latch that this thread holds: the order
//! in which pages are latched says nothing about frames. So a wait ends without the latch when the
//! page that it is about has left. The evictor takes the page out before it releases the latch, and
//! the release wakes all parked threads.
//!
//! **Memory order.** Acquiring is `Acquire`, releasing `Release`. After X is set a release fence
//! keeps the holder's writes to the page from becoming visible before X; `validate` has the
//! matching acquire fence (a seqlock).

use holdfast_base::latches;
use holdfast_base::sync::atomic::{AtomicU64, Ordering, fence};
use holdfast_base::sync::spin_loop;

use crate::parking::Parking;

const SHARED_ONE: u64 = 1;
const SHARED_MASK: u64 = (1 << 20) - 1;
const PARKED: u64 = 1 << 20;
const EXCLUSIVE: u64 = 1 << 21;
const VERSION_ONE: u64 = 1 << 22;
const HELD: u64 = EXCLUSIVE | SHARED_MASK;
const STAMP: u64 = !(SHARED_MASK | PARKED);

/// How often a busy latch is looked at before the thread parks: about the length of a page copy.
const SPINS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 100 };

/// What an optimistic reader remembers: the version, with X clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

/// See the module's description.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Latch {
    parking: Parking,
    word: AtomicU64,
}

impl Latch {
    /// Begins an optimistic read; `None` while the latch is held exclusively.
    #[inline]
    pub fn optimistic(&self) -> Option<Stamp> {
        let word = self.word.load(Ordering::Acquire);
        if word & EXCLUSIVE == 0 { Some(Stamp(word & STAMP)) } else { None }
    }

    /// Like [`Latch::optimistic`], and looks a bounded number of times for a short exclusive holder
    /// to leave.
    #[cold]
    #[inline(never)]
    pub fn optimistic_spin(&self) -> Option<Stamp> {
        for _ in 0..SPINS {
            if let Some(stamp) = self.optimistic() {
                return Some(stamp);
            }
            spin_loop();
        }
        None
    }

    /// True if nothing was changed since `stamp` was taken: what was read in between counts.
    #[inline]
    pub fn validate(&self, stamp: Stamp) -> bool {
        fence(Ordering::Acquire);
        self.word.load(Ordering::Relaxed) & STAMP == stamp.0 || holdfast_base::planted!("stale-page-believed")
    }

    /// Takes the latch exclusively if it is free and still at `stamp`, waiting for shared holders
    /// only.
    pub fn upgrade(&self, stamp: Stamp) -> bool {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & STAMP != stamp.0 {
                return false;
            }
            if self.try_exclusive() {
                break;
            }
            if word & SHARED_MASK != 0 {
                if !self.exclusive_while(|| self.stamp() == stamp) {
                    return false;
                }
                break;
            }
        }
        if self.word.load(Ordering::Relaxed) & STAMP & !EXCLUSIVE == stamp.0 {
            return true;
        }
        self.release_exclusive(false);
        false
    }

    /// Takes the latch shared if that is possible at once.
    #[inline]
    pub fn try_shared(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while Self::admits_shared(word) {
            match self.word.compare_exchange_weak(word, word + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    latches::took();
                    return true;
                }
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Takes the latch exclusively if it is free.
    #[inline]
    pub fn try_exclusive(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & HELD == 0 {
            match self.word.compare_exchange_weak(word, word | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    fence(Ordering::Release);
                    latches::took();
                    return true;
                }
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Takes the latch shared; waits. For threads that hold no other latch.
    pub fn shared(&self) {
        self.shared_while(|| true);
    }

    /// Takes the latch exclusively; waits. For threads that hold no other latch.
    pub fn exclusive(&self) {
        self.exclusive_while(|| true);
    }

    /// Takes the latch shared; waits as long as `there` says that the page is. Returns whether it
    /// has the latch.
    pub fn shared_while(&self, there: impl Fn() -> bool) -> bool {
        self.acquire(Latch::try_shared, |word| !Self::admits_shared(word), there)
    }

    /// Takes the latch exclusively; waits as long as `there` says that the page is. Returns whether
    /// it has the latch.
    pub fn exclusive_while(&self, there: impl Fn() -> bool) -> bool {
        self.acquire(Latch::try_exclusive, |word| word & HELD != 0, there)
    }

    /// Gives a shared hold back.
    pub fn release_shared(&self) {
        let before = self.word.fetch_sub(SHARED_ONE, Ordering::Release);
        debug_assert!(before & SHARED_MASK != 0, "released a shared latch that no thread held");
        latches::gave();
        if before & SHARED_MASK == SHARED_ONE && before & PARKED != 0 {
            self.wake(before - SHARED_ONE);
        }
    }

    /// Gives the exclusive hold back. `changed`: the page was changed, so optimistic readers must
    /// fail.
    pub fn release_exclusive(&self, changed: bool) {
        self.leave_exclusive(changed, 0);
        latches::gave();
    }

    /// Turns the exclusive hold into a shared one without letting a writer in between.
    pub fn downgrade(&self, changed: bool) {
        self.leave_exclusive(changed, SHARED_ONE);
    }

    /// The current version, for a holder.
    pub fn stamp(&self) -> Stamp {
        Stamp(self.word.load(Ordering::Relaxed) & STAMP & !EXCLUSIVE)
    }

    fn leave_exclusive(&self, changed: bool, keep: u64) {
        // While X is set only P changes: version and count are the holder's.
        let held = self.word.load(Ordering::Relaxed);
        debug_assert!(held & EXCLUSIVE != 0, "released an exclusive latch that no thread held");
        let version = held & STAMP & !EXCLUSIVE;
        let next = if changed { version.wrapping_add(VERSION_ONE) } else { version };
        let before = self.word.swap(next | keep, Ordering::Release);
        if before & PARKED != 0 {
            self.parking.unpark_all();
        }
    }

    fn admits_shared(word: u64) -> bool {
        word & EXCLUSIVE == 0 && (word & PARKED == 0 || word & SHARED_MASK == 0) && word & SHARED_MASK != SHARED_MASK
    }

    fn acquire(&self, attempt: fn(&Latch) -> bool, busy: fn(u64) -> bool, there: impl Fn() -> bool) -> bool {
        for _ in 0..SPINS {
            if attempt(self) {
                return true;
            }
            spin_loop();
        }
        while !attempt(self) {
            if !there() {
                return false;
            }
            let word = self.word.load(Ordering::Relaxed);
            if !busy(word) {
                continue;
            }
            let parked = word | PARKED;
            let set = word & PARKED != 0
                || self.word.compare_exchange(word, parked, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if set {
                // P is cleared before a thread is woken, so a word that still has it means that the
                // wake-up is to come. A holder after the page has left is seen together with that:
                // hence Acquire.
                self.parking.park(|| {
                    let word = self.word.load(Ordering::Acquire);
                    word & PARKED != 0 && busy(word) && there()
                });
            }
        }
        true
    }

    /// Clears P and wakes all, unless another thread took the latch meanwhile: then that thread
    /// will.
    fn wake(&self, mut word: u64) {
        while word & HELD == 0 && word & PARKED != 0 {
            match self.word.compare_exchange_weak(word, word & !PARKED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.parking.unpark_all();
                    return;
                }
                Err(seen) => word = seen,
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn holds_exclude_each_other_as_they_should() {
        let latch = Latch::default();
        assert!(latch.try_shared() && latch.try_shared());
        assert!(!latch.try_exclusive());
        latch.release_shared();
        latch.release_shared();
        assert!(latch.try_exclusive());
        assert!(!latch.try_shared() && !latch.try_exclusive() && latch.optimistic().is_none());
        latch.downgrade(true);
        assert!(latch.try_shared() && !latch.try_exclusive());
    }

    #[test]
    fn only_a_change_moves_the_version() {
        let latch = Latch::default();
        let stamp = latch.optimistic().unwrap();
        latch.exclusive();
        assert!(!latch.validate(stamp), "held exclusively");
        latch.release_exclusive(false);
        assert!(latch.validate(stamp));
        latch.shared();
        assert!(latch.validate(stamp));
        latch.release_shared();
        assert!(latch.upgrade(stamp));
        latch.release_exclusive(true);
        assert!(!latch.validate(stamp));
        assert!(!latch.upgrade(stamp));
        assert!(latch.try_exclusive(), "a failed upgrade leaves the latch free");
    }

    #[test]
    fn waiters_are_woken() {
        let latch = Latch::default();
        let in_order = std::sync::Mutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..500 {
                        if i % 3 == 0 {
                            latch.exclusive();
                            *in_order.try_lock().expect("exclusive") += 1;
                            latch.release_exclusive(true);
                        } else {
                            latch.shared();
                            latch.release_shared();
                        }
                    }
                });
            }
        });
        assert_eq!(*in_order.lock().unwrap(), 4 * 167);
        assert_eq!(latch.stamp(), Stamp(4 * 167 * VERSION_ONE));
    }
}

/// The same scenarios under loom (all interleavings up to a bound) and under shuttle (random ones,
/// more threads).
#[cfg(all(test, any(loom, shuttle)))]
mod checked {
    use super::*;
    use holdfast_base::sync::yield_now;
    use std::sync::Arc;

    #[cfg(loom)]
    use loom::thread::spawn;
    #[cfg(shuttle)]
    use shuttle::thread::spawn;

    #[cfg(loom)]
    const THREADS: usize = 2;
    #[cfg(shuttle)]
    const THREADS: usize = 4;

    #[cfg(loom)]
    fn explore(scenario: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(scenario);
    }

    #[cfg(shuttle)]
    fn explore(scenario: impl Fn() + Send + Sync + 'static) {
        shuttle::check_random(scenario, 2000);
    }

    /// A page of two words that change together.
    #[derive(Default)]
    struct Page {
        latch: Latch,
        words: [AtomicU64; 2],
    }

    impl Page {
        fn words(&self) -> [u64; 2] {
            [self.words[0].load(Ordering::Relaxed), self.words[1].load(Ordering::Relaxed)]
        }

        /// For exclusive holders.
        fn increment(&self) {
            for word in &self.words {
                word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }
    }

    fn each(threads: usize, page: &Arc<Page>, body: impl Fn(&Page, usize) + Clone + Send + 'static) {
        let others: Vec<_> = (1..threads)
            .map(|i| {
                let (page, body) = (page.clone(), body.clone());
                spawn(move || body(&page, i))
            })
            .collect();
        body(page, 0);
        others.into_iter().for_each(|t| t.join().unwrap());
    }

    #[test]
    fn exclusive_holders_exclude_each_other_and_none_sleeps_forever() {
        explore(|| {
            let page = Arc::new(Page::default());
            each(THREADS, &page, |page, _| {
                page.latch.exclusive();
                page.increment();
                page.latch.release_exclusive(true);
            });
            assert_eq!(page.words(), [THREADS as u64; 2]);
        });
    }

    /// The story behind: two threads, each with a latch, waited for pages whose frames had
    /// meanwhile been given to the page that the other one held.
    #[test]
    fn a_wait_ends_when_the_page_has_left_and_the_frame_is_held_for_another() {
        explore(|| {
            let page = Arc::new(Page::default());
            page.latch.exclusive();
            let waiter = page.clone();
            let waits = spawn(move || {
                let there = || waiter.words[0].load(Ordering::Relaxed) == 0;
                if waiter.latch.shared_while(there) {
                    waiter.latch.release_shared();
                }
            });
            // Evicted; then the frame is another page's, which is held until the waiter has gone
            // its way.
            page.increment();
            page.latch.release_exclusive(true);
            page.latch.exclusive();
            waits.join().unwrap();
            page.latch.release_exclusive(true);
        });
    }

    #[test]
    fn shared_holders_see_no_change() {
        explore(|| {
            let page = Arc::new(Page::default());
            each(THREADS, &page, |page, i| {
                if i == 0 {
                    page.latch.exclusive();
                    page.increment();
                    page.latch.downgrade(true);
                    assert_eq!(page.words(), [1, 1]);
                } else {
                    page.latch.shared();
                    let [a, b] = page.words();
                    assert_eq!(a, b);
                }
                page.latch.release_shared();
            });
        });
    }

    #[test]
    fn a_validated_read_is_of_one_version() {
        explore(|| {
            let page = Arc::new(Page::default());
            each(2, &page, |page, i| {
                if i == 0 {
                    page.latch.exclusive();
                    page.increment();
                    page.latch.release_exclusive(true);
                } else if let Some(stamp) = page.latch.optimistic() {
                    let [a, b] = page.words();
                    if page.latch.validate(stamp) {
                        assert_eq!(a, b);
                    }
                }
            });
        });
    }

    #[test]
    fn of_two_upgrades_of_one_version_one_fails() {
        explore(|| {
            let page = Arc::new(Page::default());
            let stamp = page.latch.optimistic().unwrap();
            let done = Arc::new(AtomicU64::new(0));
            let counted = done.clone();
            each(2, &page, move |page, _| {
                if page.latch.upgrade(stamp) {
                    page.increment();
                    page.latch.release_exclusive(true);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!((done.load(Ordering::Relaxed), page.words()), (1, [1, 1]));
        });
    }

    #[test]
    fn an_upgrade_waits_for_shared_holders() {
        explore(|| {
            let page = Arc::new(Page::default());
            each(2, &page, |page, i| {
                if i == 0 {
                    page.latch.shared();
                    yield_now();
                    page.latch.release_shared();
                } else if let Some(stamp) = page.latch.optimistic() {
                    assert!(page.latch.upgrade(stamp), "no other thread changes the page");
                    page.latch.release_exclusive(false);
                }
            });
        });
    }
}
