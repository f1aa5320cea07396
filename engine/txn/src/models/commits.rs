//! The order of commits, and the commit map.

use std::sync::Arc;

use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::{CommitNo, TxnId};

use super::explore::{ALL_ORDERS, ONE_ORDER, ORDERS_OF_TWO, explore};
use crate::mvcc::clock::CommitClock;
use crate::mvcc::commit_map::{CommitMap, TxnStatus, WindowGuard};

/// The ends of transactions.
pub(super) struct Commits {
    pub clock: Arc<CommitClock>,
    pub map: CommitMap,
}

/// The only transaction of [`Commits::full`] that has not ended, and the next one.
pub(super) const OLD: TxnId = TxnId(1);
pub(super) const NEXT: TxnId = TxnId(5);

impl Commits {
    /// A window of four ids. The first has not ended, the others have, and the window is full.
    pub fn full() -> Commits {
        let clock = CommitClock::new(OLD, CommitNo(0));
        let commits = Commits { map: CommitMap::new(4, &clock, &[]), clock };
        let ids = [(); 4].map(|()| commits.map.allocate());
        for &id in &ids[1..] {
            commits.commit(id);
        }
        commits
    }

    /// As `TxnSystem::commit_log` does it.
    pub fn commit(&self, id: TxnId) -> CommitNo {
        let no = self.clock.take_no();
        self.map.set_committed(id, no);
        self.clock.publish(no);
        no
    }

    /// As `TxnSystem::new_txn_id` does it. `horizon` makes views long and returns the oldest short
    /// one.
    pub fn begin(&self, horizon: impl FnOnce(&WindowGuard<'_>) -> CommitNo) -> TxnId {
        let id = self.map.allocate();
        assert!(!self.map.has_room(id));
        let window = self.map.lock_window();
        assert!(window.is_full());
        window.cut(horizon(&window));
        drop(window);
        assert!(self.map.has_room(id));
        id
    }
}

/// What every commit up to the last one has stored before it was published is seen by the thread
/// that reads the last commit; a commit is covered when its publication returns; and each
/// publication returns, also those of numbers that have one place in the ring, and of threads that
/// have parked.
#[test]
pub(super) fn what_the_last_commit_covers_is_known() {
    struct Model {
        clock: Arc<CommitClock>,
        known: [AtomicU64; 3],
    }
    fn commit(model: &Model) {
        let no = model.clock.take_no();
        model.known[no.0 as usize - 1].store(1, Ordering::Relaxed);
        model.clock.publish(no);
        let last = model.clock.last_commit();
        assert!(last >= no);
        assert!(model.known[..last.0 as usize].iter().all(|known| known.load(Ordering::Relaxed) == 1));
    }
    let make = || Model { clock: CommitClock::new(TxnId(1), CommitNo(0)), known: [(); 3].map(|()| AtomicU64::new(0)) };
    explore(2, &ONE_ORDER, make, [commit; 3], |model| assert_eq!(model.clock.last_commit(), CommitNo(3)));
}

/// A transaction ends while its id is taken out of the window, and its word is given to the next
/// id.
#[test]
pub(super) fn an_end_is_not_lost() {
    fn end(commits: &Commits) {
        assert_eq!(commits.commit(OLD), CommitNo(4));
    }
    fn begin(commits: &Commits) {
        let next = commits.begin(|_| commits.clock.last_commit());
        assert!(commits.map.is_active(next), "the word is that of {next}");
    }
    fn ask(commits: &Commits) {
        let last = commits.clock.last_commit();
        match commits.map.status(OLD) {
            TxnStatus::Active => assert_eq!(last, CommitNo(3)),
            // All views see it.
            TxnStatus::Committed(CommitNo(0)) => assert_eq!(commits.clock.last_commit(), CommitNo(4)),
            status => assert_eq!(status, TxnStatus::Committed(CommitNo(4))),
        }
    }
    explore(1, &ALL_ORDERS, Commits::full, [end, begin, ask], |commits| {
        assert!(!commits.map.is_active(OLD) && commits.map.is_active(NEXT));
        let known = [TxnStatus::Committed(CommitNo(4)), TxnStatus::Committed(CommitNo(0))];
        assert!(known.contains(&commits.map.status(OLD)));
    });
}

/// The word of a transaction that has not ended passes to one that ends.
#[test]
fn an_end_is_not_taken_for_that_of_another() {
    fn begin_and_end(commits: &Commits) {
        commits.commit(commits.begin(|_| commits.clock.last_commit()));
    }
    fn ask(commits: &Commits) {
        assert_eq!(commits.map.status(OLD), TxnStatus::Active);
    }
    explore(2, &ORDERS_OF_TWO, Commits::full, [begin_and_end, ask, |_| {}], |_| {});
}

/// A transaction that finds room made by another thread finds that the word is its own.
#[test]
fn an_id_has_its_word_before_it_is_used() {
    fn cut(commits: &Commits) {
        commits.map.lock_window().cut(commits.clock.last_commit());
    }
    fn run(commits: &Commits) {
        let id = commits.map.allocate();
        if commits.map.has_room(id) {
            assert!(commits.map.is_active(id));
            let no = commits.commit(id);
            assert_eq!(commits.map.status(id), TxnStatus::Committed(no));
        }
    }
    fn end(commits: &Commits) {
        commits.commit(OLD);
    }
    explore(2, &ALL_ORDERS, Commits::full, [cut, run, end], |commits| assert!(!commits.map.is_active(OLD)));
}

/// A transaction writes an entry, undoes that and commits, while another reads the entry. Its word
/// has left the window before, and it is forgotten at last.
#[test]
pub(super) fn what_was_undone_before_a_commit_is_not_believed() {
    struct Model {
        commits: Commits,
        writer: AtomicU64,
    }
    fn write(model: &Model) {
        let (clock, map) = (&model.commits.clock, &model.commits.map);
        map.lock_window().cut(clock.last_commit());
        // Under the latch of the page, in the engine.
        model.writer.store(OLD.0, Ordering::Release);
        model.writer.store(TxnId::NONE.0, Ordering::Release);
        model.commits.commit(OLD);
        map.lock_window().advance(clock.last_commit());
    }
    fn read(model: &Model) {
        let map = &model.commits.map;
        let before = map.moment();
        let found = TxnId(model.writer.load(Ordering::Acquire));
        let is_believed = found != TxnId::NONE && !map.is_active(found) && !map.is_doubtful(found, before);
        assert!(!is_believed, "what {found} has undone counts as committed");
    }
    let make = || Model { commits: Commits::full(), writer: AtomicU64::new(TxnId::NONE.0) };
    explore(2, &ORDERS_OF_TWO, make, [write, read, |_| {}], |_| {});
}
