//! The free list, and how threads wait for frames without a timer.
//!
//! **Waiting.** A thread that needs a frame registers as a waiter *before* it looks for one. A
//! thread that makes a frame available, or evictable (a page came in, a write was completed), calls
//! [`Supply::event`], which does nothing unless a thread waits. So an event between the look and
//! the wait is not missed.
//!
//! **Shrinking.** Frames at or above `active` do not go back to the list: they are counted as
//! retired.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use holdfast_base::blocking::{Condvar, Mutex};

struct State {
    free: Vec<u32>,
    active: u32,
    /// Frames at or above `active` that are not in use any more.
    retired: Vec<u32>,
    events: u64,
}

/// See the module's description.
pub(crate) struct Supply {
    state: Mutex<State>,
    changed: Condvar,
    waiters: AtomicU32,
    free_len: AtomicU32,
    active: AtomicU32,
}

/// A registered waiter.
pub(crate) struct Waiter<'a> {
    supply: &'a Supply,
    seen: u64,
}

impl Supply {
    /// All frames below `active` are free.
    pub(crate) fn new(active: u32) -> Supply {
        let free: Vec<u32> = (0..active).rev().collect();
        Supply {
            free_len: AtomicU32::new(active),
            active: AtomicU32::new(active),
            state: Mutex::new(State { free, active, retired: Vec::new(), events: 0 }),
            changed: Condvar::new(),
            waiters: AtomicU32::new(0),
        }
    }

    /// Frames in the list. Only a hint.
    pub(crate) fn free_len(&self) -> u32 {
        self.free_len.load(Ordering::Relaxed)
    }

    /// Frames of the pool.
    pub(crate) fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// A free frame, if there is one.
    pub(crate) fn take(&self) -> Option<u32> {
        if self.free_len() == 0 {
            return None;
        }
        let mut state = self.state.lock();
        let frame = state.free.pop();
        self.free_len.store(state.free.len() as u32, Ordering::Relaxed);
        frame
    }

    /// Takes up to `n` free frames at once.
    pub(crate) fn take_some(&self, n: usize, out: &mut Vec<u32>) {
        if self.free_len() == 0 {
            return;
        }
        let mut state = self.state.lock();
        let rest = state.free.len() - n.min(state.free.len());
        out.extend(state.free.drain(rest..).rev());
        self.free_len.store(state.free.len() as u32, Ordering::Relaxed);
    }

    /// Returns frames; nothing refers to them any more.
    pub(crate) fn give(&self, frames: &[u32]) {
        if frames.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for &f in frames {
            if f < state.active {
                state.free.push(f);
            } else {
                state.retired.push(f);
            }
        }
        self.free_len.store(state.free.len() as u32, Ordering::Relaxed);
        drop(state);
        self.event();
    }

    /// A frame may have become available or evictable.
    pub(crate) fn event(&self) {
        // Pairs with the fence in `waiter`: either the waiter is seen here, or it sees what
        // happened before.
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 && !holdfast_base::planted!("frame-event-lost") {
            self.state.lock().events += 1;
            self.changed.notify_all();
        }
    }

    /// Registers the calling thread as a waiter.
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Waiter { supply: self, seen: self.state.lock().events }
    }

    /// Makes the pool larger; returns how many frames it had.
    pub(crate) fn grow(&self, to: u32) -> u32 {
        let mut state = self.state.lock();
        let from = state.active;
        if to > from {
            state.free.extend((from..to).rev());
            state.active = to;
            self.active.store(to, Ordering::Relaxed);
            self.free_len.store(state.free.len() as u32, Ordering::Relaxed);
        }
        drop(state);
        self.event();
        from
    }

    /// Makes the pool smaller; frames from `to` on that are free are retired at once. Returns how
    /// many frames it had.
    pub(crate) fn begin_shrink(&self, to: u32) -> u32 {
        let mut state = self.state.lock();
        let from = state.active;
        state.active = to;
        self.active.store(to, Ordering::Relaxed);
        let (free, retired) = std::mem::take(&mut state.free).into_iter().partition(|&f| f < to);
        state.free = free;
        state.retired.extend::<Vec<u32>>(retired);
        self.free_len.store(state.free.len() as u32, Ordering::Relaxed);
        from
    }

    /// True if all `count` frames of a shrink are retired; then forgets them.
    pub(crate) fn finish_shrink(&self, count: u32) -> bool {
        let mut state = self.state.lock();
        let done = state.retired.len() == count as usize;
        if done {
            state.retired.clear();
        }
        done
    }

    /// The shrink failed: the pool has `active` frames again.
    pub(crate) fn abort_shrink(&self, active: u32) {
        let mut state = self.state.lock();
        let retired = std::mem::take(&mut state.retired);
        state.free.extend(retired);
        state.active = active;
        self.active.store(active, Ordering::Relaxed);
        self.free_len.store(state.free.len() as u32, Ordering::Relaxed);
        drop(state);
        self.event();
    }
}

impl Waiter<'_> {
    /// Sleeps until something has happened since the last call (or since registration).
    pub(crate) fn sleep(&mut self) {
        let mut state = self.supply.state.lock();
        while state.events == self.seen {
            self.supply.changed.wait(&mut state);
        }
        self.seen = state.events;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.supply.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_around() {
        let s = Supply::new(3);
        assert_eq!([s.take(), s.take(), s.take(), s.take()], [Some(0), Some(1), Some(2), None]);
        s.give(&[1]);
        assert_eq!((s.take(), s.take()), (Some(1), None));
        s.give(&[2, 0, 1]);
        let mut some = Vec::new();
        s.take_some(2, &mut some);
        assert_eq!((some, s.take(), s.take()), (vec![1, 0], Some(2), None));
    }

    #[test]
    fn a_shrink_waits_for_frames_in_use() {
        let s = Supply::new(4);
        let in_use = s.take().unwrap();
        assert_eq!(s.begin_shrink(0), 4);
        assert!(!s.finish_shrink(4));
        s.give(&[in_use]);
        assert!(s.finish_shrink(4));
        assert_eq!(s.grow(2), 0);
        assert_eq!(s.take(), Some(0));
    }

    #[test]
    fn an_event_before_sleeping_is_not_missed() {
        let s = Supply::new(1);
        let frame = s.take().unwrap();
        let mut waiter = s.waiter();
        s.give(&[frame]);
        waiter.sleep();
        assert_eq!(s.take(), Some(frame));
    }
}
