//! Atomics of another crate with something around each access, for the model checker and the
//! simulation.

/// Defines atomics that are those of a module, and pass each access, with its orderings, to a
/// function: `fn around<R>(orders: &[Ordering], access: impl FnOnce() -> R) -> R`. `const` behind
/// that, if theirs can be made so. The type `Loads` of the caller's module stands beside each value
/// and is told before it is loaded (`note`).
macro_rules! wrapped_atomics {
    ($($inner:ident)::+, $around:ident $(, $const:ident)?) => {
        wrapped_atomics!(@any AtomicBool, bool, [$($inner)::+], $around, [$($const)?]);
        wrapped_atomics!(@number AtomicU8, u8, [$($inner)::+], $around, [$($const)?]);
        wrapped_atomics!(@number AtomicU16, u16, [$($inner)::+], $around, [$($const)?]);
        wrapped_atomics!(@number AtomicU32, u32, [$($inner)::+], $around, [$($const)?]);
        wrapped_atomics!(@number AtomicU64, u64, [$($inner)::+], $around, [$($const)?]);
        wrapped_atomics!(@number AtomicUsize, usize, [$($inner)::+], $around, [$($const)?]);
    };
    (@any $name:ident, $value:ty, [$($inner:ident)::+], $around:ident, [$($const:ident)?]) => {
        /// As that of `std`; see the module.
        #[derive(Debug, Default)]
        pub struct $name($($inner)::+::$name, Loads);

        #[allow(missing_docs, clippy::missing_errors_doc)]
        impl $name {
            #[track_caller]
            pub $($const)? fn new(value: $value) -> $name {
                $name($($inner)::+::$name::new(value), Loads::new())
            }
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.1.note();
                $around(&[order], || self.0.load(order))
            }
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                $around(&[order], || self.0.store(value, order))
            }
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                $around(&[order], || self.0.swap(value, order))
            }
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                $around(&[success, failure], || self.0.compare_exchange(current, new, success, failure))
            }
            /// Does not fail without a reason: a run is repeated to the bit.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                $around(&[order], || self.0.fetch_or(value, order))
            }
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                $around(&[order], || self.0.fetch_and(value, order))
            }
        }
    };
    (@number $name:ident, $value:ty, [$($inner:ident)::+], $around:ident, [$($const:ident)?]) => {
        wrapped_atomics!(@any $name, $value, [$($inner)::+], $around, [$($const)?]);

        #[allow(missing_docs, clippy::missing_errors_doc)]
        impl $name {
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                $around(&[order], || self.0.fetch_add(value, order))
            }
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                $around(&[order], || self.0.fetch_sub(value, order))
            }
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                $around(&[order], || self.0.fetch_max(value, order))
            }
            #[track_caller]
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                $around(&[order], || self.0.fetch_min(value, order))
            }
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.1.note();
                $around(&[success, failure], || self.0.fetch_update(success, failure, update))
            }
        }
    };
}
