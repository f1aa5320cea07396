//! The commit map: transaction id -> commit number, in O(1), for the ids that some view may still
//! have to ask about.
//!
//! # Protocol
//! A ring of words covers the ids `[low, limit)`. Ids below `low` have ended, and every short view
//! sees their commits; the exceptions - old transactions that are still active, or ended after a
//! view that is still short - stand in the small `stragglers` map. The word of an id says
//!
//! * *active*, and the id, until the transaction ends,
//! * the commit number, once it committed,
//! * that number with the top bit, once it was rolled back. (A rollback takes a number too: "all
//!   short views are newer than the end of the transaction" is then one comparison for both.)
//!
//! Giving out an id takes no lock: it is a fetch-add on the clock's next id. A transaction that
//! gets an id at or above `limit` makes room before it uses it. A thread that moves the low end of
//! the window holds the window's mutex: it raises `low`, makes the words that it has passed say
//! *active* for the ids that come to them next, and then raises `limit`. So the word of an id says
//! that it is active before the id is used, and readers need not know how far the thread has come.
//!
//! A transaction that ends replaces its *active* word by a compare-exchange. A thread that
//! [cuts](WindowGuard::cut) the window takes words of ids that have not ended out of the ring by an
//! exchange, with the stragglers locked. So one of the two is first (invariant *an end is not
//! lost*): an end that comes first is taken along to the stragglers; one that comes later finds
//! another id in its word, and is written to the stragglers.
//!
//! A reader loads the word, then `low` again: if `low` has passed the id, or the word says that
//! another id is active, the answer comes from the path for old ids, which takes no lock for those
//! below the oldest straggler. A thread that raises `low` past ids that an open view cannot yet
//! take for granted makes that view long first (see [`crate::mvcc::view`]), and the view looks at
//! its list after it has asked here.
//!
//! # Lock order
//! window -> stragglers; window -> view registry.

use std::sync::Arc;

use holdfast_base::HashMap;
use holdfast_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use holdfast_base::sync::{Mutex, MutexGuard, RwLock};
use holdfast_base::{CommitNo, TxnId};

use crate::mvcc::clock::{CommitClock, NUMBER_LIMIT};

const ABORTED: u64 = 1 << 63;
/// The word of an id that has not ended is this bit and the id.
const ACTIVE: u64 = NUMBER_LIMIT;
/// After so many ids the low end of the window is moved up. What lies below it is answered without
/// a look at the ring, which for rows of many transactions is a cache miss each.
const ADVANCE_EVERY: u64 = 1024;
/// The same, once the window is half full.
const ADVANCE_HALF_FULL: u64 = 64;
/// No id is as great.
const NONE_STRAGGLES: u64 = u64::MAX;
/// Least ids of a window.
const LEAST_WINDOW: usize = 4;

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    /// It has not ended (or is prepared).
    Active,
    /// It committed at this position; 0 means "so long ago that every view sees it".
    Committed(CommitNo),
    /// It was rolled back; no row carries it any more.
    RolledBack,
}

/// The map. One per database.
pub struct CommitMap {
    ring: Box<[AtomicU64]>,
    clock: Arc<CommitClock>,
    low: AtomicU64,
    limit: AtomicU64,
    window: Mutex<()>,
    stragglers: RwLock<HashMap<u64, u64>>,
    straggling: AtomicUsize,
    /// No straggler has a lower id; [`NONE_STRAGGLES`] if there is none.
    oldest_straggler: AtomicU64,
}

/// See [`CommitMap::moment`].
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    low: TxnId,
    last_commit: CommitNo,
    oldest_straggler: u64,
}

/// Holds the low end of the window still.
pub struct WindowGuard<'a> {
    map: &'a CommitMap,
    _guard: MutexGuard<'a, ()>,
}

impl CommitMap {
    /// An empty map whose new ids are the clock's, with `active` (older ids, found at recovery) not
    /// yet ended. `window` is rounded up to a power of two.
    #[must_use]
    pub fn new(window: usize, clock: &Arc<CommitClock>, active: &[TxnId]) -> CommitMap {
        let next = clock.next_id();
        let len = window.next_power_of_two().max(LEAST_WINDOW) as u64;
        let ring: Box<[AtomicU64]> = (0..len).map(|at| AtomicU64::new(first_active(at, next.0, len))).collect();
        CommitMap {
            clock: Arc::clone(clock),
            low: AtomicU64::new(next.0),
            limit: AtomicU64::new(next.0 + ring.len() as u64),
            ring,
            window: Mutex::new(()),
            stragglers: RwLock::new(active.iter().map(|id| (id.0, ACTIVE | id.0)).collect()),
            straggling: AtomicUsize::new(active.len()),
            oldest_straggler: AtomicU64::new(active.iter().map(|id| id.0).min().unwrap_or(NONE_STRAGGLES)),
        }
    }

    fn word(&self, id: u64) -> &AtomicU64 {
        &self.ring[id as usize & (self.ring.len() - 1)]
    }

    /// Gives out the next id, which may be used once the window [has room](CommitMap::has_room) for
    /// it.
    pub fn allocate(&self) -> TxnId {
        self.clock.take_id()
    }

    /// True if the window has room for `id`; else [`WindowGuard::cut`] first.
    #[must_use]
    pub fn has_room(&self, id: TxnId) -> bool {
        id.0 < self.limit.load(Ordering::Acquire)
    }

    /// True if the transaction that was given `id` should move the low end up: now and then, and
    /// more often once the window is half full.
    #[must_use]
    pub fn is_worth_advancing(&self, id: TxnId) -> bool {
        let half_full = || id.0.saturating_sub(self.low().0) >= self.ring.len() as u64 / 2;
        id.0.is_multiple_of(ADVANCE_EVERY) || id.0.is_multiple_of(ADVANCE_HALF_FULL) && half_full()
    }

    /// Holds the low end of the window still.
    pub fn lock_window(&self) -> WindowGuard<'_> {
        WindowGuard { map: self, _guard: self.window.lock() }
    }

    /// [`CommitMap::lock_window`], unless another thread holds it.
    pub fn try_lock_window(&self) -> Option<WindowGuard<'_>> {
        self.window.try_lock().map(|guard| WindowGuard { map: self, _guard: guard })
    }

    /// The lowest id in the window.
    #[must_use]
    pub fn low(&self) -> TxnId {
        TxnId(self.low.load(Ordering::Acquire))
    }

    /// How `id` stands. An id below the window that is no straggler counts as committed at 0.
    #[must_use]
    pub fn status(&self, id: TxnId) -> TxnStatus {
        let id = id.0;
        if id >= self.low.load(Ordering::Acquire) {
            if id >= self.limit.load(Ordering::Acquire) {
                return TxnStatus::Active;
            }
            let word = self.word(id).load(Ordering::Acquire);
            let is_its_own = word & ACTIVE == 0 || word == ACTIVE | id;
            if is_its_own && id >= self.low.load(Ordering::Acquire) {
                return decode(word);
            }
        }
        // Most rows are older than the transactions that have not ended for long, and their readers
        // take no lock.
        if id >= self.oldest_straggler.load(Ordering::Acquire)
            && let Some(&word) = self.stragglers.read().get(&id)
        {
            return decode(word);
        }
        TxnStatus::Committed(CommitNo(0))
    }

    /// What is known of ended transactions before a version is read: to be taken first, for
    /// [`CommitMap::is_doubtful`].
    #[must_use]
    pub fn moment(&self) -> Moment {
        // In this order: an id below `low` that has not ended is among the stragglers by then.
        let low = self.low();
        let oldest_straggler = self.oldest_straggler.load(Ordering::Acquire);
        Moment { low, oldest_straggler, last_commit: self.clock.last_commit() }
    }

    /// True if a version by `id`, read after `before`, may have been undone since, by a rollback of
    /// its transaction or by one to a savepoint before its commit: then it has to be read again. If
    /// the transaction had ended by `before`, all that it undid was gone.
    #[must_use]
    pub fn is_doubtful(&self, id: TxnId, before: Moment) -> bool {
        match self.status(id) {
            TxnStatus::Active => false,
            TxnStatus::Committed(CommitNo(0)) => id >= before.low || id.0 >= before.oldest_straggler,
            TxnStatus::Committed(no) => no > before.last_commit && !holdfast_base::planted!("undone-version-believed"),
            TxnStatus::RolledBack => true,
        }
    }

    /// True if `id` has not ended for every thread: a transaction whose number is not published yet
    /// has not. A view that is opened now does not see it, so a waiter that was told of its end
    /// would not see what it waited for.
    #[must_use]
    pub fn is_active(&self, id: TxnId) -> bool {
        match self.status(id) {
            TxnStatus::Active => true,
            TxnStatus::Committed(no) => no > self.clock.last_commit(),
            TxnStatus::RolledBack => false,
        }
    }

    /// Records that `id` committed as number `no`, which is not published yet.
    pub fn set_committed(&self, id: TxnId, no: CommitNo) {
        self.set(id.0, no.0);
    }

    /// Records that `id` was rolled back; `no` is a number of its own, not published yet.
    pub fn set_rolled_back(&self, id: TxnId, no: CommitNo) {
        self.set(id.0, no.0 | ABORTED);
    }

    fn set(&self, id: u64, word: u64) {
        let is_in_ring = id >= self.low.load(Ordering::Acquire);
        let replaced = || self.word(id).compare_exchange(ACTIVE | id, word, Ordering::AcqRel, Ordering::Relaxed);
        if (!is_in_ring || replaced().is_err()) && !holdfast_base::planted!("straggler-forgotten") {
            let straggled = self.stragglers.write().insert(id, word);
            debug_assert_eq!(straggled, Some(ACTIVE | id), "invariant: an end is not lost");
        }
    }

    /// The stragglers with ids below `low`.
    #[must_use]
    pub fn stragglers_below(&self, low: TxnId) -> Vec<TxnId> {
        self.stragglers.read().keys().filter(|id| **id < low.0).map(|id| TxnId(*id)).collect()
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.ring.len() * 8 + self.straggling.load(Ordering::Relaxed) * 32
    }
}

impl WindowGuard<'_> {
    /// True if there is no room for the next id.
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.map.has_room(self.map.clock.next_id())
    }

    /// Moves `low` up while the lowest ids have ended at or before `horizon`, the oldest short
    /// view's number. Forgets stragglers by the same rule.
    pub fn advance(&self, horizon: CommitNo) {
        let (mut low, end) = (self.map.low().0, self.end());
        while low < end && ended_by(self.map.word(low).load(Ordering::Acquire), horizon) {
            low += 1;
        }
        self.raise_low(low);
        if self.map.straggling.load(Ordering::Relaxed) > 0 {
            let mut stragglers = self.map.stragglers.write();
            stragglers.retain(|_, word| !ended_by(*word, horizon));
            self.show_stragglers(&stragglers);
        }
    }

    /// The end of the ids that were given out and have words.
    fn end(&self) -> u64 {
        self.map.clock.next_id().0.min(self.map.limit.load(Ordering::Acquire))
    }

    /// Makes room: [`WindowGuard::advance`], and if that is not enough, ids at the low end that
    /// have not ended (or ended after `horizon`) become stragglers until half of the window is
    /// free.
    pub fn cut(&self, horizon: CommitNo) {
        self.advance(horizon);
        let (mut low, end) = (self.map.low().0, self.end());
        let keep = self.map.ring.len() as u64 / 2;
        if end - low <= keep {
            return;
        }
        let mut stragglers = self.map.stragglers.write();
        // A reader that finds a word gone looks here, and waits for the lock.
        let oldest = self.map.oldest_straggler.load(Ordering::Relaxed);
        self.map.oldest_straggler.store(oldest.min(low), Ordering::Release);
        while end - low > keep {
            let word = self.map.word(low).swap(self.next_active(low), Ordering::AcqRel);
            if !ended_by(word, horizon) {
                stragglers.insert(low, word);
            }
            low += 1;
        }
        // Before `low` is raised: see `moment`.
        self.show_stragglers(&stragglers);
        drop(stragglers);
        self.raise_low(low);
    }

    /// Shows how many stragglers there are, and which is the oldest. The caller holds their lock.
    fn show_stragglers(&self, stragglers: &HashMap<u64, u64>) {
        let oldest = stragglers.keys().copied().min().unwrap_or(NONE_STRAGGLES);
        self.map.oldest_straggler.store(oldest, Ordering::Release);
        self.map.straggling.store(stragglers.len(), Ordering::Release);
    }

    /// What the word of `id` says once the id has left the window.
    fn next_active(&self, id: u64) -> u64 {
        ACTIVE | (id + self.map.ring.len() as u64)
    }

    /// A reader that finds the word of a later id finds `low` raised; a transaction that may use an
    /// id finds that its word says so.
    fn raise_low(&self, to: u64) {
        let from = self.map.low().0;
        self.map.low.store(to, Ordering::Release);
        for id in from..to {
            self.map.word(id).store(self.next_active(id), Ordering::Release);
        }
        self.map.limit.store(to + self.map.ring.len() as u64, Ordering::Release);
    }
}

/// What the word at `at` of `len` says for the first of the ids from `next` on that comes there.
fn first_active(at: u64, next: u64, len: u64) -> u64 {
    // The length is a power of two, so the remainder is that of the difference also if it wraps.
    ACTIVE | (next + at.wrapping_sub(next) % len)
}

fn ended_by(word: u64, horizon: CommitNo) -> bool {
    word & ACTIVE == 0 && word & !ABORTED <= horizon.0
}

fn decode(word: u64) -> TxnStatus {
    match word {
        w if w & ACTIVE != 0 => TxnStatus::Active,
        w if w & ABORTED != 0 => TxnStatus::RolledBack,
        w => TxnStatus::Committed(CommitNo(w)),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn allocate(map: &CommitMap, horizon: CommitNo) -> TxnId {
        let id = map.allocate();
        while !map.has_room(id) {
            map.lock_window().cut(horizon);
        }
        id
    }

    #[test]
    fn ids_go_through_their_states() {
        let map = CommitMap::new(64, &CommitClock::new(TxnId(10), CommitNo(0)), &[TxnId(3)]);
        assert_eq!(map.status(TxnId(3)), TxnStatus::Active);
        assert_eq!(map.status(TxnId(4)), TxnStatus::Committed(CommitNo(0)));
        let a = map.allocate();
        let b = map.allocate();
        assert_eq!((a, b), (TxnId(10), TxnId(11)));
        assert!(map.is_active(a));
        map.set_committed(a, CommitNo(1));
        map.set_rolled_back(b, CommitNo(2));
        assert_eq!(map.status(a), TxnStatus::Committed(CommitNo(1)));
        assert_eq!(map.status(b), TxnStatus::RolledBack);
        map.lock_window().advance(CommitNo(1));
        assert_eq!(map.status(a), TxnStatus::Committed(CommitNo(0)));
        assert_eq!(map.status(b), TxnStatus::RolledBack);
        assert!(map.is_active(TxnId(3)));
        map.set_committed(TxnId(3), CommitNo(3));
        map.lock_window().advance(CommitNo(2));
        assert_eq!(map.status(TxnId(3)), TxnStatus::Committed(CommitNo(3)));
        map.lock_window().advance(CommitNo(3));
        assert_eq!(map.status(TxnId(3)), TxnStatus::Committed(CommitNo(0)));
    }

    #[test]
    fn a_commit_has_not_ended_before_its_number_is_published() {
        let clock = CommitClock::new(TxnId(1), CommitNo(0));
        let map = CommitMap::new(64, &clock, &[]);
        let id = map.allocate();
        map.set_committed(id, CommitNo(1));
        assert!(map.is_active(id));
        clock.publish(CommitNo(1));
        assert!(!map.is_active(id));
    }

    /// Its transaction may have undone a statement between the look at the version and its end.
    #[test]
    fn a_version_is_in_doubt_unless_its_transaction_had_ended_before_it_was_read() {
        let clock = CommitClock::new(TxnId(1), CommitNo(0));
        let map = CommitMap::new(64, &clock, &[]);
        let id = map.allocate();
        let before = map.moment();
        assert!(!map.is_doubtful(id, before), "an active transaction is waited for");
        map.set_committed(id, CommitNo(1));
        clock.publish(CommitNo(1));
        assert!(map.is_doubtful(id, before));
        let after = map.moment();
        assert!(!map.is_doubtful(id, after));
        map.lock_window().advance(CommitNo(1));
        assert!(map.is_doubtful(id, before) && map.is_doubtful(id, after), "nothing is known of it by now");
        assert!(!map.is_doubtful(id, map.moment()));
    }

    #[test]
    fn a_full_window_leaves_the_active_behind_as_stragglers() {
        let map = CommitMap::new(64, &CommitClock::new(TxnId(1), CommitNo(0)), &[]);
        let old = map.allocate();
        for no in 1..1_000 {
            let id = allocate(&map, CommitNo(no - 1));
            map.set_committed(id, CommitNo(no));
        }
        assert!(map.is_active(old));
        map.set_committed(old, CommitNo(1_000));
        assert_eq!(map.status(old), TxnStatus::Committed(CommitNo(1_000)));
        map.lock_window().advance(CommitNo(1_000));
        assert_eq!(map.status(old), TxnStatus::Committed(CommitNo(0)));
        assert_eq!(map.straggling.load(Ordering::Relaxed), 0);
    }

    /// As long as one transaction had not ended, each row that others had written before was taken
    /// for one that may have been undone: each change looked for its row twice.
    #[test]
    fn what_is_older_than_all_stragglers_is_not_in_doubt() {
        let clock = CommitClock::new(TxnId(1), CommitNo(0));
        let map = CommitMap::new(64, &clock, &[]);
        let commit = |id, no| {
            map.set_committed(id, CommitNo(no));
            clock.publish(clock.take_no());
        };
        let [before, old] = [(); 2].map(|()| map.allocate());
        commit(before, 1);
        for no in 2..1_000 {
            commit(allocate(&map, CommitNo(no - 1)), no);
        }
        assert!(map.is_active(old) && map.low() > old);
        let moment = map.moment();
        assert!(!map.is_doubtful(before, moment));
        commit(old, 1_000);
        map.lock_window().advance(CommitNo(1_000));
        assert_eq!(map.status(old), TxnStatus::Committed(CommitNo(0)));
        assert!(map.is_doubtful(old, moment), "it had not ended");
        assert!(!map.is_doubtful(old, map.moment()));
    }

    #[test]
    fn a_full_window_has_no_room() {
        let map = CommitMap::new(4, &CommitClock::new(TxnId(1), CommitNo(0)), &[]);
        let ids: Vec<_> = std::iter::repeat_with(|| map.allocate()).take_while(|id| map.has_room(*id)).collect();
        assert_eq!(ids, [1, 2, 3, 4].map(TxnId));
        assert!(map.lock_window().is_full() && map.is_active(TxnId(5)));
        map.set_committed(TxnId(1), CommitNo(1));
        map.lock_window().advance(CommitNo(1));
        assert_eq!((map.has_room(TxnId(5)), map.has_room(TxnId(6))), (true, false));
        // Its word was that of the first.
        assert!(map.is_active(TxnId(5)));
    }

    #[test]
    fn every_word_says_at_first_which_id_comes_to_it() {
        for next in [1, 6, 63, 64, 1_000_003] {
            let map = CommitMap::new(64, &CommitClock::new(TxnId(next), CommitNo(0)), &[]);
            for id in next..next + 64 {
                assert_eq!(map.word(id).load(Ordering::Relaxed), ACTIVE | id);
            }
        }
    }
}

/// The protocol under random interleavings. Run with `RUSTFLAGS="--cfg shuttle"`.
#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use shuttle::thread::spawn;

    use super::*;

    struct Commits {
        map: CommitMap,
        clock: Arc<CommitClock>,
    }

    impl Commits {
        fn begin(&self) -> TxnId {
            let id = self.map.allocate();
            while !self.map.has_room(id) {
                let window = self.map.lock_window();
                if window.is_full() {
                    window.cut(self.clock.last_commit());
                }
            }
            id
        }

        fn commit(&self, id: TxnId) -> CommitNo {
            let no = self.clock.take_no();
            self.map.set_committed(id, no);
            self.clock.publish(no);
            no
        }
    }

    /// Ids are active until they commit, and committed from then on, whatever becomes of the window
    /// meanwhile.
    #[test]
    fn what_committed_stays_so_while_the_window_moves() {
        let run = || {
            let clock = CommitClock::new(TxnId(1), CommitNo(0));
            let commits = Arc::new(Commits { map: CommitMap::new(4, &clock, &[]), clock });
            let work = |commits: Arc<Commits>| {
                let mut ended: Vec<(TxnId, CommitNo)> = Vec::new();
                for _ in 0..4 {
                    let id = commits.begin();
                    assert!(commits.map.is_active(id), "{id} has not ended");
                    for &(id, no) in &ended {
                        let status = commits.map.status(id);
                        let committed = [TxnStatus::Committed(no), TxnStatus::Committed(CommitNo(0))];
                        assert!(committed.contains(&status), "{id} committed as {no} is {status:?}");
                    }
                    if commits.map.is_worth_advancing(id)
                        && let Some(window) = commits.map.try_lock_window()
                    {
                        window.advance(commits.clock.last_commit());
                    }
                    ended.push((id, commits.commit(id)));
                }
                ended.into_iter().map(|(id, _)| id.0).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..3).map(|_| commits.clone()).map(|c| spawn(move || work(c))).collect();
            let mut ids: Vec<u64> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
            ids.sort_unstable();
            assert_eq!(ids, (1..=12).collect::<Vec<_>>(), "each id was given out once");
        };
        shuttle::check_random(run, 3_000);
    }

    /// A transaction writes an entry, undoes that and commits while a reader reads the entry.
    #[test]
    fn what_was_undone_before_a_commit_is_not_believed() {
        const NO_WRITER: u64 = 0;
        let run = || {
            let clock = CommitClock::new(TxnId(1), CommitNo(0));
            let commits = Arc::new(Commits { map: CommitMap::new(4, &clock, &[]), clock });
            let entry = Arc::new(AtomicU64::new(NO_WRITER));
            let writer = {
                let (commits, entry) = (Arc::clone(&commits), Arc::clone(&entry));
                spawn(move || {
                    let id = commits.begin();
                    entry.store(id.0, Ordering::SeqCst);
                    entry.store(NO_WRITER, Ordering::SeqCst);
                    commits.commit(id);
                })
            };
            let before = commits.map.moment();
            let found = TxnId(entry.load(Ordering::SeqCst));
            let is_believed = !commits.map.is_active(found) && !commits.map.is_doubtful(found, before);
            assert!(found.0 == NO_WRITER || !is_believed, "what {found} has undone counts as committed");
            writer.join().unwrap();
        };
        shuttle::check_random(run, 3_000);
    }

    /// The same, while the window is cut behind the writer, which is forgotten when it has ended.
    #[test]
    fn nor_is_it_if_its_writer_has_left_the_window() {
        const NO_WRITER: u64 = 0;
        let run = || {
            let clock = CommitClock::new(TxnId(1), CommitNo(0));
            let commits = Arc::new(Commits { map: CommitMap::new(4, &clock, &[]), clock });
            let (entry, id) = (Arc::new(AtomicU64::new(NO_WRITER)), commits.begin());
            (0..3).for_each(|_| drop(commits.commit(commits.begin())));
            let writer = {
                let (commits, entry) = (Arc::clone(&commits), Arc::clone(&entry));
                spawn(move || {
                    commits.map.lock_window().cut(commits.clock.last_commit());
                    entry.store(id.0, Ordering::SeqCst);
                    entry.store(NO_WRITER, Ordering::SeqCst);
                    commits.commit(id);
                    commits.map.lock_window().advance(commits.clock.last_commit());
                })
            };
            let before = commits.map.moment();
            let found = TxnId(entry.load(Ordering::SeqCst));
            let is_believed = !commits.map.is_active(found) && !commits.map.is_doubtful(found, before);
            assert!(found.0 == NO_WRITER || !is_believed, "what {found} has undone counts as committed");
            writer.join().unwrap();
        };
        // Each of the two threads has to stop at one place while the other one goes far.
        shuttle::check_pct(run, 500_000, 4);
    }
}
