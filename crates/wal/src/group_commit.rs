//! Group commit by a leader: one sync makes many callers' LSNs durable, on a caller's thread.
//!
//! Protocol. A caller whose LSN is not durable takes the lock. If nobody leads, it leads: it takes everything that
//! was asked for so far as its target, works (writes and syncs) without the lock, publishes the new durable LSN and
//! wakes the batch that it served. If somebody leads, it waits: with the batch being served if the leader's target
//! covers it, otherwise with the next batch. There are two condition variables, one for each of these batches,
//! changing places whenever somebody begins to lead; so a sync wakes those that it served, and one more, who leads
//! next.
//!
//! Invariant: while callers wait, somebody leads, or one of the waiting has been woken and not run yet. Whoever
//! leaves while nobody leads wakes one of those that still wait.
//!
//! Lock order: the lock is a leaf; it is not held during the work. `tests/loom_group_commit.rs` explores the
//! hand-over.

use crossbeam_utils::CachePadded;
use holdfast_base::Result;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::sync::{Condvar, Mutex};

/// See the module.
pub struct GroupCommit {
    durable: CachePadded<AtomicU64>,
    state: Mutex<State>,
    batches: [Condvar; 2],
}

struct State {
    leading: bool,
    /// What the leader makes durable at least.
    target: u64,
    /// The greatest LSN asked for.
    wanted: u64,
    /// Index of the batch that gathers for the next leader; the other one is being served.
    gathering: usize,
    waiting: [usize; 2],
}

impl GroupCommit {
    /// Everything below `durable` is durable.
    pub fn new(durable: u64) -> GroupCommit {
        let state = State { leading: false, target: 0, wanted: 0, gathering: 0, waiting: [0; 2] };
        GroupCommit {
            durable: CachePadded::new(AtomicU64::new(durable)),
            state: Mutex::new(state),
            batches: [Condvar::new(), Condvar::new()],
        }
    }

    /// What is durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Sets what is durable, while nobody flushes (at open).
    pub fn set_durable(&self, lsn: u64) {
        self.durable.store(lsn, Ordering::Release);
    }

    /// Returns when everything below `lsn` is durable. `work(target)` makes durable at least what is below `target`
    /// and returns what is; `stop` fails when there is no use in waiting on.
    ///
    /// # Errors
    /// Of `work`, for the caller that led (those that it would have served try themselves), and of `stop`.
    pub fn flush_to(&self, lsn: u64, work: impl Fn(u64) -> Result<u64>, stop: impl Fn() -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        let result = loop {
            if let Err(e) = stop() {
                break Err(e);
            }
            if self.durable() >= lsn {
                break Ok(());
            }
            state.wanted = state.wanted.max(lsn);
            if state.leading {
                let batch = if lsn <= state.target { state.gathering ^ 1 } else { state.gathering };
                state.waiting[batch] += 1;
                state = self.batches[batch].wait(state);
                state.waiting[batch] -= 1;
                continue;
            }
            let (target, batch) = (state.wanted, state.gathering);
            (state.leading, state.target, state.gathering) = (true, target, batch ^ 1);
            drop(state);
            let done = work(target);
            if let Ok(durable) = done {
                self.durable.store(durable, Ordering::Release);
            }
            state = self.state.lock();
            state.leading = false;
            self.batches[batch].notify_all();
            break done.map(|_| ());
        };
        let batches = [state.gathering, state.gathering ^ 1].into_iter();
        let next = batches.filter(|_| !state.leading).find(|&batch| state.waiting[batch] > 0);
        if let Some(batch) = next {
            self.batches[batch].notify_one();
        }
        result
    }

    /// Wakes all who wait, so that they ask `stop` again.
    pub fn wake_all(&self) {
        let _state = self.state.lock();
        self.batches.iter().for_each(Condvar::notify_all);
    }
}
