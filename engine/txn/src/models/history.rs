//! Logs that arrive in the history while others gather them.

use std::cell::RefCell;
use std::sync::Arc;

use holdfast_base::{CommitNo, TxnId};

use super::explore::{ALL_ORDERS, explore};
use super::undo::UndoLog;
use crate::mvcc::clock::CommitClock;
use crate::purge::history::History;

struct Model {
    history: History,
    clock: Arc<CommitClock>,
    /// The commits whose logs have left.
    taken: RefCell<Vec<u64>>,
}

impl Model {
    fn new() -> Model {
        let clock = CommitClock::new(TxnId(1), CommitNo(0));
        Model { history: History::default(), clock, taken: RefCell::default() }
    }

    fn commit(&self) {
        let (no, _) = self.history.arrive(UndoLog::in_memory(1), || self.clock.take_no());
        self.clock.publish(no);
    }

    fn queued(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        self.history.look(|log| {
            numbers.push(log.no.0);
            true
        });
        numbers
    }

    /// The queue has then all logs up to what was the last commit before, in the order of their
    /// commits, and none whose number is not published.
    fn gather(&self) {
        let before = self.clock.last_commit().0;
        self.history.gather(&self.clock);
        let queued = self.queued();
        assert!(queued.iter().copied().eq(1..=queued.len() as u64), "{queued:?}");
        let published = before..=self.clock.last_commit().0;
        assert!(published.contains(&(queued.len() as u64)), "{queued:?} of {published:?}");
    }

    fn gather_and_take(&self) {
        self.history.gather(&self.clock);
        let taken = self.history.take_while(|_| true);
        self.taken.borrow_mut().extend(taken.iter().map(|log| log.no.0));
    }
}

#[test]
pub(super) fn all_logs_up_to_the_last_commit_are_gathered() {
    // The first two do the same.
    let orders = [[0, 1, 2], [0, 2, 1], [2, 0, 1]];
    explore(2, &orders, Model::new, [Model::commit, Model::commit, Model::gather], |model| {
        model.gather();
        assert_eq!(model.queued(), [1, 2]);
        assert_eq!((model.history.len(), model.history.pages()), (2, 2));
    });
}

/// The first and the third thread have one list.
#[test]
pub(super) fn a_list_is_gathered_in_the_order_of_its_commits() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2]];
    explore(2, &orders, Model::new, [Model::commit, Model::gather, Model::commit], |model| {
        model.gather();
        assert_eq!(model.queued(), [1, 2]);
    });
}

/// Two threads gather at a time, and one of them takes what is first.
#[test]
fn logs_leave_in_the_order_of_their_commits() {
    let gather = |model: &Model| model.history.gather(&model.clock);
    let make = || {
        let model = Model::new();
        model.commit();
        model
    };
    explore(2, &ALL_ORDERS, make, [Model::commit, gather, Model::gather_and_take], |model| {
        model.gather_and_take();
        assert_eq!(*model.taken.borrow(), [1, 2]);
        assert_eq!((model.history.len(), model.history.pages()), (0, 0));
    });
}
