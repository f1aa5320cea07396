//! Floor 1: locks on rows, ranges and tables, and the search for deadlocks.
//!
//! A changed row is locked by the transaction id in it; no lock is entered anywhere. Only a
//! transaction that has to *wait* for such a row enters a lock on behalf of the row's owner and
//! queues behind it. Locking reads enter their locks at once, and a transaction that then changes
//! the row releases the entered lock again: a statement that changes a million rows holds a few
//! locks at a time. A cursor that reads many rows holds one lock over all of them (see `cover`).
//!
//! # Protocol
//! * **Writers** ask [`LockManager::blocked`] under the latch of the leaf, before they put their id
//!   into the row. **Locking readers** enter their lock first and read the row afterwards. One of
//!   the two sees the other.
//! * **A rollback to a savepoint** enters the lock of a row under the latch under which its id
//!   leaves the row ([`LockManager::keep_row`]). A reader that was granted a lock before, but reads
//!   afterwards, learns of it by [`LockManager::taken_back`].
//! * A waiter enters the owner's implicit lock under the shard's mutex after asking again whether
//!   the owner is still active; an owner that ends publishes its end first and closes its list of
//!   locks then. So either the waiter sees the end, or the owner finds the lock in its list, or the
//!   list is closed and the waiter starts over.
//! * A transaction that starts to wait searches for a cycle, one at a time, after the next searcher
//!   can see its request. So does a thread that enters a lock for an owner that waits itself: the
//!   waiters in that queue have begun to wait for that owner without a search of theirs.
//! * A waiter whose observer knows the order of commits reports its blockers again whenever a
//!   transaction comes to be before it: the queue wakes it. The observer must be called by the
//!   thread that waits.
//! * Memory over the budget: a transaction that holds many rows of one index gets a table lock
//!   instead, if that is free. It stands for every key that no other transaction has locked; locks
//!   of others on single rows are still respected one by one.
//!
//! # Lock order
//! graph -> shard -> tables or covers -> (wait state -> held list) of one owner. Waiters of a queue
//! are told of news one after the other, while no wait state or held list is locked. Range locks
//! have a mutex of their own that is ordered like a shard. The reading of a cursor comes before it,
//! and is taken under nothing. No page latch is ever taken under any of these; they may be taken
//! under page latches, but no thread waits for a lock while it holds a latch.

#![forbid(unsafe_code)]

mod by_index;
mod cover;
mod cover_locks;
mod deadlock;
mod info;
mod interval;
mod manager;
mod mode;
mod observer;
mod owner;
mod queue;
mod range;
mod range_locks;
mod reading;
mod reading_locks;
mod report;
mod row_locks;
mod rows;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod table;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use cover::CoverId;
pub use info::{
    DeadlockParty, DeadlockReport, FindSession, LockInfo, LockKind, LockWaitInfo, Serial, Session, WantedLock,
};
pub use interval::KeyRange;
pub use manager::LockManager;
pub use mode::{LockMode, LockWait};
pub use observer::{WaitInterest, WaitObserver};
pub use owner::{IndexChanges, Owner};
pub use reading::Reading;
pub use row_locks::{Entered, Implicit};
