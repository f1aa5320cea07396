//! Checks the invariant **no wait under a latch**: a thread that waits for a frame, for room in the
//! log, or for a lock holds no page latch.
//!
//! Otherwise the thread might wait for itself: the page that it has latched may be the one to be
//! evicted, or the one that holds back the checkpoint. A counter per thread counts its latches, and
//! each function that waits asserts that the count is zero. In release builds, under the model
//! checkers (whose threads share one of the system's) and under Miri (where optimistic readers hold
//! latches) these functions do nothing.
//!
//! A latch holder may wait for the latch of a page that comes later in the latch order, and for the
//! end of an I/O that another thread does without needing a latch. Frames for pages that are
//! latched together are reserved before the first of them is latched.

#[cfg(all(debug_assertions, not(any(loom, shuttle, miri))))]
mod count {
    use std::cell::Cell;

    thread_local!(static HELD: Cell<u32> = const { Cell::new(0) });

    pub fn took() {
        HELD.set(HELD.get() + 1);
    }

    pub fn gave() {
        debug_assert!(HELD.get() > 0, "a thread releases a latch that another thread acquired");
        HELD.set(HELD.get() - 1);
    }

    pub fn held() -> u32 {
        HELD.get()
    }
}

#[cfg(not(all(debug_assertions, not(any(loom, shuttle, miri)))))]
mod count {
    #[inline]
    pub fn took() {}

    #[inline]
    pub fn gave() {}

    #[inline]
    pub fn held() -> u32 {
        0
    }
}

/// Counts a page latch that the calling thread has acquired.
#[inline]
pub fn took() {
    count::took();
}

/// Counts a page latch that the calling thread has released.
///
/// # Panics
/// In debug builds, if it holds none.
#[inline]
pub fn gave() {
    count::gave();
}

/// The number of page latches that the calling thread holds; 0 where they are not counted.
#[inline]
#[must_use]
pub fn held() -> u32 {
    count::held()
}

/// To be called before the calling thread waits, or may wait, for `what`.
///
/// # Panics
/// In debug builds, if it holds a page latch.
#[inline]
pub fn none_while_waiting_for(what: &str) {
    debug_assert!(held() == 0, "no wait under a latch: waits for {what} with {} latches held", held());
}

#[cfg(all(test, debug_assertions, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    #[test]
    fn each_thread_counts_its_own() {
        took();
        took();
        gave();
        assert_eq!(held(), 1);
        assert_eq!(std::thread::spawn(held).join().unwrap(), 0);
        gave();
        none_while_waiting_for("a frame");
    }

    #[test]
    #[should_panic(expected = "no wait under a latch: waits for a frame with 1 latches held")]
    fn a_wait_under_a_latch_is_told() {
        took();
        none_while_waiting_for("a frame");
    }
}
