//! The allowance of each group of threads: log space that is set aside for its tickets while the
//! log has plenty of room.
//!
//! The exact sum of all tickets is a line of memory that every change of a page would write to
//! twice, once when the ticket is taken and once when it is given back. So while there is plenty of
//! room, a ticket is counted by its group of threads alone:
//!
//! 1. A group's tickets are never more than its *share*. All shares together are the *allowance*,
//!    half a segment.
//! 2. There is *plenty of room* if the class's limit allows twice the allowance beyond what is
//!    promised exactly and beyond the *horizon*, an LSN a little ahead of the end of the log, and
//!    if the segments for it exist. Once the allowance is for the tickets of the groups; once it is
//!    for what a thread cannot know: tickets that are granted while it reads.
//! 3. A ticket larger than what its group has left is counted exactly, and granted if there is
//!    plenty of room.
//! 4. A thread that finds less than plenty marks the log *crowded*. While it is crowded, all
//!    tickets are counted exactly, and the groups are asked how much they have out.
//! 5. The thread that finds twice as much room as plenty, for users, ends that.
//!
//! Invariant *what a group grants is counted*: a group adds the bytes by a read-modify-write and
//! then reads the mark; a thread that counts sets the mark and then reads the groups by
//! read-modify-writes. Either the count has the bytes, or the group sees the mark and gives them
//! back, as a ticket is given back: a waiter that counted them is called. `tests/loom_space.rs`
//! explores this, and finds a group that does not see the mark (`crowded-not-seen`).
//!
//! The horizon moves in steps of a share, so its line is read by all and rarely written. A thread
//! that appends moves the horizon before it gives its ticket back: what is beyond the horizon is
//! still counted as a ticket.

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::config::Geometry;

/// Groups of threads. The model checkers explore one.
const GROUPS: usize = if cfg!(any(loom, shuttle)) { 1 } else { holdfast_metrics::GROUPS };

/// See the module.
pub struct Allowances {
    /// The bytes that each group's tickets promise.
    groups: [CachePadded<AtomicU64>; GROUPS],
    state: CachePadded<State>,
}

/// What all threads read, and few write.
struct State {
    horizon: AtomicU64,
    crowded: AtomicBool,
}

/// The bytes that are set aside for the groups together.
pub fn allowance(geometry: &Geometry) -> u64 {
    geometry.segment_data / 2
}

/// The bytes that one group's tickets may promise.
fn share(geometry: &Geometry) -> u64 {
    allowance(geometry) / GROUPS as u64
}

impl Allowances {
    /// Nothing is promised, the log ends at `next`.
    pub fn new(next: u64) -> Allowances {
        let state = State { horizon: AtomicU64::new(next), crowded: AtomicBool::new(false) };
        Allowances { groups: std::array::from_fn(|_| CachePadded::default()), state: CachePadded::new(state) }
    }

    /// The log has grown to `end`.
    #[inline]
    pub fn grown_to(&self, end: u64, geometry: impl FnOnce() -> Geometry) {
        if end > self.state.horizon.load(Ordering::Relaxed) {
            self.state.horizon.fetch_max(end + share(&geometry()), Ordering::AcqRel);
        }
    }

    /// An LSN that the end of the log has not passed, but for groups whose tickets are still out.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.state.horizon.load(Ordering::Acquire)
    }

    /// Counts `bytes` for the calling thread's group, and returns the count. `None` if they exceed
    /// the group's share. The caller asks afterwards whether the log is crowded.
    #[inline]
    pub fn try_add(&self, bytes: u64, geometry: &Geometry) -> Option<&AtomicU64> {
        let share = share(geometry);
        let group = &*self.groups[group()];
        let within = |held: u64| (held + bytes <= share).then_some(held + bytes);
        group.fetch_update(Ordering::AcqRel, Ordering::Relaxed, within).is_ok().then_some(group)
    }

    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.state.crowded.load(Ordering::Acquire) && !holdfast_base::planted!("crowded-not-seen")
    }

    /// Marks the log crowded and returns what all groups have out. From then on a group that adds
    /// sees the mark.
    pub fn crowd(&self) -> u64 {
        self.state.crowded.swap(true, Ordering::AcqRel);
        self.groups.iter().map(|group| group.fetch_add(0, Ordering::AcqRel)).sum()
    }

    /// Groups grant tickets again.
    pub fn end_crowd(&self) {
        let _ = self.state.crowded.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// What all groups have out.
    pub fn held(&self) -> u64 {
        self.groups.iter().map(|group| group.load(Ordering::Acquire)).sum()
    }
}

#[cfg(not(any(loom, shuttle)))]
fn group() -> usize {
    holdfast_metrics::thread_group()
}

#[cfg(any(loom, shuttle))]
fn group() -> usize {
    0
}
