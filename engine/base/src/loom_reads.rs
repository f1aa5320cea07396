//! loom's atomics, whose loads loom knows of.
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

use loom::sync::atomic::{AtomicBool as Mark, Ordering};

fn is_short() -> bool {
    static SHORT: OnceLock<bool> = OnceLock::new();
    *SHORT.get_or_init(|| std::env::var_os("HOLDFAST_MODEL").is_some_and(|kind| kind == "short"))
}

macro_rules! atomic_with_loads {
    ($name:ident $value:ty [$($method:ident)*]) => {
        #[derive(Debug, Default)]
        pub struct $name {
            value: loom::sync::atomic::$name,
            loads: Mark,
        }

        impl $name {
            #[track_caller]
            pub fn new(value: $value) -> $name {
                $name { value: loom::sync::atomic::$name::new(value), loads: Mark::new(false) }
            }
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                if !is_short() {
                    self.loads.swap(false, Ordering::Relaxed);
                }
                self.value.load(order)
            }
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.value.store(value, order);
            }
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.value.compare_exchange(current, new, success, failure)
            }
            $(
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    self.value.$method(value, order)
                }
            )*
        }
    };
}

macro_rules! numbers_with_loads {
    ($($name:ident $value:ty;)*) => {$(
        atomic_with_loads!($name $value [swap fetch_or fetch_and fetch_add fetch_sub fetch_max fetch_min]);

        impl $name {
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut current = self.load(failure);
                while let Some(new) = update(current) {
                    match self.value.compare_exchange(current, new, success, failure) {
                        Ok(_) => return Ok(current),
                        Err(now) => current = now,
                    }
                }
                Err(current)
            }
        }
    )*};
}

atomic_with_loads!(AtomicBool bool [swap fetch_or fetch_and]);
numbers_with_loads! {
    AtomicU8 u8;
    AtomicU16 u16;
    AtomicU32 u32;
    AtomicU64 u64;
    AtomicUsize usize;
}
