//! loom's atomics, with `SeqCst` accesses as strong as they are.
//!
//! loom takes a `SeqCst` access for an `AcqRel` one, so it reports faults that no machine has. It
//! knows `SeqCst` fences. A `SeqCst` access is therefore one with a fence, in front of it or
//! [behind](put_fences_behind) it: both are ways in which processors without such accesses make
//! them. Code that is right is right with both; a `SeqCst` that is missing is missed with one.

use std::cell::Cell;

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

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// As that of `std`, explored by loom.
        #[derive(Debug, Default)]
        pub struct $name(loom::sync::atomic::$name);

        #[allow(missing_docs, clippy::missing_errors_doc)]
        impl $name {
            #[track_caller]
            pub fn new(value: $value) -> $name {
                $name(loom::sync::atomic::$name::new(value))
            }
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                access(&[order], || self.0.load(order))
            }
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                access(&[order], || self.0.store(value, order))
            }
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                access(&[order], || self.0.swap(value, order))
            }
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                access(&[success, failure], || self.0.compare_exchange(current, new, success, failure))
            }
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                access(&[success, failure], || self.0.compare_exchange_weak(current, new, success, failure))
            }
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                access(&[order], || self.0.fetch_or(value, order))
            }
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                access(&[order], || self.0.fetch_and(value, order))
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        #[allow(missing_docs, clippy::missing_errors_doc)]
        impl $name {
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                access(&[order], || self.0.fetch_add(value, order))
            }
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                access(&[order], || self.0.fetch_sub(value, order))
            }
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                access(&[order], || self.0.fetch_max(value, order))
            }
            #[track_caller]
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                access(&[order], || self.0.fetch_min(value, order))
            }
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                access(&[success, failure], || self.0.fetch_update(success, failure, update))
            }
        }
    };
}

atomic!(AtomicBool, bool);
number!(AtomicU8, u8);
number!(AtomicU16, u16);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);
