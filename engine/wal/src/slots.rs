//! The writers between appending a group and registering its pages as dirty.
//!
//! A checkpoint at LSN `c` promises that every change below `c` is in the data files. A page that
//! is registered as dirty bounds `c` by its first unwritten change. A writer that has appended its
//! group but not yet registered its pages is not among them, so it publishes a lower bound of its
//! start in a slot.
//!
//! Protocol. Writer: `enter` (reads `next_lsn`, stores it in a free slot), append (a fetch-add on
//! `next_lsn`), register the pages, drop the slot. Checkpointer: read `next_lsn`, then the slots
//! ([`WriterSlots::oldest`]), *then* the oldest dirty page; take the minimum.
//!
//! Claim: a writer whose pages the checkpointer does not see as dirty starts at or above that
//! minimum. Let the checkpointer have read `w` from `next_lsn`, and consider what it then read from
//! the writer's slot:
//!
//! * The bound. It was read from `next_lsn` before the writer's own fetch-add, hence is not above
//!   its start.
//! * A value from before the bound was stored. Suppose the writer's start were below `w`. Then the
//!   checkpointer's acquire load of `next_lsn` read a value written by the writer's fetch-add or by
//!   a later one; all writes to `next_lsn` are read-modify-writes, so that load synchronises with
//!   the writer's (release) fetch-add, the slot's store happens before the checkpointer's read of
//!   the slot, and the read could not have missed it. So the start is at or above `w`, which is at
//!   or above the minimum.
//! * A value from after the slot was freed. Freeing is a release operation (later bounds and marks
//!   continue its release sequence, being read-modify-writes), so the pages'
//!   registration happens before the checkpointer looks at the dirty pages: it sees them there,
//!   unless they have been written since.
//!
//! Invariant *a writer that holds up the checkpoint ends with a call*: a checkpointer that needs
//! room first marks the slots with smaller bounds ([`WriterSlots::watch`]), and then reads them. A
//! writer whose slot it still sees leaves a marked slot, and calls the checkpointer.
//!
//! `tests/loom_slots.rs` explores this, and finds a slot that is left in two steps
//! (`slot-left-in-two-steps`).

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::sync::yield_now;

/// The value of a slot that no writer uses.
const FREE: u64 = u64::MAX;
/// The bit of a bound that says that the checkpointer waits for the writer. No group starts at an
/// odd LSN.
const WATCHED: u64 = 1;

/// The slots of the writers; see the module.
pub struct WriterSlots {
    slots: Box<[CachePadded<AtomicU64>]>,
}

impl WriterSlots {
    /// Creates `count` slots. If more writers than that run at one time, the others wait. A writer
    /// waits for nothing that another writer could hold while it holds a slot.
    pub fn new(count: usize) -> WriterSlots {
        WriterSlots { slots: (0..count).map(|_| CachePadded::new(AtomicU64::new(FREE))).collect() }
    }

    /// Publishes a bound read from `next_lsn`. Returns the slot's number for
    /// [`WriterSlots::leave`].
    pub fn enter(&self, next_lsn: &AtomicU64) -> usize {
        let home = home();
        loop {
            for i in 0..self.slots.len() {
                let number = (home + i) % self.slots.len();
                let slot = &self.slots[number];
                if slot.load(Ordering::Relaxed) != FREE {
                    continue;
                }
                let bound = next_lsn.load(Ordering::Relaxed);
                debug_assert_eq!(bound & WATCHED, 0, "a group starts at an odd LSN");
                if slot.compare_exchange(FREE, bound, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return number;
                }
            }
            yield_now();
        }
    }

    /// Frees a slot, after the writer's pages are registered. Returns whether the checkpointer
    /// waits for that.
    #[must_use = "the checkpointer may wait for a call"]
    pub fn leave(&self, number: usize) -> bool {
        if holdfast_base::planted!("slot-left-in-two-steps") {
            let marked = self.slots[number].load(Ordering::Acquire) & WATCHED != 0;
            self.slots[number].store(FREE, Ordering::Release);
            return marked;
        }
        self.slots[number].swap(FREE, Ordering::AcqRel) & WATCHED != 0
    }

    /// Marks the slots of the writers that may start below `lsn`. Their [`WriterSlots::leave`]
    /// returns true.
    pub fn watch(&self, lsn: u64) {
        for slot in &self.slots {
            let mark = |bound| (bound < lsn).then_some(bound | WATCHED);
            let _ = slot.fetch_update(Ordering::AcqRel, Ordering::Relaxed, mark);
        }
    }

    /// Returns a bound below which no writer that still holds a slot can start.
    pub fn oldest(&self, next_lsn: &AtomicU64) -> u64 {
        // `next_lsn` first: the proof in the module needs this order.
        let next = next_lsn.load(Ordering::Acquire);
        self.slots.iter().fold(next, |oldest, slot| oldest.min(slot.load(Ordering::Acquire) & !WATCHED))
    }
}

/// The slot that the calling thread tries first, so that threads keep to their own cache lines.
#[cfg(not(any(loom, shuttle)))]
fn home() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HOME: usize = THREADS.fetch_add(1, Relaxed));
    HOME.with(|home| *home)
}

/// The model checkers need every run to be the same.
#[cfg(any(loom, shuttle))]
fn home() -> usize {
    0
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_writer_bounds() {
        let next = AtomicU64::new(100);
        let slots = WriterSlots::new(4);
        assert_eq!(slots.oldest(&next), 100);
        let first = slots.enter(&next);
        next.store(200, Ordering::Relaxed);
        let second = slots.enter(&next);
        assert_eq!(slots.oldest(&next), 100);
        assert!(!slots.leave(first));
        assert_eq!(slots.oldest(&next), 200);
        next.store(300, Ordering::Relaxed);
        assert!(!slots.leave(second));
        assert_eq!(slots.oldest(&next), 300);
    }

    #[test]
    fn a_full_table_makes_writers_wait() {
        let next = AtomicU64::new(32);
        let slots = WriterSlots::new(1);
        let held = slots.enter(&next);
        std::thread::scope(|s| {
            let other = s.spawn(|| slots.leave(slots.enter(&next)));
            assert!(!slots.leave(held));
            assert!(!other.join().unwrap());
        });
        assert_eq!(slots.oldest(&next), 32);
    }

    #[test]
    fn a_writer_that_is_watched_says_so_at_its_end() {
        let next = AtomicU64::new(64);
        let slots = WriterSlots::new(4);
        let early = slots.enter(&next);
        next.store(128, Ordering::Relaxed);
        let late = slots.enter(&next);
        slots.watch(128);
        assert_eq!(slots.oldest(&next), 64);
        assert!(slots.leave(early));
        assert!(!slots.leave(late));
        assert_eq!(slots.oldest(&next), 128);
    }
}
