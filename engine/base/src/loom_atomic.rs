//! loom's atomics, with `SeqCst` accesses as strong as they are, and loads that loom knows of
//! ([`crate::loom_reads`]).
//!
//! loom takes a `SeqCst` access for an `AcqRel` one, so it reports faults that no machine has. It
//! knows `SeqCst` fences. A `SeqCst` access is therefore one with a fence, in front of it or
//! [behind](put_fences_behind) it: both are ways in which processors without such accesses make
//! them. Code that is right is right with both; a `SeqCst` that is missing is missed with one.

use std::cell::Cell;

use crate::loom_reads::Loads;

pub use loom::sync::atomic::{Ordering, fence};

thread_local!(static BEHIND: Cell<bool> = const { Cell::new(false) });

/// From now on, `SeqCst` accesses of models that this thread explores have their fences behind
/// them, or in front.
pub fn put_fences_behind(behind: bool) {
    BEHIND.set(behind);
}

fn access<R>(orders: &[Ordering], access: impl FnOnce() -> R) -> R {
    let is_seq_cst = orders.contains(&Ordering::SeqCst);
    if is_seq_cst && !BEHIND.get() {
        fence(Ordering::SeqCst);
    }
    let result = access();
    if is_seq_cst && BEHIND.get() {
        fence(Ordering::SeqCst);
    }
    result
}

wrapped_atomics!(loom::sync::atomic, access);
