//! The mark of a request to flush the log soon: while it is raised, a commit need not request
//! anything.
//!
//! Invariant *a requested flush has the commit*: a commit appends and then reads the mark; the
//! flusher lowers the mark and then reads the end of the log; both with a fence in between. So the
//! flush that follows has a commit that finds the mark raised, or the commit raises it again.
//!
//! `tests/loom_flush_mark.rs` explores this, and finds a mark that is lowered without a fence
//! (`flush-mark-unfenced`).

use holdfast_base::sync::atomic::{AtomicBool, Ordering, fence};

/// See the module.
#[derive(Default)]
pub struct FlushMark(AtomicBool);

impl FlushMark {
    /// True if what the caller has appended will be flushed without a request.
    #[inline]
    pub fn is_raised(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }

    /// Raises the mark. Returns false if it was raised: what the caller has appended will be
    /// flushed then, too.
    pub fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    /// Lowers the mark, before the caller reads how far the log goes.
    pub fn lower(&self) {
        self.0.swap(false, Ordering::SeqCst);
        if !holdfast_base::planted!("flush-mark-unfenced") {
            fence(Ordering::SeqCst);
        }
    }
}
