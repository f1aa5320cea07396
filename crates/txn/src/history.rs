//! The history: the last commit number, and the logs of committed transactions that wait for purge,
//! in commit order.
//!
//! # Protocol
//! One mutex, held for a microsecond at most: its holder is in the *commit critical
//! section* (see [`crate::system`]), or takes logs away. The number and the queue are under the
//! same mutex, because every commit needs both: with a mutex each, a core would fetch two lines of
//! memory from the core that committed before.
//!
//! A number counts as taken when its log is pushed; a rollback takes one that has no log. How many
//! logs there are, and their pages, can be asked without the mutex.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use holdfast_base::blocking::MutexGuard;
use holdfast_base::{CommitNo, ShortMutex};
use smallvec::SmallVec;

use crate::shelving::BATCH_LOGS;
use crate::undo::UndoLog;

/// A committed log that waits for purge.
#[derive(Debug)]
pub(crate) struct CommittedLog {
    pub no: CommitNo,
    pub log: UndoLog,
    pub phase: Phase,
}

impl CommittedLog {
    /// Whether purge has nothing to do for the log but to copy what old views need.
    pub fn is_quiet(&self) -> bool {
        !self.log.asks_purge()
    }

    /// True if the log can be retired without a read or a write once no view needs it: it is quiet,
    /// of one page, and purge has not begun with it.
    pub fn is_free_to_let_go(&self) -> bool {
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

/// Logs that are taken at a time.
pub(crate) type Taken = SmallVec<[CommittedLog; BATCH_LOGS]>;

#[derive(Debug)]
struct Queue {
    last: CommitNo,
    logs: VecDeque<CommittedLog>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct History {
    queue: ShortMutex<Queue>,
    /// Both are changed under the mutex: its holder has their line of memory as well, and need not
    /// fetch it from another core a second time.
    logs: AtomicUsize,
    pages: AtomicU64,
}

/// The commit critical section, as long as it lives.
pub(crate) struct CommitSection<'a> {
    history: &'a History,
    queue: MutexGuard<'a, Queue>,
}

impl CommitSection<'_> {
    /// The number of the next commit.
    pub fn next_no(&self) -> CommitNo {
        CommitNo(self.queue.last.0 + 1)
    }

    /// Takes the next number for the end of a transaction that leaves no log.
    pub fn take_no(&mut self) -> CommitNo {
        self.queue.last = self.next_no();
        self.queue.last
    }

    /// Queues the log of a commit. Its number, if it is the next one, is taken by that.
    pub fn push(&mut self, log: CommittedLog) {
        self.queue.last = self.queue.last.max(log.no);
        let pages = self.history.pages() + log.log.pages() as u64;
        self.queue.logs.push_back(log);
        self.history.show(&self.queue, pages);
    }
}

impl History {
    /// No logs; the last commit was `last`.
    pub fn new(last: CommitNo) -> History {
        let queue = ShortMutex::new(Queue { last, logs: VecDeque::new() });
        History { queue, logs: AtomicUsize::new(0), pages: AtomicU64::new(0) }
    }

    /// Enters the commit critical section.
    pub fn lock(&self) -> CommitSection<'_> {
        CommitSection { history: self, queue: self.queue.lock() }
    }

    /// Shows how many logs there are, and that they have so many pages.
    fn show(&self, queue: &Queue, pages: u64) {
        self.logs.store(queue.logs.len(), Ordering::Relaxed);
        self.pages.store(pages, Ordering::Relaxed);
    }

    /// Puts back what could not be purged.
    pub fn put_back(&self, log: CommittedLog) {
        let mut queue = self.queue.lock();
        let pages = self.pages() + log.log.pages() as u64;
        queue.logs.push_front(log);
        self.show(&queue, pages);
    }

    /// Takes the oldest log if `wanted`.
    pub fn take_if(&self, wanted: impl FnOnce(&CommittedLog) -> bool) -> Option<CommittedLog> {
        let mut queue = self.queue.lock();
        let is_wanted = queue.logs.front().is_some_and(wanted);
        self.take_front(&mut queue, usize::from(is_wanted)).pop()
    }

    /// Takes the oldest logs as long as they are `wanted`, up to a batch.
    pub fn take_while(&self, mut wanted: impl FnMut(&CommittedLog) -> bool) -> Taken {
        let mut queue = self.queue.lock();
        let n = queue.logs.iter().take(BATCH_LOGS).take_while(|log| wanted(log)).count();
        self.take_front(&mut queue, n)
    }

    /// Takes the first `n` logs, if they are those from commit `first` to commit `last` and no
    /// thread has begun with them. Calls `place` before another thread can see the queue without
    /// them.
    pub fn take_run(&self, n: usize, first: CommitNo, last: CommitNo, place: impl FnOnce()) -> Option<Taken> {
        let mut queue = self.queue.lock();
        let is = |at: usize, no: CommitNo| queue.logs.get(at).is_some_and(|h| h.no == no && h.phase == Phase::New);
        if !is(0, first) || !is(n.checked_sub(1)?, last) {
            return None;
        }
        let taken = self.take_front(&mut queue, n);
        place();
        Some(taken)
    }

    fn take_front(&self, queue: &mut Queue, n: usize) -> Taken {
        let taken: Taken = queue.logs.drain(..n).collect();
        self.show(queue, self.pages() - taken.iter().map(|log| log.log.pages() as u64).sum::<u64>());
        taken
    }

    /// Shows the logs, oldest first, as long as `look` wants another one.
    pub fn look(&self, look: impl FnMut(&CommittedLog) -> bool) {
        let _ = self.queue.lock().logs.iter().all(look);
    }

    /// What `look` says about the oldest log, if there is one.
    pub fn front<R>(&self, look: impl FnOnce(&CommittedLog) -> R) -> Option<R> {
        self.queue.lock().logs.front().map(look)
    }

    /// Whether there is an oldest log, and it is `what`.
    pub fn front_is(&self, what: impl FnOnce(&CommittedLog) -> bool) -> bool {
        self.queue.lock().logs.front().is_some_and(what)
    }

    /// Number of logs.
    pub fn len(&self) -> usize {
        self.logs.load(Ordering::Relaxed)
    }

    /// Pages of the logs.
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits with so many pages of undo each.
    fn committed(pages: &[usize]) -> History {
        let history = History::new(CommitNo(10));
        for &pages in pages {
            let mut commits = history.lock();
            let log = CommittedLog { no: commits.next_no(), log: UndoLog::in_memory(pages), phase: Phase::New };
            commits.push(log);
        }
        history
    }

    fn numbers(logs: &[CommittedLog]) -> Vec<u64> {
        logs.iter().map(|log| log.no.0).collect()
    }

    #[test]
    fn every_end_has_a_number_of_its_own() {
        let history = committed(&[1]);
        assert_eq!(history.lock().take_no(), CommitNo(12));
        assert_eq!(history.lock().next_no(), CommitNo(13));
        assert_eq!(history.lock().next_no(), CommitNo(13), "one that was looked at, and not used, is the next one's");
    }

    #[test]
    fn an_old_log_takes_no_number() {
        let history = committed(&[]);
        let log = CommittedLog { no: CommitNo(3), log: UndoLog::in_memory(1), phase: Phase::RECOVERED };
        history.lock().push(log);
        assert_eq!((history.lock().next_no(), history.len()), (CommitNo(11), 1));
    }

    #[test]
    fn logs_and_pages_are_counted_as_they_come_and_go() {
        let history = committed(&[1, 4, 2]);
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
        let history = committed(&[1; BATCH_LOGS + 1]);
        assert_eq!(history.take_while(|_| true).len(), BATCH_LOGS);
        assert_eq!(history.len(), 1);
    }

    #[test]
    fn a_run_is_taken_if_it_is_still_there_and_untouched() {
        let history = committed(&[1, 1, 1]);
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
