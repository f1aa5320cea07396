//! Loads of atomics that loom knows of.
//!
//! loom explores the orders of two accesses if one of them is the last access to the same atomic
//! before the other. It remembers one last access. So a thread that loads an atomic and then
//! changes it hides the loads of other threads before: loom never has the change come first. In a
//! model of which one thread loads only, and another loads and then changes, it explored one order.
//!
//! Here each load first does a read-modify-write of another atomic, which belongs to the first. It
//! is relaxed, so it orders nothing for the model's threads, and loom explores the orders of loads,
//! and with them those of what follows. That takes up to six times as long: with
//! `HOLDFAST_MODEL=short` in the environment loads are as loom has them.

use std::sync::OnceLock;

use loom::sync::atomic::{AtomicBool, Ordering};

fn is_short() -> bool {
    static SHORT: OnceLock<bool> = OnceLock::new();
    *SHORT.get_or_init(|| std::env::var_os("HOLDFAST_MODEL").is_some_and(|kind| kind == "short"))
}

/// Makes the loads of the atomic that it stands beside known to loom.
#[derive(Debug, Default)]
pub struct Loads(AtomicBool);

impl Loads {
    #[track_caller]
    pub fn new() -> Loads {
        Loads(AtomicBool::new(false))
    }

    /// Tells loom that the caller is about to load the atomic.
    #[track_caller]
    pub fn note(&self) {
        if !is_short() {
            self.0.swap(false, Ordering::Relaxed);
        }
    }
}
