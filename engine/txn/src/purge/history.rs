//! The history: the logs of committed transactions that wait for purge.
//!
//! # Protocol
//! A log *arrives* in the list of its thread's group, under that list's mutex, with the number of
//! its commit taken there: so a list is in commit order, and threads of different groups do not
//! meet. Most logs leave from there: they ask nothing of purge and no view is older, and a
//! committer of the group retires them.
//!
//! What has to wait is *gathered*: a thread takes the logs out of all lists that were published,
//! and appends them to the *queue* in commit order. The number is published after the log has
//! arrived, so all logs up to the last commit are there to be gathered (invariant *the queue is in
//! commit order*): those that arrive later come later in the queue. Purge, and the shelf, take what
//! is first in the queue.
//!
//! How many logs there are, and their pages with those of the large values that they keep, can be
//! asked without a mutex. `models/history.rs` explores the protocol under loom.
//!
//! # Lock order
//! queue -> list of a group -> stragglers of the commit map; queue -> order of the shelf.

use std::collections::VecDeque;

use holdfast_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use holdfast_base::{CommitNo, ShortMutex};
use holdfast_metrics::Spread;
use smallvec::SmallVec;

use crate::mvcc::clock::CommitClock;
use crate::undo::UndoLog;

/// Logs that are taken, or shelved, at a time.
pub(crate) const BATCH_LOGS: usize = 16;

/// A committed log that waits for purge.
#[derive(Debug)]
pub(crate) struct CommittedLog {
    pub no: CommitNo,
    pub log: UndoLog,
    pub phase: Phase,
}

impl CommittedLog {
    /// True if purge has nothing to do for the log but to copy what old views need.
    pub fn is_quiet(&self) -> bool {
        !self.log.asks_purge()
    }

    /// True if the log can be retired without a read or a write once no view needs it: it is quiet,
    /// of one page, and purge has not begun with it.
    pub fn is_retirable(&self) -> bool {
        self.is_quiet() && self.phase == Phase::New && self.log.pages() == 1
    }
}

/// How far the purge of a log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not begun.
    New,
    /// What long views need is being copied to the version tree; so many records are left.
    Copying(u64),
    /// Records are being cut off.
    Cutting {
        /// Delete marks are still to be removed.
        marks: bool,
        /// The version tree may have taken over images, by this run or by an earlier one.
        copied: bool,
    },
}

impl Phase {
    /// Of a log that an earlier run committed, and perhaps half purged.
    pub const RECOVERED: Phase = Phase::Cutting { marks: true, copied: true };
}

/// A batch of logs.
pub(crate) type Taken = SmallVec<[CommittedLog; BATCH_LOGS]>;

/// Logs, oldest first, and how many there are, for threads that do not hold the mutex.
#[derive(Debug, Default)]
struct Logs {
    logs: ShortMutex<VecDeque<CommittedLog>>,
    /// Both are changed under the mutex: its holder has their line of memory as well, and need not
    /// fetch it from another core a second time.
    count: AtomicUsize,
    pages: AtomicU64,
}

impl Logs {
    /// Shows how many logs there are, and that they have so many pages.
    fn show(&self, logs: &VecDeque<CommittedLog>, pages: u64) {
        self.count.store(logs.len(), Ordering::Relaxed);
        self.pages.store(pages, Ordering::Relaxed);
    }

    fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn take_front(&self, logs: &mut VecDeque<CommittedLog>, n: usize) -> Taken {
        let taken: Taken = logs.drain(..n).collect();
        self.show(logs, self.pages() - pages_of(&taken));
        taken
    }

    /// Takes the oldest logs as long as they are `wanted`, up to a batch.
    fn take_while(&self, mut wanted: impl FnMut(&CommittedLog) -> bool) -> Taken {
        let mut logs = self.logs.lock();
        let n = logs.iter().take(BATCH_LOGS).take_while(|log| wanted(log)).count();
        self.take_front(&mut logs, n)
    }
}

fn pages_of(logs: &[CommittedLog]) -> u64 {
    logs.iter().map(|log| log.log.held_pages()).sum()
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct History {
    arrived: Spread<Logs>,
    queue: Logs,
}

impl History {
    /// Enters the log of a commit. `number` takes the number of the commit and makes the commit
    /// known but for the publication of the number, which has to follow. Returns the number, and
    /// how many logs of the thread's group have not been gathered.
    pub fn arrive(&self, log: UndoLog, number: impl FnOnce() -> CommitNo) -> (CommitNo, usize) {
        let mine = self.arrived.mine();
        let mut logs = mine.logs.lock();
        let no = number();
        debug_assert!(logs.back().is_none_or(|last| last.no < no), "invariant: a list is in commit order");
        let pages = mine.pages() + log.held_pages();
        logs.push_back(CommittedLog { no, log, phase: Phase::New });
        mine.show(&logs, pages);
        (no, logs.len())
    }

    /// Appends the log of a commit of an earlier run to the queue.
    pub fn push_recovered(&self, no: CommitNo, log: UndoLog) {
        let mut queue = self.queue.logs.lock();
        let pages = self.queue.pages() + log.held_pages();
        queue.push_back(CommittedLog { no, log, phase: Phase::RECOVERED });
        self.queue.show(&queue, pages);
    }

    /// Moves the logs that have arrived, and whose numbers are published, to the queue.
    pub fn gather(&self, clock: &CommitClock) {
        let mut queue = self.queue.logs.lock();
        let all = holdfast_base::planted!("gathered-before-published");
        // Under the mutex: what a thread gathered before is older.
        let last = if all { CommitNo(u64::MAX) } else { clock.last_commit() };
        let mut gathered = Taken::new();
        for list in self.arrived.all() {
            if list.len() > 0 {
                let mut logs = list.logs.lock();
                let n = logs.partition_point(|log| log.no <= last);
                let pages = logs.iter().take(n).map(|log| log.log.held_pages()).sum::<u64>();
                gathered.extend(logs.drain(..n));
                list.show(&logs, list.pages() - pages);
            }
        }
        gathered.sort_unstable_by_key(|log| log.no);
        debug_assert!(
            queue.back().zip(gathered.first()).is_none_or(|(last, first)| last.no < first.no),
            "invariant: the queue is in commit order"
        );
        let pages = self.queue.pages() + pages_of(&gathered);
        queue.extend(gathered);
        self.queue.show(&queue, pages);
    }

    /// Takes the oldest logs of the thread's group that have not been gathered, as long as they are
    /// `wanted`, up to a batch.
    pub fn take_arrived(&self, wanted: impl FnMut(&CommittedLog) -> bool) -> Taken {
        self.arrived.mine().take_while(wanted)
    }

    /// How many logs of the thread's group have not been gathered.
    pub fn arrived(&self) -> usize {
        self.arrived.mine().len()
    }

    /// Puts back what could not be purged.
    pub fn put_back(&self, log: CommittedLog) {
        let mut queue = self.queue.logs.lock();
        let pages = self.queue.pages() + log.log.held_pages();
        queue.push_front(log);
        self.queue.show(&queue, pages);
    }

    /// Takes the first log of the queue if `wanted`.
    pub fn take_if(&self, wanted: impl FnOnce(&CommittedLog) -> bool) -> Option<CommittedLog> {
        let mut queue = self.queue.logs.lock();
        let is_wanted = queue.front().is_some_and(wanted);
        self.queue.take_front(&mut queue, usize::from(is_wanted)).pop()
    }

    /// Takes the first logs of the queue as long as they are `wanted`, up to a batch.
    pub fn take_while(&self, wanted: impl FnMut(&CommittedLog) -> bool) -> Taken {
        self.queue.take_while(wanted)
    }

    /// Takes the first `n` logs of the queue, if they are those from commit `first` to commit
    /// `last` and no thread has begun with them. Calls `place` before another thread can see the
    /// queue without them.
    pub fn take_run(&self, n: usize, first: CommitNo, last: CommitNo, place: impl FnOnce()) -> Option<Taken> {
        let mut queue = self.queue.logs.lock();
        let is = |at: usize, no: CommitNo| queue.get(at).is_some_and(|h| h.no == no && h.phase == Phase::New);
        if !is(0, first) || !is(n.checked_sub(1)?, last) {
            return None;
        }
        let taken = self.queue.take_front(&mut queue, n);
        place();
        Some(taken)
    }

    /// Shows the logs of the queue, oldest first, as long as `look` wants another one.
    pub fn look(&self, look: impl FnMut(&CommittedLog) -> bool) {
        let _ = self.queue.logs.lock().iter().all(look);
    }

    /// Shows all logs that wait, but for those in the hands of purge, in any order.
    pub fn each(&self, mut look: impl FnMut(&UndoLog)) {
        // In this order: a log may be gathered in between.
        for list in self.arrived.all().chain([&self.queue]) {
            list.logs.lock().iter().for_each(|committed| look(&committed.log));
        }
    }

    /// What `look` says about the first log of the queue, if there is one.
    pub fn front<R>(&self, look: impl FnOnce(&CommittedLog) -> R) -> Option<R> {
        self.queue.logs.lock().front().map(look)
    }

    /// True if there is a first log in the queue, and it is `what`.
    pub fn front_is(&self, what: impl FnOnce(&CommittedLog) -> bool) -> bool {
        self.queue.logs.lock().front().is_some_and(what)
    }

    /// Number of logs in the queue.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Number of logs.
    pub fn len(&self) -> usize {
        self.queued() + self.arrived.all().map(Logs::len).sum::<usize>()
    }

    /// Pages of the logs, and of the large values that are kept for their records.
    pub fn pages(&self) -> u64 {
        self.queue.pages() + self.arrived.all().map(Logs::pages).sum::<u64>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use holdfast_base::TxnId;

    use super::*;

    /// Commits from number 11 on, with so many pages of undo each, by this thread. All are
    /// published and, if `gathered`, in the queue.
    fn committed(pages: &[usize], gathered: bool) -> (History, Arc<CommitClock>) {
        let (history, clock) = (History::default(), CommitClock::new(TxnId(1), CommitNo(10)));
        pages.iter().for_each(|&pages| commit(&history, &clock, pages));
        if gathered {
            history.gather(&clock);
        }
        (history, clock)
    }

    fn commit(history: &History, clock: &CommitClock, pages: usize) {
        let (no, _) = history.arrive(UndoLog::in_memory(pages), || clock.take_no());
        clock.publish(no);
    }

    fn numbers(logs: &[CommittedLog]) -> Vec<u64> {
        logs.iter().map(|log| log.no.0).collect()
    }

    #[test]
    fn logs_are_gathered_in_commit_order_from_all_groups() {
        let (history, clock) = committed(&[1], false);
        std::thread::scope(|scope| {
            scope.spawn(|| commit(&history, &clock, 1)).join().unwrap();
        });
        commit(&history, &clock, 1);
        assert_eq!((history.len(), history.queued(), history.arrived()), (3, 0, 2));
        history.gather(&clock);
        assert_eq!((history.len(), history.queued(), history.arrived()), (3, 3, 0));
        assert_eq!(numbers(&history.take_while(|_| true)), [11, 12, 13]);
    }

    #[test]
    fn a_log_is_not_gathered_before_its_number_is_published() {
        let (history, clock) = committed(&[1], false);
        let (no, waiting) = history.arrive(UndoLog::in_memory(1), || clock.take_no());
        assert_eq!((no, waiting), (CommitNo(12), 2));
        history.gather(&clock);
        assert_eq!((history.queued(), history.arrived()), (1, 1));
        clock.publish(no);
        history.gather(&clock);
        assert_eq!((history.queued(), history.arrived()), (2, 0));
    }

    #[test]
    fn logs_leave_from_where_they_arrived() {
        let (history, _) = committed(&[1, 2, 1], false);
        assert_eq!(numbers(&history.take_arrived(|log| log.no < CommitNo(13))), [11, 12]);
        assert_eq!((history.len(), history.pages(), history.arrived()), (1, 1, 1));
    }

    #[test]
    fn logs_of_an_earlier_run_are_in_the_queue_at_once() {
        let (history, clock) = committed(&[], false);
        history.push_recovered(CommitNo(3), UndoLog::in_memory(1));
        commit(&history, &clock, 1);
        history.gather(&clock);
        assert_eq!(numbers(&history.take_while(|_| true)), [3, 11]);
    }

    #[test]
    fn logs_and_pages_are_counted_as_they_come_and_go() {
        let (history, _) = committed(&[1, 4, 2], true);
        assert_eq!((history.len(), history.pages()), (3, 7));
        assert!(history.take_if(|log| log.no == CommitNo(12)).is_none(), "it is not the first");
        let first = history.take_if(|_| true).unwrap();
        assert_eq!((first.no, history.len(), history.pages()), (CommitNo(11), 2, 6));
        history.put_back(first);
        assert_eq!(numbers(&history.take_while(|log| log.no < CommitNo(13))), [11, 12]);
        assert_eq!((history.len(), history.pages()), (1, 2));
    }

    #[test]
    fn a_batch_is_taken_at_a_time() {
        let (history, _) = committed(&[1; BATCH_LOGS + 1], true);
        assert_eq!(history.take_while(|_| true).len(), BATCH_LOGS);
        assert_eq!(history.len(), 1);
    }

    #[test]
    fn a_run_is_taken_if_it_is_still_there_and_untouched() {
        let (history, _) = committed(&[1, 1, 1], true);
        let take = |n, first, last| {
            let mut placed = false;
            let taken = history.take_run(n, CommitNo(first), CommitNo(last), || placed = true);
            assert_eq!(taken.is_some(), placed);
            taken.map(|logs| numbers(&logs))
        };
        assert_eq!(take(0, 11, 11), None);
        assert_eq!(take(2, 12, 13), None, "it is not at the front");
        assert_eq!(take(2, 11, 13), None, "one has gone");
        let mut first = history.take_if(|_| true).unwrap();
        first.phase = Phase::Copying(1);
        history.put_back(first);
        assert_eq!(take(2, 11, 12), None, "purge has begun with it");
        history.take_if(|_| true);
        assert_eq!(take(2, 12, 13), Some(vec![12, 13]));
    }
}
