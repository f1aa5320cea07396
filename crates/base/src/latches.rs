//! The instrument behind the invariant **no wait under a latch**: a thread that waits for a frame,
//! for room in the log, or for a lock holds no page latch.
//!
//! Such a wait may be a wait for the waiter: its page may be the one that is to leave its frame, or
//! the one that holds the checkpoint. The latches count themselves, per thread; each waiting place
//! asserts that the count is zero. In release builds, under the model checkers (whose threads share
//! one of the system's) and under Miri (where optimistic readers hold latches) all of it is empty.
//!
//! Waits that a holder may do: for the latch of a page that comes later in the order, and for the
//! end of an I/O that some other thread does without needing a latch. Frames for pages that are
//! latched together are reserved before the first of them is latched.

#[cfg(all(debug_assertions, not(any(loom, shuttle, miri))))]
mod count {
    use std::cell::Cell;

    thread_local!(static HELD: Cell<u32> = const { Cell::new(0) });

    pub fn took() {
        HELD.set(HELD.get() + 1);
    }

    pub fn gave() {
        debug_assert!(HELD.get() > 0, "a thread gives a latch back that another thread took");
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

/// The calling thread has taken a page latch.
#[inline]
pub fn took() {
    count::took();
}

/// The calling thread has given a page latch back.
///
/// # Panics
/// In debug builds, if it holds none.
#[inline]
pub fn gave() {
    count::gave();
}

/// Page latches that the calling thread holds; 0 where they are not counted.
#[inline]
#[must_use]
pub fn held() -> u32 {
    count::held()
}

/// The calling thread is about to wait for `what`, or may have to.
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
