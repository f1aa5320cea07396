//! The pages that the threads of `readahead` are to bring in.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_base::PageNo;
use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_policy::Touch;

use crate::resident::space::Space;

/// Most pages of a batch.
pub(crate) const BATCH: usize = 64;

/// A page to be read.
pub(crate) struct Job {
    pub(crate) space: Arc<Space>,
    pub(crate) no: PageNo,
    pub(crate) touch: Touch,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) in_progress: usize,
    pub(crate) stopped: bool,
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct ReadAheadQueue {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
    idle: Condvar,
}

impl ReadAheadQueue {
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.jobs.clear();
        drop(state);
        self.changed.notify_all();
        self.idle.notify_all();
    }

    /// The next jobs, all of one space.
    pub(crate) fn next(&self) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(first) = state.jobs.front() {
                let space = first.space.id();
                let same = state.jobs.iter().take(BATCH).take_while(|job| job.space.id() == space).count();
                state.in_progress += same;
                let jobs = state.jobs.drain(..same).collect();
                if !state.jobs.is_empty() {
                    // Only one thread was woken, which is enough for a batch.
                    self.changed.notify_one();
                }
                return Some(jobs);
            }
            self.changed.wait(&mut state);
        }
    }

    pub(crate) fn done(&self, jobs: usize) {
        let mut state = self.state.lock();
        state.in_progress -= jobs;
        if state.in_progress == 0 && state.jobs.is_empty() {
            self.idle.notify_all();
        }
    }

    /// Waits until nothing is queued or being read.
    pub(crate) fn wait_idle(&self) {
        let mut state = self.state.lock();
        while !state.stopped && (state.in_progress > 0 || !state.jobs.is_empty()) {
            self.idle.wait(&mut state);
        }
    }
}
